//! Files byte by byte: those that are written here, and those that servers of all versions have written.

mod support;

use clocks::UnixMs;
use object::Limits;
use rdb::{Dialect, EntryRef, Fault, Foreign, Item, Reader, Target, ValueRef, Writer, Written};
use support::{described, entries, items, samples};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// A file of this header with these bytes, its end and no checksum.
fn file(header: &str, body: &str) -> Vec<u8> {
    let mut file = header.as_bytes().to_vec();
    file.extend(hex(body));
    file.push(0xff);
    if header > "REDIS0004" {
        file.extend([0; 8]);
    }
    file
}

#[test]
fn what_is_written() {
    for (target, header) in [
        (Target::Redis72, "REDIS0011"),
        (Target::Redis80, "REDIS0012"),
        (Target::Redis88, "REDIS0014"),
        (Target::Valkey9, "VALKEY080"),
    ] {
        let mut writer = Writer::new(Vec::new(), target).unwrap();
        writer.aux(b"redis-bits", b"64").unwrap();
        writer.function(b"code").unwrap();
        writer.database(2, 1, 1).unwrap();
        let string = EntryRef::new(2, b"k", ValueRef::String(b"v"));
        let entry = EntryRef { expiry: Some(UnixMs(0x0102)), idle: Some(100), frequency: Some(7), ..string };
        assert_eq!(writer.entry(entry).unwrap(), Written::Yes);
        let written = writer.finish().unwrap();
        let body = "fa 0a 72656469732d62697473 c040  f5 04 636f6465  fe02 fb0101 \
                    fc 0201000000000000 f84064 f907 00 016b 0176";
        let expected = file(header, body);
        assert_eq!(written[..written.len() - 8], expected[..expected.len() - 8], "{target:?}");
        let checksum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Redis, &written[..written.len() - 8]);
        assert_eq!(written[written.len() - 8..], checksum.to_le_bytes());
    }
}

#[test]
fn fields_that_expire_are_written_for_each_target() {
    // Sample 13 is a hash table of three fields, all with the same time of expiry.
    let value = &samples()[13];
    for (target, body) in [
        (Target::Redis80, "18 016b 0060e664bb030000 03 01 026530 026530 01 026531 026531 01 026532 026532"),
        (Target::Valkey9, "16 016b 03 026530 026530 0060e664bb030000"),
    ] {
        let mut writer = Writer::new(Vec::new(), target).unwrap();
        assert_eq!(writer.entry(EntryRef::new(0, b"k", value.as_value_ref())).unwrap(), Written::Yes);
        let written = writer.finish().unwrap();
        let expected = hex(&format!("fe00 {body}").replace("0060e664bb030000", &time()));
        assert_eq!(written[9..9 + 6], expected[..6], "{target:?}");
        assert_eq!(described(&entries(&written).unwrap()[0].value(&Limits::default()).unwrap()), described(value));
    }
}

