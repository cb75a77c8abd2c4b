//! Golden bytes, and damage.

use super::*;
use proptest::prelude::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A block of the format before.
fn old(kind: Kind, body: &[u8]) -> Block<'_> {
    let place = Place { mark: Mark::Block, life: 1 << 40 | 1, number: 2, synced: 4 };
    let name = Name { term: 1, sequence: 2 };
    let (cut, reach) = (Lsn(3), Lsn(3));
    let frame = Frame { kind, shard: 0, stream: 0, name, before: 1, cut, reach, body, sum: None };
    Block { place, frame }
}

/// A block of this format.
fn block(kind: Kind, body: &[u8]) -> Block<'_> {
    let place = Place { mark: Mark::Block, life: 0x0101, number: 0x0202, synced: 0x0303 };
    let name = Name { term: 0x0606, sequence: 0x0808 };
    let (cut, reach) = (Lsn(0x0909), Lsn(0x0a0a));
    let frame = Frame { kind, shard: 0x0505, stream: 4, name, before: 0x0707, cut, reach, body, sum: None };
    Block { place, frame }
}

fn bytes_of(format: Format, block: &Block<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    block.encode(format, &mut bytes);
    assert_eq!(bytes.len(), format.size(block.frame.body.len()));
    bytes
}

fn header(format: Format) -> SegmentHeader {
    let is_new = format == Format::Four;
    SegmentHeader {
        format,
        node: [7; 16],
        stream: 1,
        streams: 2,
        size: 0x3_0000_1000,
        number: 5,
        life: 6,
        base: Lsn(8),
        reach: Lsn(9),
        has_end: true,
        acceptor: [if is_new { 0xac } else { 0 }; 16],
        shard: if is_new { 0x0a } else { 0 },
        last: if is_new { Name { term: 0x0b, sequence: 0x0c } } else { Name::default() },
        block: if is_new { 0x0d } else { 0 },
    }
}

/// What version 3 and version 4 have in common: behind the version and before what is new.
const HEADER: &str = concat!(
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
);

#[test]
fn golden_bytes_of_records() {
    let mut body = Vec::new();
    Record::encode(Lsn(0x0102_0304), &[], b"ab", &mut body);
    Record::encode(Lsn(0x0506), &[Lsn(9)], b"", &mut body);
    assert_eq!(hex(&body), "0b0403020100000000006162110605000000000000010900000000000000");
}

#[test]
fn golden_bytes_of_segments() {
    let bytes = header(Format::Three).encode();
    assert_eq!(&bytes[..8], b"HOLDLOG1");
    assert_eq!(hex(&bytes[12..80]), format!("03000000{HEADER}"));
    assert_eq!(bytes[80..], [0; 432]);
    assert_eq!(SegmentHeader::decode(&bytes), Ok(header(Format::Three)));
    let bytes = header(Format::Four).encode();
    assert_eq!(hex(&bytes[12..80]), format!("04000000{HEADER}"));
    assert_eq!(hex(&bytes[80..120]), format!("{}0a0000000b0000000c000000000000000d00000000000000", "ac".repeat(16)));
    assert_eq!(bytes[120..], [0; 392]);
    assert_eq!(SegmentHeader::decode(&bytes), Ok(header(Format::Four)));
    for (version, format) in [(0, None), (1, Some(Format::Three)), (2, Some(Format::Three)), (5, None)] {
        let mut other = bytes;
        other[12] = version;
        let sum = crc(&[&other[12..]]);
        other[8..12].copy_from_slice(&sum.to_le_bytes());
        let read = SegmentHeader::decode(&other);
        assert_eq!(read.map(|header| header.format).ok(), format, "version {version}");
        assert!(format.is_some() || read == Err(Broken("a format this version does not know")));
    }
}

#[test]
fn golden_bytes_of_blocks_of_version_3() {
    let bytes = bytes_of(Format::Three, &old(Kind::Records, b"xyz"));
    let numbers = "0100000000010000020000000000000003000000000000000400000000000000";
    assert_eq!(hex(&bytes[4..]), format!("03000000{numbers}78797a0000000000"));
    assert_eq!(bytes[..4], crc(&[&bytes[4..43]]).to_le_bytes());
    let part = Part { lsn: Lsn(0x0102), length: 9, offset: 4, bytes: b"xyz" };
    let mut body = Vec::new();
    part.encode(&mut body);
    let bytes = bytes_of(Format::Three, &old(Kind::Part, &body));
    assert_eq!(hex(&bytes[4..40]), format!("1b000080{numbers}"));
    assert_eq!(Block::decode(Format::Three, &bytes), Ok(old(Kind::Part, &body)));
}

