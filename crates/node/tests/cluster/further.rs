//! Scripts that find out which keys they need one after the other, at several nodes: they are suspended, and go on.

use crate::doubts::doubtful;
use crate::net::{Net, key_of, shown};

const ADDS: &str = "local n = 0 for _, key in ipairs(ARGV) do n = n + redis.call('incr', key) end return n";

/// How often transactions that a node coordinates were tried again.
fn retries(net: &mut Net, client: usize) -> String {
    let info = net.say(client, "INFO stats");
    let line = info.lines().find_map(|line| line.trim().strip_prefix("transactions_over_nodes_retries:"));
    line.expect("a line of INFO").to_owned()
}

/// One attempt is enough for any number of keys.
#[test]
fn a_script_may_use_any_number_of_keys_that_it_does_not_declare() {
    for workers in [1, 2] {
        let (mut net, [client, other, _], [a, ..]) = Net::three(workers, 4);
        let all: Vec<String> = (0..600).map(|i| key_of(i % 3, 3, &format!("k{i}"))).collect();
        let words: Vec<&str> = all.iter().map(String::as_str).collect();
        assert_eq!(net.say_words(client, &[&["EVAL", ADDS, "0"], &words[..]].concat()), "600");
        assert_eq!(net.say_words(client, &[&["EVAL", ADDS, "1", &a], &words[..]].concat()), "1200");
        assert_eq!(retries(&mut net, client), "0");
        let got = net.say_words(other, &[&["MGET"], &words[..]].concat());
        assert_eq!(got, format!("[{}]", vec!["2"; 600].join(" ")));
        assert!(net.is_quiet(), "nothing is left");
    }
}

/// A script locks exclusively what it reads, unless it only reads. Several keys may have one slot.
#[test]
fn what_is_read_first_and_written_later_is_fetched_once() {
    let (mut net, [client, ..], [a, b, c]) = Net::three(1, 4);
    let reads_first = "for _, key in ipairs(ARGV) do
            local before = redis.call('get', key) or 0
            redis.call('set', key, before + 1)
            redis.call('rpush', '{' .. key .. '}l', before)
        end";
    assert_eq!(net.say_words(client, &["EVAL", reads_first, "0", &a, &b, &c]), "nil");
    assert_eq!(net.say_words(client, &["EVAL", reads_first, "0", &c, &b, &a]), "nil");
    assert_eq!(net.say(client, &format!("MGET {a} {b} {c}")), "[2 2 2]");
    assert_eq!(net.say(client, &format!("LRANGE {{{b}}}l 0 -1")), "[0 1]");
    let only_reads = "local n = 0 for _, key in ipairs(ARGV) do n = n + redis.call('get', key) end return n";
    assert_eq!(net.say_words(client, &["EVAL_RO", only_reads, "0", &a, &b, &c]), "6");
    assert_eq!(retries(&mut net, client), "0");
    assert!(net.is_quiet(), "nothing is left");
}

/// A block reads keys under shared locks. It begins again, once, with exclusive locks on all.
#[test]
fn a_block_that_reads_what_its_script_writes() {
    let (mut net, [client, ..], [a, b, c]) = Net::three(1, 4);
    net.ask(client, &format!("MSET {a} 1 {b} 2 {c} 3"));
    net.ask(client, "MULTI");
    for key in [&a, &b, &c] {
        net.ask(client, &format!("GET {key}"));
    }
    net.say_words(client, &["EVAL", ADDS, "0", &a, &b, &c]);
    assert_eq!(net.say(client, "EXEC"), "[1 2 3 9]");
    assert_eq!(net.say(client, &format!("MGET {a} {b} {c}")), "[2 3 4]");
    assert_eq!(retries(&mut net, client), "1");
    assert!(net.is_quiet(), "nothing is left");
}

/// Two keys that expire together are both gone, or neither, at any time when a script finds out about them.
#[test]
fn keys_that_end_together_are_there_together() {
    let both = "local all = {} for i, key in ipairs(ARGV) do all[i] = redis.call('exists', key) end return all";
    let mut seen = std::collections::BTreeSet::new();
    for before in (0..300).step_by(10) {
        let (mut net, [client, second, third], [a, b, c]) = Net::three(1, 4);
        for key in [&a, &b, &c] {
            net.ask(client, &format!("SET {key} 1 PX 5000"));
        }
        net.sleep(5000 - before);
        net.send_words(client, &["EVAL", both, "0", &a, &b, &c]);
        let reply = (0..1000).find_map(|_| {
            // A reader that comes after the expiry deletes the key.
            net.send(second, &format!("EXISTS {b}"));
            net.send(third, &format!("EXISTS {c}"));
            net.turns(1);
            net.clock_only(7);
            net.replies(client).first().map(shown)
        });
        let all = reply.expect("it ends");
        assert!(all == "[1 1 1]" || all == "[0 0 0]", "{before}: {all}");
        seen.insert(all);
    }
    assert_eq!(seen.len(), 2, "{seen:?}");
}

