//! Exact replies, errors and notifications.

use crate::testing::Bench;
use resp::Protocol;

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";

#[test]
fn pushes_and_pops() {
    let mut bench = Bench::new();
    for (command, reply) in [
        ("lpushx l a", ":0\r\n"),
        ("rpushx l a", ":0\r\n"),
        ("rpush l a b c", ":3\r\n"),
        ("lpush l 1 2", ":5\r\n"),
        ("rpushx l d", ":6\r\n"),
        ("lpushx l 3", ":7\r\n"),
        ("lrange l 0 -1", "*7\r\n$1\r\n3\r\n$1\r\n2\r\n$1\r\n1\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n"),
        ("llen l", ":7\r\n"),
        ("lpop l", "$1\r\n3\r\n"),
        ("rpop l 2", "*2\r\n$1\r\nd\r\n$1\r\nc\r\n"),
        ("lpop l 0", "*0\r\n"),
        ("lpop l 100", "*4\r\n$1\r\n2\r\n$1\r\n1\r\n$1\r\na\r\n$1\r\nb\r\n"),
        ("exists l", ":0\r\n"),
        ("lpop l", "$-1\r\n"),
        ("lpop l 0", "*-1\r\n"),
        ("lpop l 1", "*-1\r\n"),
        ("lpop l -1", "-ERR value is out of range, must be positive\r\n"),
        ("rpop l x", "-ERR value is out of range, must be positive\r\n"),
        ("rpop l 1 2", "-ERR wrong number of arguments for 'rpop' command\r\n"),
        ("lpush l", "-ERR wrong number of arguments for 'lpush' command\r\n"),
    ] {
        assert_eq!(bench.words(command), reply, "{command}");
    }
}

#[test]
fn nulls_in_resp3() {
    let mut bench = Bench::new();
    bench.protocol = Protocol::Resp3;
    for command in ["lpop l", "lpop l 1", "lindex l 0", "lpos l a", "lmpop 1 l left", "lmove l m left left"] {
        assert_eq!(bench.words(command), "_\r\n", "{command}");
    }
}

#[test]
fn by_index() {
    let mut bench = Bench::new();
    bench.words("rpush l a b c");
    for (command, reply) in [
        ("lindex l 0", "$1\r\na\r\n"),
        ("lindex l -1", "$1\r\nc\r\n"),
        ("lindex l 3", "$-1\r\n"),
        ("lindex l -4", "$-1\r\n"),
        ("lindex l x", "-ERR value is not an integer or out of range\r\n"),
        ("lindex none x", "$-1\r\n"),
        ("lset l -1 z", "+OK\r\n"),
        ("lset l 3 z", "-ERR index out of range\r\n"),
        ("lset l -4 z", "-ERR index out of range\r\n"),
        ("lset l x z", "-ERR value is not an integer or out of range\r\n"),
        ("lset none x z", "-ERR no such key\r\n"),
        ("lrange l 1 1", "*1\r\n$1\r\nb\r\n"),
        ("lrange l -100 100", "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nz\r\n"),
        ("lrange l 2 1", "*0\r\n"),
        ("lrange l 3 9", "*0\r\n"),
        ("lrange none 0 -1", "*0\r\n"),
        ("lrange none 0 x", "-ERR value is not an integer or out of range\r\n"),
        ("linsert l before b 1", ":4\r\n"),
        ("linsert l AFTER b 2", ":5\r\n"),
        ("linsert l after none 2", ":-1\r\n"),
        ("linsert none after b 2", ":0\r\n"),
        ("linsert l beside b 2", "-ERR syntax error\r\n"),
        ("lrange l 0 -1", "*5\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n$1\r\nz\r\n"),
        ("ltrim l 1 -2", "+OK\r\n"),
        ("lrange l 0 -1", "*3\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n"),
        ("ltrim l 5 9", "+OK\r\n"),
        ("exists l", ":0\r\n"),
        ("ltrim l 0 0", "+OK\r\n"),
    ] {
        assert_eq!(bench.words(command), reply, "{command}");
    }
}