#[test]
fn golden_bytes_of_blocks() {
    let block = block(Kind::Start, b"xyz");
    let bytes = bytes_of(Format::Four, &block);
    let place = concat!("00000000", "0101000000000000", "0202000000000000", "0303000000000000");
    assert_eq!(hex(&bytes[4..32]), place);
    let head = concat!(
        "03000000",
        "02",
        "00",
        "0400",
        "05050000",
        "06060000",
        "07070000",
        "00000000",
        "0808000000000000",
        "0909000000000000",
        "0a0a000000000000"
    );
    assert_eq!(hex(&bytes[40..]), format!("{head}78797a0000000000"));
    assert_eq!(bytes[..4], crc(&[&bytes[4..36]]).to_le_bytes(), "of the place, and of the frame's first sum");
    assert_eq!(bytes[32..36], crc(&[&bytes[36..88]]).to_le_bytes(), "of the frame's head");
    assert_eq!(bytes[36..40], crc(&[b"xyz"]).to_le_bytes(), "of the body");
    // The frame is the same bytes at another host, and can be verified there.
    let mut sent = Vec::new();
    block.frame.encode(&mut sent).expect("short enough");
    assert_eq!(sent, bytes[32..91]);
    let frame = Frame { sum: Some(crc(&[b"xyz"])), ..block.frame };
    assert_eq!(Frame::decode(&sent), Ok(frame));
    assert_eq!(Block::decode(Format::Four, &bytes), Ok(Block { frame, ..block }));
    let placed = Place { mark: Mark::Life, life: 9, number: 9, synced: 9 };
    let elsewhere = bytes_of(Format::Four, &Block { place: placed, frame });
    assert!(elsewhere[32..] == bytes[32..] && elsewhere[4] == 1);
    for (mark, number) in [(Mark::Block, 0), (Mark::Life, 1), (Mark::Reset, 2), (Mark::End, 3)] {
        let place = Place { mark, ..placed };
        assert_eq!(bytes_of(Format::Four, &Block { place, frame })[4], number);
    }
}

#[test]
fn golden_bytes_of_a_part() {
    let part = Part { lsn: Lsn(0x0102), length: 9, offset: 4, bytes: b"xyz" };
    let mut body = Vec::new();
    part.encode(&mut body);
    assert_eq!(hex(&body), "02010000000000000900000000000000040000000000000078797a");
    assert_eq!(Part::decode(&body), Ok(part));
    assert!(!part.is_last() && Part { offset: 6, ..part }.is_last());
    for (offset, length) in [(7, 9), (u64::MAX, 9), (0, 2)] {
        let mut body = Vec::new();
        Part { offset, length, ..part }.encode(&mut body);
        assert!(Part::decode(&body).is_err(), "{offset} of {length}");
    }
}

/// An acceptor verifies a frame that comes from elsewhere, and a reader of a folder believes what a block says of the
/// folder even if its body is torn.
#[test]
fn each_checksum_guards_its_part() {
    let bytes = bytes_of(Format::Four, &block(Kind::Records, b"effects"));
    for at in 0..bytes.len() {
        let mut other = bytes.clone();
        other[at] ^= 4;
        let (has_place, has_frame) = (at < 32, (32..95).contains(&at));
        assert_eq!(Block::decode(Format::Four, &other).is_err(), has_place || has_frame, "byte {at}");
        assert_eq!(Frame::decode(&other[32..]).is_err(), has_frame, "byte {at}");
        assert_eq!(has_sound_header(&other), at >= 88, "byte {at}");
    }
    // A frame with the place of another one.
    let mut mixed = bytes_of(Format::Four, &block(Kind::Records, b"others"));
    mixed[..32].copy_from_slice(&bytes[..32]);
    assert!(Block::decode(Format::Four, &mixed).is_err() && Frame::decode(&mixed[32..]).is_ok());
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
    let read = |body| Record::all(body).collect::<Result<Vec<_>, _>>();
    assert!(read(&body).is_ok() && read(&body) == read(&other));
    let raw = Block::raw_records_of(&body).next().and_then(Result::ok).map(|raw| (raw.lsn, raw.to));
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
        (is_old, at, bit) in (any::<bool>(), any::<prop::sample::Index>(), 0u8..8),
    ) {
        let mut body = Vec::new();
        for (lsn, dependencies, effects) in &records {
            Record::encode(*lsn, dependencies, effects, &mut body);
        }
        let format = if is_old { Format::Three } else { Format::Four };
        let block = if is_old { old(Kind::Records, &body) } else { block(Kind::Records, &body) };
        let bytes = bytes_of(format, &block);
        let read = Block::decode(format, &bytes).map(|read| (read.place, read.frame.name, read.frame.body));
        prop_assert_eq!(read, Ok((block.place, block.frame.name, &body[..])));
        let read: Vec<_> = Record::all(&body).map(Result::unwrap).collect();
        prop_assert_eq!(read.len(), records.len());
        for (record, (lsn, dependencies, effects)) in read.iter().zip(&records) {
            prop_assert_eq!(record.lsn, *lsn);
            prop_assert_eq!(&record.dependencies, dependencies);
            prop_assert_eq!(record.effects, effects);
        }
        let at = at.index(format.header() + body.len());
        let mut bytes = bytes;
        bytes[at] ^= 1 << bit;
        prop_assert!(Block::decode(format, &bytes).is_err());
    }

    #[test]
    fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = SegmentHeader::decode(&bytes);
        for format in [Format::Three, Format::Four] {
            let _ = Block::decode(format, &bytes);
            let _ = Block::decode_checked(format, &bytes);
            let _ = Head::decode(format, &bytes);
        }
        let _ = Frame::decode(&bytes);
        Record::all(&bytes).for_each(drop);
        let _ = Part::decode(&bytes);
    }
}
