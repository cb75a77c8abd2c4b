//! Replies and errors, to the byte.

use std::collections::BTreeSet;

use resp::Protocol;

use crate::testing::Bench;

/// Runs lines of `command => reply`, the reply with blanks for line breaks.
fn check(bench: &mut Bench, script: &str) {
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (command, reply) = line.split_once(" => ").expect("command => reply");
        let got = bench.words(command);
        assert_eq!(got.trim_end().replace("\r\n", " "), reply, "{command}");
    }
}

#[test]
fn members_come_and_go() {
    check(
        &mut Bench::new(),
        "sadd s 3 1 2 3 => :3
         sadd s 1 2 => :0
         scard s => :3
         smembers s => *3 $1 1 $1 2 $1 3
         sadd s a => :1
         sismember s a => :1
         sismember s b => :0
         sismember none b => :0
         smismember s 1 b a => *3 :1 :0 :1
         smismember none 1 2 => *2 :0 :0
         srem s 1 b 2 => :2
         srem none 1 => :0
         smembers s => *2 $1 3 $1 a
         srem s 3 a x => :2
         exists s => :0
         scard s => :0
         smembers s => *0",
    );
}

#[test]
fn sets_in_resp3() {
    let mut bench = Bench::new();
    bench.words("sadd s a");
    bench.words("sadd t a");
    bench.protocol = Protocol::Resp3;
    check(
        &mut bench,
        "smembers s => ~1 $1 a
         smembers none => ~0
         sinter s t => ~1 $1 a
         sinter s none => ~0
         sunion none => ~0
         sdiff s t => ~0
         srandmember s 2 => *1 $1 a
         srandmember none => _
         spop s 0 => ~0
         spop s 5 => ~1 $1 a
         spop none => _
         spop none 5 => ~0",
    );
}

#[test]
fn a_member_moves() {
    let mut bench = Bench::new();
    check(
        &mut bench,
        "sadd s 1 a => :2
         sadd t 1 => :1
         smove s t a => :1
         smove s t a => :0
         smove s t 1 => :1
         exists s => :0
         smembers t => *2 $1 1 $1 a
         smove t t a => :1
         smove t t z => :0
         smove none t a => :0
         smove t new a => :1
         smembers new => *1 $1 a",
    );
    assert_eq!(bench.notified(), ["sadd s", "sadd t", "srem s", "sadd t", "srem s", "del s", "srem t", "sadd new"]);
}

#[test]
fn sets_are_combined() {
    let mut bench = Bench::new();
    check(
        &mut bench,
        "sadd a 1 2 3 x => :4
         sadd b 2 3 4 x => :4
         sadd c 3 x y => :3
         sinter a b => *3 $1 2 $1 3 $1 x
         sinter a b c => *2 $1 3 $1 x
         sinter a b none => *0
         sinter none => *0
         sunion a c => *5 $1 1 $1 2 $1 3 $1 x $1 y
         sdiff a b => *1 $1 1
         sdiff a c none => *2 $1 1 $1 2
         sdiff none a => *0
         sdiff a a => *0
         sintercard 2 a b => :3
         sintercard 2 a b limit 2 => :2
         sintercard 2 a b limit 0 => :3
         sintercard 1 none => :0
         sunioncard 2 a b => :5
         sunioncard 3 a b none limit 3 => :3
         sunioncard 2 a b approx => :5
         sunioncard 2 a b limit 2 approx => :2
         sunioncard 1 none => :0
         sdiffcard 2 a c => :2
         sdiffcard 2 a c limit 1 => :1
         sdiffcard 2 none a => :0
         sdiffcard 2 a a => :0
         sinterstore d a b c => :2
         smembers d => *2 $1 3 $1 x
         sunionstore d d a => :4
         sdiffstore d d c => :2
         smembers d => *2 $1 1 $1 2
         sdiffstore d a a => :0
         exists d => :0
         set str x => +OK
         sinterstore str a b => :3
         sinterstore str a none => :0
         exists str => :0",
    );
    let events = [
        "sinterstore d",
        "overwritten d",
        "sunionstore d",
        "overwritten d",
        "sdiffstore d",
        "del d",
        "set str",
        "overwritten str",
        "type_changed str",
        "sinterstore str",
        "del str",
    ];
    assert_eq!(bench.notified()[3..], events);
}

#[test]
fn encodings_of_results() {
    let mut bench = Bench::new();
    bench.words("sadd i 1 2 3");
    bench.words("sadd m 1 2 x");
    let mut encoding = |command: &str| {
        bench.words(command);
        bench.inspect(|db| db.peek(&db.key(b"d")).map(|entry| entry.encoding()))
    };
    assert_eq!(encoding("sinterstore d i m"), Some("intset"));
    assert_eq!(encoding("sunionstore d i m"), Some("listpack"));
    assert_eq!(encoding("sdiffstore d m i"), Some("listpack"));
    assert_eq!(encoding("sdiffstore d i m"), Some("intset"));
}

#[test]
fn another_type_is_refused() {
    let mut bench = Bench::new();
    bench.words("set k x");
    bench.words("sadd s 1");
    for command in [
        "sadd k a",
        "srem k a",
        "sismember k a",
        "smismember k a",
        "scard k",
        "smembers k",
        "smove k s 1",
        "smove s k 1",
        "spop k",
        "spop k 1",
        "srandmember k",
        "srandmember k 1",
        "sscan k 0",
        "sinter k",
        "sinter none k",
        "sunion s k",
        "sdiff s k",
        "sinterstore d none k",
        "sunionstore d k",
        "sdiffstore d k",
        "sintercard 2 none k",
        "sunioncard 2 none k",
        "sdiffcard 2 none k",
    ] {
        assert_eq!(
            bench.words(command),
            "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
            "{command}"
        );
    }
    assert_eq!(bench.notified(), ["set k", "sadd s"]);
}