fn time() -> String {
    4_102_444_800_000u64.to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A value as a server of this version wrote it, and its contents.
const VALUES: [(&str, &str, &str); 24] = [
    ("REDIS0001", "00 016b 0568656c6c6f", "string: hello"),
    ("REDIS0006", "00 016b c1d4fe", "string: -300"),
    ("REDIS0006", "00 016b c309 28 016161e01b00016161", "string: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
    ("REDIS0006", "01 016b 02 0161 c0ff", "list: a, -1"),
    ("REDIS0006", "0a 016b 0f 0f0000000c000000020000f302f6ff", "list: 2, 5"),
    ("REDIS0007", "0e 016b 01 0d 0d0000000a000000010000f8ff", "list: 7"),
    ("REDIS0010", "12 016b 02 01 03616263 02 0a 0a0000000100816502ff", "list: abc, e"),
    ("REDIS0006", "02 016b 03 0162 c001 0161", "set: 1, a, b"),
    ("REDIS0006", "0b 016b 0e 0200000003000000feff01002c01", "set: -2, 1, 300"),
    ("REDIS0011", "14 016b 0f 0f00000003008161020101816202ff", "set: 1, a, b"),
    ("REDIS0006", "03 016b 03 0161 01 33 0162 04 312e3235 0163 ff", "zset: a 3.0, b 1.25, c -inf"),
    ("REDIS0008", "05 016b 01 0161 000000000000f03f", "zset: a 1.0"),
    ("REDIS0006", "0c 016b 19 19000000160000000400 00036f6e6505f2020374776f05f3ff", "zset: one 1.0, two 2.0"),
    ("REDIS0010", "11 016b 0c 0c0000000200 816102 0101 ff", "zset: a 1.0"),
    ("REDIS0002", "09 016b 10 020266310200763102663202007632ff", "hash: f1 v1 None, f2 v2 None"),
    ("REDIS0006", "0d 016b 1b 1b000000160000000400 00026631040276310402663204027632ff", "hash: f1 v1 None, f2 v2 None"),
    ("REDIS0006", "04 016b 01 0161 0162", "hash: a b None"),
    ("REDIS0010", "10 016b 13 130000000400816602010181670282767603ff", "hash: f 1 None, g vv None"),
    ("REDIS0012", "16 016b 02 00 0161 c001 05 0162 c002", "hash: a 1 None, b 2 Some(5)"),
    ("REDIS0012", "17 016b 0e 0e0000000300 816102 0101 0501 ff", "hash: a 1 Some(5)"),
    ("REDIS0012", "18 016b 0500000000000000 02 00 0161 c001 03 0162 c002", "hash: a 1 None, b 2 Some(7)"),
    ("REDIS0012", "19 016b 0500000000000000 0e 0e0000000300 816102 0101 0501 ff", "hash: a 1 Some(5)"),
    ("VALKEY080", "16 016b 02 0161 0162 ffffffffffffffff 0163 0164 0500000000000000", "hash: a b None, c d Some(5)"),
    ("VALKEY080", "10 016b 13 130000000400816602010181670282767603ff", "hash: f 1 None, g vv None"),
];

#[test]
fn values_of_all_versions() {
    for (header, body, expected) in VALUES {
        let file = file(header, &format!("fe00 {body}"));
        let read = entries(&file).unwrap_or_else(|error| panic!("{body}: {error}"));
        let value = read[0].value(&Limits::default()).unwrap_or_else(|error| panic!("{body}: {error}"));
        let (kind, parts) = described(&value);
        assert_eq!(format!("{kind}: {}", parts.join(", ")), expected);
        assert_eq!(read[0].key, b"k");
        assert_eq!(read[0].offset, 9 + 2 + 3);
    }
}

#[test]
fn streams_of_all_versions() {
    // 1-1 with a=b, and a group that has read it, with a consumer.
    let node =
        "10 00000000000000010000000000000001 1d 1d000000 0a00 0101 0001 0101 816102 0001 0201 0001 0001 816202 0401 ff";
    let group = |read: &str, active: &str, released: &str| {
        let (id, time) = ("00000000000000010000000000000001", "0500000000000000");
        format!("01 0167 0101 {read} 01 {id} {time} 02 01 0163 {time} {active} 01 {id} {released}")
    };
    let active = "0600000000000000";
    for (kind, marks, group, producers, seen) in [
        ("0f", "01 0101", group("", "", ""), "", 5),
        ("13", "01 0101 0101 0000 01", group("01", "", ""), "", 5),
        ("15", "01 0101 0101 0000 01", group("01", active, ""), "", 6),
        ("1a", "01 0101 0101 0000 01", group("01", active, ""), "4064 4064 01 0170 01 0169 0101 00 00", 6),
        ("1b", "01 0101 0101 0000 01", group("01", active, "00"), "4064 4064 00 00 00", 6),
    ] {
        let body = format!("fe00 {kind} 016b 01 {node} {marks} {group} {producers} 00 016c 0176");
        let read = entries(&file("REDIS0014", &body)).unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert_eq!(read[1].key, b"l", "{kind}: the next key");
        let value = read[0].value(&Limits::default()).unwrap_or_else(|error| panic!("{kind}: {error}"));
        let (_, parts) = described(&value);
        let expected =
            ["1-1 a=b", "group g 1-1 1", "pending 1-1 5 2 c", &format!("consumer c 5 {seen} 1")].map(str::to_owned);
        assert_eq!(parts[1..], expected, "{kind}");
    }
}

#[test]
fn what_stands_before_keys() {
    let body = "fa 0161 0162  f5 0163  fe05 fb0a02 f4 010a02  fd 0a000000 00 016b 0176 \
                fc 0b00000000000000 f805 00 016c 0176  f909 00 016d 0176";
    let read = items(&file("REDIS0014", body)).unwrap();
    assert_eq!(read.len(), 6);
    assert_eq!(read[2], Item::Size { db: 5, keys: 10, expires: 2 });
    let told = |item: &Item| match item {
        Item::Entry(entry) => (entry.db, entry.expiry, entry.idle, entry.frequency),
        other => panic!("{other:?}"),
    };
    assert_eq!(told(&read[3]), (5, Some(UnixMs(10_000)), None, None));
    assert_eq!(told(&read[4]), (5, Some(UnixMs(11)), Some(5), None));
    assert_eq!(told(&read[5]), (5, None, None, Some(9)));
}

/// A number whose name is `abcdefghi`, version 1.
const MODULE: &str = "81 69b71d79f8218801";

#[test]
fn values_of_modules_and_unknown_types_are_named() {
    let module = format!("07 016b {MODULE} 01 07 02 08 03 00000000 04 0000000000000000 05 0178 00");
    let array = "1c 016b 02 01 05 00 01 0100000000000000 03 00 0178";
    for (body, name) in
        [(module.as_str(), "the module type abcdefghi"), (array, "the type array"), ("1d 016b 05", "the type gcra")]
    {
        let file = file("REDIS0014", &format!("{body} 00 016c 0176"));
        let error = items(&file).unwrap_err();
        assert_eq!(error.key.as_deref(), Some(&b"k"[..]));
        assert!(error.to_string().contains(name), "{error}");
        let mut reader = Reader::new(file.as_slice()).unwrap().skip_foreign(true);
        let Some(Item::Skipped { key, foreign, .. }) = reader.next_item().unwrap() else { panic!("{name}") };
        assert_eq!((key.as_slice(), rdb::foreign_name(foreign).as_str()), (&b"k"[..], name));
        assert!(matches!(reader.next_item(), Ok(Some(Item::Entry(entry))) if entry.key == b"l"));
        assert!(matches!(reader.next_item(), Ok(None)));
        assert!(foreign != Foreign::Module([b'x'; 9]));
    }
    let beside = format!("f7 {MODULE} 02 02 05 0178 00  f3 01 095aeb99 02 05 00 00 016c 0176");
    let beside = file("REDIS0014", &beside);
    assert!(matches!(items(&beside).unwrap_err().fault, Fault::ModuleData(name) if name == b"abcdefghi"));
    let mut reader = Reader::new(beside.as_slice()).unwrap().skip_foreign(true);
    assert!(matches!(reader.next_item(), Ok(Some(Item::SkippedData { name })) if name == b"abcdefghi"));
    assert!(matches!(reader.next_item(), Ok(Some(Item::SkippedData { name })) if name == b"meta"));
    assert!(matches!(reader.next_item(), Ok(Some(Item::Entry(_)))));
}

#[test]
fn numbers_that_valkey_uses_otherwise() {
    // Slots that Valkey was taking over, where Redis has data that modules keep for a key.
    let import = "f3 03616263 02 00 05 4064 41ff fe00 00 016b 0176";
    assert_eq!(entries(&file("VALKEY080", import)).unwrap().len(), 1);
    for body in ["18 016b 00", "1c 016b 00"] {
        let error = items(&file("VALKEY080", body)).unwrap_err();
        assert!(error.to_string().contains("unknown type"), "{error}");
    }
    let reader = Reader::new(&b"VALKEY080"[..]).unwrap();
    assert_eq!((reader.dialect(), reader.version()), (Dialect::Valkey, 80));
}

#[test]
fn versions_that_are_not_read() {
    for (header, expected) in [
        (&b"REDIS0015"[..], "at byte 0: version 15 of RDB is not readable, only 1 to 14"),
        (b"REDIS0080", "at byte 0: version 80 of RDB is not readable, only 1 to 14"),
        (b"REDIS0000", "at byte 0: version 0 of RDB is not readable, only 1 to 14"),
        (b"VALKEY081", "at byte 0: version 81 of Valkey's RDB is not readable, only 80"),
        (b"VALKEY011", "at byte 0: version 11 of Valkey's RDB is not readable, only 80"),
        (b"REDIS00x1", "at byte 0: the file does not begin with REDIS or VALKEY and a version"),
        (b"*1\r\n$4\r\nPING", "at byte 0: the file does not begin with REDIS or VALKEY and a version"),
        (b"", "at byte 0: the file ends too early"),
        (b"REDIS00", "at byte 0: the file ends too early"),
        (b"VALK", "at byte 0: the file ends too early"),
        (b"short", "at byte 0: the file does not begin with REDIS or VALKEY and a version"),
    ] {
        let error = Reader::new(header).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some(expected), "{}", header.escape_ascii());
    }
}

#[test]
fn damage_is_told_with_its_place() {
    for (body, expected) in [
        ("00 016b 05 6162", "at byte 15, key 'k': the file ends too early"),
        ("00 05 6162", "at byte 13: the file ends too early"),
        ("1e 016b 00", "at byte 12, key 'k': damaged: unknown type"),
        ("06 016b 00", "at byte 12, key 'k': damaged: a module's value in the form of a pre-release"),
        ("f6 00", "at byte 10: damaged: a function in the form of a pre-release"),
        ("00 016b c4", "at byte 13, key 'k': damaged: unknown string encoding"),
        ("00 016b 82", "at byte 13, key 'k': damaged: unknown length encoding"),
        ("fc ffffffffffffffff", "at byte 18: damaged: time of expiry of a key"),
        ("02 016b 81ffffffffffffffff 0161", "at byte 23, key 'k': the file ends too early"),
    ] {
        let file = [b"REDIS0011", hex(body).as_slice()].concat();
        let error = items(&file).unwrap_err();
        assert_eq!(error.to_string(), expected, "{body}");
    }
    // A value with wrong parts is reported when it is decoded.
    let read = entries(&file("REDIS0011", "fe00 02 016b 02 0161 0161")).unwrap();
    let error = read[0].value(&Limits::default()).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "at byte 14, key 'k': damaged: duplicate member of a set");
    let read = entries(&file("REDIS0011", "fe00 02 016b 00")).unwrap();
    assert!(read[0].value(&Limits::default()).map(|_| ()).unwrap_err().is_empty_collection());
    // After a fault there is nothing more.
    let file = file("REDIS0011", "1e 016b 00");
    let mut reader = Reader::new(file.as_slice()).unwrap();
    assert!(reader.next_item().is_err());
    assert!(matches!(reader.next_item().unwrap_err().fault, Fault::Failed));
}

#[test]
fn a_wrong_checksum_is_an_error() {
    let mut file = support::file_of(Target::Redis72, &[EntryRef::new(0, b"k", ValueRef::String(b"value"))]);
    assert!(items(&file).is_ok());
    let at = file.len() - 10;
    file[at] ^= 1;
    let error = items(&file).unwrap_err();
    assert!(matches!(error.fault, Fault::Checksum { .. }), "{error}");
}

#[test]
fn nothing_is_read_behind_the_end() {
    let mut bytes = file("REDIS0011", "fe00 00 016b 0176");
    bytes.extend_from_slice(b"more");
    assert_eq!(items(&bytes).unwrap().len(), 1);
}
