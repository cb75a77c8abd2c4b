//! Lists at three nodes, which all get the same elements, while something breaks: no change may be half done.

use resp::Value;

use crate::net::{Net, key_of, random, shown};

/// Appends to three lists, by a script.
pub const PUSH: &str = "for _, key in ipairs(KEYS) do redis.call('rpush', key, ARGV[1]) end return 'done'";

/// A list at each of three nodes.
pub fn lists() -> [String; 3] {
    [0, 1, 2].map(|i| key_of(i, 3, "list"))
}

/// Asserts that all lists are equal, and have each acknowledged element once.
pub fn are_whole(net: &mut Net, lists: &[String; 3], answered: &[String], seed: u64) {
    let reader = net.connect(0);
    let seen = lists.each_ref().map(|list| net.say(reader, &format!("LRANGE {list} 0 -1")));
    assert!(seen[0] == seen[1] && seen[1] == seen[2], "seed {seed}: {seen:?}");
    let there: Vec<&str> = seen[0].trim_matches(['[', ']']).split(' ').collect();
    for id in answered {
        assert_eq!(there.iter().filter(|there| *there == id).count(), 1, "seed {seed}: {id} in {there:?}");
    }
    assert!(net.is_quiet(), "seed {seed}: nothing is left");
}

/// Links end meanwhile, and clients go. Every reply is true, nothing is half done, and nothing stays locked. `push` has
/// a client append a number to all lists; `is_done` recognizes the last reply to that.
pub fn links_end(push: impl Fn(&mut Net, usize, &[String; 3], &str), is_done: impl Fn(&Value) -> bool) {
    let lists = lists();
    for seed in 1..12 {
        let mut net = Net::new(3, 1 + seed as usize % 2, seed);
        let mut chance = random(seed);
        let mut clients: Vec<usize> = (0..4).map(|i| net.connect(i % 3)).collect();
        let mut answered = Vec::new();
        for id in 0..40 {
            let i = chance(4);
            let (client, number) = (clients[i], id.to_string());
            push(&mut net, client, &lists, &number);
            if chance(3) == 0 {
                let (a, b) = (chance(3), chance(3));
                net.turns(chance(40));
                net.cut(a, b);
            }
            if chance(8) == 0 {
                // The client has gone, with any outcome.
                net.turns(chance(40));
                net.leave(client);
            }
            net.run();
            for _ in 0..chance(30) {
                net.sleep(200);
            }
            let done = net.replies(client).last().is_some_and(&is_done);
            if done {
                answered.push(number);
            }
            let (node, closed) = (chance(3), net.clients[client].closed);
            if closed || !done {
                net.leave(client);
                clients[i] = net.connect(node);
            }
        }
        for _ in 0..100 {
            net.sleep(200);
        }
        are_whole(&mut net, &lists, &answered, seed);
        assert!(answered.len() > 12, "seed {seed}: {answered:?}");
    }
}

#[test]
fn links_that_end_leave_no_block_half_done() {
    let push = |net: &mut Net, client: usize, lists: &[String; 3], number: &str| {
        net.send(client, "MULTI");
        lists.iter().for_each(|list| net.send(client, &format!("RPUSH {list} {number}")));
        net.send(client, "EXEC");
    };
    links_end(push, |reply| matches!(reply, Value::Array(_)));
}

#[test]
fn links_that_end_leave_no_script_half_done() {
    let push = |net: &mut Net, client: usize, [a, b, c]: &[String; 3], number: &str| {
        net.send_words(client, &["EVAL", PUSH, "3", a, b, c, number]);
    };
    links_end(push, |reply| shown(reply) == "done");
}
