//! Users belong to the cluster: its metadata have them, and every node judges by them.

use std::sync::Arc;

use membership::level;

use crate::leader::Librarian;
use crate::net::{Net, even_map, random};

const NO_KEY: &str = "-NOPERM No permissions to access a key";

/// Three nodes with metadata, a client of each, and a key of each.
fn three() -> (Net, Librarian, [usize; 3], [String; 3]) {
    let (net, clients, keys) = Net::three(1, 3);
    let librarian = net.keeps_libraries();
    (net, librarian, clients, keys)
}

/// Changes a user through a client.
fn set(net: &mut Net, client: usize, rules: &str) {
    let line = format!("acl setuser {rules}");
    let words: Vec<&str> = line.split(' ').collect();
    assert_eq!(net.arrange(client, &words), "OK", "{rules}");
}

/// A client of a node that is this user.
fn login(net: &mut Net, node: usize, user: &str) -> usize {
    let client = net.connect(node);
    assert_eq!(net.say(client, &format!("auth {user} pw")), "OK");
    client
}

#[test]
fn what_one_node_has_answered_holds_at_all() {
    let (mut net, _, admins, keys) = three();
    set(&mut net, admins[0], "bob on >pw +@all ~*");
    let bobs = [0, 1, 2].map(|node| login(&mut net, node, "bob"));
    for (bob, key) in bobs.iter().flat_map(|bob| keys.iter().map(move |key| (*bob, key))) {
        assert_eq!(net.say(bob, &format!("set {key} 1")), "OK");
    }
    set(&mut net, admins[1], "bob -get resetkeys ~other");
    for (bob, key) in bobs.iter().flat_map(|bob| keys.iter().map(move |key| (*bob, key))) {
        assert_eq!(net.say(bob, &format!("get {key}")), "-NOPERM User bob has no permissions to run the 'get' command");
        assert_eq!(net.say(bob, &format!("set {key} 2")), NO_KEY);
    }
    assert_eq!(net.say(admins[2], "acl users"), "[bob default]");
    let wrong = net.say(admins[2], "acl setuser bob +nosuch");
    assert!(wrong.contains("Error in ACL SETUSER modifier '+nosuch'"), "{wrong}");
    // Who asks that its own user be deleted is answered; all its clients are closed.
    set(&mut net, admins[2], "bob allkeys");
    assert_eq!(net.arrange(bobs[1], &["acl", "deluser", "bob", "nobody"]), "1");
    net.run();
    assert_eq!(bobs.map(|bob| net.clients[bob].closed), [true; 3]);
    for node in 0..3 {
        let client = net.connect(node);
        assert!(net.say(client, "auth bob pw").contains("WRONGPASS"));
    }
    assert_eq!(net.arrange(admins[0], &["acl", "deluser", "bob"]), "0");
}

#[test]
fn who_loses_a_channel_at_another_node_is_closed() {
    let (mut net, _, admins, _) = three();
    set(&mut net, admins[0], "bob on >pw +@all ~* &news &sport");
    let (lost, kept) = (login(&mut net, 1, "bob"), login(&mut net, 2, "bob"));
    net.say(lost, "subscribe news");
    net.say(kept, "subscribe sport");
    set(&mut net, admins[0], "bob resetchannels &sport");
    net.run();
    assert_eq!((net.clients[lost].closed, net.clients[kept].closed), (true, false));
}

#[test]
fn changes_need_a_lease_metadata_no_block_and_a_level() {
    let (mut net, librarian, [client, ..], _) = three();
    let ask = |net: &mut Net| net.arrange(client, &["acl", "setuser", "bob", "on"]);
    for words in ["multi", "acl setuser bob on", "exec"] {
        net.send(client, words);
    }
    let reply = net.heard(client).pop().unwrap();
    assert!(reply.contains("works on more than its keys"), "{reply}");
    net.lease(0, 0);
    assert!(ask(&mut net).starts_with("-CLUSTERDOWN this node has no lease"));
    net.lease(0, u64::MAX);
    let set_level = |net: &Net, version, level| {
        (0..3).for_each(|node| net.cluster(node).set_map(Arc::new(even_map(3, version).with_level(level))));
    };
    set_level(&net, 2, level::PRINCIPALS - 1);
    let reply = ask(&mut net);
    assert!(reply.contains("users need level 9 of the cluster, which has 8"), "{reply}");
    set_level(&net, 3, level::PRINCIPALS);
    librarian.fails("no majority");
    assert_eq!(ask(&mut net), "-ERR no majority");
    assert_eq!(net.say(client, "acl users"), "[default]");
}

