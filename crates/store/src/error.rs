//! The errors of stores.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The reason why a store did not carry out a call.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The disk is full, or files cannot be opened because too many are open. Nothing durable is lost, and the same
    /// call may be made again.
    NoSpace(String),
    /// A file is not as it was written. Nothing was changed.
    Damaged {
        /// Which file.
        file: PathBuf,
        /// Where in it, if that is known.
        offset: Option<u64>,
        /// The fault.
        what: String,
    },
    /// The folder holds other files, a newer format, another node's data, or a state older than required; or it is in
    /// use.
    Refused {
        /// Which folder.
        folder: PathBuf,
        /// Why.
        why: String,
    },
    /// An earlier failure was final: the text says which. Reads go on.
    Stopped(String),
    /// The operating system refused.
    Io {
        /// Which file or folder.
        file: PathBuf,
        /// Its error.
        what: String,
    },
    /// The batch asks for something that must not be asked for.
    Invalid(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSpace(what) => f.write_str(what),
            Self::Damaged { file, offset: Some(at), what } => {
                write!(f, "{} is damaged at byte {at}: {what}", file.display())
            }
            Self::Damaged { file, offset: None, what } => write!(f, "{} is damaged: {what}", file.display()),
            Self::Refused { folder, why } => write!(f, "{}: {why}", folder.display()),
            Self::Stopped(why) => write!(f, "the store takes no more writes: {why}"),
            Self::Io { file, what } => write!(f, "{}: {what}", file.display()),
            Self::Invalid(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    /// The operating system's error about a file.
    pub(crate) fn io(file: &Path, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::NoSpace(format!("no room on the disk: {}: {error}", file.display()))
            }
            _ if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                Self::NoSpace(format!("{}: {error}", file.display()))
            }
            io::ErrorKind::NotFound => Self::damaged(file, "it is missing"),
            io::ErrorKind::UnexpectedEof => Self::damaged(file, "it is too short"),
            _ => Self::Io { file: file.into(), what: error.to_string() },
        }
    }

    pub(crate) fn damaged(file: &Path, what: impl Into<String>) -> Self {
        Self::Damaged { file: file.into(), offset: None, what: what.into() }
    }

    pub(crate) fn refused(folder: &Path, why: impl Into<String>) -> Self {
        Self::Refused { folder: folder.into(), why: why.into() }
    }

    /// `lsm-tree`'s error about a file or folder.
    pub(crate) fn tree(file: &Path, error: &lsm_tree::Error) -> Self {
        match error {
            lsm_tree::Error::Io(error) => Self::io(file, error),
            lsm_tree::Error::ChecksumMismatch { .. } => Self::damaged(file, "a checksum does not match"),
            lsm_tree::Error::Decompress(_) => Self::damaged(file, "a block does not decompress"),
            other => Self::damaged(file, format!("{other:?}")),
        }
    }
}
