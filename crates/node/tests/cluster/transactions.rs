//! Blocks whose commands need one node each, and several together: they run as one.

use clocks::UnixMs;
use membership::frame::Kind;
use txn::locks::Mode;
use txn::{HybridTime, Life, Lock, Member, Message, NodeId, Origin, ParticipantId, Prepare, Stamp, TxnId};

use crate::net::{Net, key_of, random, shown};

fn block(net: &mut Net, client: usize, commands: &[&str]) -> String {
    let mut all = vec!["MULTI"];
    all.extend(commands);
    all.push("EXEC");
    let replies = net.pipeline(client, &all);
    assert_eq!(replies.len(), commands.len() + 2, "{replies:?}");
    shown(&replies[commands.len() + 1])
}

/// The number of transactions over nodes that clients of a node have made, and of retries.
fn counted(net: &mut Net, client: usize) -> (u64, u64) {
    let info = net.say(client, "INFO stats");
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.parse().ok()).unwrap();
    (field("transactions_over_nodes:"), field("transactions_over_nodes_retries:"))
}

#[test]
fn a_block_over_several_nodes_runs_as_one() {
    for workers in [1, 3] {
        let (mut net, [client, _, other], [a, b, c]) = Net::three(workers, 2);
        let commands = [
            format!("SET {a} 1"),
            format!("INCRBY {b} 5"),
            format!("RPUSH {c} x y"),
            "PING".into(),
            format!("GET {a}"),
        ];
        let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
        assert_eq!(block(&mut net, client, &commands), "[OK 5 2 PONG 1]");
        assert_eq!(net.say(other, &format!("GET {a}")), "1");
        assert_eq!(net.say(other, &format!("GET {b}")), "5");
        assert_eq!(net.say(other, &format!("LRANGE {c} 0 -1")), "[x y]");
        // From a node without a part, reading only.
        let (get_a, get_b) = (format!("GET {a}"), format!("GET {b}"));
        assert_eq!(block(&mut net, other, &[&get_a, &get_b]), "[1 5]");
        // An error of one command is its reply.
        let wrong = format!("LPUSH {a} x");
        let incr = format!("INCR {b}");
        let reply = block(&mut net, client, &[&incr, &wrong]);
        assert!(reply.starts_with("[6 -WRONGTYPE"), "{reply}");
        assert_eq!(net.say(other, &get_b), "6");
        assert_eq!([client, other].map(|client| counted(&mut net, client)), [(2, 0), (1, 0)]);
        assert!(net.is_quiet(), "nothing is left");
    }
}

/// MSET that lacks a value is queued, and fails when it runs, as at a single server: the rest of its block runs.
#[test]
fn a_command_that_lacks_an_argument_fails_alone() {
    const LACKING: &str = "-ERR wrong number of arguments for 'mset' command";
    let (mut net, [client, ..], [a, b, c]) = Net::three(1, 2);
    let [set_a, set_b, set_c] = [&a, &b, &c].map(|key| format!("SET {key} 1"));
    let lacking = format!("MSET {a} 2 {b}");
    assert_eq!(block(&mut net, client, &[&set_a, &lacking, &set_b]), format!("[OK {LACKING} OK]"));
    assert_eq!(block(&mut net, client, &[&lacking, "PING"]), format!("[{LACKING} PONG]"));
    // All keys of this command are of one node.
    let of_one = format!("MSET {a} 2 {a}");
    assert_eq!(block(&mut net, client, &[&set_b, &of_one, &set_c]), format!("[OK {LACKING} OK]"));
    // The block runs on copies of the keys that it uses.
    let script = format!("EVAL return(redis.call('get',KEYS[1])..redis.call('get',KEYS[2])) 2 {a} {b}");
    assert_eq!(block(&mut net, client, &[&lacking, &script, &set_c]), format!("[{LACKING} 11 OK]"));
    assert_eq!(net.say(client, &lacking), LACKING);
    assert_eq!(net.say(client, &format!("MGET {a} {b} {c}")), "[1 1 1]");
    assert!(net.is_quiet(), "nothing is left");
}