#[test]
fn users_of_a_cluster_have_a_bound() {
    let (mut net, _, [client, ..], _) = three();
    let names: Vec<String> = (0..600).map(|i| format!("~{}{i}", "x".repeat(500))).collect();
    let words = |name: &'static str| ["acl", "setuser", name].into_iter().chain(names.iter().map(String::as_str));
    assert_eq!(net.arrange(client, &words("bob").collect::<Vec<_>>()), "OK");
    let reply = net.arrange(client, &words("eve").collect::<Vec<_>>());
    assert!(reply.contains("all users of a cluster may take 524288"), "{reply}");
    assert_eq!(net.say(client, "acl users"), "[bob default]");
}

#[test]
fn libraries_and_users_do_not_undo_each_other() {
    let (mut net, _, clients, _) = three();
    let code = "#!lua name=a\nredis.register_function('a', function() return 1 end)";
    set(&mut net, clients[0], "bob on >pw");
    assert_eq!(net.arrange(clients[1], &["function", "load", code]), "a");
    set(&mut net, clients[2], "eve on >pw");
    for client in clients {
        assert_eq!(net.say(client, "acl users"), "[bob default eve]");
        assert_eq!(net.say(client, "fcall a 0"), "1");
    }
}

/// The commands since BEGIN take effect at COMMIT: the user has to have the rights then.
#[test]
fn a_transaction_does_not_outlast_the_rights_of_its_user() {
    let (mut net, _, admins, keys) = three();
    for key in &keys {
        set(&mut net, admins[0], "bob reset on >pw +@all ~*");
        let bob = login(&mut net, 0, "bob");
        for (words, reply) in [("begin", "OK".to_owned()), (&*format!("set {key} 1"), "OK".to_owned())] {
            assert_eq!(net.say(bob, words), reply);
        }
        set(&mut net, admins[1], "eve on >pw +@all");
        assert_eq!(net.say(bob, "commit"), "OK", "others have changed");
        assert_eq!(net.say(bob, "begin"), "OK");
        assert_eq!(net.say(bob, &format!("set {key} 2")), "OK");
        set(&mut net, admins[1], "bob -set");
        let reply = net.say(bob, "commit");
        assert!(reply.starts_with("-ABORTED The transaction was rolled back: the client has another user"), "{reply}");
        assert_eq!(net.say(bob, "commit"), "-ERR COMMIT without BEGIN");
        assert_eq!(net.say(admins[2], &format!("get {key}")), "1");
    }
    // A user that logs in meanwhile makes nothing of another one's either.
    let client = net.connect(1);
    assert_eq!(net.say(client, "begin"), "OK");
    assert_eq!(net.say(client, &format!("set {} 3", keys[0])), "OK");
    assert_eq!(net.say(client, "auth bob pw"), "OK");
    assert!(net.say(client, "commit").starts_with("-ABORTED"));
}

/// An owner knows less than the node whose client asks.
#[test]
fn an_owner_waits_for_rights_of_which_it_has_not_heard() {
    let (mut net, librarian, admins, keys) = three();
    set(&mut net, admins[0], "bob on >pw +@all ~*");
    librarian.does_not_tell(&[1]);
    set(&mut net, admins[0], "eve on >pw +@all ~*");
    set(&mut net, admins[0], "bob resetkeys ~k* ~script");
    let (bob, eve) = (login(&mut net, 0, "bob"), login(&mut net, 0, "eve"));
    net.send(bob, &format!("set {} bob", keys[1]));
    net.send(eve, &format!("getset {} eve", keys[1]));
    net.run();
    assert!(net.replies(bob).is_empty() && net.replies(eve).is_empty(), "it does not know what they may do");
    librarian.does_not_tell(&[]);
    assert_eq!(net.heard(bob), ["OK"]);
    assert_eq!(net.heard(eve), ["bob"]);
    // It does not wait for ever.
    librarian.does_not_tell(&[1]);
    set(&mut net, admins[0], "bob -getset");
    net.send(bob, &format!("get {}", keys[1]));
    net.run();
    net.sleep(2_100);
    let late = net.heard(bob).join(",");
    assert!(late.starts_with("-CLUSTERDOWN this node has not heard yet"), "{late}");
    librarian.does_not_tell(&[]);
    assert_eq!(net.say(bob, &format!("get {}", keys[1])), "eve");
}

