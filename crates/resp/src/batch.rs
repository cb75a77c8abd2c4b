//! Decoded commands, flat: one vector of argument positions for all of them.

use std::ops::Index;

/// The place of an argument. 32 bits are enough because a request is at most 4 GiB (see [`crate::Decoder`]), and half
/// the size matters. A pipeline's positions should stay in the first-level cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub start: u32,
    pub len: u32,
}

/// Where the bytes of a command's arguments are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Home {
    /// In the buffer that was decoded.
    Wire,
    /// In the batch's scratch, from this offset on: inline arguments are unescaped.
    Scratch(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Command {
    first: usize,
    argc: usize,
    /// Wire position just after the command.
    end: u32,
    home: Home,
}

/// Commands decoded from one or several buffers, in order. Owned by a worker and reused, so that decoding allocates
/// nothing once the vectors have grown.
///
/// Positions are relative to the start of the buffer that was handed to [`crate::Decoder::decode`]. The caller may move
/// its bytes between decoding and [`Batch::args`] as long as the same bytes are handed back. A batch may hold commands
/// of several connections; the caller has to remember which range of commands belongs to which buffer.
#[derive(Debug, Default)]
pub struct Batch {
    pub(crate) ranges: Vec<Range>,
    pub(crate) scratch: Vec<u8>,
    commands: Vec<Command>,
}

/// The memory that [`Batch::clear`] keeps: for a pipeline of ordinary size, not the biggest ever seen.
const RANGES_KEPT: usize = 16 * 1024;
const COMMANDS_KEPT: usize = 4 * 1024;
const SCRATCH_KEPT: usize = 128 * 1024;

impl Batch {
    /// An empty batch; allocates nothing.
    pub const fn new() -> Self {
        Self { ranges: Vec::new(), scratch: Vec::new(), commands: Vec::new() }
    }

    /// Number of commands.
    #[inline]
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// True if there is no command.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Forgets all commands. Keeps the memory for the next, unless one giant request has blown it up.
    #[inline]
    pub fn clear(&mut self) {
        self.ranges.clear();
        self.scratch.clear();
        self.commands.clear();
        if self.ranges.capacity() > RANGES_KEPT {
            self.ranges.shrink_to(RANGES_KEPT);
        }
        if self.scratch.capacity() > SCRATCH_KEPT {
            self.scratch.shrink_to(SCRATCH_KEPT);
        }
        if self.commands.capacity() > COMMANDS_KEPT {
            self.commands.shrink_to(COMMANDS_KEPT);
        }
    }

    /// Appends a command with copies of its arguments, for a command that outlives its buffer (`MULTI`) or never was in
    /// one (scripts). [`Batch::args`] then needs no buffer: give it an empty one.
    ///
    /// False, and nothing is appended, if there is no argument or if all together exceed 4 GiB.
    #[must_use]
    pub fn push_copy<'b>(&mut self, args: impl IntoIterator<Item = &'b [u8]>) -> bool {
        let (first, offset) = (self.ranges.len(), self.scratch.len());
        for arg in args {
            let start = self.scratch.len() - offset;
            if arg.len() > u32::MAX as usize - start {
                self.ranges.truncate(first);
                self.scratch.truncate(offset);
                return false;
            }
            self.scratch.extend_from_slice(arg);
            self.ranges.push(Range { start: start as u32, len: arg.len() as u32 });
        }
        if self.ranges.len() > first {
            self.push_scratch(first, 0, offset);
        }
        self.ranges.len() > first
    }

    /// Heap bytes held.
    pub fn memory(&self) -> usize {
        self.ranges.capacity() * size_of::<Range>()
            + self.commands.capacity() * size_of::<Command>()
            + self.scratch.capacity()
    }

    /// The arguments of command `index` (the first is its name; there is always one). `buffer` is the buffer it was
    /// decoded from.
    ///
    /// # Panics
    ///
    /// If `index` is not below [`Batch::len`]. Reading an argument panics if `buffer` is shorter than the decoded
    /// bytes. Both are errors of the caller; no input causes them.
    #[inline]
    pub fn args<'a>(&'a self, index: usize, buffer: &'a [u8]) -> Args<'a> {
        let command = &self.commands[index];
        let ranges = &self.ranges[command.first..command.first + command.argc];
        let base = match command.home {
            Home::Wire => buffer,
            Home::Scratch(offset) => &self.scratch[offset..],
        };
        Args { base, ranges }
    }

    /// Position just after command `index` in its buffer: the consumed bytes if execution stops after it. 0 for a copy.
    ///
    /// # Panics
    ///
    /// If `index` is not below [`Batch::len`].
    #[inline]
    pub fn end(&self, index: usize) -> usize {
        self.commands[index].end as usize
    }

    /// Adds the command whose arguments are all ranges from `first` on, and whose bytes are in the decoded buffer.
    #[inline]
    pub(crate) fn push_wire(&mut self, first: usize, end: usize) {
        self.push(first, end, Home::Wire);
    }

    /// Adds the inline command whose arguments are all ranges from `first` on, relative to `offset` in the scratch.
    pub(crate) fn push_scratch(&mut self, first: usize, end: usize, offset: usize) {
        self.push(first, end, Home::Scratch(offset));
    }

    #[inline]
    fn push(&mut self, first: usize, end: usize, home: Home) {
        // It fits: only the first 4 GiB of a buffer are decoded.
        debug_assert!(end <= u32::MAX as usize && first < self.ranges.len());
        let argc = self.ranges.len() - first;
        self.commands.push(Command { first, argc, end: end as u32, home });
    }
}