/// A client that gets redirections gets none for keys of several nodes: in a block such commands are queued as any
/// other.
#[test]
fn a_block_of_a_redirected_client_has_keys_of_several_nodes() {
    let (mut net, [client, other, _], [a, b, c]) = Net::three(1, 2);
    assert_eq!(net.say(client, "CLUSTER REDIRECT MOVED"), "OK");
    let (set, get) = (format!("MSET {a} 1 {b} 1"), format!("MGET {a} {b}"));
    let script = format!("EVAL return(redis.call('incr',KEYS[1])+redis.call('incr',KEYS[2])) 2 {a} {c}");
    for command in [&set, &script] {
        assert_eq!(net.say(client, "MULTI"), "OK");
        assert_eq!(net.say(client, command), "QUEUED");
        assert_eq!(net.say(other, &format!("EXISTS {a} {b} {c}")), "0", "nothing has run");
        assert_eq!(net.say(client, "DISCARD"), "OK");
    }
    assert_eq!(block(&mut net, client, &[&set, &script, &get]), "[OK 3 [2 1]]");
    assert_eq!(net.say(other, &get), "[2 1]");
    assert!(net.is_quiet(), "nothing is left");
}

#[test]
fn databases_are_selected_in_a_block() {
    let mut net = Net::new(2, 1, 2);
    let client = net.connect(0);
    let [a, b] = [0, 1].map(|i| key_of(i, 2, "k"));
    let (set_a, set_b) = (format!("SET {a} 4"), format!("SET {b} 5"));
    assert_eq!(block(&mut net, client, &[&set_a, "SELECT 3", &set_b, "ECHO hi"]), "[OK OK OK hi]");
    assert_eq!(net.say(client, &format!("GET {b}")), "5", "it is selected");
    assert_eq!(net.say(client, &format!("EXISTS {a}")), "0");
    net.ask(client, "SELECT 0");
    assert_eq!(net.say(client, &format!("GET {a}")), "4");
}

#[test]
fn what_cannot_run_says_so() {
    let mut net = Net::new(2, 1, 2);
    let client = net.connect(0);
    let [a, b] = [0, 1].map(|i| key_of(i, 2, "k"));
    let (set_a, set_b) = (format!("SET {a} 4"), format!("SET {b} 5"));
    for command in ["FLUSHALL", "FLUSHDB", "SWAPDB 0 1"] {
        let reply = block(&mut net, client, &[&set_a, &set_b, command]);
        assert!(reply.starts_with("-EXECABORT"), "{reply}");
    }
    assert_eq!(net.say(client, &format!("EXISTS {b}")), "0");
    net.lease(1, 0);
    let reply = block(&mut net, client, &[&set_a, &set_b]);
    assert!(reply.starts_with("-CLUSTERDOWN"), "{reply}");
    assert_eq!(net.say(client, &format!("EXISTS {a}")), "0");
    net.lease(1, u64::MAX);
    net.sleep(100);
    assert_eq!(block(&mut net, client, &[&set_a, &set_b]), "[OK OK]");
}

