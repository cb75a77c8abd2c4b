//! The frame of a payload: version and checksum.

use crc_fast::CrcAlgorithm;

use super::kind;

/// The RDB version of Redis 7.4 and 8: written, unless the value needs a newer one.
pub const VERSION: u16 = 12;
/// The RDB version of Redis 8.8: the newest that is read.
const NEWEST: u16 = 14;

const LENGTH: usize = 10;

/// Appends version and checksum to a type and a value.
pub(super) fn seal(payload: &mut Vec<u8>) {
    let version = if payload.first() == Some(&kind::STREAM_LISTPACKS_5) { NEWEST } else { VERSION };
    payload.extend_from_slice(&version.to_le_bytes());
    let checksum = checksum(payload);
    payload.extend_from_slice(&checksum.to_le_bytes());
}

/// The type and value of a payload; `None` if the version is unknown or the checksum wrong. `unchecked`: it may be.
pub(super) fn open(payload: &[u8], unchecked: bool) -> Option<&[u8]> {
    let (body, &[v0, v1, ref sum @ ..]) = payload.split_last_chunk::<LENGTH>()?;
    let sealed = &payload[..payload.len() - sum.len()];
    let known = u16::from_le_bytes([v0, v1]) <= NEWEST;
    // Zeros: the writer has left the checksum out (`rdbchecksum no`).
    let sound = unchecked || *sum == [0; 8] || *sum == checksum(sealed).to_le_bytes();
    (known && sound).then_some(body)
}

fn checksum(bytes: &[u8]) -> u64 {
    crc_fast::checksum(CrcAlgorithm::Crc64Redis, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_redis() {
        assert_eq!(checksum(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        assert_eq!(checksum(b""), 0);
    }

    #[test]
    fn damage_is_noticed() {
        let mut payload = b"\0\x03abc".to_vec();
        seal(&mut payload);
        assert_eq!(open(&payload, false), Some(&b"\0\x03abc"[..]));
        for index in 0..payload.len() {
            let mut damaged = payload.clone();
            damaged[index] ^= 1;
            assert_eq!(open(&damaged, false), None, "{index}");
            assert!(open(&damaged, true).is_some() || index == payload.len() - 9 || index == payload.len() - 10);
            assert_eq!(open(&payload[..index], false), None);
        }
    }

    #[test]
    fn newer_versions_are_read_and_a_checksum_may_be_left_out() {
        for (version, read) in [(12, true), (14, true), (15, false)] {
            let unchecked = [&b"\0\x03abc"[..], &[version, 0], &[0; 8]].concat();
            assert_eq!(open(&unchecked, false).is_some(), read, "{version}");
            let mut checked = unchecked[..7].to_vec();
            let sum = checksum(&checked);
            checked.extend_from_slice(&sum.to_le_bytes());
            assert_eq!(open(&checked, false).is_some(), read, "{version}");
        }
    }
}