/// An owner knows more than the node whose client asks: what it knows counts.
#[test]
fn an_owner_judges_again_by_later_rights() {
    let (mut net, librarian, admins, keys) = three();
    let [a, b, c] = &keys;
    set(&mut net, admins[0], "bob on >pw +@all ~*");
    let bob = login(&mut net, 0, "bob");
    assert_eq!(net.say(bob, &format!("mset {a} 1 {b} 1 {c} 1")), "OK");
    librarian.does_not_tell(&[0]);
    set(&mut net, admins[1], &format!("bob resetkeys ~{a} ~{c} &none"));
    assert_eq!(net.say(bob, &format!("get {c}")), "1");
    // A command, a script, a block, parts of a command and of a block over nodes, and a script over nodes.
    assert_eq!(net.say(bob, &format!("get {b}")), NO_KEY);
    let script = net.say_words(bob, &["eval", &format!("return redis.call('get','{b}')"), "1", c]);
    assert!(script.contains("No permissions to access a key"), "{script}");
    assert!(net.say_words(bob, &["eval", "return redis.call('get', KEYS[1])", "1", b]).contains(NO_KEY));
    assert_eq!(net.say(bob, &format!("mset {a} 2 {b} 2 {c} 2")), NO_KEY);
    for words in ["multi".to_owned(), format!("set {a} 3"), format!("set {b} 3"), "exec".to_owned()] {
        net.send(bob, &words);
    }
    let block = net.heard(bob).pop().unwrap();
    assert!(block.contains("NOPERM"), "{block}");
    for words in ["multi".to_owned(), format!("set {b} 3"), "exec".to_owned()] {
        net.send(bob, &words);
    }
    let block = net.heard(bob).pop().unwrap();
    assert!(block.contains("NOPERM ACLs rules changed between the moment"), "{block}");
    assert_eq!(net.say(admins[2], &format!("mget {a} {b} {c}")), "[1 1 1]", "nothing of it was done");
    // A user that is gone there may nothing.
    assert_eq!(net.arrange(admins[1], &["acl", "deluser", "bob"]), "1");
    assert!(net.say(bob, &format!("get {c}")).contains("NOPERM User is deleted"));
}

/// What is not an argument is judged where it becomes known.
#[test]
fn keys_that_are_known_later_are_judged() {
    let (mut net, _, admins, keys) = three();
    let [a, b, c] = &keys;
    assert_eq!(net.say(admins[0], &format!("mset {a} 1 {b} 1 {c} 1")), "OK");
    let code = format!(
        "#!lua name=l\nredis.register_function{{function_name='peek', callback=function() return redis.call('get', '{b}') end, flags={{'no-writes'}}}}"
    );
    assert_eq!(net.arrange(admins[0], &["function", "load", &code]), "l");
    set(&mut net, admins[0], &format!("bob on >pw +@all ~{a} ~mine*"));
    for node in 0..3 {
        let bob = login(&mut net, node, "bob");
        let undeclared = format!("return redis.call('get', '{b}')");
        let after = format!("redis.call('set', '{a}', 9) return redis.call('get', '{c}')");
        for words in [
            &["eval", &undeclared, "0"][..],
            &["eval", &undeclared, "1", a],
            &["eval", &after, "0"],
            &["eval", &after, "1", a],
            &["fcall", "peek", "0"],
            &["fcall_ro", "peek", "1", a],
            &["sort", "mine", "by", "nosort", "get", b],
            &["sort", "mine", "by", "*x"],
            &["rename", a, b],
            &["mget", a, b],
            &["blpop", a, b, "0"],
            &["watch", a, c],
        ] {
            let reply = net.say_words(bob, words);
            let is_denied = ["No permissions", "insufficient ACL"].iter().any(|why| reply.contains(why));
            assert!(is_denied, "node {node}: {words:?}: {reply}");
        }
    }
    assert_eq!(net.say(admins[0], &format!("mget {b} {c}")), "[1 1]");
}

#[test]
fn commands_that_wait_for_keys_of_other_nodes_end_when_the_right_goes() {
    let (mut net, _, admins, keys) = three();
    let [a, b, _] = &keys;
    set(&mut net, admins[0], "bob on >pw +@all ~*");
    let bobs = [0, 0, 0].map(|node| login(&mut net, node, "bob"));
    net.send(bobs[0], &format!("blpop {b} 0"));
    net.send(bobs[1], &format!("blpop {a} {b} 0"));
    net.send(bobs[2], &format!("blpop {a} mine 0"));
    net.run();
    set(&mut net, admins[2], &format!("bob resetkeys ~{a} ~mine"));
    assert_eq!(net.heard(bobs[0]), [NO_KEY]);
    assert_eq!(net.heard(bobs[1]), [NO_KEY]);
    assert!(net.heard(bobs[2]).is_empty(), "it may wait on");
    assert_eq!(net.say(admins[1], &format!("rpush {b} x")), "1");
    assert_eq!(net.say(admins[1], &format!("llen {b}")), "1", "nobody has taken it");
    assert_eq!(net.say(admins[1], &format!("rpush {a} y")), "1");
    assert_eq!(net.heard(bobs[2]), [format!("[{a} y]")]);
}