#[test]
fn by_value() {
    let mut bench = Bench::new();
    bench.words("rpush l a b c 1 2 3 c c");
    for (command, reply) in [
        ("lpos l c", ":2\r\n"),
        ("lpos l c rank 2", ":6\r\n"),
        ("lpos l c rank -1", ":7\r\n"),
        ("lpos l c rank -1 count 2", "*2\r\n:7\r\n:6\r\n"),
        ("lpos l c count 0 rank 2", "*2\r\n:6\r\n:7\r\n"),
        ("lpos l c count 0 maxlen 7", "*2\r\n:2\r\n:6\r\n"),
        ("lpos l c count 0 maxlen 1", "*0\r\n"),
        ("lpos l c count 0 rank -2 maxlen 2", "*1\r\n:6\r\n"),
        ("lpos l d", "$-1\r\n"),
        ("lpos l d count 1", "*0\r\n"),
        ("lpos none d count 1", "*0\r\n"),
        ("lpos none d", "$-1\r\n"),
        (
            "lpos l c rank 0",
            "-ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
             or use negative to start from the end of the list\r\n",
        ),
        (
            "lpos l c rank -9223372036854775808",
            "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807\r\n",
        ),
        ("lpos l c rank x", "-ERR value is not an integer or out of range\r\n"),
        ("lpos l c count -1", "-ERR COUNT can't be negative\r\n"),
        ("lpos l c maxlen x", "-ERR MAXLEN can't be negative\r\n"),
        ("lpos l c rank", "-ERR syntax error\r\n"),
        ("lpos l c fast 1", "-ERR syntax error\r\n"),
        ("lrem l -1 c", ":1\r\n"),
        ("lrem l 0 none", ":0\r\n"),
        ("lrem l 0 c", ":2\r\n"),
        ("lrem none 0 c", ":0\r\n"),
        ("lrem l x c", "-ERR value is not an integer or out of range\r\n"),
        ("lrange l 0 -1", "*5\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n"),
    ] {
        assert_eq!(bench.words(command), reply, "{command}");
    }
}

#[test]
fn between_lists() {
    let mut bench = Bench::new();
    bench.words("rpush l a b c");
    for (command, reply) in [
        ("lmove l m left right", "$1\r\na\r\n"),
        ("rpoplpush l m", "$1\r\nc\r\n"),
        ("lrange m 0 -1", "*2\r\n$1\r\nc\r\n$1\r\na\r\n"),
        ("lmove m m left right", "$1\r\nc\r\n"),
        ("lrange m 0 -1", "*2\r\n$1\r\na\r\n$1\r\nc\r\n"),
        ("lmove l l left left", "$1\r\nb\r\n"),
        ("llen l", ":1\r\n"),
        ("lmove l m left down", "-ERR syntax error\r\n"),
        ("lmove none m left right", "$-1\r\n"),
        ("lmove l m right right", "$1\r\nb\r\n"),
        ("exists l", ":0\r\n"),
        ("lmpop 2 l m left count 2", "*2\r\n$1\r\nm\r\n*2\r\n$1\r\na\r\n$1\r\nc\r\n"),
        ("lmpop 2 l m right", "*2\r\n$1\r\nm\r\n*1\r\n$1\r\nb\r\n"),
        ("lmpop 2 l m right", "*-1\r\n"),
        ("lmpop 0 l left", "-ERR numkeys should be greater than 0\r\n"),
        ("lmpop x l left", "-ERR numkeys should be greater than 0\r\n"),
        ("lmpop 2 l left", "-ERR syntax error\r\n"),
        ("lmpop 9223372036854775807 l left", "-ERR syntax error\r\n"),
        ("lmpop 1 l left count 0", "-ERR count should be greater than 0\r\n"),
        ("lmpop 1 l left count 1 count 1", "-ERR syntax error\r\n"),
        ("lmpop 1 l left count", "-ERR syntax error\r\n"),
        ("lmpop 1 l", "-ERR wrong number of arguments for 'lmpop' command\r\n"),
    ] {
        assert_eq!(bench.words(command), reply, "{command}");
    }
}

