//! Exact replies, errors and notifications.

use crate::testing::Bench;
use resp::Protocol;

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
const SYNTAX: &str = "-ERR syntax error\r\n";

/// Words of replies are easier to read than their bytes: `a 1` for an array of two bulk strings, nested ones in
/// brackets.
fn plain(reply: &str) -> String {
    fn item(lines: &mut std::str::Split<'_, &str>) -> String {
        let line = lines.next().expect("a whole reply");
        match line.as_bytes().first() {
            Some(b'*') => {
                let items: Vec<_> = (0..line[1..].parse().unwrap_or(0)).map(|_| item(lines)).collect();
                if line == "*-1" { "nil-array".into() } else { format!("[{}]", items.join(" ")) }
            }
            Some(b'$') if line == "$-1" => "nil".into(),
            Some(b'$') => lines.next().expect("a bulk string").into(),
            Some(b':') => line[1..].into(),
            _ => line.into(),
        }
    }
    item(&mut reply.split("\r\n"))
}

fn check(bench: &mut Bench, cases: &[(&str, &str)]) {
    for (command, reply) in cases {
        assert_eq!(plain(&bench.words(command)), *reply, "{command}");
    }
}

#[test]
fn adding() {
    let mut bench = Bench::new();
    check(
        &mut bench,
        &[
            ("zadd z 1 a 2 b", "2"),
            ("zadd z 3 a 4 c", "1"),
            ("zadd z ch 5 a 4 c 6 d", "2"),
            ("zadd z nx 9 a 1 e", "1"),
            ("zadd z xx 9 f", "0"),
            ("zadd none xx 9 f", "0"),
            ("zadd none xx incr 9 f", "nil"),
            ("exists none", "0"),
            ("zadd z gt ch 4 a 7 b", "1"),
            ("zadd z lt ch 4 a 8 b", "1"),
            ("zadd z gt xx incr 1 a", "5"),
            ("zadd z gt incr -1 a", "nil"),
            ("zadd z nx incr 1 a", "nil"),
            ("zadd z incr 1.5 a", "6.5"),
            ("zincrby z -0.5 a", "6"),
            ("zincrby z 3 new", "3"),
            ("zrange z 0 -1 withscores", "[e 1 new 3 c 4 a 6 d 6 b 7]"),
            ("zadd z inf i", "1"),
            ("zadd z incr -inf i", "-ERR resulting score is not a number (NaN)"),
            ("zincrby z -inf i", "-ERR resulting score is not a number (NaN)"),
            ("zadd z ch -0 zero", "1"),
            ("zadd z ch 0 zero", "0"),
            ("zadd z nan x", "-ERR value is not a valid float"),
            ("zadd z x y", "-ERR value is not a valid float"),
            ("zadd z 1 a x b", "-ERR value is not a valid float"),
            ("zadd z 1 a 2", "-ERR syntax error"),
            ("zadd z nx xx", "-ERR syntax error"),
            ("zadd z nx xx 1 a", "-ERR XX and NX options at the same time are not compatible"),
            ("zadd z nx gt 1 a", "-ERR GT, LT, and/or NX options at the same time are not compatible"),
            ("zadd z gt lt 1 a", "-ERR GT, LT, and/or NX options at the same time are not compatible"),
            ("zadd z incr 1 a 2 b", "-ERR INCR option supports a single increment-element pair"),
            ("zincrby z x a", "-ERR value is not a valid float"),
            ("zincrby z 1", "-ERR wrong number of arguments for 'zincrby' command"),
        ],
    );
}