/// A script that waits for a key of a node that does not answer.
fn waits(workers: usize) -> (Net, [usize; 2], [String; 3]) {
    let (mut net, [client, other, _], [a, b, c]) = Net::three(workers, 4);
    net.ask(client, &format!("MSET {a} 1 {b} 1 {c} 1"));
    net.stalled = vec![2];
    net.send_words(client, &["EVAL", ADDS, "0", &b, &a, &c]);
    net.run();
    assert!(net.replies(client).is_empty(), "it waits");
    (net, [client, other], [a, b, c])
}

#[test]
fn a_script_that_waits_is_killed() {
    for workers in [1, 2] {
        let (mut net, [client, other], [a, b, c]) = waits(workers);
        net.send(other, "SCRIPT KILL");
        net.run();
        net.stalled.clear();
        let error = net.heard(client).join(",");
        assert!(error.starts_with("-ERR Script killed by user with SCRIPT KILL."), "{error}");
        assert_eq!(net.say(client, &format!("MGET {a} {b} {c}")), "[1 1 1]");
        net.sleep(3000);
        assert!(net.is_quiet(), "nothing is left");
    }
}

#[test]
fn the_client_of_a_script_that_waits_goes() {
    for workers in [1, 2] {
        let (mut net, [client, other], [a, b, c]) = waits(workers);
        net.leave(client);
        net.run();
        // Keys of healthy nodes that others need are free at once.
        assert_eq!(net.say(other, &format!("MSET {a} 5 {b} 5")), "OK");
        net.stalled.clear();
        net.sleep(3000);
        assert_eq!(net.say(other, &format!("MGET {a} {b} {c}")), "[5 5 1]");
        assert!(net.is_quiet(), "nothing is left");
    }
}

/// A script holds its locks as long as it waits, and no longer.
#[test]
fn a_script_waits_for_long() {
    let (mut net, [client, other], [a, b, c]) = waits(1);
    net.send(other, &format!("INCRBY {b} 10"));
    for _ in 0..10 {
        net.sleep(500);
    }
    assert!(net.replies(other).is_empty(), "the script has it");
    net.stalled.clear();
    for _ in 0..10 {
        net.sleep(500);
    }
    assert_eq!((net.heard(client).join(","), net.heard(other).join(",")), ("6".to_owned(), "12".to_owned()));
    assert_eq!(net.say(client, &format!("MGET {a} {b} {c}")), "[2 12 2]");
    assert!(net.is_quiet(), "nothing is left");
}

/// The links of a waiting script end: it is done once, or its client gets an error.
#[test]
fn links_end_while_a_script_waits() {
    for cut in [(0, 1), (0, 2)] {
        let (mut net, [client, other], [a, b, c]) = waits(1);
        net.cut(cut.0, cut.1);
        net.run();
        net.stalled.clear();
        for _ in 0..12 {
            net.sleep(500);
        }
        let reply = net.heard(client).join(",");
        let expected = if reply == "6" { "[2 2 2]" } else { "[1 1 1]" };
        assert!(reply == "6" || reply.starts_with("-CLUSTERDOWN"), "{cut:?}: {reply}");
        assert_eq!(net.say(other, &format!("MGET {a} {b} {c}")), expected);
        assert!(net.is_quiet(), "nothing is left");
    }
}

/// A part that has locks may ask for further ones, even if newcomers are held back.
#[test]
fn a_pause_does_not_hold_back_who_has_locks() {
    let (mut net, [client, other], [a, b, c]) = waits(1);
    // The node has a part of the script, and has sent its values.
    assert_eq!(net.say(other, "CLIENT PAUSE 600000 WRITE"), "OK");
    net.stalled.clear();
    net.sleep(600);
    assert_eq!(net.heard(client).join(","), "6");
    let further = [&b, &a, &c].map(|key| format!("{{{key}}}x"));
    net.send_words(client, &["EVAL", ADDS, "0", &further[1], &further[2], &further[0]]);
    for _ in 0..4 {
        net.sleep(500);
    }
    assert!(net.replies(client).is_empty(), "a part that has no locks is held back");
    assert_eq!(net.say(other, "CLIENT UNPAUSE"), "OK");
    for _ in 0..4 {
        net.sleep(500);
    }
    assert_eq!(net.heard(client).join(","), "3");
    assert!(net.is_quiet(), "nothing is left");
}