/// Many clients move money between accounts at different nodes, with messages in any order. None is lost, and a reader
/// of all accounts sees the right sum.
#[test]
fn accounts_are_never_seen_half_changed() {
    let mut retries = 0;
    for seed in 1..8 {
        let workers = 1 + seed as usize % 3;
        let mut net = Net::new(3, workers, seed);
        let accounts: Vec<String> = (0..4).map(|i| key_of(i % 3, 3, &format!("account{i}"))).collect();
        let clients: Vec<usize> = (0..6).map(|i| net.connect(i % 3)).collect();
        for account in &accounts {
            net.ask(clients[0], &format!("SET {account} 100"));
        }
        let mut next = random(seed * 7919);
        let mut reads = 0;
        for _ in 0..12 {
            for &client in &clients {
                let commands: Vec<String> = if next(3) == 0 {
                    accounts.iter().map(|account| format!("GET {account}")).collect()
                } else {
                    let (from, to) = (next(4), next(4));
                    let amount = next(10);
                    vec![format!("DECRBY {} {amount}", accounts[from]), format!("INCRBY {} {amount}", accounts[to])]
                };
                net.send(client, "MULTI");
                commands.iter().for_each(|command| net.send(client, command));
                net.send(client, "EXEC");
                // A plain command waits for the locks.
                net.send(client, &format!("INCRBY {} 0", accounts[next(4)]));
            }
            net.run();
            // Refused attempts are tried again after a while.
            for _ in 0..100 {
                net.sleep(5);
            }
            for &client in &clients {
                for reply in net.replies(client) {
                    let text = shown(&reply);
                    assert!(!text.contains('-'), "{text}: no conflict is a client's");
                    if let resp::Value::Array(values) = &reply
                        && values.len() == accounts.len()
                    {
                        let sum: i64 = values.iter().map(|value| shown(value).parse::<i64>().unwrap()).sum();
                        assert_eq!(sum, 400, "{text}");
                        reads += 1;
                    }
                }
            }
        }
        assert!(reads > 5);
        retries += clients.iter().take(3).map(|client| counted(&mut net, *client).1).sum::<u64>();
        assert!(net.is_quiet(), "nothing is left");
    }
    assert!(retries > 0, "there were conflicts");
}

/// A transaction serves clients that wait for its keys; but not across a lock.
#[test]
fn who_waits_is_served() {
    let mut net = Net::new(2, 1, 3);
    let (client, waiter) = (net.connect(0), net.connect(1));
    let [a, b] = [0, 1].map(|i| key_of(i, 2, "k"));
    net.send(waiter, &format!("BLPOP {b} 0"));
    net.run();
    let (push, set) = (format!("RPUSH {b} x y"), format!("SET {a} 1"));
    assert_eq!(block(&mut net, client, &[&push, &set]), "[2 OK]");
    assert_eq!(net.heard(waiter), [format!("[{b} x]")]);
    assert_eq!(net.say(client, &format!("LRANGE {b} 0 -1")), "[y]");
    // A client that would break a block.
    assert_eq!(net.say(waiter, &format!("WATCH {b}")), "OK");
    block(&mut net, client, &[&push, &set]);
    net.pipeline(waiter, &["MULTI", &format!("LLEN {b}")]);
    assert_eq!(net.say(waiter, "EXEC"), "nil");
}

/// Later commands of one connection come after its transaction, and those of others after its reply.
#[test]
fn what_was_answered_is_seen_by_everybody() {
    let mut net = Net::new(3, 2, 5);
    let clients: Vec<usize> = (0..3).map(|i| net.connect(i)).collect();
    let keys: Vec<String> = (0..3).map(|i| key_of(i, 3, "k")).collect();
    for round in 0..20 {
        let writer = clients[round % 3];
        net.send(writer, "MULTI");
        keys.iter().for_each(|key| net.send(writer, &format!("SET {key} {round}")));
        net.send(writer, "EXEC");
        keys.iter().for_each(|key| net.send(writer, &format!("GET {key}")));
        net.send(writer, "DBSIZE");
        let heard = net.heard(writer);
        assert_eq!(heard[heard.len() - 4..], [round.to_string(), round.to_string(), round.to_string(), "3".into()]);
        for client in &clients {
            for key in &keys {
                assert_eq!(net.say(*client, &format!("GET {key}")), round.to_string());
            }
        }
    }
}

