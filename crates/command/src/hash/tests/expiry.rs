//! Fields that expire: the replies of the commands about that, and the view of other commands.

use clocks::UnixMs;
use object::Hash;

use crate::Events;
use crate::dialect::Dialect;
use crate::hash::reclaim;
use crate::testing::Bench;

const NOW: UnixMs = UnixMs(1_000_000_000_000);

fn check(bench: &mut Bench, script: &str) {
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (command, reply) = line.split_once(" => ").expect("command => reply");
        let got = bench.words(command);
        assert_eq!(got.trim_end().replace("\r\n", " "), reply, "{command}");
    }
}

/// A bench with a hash of a (expires in 10 ms), b (in 20 ms) and c; small or large.
fn bench(large: bool) -> Bench {
    let mut bench = Bench::new();
    if large {
        bench.tunables.limits.hash_max_listpack_entries = 0;
    }
    bench.words("hset h a 1 b 2 c 3");
    bench.words("hpexpire h 10 fields 1 a");
    bench.words("hpexpire h 20 fields 1 b");
    bench.notified();
    bench
}

#[test]
fn times_are_set_and_read() {
    check(
        &mut Bench::new(),
        "hset h a 1 b 2 c 3 => :3
         hexpire h 100 fields 2 a zz => *2 :1 :-2
         httl h fields 3 a b zz => *3 :100 :-1 :-2
         hpttl h fields 1 a => *1 :100000
         hexpiretime h fields 1 a => *1 :1000000100
         hpexpiretime h fields 1 a => *1 :1000000100000
         hpexpire h 1500 nx fields 2 a b => *2 :0 :1
         httl h fields 1 b => *1 :2
         hexpire h 50 gt fields 3 a b c => *3 :0 :1 :0
         hexpire h 40 lt fields 3 a b c => *3 :1 :1 :1
         hexpire h 60 xx fields 2 a zz => *2 :1 :-2
         hexpireat h 1000000001 fields 1 a => *1 :1
         hpexpireat h 1000000002000 fields 1 b => *1 :1
         hpttl h fields 2 a b => *2 :1000 :2000
         hpersist h fields 3 a c zz => *3 :1 :1 :-2
         hpersist h fields 1 a => *1 :-1
         hpexpireat h 1000000000000 fields 3 a a zz => *3 :2 :-2 :-2
         hgetall h => *4 $1 b $1 2 $1 c $1 3
         hexpire h 0 fields 2 b c => *2 :2 :2
         exists h => :0
         hexpire none 5 fields 2 a b => *2 :-2 :-2
         hpersist none fields 1 a => *1 :-2
         httl none fields 1 a => *1 :-2",
    );
}

#[test]
fn options_stand_in_any_order() {
    let mut bench = Bench::new();
    assert_eq!(bench.words("hsetex h nx fields 1 a 1"), "-ERR unknown argument: nx\r\n");
    bench.tunables.dialect = Dialect::Valkey;
    check(
        &mut bench,
        "hsetex h nx xx fields 1 a 1 => -ERR Only one of XX or NX arguments can be specified
         hsetex h fields 1 a 1 fnx ex 5 => :1
         hsetex h ex 5 fields 1 a 2 fnx => :0
         hsetex h keepttl fields 1 a 3 fxx => :1
         httl h fields 1 a => *1 :5
         hgetex h fields 1 a ex 9 => *1 $1 3
         httl h fields 1 a => *1 :9
         hexpire h 7 fields 1 a gt => *1 :0
         hexpire h 7 lt fields 1 a lt => *1 :1
         hgetex h persist fields 1 a => *1 $1 3
         httl h fields 1 a => *1 :-1
         hsetex none fields 1 a 1 xx => :0
         exists none => :0
         hsetex h nx fields 1 a 4 => :0
         hsetex h fields 1 b 4 xx fnx => :1
         hsetex new fields 1 a 4 nx => :1
         hmget h a b => *2 $1 3 $1 4",
    );
    let mut other = bench.replayed();
    assert_eq!(other.words("hgetall h"), bench.words("hgetall h"));
}