#[test]
fn looking() {
    let mut bench = Bench::new();
    check(
        &mut bench,
        &[
            ("zadd z 1 a 2 b 2 c 3.5 d", "4"),
            ("zcard z", "4"),
            ("zcard none", "0"),
            ("zscore z d", "3.5"),
            ("zscore z x", "nil"),
            ("zscore none x", "nil"),
            ("zmscore z a x d", "[1 nil 3.5]"),
            ("zmscore none a", "[nil]"),
            ("zrank z c", "2"),
            ("zrevrank z c", "1"),
            ("zrank z c withscore", "[2 2]"),
            ("zrevrank z d WITHSCORE", "[0 3.5]"),
            ("zrank z x", "nil"),
            ("zrank z x withscore", "nil-array"),
            ("zrank none x withscore", "nil-array"),
            ("zrank z c withscores", "-ERR syntax error"),
            ("zrank z c withscore x", "-ERR wrong number of arguments for 'zrank' command"),
            ("zcount z 2 3", "2"),
            ("zcount z (1 (3.5", "2"),
            ("zcount z -inf +inf", "4"),
            ("zcount z 3 2", "0"),
            ("zcount none 1 2", "0"),
            ("zcount z x 2", "-ERR min or max is not a float"),
            ("zcount z 1 (nan", "-ERR min or max is not a float"),
            ("zadd y 0 a 0 b 0 c 0 d", "4"),
            ("zlexcount y - +", "4"),
            ("zlexcount y [b (d", "2"),
            ("zlexcount y + -", "0"),
            ("zlexcount y b d", "-ERR min or max not valid string range item"),
        ],
    );
}

