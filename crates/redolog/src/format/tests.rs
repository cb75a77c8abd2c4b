//! Golden bytes, and damage.

use super::*;
use proptest::prelude::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn golden_bytes() {
    let mut body = Vec::new();
    Record::encode(Lsn(0x0102_0304), &[], b"ab", &mut body);
    Record::encode(Lsn(0x0506), &[Lsn(9)], b"", &mut body);
    assert_eq!(hex(&body), "0b0403020100000000006162110605000000000000010900000000000000");
    let mut block = Vec::new();
    Block { incarnation: 1, sequence: 2, cut: Lsn(3), synced: Lsn(4), is_part: false, body: b"xyz" }.encode(&mut block);
    assert_eq!(
        hex(&block[4..]),
        concat!(
            "03000000",
            "0100000000000000",
            "0200000000000000",
            "0300000000000000",
            "0400000000000000",
            "78797a",
            "0000000000"
        )
    );
    let header = SegmentHeader {
        node: [7; 16],
        stream: 1,
        streams: 2,
        size: 0x3_0000_1000,
        number: 5,
        incarnation: 6,
        base: Lsn(8),
        reach: Lsn(9),
        has_end: true,
    };
    let bytes = header.encode();
    assert_eq!(&bytes[..8], b"HOLDLOG1");
    assert_eq!(
        hex(&bytes[12..80]),
        concat!(
            "03000000",
            "07070707070707070707070707070707",
            "0100",
            "0200",
            "00100000",
            "0500000000000000",
            "0600000000000000",
            "0800000000000000",
            "0900000000000000",
            "03000000",
            "01000000"
        )
    );
    assert_eq!(SegmentHeader::decode(&bytes), Ok(header));
    for (version, is_read) in [(0, false), (1, true), (2, true), (4, false)] {
        let mut other = bytes;
        other[12] = version;
        let sum = crc(&[&other[12..]]);
        other[8..12].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(SegmentHeader::decode(&other).is_ok(), is_read, "version {version}");
    }
}

#[test]
fn golden_bytes_of_a_part() {
    let (mut body, mut bytes) = (Vec::new(), Vec::new());
    let part = Part { lsn: Lsn(0x0102), length: 9, offset: 4, bytes: b"xyz" };
    part.encode(&mut body);
    let block = Block { incarnation: 1, sequence: 2, cut: Lsn(3), synced: Lsn(4), is_part: true, body: &body };
    block.encode(&mut bytes);
    assert_eq!(
        hex(&bytes[4..]),
        concat!(
            "1b000080",
            "0100000000000000",
            "0200000000000000",
            "0300000000000000",
            "0400000000000000",
            "0201000000000000",
            "0900000000000000",
            "0400000000000000",
            "78797a",
            "0000000000"
        )
    );
    assert_eq!(Block::decode(&bytes).and_then(|block| block.part()), Ok(Some(part)));
    assert!(!part.is_last() && Part { offset: 6, ..part }.is_last());
    for (offset, length) in [(7, 9), (u64::MAX, 9), (0, 2)] {
        let mut body = Vec::new();
        Part { offset, length, ..part }.encode(&mut body);
        assert!(Part::decode(&body).is_err(), "{offset} of {length}");
    }
}

#[test]
fn golden_bytes_of_a_clean_end() {
    let end = CleanEnd { node: [7; 16], stream: 1, number: 5, sequence: 0x0102 };
    let bytes = end.encode();
    assert_eq!(&bytes[..8], b"HOLDEND1");
    assert_eq!(
        hex(&bytes[12..]),
        concat!(
            "01000000",
            "07070707070707070707070707070707",
            "0100",
            "000000000000",
            "0500000000000000",
            "0201000000000000",
            "0000000000000000"
        )
    );
    assert_eq!(CleanEnd::decode(&bytes), Ok(end));
    for at in 0..END_SIZE {
        let mut other = bytes;
        other[at] ^= 1;
        assert!(CleanEnd::decode(&other).is_err(), "byte {at}");
    }
}

#[test]
fn a_record_of_unknown_length_is_read_as_any_other() {
    let (mut body, mut other) = (Vec::new(), Vec::new());
    Record::encode_with(Lsn(0x0102), &[Lsn(9)], |out| out.extend_from_slice(b"ab"), &mut body);
    assert_eq!(hex(&body), "938080808000020100000000000001090000000000000061 62".replace(' ', ""));
    Record::encode_with(Lsn(3), &[], |out| out.extend_from_slice(&[7; 1000]), &mut body);
    Record::encode(Lsn(0x0102), &[Lsn(9)], b"ab", &mut other);
    Record::encode(Lsn(3), &[], &[7; 1000], &mut other);
    let block = |body| Block { incarnation: 0, sequence: 0, cut: Lsn(0), synced: Lsn(0), is_part: false, body };
    let read = |body| block(body).records().collect::<Result<Vec<_>, _>>();
    assert!(read(&body).is_ok() && read(&body) == read(&other));
    let raw = block(&body).raw_records().next().and_then(Result::ok).map(|raw| (raw.lsn, raw.to));
    assert_eq!(raw, Some((Lsn(0x0102), 25)));
    let (dependencies, effects) = split_record(&body[..25]);
    assert_eq!((dependencies.collect::<Vec<_>>(), effects), (vec![Lsn(9)], &b"ab"[..]));
}

#[test]
fn the_checksum_is_crc32c() {
    assert_eq!(crc(&[b"1234", b"56789"]), 0xe306_9283);
}

proptest! {
    #[test]
    fn blocks_come_back_and_damage_is_noticed(
        records in prop::collection::vec((any::<u64>().prop_map(Lsn), prop::collection::vec(any::<u64>().prop_map(Lsn), 0..3), prop::collection::vec(any::<u8>(), 0..300)), 0..8),
        (cut, at, bit) in (any::<u64>().prop_map(Lsn), any::<prop::sample::Index>(), 0u8..8),
    ) {
        let mut body = Vec::new();
        for (lsn, dependencies, effects) in &records {
            Record::encode(*lsn, dependencies, effects, &mut body);
        }
        let block = Block { incarnation: 1, sequence: 7, cut, synced: Lsn(3), is_part: false, body: &body };
        let mut bytes = Vec::new();
        block.encode(&mut bytes);
        prop_assert_eq!(bytes.len(), Block::size(body.len()));
        prop_assert_eq!(Block::decode(&bytes), Ok(block));
        let read: Vec<_> = block.records().map(Result::unwrap).collect();
        prop_assert_eq!(read.len(), records.len());
        for (record, (lsn, dependencies, effects)) in read.iter().zip(&records) {
            prop_assert_eq!(record.lsn, *lsn);
            prop_assert_eq!(&record.dependencies, dependencies);
            prop_assert_eq!(record.effects, effects);
        }
        let at = at.index(BLOCK_HEADER + body.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(Block::decode(&bytes).is_err());
    }

    #[test]
    fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = SegmentHeader::decode(&bytes);
        let _ = Block::decode(&bytes);
        let block = Block { incarnation: 0, sequence: 0, cut: Lsn(0), synced: Lsn(0), is_part: false, body: &bytes };
        block.records().for_each(drop);
        let _ = Part::decode(&bytes);
    }
}