/// What nodes say to each other to follow a session is no command of a client.
#[test]
fn sessions_are_followed_whatever_the_user_may() {
    let (mut net, _, admins, keys) = three();
    let [a, b, c] = &keys;
    set(&mut net, admins[0], "bob on >pw +get +mget +hello|x ~*");
    let client = net.connect(0);
    for words in ["hello 3", "select 1", "client no-touch on", "client tracking on", "auth bob pw"] {
        assert!(!net.say(client, words).starts_with('-'), "{words}");
    }
    assert_eq!(net.say(client, &format!("get {b}")), "nil");
    assert_eq!(net.say(client, &format!("mget {a} {b} {c}")), "[nil nil nil]");
    // BLPOP over nodes asks their owners with a command of DEBUG.
    set(&mut net, admins[0], "eve on >pw +blpop ~*");
    let eve = login(&mut net, 0, "eve");
    net.send(eve, &format!("blpop {a} {b} 0"));
    net.run();
    assert_eq!(net.say(admins[0], &format!("rpush {b} x")), "1");
    assert_eq!(net.heard(eve), [format!("[{b} x]")]);
    // Messages go from node to node though `default` may do nothing.
    set(&mut net, admins[0], "root on >pw +@all ~* &*");
    let (root, listener) = (login(&mut net, 0, "root"), login(&mut net, 1, "root"));
    set(&mut net, root, "default off -@all resetkeys resetchannels");
    net.say(listener, "subscribe news");
    assert_eq!(net.say(root, "publish news x"), "1");
    assert_eq!(net.heard(listener), ["[message news x]"]);
    assert!(net.say(admins[1], &format!("get {a}")).contains("NOPERM"));
    let stranger = net.connect(2);
    assert_eq!(net.say(stranger, "ping"), "-NOAUTH Authentication required.");
}

/// A client becomes another user when nothing is owed to it: no command is judged by the rights of another one.
#[test]
fn a_client_becomes_another_user_between_commands() {
    let (mut net, _, admins, keys) = three();
    let [_, b, c] = &keys;
    set(&mut net, admins[0], "bob on >pw +@all ~*");
    set(&mut net, admins[0], "eve on >pw +@all -get ~*");
    let client = net.connect(0);
    let (get, set) = (format!("get {b}"), format!("set {b} 1"));
    let watch = format!("watch {b} {c}");
    let commands = [
        "auth bob pw",
        &set,
        &get,
        &watch,
        "unwatch",
        "auth eve pw",
        &set,
        &get,
        &watch,
        "reset",
        &get,
        "auth bob pw",
        &get,
    ];
    for seed in 0..20 {
        net.crumbles = seed % 2 == 1;
        let replies: Vec<String> = net.pipeline(client, &commands).iter().map(crate::net::shown).collect();
        let denied = "-NOPERM User eve has no permissions to run the 'get' command";
        let expected = ["OK", "OK", "1", "OK", "OK", "OK", "OK", denied, "OK", "RESET", "1", "OK", "1"];
        assert_eq!(replies, expected, "{seed}");
    }
}

#[test]
fn smart_clients_have_users_as_well() {
    let (mut net, _, admins, keys) = three();
    set(&mut net, admins[0], &format!("bob on >pw +@all ~{}", keys[1]));
    let bob = net.connect_smart(0);
    assert_eq!(net.say(bob, "auth bob pw"), "OK");
    assert_eq!(net.say(bob, &format!("get {}", keys[0])), NO_KEY);
    assert!(net.say(bob, &format!("get {}", keys[1])).starts_with("-MOVED"), "to where it may");
    // They ask each node, and mean the same.
    let smart = [0, 1, 2].map(|node| net.connect_smart(node));
    for client in smart {
        set(&mut net, client, "eve on >pw ~a");
    }
    assert_eq!(smart.map(|client| net.arrange(client, &["acl", "deluser", "eve"])), ["1", "0", "0"]);
}

