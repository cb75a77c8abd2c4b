//! Payloads written by Redis, by us, and at random.

use super::*;
use crate::list::End;
use crate::stream::{Group, Id};
use clocks::UnixMs;
use proptest::prelude::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn list_of(elements: &[Vec<u8>]) -> List {
    let mut list = List::new();
    list.push_all(End::Back, elements.iter().map(Vec::as_slice), &Limits::default());
    list
}

fn elements(list: &List) -> Vec<Vec<u8>> {
    list.iter().map(|elem| elem.to_vec()).collect()
}

/// Type and value inside a correct frame.
fn sealed(body: &[u8]) -> Vec<u8> {
    let mut payload = body.to_vec();
    footer::seal(&mut payload);
    payload
}

fn element() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => (0usize..20_000, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
        4 => any::<i64>().prop_map(|value| value.to_string().into_bytes()),
        4 => (-300i64..300).prop_map(|value| value.to_string().into_bytes()),
    ]
}

fn string(payload: &[u8]) -> Result<Vec<u8>, Refused> {
    match restore(payload, &Limits::default())? {
        Value::String(bytes) => Ok(bytes.into_owned()),
        _ => panic!("not a string"),
    }
}

fn list(payload: &[u8]) -> Result<Vec<Vec<u8>>, Refused> {
    match restore(payload, &Limits::default())? {
        Value::List(list) => Ok(elements(&list)),
        _ => panic!("not a list"),
    }
}

#[test]
fn strings_as_redis_dumps_them() {
    for (text, payload) in [
        (&b"hello"[..], "000568656c6c6f0c00a804ebb69f1ebe43"),
        (b"-300", "00c1d4fe0c000db2b2e304944067"),
        (b"12345678901", "000b31323334353637383930310c00fb386617dd3dfb59"),
        (b"", "00000c0096ed6880f5553c93"),
    ] {
        assert_eq!(dump(ValueRef::String(text)), hex(payload));
        assert_eq!(string(&hex(payload)), Ok(text.to_vec()));
    }
    // Our compressor need not choose the same matches; version 10 is Redis 7.0.
    for payload in ["00c30928016161e01b000161610c00047f1b6a540f1d54", "00c30928016161e01b000161610a00cf092faaae25831d"]
    {
        assert_eq!(string(&hex(payload)), Ok(vec![b'a'; 40]));
    }
    assert!(dump(ValueRef::String(&[b'a'; 40])).len() < 30);
}

#[test]
fn lists_as_redis_dumps_them() {
    let letters = ["a", "b", "c", "d", "e"].map(|text| text.as_bytes().to_vec());
    let nodes = "1203020d0d0000000200816102816202ff020d0d0000000200816302816402ff020a0a0000000100816502ff\
                 0c00272402679a0a3f92";
    assert_eq!(list(&hex(nodes)).unwrap(), letters);
    let mixed = [&b"a"[..], b"1", b"-5000", &[b'x'; 70], b"9223372036854775807"].map(<[u8]>::to_vec);
    let packed = "120102c3204063116300000005008161020101f178ec03e04678e03c000248f4ff8000027f09ff0c000db88e70bfb77d15";
    assert_eq!(list(&hex(packed)).unwrap(), mixed);
    let one_node = sealed(&hex("120102 0f0f00000003008161020101816202ff"));
    assert_eq!(dump(ValueRef::List(&list_of(&[b"a".to_vec(), b"1".to_vec(), b"b".to_vec()]))), one_node);
}

#[test]
fn lists_of_older_servers_are_read() {
    let quicklist = sealed(&hex("0e 01 0d 0d0000000a000000010000f8ff"));
    assert_eq!(list(&quicklist).unwrap(), [b"7"]);
    let ziplist = sealed(&hex("0a 0f 0f0000000c000000020000f302f6ff"));
    assert_eq!(list(&ziplist).unwrap(), [b"2", b"5"]);
    let strings = sealed(&hex("01 02 0161 c0ff"));
    assert_eq!(list(&strings).unwrap(), [&b"a"[..], b"-1"]);
    let plain = sealed(&hex("12 02 01 03616263 02 0a 0a0000000100816502ff"));
    assert_eq!(list(&plain).unwrap(), [&b"abc"[..], b"e"]);
}