#[test]
fn errors() {
    let mut bench = Bench::new();
    bench.words("hset h a 1");
    check(
        &mut bench,
        "hexpire h x fields 1 a => -ERR value is not an integer or out of range
         hexpire h -1 fields 1 a => -ERR invalid expire time, must be >= 0
         hexpire h 70368744178 fields 1 a => -ERR invalid expire time in 'hexpire' command
         hpexpire h 69368744177664 fields 1 a => -ERR invalid expire time in 'hpexpire' command
         hpexpire h 69368744177663 fields 1 a => *1 :1
         hexpireat h 70368744178 fields 1 a => -ERR invalid expire time in 'hexpireat' command
         hpexpireat h 70368744177664 fields 1 a => -ERR invalid expire time in 'hpexpireat' command
         hexpire h 9223372036854775807 fields 1 a => -ERR invalid expire time in 'hexpire' command
         hexpire h 1 1 1 a => -ERR unknown argument: 1
         hexpire h 1 nx gt fields 1 a => -ERR Multiple condition flags specified
         hexpire h 1 fields 0 a => -ERR Parameter `numFields` should be greater than 0
         hexpire h 1 fields 2 a => -ERR wrong number of arguments
         hexpire h 1 fields 1 a b => -ERR unknown argument: b
         hexpire h 1 fields 1 a fields 1 b => -ERR FIELDS keyword specified multiple times
         hexpire h 1 nx nx nx nx => -ERR missing FIELDS argument
         hexpire h 1 nx fields 1 => -ERR FIELDS requires at least numfields and one field argument
         httl h fields 0 a => -ERR Number of fields must be a positive integer
         httl h fields x a => -ERR Number of fields must be a positive integer
         httl h fields 2 a => -ERR The `numfields` parameter must match the number of arguments
         httl h field 1 a => -ERR Mandatory argument FIELDS is missing or not at the right position
         hgetex h ex fields 1 a => -ERR value is not an integer or out of range
         hgetex h ex 5 persist fields 1 a => -ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified
         hgetex h fields 1 a ex => -ERR missing expire time
         hgetex h fields 1 a what => -ERR unknown argument: what
         hgetex h fields 2 a => -ERR wrong number of arguments
         hgetex h ex 5 px 5 => -ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified
         hgetex h ex 5 fields => -ERR wrong number of arguments for 'hgetex' command
         hgetex h fields 1 a keepttl => -ERR unknown argument: keepttl
         hgetex h pxat 70368744177664 fields 1 a => -ERR invalid expire time in 'hgetex' command
         hgetdel h fields 0 a => -ERR Number of fields must be a positive integer
         hsetex h ex 5 px 5 fields 1 a 1 => -ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified
         hsetex h fnx fxx fields 1 a 1 => -ERR Only one of FXX or FNX arguments can be specified
         hsetex h foo fields 1 a 1 => -ERR unknown argument: foo
         hsetex h fields 2 a 1 => -ERR wrong number of arguments
         hsetex h fields 1 a 1 b => -ERR unknown argument: b
         hsetex h fields 99999999999 a 1 => -ERR invalid number of fields
         hsetex h fields 1 a 1 fields 1 b 2 => -ERR FIELDS keyword specified multiple times
         hsetex h fields 0 a 1 => -ERR invalid number of fields
         hsetex h fnx fnx a b => -ERR Only one of FXX or FNX arguments can be specified
         hsetex h fnx keepttl fields 1 => -ERR wrong number of arguments
         hsetex h fnx keepttl ex ex => -ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
    );
}

#[test]
fn values_and_expiry_at_once() {
    check(
        &mut Bench::new(),
        "hsetex h ex 10 fields 2 a 1 b 2 => :1
         httl h fields 2 a b => *2 :10 :10
         hsetex h keepttl fields 2 a 5 c 6 => :1
         httl h fields 2 a c => *2 :10 :-1
         hsetex h fields 1 a 7 => :1
         httl h fields 1 a => *1 :-1
         hsetex h fnx fields 2 a 1 d 1 => :0
         hsetex h fxx fields 2 a 1 d 1 => :0
         hsetex h fxx px 500 fields 2 a 1 c 1 => :1
         hpttl h fields 2 a c => *2 :500 :500
         hsetex h fnx fields 1 d 1 => :1
         hsetex none fxx fields 1 d 1 => :0
         hgetex h fields 2 a zz => *2 $1 1 $-1
         hgetex h persist fields 1 a => *1 $1 1
         hgetex h pxat 1000000000777 fields 2 a d => *2 $1 1 $1 1
         hpttl h fields 4 a b c d => *4 :777 :10000 :500 :777
         hgetex none ex 5 fields 2 a b => *2 $-1 $-1
         hgetex h exat 1 fields 2 a a => *2 $1 1 $-1
         hgetdel h fields 3 b b zz => *3 $1 2 $-1 $-1
         hgetdel none fields 1 b => *1 $-1
         hsetex h pxat 1 fields 2 c 9 e 9 => :1
         hgetall h => *2 $1 d $1 1
         hgetdel h fields 1 d => *1 $1 1
         hsetex h pxat 1 fields 1 a 1 => :1
         exists h => :0",
    );
}

