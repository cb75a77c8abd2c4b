//! The cursor of SCAN: a position of the walk in one number below 2^53.
//!
//! From the top it holds 14 bits of the slot, the upper 38 bits of the hash, and a 1. Clients that keep it in a double
//! or in a signed integer hand it back unchanged. 0 is the start, and says the end.
//!
//! Cursors of earlier versions had 64 bits, of which the last was 0: they are even, or not below 2^53. The last bit
//! tells them apart, so such a cursor is an error and never another place.

use keyspace::SLOTS;

use crate::scan_options;
use crate::walk::Position;

/// Bits of a cursor: as many as a double holds exactly.
const BITS: u32 = 53;
/// Bits of the slot in it.
const SLOT_BITS: u32 = SLOTS.trailing_zeros();
/// Bits of the hash in it.
const HASH_BITS: u32 = BITS - SLOT_BITS - 1;
const _: () = assert!(1 << SLOT_BITS == SLOTS && HASH_BITS >= 32);

/// The slot that a cursor of SCAN names; `None`: it is no cursor.
pub fn slot_of_cursor(cursor: &[u8]) -> Option<u16> {
    Some(position_of(scan_options::parse_cursor(cursor)?)?.slot)
}

/// True if a cursor can name exactly this position.
///
/// The lower bits of a hash do not fit. Tables of fewer than a billion keys do not need them; in a larger one a walk
/// goes on to a position without such bits.
pub(super) fn can_name(at: Position) -> bool {
    at.hash.trailing_zeros() >= 64 - HASH_BITS
}

/// The cursor of a position that [`can_name`] accepts.
pub(super) fn cursor_of(at: Position) -> u64 {
    debug_assert!(can_name(at) && usize::from(at.slot) < SLOTS);
    (u64::from(at.slot) << HASH_BITS | at.hash >> (64 - HASH_BITS)) << 1 | 1
}

/// The position that a cursor names; `None`: this server has never given it out.
pub(super) fn position_of(cursor: u64) -> Option<Position> {
    let place = cursor >> 1;
    match cursor {
        0 => Some(Position::default()),
        _ if cursor & 1 == 0 || cursor >> BITS != 0 => None,
        _ => Some(Position { slot: (place >> HASH_BITS) as u16, hash: place << (64 - HASH_BITS) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cursor that comes back from a client that keeps it in a double.
    fn as_double(cursor: u64) -> u64 {
        cursor as f64 as u64
    }

    #[test]
    fn every_position_comes_back_through_a_double() {
        let hashes = [0, 1, 0x5555_5555, u64::from(u32::MAX), (1 << HASH_BITS) - 1];
        for slot in [0, 1, 7, 8, 5460, 5461, 10922, 16382, 16383] {
            for hash in hashes.map(|hash| hash << (64 - HASH_BITS)) {
                let at = Position { slot, hash };
                let cursor = cursor_of(at);
                assert!(cursor < 1 << BITS, "{at:?}: {cursor}");
                assert_eq!(as_double(cursor), cursor);
                assert_eq!(position_of(cursor), Some(at));
            }
        }
    }

    /// The layout is a promise to clients that scan while a server is replaced.
    #[test]
    fn the_layout_stays() {
        assert_eq!(cursor_of(Position { slot: 16383, hash: u64::MAX << 26 }), (1 << 53) - 1);
        assert_eq!(cursor_of(Position { slot: 1, hash: 1 << 63 }), (1 << 39) + (1 << 38) + 1);
    }

    /// Before, 14 bits of the slot were followed by 50 of the hash. Walks stopped where the lower 32 bits were 0, or
    /// where a bucket began: so in the largest table there can be, at a multiple of 2^24.
    #[test]
    fn cursors_of_earlier_versions_are_refused() {
        for slot in [0u16, 1, 3, 7, 8, 16383] {
            for hash in [1u64 << 24, 1 << 26, 0x1234_5678 << 32, 0xffff << 48, u64::MAX << 24] {
                let cursor = u64::from(slot) << 50 | hash >> 14;
                assert_eq!(position_of(cursor), None, "{cursor}");
                assert_eq!(position_of(as_double(cursor)), None, "{cursor}");
            }
        }
        assert_eq!(position_of(9_659_095_300_802_871_296), None);
        assert_eq!(slot_of_cursor(b"9659095300802871296"), None);
    }

    #[test]
    fn positions_with_lower_bits_cannot_be_named() {
        assert!(can_name(Position { slot: 3, hash: 0 }) && can_name(Position { slot: 3, hash: 1 << 26 }));
        assert!(!can_name(Position { slot: 3, hash: 1 << 25 }) && !can_name(Position { slot: 3, hash: u64::MAX }));
    }
}
