//! Whether the system has memory for what a command will make, where it limits that (`headroom`).

use command::{Error, flags};

use crate::call::Call;
use crate::engine::Engine;
use keyspace::Held;

/// Bytes that a command may need for each element beside what the element takes in memory: places to sort, tables to look in.
const PER_ELEMENT: u64 = 64;

/// What the record of a command may have besides its arguments, in bytes: a value that is not asked for, as that of SETRANGE, which is logged whole.
const RECORD_OVERHEAD: usize = headroom::LARGE + 4096;

/// So many commands of a worker in a row may take what is not worth asking for, less than [`headroom::LARGE`] each: a block of many is over before
/// anybody looks otherwise.
const ROW: u32 = 16;

/// Whether there is room for what a row of commands takes without asking: in the margin, as data that may leave memory fills the rest.
fn has_room_for_row() -> bool {
    headroom::has_room_to_talk(ROW as usize * headroom::LARGE, 0)
}

/// Commands of a worker since it was last asked whether there is room.
#[derive(Default)]
pub(crate) struct Unasked(u32);

impl Unasked {
    /// Whether one more may go on: `has_room` is asked at the end of each row, and by all that follow as long as there is none.
    fn fits(&mut self, has_room: impl FnOnce() -> bool) -> bool {
        self.0 += 1;
        if self.0 < ROW {
            return true;
        }
        let has_room = has_room();
        self.0 = if has_room { 0 } else { ROW - 1 };
        has_room
    }
}

/// What it takes at most to make something of so many bytes, and its largest block: what grows as it is written may take twice its length, and the log
/// copies it twice.
fn as_one_block(bytes: usize) -> (usize, usize) {
    (bytes.saturating_mul(5), bytes.saturating_mul(2))
}

impl Engine {
    /// Refuses commands that may need memory while it is tight, be they in a block, and those that copy more than there is room for. Their keys are
    /// there and latched.
    #[cold]
    pub(crate) fn check_room(&mut self, call: &Call<'_>, held: &Held) -> Result<(), Error> {
        let spec = &call.row.spec;
        if spec.has(flags::DENYOOM)
            && (headroom::is_tight() || !self.unasked.fits(has_room_for_row) || !self.has_room_to_log(call))
        {
            return Err(Error::OOM);
        }
        // What only moves is copied for nobody but the log.
        if !spec.has(flags::COPIES) || spec.has(flags::WRITE) && !spec.has(flags::DENYOOM) && !self.is_logged() {
            return Ok(());
        }
        let bytes = self.bytes_of_keys(call, held);
        let (all, largest) = as_one_block(bytes);
        let fits = match spec.has(flags::DENYOOM) {
            true => headroom::has_room(all, largest),
            false => headroom::has_room_to_talk(all, largest),
        };
        if fits { Ok(()) } else { Err(Error::OOM) }
    }

    /// Whether there is room for a command's arguments to become a value and a record, or for the record of a block of commands to grow for one more.
    fn has_room_to_log(&mut self, call: &Call<'_>) -> bool {
        let encoded = &mut self.fx.encoded;
        let more: usize = call.args.iter().map(<[u8]>::len).sum();
        let len = encoded.len() + more;
        if len < headroom::LARGE || encoded.capacity() > len + RECORD_OVERHEAD {
            return true;
        }
        let (all, largest) = as_one_block(len);
        let has_room = headroom::has_room(all, largest);
        if has_room && self.fx.recording {
            // If it doubled, that could be too much.
            encoded.reserve_exact((more + RECORD_OVERHEAD).max(encoded.len() / 4));
        }
        has_room
    }

    /// What the values of a command's keys take together, in bytes, with what there may be for each of their elements.
    fn bytes_of_keys(&mut self, call: &Call<'_>, held: &Held) -> usize {
        let mut positions = std::mem::take(&mut self.positions);
        positions.clear();
        call.row.spec.keys_of(call.args, &mut positions);
        let shared = self.shared.clone();
        let db = self.db(held, call.db, 0);
        let keys = positions.iter().filter_map(|at| call.args.get(at.index));
        let bytes = keys.filter_map(|key| db.peek(&shared.keyspace.hasher().key(key))).map(|entry| {
            let elements = entry.elements().saturating_mul(PER_ELEMENT);
            entry.memory().saturating_add(elements as usize)
        });
        let bytes = bytes.fold(0, usize::saturating_add);
        self.positions = positions;
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_small_commands_is_asked_for_at_its_end() {
        let mut unasked = Unasked::default();
        for _ in 0..3 {
            assert!((1..ROW).all(|_| unasked.fits(|| panic!("asked within a row"))));
            assert!(!unasked.fits(|| false) && !unasked.fits(|| false), "each asks while there is none");
            assert!(unasked.fits(|| true));
        }
    }
}