#[test]
fn requirepass_is_the_password_of_default_at_all_nodes() {
    let (mut net, _, admins, _) = three();
    set(&mut net, admins[0], "default >more");
    let lets_in = |net: &mut Net, password: &str| {
        [0, 1, 2].map(|node| {
            let client = net.connect(node);
            net.say(client, &format!("auth default {password}")) == "OK"
        })
    };
    assert_eq!(lets_in(&mut net, "more"), [true; 3]);
    for (password, other) in [("a", "more"), ("b", "a"), ("a", "more")] {
        assert_eq!(net.arrange(admins[1], &["config", "set", "requirepass", password]), "OK");
        assert_eq!(lets_in(&mut net, password), [true; 3], "{password}");
        assert_eq!(lets_in(&mut net, other), [false; 3], "{password}: it is the only one");
    }
    // A change of users made elsewhere keeps it, and may add to it.
    set(&mut net, admins[2], "default >c");
    assert_eq!((lets_in(&mut net, "a"), lets_in(&mut net, "c")), ([true; 3], [true; 3]));
    assert_eq!(net.arrange(admins[1], &["config", "set", "requirepass", ""]), "OK");
    let client = net.connect(2);
    assert_eq!(net.say(client, "ping"), "PONG");
}

/// Keys whose names begin so, of different nodes.
fn names(of: &str) -> Vec<String> {
    (0..3).map(|node| crate::net::key_of(node, 3, of)).collect()
}

/// Random rights and commands against a model of both, at random nodes.
#[test]
fn random_commands_are_denied_as_a_model_denies_them() {
    let (mut net, _, admins, _) = three();
    let pools: Vec<(char, Vec<String>)> = ['a', 'b'].map(|c| (c, names(&c.to_string()))).into();
    set(&mut net, admins[0], "bob on >pw");
    let bobs = [0, 1, 2].map(|node| login(&mut net, node, "bob"));
    let mut chance = random(7);
    let (mut allowed, mut denied) = (0, 0);
    for round in 0..60 {
        // What it may read and write of each pool, and whether it may call each command.
        let rights: Vec<(bool, bool)> = pools.iter().map(|_| (chance(3) > 0, chance(2) > 0)).collect();
        let reads = chance(4) > 0;
        let mut rules = "bob resetkeys -@all +eval +multi +exec +select +sort +mget +set +mset +copy +rpush".to_owned();
        for ((name, _), (read, write)) in pools.iter().zip(&rights) {
            match (read, write) {
                (true, true) => rules.push_str(&format!(" ~{name}:*")),
                (true, false) => rules.push_str(&format!(" %R~{name}:*")),
                (false, true) => rules.push_str(&format!(" %W~{name}:*")),
                (false, false) => {}
            }
        }
        if reads {
            rules.push_str(" +get");
        }
        set(&mut net, admins[round % 3], &rules);
        for step in 0..12 {
            let key = |chance: &mut dyn FnMut(usize) -> usize| {
                let pool = chance(2);
                (rights[pool], pools[pool].1[chance(3)].clone())
            };
            let ((r1, k1), (r2, k2)) = (key(&mut chance), key(&mut chance));
            let (words, may): (Vec<String>, bool) = match chance(7) {
                0 => (vec!["get".into(), k1], reads && r1.0),
                1 => (vec!["set".into(), k1, "1".into()], r1.1),
                2 => (vec!["mget".into(), k1, k2], r1.0 && r2.0),
                3 => (vec!["mset".into(), k1, "1".into(), k2, "1".into()], r1.1 && r2.1),
                4 => (vec!["copy".into(), k1, k2, "replace".into()], r1.0 && r2.1),
                5 => {
                    let code = format!("redis.call('set', KEYS[1], 1) return redis.call('get', '{k2}')");
                    // Declared keys of EVAL are read and written.
                    (vec!["eval".into(), code, "1".into(), k1], r1.0 && r1.1 && r2.0 && reads)
                }
                _ => {
                    let code = format!("return redis.call('get', '{k2}')");
                    (vec!["eval".into(), code, "0".into()], r2.0 && reads)
                }
            };
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let reply = net.say_words(bobs[chance(3)], &words);
            let is_denied = reply.contains("NOPERM") || reply.contains("ACL failure in script");
            assert_eq!(is_denied, !may, "{round}.{step}: {rules}: {words:?}: {reply}");
            (allowed, denied) = (allowed + usize::from(may), denied + usize::from(!may));
        }
    }
    assert!(allowed > 100 && denied > 100, "{allowed} {denied}");
}