#[test]
fn blocking_forms_that_need_not_wait() {
    let mut bench = Bench::new();
    bench.words("rpush l a b c d e");
    for (command, reply) in [
        ("blpop none l 0", "*2\r\n$1\r\nl\r\n$1\r\na\r\n"),
        ("brpop l 0.5", "*2\r\n$1\r\nl\r\n$1\r\ne\r\n"),
        ("blmove l m left left 1", "$1\r\nb\r\n"),
        ("brpoplpush l m 1", "$1\r\nd\r\n"),
        ("blmpop 0 2 none m right count 5", "*2\r\n$1\r\nm\r\n*2\r\n$1\r\nb\r\n$1\r\nd\r\n"),
        ("blpop none 1", ""),
        ("blmove none l left left 0", ""),
        ("blmpop 0 1 none left", ""),
        ("blpop none -1", "-ERR timeout is negative\r\n"),
        ("blpop none x", "-ERR timeout is not a float or out of range\r\n"),
        ("blpop none 0x7FFFFFFFFFFFFF", "-ERR timeout is out of range\r\n"),
        ("blpop none 9223372036854775", "-ERR timeout is out of range\r\n"),
        ("blmpop x 0 none left", "-ERR numkeys should be greater than 0\r\n"),
        ("blmove none l left down x", "-ERR syntax error\r\n"),
    ] {
        assert_eq!(bench.words(command), reply, "{command}");
    }
}

#[test]
fn values_of_another_type() {
    let mut bench = Bench::new();
    bench.words("set s 1");
    bench.words("rpush l a");
    for command in [
        "lpush s a",
        "lpushx s a",
        "lpop s",
        "lpop s 0",
        "lpop s 1",
        "llen s",
        "lindex s x",
        "lrange s 0 1",
        "lpos s a",
        "lset s x a",
        "linsert s before a b",
        "lrem s 0 a",
        "ltrim s 0 1",
        "lmove s l left left",
        "lmove l s left left",
        "rpoplpush l s",
        "lmpop 2 none s left",
        "blpop none s 0",
        "blmove s l left left 0",
        "blmpop 0 1 s left",
    ] {
        assert_eq!(bench.words(command), WRONG_TYPE, "{command}");
    }
    assert_eq!(bench.words("lmove none s left left"), "$-1\r\n", "without a source nobody looks at the destination");
    assert_eq!(bench.words("llen l"), ":1\r\n");
}

#[test]
fn notifications_and_changes() {
    let mut bench = Bench::new();
    for (command, events, changes) in [
        ("rpush l a b c", &["rpush l"] as &[_], 3),
        ("lpop l", &["lpop l"], 1),
        ("lset l 0 x", &["lset l"], 1),
        ("linsert l before c y", &["linsert l"], 1),
        ("linsert l before none y", &[], 0),
        ("lrem l 0 none", &[], 0),
        ("lrem l 0 y", &["lrem l"], 1),
        ("ltrim l 0 -1", &["ltrim l"], 0),
        ("lmove l m left right", &["rpush m", "lpop l"], 1),
        ("rpop l 9", &["rpop l", "del l"], 1),
        ("ltrim m 1 0", &["ltrim m", "del m"], 1),
        ("lrange m 0 1", &[], 0),
    ] {
        let before = bench.effects.dirty;
        bench.words(command);
        assert_eq!(bench.notified(), events, "{command}");
        assert_eq!(bench.effects.dirty - before, changes, "{command}");
    }
}

