//! Whole scans by a client that keeps cursors in doubles, while keys and elements come and go.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::testing::Bench;

/// One kind of scan: the call up to its cursor, how to add and remove an element, and if the reply has values.
#[derive(Clone, Copy, Debug)]
struct Scanned {
    scan: &'static str,
    add: &'static str,
    remove: &'static str,
    is_paired: bool,
}

const ALL: [Scanned; 5] = [
    Scanned { scan: "scan", add: "set {n} 1", remove: "del {n}", is_paired: false },
    Scanned { scan: "scan", add: "set {tag}{n} 1", remove: "del {tag}{n}", is_paired: false },
    Scanned { scan: "hscan k", add: "hset k {n} 1", remove: "hdel k {n}", is_paired: true },
    Scanned { scan: "sscan k", add: "sadd k {n}", remove: "srem k {n}", is_paired: false },
    Scanned { scan: "zscan k", add: "zadd k 1 {n}", remove: "zrem k {n}", is_paired: true },
];

/// The cursor and the names of a reply.
fn read(reply: &str, is_paired: bool) -> (String, Vec<String>) {
    let mut lines = reply.split("\r\n").filter(|line| !line.is_empty() && !line.starts_with(['*', '$']));
    let cursor = lines.next().expect("a cursor").to_owned();
    (cursor, lines.step_by(1 + usize::from(is_paired)).map(str::to_owned).collect())
}

/// A cursor as a client hands it back that has it in a double; clients with signed integers lose nothing either.
fn through_a_double(cursor: &str) -> String {
    let number: f64 = cursor.parse().expect("a number");
    assert!(number < (1u64 << 53) as f64, "{cursor}");
    format!("{number:.0}")
}

#[derive(Clone, Debug)]
enum Between {
    Add(u16, u16),
    Remove(u16, u16),
}

fn between() -> impl Strategy<Value = Between> {
    prop_oneof![
        (0..900u16, 0..200u16).prop_map(|(from, len)| Between::Add(from, len)),
        (0..900u16, 0..400u16).prop_map(|(from, len)| Between::Remove(from, len)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn what_stays_is_returned_once(
        of in 0..ALL.len(),
        start in 0..900u16,
        count in 1..60u16,
        changes in prop::collection::vec(between(), 1..20),
    ) {
        let (of, mut bench) = (ALL[of], Bench::new());
        let name = |n: u16| match of.add.contains("{tag}") {
            true => format!("{{tag}}name:{n}"),
            false => format!("name:{n}"),
        };
        let words = |text: &str, n: u16| text.replace("{n}", &format!("name:{n}"));
        // A large one in any case: small collections are returned whole.
        (0..start + 600).for_each(|n| drop(bench.words(&words(of.add, n))));
        let mut stays: BTreeSet<u16> = (0..start + 600).collect();
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        let (mut cursor, mut changes) = ("0".to_owned(), changes.iter());
        loop {
            let reply = bench.words(&format!("{} {cursor} count {count}", of.scan));
            let (next, names) = read(&reply, of.is_paired);
            names.into_iter().for_each(|name| *seen.entry(name).or_default() += 1);
            if next == "0" {
                break;
            }
            cursor = through_a_double(&next);
            prop_assert_eq!(&cursor, &next);
            match changes.next() {
                Some(Between::Add(from, len)) => {
                    (*from..from + len).for_each(|n| drop(bench.words(&words(of.add, n))));
                }
                Some(Between::Remove(from, len)) => {
                    // Some hundreds stay, so that the collection stays a large one.
                    for n in (*from..from + len).filter(|n| n % 2 == 0) {
                        bench.words(&words(of.remove, n));
                        stays.remove(&n);
                    }
                }
                None => {}
            }
        }
        for n in stays {
            prop_assert_eq!(seen.get(&name(n)), Some(&1), "{}", name(n));
        }
    }
}

#[test]
fn a_cursor_that_no_scan_gives_out_is_an_error() {
    let mut bench = Bench::new();
    for of in ALL {
        (0..600).for_each(|n| drop(bench.words(&of.add.replace("{n}", &n.to_string()))));
        for cursor in ["9007199254740992", "9659095300802871296", "18446744073709551614"] {
            let reply = bench.words(&format!("{} {cursor}", of.scan));
            assert_eq!(reply, "-ERR invalid cursor\r\n", "{} {cursor}", of.scan);
        }
        bench.words("del k");
    }
}
