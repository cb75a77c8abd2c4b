//! Replies of the commands on streams.

use crate::testing::Bench;

/// Runs lines `command -> reply`, where the reply is given with `|` for line breaks.
fn script(bench: &mut Bench, lines: &[(&str, &str)]) {
    for (line, reply) in lines {
        let got = bench.words(line).replace("\r\n", "|");
        assert_eq!(got, *reply, "{line}");
    }
}

const TIME: &str = "1000000000000";

#[test]
fn entries_are_added_and_read() {
    let mut bench = Bench::new();
    let first = format!("$15|{TIME}-0|");
    let second = format!("$15|{TIME}-1|");
    script(
        &mut bench,
        &[
            ("xadd s nomkstream * a 1", "$-1|"),
            ("xadd s * a 1", &first),
            ("xadd s * b 2 c 3", &second),
            ("xadd s 5-1 a 1", "-ERR The ID specified in XADD is equal or smaller than the target stream top item|"),
            ("xadd s 0-0 a 1", "-ERR The ID specified in XADD must be greater than 0-0|"),
            ("xadd s * a", "-ERR wrong number of arguments for 'xadd' command|"),
            ("xadd s * a 1 b", "-ERR wrong number of arguments for 'xadd' command|"),
            ("xadd s x a 1", "-ERR Invalid stream ID specified as stream command argument|"),
            ("xlen s", ":2|"),
            ("xadd t 5-* a 1", "$3|5-0|"),
            ("xadd t 5-* a 1", "$3|5-1|"),
            ("xadd t 5 a 1", "-ERR The ID specified in XADD is equal or smaller than the target stream top item|"),
            ("xadd t 7 a 1", "$3|7-0|"),
            ("xrange t - + count 1", "*1|*2|$3|5-0|*2|$1|a|$1|1|"),
            ("xrevrange t + - count 1", "*1|*2|$3|7-0|*2|$1|a|$1|1|"),
            ("xrange t (5-0 (7-0", "*1|*2|$3|5-1|*2|$1|a|$1|1|"),
            ("xrange t - + count 0", "*-1|"),
            ("xrange none - +", "*0|"),
            ("xdel t 5-1 5-1 9-9", ":1|"),
            ("xtrim t maxlen 1", ":1|"),
            ("xtrim t maxlen = 1", ":0|"),
            ("xtrim t maxlen 1 limit 3", "-ERR syntax error, LIMIT cannot be used without the special ~ option|"),
            ("xsetid t 6", "-ERR The ID specified in XSETID is smaller than the target stream top item|"),
            ("xsetid t 8-1 entriesadded 9", "+OK|"),
            ("xadd t 8-* a 1", "$3|8-2|"),
            ("type t", "+stream|"),
            ("object encoding t", "$6|stream|"),
            ("set k v", "+OK|"),
            ("xadd k * a 1", "-WRONGTYPE Operation against a key holding the wrong kind of value|"),
        ],
    );
    assert_eq!(bench.words("debug digest"), bench.replayed().words("debug digest"));
}

