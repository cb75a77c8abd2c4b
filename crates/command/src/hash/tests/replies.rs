//! Replies and errors, to the byte.

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
fn fields_are_set_and_read() {
    check(
        &mut Bench::new(),
        "hset h a 1 b x => :2
         hset h a 2 c 3 => :1
         hget h a => $1 2
         hget h z => $-1
         hget none a => $-1
         hmget h a z c => *3 $1 2 $-1 $1 3
         hmget none a b => *2 $-1 $-1
         hlen h => :3
         hlen none => :0
         hexists h a => :1
         hexists h z => :0
         hexists none z => :0
         hstrlen h b => :1
         hstrlen h z => :0
         hsetnx h a 9 => :0
         hsetnx h d 100 => :1
         hstrlen h d => :3
         hmset h a 1 => +OK
         hgetall h => *8 $1 a $1 1 $1 b $1 x $1 c $1 3 $1 d $3 100
         hkeys h => *4 $1 a $1 b $1 c $1 d
         hvals h => *4 $1 1 $1 x $1 3 $3 100
         hgetall none => *0
         hdel h a b nothing => :2
         hdel h c d => :2
         hdel h c => :0
         exists h => :0
         hset h a => -ERR wrong number of arguments for 'hset' command
         hset h a 1 b => -ERR wrong number of arguments for 'hset' command
         hmset h a 1 b => -ERR wrong number of arguments for 'hmset' command
         exists h => :0",
    );
}

#[test]
fn maps_in_resp3() {
    let mut bench = Bench::new();
    bench.words("hset h a 1");
    bench.protocol = Protocol::Resp3;
    check(
        &mut bench,
        "hgetall h => %1 $1 a $1 1
         hgetall none => %0
         hkeys h => *1 $1 a
         hget h z => _
         hrandfield h 1 withvalues => *1 *2 $1 a $1 1
         hrandfield h -2 withvalues => *2 *2 $1 a $1 1 *2 $1 a $1 1
         hrandfield none => _
         hscan h 0 => *2 $1 0 *2 $1 a $1 1",
    );
}

#[test]
fn numbers_are_added() {
    check(
        &mut Bench::new(),
        "hincrby h a 5 => :5
         hincrby h a -7 => :-2
         hset h s text big 9223372036854775807 => :2
         hincrby h s 1 => -ERR hash value is not an integer
         hincrby h big 1 => -ERR increment or decrement would overflow
         hincrby h a x => -ERR value is not an integer or out of range
         hincrbyfloat h f 1.5 => $3 1.5
         hincrbyfloat h f -0.25 => $4 1.25
         hincrbyfloat h a 3 => $1 1
         hincrbyfloat h s 1 => -ERR hash value is not a float
         hincrbyfloat h f x => -ERR value is not a valid float
         hincrbyfloat h f inf => -ERR value is NaN or Infinity
         hincrbyfloat other f nan => -ERR value is not a valid float
         hset h sp 123.456\u{b} => :1
         exists other => :0",
    );
}

#[test]
fn another_type_is_refused() {
    let mut bench = Bench::new();
    bench.words("set s x");
    for command in [
        "hset s a 1",
        "hmset s a 1",
        "hsetnx s a 1",
        "hget s a",
        "hmget s a",
        "hgetall s",
        "hkeys s",
        "hvals s",
        "hlen s",
        "hstrlen s a",
        "hdel s a",
        "hexists s a",
        "hincrby s a 1",
        "hincrbyfloat s a 1",
        "hrandfield s",
        "hrandfield s 1",
        "hscan s 0",
        "hexpire s 1 fields 1 a",
        "hpexpire s 1 fields 1 a",
        "hexpireat s 1 fields 1 a",
        "hpexpireat s 1 fields 1 a",
        "httl s fields 1 a",
        "hpttl s fields 1 a",
        "hexpiretime s fields 1 a",
        "hpexpiretime s fields 1 a",
        "hpersist s fields 1 a",
        "hgetex s fields 1 a",
        "hgetdel s fields 1 a",
        "hsetex s fields 1 a 1",
    ] {
        assert_eq!(
            bench.words(command),
            "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
            "{command}"
        );
    }
    assert_eq!(bench.notified(), ["set s"]);
}