#[test]
fn watched_keys_of_several_nodes_break_a_block() {
    for workers in [1, 2] {
        let (mut net, [client, _, other], [a, b, c]) = Net::three(workers, 4);
        let (set_a, set_b) = (format!("SET {a} 1"), format!("SET {b} 2"));
        let watches = [&a, &b, &c].map(|key| format!("WATCH {key}"));
        // The watched keys are untouched, and are not watched any more afterwards.
        for _ in 0..2 {
            watches.iter().for_each(|watch| assert_eq!(net.say(client, watch), "OK"));
            assert_eq!(block(&mut net, client, &[&set_a, &set_b]), "[OK OK]");
            net.ask(other, &format!("INCR {a}"));
            net.ask(other, &format!("INCR {c}"));
            assert_eq!(block(&mut net, client, &[&set_a, &set_b]), "[OK OK]", "nothing is watched");
        }
        // A watched key was touched: here, at a node where the block works, and at one where it only watches; by a
        // plain command, or by a transaction.
        for (i, key) in [&a, &b, &c].into_iter().enumerate() {
            for commands in [
                vec![format!("INCRBY {key} 1")],
                vec![format!("INCR {key}"), format!("SET {} x", key_of((i + 1) % 3, 3, "x"))],
            ] {
                watches.iter().for_each(|watch| assert_eq!(net.say(client, watch), "OK"));
                let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
                block(&mut net, other, &commands);
                assert_eq!(block(&mut net, client, &[&set_a, &set_b]), "nil", "{key}");
                assert_ne!(net.say(other, &format!("GET {key}")), "nil");
            }
        }
        // One node works, others are watched.
        net.ask(client, &watches[2]);
        assert_eq!(block(&mut net, client, &[&set_a]), "[OK]");
        net.ask(client, &watches[2]);
        net.ask(other, &format!("DEL {c}"));
        assert_eq!(block(&mut net, client, &[&set_a]), "nil");
        // A lost watch counts as touched.
        net.ask(client, &watches[1]);
        net.cut(0, 1);
        net.run();
        assert_eq!(block(&mut net, client, &[&set_a, &set_b]), "nil");
        net.sleep(600);
        assert_eq!(block(&mut net, client, &[&set_a, &set_b]), "[OK OK]");
        // The client's own changes do not count.
        net.ask(client, &watches[0]);
        net.ask(client, &watches[1]);
        assert_eq!(block(&mut net, client, &[&set_a, &set_b]), "[OK OK]");
        // The watch is given up.
        net.ask(client, &watches[0]);
        net.ask(client, &watches[1]);
        net.ask(other, &set_b);
        net.ask(client, "UNWATCH");
        assert_eq!(block(&mut net, client, &[&set_a, &set_b]), "[OK OK]");
        assert!(net.is_quiet(), "nothing is left");
    }
}