#[test]
fn groups_read_and_acknowledge() {
    let mut bench = Bench::new();
    script(
        &mut bench,
        &[
            ("xadd s 1-1 a 1", "$3|1-1|"),
            ("xadd s 1-2 a 2", "$3|1-2|"),
            ("xgroup create s g 0", "+OK|"),
            ("xgroup create s g 0", "-BUSYGROUP Consumer Group name already exists|"),
            (
                "xreadgroup group x c streams s >",
                "-NOGROUP No such key 's' or consumer group 'x' in XREADGROUP with GROUP option|",
            ),
            ("xreadgroup group g c count 1 streams s >", "*1|*2|$1|s|*1|*2|$3|1-1|*2|$1|a|$1|1|"),
            ("xreadgroup group g d noack streams s >", "*1|*2|$1|s|*1|*2|$3|1-2|*2|$1|a|$1|2|"),
            ("xreadgroup group g d streams s >", "*-1|"),
            ("xreadgroup group g c streams s 0", "*1|*2|$1|s|*1|*2|$3|1-1|*2|$1|a|$1|1|"),
            ("xreadgroup group g d streams s 0", "*1|*2|$1|s|*0|"),
            ("xpending s g", "*4|:1|$3|1-1|$3|1-1|*1|*2|$1|c|$1|1|"),
            ("xpending s g - + 10", "*1|*4|$3|1-1|$1|c|:0|:2|"),
            ("xpending s g idle 5 - + 10", "*0|"),
            ("xclaim s g d 0 1-1 justid", "*1|$3|1-1|"),
            ("xautoclaim s g c 0 0", "*3|$3|0-0|*1|*2|$3|1-1|*2|$1|a|$1|1|*0|"),
            ("xdel s 1-1", ":1|"),
            ("xreadgroup group g c streams s 0", "*1|*2|$1|s|*1|*2|$3|1-1|*-1|"),
            ("xautoclaim s g c 0 0", "*3|$3|0-0|*0|*1|$3|1-1|"),
            ("xack s g 1-1", ":0|"),
            ("xgroup delconsumer s g c", ":0|"),
            ("xgroup createconsumer s g c", ":1|"),
            ("xgroup createconsumer s g c", ":0|"),
            ("xgroup setid s g 0", "+OK|"),
            (
                "xinfo consumers s g",
                "*2|*8|$4|name|$1|c|$7|pending|:0|$4|idle|:0|$8|inactive|:-1|*8|$4|name|$1|d|$7|pending|:0|$4|idle|:0|$8|inactive|:0|",
            ),
            ("xgroup destroy s g", ":1|"),
            ("xgroup destroy s g", ":0|"),
            ("xgroup setid s g 0", "-NOGROUP No such consumer group 'g' for key name 's'|"),
            (
                "xgroup create s g 0 oops",
                "-ERR unknown subcommand or wrong number of arguments for 'create'. Try XGROUP HELP.|",
            ),
            (
                "xreadgroup group g c streams s x y",
                "-ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified.|",
            ),
        ],
    );
    assert_eq!(bench.words("debug digest"), bench.replayed().words("debug digest"));
}

#[test]
fn a_group_may_be_called_streams() {
    let mut bench = Bench::new();
    bench.words("xadd s 1-1 a 1");
    bench.words("xgroup create s streams 0");
    let reply = bench.words("xreadgroup block 0 group streams streams streams s >");
    assert!(reply.starts_with("*1\r\n*2\r\n$1\r\ns\r\n"), "{reply}");
}

#[test]
fn resp3_has_maps() {
    let mut bench = Bench::new();
    bench.protocol = resp::Protocol::Resp3;
    script(
        &mut bench,
        &[
            ("xadd s 1-1 a 1", "$3|1-1|"),
            ("xread streams s none 0 0", "%1|$1|s|*1|*2|$3|1-1|*2|$1|a|$1|1|"),
            ("xread streams s 5", "_|"),
            ("xread streams s +", "%1|$1|s|*1|*2|$3|1-1|*2|$1|a|$1|1|"),
        ],
    );
}

#[test]
fn events_are_told() {
    let mut bench = Bench::new();
    for line in [
        "xadd s maxlen 1 1-1 a 1",
        "xadd s maxlen 1 1-2 a 1",
        "xgroup create s g 0",
        "xreadgroup group g c streams s >",
        "xgroup setid s g 0",
        "xgroup delconsumer s g c",
        "xgroup destroy s g",
        "xsetid s 5-5",
        "xdel s 1-2",
        "xtrim s maxlen 0",
    ] {
        bench.words(line);
    }
    let names =
        ["xadd", "xadd", "xtrim", "xgroup-create", "xgroup-createconsumer", "xgroup-setid", "xgroup-delconsumer"];
    let mut expected: Vec<String> = names.iter().map(|name| format!("{name} s")).collect();
    expected.extend(["xgroup-destroy", "xsetid", "xdel"].iter().map(|name| format!("{name} s")));
    assert_eq!(bench.notified(), expected);
}

#[test]
fn streams_are_copied_dumped_and_reloaded() {
    let mut bench = Bench::new();
    for line in
        ["xadd s 1-1 a 1", "xadd s 1-2 b 2", "xgroup create s g 0", "xreadgroup group g c streams s >", "xdel s 1-1"]
    {
        bench.words(line);
    }
    let digest = bench.words("debug digest-value s");
    bench.words("copy s t");
    bench.words("rename t u");
    assert_eq!(bench.words("debug digest-value u"), digest);
    assert_eq!(bench.words("debug reload"), "+OK\r\n");
    assert_eq!(bench.words("debug digest-value u"), digest);
    assert_eq!(bench.replayed().words("debug digest-value u"), digest);
    assert_eq!(bench.words("sort s"), "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n");
    assert!(bench.words("scan 0 type stream").contains("u"));
    assert_ne!(bench.words("memory usage s"), "$-1\r\n");
}
