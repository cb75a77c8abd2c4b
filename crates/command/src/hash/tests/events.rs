//! The fields of a hash that an event is about (S, T, I and V of `notify-keyspace-events`).

use crate::dialect::Dialect;
use crate::hash::reclaim;
use crate::testing::Bench;
use crate::{Events, class};

/// A bench in which a client wants to hear of fields.
fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.events.wanted = class::SUBKEYSPACE | class::HASH | class::GENERIC;
    bench
}

/// The events since the last call, with their fields.
fn told(bench: &mut Bench) -> Vec<String> {
    let events = bench.events.list.drain(..);
    events.map(|event| format!("{} {}", event.name, String::from_utf8_lossy(&event.fields))).collect()
}

#[test]
fn events_name_the_fields_that_were_changed() {
    let mut bench = bench();
    for (command, events) in [
        ("hset h a 1 bb 2 a 3", &["hset 1:a,2:bb,1:a"][..]),
        ("hdel h zz", &[]),
        ("hdel h zz a a", &["hdel 1:a"]),
        ("hsetnx h n 1", &["hset 1:n"]),
        ("hincrby h n 4", &["hincrby 1:n"]),
        ("hincrbyfloat h n 0.5", &["hincrbyfloat 1:n"]),
        ("hexpire h 100 fields 2 n zz", &["hexpire 1:n"]),
        ("hpersist h fields 2 n bb", &["hpersist 1:n"]),
        ("hgetex h ex 10 fields 2 n bb", &["hexpire 1:n,2:bb"]),
        ("hgetex h persist fields 1 n", &["hpersist 1:n"]),
        ("hsetex h ex 10 fields 2 x 1 y 2", &["hset 1:x,1:y", "hexpire 1:x,1:y"]),
        ("hsetex h pxat 1 fields 1 x 1", &["hset 1:x", "hdel 1:x"]),
        ("hgetdel h fields 2 y zz", &["hdel 1:y"]),
        ("hexpireat h 1 fields 1 bb", &["hdel 2:bb"]),
        ("hdel h n", &["hdel 1:n", "del "]),
    ] {
        bench.words(command);
        assert_eq!(told(&mut bench), events, "{command}");
    }
}

#[test]
fn events_name_the_fields_that_have_expired() {
    for large in [false, true] {
        let mut bench = bench();
        if large {
            bench.tunables.limits.hash_max_listpack_entries = 0;
        }
        bench.words("hset h a 1 b 2 c 3 d 4");
        bench.words("hpexpire h 10 fields 3 a b c");
        told(&mut bench);
        bench.now += 11;
        bench.words("hmget h a d b");
        assert_eq!(told(&mut bench), ["hexpired 1:a,1:b"]);
        // The sweep runs outside of commands, and names them all the same, also while nothing is logged.
        let now = bench.now;
        let mut events = Events { wanted: bench.events.wanted, ..Events::default() };
        bench.effects.recording = false;
        let done = bench.sweep("h", |db, key, fx| reclaim(db, key, now, 5, fx, &mut events));
        assert_eq!(done.fields, 1);
        assert_eq!(events.list.len(), 1);
        assert_eq!((&*events.list[0].name, &events.list[0].fields[..]), ("hexpired", &b"1:c"[..]));
    }
}

#[test]
fn a_time_that_is_over_has_valkeys_events_where_they_are_asked_for() {
    let mut bench = bench();
    bench.tunables.dialect = Dialect::Valkey;
    bench.words("hset h a 1 b 2 c 3 d 4");
    told(&mut bench);
    for (command, events) in [
        ("hexpireat h 1 fields 1 a", &["hexpired 1:a"][..]),
        ("hgetex h pxat 1 fields 1 b", &["hexpired 1:b"]),
        ("hsetex h pxat 1 fields 1 e 1", &["hset 1:e", "hexpire 1:e", "hexpired 1:e"]),
        ("hgetdel h fields 1 c", &["hdel 1:c"]),
        ("hpexpireat h 1 fields 1 d", &["hexpired 1:d", "del "]),
    ] {
        bench.words(command);
        assert_eq!(told(&mut bench), events, "{command}");
    }
}