#[test]
fn commands_that_work_on_each_key_alone_work_on_those_of_several_nodes() {
    for workers in [1, 2] {
        let mut net = Net::new(3, workers, 6);
        let (client, other) = (net.connect(0), net.connect(1));
        let keys: Vec<String> = (0..6).map(|i| key_of(i % 3, 3, &format!("k{i}"))).collect();
        let pairs: Vec<String> = keys.iter().enumerate().map(|(i, key)| format!("{key} {i}")).collect();
        assert_eq!(net.say(client, &format!("MSET {}", pairs.join(" "))), "OK");
        let all = keys.join(" ");
        for reader in [client, other] {
            assert_eq!(net.say(reader, &format!("MGET {all}")), "[0 1 2 3 4 5]");
            assert_eq!(net.say(reader, &format!("MGET {} {all} {0}", keys[4])), "[4 0 1 2 3 4 5 4]");
        }
        assert_eq!(net.say(client, &format!("EXISTS {all} {}", keys[0])), "7");
        assert_eq!(net.say(client, &format!("TOUCH {all} nothing")), "6");
        assert_eq!(net.say(other, &format!("DEL {} {} nothing", keys[0], keys[1])), "2");
        assert_eq!(net.say(other, &format!("MGET {all}")), "[nil nil 2 3 4 5]");
        // In a block, in a pipeline, and with an error.
        let (mget, unlink) = (format!("MGET {all}"), format!("UNLINK {all}"));
        assert_eq!(
            block(&mut net, client, &[&mget, &unlink, "PING", &mget]),
            "[[nil nil 2 3 4 5] 4 PONG [nil nil nil nil nil nil]]"
        );
        let replies = net.pipeline(
            client,
            &[&format!("MSET {}", pairs.join(" ")), &mget, &format!("GET {}", keys[5]), &unlink, &mget],
        );
        let replies: Vec<String> = replies.iter().map(shown).collect();
        assert_eq!(replies, ["OK", "[0 1 2 3 4 5]", "5", "6", "[nil nil nil nil nil nil]"]);
        let odd = net.say(client, &format!("MSET {} 1 {}", keys[0], keys[1]));
        assert!(odd.starts_with("-ERR"), "{odd}");
        // Watched keys stay watched.
        net.ask(client, &format!("WATCH {}", keys[1]));
        net.ask(client, &mget);
        net.ask(other, &format!("SET {} x", keys[1]));
        assert_eq!(block(&mut net, client, &[&format!("SET {} y", keys[1])]), "nil");
        assert!(net.is_quiet(), "nothing is left");
    }
}

#[test]
fn what_is_too_long_for_a_message_is_refused_as_a_whole() {
    let mut net = Net::new(2, 1, 6);
    let client = net.connect(0);
    let [a, b] = [0, 1].map(|i| key_of(i, 2, "k"));
    let text = "x".repeat(5_000_000);
    for key in [&a, &b] {
        assert_eq!(net.say(client, &format!("SET {key} {text}")), "OK");
    }
    assert_eq!(net.say(client, &format!("MGET {a} {b}")).len(), 2 * text.len() + 3);
    let long = net.say(client, &format!("MGET {a} {b} {b}"));
    assert_eq!(long, "-ERR the reply is too long for a transaction over nodes");
    let (append, get) = (format!("APPEND {a} y"), format!("GET {b}"));
    let reply = block(&mut net, client, &[&append, &get, &get]);
    assert_eq!(reply, long);
    assert_eq!(net.say(client, &format!("STRLEN {a}")), text.len().to_string());
    let long = net.say(client, &format!("MSET {a} {text} {b} {text} {b} {text}"));
    assert_eq!(long, "-ERR the block is too long for a transaction over nodes");
}

/// Rule T5: outcomes are kept as long as a node may ask, and no longer.
#[test]
fn outcomes_are_forgotten() {
    let mut net = Net::new(2, 1, 6);
    let client = net.connect(0);
    let [a, b] = [0, 1].map(|i| key_of(i, 2, "k"));
    let (one, other) = (format!("INCR {a}"), format!("INCR {b}"));
    for round in 1..1000 {
        assert_eq!(block(&mut net, client, &[&one, &other]), format!("[{round} {round}]"));
        if round % 50 == 0 {
            net.sleep(600);
        }
    }
    for node in 0..2 {
        assert!(net.node(node).engine.transactions.outcomes().len() < 300);
    }
}

#[test]
fn what_has_expired_is_gone_in_a_block() {
    let mut net = Net::new(2, 1, 6);
    let client = net.connect(0);
    let [a, b] = [0, 1].map(|i| key_of(i, 2, "k"));
    net.ask(client, &format!("HSET {a} f 1"));
    net.ask(client, &format!("HPEXPIRE {a} 10 FIELDS 1 f"));
    net.ask(client, &format!("SET {b} 1 PX 10"));
    net.clock_only(20);
    let (hget, get) = (format!("HGET {a} f"), format!("GET {b}"));
    assert_eq!(block(&mut net, client, &[&hget, &get]), "[nil nil]");
    assert_eq!(net.say(client, &format!("EXISTS {a} {b}")), "0");
}