#[test]
fn random_fields() {
    let mut bench = Bench::new();
    bench.words("hset h a 1 b 2 c 3");
    check(
        &mut bench,
        "hrandfield none => $-1
         hrandfield none 5 => *0
         hrandfield h 0 => *0
         hrandfield h 9 => *3 $1 a $1 b $1 c
         hrandfield h 9 withvalues => *6 $1 a $1 1 $1 b $1 2 $1 c $1 3
         hrandfield h x => -ERR value is not an integer or out of range
         hrandfield h -9223372036854775808 => -ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
         hrandfield h -9223372036854775807 withvalues => -ERR value is out of range
         hrandfield h 1 withscores => -ERR syntax error
         hrandfield h 1 withvalues x => -ERR syntax error",
    );
    assert!(bench.words("hrandfield h -50").starts_with("*50\r\n"));
    assert!(bench.words("hrandfield h 2").starts_with("*2\r\n"));
    assert_eq!(bench.words("hrandfield h -9223372036854775807"), "-ERR too many random elements for one reply\r\n");
}

#[test]
fn large_hashes_are_sampled_and_scanned() {
    let mut bench = Bench::new();
    for i in 0..2000 {
        bench.words(&format!("hset h field{i} {i}"));
    }
    for (count, len) in [("3", 3), ("1900", 1900), ("5000", 2000)] {
        let reply = bench.words(&format!("hrandfield h {count}"));
        let mut names: Vec<&str> = reply.lines().filter(|line| line.starts_with("field")).collect();
        assert_eq!(names.len(), len);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), len, "no field twice");
    }
    assert_eq!(bench.words("hrandfield h -5000").lines().count(), 10_001);
    let (mut cursor, mut seen) = ("0".to_string(), std::collections::BTreeSet::new());
    loop {
        let reply = bench.words(&format!("hscan h {cursor} count 100 novalues match field*"));
        let mut lines = reply.lines().skip(2);
        cursor = lines.next().expect("a cursor").to_string();
        seen.extend(lines.filter(|line| line.starts_with("field")).map(str::to_string));
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 2000);
}

#[test]
fn scan_options() {
    let mut bench = Bench::new();
    bench.words("hset h a 1 b 2 ab 3");
    check(
        &mut bench,
        "hscan h 0 => *2 $1 0 *6 $1 a $1 1 $1 b $1 2 $2 ab $1 3
         hscan h 0 match a* => *2 $1 0 *4 $1 a $1 1 $2 ab $1 3
         hscan h 0 match a* novalues count 1 => *2 $1 0 *2 $1 a $2 ab
         hscan none 0 nonsense => *2 $1 0 *0
         hscan h x => -ERR invalid cursor
         hscan h -1 => -ERR invalid cursor
         hscan h 0 count 0 => -ERR syntax error
         hscan h 0 count x => -ERR value is not an integer or out of range
         hscan h 0 count => -ERR syntax error
         hscan h 0 type x => -ERR syntax error",
    );
}

#[test]
fn events() {
    let mut bench = Bench::new();
    for command in [
        "hset h a 1",
        "hmset h b 1",
        "hsetnx h c 1",
        "hsetnx h c 1",
        "hincrby h a 1",
        "hincrbyfloat h a 1",
        "hdel h zz",
        "hdel h a",
        "hexpire h 10 fields 1 b",
        "hpersist h fields 1 b",
        "hpersist h fields 1 b",
        "hgetex h ex 5 fields 1 b",
        "hgetex h persist fields 1 b",
        "hgetex h fields 1 b",
        "hsetex h ex 5 fields 1 d 1",
        "hgetdel h fields 2 b zz",
        "hexpireat h 1 fields 1 d",
        "hdel h c",
    ] {
        let reply = bench.words(command);
        assert!(!reply.starts_with('-'), "{command}: {reply}");
    }
    assert_eq!(
        bench.notified(),
        [
            "hset h",
            "hset h",
            "hset h",
            "hincrby h",
            "hincrbyfloat h",
            "hdel h",
            "hexpire h",
            "hpersist h",
            "hexpire h",
            "hpersist h",
            "hset h",
            "hexpire h",
            "hdel h",
            "hdel h",
            "hdel h",
            "del h",
        ]
    );
}

#[test]
fn a_read_changes_nothing() {
    let mut bench = Bench::new();
    bench.words("hset h a 1 b 2");
    let changes = bench.effects.dirty;
    for command in
        ["hget h a", "hdel h zz", "hsetnx h a 5", "hgetex h fields 1 a", "hgetdel h fields 1 zz", "hrandfield h 2"]
    {
        bench.words(command);
    }
    assert_eq!(bench.effects.dirty, changes);
    bench.words("hset h a 1 b 2 c 3");
    assert_eq!(bench.effects.dirty, changes + 3);
    bench.words("hdel h a b");
    assert_eq!(bench.effects.dirty, changes + 5);
}