/// The arguments of one command, borrowed from the buffer (or, unescaped inline arguments, from the batch).
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    base: &'a [u8],
    ranges: &'a [Range],
}

impl<'a> Args<'a> {
    pub(crate) fn new(base: &'a [u8], ranges: &'a [Range]) -> Self {
        Self { base, ranges }
    }

    /// Number of arguments, the command's name included: at least 1.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "never empty: a request without arguments is skipped")]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Argument `index`, where 0 is the command's name.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.ranges.get(index).map(|range| slice(self.base, *range))
    }

    /// All arguments in order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + DoubleEndedIterator + Clone + use<'a> {
        let base = self.base;
        self.ranges.iter().map(move |range| slice(base, *range))
    }

    /// Bytes of all arguments together.
    pub fn bytes(&self) -> usize {
        self.ranges.iter().map(|range| range.len as usize).sum()
    }
}

impl Index<usize> for Args<'_> {
    type Output = [u8];

    /// # Panics
    /// If `index` is not below [`Args::len`].
    #[inline]
    fn index(&self, index: usize) -> &[u8] {
        slice(self.base, self.ranges[index])
    }
}

#[inline(always)]
fn slice(base: &[u8], range: Range) -> &[u8] {
    let start = range.start as usize;
    &base[start..start + range.len as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_need_no_buffer() {
        let mut batch = Batch::new();
        let commands: [&[&[u8]]; 3] = [&[b"set", b"key", b"value"], &[b""], &[b"get", b"key"]];
        for command in commands {
            assert!(batch.push_copy(command.iter().copied()));
        }
        assert!(!batch.push_copy([]));
        assert_eq!(batch.len(), 3);
        for (index, command) in commands.iter().enumerate() {
            assert!(batch.args(index, &[]).iter().eq(command.iter().copied()));
        }
        assert!(batch.memory() >= 14);
    }

    #[test]
    fn a_giant_batch_gives_its_memory_back() {
        let mut batch = Batch::new();
        let giant = vec![b'x'; 10 << 20];
        assert!(batch.push_copy(giant.chunks(16)));
        assert!(batch.memory() > 10 << 20);
        batch.clear();
        assert!(batch.is_empty() && batch.memory() < 1 << 20);
    }
}