#[test]
fn a_field_is_gone_when_its_time_has_passed() {
    for large in [false, true] {
        let mut bench = bench(large);
        bench.now = NOW + 10;
        assert_eq!(bench.words("hget h a"), "$1\r\n1\r\n", "to the millisecond");
        bench.now = NOW + 11;
        check(
            &mut bench,
            "hlen h => :3
             httl h fields 1 a => *1 :-2
             hexpire h 5 fields 1 a => *1 :-2
             hpersist h fields 1 a => *1 :-2
             hlen h => :3
             hget h a => $-1
             hlen h => :2
             hget h b => $1 2",
        );
        assert_eq!(bench.notified(), ["hexpired h"]);
        bench.now = NOW + 21;
        let reply = bench.words("hgetall h");
        assert_eq!(reply, "*2\r\n$1\r\nc\r\n$1\r\n3\r\n");
        check(
            &mut bench,
            "hkeys h => *1 $1 c
             hvals h => *1 $1 3
             hscan h 0 => *2 $1 0 *2 $1 c $1 3
             hlen h => :2
             hrandfield h 5 => *1 $1 c
             hlen h => :1",
        );
        assert_eq!(bench.notified(), ["hexpired h"]);
    }
}

#[test]
fn whoever_meets_an_expired_field_deletes_it() {
    for large in [false, true] {
        for (command, reply, len) in [
            ("hget h a", "$-1", 2),
            ("hmget h a b zz", "*3 $-1 $1 2 $-1", 2),
            ("hexists h a", ":0", 2),
            ("hstrlen h a", ":0", 2),
            ("hincrby h a 5", ":5", 3),
            ("hincrbyfloat h a 5", "$1 5", 3),
            ("hsetnx h a 5", ":1", 3),
            ("hgetex h fields 1 a", "*1 $-1", 2),
            ("hgetex h ex 100 fields 1 a", "*1 $-1", 2),
            ("hgetdel h fields 2 a b", "*2 $-1 $1 2", 1),
            ("hsetex h fnx fields 1 a 1", ":1", 3),
            ("hsetex h fxx fields 1 a 1", ":0", 2),
            ("hrandfield h 0", "*0", 2),
        ] {
            let mut bench = bench(large);
            bench.now = NOW + 15;
            assert_eq!(bench.words(command).trim_end().replace("\r\n", " "), reply, "{command}");
            assert_eq!(bench.words("hlen h"), format!(":{len}\r\n"), "{command}");
            assert_eq!(bench.notified()[0], "hexpired h", "{command}");
            if len == 3 {
                assert_eq!(bench.words("httl h fields 1 a"), "*1\r\n:-1\r\n", "{command} leaves no expiry");
            }
        }
    }
}

#[test]
fn the_key_goes_with_its_last_field() {
    for (command, events) in [
        ("hget h a", &["del h"][..]),
        ("hmget h a b", &["del h"]),
        ("hexists h a", &["del h"]),
        ("hstrlen h a", &["del h"]),
        ("hgetdel h fields 1 a", &["hexpired h", "del h"]),
        ("hrandfield h", &["hexpired h", "del h"]),
        ("hsetex h fxx fields 1 a 1", &["hexpired h", "del h"]),
    ] {
        let mut bench = Bench::new();
        bench.words("hset h a 1");
        bench.words("hpexpire h 10 fields 1 a");
        bench.now = NOW + 11;
        bench.notified();
        bench.words(command);
        assert_eq!(bench.notified(), events, "{command}");
        assert_eq!(bench.words("exists h"), ":0\r\n");
    }
    let mut bench = Bench::new();
    check(&mut bench, "hset h a 1 b 2 => :2\nhpexpire h 10 fields 2 a b => *2 :1 :1");
    bench.now = NOW + 11;
    bench.notified();
    bench.words("hmget h a b");
    assert_eq!(bench.notified(), ["hexpired h", "del h"], "the first of them was not the last");
}