/// From Redis's documentation of 8.10, worked out by hand: the reply, then the source, then the destination.
#[test]
fn several_elements_are_moved() {
    for (command, moved, source, destination) in [
        ("lmovem s d left left", "1", "2 3 4", "1 x y"),
        ("lmovem s d left right count 1 obo", "1", "2 3 4", "x y 1"),
        ("lmovem s d left left count 2 obo", "2 1", "3 4", "2 1 x y"),
        ("lmovem s d left left count 2 bulk", "1 2", "3 4", "1 2 x y"),
        ("lmovem s d left right count 2 obo", "1 2", "3 4", "x y 1 2"),
        ("lmovem s d left right count 2 bulk", "1 2", "3 4", "x y 1 2"),
        ("lmovem s d right left count 2 obo", "3 4", "1 2", "3 4 x y"),
        ("lmovem s d right left count 2 bulk", "3 4", "1 2", "3 4 x y"),
        ("lmovem s d right right count 2 obo", "4 3", "1 2", "x y 4 3"),
        ("lmovem s d right right count 2 bulk", "3 4", "1 2", "x y 3 4"),
        ("lmovem s d right right count 9 obo", "4 3 2 1", "", "x y 4 3 2 1"),
        ("lmovem s d left left exactly 4 bulk", "1 2 3 4", "", "1 2 3 4 x y"),
        ("lmovem s d left left exactly 5 bulk", "nil", "1 2 3 4", "x y"),
        ("lmovem s new left left exactly 3 obo", "3 2 1", "4", "x y"),
        ("lmovem s s left left exactly 2 obo", "2 1", "2 1 3 4", "x y"),
        ("lmovem s s left left exactly 2 bulk", "1 2", "1 2 3 4", "x y"),
        ("lmovem s s left right count 3 bulk", "1 2 3", "4 1 2 3", "x y"),
        ("lmovem s s right left count 3 obo", "2 3 4", "2 3 4 1", "x y"),
        ("lmovem s s right right count 9 obo", "4 3 2 1", "4 3 2 1", "x y"),
        ("lmovem s s right right count 9 bulk", "1 2 3 4", "1 2 3 4", "x y"),
        ("lmovem none d left left count 2 obo", "", "1 2 3 4", "x y"),
        ("lmovem none d left left exactly 2 obo", "nil", "1 2 3 4", "x y"),
        ("blmovem s d right left 0 exactly 3 bulk", "2 3 4", "1", "2 3 4 x y"),
        ("blmovem s d right left 0.5", "4", "1 2 3", "4 x y"),
    ] {
        let mut bench = Bench::new();
        bench.words("rpush s 1 2 3 4");
        bench.words("rpush d x y");
        let dirty = bench.effects.dirty;
        let reply = bench.words(command);
        let elements = |reply: &str| -> String {
            let lines = reply.split("\r\n").filter(|line| !line.is_empty() && !line.starts_with(['*', '$']));
            lines.collect::<Vec<_>>().join(" ")
        };
        let shown = if reply == "*-1\r\n" { "nil".into() } else { elements(&reply) };
        assert_eq!(shown, moved, "{command}");
        let count = if moved == "nil" { 0 } else { moved.split_whitespace().count() as u64 };
        assert_eq!(bench.effects.dirty - dirty, count, "{command}");
        let mut other = bench.replayed();
        for bench in [&mut bench, &mut other] {
            assert_eq!(elements(&bench.words("lrange s 0 -1")), source, "{command}");
            assert_eq!(elements(&bench.words("lrange d 0 -1")), destination, "{command}");
        }
    }
}

#[test]
fn what_several_elements_are_refused_for() {
    let mut bench = Bench::new();
    bench.words("rpush s 1 2 3 4");
    bench.words("set text x");
    for (command, error) in [
        ("lmovem s d up left", "ERR syntax error"),
        ("lmovem s d left left count 2", "ERR syntax error"),
        ("lmovem s d left left obo count 2", "ERR syntax error"),
        ("lmovem s d left left count 2 obo bulk", "ERR syntax error"),
        ("lmovem s d left left count 2 other", "ERR syntax error"),
        ("lmovem s d left left count 0 obo", "ERR count should be greater than 0"),
        ("lmovem s d left left exactly x obo", "ERR count should be greater than 0"),
        ("lmovem s text left left", "WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("lmovem text d left left", "WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("blmovem s d left left x", "ERR timeout is not a float or out of range"),
        ("blmovem s d left left -1", "ERR timeout is negative"),
        ("blmovem s d left left 1 count 2", "ERR syntax error"),
    ] {
        assert_eq!(bench.words(command), format!("-{error}\r\n"), "{command}");
    }
    assert_eq!(bench.words("blmovem s d left left 0 exactly 5 obo"), "", "it waits");
    assert_eq!(bench.words("blmovem none d left left 0 count 5 obo"), "", "it waits");
    bench.notified();
    bench.words("lmovem s d left right count 9 bulk");
    assert_eq!(bench.notified(), ["rpush d", "lpop s", "del s"]);
    bench.words("lmovem d d left left count 9 obo");
    assert_eq!(bench.notified(), ["lpush d", "lpop d"]);
}