/// The values of one node may have 8 MB, fetched at once or one by one.
#[test]
fn what_it_finds_out_about_is_bounded() {
    let (mut net, [client, ..], [a, b, _]) = Net::three(1, 4);
    let fills = "for i = 1, 9 do redis.call('set', KEYS[1] .. i, string.rep('x', 1000000)) end";
    let same = format!("{{{b}}}");
    assert_eq!(net.say_words(client, &["EVAL", fills, "1", &same]), "nil");
    let reads = "redis.call('incr', KEYS[1]) local n = 0 for i = 1, ARGV[2] do n = n + redis.call('strlen', ARGV[1] .. i) end return n";
    assert_eq!(net.say_words(client, &["EVAL", reads, "1", &a, &same, "7"]), "7000000");
    let error = net.say_words(client, &["EVAL", reads, "1", &a, &same, "9"]);
    assert!(error.contains("too large (8 MB)"), "{error}");
    assert_eq!(net.say(client, &format!("GET {a}")), "1");
    // The owner refuses a key that is too large by itself, and gives back the locks that it had.
    assert_eq!(net.say(client, &format!("SETRANGE {same}2 9000000 x")), "9000001");
    let error = net.say_words(client, &["EVAL", reads, "1", &a, &same, "2"]);
    assert!(error.contains("too large (8 MB)"), "{error}");
    assert!(net.is_quiet(), "nothing is left");
    let names = "for i = 1, 100000 do redis.call('get', ARGV[1] .. string.rep('y', 1000) .. i) end";
    let error = net.say_words(client, &["EVAL", names, "1", &a, &same]);
    assert!(error.contains("more than 8 MB of undeclared keys"), "{error}");
    assert!(net.is_quiet(), "nothing is left");
}

/// A script needs a key in doubt: none of it is done, its client hears why, and its locks are given back.
#[test]
fn a_script_that_comes_to_a_key_in_doubt_gives_up() {
    for workers in [1, 2] {
        let (mut net, _, [client, _, other], [x, ..]) = doubtful(workers, &[]);
        let [near, far, last] = [(0, "p"), (2, "q"), (2, "r")].map(|(node, name)| key_of(node, 3, name));
        net.send_words(client, &["EVAL", ADDS, "0", &far, &near, &last, &x]);
        net.run();
        assert!(net.replies(client).is_empty(), "it waits");
        for key in [&near, &far, &last] {
            net.send(other, &format!("INCR {key}"));
        }
        (0..14).for_each(|_| net.sleep(500));
        let error = net.heard(client).join(",");
        assert!(error.contains("CLUSTERDOWN The command was not executed"), "{error}");
        assert_eq!(net.heard(other), ["1", "1", "1"], "what it held is given back");
        net.stalled.clear();
        (0..14).for_each(|_| net.sleep(500));
        assert_eq!(net.say(client, &format!("MGET {x} {near} {far}")), "[1 1 1]");
        assert!(net.is_quiet(), "nothing is left");
    }
}

/// A script with keys of several nodes has asked all nodes about their keys, and holds no locks while one of them does
/// not answer.
#[test]
fn a_script_that_asks_about_all_keys_holds_none() {
    for leaves in [false, true] {
        let (mut net, [client, other, _], [a, b, c]) = Net::three(1, 4);
        net.ask(client, &format!("MSET {a} 1 {b} 1 {c} 1"));
        let counts = "redis.call('incr', KEYS[1]) redis.call('incr', ARGV[1]) return redis.call('dbsize')";
        net.send_words(client, &["EVAL", counts, "1", &a, &b]);
        // Its node and the second take part in its transaction, and the third is asked.
        net.stalled = vec![2];
        net.run();
        assert!(net.replies(client).is_empty(), "it waits");
        assert!(net.is_quiet(), "it holds nothing");
        if leaves {
            net.leave(client);
        }
        assert_eq!(net.say(other, &format!("MSET {a} 5 {b} 5")), "OK", "they are free");
        net.stalled.clear();
        (0..14).for_each(|_| net.sleep(500));
        let (reply, expected) = if leaves { ("", "[5 5]") } else { ("3", "[6 6]") };
        assert_eq!(net.heard(client).join(","), reply);
        assert_eq!(net.say(other, &format!("MGET {a} {b}")), expected);
        assert!(net.is_quiet(), "nothing is left");
    }
}

const MOVES: &str =
    "redis.call('decrby', ARGV[1], 10) redis.call('incrby', ARGV[2], 10) return redis.call('get', ARGV[2])";

/// The replies of a block, shown.
fn block(net: &mut Net, client: usize, commands: &[&[&str]]) -> String {
    net.ask(client, "MULTI");
    for words in commands {
        assert_eq!(net.say_words(client, words), "QUEUED", "{words:?}");
    }
    net.say(client, "EXEC")
}