/// The contents of a value, in an order that does not depend on its form: strings, with their score or expiry as text.
fn contents(value: &Value<'_>) -> Vec<(Vec<u8>, Vec<u8>, String)> {
    let none = String::new;
    let mut contents: Vec<_> = match value {
        Value::String(bytes) => vec![(bytes.to_vec(), Vec::new(), none())],
        Value::List(list) => return list.iter().map(|elem| (elem.to_vec(), Vec::new(), none())).collect(),
        Value::Set(set) => set.iter().map(|member| (member.to_vec(), Vec::new(), none())).collect(),
        Value::ZSet(zset) => zset
            .iter(0..zset.len(), false)
            .map(|(member, score)| (member.to_vec(), Vec::new(), format!("{score:?}")))
            .collect(),
        Value::Hash(hash) => hash
            .fields()
            .map(|field| (field.name.to_vec(), field.value.to_vec(), format!("{:?}", field.expiry.map(|at| at.0))))
            .collect(),
        Value::Stream(stream) => {
            let entries = stream.log.range(Id::MIN, Id::MAX);
            entries.flat_map(|e| e.pairs().map(move |(n, v)| (n.to_vec(), v.to_vec(), e.id.to_string()))).collect()
        }
    };
    contents.sort();
    contents
}

fn encoding(value: &Value<'_>) -> &'static str {
    match value {
        Value::String(_) => "string",
        Value::List(list) => list.encoding(),
        Value::Set(set) => set.encoding(),
        Value::ZSet(zset) => zset.encoding(),
        Value::Hash(hash) => hash.encoding(),
        Value::Stream(stream) => stream.encoding(),
    }
}

fn dump_of(value: &Value<'_>) -> Vec<u8> {
    dump(value.as_value_ref())
}

/// Restores a payload, checks its encoding, and describes its contents.
fn described(payload: &[u8], expected: &str) -> String {
    let value = restore(payload, &Limits::default()).unwrap();
    assert_eq!(encoding(&value), expected);
    let again = dump_of(&value);
    let again = restore(&again, &Limits::default()).unwrap();
    assert_eq!(contents(&again), contents(&value));
    let show = |(a, b, c): &(Vec<u8>, Vec<u8>, String)| {
        let short = |bytes: &[u8]| match bytes.len() {
            70 => "x70".to_string(),
            _ => String::from_utf8_lossy(bytes).into_owned(),
        };
        format!("{}={}{}", short(a), short(b), c.replace("None", "").replace("Some", "@"))
    };
    contents(&value).iter().map(show).collect::<Vec<_>>().join(" ")
}

#[test]
fn collections_as_redis_8_dumps_them() {
    for (payload, encoding, expected) in [
        ("0b0e0200000003000000feff01002c010c00907c9ca20dbefe43", "intset", "-2= 1= 300="),
        ("0b180800000002000000701101000000000000f2052a010000000c0023327cb46e70947e", "intset", "5000000000= 70000="),
        ("140f0f00000003008161020101816202ff0c00fc4a5ef47c72389a", "listpack", "1= a= b="),
        ("0202c3094046017878e0390001787801790c00d68952166ce44ae7", "hashtable", "x70= y="),
        ("1013130000000400816602010181670282767603ff0c0008702bfa17b566b9", "listpack", "f=1 g=vv"),
        ("04020167c0020166c3094046017878e039000178780c00fffe104c800fab6d", "hashtable", "f=x70 g=2"),
        (
            "111d1d0000000600816302842d696e6605816102010181620283322e3504ff0c00f2e4075b1b35ac74",
            "listpack",
            "a=1.0 b=2.5 c=-inf",
        ),
        (
            "050201620000000000000440c3094046016161e03900016161000000000000f03f0c00dfb43744ac4b1f7d",
            "skiplist",
            "x70=1.0 b=2.5",
        ),
        (
            "196051c22cbb0300002e2e00000009008168020301f46051c22cbb0300000981670282767603f400d8c32cbb0300000981660201\
             010001ff0c00ef5f7c58de6099f1",
            "listpackex",
            "f=1 g=vv@(4102444800000) h=3@(4102444700000)",
        ),
        (
            "1800d8c32cbb03000002010167c002000166c3094046017878e039000178780c0060e664692cbeed08",
            "hashtable",
            "f=x70 g=2@(4102444800000)",
        ),
    ] {
        assert_eq!(described(&hex(payload), encoding), expected);
    }
    // A value that is written in one piece is written as Redis writes it.
    for payload in [
        "0b0e0200000003000000feff01002c010c00907c9ca20dbefe43",
        "0b180800000002000000701101000000000000f2052a010000000c0023327cb46e70947e",
        "140f0f00000003008161020101816202ff0c00fc4a5ef47c72389a",
        "1013130000000400816602010181670282767603ff0c0008702bfa17b566b9",
        "111d1d0000000600816302842d696e6605816102010181620283322e3504ff0c00f2e4075b1b35ac74",
    ] {
        let value = hex(payload);
        assert_eq!(dump_of(&restore(&value, &Limits::default()).unwrap()), value, "{payload}");
    }
}

#[test]
fn collections_of_older_servers_are_read() {
    for (body, encoding, expected) in [
        ("02 03 0162 c001 0161", "listpack", "1= a= b="),
        ("02 02 c001 c002", "intset", "1= 2="),
        ("03 03 0161 01 33 0162 04 312e3235 0163 ff", "listpack", "a=3.0 b=1.25 c=-inf"),
        ("0c 19 19000000160000000400 00036f6e6505f2020374776f05f3ff", "listpack", "one=1.0 two=2.0"),
        ("0d 1b 1b000000160000000400 00026631040276310402663204027632ff", "listpack", "f1=v1 f2=v2"),
        ("09 10 020266310200763102663202007632ff", "listpack", "f1=v1 f2=v2"),
        ("16 02 00 0161 c001 05 0162 c002", "listpackex", "a=1 b=2@(5)"),
        ("17 0e 0e000000 0300 816102 0101 0501 ff", "listpackex", "a=1@(5)"),
    ] {
        assert_eq!(described(&sealed(&hex(body)), encoding), expected, "{body}");
    }
}

#[test]
fn inconsistent_payloads_are_refused() {
    for (body, reason) in [
        ("", "payload cut short"),
        ("00", "payload cut short"),
        ("00 05 616263", "payload cut short"),
        ("00 81 ffffffffffffffff 61", "payload cut short"),
        ("00 03 616263 00", "bytes after the value"),
        ("00 c4 00", "unknown string encoding"),
        ("00 82 03 616263", "unknown length encoding"),
        ("00 c3 02 80ffffffff 0061", "invalid compressed string"),
        ("01 00", "empty collection"),
        ("01 c0 01 61", "an encoded string where a length belongs"),
        ("0a 0b 0b0000000a0000000000ff", "empty collection"),
        ("12 01 02 07 07000000 0000 ff", "empty collection"),
        ("12 01 03 0a 0a0000000100816502ff", "container of a list"),
        ("12 01 01 00", "empty node of a list"),
        ("12 01 02 0a 0a0000000200816502ff", "listpack count"),
        ("12 01 02 0a 0a0000000100816503ff", "listpack entry"),
        ("12 01 02 0a 0b0000000100816502ff", "listpack frame"),
        ("02 02 0161 0161", "duplicate member of a set"),
        ("02 00", "empty collection"),
        ("14 0d 0d0000000200 816102 816102 ff", "duplicate member of a set"),
        ("0b 0c 020000000200000001000100", "intset order"),
        ("05 01 0161 000000000000f87f", "a score that is not a number"),
        ("03 01 0161 fd", "a score that is not a number"),
        ("03 01 0161 01 78", "a score that is not a number"),
        ("05 02 0161 0000000000000000 0161 000000000000f03f", "duplicate member of a sorted set"),
        ("11 0d 0d0000000200 816102 817802 ff", "a score that is not a number"),
        ("11 0a 0a0000000100 816102 ff", "half a pair"),
        ("04 02 0161 0162 0161 0163", "duplicate field of a hash"),
        ("10 0a 0a0000000100 816102 ff", "half a pair"),
        ("17 0c 0c0000000200 816102 0101 ff", "half a pair"),
        ("17 0f 0f0000000300 816102 0101 817802 ff", "time of expiry of a field"),
        ("18 0000000000000000 01 81ffffffffffffffff 0161 0162", "time of expiry of a field"),
        ("07 00", "unknown type"),
        ("fe 00", "unknown type"),
    ] {
        let reply = restore(&sealed(&hex(body)), &Limits::default()).map(|_| ());
        assert_eq!(reply, Err(Refused::Value(Corrupt(reason))), "{body}");
    }
    let newer = b"\0\x01a\xff\xff\0\0\0\0\0\0\0\0";
    assert!(matches!(restore(newer, &Limits::default()), Err(Refused::Frame)));
    assert!(matches!(restore(b"short", &Limits::default()), Err(Refused::Frame)));
}

fn score() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>().prop_filter("scores are numbers", |score| !score.is_nan()),
        (-100i32..100).prop_map(f64::from),
        (-1000i32..1000).prop_map(|score| f64::from(score) / 8.0),
    ]
}

