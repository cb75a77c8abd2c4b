use proptest::prelude::*;

use crate::testing::Bench;

/// The elements of an array reply of bulk strings, nil as "(nil)".
fn list(reply: String) -> Vec<String> {
    assert!(reply.starts_with('*'), "{reply}");
    let mut lines = reply.split("\r\n").skip(1);
    let mut elements = Vec::new();
    while let Some(head) = lines.next().filter(|head| !head.is_empty()) {
        elements.push(if head == "$-1" { "(nil)".to_owned() } else { lines.next().unwrap().to_owned() });
    }
    elements
}

fn sorted(bench: &mut Bench, line: &str) -> String {
    list(bench.words(line)).join(" ")
}

#[test]
fn numbers_and_texts() {
    let mut bench = Bench::new();
    bench.words("rpush l 3 10 1 2.5 -1");
    assert_eq!(sorted(&mut bench, "sort l"), "-1 1 2.5 3 10");
    assert_eq!(sorted(&mut bench, "sort l desc"), "10 3 2.5 1 -1");
    assert_eq!(sorted(&mut bench, "sort l alpha"), "-1 1 10 2.5 3");
    assert_eq!(sorted(&mut bench, "sort l limit 1 2"), "1 2.5");
    assert_eq!(sorted(&mut bench, "sort l limit -3 -1"), "-1 1 2.5 3 10");
    assert_eq!(sorted(&mut bench, "sort l limit 9 1"), "");
    assert_eq!(sorted(&mut bench, "sort l limit 1 0"), "");
    assert_eq!(sorted(&mut bench, "sort none"), "");
    assert_eq!(sorted(&mut bench, "sort_ro l by nosort"), "3 10 1 2.5 -1");
    assert_eq!(sorted(&mut bench, "sort l by nosort desc limit 1 2"), "2.5 1");
    assert_eq!(sorted(&mut bench, "sort l by nosort limit 3 9"), "2.5 -1");
    bench.words("rpush l x");
    let error = "-ERR One or more scores can't be converted into double\r\n";
    assert_eq!(bench.words("sort l"), error);
    bench.words("rpush big 1e400");
    assert_eq!(bench.words("sort big"), error);
    bench.words("rpush hex 0x10 3 0x.8p0");
    assert_eq!(sorted(&mut bench, "sort hex"), "0x.8p0 3 0x10");
    bench.run(&[b"rpush", b"empty", b"1", b""]);
    assert_eq!(bench.words("sort empty"), error);
    bench.words("rpush inf inf -inf 0");
    assert_eq!(sorted(&mut bench, "sort inf"), "-inf 0 inf");
    bench.words("set s x");
    assert!(bench.words("sort s").starts_with("-WRONGTYPE"));
    assert_eq!(bench.words("sort l limit 1"), "-ERR syntax error\r\n");
    assert_eq!(bench.words("sort l limit a 1"), "-ERR value is not an integer or out of range\r\n");
    assert_eq!(bench.words("sort_ro l store d"), "-ERR syntax error\r\n");
}

#[test]
fn patterns() {
    let mut bench = Bench::new();
    bench.words("rpush l 1 2 3");
    bench.words("mset w1 30 w2 20 w3 10 o1 a o2 b");
    bench.words("hset h1 f 2 g x");
    bench.words("hset h2 f 1 g y");
    assert_eq!(sorted(&mut bench, "sort l by w*"), "3 2 1");
    assert_eq!(sorted(&mut bench, "sort l by w* get o* get #"), "(nil) 3 b 2 a 1");
    assert_eq!(sorted(&mut bench, "sort l by h*->f get h*->g"), "(nil) y x");
    assert_eq!(sorted(&mut bench, "sort l by h*->g alpha"), "3 1 2");
    assert_eq!(sorted(&mut bench, "sort l get none get h*->none"), "(nil) (nil) (nil) (nil) (nil) (nil)");
    assert_eq!(sorted(&mut bench, "sort l get h*->"), "(nil) (nil) (nil)");
    assert_eq!(sorted(&mut bench, "sort l by none* desc"), "3 2 1");
    bench.words("pexpire o1 5");
    bench.now += 6;
    assert_eq!(sorted(&mut bench, "sort l get o*"), "(nil) b (nil)");
    assert_eq!(bench.words("sort l by o*"), "-ERR One or more scores can't be converted into double\r\n");
}

#[test]
fn patterns_within_one_slot_need_no_other() {
    let mut bench = Bench::new();
    bench.words("rpush {t} 1 2");
    bench.words("mset {t}1 9 {t}2 8");
    assert_eq!(sorted(&mut bench, "sort {t} by {t}* get {t}*"), "8 9");
}

#[test]
fn stores() {
    let mut bench = Bench::new();
    bench.words("rpush l 3 1 2");
    bench.words("set d x");
    bench.words("pexpire d 100");
    bench.notified();
    assert_eq!(bench.words("sort l get # get none store d"), ":6\r\n");
    assert_eq!(bench.notified(), ["overwritten d", "type_changed d", "sortstore d"]);
    assert_eq!(sorted(&mut bench, "lrange d 0 -1"), "1  2  3 ");
    assert_eq!(bench.words("ttl d"), ":-1\r\n");
    assert_eq!(bench.words("sort none store d"), ":0\r\n");
    assert_eq!(bench.notified(), ["del d"]);
    assert_eq!(bench.words("exists d"), ":0\r\n");
    assert_eq!(bench.words("sort l store x store l"), ":3\r\n");
    assert_eq!(sorted(&mut bench, "lrange l 0 -1"), "1 2 3");
    assert_eq!(sorted(&mut bench.replayed(), "lrange l 0 -1"), "1 2 3");
}

#[test]
fn sorted_sets_keep_their_order() {
    let mut bench = Bench::new();
    bench.words("zadd z 1 c 2 b 3 a");
    assert_eq!(sorted(&mut bench, "sort z by nosort"), "c b a");
    assert_eq!(sorted(&mut bench, "sort z by nosort desc"), "a b c");
    assert_eq!(sorted(&mut bench, "sort z by nosort desc limit 0 2"), "a b");
    assert_eq!(sorted(&mut bench, "sort z by nosort limit 1 1"), "b");
    assert_eq!(sorted(&mut bench, "sort z alpha"), "a b c");
}

proptest! {
    #[test]
    fn limit_is_a_part_of_the_whole(items in prop::collection::vec(-20i32..20, 0..40), start in 0usize..50, count in 0usize..50, desc: bool) {
        let mut bench = Bench::new();
        let mut expected = items.clone();
        expected.sort_unstable();
        if desc { expected.reverse(); }
        for item in &items { bench.words(&format!("rpush l {item}")); }
        let order = if desc { "desc" } else { "asc" };
        let reply = list(bench.words(&format!("sort l {order} limit {start} {count}")));
        let expected: Vec<String> = expected.iter().skip(start).take(count).map(i32::to_string).collect();
        prop_assert_eq!(reply, expected);
    }
}