/// A block begins at the node of its keys, here or elsewhere. Its script turns out to need keys of others: it runs over
/// nodes, once.
#[test]
fn a_script_in_a_block_of_one_node_uses_keys_of_others() {
    for workers in [1, 2] {
        let (mut net, [client, ..], keys) = Net::three(workers, 4);
        net.keeps_libraries();
        let library =
            "#!lua name=l\nredis.register_function('moves', function(_, ARGV) redis.call('decrby', ARGV[1], 10)
            redis.call('incrby', ARGV[2], 10) return redis.call('get', ARGV[2]) end)";
        assert_eq!(net.arrange(client, &["FUNCTION", "LOAD", library]), "l");
        for run in [["EVAL", MOVES], ["FCALL", "moves"]] {
            for (at, from, to) in
                (0..27).map(|n| (n / 9, n / 3 % 3, n % 3)).map(|(at, from, to)| (&keys[at], &keys[from], &keys[to]))
            {
                net.ask(client, &format!("MSET {} 100 {} 100 {} 100", keys[0], keys[1], keys[2]));
                let script = [run[0], run[1], "0", from, to];
                let new = format!("{{{at}}}n");
                let (of, moved) = (format!("{run:?}, {at}: {from} to {to}"), if from == to { "100" } else { "110" });
                assert_eq!(block(&mut net, client, &[&script]), format!("[{moved}]"), "{of}");
                net.ask(client, &format!("MSET {from} 100 {to} 100"));
                let n = ["INCR", &new];
                let all = block(&mut net, client, &[&n, &script, &n, &["SELECT", "1"], &["GET", &new]]);
                assert_eq!(all, format!("[1 {moved} 2 OK nil]"), "{of}");
                net.ask(client, "SELECT 0");
                assert_eq!(net.say(client, &format!("GET {new}")), "2", "{of}");
                let sum = if from == to { "100" } else { "90" };
                assert_eq!(net.say(client, &format!("MGET {from} {to}")), format!("[{sum} {moved}]"), "{of}");
                // A block that has every latch of its node can be undone, too.
                net.ask(client, &format!("MSET {from} 100 {to} 100"));
                let all = block(&mut net, client, &[&n, &["KEYS", "none"], &script]);
                assert_eq!(all, format!("[3 [] {moved}]"), "{of}");
                assert_eq!(net.say(client, &format!("MGET {from} {to}")), format!("[{sum} {moved}]"), "{of}");
                net.ask(client, &format!("DEL {new}"));
            }
        }
        assert!(net.is_quiet(), "nothing is left");
    }
}

/// Watched keys count when the block runs over nodes after all, and no longer than that.
#[test]
fn a_block_that_goes_over_nodes_heeds_what_is_watched() {
    for workers in [1, 2] {
        let (mut net, [client, other, _], keys) = Net::three(workers, 4);
        for at in &keys {
            let others: Vec<&String> = keys.iter().filter(|key| *key != at).collect();
            net.ask(client, &format!("MSET {at} 100 {} 100 {} 100", others[0], others[1]));
            let script = ["EVAL", MOVES, "1", at, others[0], others[1]];
            for (changes, expected) in [(true, "nil"), (false, "[110]")] {
                net.ask(client, &format!("WATCH {at}"));
                if changes {
                    net.ask(other, &format!("INCR {at}"));
                }
                assert_eq!(block(&mut net, client, &[&script]), expected, "{at}");
            }
            net.ask(other, &format!("INCR {at}"));
            assert_eq!(block(&mut net, client, &[&script]), "[120]", "{at}: nothing is watched any more");
            assert_eq!(net.say(client, &format!("MGET {} {}", others[0], others[1])), "[80 120]", "{at}");
        }
        assert!(net.is_quiet(), "nothing is left");
    }
}

/// Commands that a client sends behind such a block run behind it.
#[test]
fn what_is_behind_a_block_that_goes_over_nodes_waits() {
    for workers in [1, 2] {
        let (mut net, [client, ..], keys) = Net::three(workers, 4);
        for at in &keys {
            let [one, two] = [0, 1].map(|i| keys.iter().filter(|key| *key != at).nth(i).expect("two others"));
            net.ask(client, &format!("MSET {at} 0 {one} 0 {two} 0"));
            let eval = format!("EVAL return(redis.call('incr',ARGV[1])+redis.call('incr',ARGV[2])) 1 {at} {one} {two}");
            let get = format!("MGET {one} {two}");
            let incr = format!("INCR {at}");
            let replies = net.pipeline(client, &["MULTI", &incr, &eval, "EXEC", &incr, &get, &eval]);
            let replies: Vec<String> = replies.iter().map(shown).collect();
            assert_eq!(replies[3..], ["[1 2]", "2", "[1 1]", "4"], "{at}");
        }
        assert!(net.is_quiet(), "nothing is left");
    }
}
