//! Payloads written by Redis, by us, and by nobody sane.

use super::*;
use crate::list::End;
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

#[test]
fn inconsistent_payloads_are_refused() {
    for body in [
        "",                                 // nothing
        "00",                               // no string
        "00 05 616263",                     // cut short
        "00 03 616263 00",                  // something behind
        "00 c4 00",                         // unknown string encoding
        "00 82 03 616263",                  // unknown length encoding
        "00 81 ffffffffffffffff 61",        // longer than memory
        "00 c3 02 bfffffff 0061",           // expands too much
        "01 00",                            // no elements
        "01 c0 01 61",                      // a string for a count
        "0a 0b 0b0000000a0000000000ff",     // no elements in a ziplist
        "12 01 02 07 07000000 0000 ff",     // no elements in any node
        "12 01 03 0a 0a0000000100816502ff", // unknown container
        "12 01 01 00",                      // empty plain node
        "12 01 02 0a 0a0000000200816502ff", // a wrong count
        "12 01 02 0a 0a0000000100816503ff", // a wrong back-length
        "07 00",                            // a module's value
        "fe 00",                            // unknown
    ] {
        let payload = sealed(&hex(body));
        assert!(matches!(restore(&payload, &Limits::default()), Err(Refused::Value(_))), "{body}");
    }
    let newer = b"\0\x01a\xff\xff\0\0\0\0\0\0\0\0";
    assert!(matches!(restore(newer, &Limits::default()), Err(Refused::Frame)));
    assert!(matches!(restore(b"short", &Limits::default()), Err(Refused::Frame)));
}

proptest! {
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

    /// Whatever stands in a payload whose frame is right: an answer, no panic.
    #[test]
    fn any_body_is_survived(body in proptest::collection::vec(any::<u8>(), 0..100)) {
        let _ = restore(&sealed(&body), &Limits::default());
        let _ = restore(&body, &Limits::default());
    }

    #[test]
    fn damaged_lists_are_survived(items in proptest::collection::vec(element(), 1..10),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4))
    {
        let mut payload = dump(ValueRef::List(&list_of(&items)));
        payload.truncate(payload.len() - 10);
        for (at, to) in damage {
            let at = at.index(payload.len());
            payload[at] = to;
        }
        let _ = restore(&sealed(&payload), &Limits::default());
    }
}
