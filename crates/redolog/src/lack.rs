//! Resources that a log may lack for a while, without a fault of its own.

use std::fmt;
use std::io::{self, ErrorKind};

/// The resource that the next segment lacks (rule L8). It may come back by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Lack {
    /// Space on the device.
    Space,
    /// Space within the quota.
    Quota,
    /// File descriptors: the process may have no more.
    Descriptors,
    /// File descriptors: the system has no more.
    DescriptorsOfSystem,
    /// Space or descriptors at a majority of the log's copies.
    Copies,
}

impl Lack {
    const ALL: [Lack; 5] = [Lack::Space, Lack::Quota, Lack::Descriptors, Lack::DescriptorsOfSystem, Lack::Copies];

    /// The resource that is lacking by this error, if it is about one.
    pub fn of(error: &io::Error) -> Option<Lack> {
        match (error.kind(), error.raw_os_error()) {
            (ErrorKind::StorageFull, _) => Some(Lack::Space),
            (ErrorKind::QuotaExceeded, _) => Some(Lack::Quota),
            (_, Some(libc::EMFILE)) => Some(Lack::Descriptors),
            (_, Some(libc::ENFILE)) => Some(Lack::DescriptorsOfSystem),
            _ => None,
        }
    }

    /// The resource with this number.
    pub(crate) fn from_number(number: u8) -> Option<Lack> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// True if a shorter log would need less of it.
    pub fn is_of_disk(self) -> bool {
        matches!(self, Lack::Space | Lack::Quota | Lack::Copies)
    }
}

impl fmt::Display for Lack {
    /// The system's text for it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lack::Space => "No space left on device",
            Lack::Quota => "Disk quota exceeded",
            Lack::Descriptors => "Too many open files",
            Lack::DescriptorsOfSystem => "Too many open files in system",
            Lack::Copies => "No room for more at a majority of its copies",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_is_what_is_lacking() {
        for (number, lack) in [libc::ENOSPC, libc::EDQUOT, libc::EMFILE, libc::ENFILE].into_iter().zip(Lack::ALL) {
            let error = io::Error::from_raw_os_error(number);
            assert_eq!(Lack::of(&error), Some(lack));
            assert!(error.to_string().starts_with(&format!("{lack} (os error")), "{error}: {lack}");
            assert_eq!(Lack::from_number(lack as u8), Some(lack));
        }
        assert_eq!(Lack::of(&io::Error::from_raw_os_error(libc::EIO)), None);
        assert_eq!(Lack::from_number(Lack::ALL.len() as u8), None);
    }
}
