//! Checks that the system has memory for the result of a command, where it limits memory (`headroom`).

use command::{Error, flags};

use crate::call::Call;
use crate::engine::Engine;
use keyspace::Held;

/// Bytes that a command may need for each element beside its memory: places to sort, tables to look in.
const PER_ELEMENT: u64 = 64;

/// Bytes that the record of a command may have besides its arguments: a value that is not asked for, as that of
/// SETRANGE, which is logged whole.
const RECORD_OVERHEAD: usize = headroom::LARGE + 4096;

/// The least and the most commands of a worker in a row that may take small amounts without asking, less than
/// [`headroom::LARGE`] each. Without the bound, a block of many commands could be over before the next check.
const ROW: (u32, u32) = (16, 1024);

/// A row takes at most this part of the remaining memory: there are many workers.
const ROW_PART: u64 = 64;

/// How long a row is, where so many bytes were left.
fn row(left: u64) -> u32 {
    let most = left / ROW_PART / headroom::LARGE as u64;
    u32::try_from(most).unwrap_or(u32::MAX).clamp(ROW.0, ROW.1)
}

/// True if there is room for the unasked amounts of the shortest row of commands: in the margin, because data that may
/// leave memory fills the rest.
fn has_room_for_row() -> bool {
    headroom::has_room_to_talk(ROW.0 as usize * headroom::LARGE, 0)
}

/// Commands of a worker since the last question for room.
#[derive(Default)]
pub(crate) struct Unasked(u32);

impl Unasked {
    /// True if one more may go on. `has_room` is asked at the end of each row of so many, and at every later command
    /// while there is none.
    fn fits(&mut self, row: u32, has_room: impl FnOnce() -> bool) -> bool {
        self.0 = self.0.saturating_add(1);
        if self.0 < row {
            return true;
        }
        let has_room = has_room();
        if has_room {
            self.0 = 0;
        }
        has_room
    }
}

/// Most bytes for making something of so many bytes, and its largest block. A buffer that grows as it is written may
/// take twice its length, and the log copies it twice.
fn as_one_block(bytes: usize) -> (usize, usize) {
    (bytes.saturating_mul(5), bytes.saturating_mul(2))
}

impl Engine {
    /// Refuses commands that may need memory while it is tight, also in a block, and those that copy more than there is
    /// room for. Their keys are there and latched.
    #[cold]
    pub(crate) fn check_room(&mut self, call: &Call<'_>, held: &Held) -> Result<(), Error> {
        let spec = &call.row.spec;
        if spec.has(flags::DENYOOM)
            && (headroom::is_tight()
                || !self.unasked.fits(row(headroom::was_left()), has_room_for_row)
                || !self.has_room_to_log(call))
        {
            return Err(Error::OOM);
        }
        // A value that only moves is not copied, except for the log.
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

    /// True if there is room for a command's arguments to become a value and a record, or for the record of a block to
    /// grow by one more command.
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

    /// The bytes of the values of a command's keys together, with possible bytes for each of their elements.
    fn bytes_of_keys(&mut self, call: &Call<'_>, held: &Held) -> usize {
        let mut positions = std::mem::take(&mut self.positions);
        positions.clear();
        call.row.spec.keys_of(call.args, &mut positions);
        let shared = self.shared.clone();
        let db = self.view(held, call.db);
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
        for row in [16, 16, 40] {
            assert!((1..row).all(|_| unasked.fits(row, || panic!("asked within a row"))));
            assert!(!unasked.fits(row, || false) && !unasked.fits(row, || false), "each asks while there is none");
            assert!(unasked.fits(row, || true));
        }
        assert!((1..30).all(|_| unasked.fits(40, || panic!("asked within a row"))));
        assert!(!unasked.fits(16, || false), "little is left now");
    }

    #[test]
    fn rows_are_short_where_little_is_left() {
        assert_eq!([0, 256 << 20, 1 << 30, 10 << 30, 1 << 60].map(row), [16, 16, 64, 640, 1024]);
    }
}