/// An attempt of the first node.
pub fn tx_of(sequence: u64) -> TxnId {
    let life = Life { node: NodeId(1), incarnation: 1 };
    TxnId { origin: Origin { life, lane: 0 }, sequence, attempt: 1 }
}

/// Sends a message from the first node to the second that it would never send.
pub fn slip_in(net: &mut Net, message: &Message) {
    let me = tx_of(1).origin.life;
    let mut body = [me.node.0.to_le_bytes(), me.incarnation.to_le_bytes()].concat();
    message.encode(&mut body);
    net.slip_in_frame(0, 1, Kind::Transactions, &body);
    net.run();
}

/// Tells the second node, in the name of the first, to prepare this command.
pub fn slip_in_prepare(net: &mut Net, sequence: u64, locks: Vec<Lock>, command: &[&str]) {
    let tx = tx_of(sequence);
    let mut commands = b"\x01\x02\0\0\0".to_vec();
    commands.extend_from_slice(&(command.len() as u32).to_le_bytes());
    for word in command {
        commands.extend_from_slice(&(word.len() as u32).to_le_bytes());
        commands.extend_from_slice(word.as_bytes());
    }
    let prepare = Prepare {
        tx,
        stamp: Stamp { time: HybridTime(sequence), ..Stamp::default() },
        members: [Member::of(tx.origin.life), Member { id: ParticipantId(2), incarnation: 1 }].into(),
        locks: Lock::normalized(locks),
        commands: commands.into(),
        logged: true,
        patient: false,
        finished: 0,
        moment: UnixMs::NEVER,
    };
    slip_in(net, &Message::Prepare(prepare.into()));
}

/// A node checks the messages of others: no command runs without its locks, and none of them crashes the node.
#[test]
fn a_part_runs_under_its_locks_or_not_at_all() {
    let mut net = Net::new(2, 1, 2);
    let client = net.connect(0);
    let [a, b] = ["a", "b"].map(|name| key_of(1, 2, name));
    assert_eq!(net.say(client, &format!("SET {a} 1")), "OK");
    let lock = |db: u16, mode| Lock { db, key: a.as_bytes().into(), mode };
    let (reads, writes) = (vec![lock(0, Mode::Shared)], vec![lock(0, Mode::Exclusive)]);
    let pattern = format!("{{{a}}}w_*");
    let bad: [(&[Lock], &[&str]); 14] = [
        (&[], &["SET", &a, "2"]),
        (&[], &["GET", &b]),
        (&writes, &["SET", &b, "2"]),
        (&writes, &["MSET", &a, "2", &b, "2"]),
        (&[lock(1, Mode::Exclusive)], &["SET", &a, "2"]),
        (&reads, &["SET", &a, "2"]),
        (&writes, &["FLUSHALL"]),
        (&writes, &["SCAN", "0"]),
        (&writes, &["SORT", &a, "BY", "*"]),
        (&writes, &["SORT", &a, "BY", &pattern]),
        (&reads, &["SORT_RO", &a, "GET", &pattern]),
        (&writes, &["OBJECT"]),
        (&writes, &["OBJECT", "ENCODING", &b]),
        (&writes, &["EVAL", "return 1", "0"]),
    ];
    for (sequence, (locks, command)) in (1_000_000..).zip(bad) {
        slip_in_prepare(&mut net, sequence, locks.to_vec(), command);
        assert!(!net.node(1).engine.transactions.any(), "{command:?} is refused");
        assert_eq!(net.say(client, &format!("MGET {a} {b}")), "[1 nil]", "{command:?}");
    }
    // A database that does not exist.
    slip_in_prepare(
        &mut net,
        2_000_000,
        vec![lock(0, Mode::Exclusive), lock(9999, Mode::Exclusive)],
        &["SET", &a, "2"],
    );
    assert!(net.node(1).engine.transactions.any(), "it is prepared");
}
