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
            (
                "xadd s idmp p i * a 1",
                "-ERR idempotent producers (IDMP, IDMPAUTO) are not supported by this version of Holdfast|",
            ),
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
    assert_eq!(bench.words("debug reload-values"), "+OK\r\n");
    assert_eq!(bench.words("debug digest-value u"), digest);
    assert_eq!(bench.replayed().words("debug digest-value u"), digest);
    assert_eq!(bench.words("sort s"), "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n");
    assert!(bench.words("scan 0 type stream").contains("u"));
    assert_ne!(bench.words("memory usage s"), "$-1\r\n");
}

#[test]
fn the_last_entry_is_one_that_is_there() {
    let mut bench = Bench::new();
    script(
        &mut bench,
        &[
            ("xadd s 1-1 f v", "$3|1-1|"),
            ("xadd s 2-1 f v", "$3|2-1|"),
            ("xdel s 2-1", ":1|"),
            ("xread streams s +", "*1|*2|$1|s|*1|*2|$3|1-1|*2|$1|f|$1|v|"),
            ("xgroup create empty g $ mkstream", "+OK|"),
            ("xread streams empty +", "*-1|"),
        ],
    );
}

#[test]
fn what_was_trimmed_unread_counts_as_read() {
    let mut bench = Bench::new();
    bench.words("xgroup create x g $ mkstream");
    (1..=5).for_each(|n| drop(bench.words(&format!("xadd x {n}-0 f v"))));
    bench.words("xreadgroup group g c count 1 streams x >");
    bench.words("xtrim x maxlen 1");
    let position = |bench: &mut Bench| {
        let reply = bench.words("xinfo groups x").replace("\r\n", "|");
        reply.split("entries-read|").nth(1).map(str::to_owned)
    };
    assert_eq!(position(&mut bench).as_deref(), Some(":1|$3|lag|:1|"));
    bench.words("xreadgroup group g c streams x >");
    assert_eq!(position(&mut bench).as_deref(), Some(":5|$3|lag|:0|"));
    // No group has read more entries than were ever added.
    bench.words("xgroup create x h 1 entriesread 10000");
    bench.words("xgroup setid x g $ entriesread 10000");
    let reply = bench.words("xinfo groups x");
    assert_eq!(reply.matches("entries-read\r\n:5\r\n").count(), 2, "{reply}");
}

#[test]
fn entries_are_deleted_with_an_eye_on_groups() {
    let mut bench = Bench::new();
    (1..=6).for_each(|n| drop(bench.words(&format!("xadd s {n}-0 f v"))));
    script(
        &mut bench,
        &[
            ("xgroup create s g 0", "+OK|"),
            ("xgroup create s h 0", "+OK|"),
            ("xdelex s acked ids 1 1-0", "*1|:2|"),
            ("xdelex s acked ids 1 9-9", "*1|:2|"),
            ("xdelex s keepref ids 2 6-0 9-9", "*2|:1|:-1|"),
            ("xdelex none ids 2 1-0 x", "*2|:-1|:-1|"),
            ("xdelex s ids 1", "-ERR wrong number of arguments for 'xdelex' command|"),
            ("xdelex s ids 0 1-0", "-ERR Number of IDs must be a positive integer|"),
            ("xdelex s ids 3 1-0", "-ERR The `numids` parameter must match the number of arguments|"),
            ("xdelex s delref keepref ids 1 1-0", "-ERR syntax error|"),
            ("xdelex s keepref acked 1-0", "-ERR syntax error|"),
            ("xdelex s delref ids 1 x", "-ERR Invalid stream ID specified as stream command argument|"),
        ],
    );
    for group in ["g", "h"] {
        bench.words(&format!("xreadgroup group {group} c streams s >"));
    }
    script(
        &mut bench,
        &[
            ("xackdel s g acked ids 2 1-0 9-9", "*2|:2|:-1|"),
            ("xackdel s h acked ids 1 1-0", "*1|:1|"),
            ("xackdel s g delref ids 1 2-0", "*1|:1|"),
            ("xackdel s h ids 1 2-0", "*1|:-1|"),
            ("xackdel s g keepref ids 1 3-0", "*1|:1|"),
            ("xackdel s none ids 1 3-0", "*1|:-1|"),
            // A deleted entry can still be pending.
            ("xpending s h - + 1", "*1|*4|$3|3-0|$1|c|:0|:1|"),
            ("xdelex s delref ids 1 3-0", "*1|:-1|"),
            ("xpending s h", "*4|:2|$3|4-0|$3|5-0|*1|*2|$1|c|$1|2|"),
            ("xack s h 5-0", ":1|"),
            ("xack s g 5-0", ":1|"),
            ("xtrim s maxlen 0 acked", ":1|"),
            ("xrange s - +", "*1|*2|$3|4-0|*2|$1|f|$1|v|"),
            ("xadd s delref maxlen ~ 1 7-0 f v", "$3|7-0|"),
            ("xpending s h", "*4|:0|$-1|$-1|*-1|"),
            ("xadd s acked delref * f v", "-ERR Invalid stream ID specified as stream command argument|"),
            ("xtrim s acked", "-ERR wrong number of arguments for 'xtrim' command|"),
            ("xtrim s acked keepref", "-ERR syntax error|"),
        ],
    );
    let digest = bench.words("debug digest");
    assert_eq!(bench.replayed().words("debug digest"), digest);
    assert_eq!(bench.words("debug reload-values"), "+OK\r\n");
    assert_eq!(bench.words("debug digest"), digest);
}

