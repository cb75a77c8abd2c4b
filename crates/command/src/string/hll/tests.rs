use crate::testing::Bench;

const INVALID: &str = "-WRONGTYPE Key is not a valid HyperLogLog string value.\r\n";
const DAMAGED: &str = "-INVALIDOBJ Corrupted HLL object detected\r\n";

fn encoding(bench: &mut Bench, key: &str) -> String {
    bench.words(&format!("pfdebug encoding {key}"))
}

fn text(bench: &mut Bench, key: &[u8]) -> Vec<u8> {
    bench.inspect(|db| db.peek(&db.key(key)).map_or(Vec::new(), |entry| entry.string().unwrap().to_vec()))
}

#[test]
fn adding_and_counting() {
    let mut bench = Bench::new();
    assert_eq!(bench.words("pfadd h"), ":1\r\n");
    assert_eq!(bench.words("pfcount h"), ":0\r\n");
    assert_eq!(bench.words("pfadd h a b c"), ":1\r\n");
    assert_eq!(bench.words("pfadd h a b c"), ":0\r\n");
    assert_eq!(bench.words("pfadd h"), ":0\r\n");
    assert_eq!(bench.words("pfcount h nothing"), ":3\r\n");
    assert_eq!(text(&mut bench, b"h")[15], 0x80);
    assert_eq!(bench.words("pfcount h"), ":3\r\n");
    assert_eq!(text(&mut bench, b"h")[15], 0);
    assert_eq!(bench.words("pfdebug decode h"), "$44\r\nZ:8436 v:1,1 Z:4274 v:2,1 Z:3068 v:1,1 Z:603\r\n");
    assert_eq!(bench.words("object encoding h"), "$3\r\nraw\r\n");
    assert_eq!(bench.notified(), ["pfadd h", "pfadd h"]);
    assert_eq!(bench.words("pfcount nothing"), ":0\r\n");
    assert_eq!(bench.words("pfselftest"), "+OK\r\n");
}

#[test]
fn expiry_stays() {
    let mut bench = Bench::new();
    bench.words("pfadd h a");
    bench.words("pexpire h 1000");
    for line in ["pfadd h b", "pfcount h", "pfmerge h", "pfdebug todense h", "pfadd h c", "pfcount h"] {
        bench.words(line);
        assert_eq!(bench.words("pttl h"), ":1000\r\n", "{line}");
    }
    let text = |entry: &keyspace::EntryRef<'_>| entry.string().unwrap().to_vec();
    assert_eq!(bench.replayed().image(text), bench.image(text));
}

#[test]
fn forms() {
    let mut bench = Bench::new();
    bench.words("pfadd h a b c d e f");
    assert_eq!(encoding(&mut bench, "h"), "+sparse\r\n");
    bench.tunables.limits.hll_sparse_max_bytes = 30;
    bench.words("pfadd h g");
    assert_eq!(encoding(&mut bench, "h"), "+dense\r\n");
    assert_eq!(bench.words("pfcount h"), ":7\r\n");
    assert_eq!(bench.words("pfadd h g"), ":0\r\n");
    assert_eq!(bench.words("pfadd h i j i"), ":1\r\n");
    assert_eq!(bench.words("pfcount h"), ":9\r\n");
    assert_eq!(bench.words("pfdebug todense h"), ":0\r\n");
    bench.tunables.limits.hll_sparse_max_bytes = 3000;
    bench.words("pfadd s x y");
    assert_eq!(bench.words("pfmerge s h"), "+OK\r\n");
    assert_eq!(encoding(&mut bench, "s"), "+dense\r\n");
    assert_eq!(bench.words("pfcount s"), ":11\r\n");
    bench.words("pfadd t x y");
    assert!(bench.words("pfdebug getreg t").starts_with("*16384\r\n:0\r\n"));
    assert_eq!(encoding(&mut bench, "t"), "+dense\r\n");
    assert_eq!(bench.words("pfmerge fresh nothing"), "+OK\r\n");
    assert_eq!(bench.words("pfcount fresh"), ":0\r\n");
    assert_eq!(encoding(&mut bench, "fresh"), "+sparse\r\n");
    let text = |entry: &keyspace::EntryRef<'_>| entry.string().unwrap().to_vec();
    assert_eq!(bench.replayed().image(text), bench.image(text));
}

#[test]
fn what_is_no_hyperloglog() {
    let mut bench = Bench::new();
    bench.words("set s bar");
    bench.words("set i 12");
    bench.words("rpush l a");
    for line in ["pfadd s a", "pfcount s", "pfcount s s", "pfmerge x s", "pfmerge s x", "pfdebug getreg s", "pfadd i a"]
    {
        assert_eq!(bench.words(line), INVALID, "{line}");
    }
    for line in ["pfadd l a", "pfcount l", "pfcount l l", "pfmerge x l", "pfdebug foo l"] {
        assert_eq!(
            bench.words(line),
            "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
            "{line}"
        );
    }
    bench.words("pfadd h a b c");
    assert_eq!(bench.words("pfdebug foo h"), "-ERR Unknown PFDEBUG subcommand 'foo'\r\n");
    assert_eq!(bench.words("pfdebug encoding nothing"), "-ERR The specified key does not exist\r\n");
    bench.words("append h hello");
    for line in ["pfcount h", "pfcount h h", "pfmerge x h", "pfdebug todense h", "pfdebug getreg h"] {
        assert_eq!(bench.words(line), DAMAGED, "{line}");
    }
    assert_eq!(bench.words("exists x"), ":0\r\n");
    // Bytes behind the registers are not read.
    assert_eq!(bench.words("pfadd h zz"), ":1\r\n");
    bench.words("setrange h 4 x");
    assert_eq!(bench.words("pfcount h"), INVALID);
}
