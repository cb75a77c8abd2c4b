//! Arguments that outlive the buffer they arrived in: MULTI's queue, blocked commands.

use crate::batch::{Args, Range};

/// A command's arguments, owned: one buffer and the positions in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedArgs {
    bytes: Box<[u8]>,
    ranges: Box<[Range]>,
}

impl OwnedArgs {
    /// A copy of `args`.
    pub fn new(args: Args<'_>) -> Self {
        args.iter().collect()
    }

    /// The arguments, borrowed.
    #[inline]
    pub fn args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.ranges)
    }

    /// Heap bytes.
    pub fn memory(&self) -> usize {
        self.bytes.len() + size_of_val(&*self.ranges)
    }
}

impl<T: AsRef<[u8]>> FromIterator<T> for OwnedArgs {
    /// # Panics
    /// If there are no arguments, or more than 4 GiB of them: a request has at least one and is at most that long.
    fn from_iter<I: IntoIterator<Item = T>>(args: I) -> Self {
        let mut bytes = Vec::new();
        let mut ranges = Vec::new();
        for arg in args {
            let arg = arg.as_ref();
            let start = u32::try_from(bytes.len()).expect("a request is at most 4 GiB");
            ranges.push(Range { start, len: arg.len() as u32 });
            bytes.extend_from_slice(arg);
        }
        assert!(!ranges.is_empty(), "a command has a name");
        Self { bytes: bytes.into(), ranges: ranges.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_back_what_went_in() {
        let owned: OwnedArgs = ["SET", "", "value"].into_iter().collect();
        let back: Vec<&[u8]> = owned.args().iter().collect();
        assert_eq!(back, [&b"SET"[..], b"", b"value"]);
        assert_eq!(OwnedArgs::new(owned.args()), owned);
    }
}