fn expiry() -> impl Strategy<Value = crate::hash::Expiry> {
    use crate::hash::{EXPIRY_MAX, Expiry};
    let at = prop_oneof![1..=EXPIRY_MAX.0, 1u64..9].prop_map(|at| Expiry::At(UnixMs(at)));
    prop_oneof![1 => Just(Expiry::Clear), 2 => at]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn strings_come_back(bytes in element()) {
        let payload = dump(ValueRef::String(&bytes));
        match restore(&payload, &Limits::default()) {
            Ok(Value::String(read)) => prop_assert_eq!(read.as_ref(), bytes),
            _ => prop_assert!(false),
        }
    }

    #[test]
    fn lists_come_back(items in proptest::collection::vec(element(), 1..40)) {
        let payload = dump(ValueRef::List(&list_of(&items)));
        match restore(&payload, &Limits::default()) {
            Ok(Value::List(read)) => prop_assert_eq!(elements(&read), items),
            _ => prop_assert!(false),
        }
    }

    #[test]
    fn sets_come_back(members in proptest::collection::btree_set(element(), 1..200)) {
        let mut set = Set::new();
        for member in &members {
            set.add(member, &Limits::default());
        }
        let value = Value::Set(set);
        let payload = dump_of(&value);
        let read = restore(&payload, &Limits::default()).unwrap();
        prop_assert_eq!(contents(&read), contents(&value));
    }

    #[test]
    fn sorted_sets_come_back(members in proptest::collection::btree_map(element(), score(), 1..200)) {
        let mut zset = ZSet::new();
        for (member, score) in &members {
            zset.insert(*score, member, &Limits::default()).unwrap();
        }
        let large = zset.encoding() == "skiplist";
        let value = Value::ZSet(zset);
        let payload = dump_of(&value);
        let read = restore(&payload, &Limits::default()).unwrap();
        // A listpack has no negative zero, in Redis neither.
        let plain = |contents: Vec<(Vec<u8>, Vec<u8>, String)>| -> Vec<_> {
            contents.into_iter().map(|(a, b, c)| (a, b, if c == "-0.0" && !large { "0.0".into() } else { c })).collect()
        };
        prop_assert_eq!(plain(contents(&read)), plain(contents(&value)));
    }

    #[test]
    fn hashes_come_back(fields in proptest::collection::btree_map(element(), (element(), expiry()), 1..100),
        limit in 0usize..200)
    {
        let limits = Limits { hash_max_listpack_entries: limit, ..Limits::default() };
        let mut hash = Hash::new();
        for (name, (value, expiry)) in &fields {
            hash.set(name, value, *expiry, &limits);
        }
        let value = Value::Hash(hash);
        let payload = dump_of(&value);
        let read = restore(&payload, &Limits::default()).unwrap();
        prop_assert_eq!(contents(&read), contents(&value));
    }

    /// Any bytes in a payload with a correct frame: a result, no panic.
    #[test]
    fn any_body_is_survived(body in proptest::collection::vec(any::<u8>(), 0..100)) {
        let _ = restore(&sealed(&body), &Limits::default());
        let _ = restore(&body, &Limits::default());
    }

    /// Payloads of every type with a few bytes changed and a corrected frame.
    #[test]
    fn damaged_payloads_are_survived(which in 0..SAMPLES.len(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4))
    {
        let mut payload = hex(SAMPLES[which]);
        payload.truncate(payload.len() - 10);
        for (at, to) in damage {
            let at = at.index(payload.len());
            payload[at] = to;
        }
        if let Ok(value) = restore(&sealed(&payload), &Limits::default()) {
            let again = dump_of(&value);
            let again = restore(&again, &Limits::default()).unwrap();
            prop_assert_eq!(contents(&again), contents(&value));
        }
    }
}