#[test]
fn hsetex_sets_fields_that_have_expired_and_leaves_the_key_its_time() {
    for (command, events) in [
        ("hsetex h fields 1 a 2", &["hset h"][..]),
        ("hsetex h keepttl fields 1 a 2", &["hset h"]),
        ("hsetex h fnx fields 1 a 2", &["hexpired h", "hset h"]),
        ("hsetex h fnx keepttl fields 2 a 1 a 2", &["hexpired h", "hset h"]),
    ] {
        let mut bench = Bench::new();
        check(&mut bench, "hset h a 1 => :1\nhpexpire h 10 fields 1 a => *1 :1\npexpire h 1000 => :1");
        bench.now = NOW + 11;
        bench.notified();
        assert_eq!(bench.words(command), ":1\r\n");
        assert_eq!(bench.notified(), events, "{command}");
        check(&mut bench, "hget h a => $1 2\nhttl h fields 1 a => *1 :-1\npttl h => :989");
    }
    for (command, events) in [
        ("hsetex h px 100 fields 1 a 2", &["hset h", "hexpire h"][..]),
        ("hsetex h pxat 1 fields 1 a 2", &["hset h", "hdel h", "del h"]),
        ("hsetex h fnx pxat 1 fields 1 a 2", &["hexpired h", "hset h", "hdel h", "del h"]),
    ] {
        let mut bench = Bench::new();
        check(&mut bench, "hset h a 1 => :1\nhpexpire h 10 fields 1 a => *1 :1");
        bench.now = NOW + 11;
        bench.notified();
        assert_eq!(bench.words(command), ":1\r\n");
        assert_eq!(bench.notified(), events, "{command}");
    }
}

#[test]
fn increments_keep_the_expiry_and_sets_clear_it() {
    let mut bench = bench(false);
    check(
        &mut bench,
        "hincrby h a 1 => :2
         hpttl h fields 1 a => *1 :10
         hincrbyfloat h a 1 => $1 3
         hpttl h fields 1 a => *1 :10
         hset h a 1 => :0
         hpttl h fields 1 a => *1 :-1",
    );
}

#[test]
fn the_sweep_reclaims_in_steps() {
    for large in [false, true] {
        let mut bench = bench(large);
        let mut sweep = |later: u64, max: usize| {
            let mut events = Events { wanted: u32::MAX, list: Vec::new() };
            let done = bench.sweep("h", |db, key, fx| reclaim(db, key, NOW + later, max, fx, &mut events));
            (done.fields, done.next.map(|next| next.since(NOW)), events.list.len())
        };
        assert_eq!(sweep(10, 100), (0, Some(10), 0));
        assert_eq!(sweep(30, 0), (0, Some(10), 0));
        assert_eq!(sweep(30, 1), (1, Some(20), 1));
        assert_eq!(sweep(30, 100), (1, None, 1));
        assert_eq!(sweep(30, 100), (0, None, 0));
        bench.words("hpexpire h 10 fields 1 c");
        bench.now = NOW + 11;
        let mut events = Events { wanted: u32::MAX, list: Vec::new() };
        let done = bench.sweep("h", |db, key, fx| reclaim(db, key, NOW + 11, 5, fx, &mut events));
        assert_eq!((done.fields, done.next, events.list.len()), (1, None, 2));
        assert_eq!(bench.words("exists h"), ":0\r\n");
        let mut replayed = bench.replayed();
        assert_eq!(replayed.words("exists h"), ":0\r\n");
    }
}

#[test]
fn the_keyspace_knows_which_hashes_to_sweep() {
    let mut bench = Bench::new();
    let slot = keyspace::slot_of(b"h");
    bench.words("hset h a 1 b 2");
    assert!(!bench.inspect(|db| db.may_expire(slot)));
    bench.words("hexpire h 10 fields 2 a b");
    assert!(bench.inspect(|db| db.may_expire(slot)));
    bench.words("hdel h a");
    assert!(bench.inspect(|db| db.may_expire(slot)));
    bench.words("hset h b 2");
    assert!(!bench.inspect(|db| db.may_expire(slot)));
    bench.words("hsetex h px 5 fields 1 b 2");
    bench.words("del h");
    assert!(!bench.inspect(|db| db.may_expire(slot)));
    bench.words("hsetex h px 5 fields 1 b 2");
    assert!(bench.replayed().inspect(|db| {
        let hash = db.peek(&db.key(b"h")).and_then(|entry| entry.collection::<Hash>().ok());
        db.may_expire(slot) && hash.and_then(Hash::next_expiry) == Some(NOW + 5)
    }));
}