#[test]
fn entries_are_released_and_claimed_oldest_first() {
    let mut bench = Bench::new();
    (1..=4).for_each(|n| drop(bench.words(&format!("xadd s {n}-0 f v"))));
    let nobody = "-NOGROUP No such key 's' or consumer group 'x'|";
    script(
        &mut bench,
        &[
            ("xgroup create s g 0", "+OK|"),
            ("xnack s x fail ids 1 1-0", nobody),
            ("xnack s g what ids 1 1-0", "-ERR mode must be SILENT, FAIL, or FATAL|"),
            ("xnack s g fail ids 0 1-0", "-ERR numids must be a positive integer|"),
            ("xnack s g fail ids 2 1-0", "-ERR number of IDs doesn't match numids|"),
            ("xnack s g fail ids 1 1-0 what", "-ERR Unrecognized XNACK option 'what'|"),
            ("xnack s g fail ids 1 1-0 retrycount -1", "-ERR Invalid RETRYCOUNT value, must be >= 0|"),
            ("xnack s g fail force retrycount 1 force", "-ERR syntax error, expected IDS keyword|"),
            ("xnack s g fail ids 1 4-0", ":0|"),
        ],
    );
    bench.words("xreadgroup group g c count 3 streams s >");
    script(
        &mut bench,
        &[
            ("xnack s g fail ids 3 3-0 9-0 2-0", ":2|"),
            ("xnack s g fatal ids 1 4-0 force", ":1|"),
            ("xnack s g silent ids 1 3-0", ":1|"),
            (
                "xpending s g idle 1000 - + 9",
                "*3|*4|$3|2-0|$0||:-1|:1|*4|$3|3-0|$0||:-1|:0|*4|$3|4-0|$0||:-1|:9223372036854775807|",
            ),
            ("xpending s g - + 9 none", "*0|"),
            ("xpending s g", "*4|:4|$3|1-0|$3|4-0|*1|*2|$1|c|$1|1|"),
        ],
    );
    let full = bench.words("xinfo stream s full").replace("\r\n", "|");
    assert!(full.contains("$9|pel-count|:4|$12|nacked-count|:3|"), "{full}");
    assert_eq!(bench.words("debug digest"), bench.replayed().words("debug digest"));
    let digest = bench.words("debug digest");
    assert_eq!(bench.words("debug reload-values"), "+OK\r\n");
    assert_eq!(bench.words("debug digest"), digest);
    // Released entries come first, in the order of their release; recently delivered ones are not claimed yet.
    let claim = |bench: &mut Bench, options: &str| {
        let reply = bench.words(&format!("xreadgroup group g d {options} streams s >")).replace("\r\n", "|");
        let ids = reply.split('|').filter(|part| part.contains("-0")).map(str::to_owned);
        (ids.collect::<Vec<_>>().join(" "), reply)
    };
    assert_eq!(claim(&mut bench, "count 1 claim 1000").0, "2-0");
    // The fourth is new as well: claiming comes first.
    let (ids, reply) = claim(&mut bench, "count 3 claim 1000");
    assert_eq!(ids, "4-0 3-0 4-0");
    let time = format!(":{TIME}|");
    let first = format!("*1|*2|$1|s|*3|*4|$3|4-0|*2|$1|f|$1|v|{time}:9223372036854775807|*4|$3|3-0|");
    assert!(reply.starts_with(&first), "{reply}");
    assert!(reply.ends_with("*4|$3|4-0|*2|$1|f|$1|v|:0|:0|"), "{reply}");
    assert_eq!(claim(&mut bench, "claim 1").0, "");
    assert_eq!(claim(&mut bench, "claim 0 count 2").0, "1-0 2-0");
    assert_eq!(claim(&mut bench, "claim 0 count 2").0, "3-0 4-0");
    // Deleted entries are passed over, and stay pending.
    bench.words("xdel s 1-0");
    assert_eq!(claim(&mut bench, "claim 0").0, "2-0 3-0 4-0");
    // The history of a consumer is not claimed.
    assert_eq!(bench.words("xreadgroup group g d claim 0 streams s 3-0").matches("*2\r\n").count(), 3);
    script(
        &mut bench,
        &[
            (
                "xread claim 0 streams s 0",
                "-ERR The CLAIM option is only supported by XREADGROUP. You called XREAD instead.|",
            ),
            ("xreadgroup group g c claim x streams s >", "-ERR min-idle-time is not an integer or out of range|"),
            ("xreadgroup group g c claim -1 streams s >", "-ERR min-idle-time must be a positive integer|"),
            ("xackdel s g ids 2 1-0 2-0", "*2|:1|:1|"),
            ("xpending s g", "*4|:2|$3|3-0|$3|4-0|*1|*2|$1|d|$1|2|"),
            ("xnack s g fail ids 1 3-0", ":1|"),
            ("xautoclaim s g e 5000 0 justid", "*3|$3|0-0|*1|$3|3-0|*0|"),
            ("xnack s g fail ids 1 3-0", ":1|"),
            ("xclaim s g c 5000 3-0 4-0 justid", "*1|$3|3-0|"),
            ("xnack s g fail ids 1 3-0", ":1|"),
            ("xack s g 3-0", ":1|"),
        ],
    );
    assert_eq!(bench.words("debug digest"), bench.replayed().words("debug digest"));
}