const SAMPLES: [&str; 9] = [
    "00c30928016161e01b000161610c00047f1b6a540f1d54",
    "1203020d0d0000000200816102816202ff020d0d0000000200816302816402ff020a0a0000000100816502ff0c00272402679a0a3f92",
    "0b180800000002000000701101000000000000f2052a010000000c0023327cb46e70947e",
    "140f0f00000003008161020101816202ff0c00fc4a5ef47c72389a",
    "04020167c0020166c3094046017878e039000178780c00fffe104c800fab6d",
    "111d1d0000000600816302842d696e6605816102010181620283322e3504ff0c00f2e4075b1b35ac74",
    "050201620000000000000440c3094046016161e03900016161000000000000f03f0c00dfb43744ac4b1f7d",
    "196051c22cbb0300002e2e00000009008168020301f46051c22cbb0300000981670282767603f400d8c32cbb0300000981660201010001ff0\
     c00ef5f7c58de6099f1",
    "1800d8c32cbb03000002010167c002000166c3094046017878e039000178780c0060e664692cbeed08",
];

/// A payload of Redis 8.8, given in hexadecimal.
fn of_redis(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal")).collect()
}

#[test]
fn streams_of_redis_8_8_are_read() {
    // XADD 1-1 to 1-3, all read by a consumer, XNACK of 1-3 and then of 1-1.
    let payload = of_redis(
        "1b011000000000000000010000000000000001c3293311330000001400030100010101816602000102200a05000181760204600a2015c0\
         0a0002600a0101ff0301030101000003010167010303030000000000000001000000000000000100000000000000000100000000000000\
         010000000000000002900d6313a20100000100000000000000010000000000000003000000000000000001010163900d6313a201000090\
         0d6313a20100000100000000000000010000000000000002020000000000000001000000000000000300000000000000010000000000000\
         001406440640000000e00b50872694d1c3a54",
    );
    let Ok(Value::Stream(stream)) = restore(&payload, &Limits::default()) else { panic!("a stream of Redis 8.8") };
    let group = stream.groups.get(b"g").expect("its group");
    assert_eq!(group.released().iter().map(|delivery| delivery.id.seq).collect::<Vec<_>>(), [3, 1]);
    assert_eq!((group.pending_len(), group.released_len()), (3, 2));
    let again = dump(ValueRef::Stream(&stream));
    assert_eq!((again[0], again[again.len() - 10]), (27, 14));
    let Ok(Value::Stream(again)) = restore(&again, &Limits::default()) else { panic!("what was written") };
    assert_eq!(again.groups.get(b"g").map(Group::released), Some(group.released()));

    // XADD IDMP: the entry is read, and the data about its producer is passed over.
    let payload = of_redis(
        "1b0110000001a213630ff400000000000000001d1d0000000a0001010001010181660200010201000100018176020401ff0181000001a2\
         13630ff40081000001a213630ff4000000010040644064010270310102693181000001a213630ff40001000e0056db8d750ba762b0",
    );
    assert!(matches!(restore(&payload, &Limits::default()), Ok(Value::Stream(stream)) if stream.len() == 1));
}