#[test]
fn errors() {
    let mut bench = Bench::new();
    bench.words("sadd s 1");
    check(
        &mut bench,
        "spop s 1 2 => -ERR syntax error
         spop s -1 => -ERR value is out of range, must be positive
         spop s x => -ERR value is out of range, must be positive
         srandmember s 1 2 => -ERR syntax error
         srandmember s x => -ERR value is not an integer or out of range
         srandmember s -9223372036854775808 => -ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
         srandmember s -9223372036854775807 => -ERR too many random elements for one reply
         sintercard 0 s => -ERR numkeys should be greater than 0
         sintercard x s => -ERR numkeys should be greater than 0
         sintercard 2 s => -ERR Number of keys can't be greater than number of args
         sintercard 1 s limit => -ERR syntax error
         sintercard 1 s limit -1 => -ERR LIMIT can't be negative
         sintercard 1 s limit x => -ERR LIMIT can't be negative
         sintercard 1 s approx => -ERR syntax error
         sunioncard 0 s => -ERR numkeys should be greater than 0
         sunioncard 2 s => -ERR Number of keys can't be greater than number of args
         sunioncard 1 s limit -1 => -ERR LIMIT can't be negative
         sdiffcard 1 s approx => -ERR syntax error
         sdiffcard x s => -ERR numkeys should be greater than 0
         sintercard 1 s t => -ERR syntax error
         sscan s x => -ERR invalid cursor
         sscan s 0 novalues => -ERR NOVALUES option can only be used in HSCAN
         sscan none 0 nonsense => *2 $1 0 *0
         sscan s 0 match 2* => *2 $1 0 *0
         sscan s 0 match * count 5 => *2 $1 0 *1 $1 1",
    );
}

/// The members in a reply.
fn members(reply: &str) -> Vec<String> {
    reply.lines().filter(|line| line.starts_with("member")).map(String::from).collect()
}

#[test]
fn members_by_chance() {
    for size in [20, 100, 3000usize] {
        let mut bench = Bench::new();
        let all: BTreeSet<String> = (0..size).map(|i| format!("member{i:04}")).collect();
        bench.words(&format!("sadd s {}", all.iter().cloned().collect::<Vec<_>>().join(" ")));
        for count in [1, 7, size / 2, size - 1, size, size + 5] {
            let chosen = members(&bench.words(&format!("srandmember s {count}")));
            let distinct: BTreeSet<String> = chosen.iter().cloned().collect();
            assert_eq!(chosen.len(), count.min(size));
            assert_eq!(distinct.len(), chosen.len());
            assert!(distinct.is_subset(&all));
        }
        assert_eq!(members(&bench.words("srandmember s -5000")).len(), 5000);
        assert_eq!(members(&bench.words("srandmember s")).len(), 1);
        let mut left = all.clone();
        for count in [1, 0, 3, size / 2, 4] {
            for member in members(&bench.words(&format!("spop s {count}"))) {
                assert!(left.remove(&member));
            }
            assert_eq!(bench.words("scard s"), format!(":{}\r\n", left.len()));
        }
        let mut replayed = bench.replayed();
        let same: BTreeSet<String> = members(&replayed.words("smembers s")).into_iter().collect();
        assert_eq!(same, left);
        assert!(left.remove(&members(&bench.words("spop s"))[0]));
        let rest: BTreeSet<String> = members(&bench.words("spop s 100000")).into_iter().collect();
        assert_eq!(rest, left);
        assert_eq!(bench.words("exists s"), ":0\r\n");
        let events = bench.notified();
        assert_eq!(events[events.len() - 2..], ["spop s", "del s"]);
    }
}

#[test]
fn a_scan_shows_everything() {
    let mut bench = Bench::new();
    let all: Vec<String> = (0..3000).map(|i| format!("member{i}")).collect();
    bench.words(&format!("sadd s {}", all.join(" ")));
    let (mut cursor, mut seen, mut calls) = ("0".to_string(), BTreeSet::new(), 0);
    loop {
        let reply = bench.words(&format!("sscan s {cursor} count 50"));
        let mut lines = reply.lines().skip(2);
        cursor = lines.next().expect("a cursor").to_string();
        seen.extend(members(&reply));
        calls += 1;
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 3000);
    assert!((55..=60).contains(&calls), "{calls} calls");
}

#[test]
fn changes_are_counted() {
    let mut bench = Bench::new();
    let mut changes = |command: &str| {
        let before = bench.effects.dirty;
        bench.words(command);
        bench.effects.dirty - before
    };
    assert_eq!(changes("sadd s 1 2 3 3"), 3);
    assert_eq!(changes("sadd s 1 2 3"), 0);
    assert_eq!(changes("srem s 1 2 9"), 2);
    assert_eq!(changes("srem s 9"), 0);
    assert_eq!(changes("sadd t 1 2"), 2);
    assert_eq!(changes("smove t s 1"), 2);
    assert_eq!(changes("smove t s 9"), 0);
    assert_eq!(changes("spop s 0"), 0);
    assert_eq!(changes("spop s 5"), 2);
    assert_eq!(changes("spop s 5"), 0);
}