#[test]
fn ranges() {
    let mut bench = Bench::new();
    check(
        &mut bench,
        &[
            ("zadd z 1 a 2 b 3 c 4 d", "4"),
            ("zrange z 0 1", "[a b]"),
            ("zrange z 0 1 rev", "[d c]"),
            ("zrange z -2 -1 withscores", "[c 3 d 4]"),
            ("zrevrange z 0 0 withscores", "[d 4]"),
            ("zrange z 2 1", "[]"),
            ("zrange none 0 -1", "[]"),
            ("zrange z (1 3 byscore", "[b c]"),
            ("zrange z 3 (1 byscore rev", "[c b]"),
            ("zrange z -inf +inf byscore limit 1 2 withscores", "[b 2 c 3]"),
            ("zrange z +inf -inf byscore rev limit 1 -1", "[c b a]"),
            ("zrange z 0 9 byscore limit -1 2", "[]"),
            ("zrange z 0 9 byscore limit 9 2", "[]"),
            ("zrange z 0 9 byscore limit 0 0", "[]"),
            ("zrangebyscore z 2 3", "[b c]"),
            ("zrangebyscore z 2 3 withscores limit 1 5", "[c 3]"),
            ("zrevrangebyscore z 3 2", "[c b]"),
            ("zrevrangebyscore z 2 3", "[]"),
            (
                "zrange z 1 2 limit 0 1",
                "-ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ),
            ("zrange z 1 2 limit 0 -1", "[b c]"),
            ("zrange z - + bylex withscores", "-ERR syntax error, WITHSCORES not supported in combination with BYLEX"),
            ("zrange z 1 x", "-ERR value is not an integer or out of range"),
            ("zrange z 1 x byscore", "-ERR min or max is not a float"),
            ("zrange z 1 2 bylex", "-ERR min or max not valid string range item"),
            ("zrange z 1 2 rev rev", "-ERR syntax error"),
            ("zrange z 1 2 byscore bylex", "-ERR syntax error"),
            ("zrange z 1 2 limit 1", "-ERR syntax error"),
            ("zrevrange z 1 2 rev", "-ERR syntax error"),
            ("zrangebyscore z 1 2 byscore", "-ERR syntax error"),
            ("zadd y 0 a 0 b 0 c 0 d", "4"),
            ("zrangebylex y - [c", "[a b c]"),
            ("zrevrangebylex y (d - limit 1 1", "[b]"),
            ("zrange y + (b bylex rev", "[d c]"),
            ("zrangestore x z 1 2", "2"),
            ("zrange x 0 -1 withscores", "[b 2 c 3]"),
            ("zrangestore x y + - bylex rev limit 0 3", "3"),
            ("zrange x 0 -1", "[b c d]"),
            ("zrangestore x z 0 1 withscores", "-ERR syntax error"),
            ("zrangestore x z 9 9", "0"),
            ("exists x", "0"),
            ("zremrangebyrank z 0 0", "1"),
            ("zremrangebyscore z (2 3", "1"),
            ("zremrangebylex y [b [c", "2"),
            ("zrange z 0 -1", "[b d]"),
            ("zremrangebyrank z 0 -1", "2"),
            ("zremrangebyrank z 0 -1", "0"),
            ("zremrangebyrank z a 1", "-ERR value is not an integer or out of range"),
            ("zrem y a x d", "2"),
            ("exists y z", "0"),
        ],
    );
}

#[test]
fn popping() {
    let mut bench = Bench::new();
    check(
        &mut bench,
        &[
            ("zadd z 1 a 2 b 3 c 4 d 5 e 6 f", "6"),
            ("zpopmin z", "[a 1]"),
            ("zpopmax z 2", "[f 6 e 5]"),
            ("zpopmin z 0", "[]"),
            ("zpopmin z -1", "-ERR value is out of range, must be positive"),
            ("zpopmin z 1 2", "-ERR syntax error"),
            ("zpopmin none", "[]"),
            ("zmpop 2 none z min count 2", "[z [[b 2] [c 3]]]"),
            ("zmpop 1 none max", "nil-array"),
            ("zmpop 0 z min", "-ERR numkeys should be greater than 0"),
            ("zmpop 2 z min", "-ERR syntax error"),
            ("zmpop 1 z middle", "-ERR syntax error"),
            ("zmpop 1 z min count 0", "-ERR count should be greater than 0"),
            ("zmpop 1 z min count 1 count 1", "-ERR syntax error"),
            ("zadd z 7 g 8 h", "2"),
            ("bzpopmin none z 0", "[z d 4]"),
            ("bzpopmax z 0", "[z h 8]"),
            ("bzmpop 0 1 z max count 5", "[z [[g 7]]]"),
            ("bzpopmin z x", "-ERR timeout is not a float or out of range"),
            ("bzmpop -1 1 z max", "-ERR timeout is negative"),
            ("exists z", "0"),
        ],
    );
    assert_eq!(bench.words("bzpopmin z 0"), "");
    assert_eq!(bench.words("bzmpop 0 1 z min"), "");
}

#[test]
fn combining() {
    let mut bench = Bench::new();
    check(
        &mut bench,
        &[
            ("zadd a 1 x 2 y 3 z", "3"),
            ("zadd b 10 y 20 z 30 w", "3"),
            ("zunion 2 a b withscores", "[x 1 y 12 z 23 w 30]"),
            ("zunion 2 a b weights 2 -1 withscores", "[w -30 z -14 y -6 x 2]"),
            ("zinter 2 a b aggregate count withscores", "[y 2 z 2]"),
            ("zinter 2 a b weights 3 -inf aggregate count withscores", "[y -inf z -inf]"),
            ("zinter 2 a b aggregate max withscores", "[y 10 z 20]"),
            ("zinter 3 a b none", "[]"),
            ("zinter 2 a a withscores", "[x 2 y 4 z 6]"),
            ("zdiff 2 a b withscores", "[x 1]"),
            ("zdiff 2 a a", "[]"),
            ("zintercard 2 a b", "2"),
            ("zintercard 2 a b limit 1", "1"),
            ("zintercard 2 a b limit -1", "-ERR LIMIT can't be negative"),
            ("zintercard 2 a b weights 1 1", "-ERR syntax error"),
            ("zunionstore c 2 a b aggregate min", "4"),
            ("zrange c 0 -1 withscores", "[x 1 y 2 z 3 w 30]"),
            ("zinterstore c 2 a b weights 0.5 1", "2"),
            ("zrange c 0 -1 withscores", "[y 11 z 21.5]"),
            ("zdiffstore c 2 a b", "1"),
            ("zdiffstore c 2 a a", "0"),
            ("exists c", "0"),
            ("zdiff 2 a b weights 1 1", "-ERR syntax error"),
            ("zunionstore c 2 a b withscores", "-ERR syntax error"),
            ("zunion 2 a b weights 1", "-ERR syntax error"),
            ("zunion 2 a b weights 1 x", "-ERR weight value is not a float"),
            ("zunion 2 a b aggregate mean", "-ERR syntax error"),
            ("zunion 0 a", "-ERR at least 1 input key is needed for 'zunion' command"),
            ("zunionstore c 0 a", "-ERR at least 1 input key is needed for 'zunionstore' command"),
            ("zunion 3 a b", "-ERR syntax error"),
            ("zunion x a", "-ERR value is not an integer or out of range"),
            ("zadd i inf m", "1"),
            ("zadd j -inf m", "1"),
            ("zunion 2 i j withscores", "[m 0]"),
            ("zinter 2 i j weights 0 0 withscores", "[m 0]"),
            ("set s 1", "+OK"),
            ("zunionstore s 1 a", "3"),
            ("zcard s", "3"),
        ],
    );
}

#[test]
fn replies_in_resp3() {
    let mut bench = Bench::new();
    bench.protocol = Protocol::Resp3;
    for (command, reply) in [
        ("zadd z 1 a 2.5 b", ":2\r\n"),
        ("zscore z b", ",2.5\r\n"),
        ("zscore z x", "_\r\n"),
        ("zadd z incr 1 a", ",2\r\n"),
        ("zadd z nx incr 1 a", "_\r\n"),
        ("zmscore z a x", "*2\r\n,2\r\n_\r\n"),
        ("zrank z a withscore", "*2\r\n:0\r\n,2\r\n"),
        ("zrank z x withscore", "_\r\n"),
        ("zrange z 0 -1", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
        ("zrange z 0 -1 withscores", "*2\r\n*2\r\n$1\r\na\r\n,2\r\n*2\r\n$1\r\nb\r\n,2.5\r\n"),
        ("zunion 1 z withscores", "*2\r\n*2\r\n$1\r\na\r\n,2\r\n*2\r\n$1\r\nb\r\n,2.5\r\n"),
        ("zpopmin z 1", "*1\r\n*2\r\n$1\r\na\r\n,2\r\n"),
        ("zpopmin z", "*2\r\n$1\r\nb\r\n,2.5\r\n"),
        ("zpopmin z", "*0\r\n"),
        ("zadd z inf a -inf b", ":2\r\n"),
        ("bzpopmin z 0", "*3\r\n$1\r\nz\r\n$1\r\nb\r\n,-inf\r\n"),
        ("zmpop 1 z min", "*2\r\n$1\r\nz\r\n*1\r\n*2\r\n$1\r\na\r\n,inf\r\n"),
        ("zmpop 1 z min", "_\r\n"),
    ] {
        assert_eq!(bench.words(command), reply, "{command}");
    }
}

#[test]
fn values_of_another_type() {
    let mut bench = Bench::new();
    bench.words("set s 1");
    bench.words("zadd z 1 a");
    for command in [
        "zadd s 1 a",
        "zadd s xx 1 a",
        "zincrby s 1 a",
        "zrem s a",
        "zremrangebyrank s 0 1",
        "zremrangebyscore s 0 1",
        "zremrangebylex s - +",
        "zcard s",
        "zscore s a",
        "zmscore s a",
        "zrank s a",
        "zcount s 0 1",
        "zlexcount s - +",
        "zrange s 0 1",
        "zrangestore z s 0 1",
        "zpopmin s",
        "zpopmin s 0",
        "zmpop 2 none s min",
        "bzpopmin none s 0",
        "bzmpop 0 1 s min",
        "zunion 2 z s",
        "zinterstore z 2 z s",
        "zintercard 2 z s",
        "zdiff 2 z s weights",
    ] {
        assert_eq!(bench.words(command), WRONG_TYPE, "{command}");
    }
    assert_eq!(bench.words("zrange z 0 -1"), "*1\r\n$1\r\na\r\n");
    assert_eq!(bench.words("zadd s"), "-ERR wrong number of arguments for 'zadd' command\r\n");
    assert_eq!(bench.words("zadd s nx 1"), SYNTAX);
}

#[test]
fn notifications_and_changes() {
    let mut bench = Bench::new();
    for (command, events, changes) in [
        ("zadd z 1 a 2 b 3 c 4 d 5 e", &["zadd z"] as &[_], 5),
        ("zadd z 1 a", &[], 0),
        ("zadd z incr 1 a", &["zincr z"], 1),
        ("zincrby z 0 a", &[], 0),
        ("zrem z a none", &["zrem z"], 1),
        ("zpopmin z 2", &["zpopmin z"], 2),
        ("zremrangebyrank z 5 9", &[], 0),
        ("zremrangebyrank z 0 0", &["zremrangebyrank z"], 1),
        ("zunionstore y 2 z z", &["zunionstore y"], 1),
        ("zrangestore x y 0 -1", &["zrangestore x"], 1),
        ("zrangestore x none 0 -1", &["del x"], 1),
        ("zrangestore x none 0 -1", &[], 0),
        ("zmpop 1 z max", &["zpopmax z", "del z"], 1),
        ("zremrangebyscore y -inf inf", &["zremrangebyscore y", "del y"], 1),
    ] {
        let before = bench.effects.dirty;
        bench.words(command);
        assert_eq!(bench.notified(), events, "{command}");
        assert_eq!(bench.effects.dirty - before, changes, "{command}");
    }
}

#[test]
fn random_members() {
    let mut bench = Bench::new();
    bench.words("zadd one 1 a");
    check(
        &mut bench,
        &[
            ("zrandmember one", "a"),
            ("zrandmember one 5", "[a]"),
            ("zrandmember one -3", "[a a a]"),
            ("zrandmember one -2 withscores", "[a 1 a 1]"),
            ("zrandmember one 0", "[]"),
            ("zrandmember none", "nil"),
            ("zrandmember none 2", "[]"),
            ("zrandmember one 1 scores", "-ERR syntax error"),
            ("zrandmember one x", "-ERR value is not an integer or out of range"),
            ("zrandmember one -9223372036854775807 withscores", "-ERR value is out of range"),
        ],
    );
    for size in [100, 1000] {
        for i in 0..size {
            bench.words(&format!("zadd z {i} m{i}"));
        }
        for count in [1, size / 10, size / 2, size, 2 * size] {
            let reply = plain(&bench.words(&format!("zrandmember z {count}")));
            let members: std::collections::BTreeSet<_> = reply.trim_matches(['[', ']']).split(' ').collect();
            assert_eq!(members.len(), count.min(size), "{count} of {size}");
        }
        let reply = plain(&bench.words(&format!("zrandmember z -{} withscores", 2 * size)));
        assert_eq!(reply.split(' ').count(), 4 * size);
    }
    bench.protocol = Protocol::Resp3;
    assert_eq!(bench.words("zrandmember one -1 withscores"), "*1\r\n*2\r\n$1\r\na\r\n,1\r\n");
    assert_eq!(bench.words("zrandmember one 1 withscores"), "*1\r\n*2\r\n$1\r\na\r\n,1\r\n");
}

#[test]
fn scanning() {
    let mut bench = Bench::new();
    check(
        &mut bench,
        &[
            ("zadd z 1 a 2.5 b", "2"),
            ("zscan z 0", "[0 [a 1 b 2.5]]"),
            ("zscan z 0 match b* count 5", "[0 [b 2.5]]"),
            ("zscan z 0 noscores", "[0 [a b]]"),
            ("zscan z 0 match b* noscores count 5", "[0 [b]]"),
            ("zscan none 0 bad", "[0 []]"),
            ("zscan z x", "-ERR invalid cursor"),
            ("zscan z 0 count 0", "-ERR syntax error"),
            ("zscan z 0 novalues", "-ERR NOVALUES option can only be used in HSCAN"),
        ],
    );
    bench.protocol = Protocol::Resp3;
    assert_eq!(bench.words("zscan z 0 match a"), "*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n");
    bench.protocol = Protocol::Resp2;
    for i in 0..1000 {
        bench.words(&format!("zadd z {i} m{i}"));
    }
    let (mut cursor, mut seen) = ("0".to_string(), 0);
    loop {
        let reply = plain(&bench.words(&format!("zscan z {cursor} count 20")));
        let (next, members) = reply.trim_matches('[').split_once(" [").expect("cursor and members");
        seen += members.split(' ').count() / 2;
        cursor = next.to_string();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen, 1002);
}
