//! Questions of blocks and scripts to all nodes: the receivers of a message, and the keys that exist.

use resp::Value;

use crate::net::{Net, key_of};

/// Makes keys of each node.
fn fill(net: &mut Net, client: usize, each: usize) {
    for node in 0..3 {
        for i in 0..each {
            assert_eq!(net.say(client, &format!("SET {} v", key_of(node, 3, &format!("fill{i}")))), "OK");
        }
    }
}

/// The replies of a block.
fn block(net: &mut Net, client: usize, commands: &[String]) -> Vec<Value> {
    assert_eq!(net.say(client, "MULTI"), "OK");
    for command in commands {
        assert_eq!(net.say(client, command), "QUEUED", "{command}");
    }
    match net.ask(client, "EXEC") {
        Value::Array(replies) => replies,
        other => panic!("{other:?}"),
    }
}

fn count(value: &Value) -> usize {
    match value {
        Value::Array(elements) => elements.len(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_message_of_a_block_or_script_counts_the_subscribers_of_all_nodes() {
    for (workers, seed) in [(1, 2), (2, 3)] {
        let mut net = Net::new(3, workers, seed);
        let subscribers = [0, 1, 2].map(|node| net.connect(node));
        for subscriber in subscribers {
            net.ask(subscriber, "SUBSCRIBE news");
        }
        net.ask(subscribers[2], "PSUBSCRIBE n*");
        net.ask(subscribers[1], "SSUBSCRIBE shard");
        let client = net.connect(0);
        let [near, far] = [0, 1].map(|node| key_of(node, 3, "k"));
        let publish = || "PUBLISH news hello".to_owned();
        let incr = |key: &str| format!("INCR {key}");
        // Here, at another node, and over nodes.
        for keys in [vec![], vec![&near], vec![&far], vec![&near, &far]] {
            let commands: Vec<String> = keys.iter().map(|key| incr(key)).chain([publish(), publish()]).collect();
            let replies = block(&mut net, client, &commands);
            assert_eq!(replies[keys.len()..], [Value::Integer(4), Value::Integer(4)], "{keys:?}");
        }
        let script =
            "redis.call('incr',KEYS[1])return{redis.call('publish','news','hello'),redis.call('spublish','shard','x')}";
        for keys in [format!("1 {near}"), format!("1 {far}"), format!("2 {near} {far}")] {
            assert_eq!(net.say(client, &format!("EVAL {script} {keys}")), "[4 1]", "{keys}");
        }
        let block_of_script = [incr(&near), format!("EVAL {script} 1 {near}"), format!("EVAL {script} 1 {near}")];
        assert_eq!(block(&mut net, client, &block_of_script).len(), 3);
        // The script was undone while nodes were asked, and done once.
        assert_eq!(net.say(client, &format!("MGET {near} {far}")), "[7 3]");
        net.sleep(5);
        for subscriber in subscribers {
            let heard = net.heard(subscriber);
            let news = heard.iter().filter(|message| message.starts_with("[message news hello")).count();
            assert_eq!(news, 8 + 3 + 2, "{heard:?}");
        }
        assert_eq!(net.say(client, "EVAL return(redis.call('publish','elsewhere','hello')) 0"), "0");
    }
}

#[test]
fn blocks_and_scripts_see_the_keys_of_all_nodes() {
    for (workers, seed) in [(1, 2), (2, 3)] {
        let mut net = Net::new(3, workers, seed);
        let client = net.connect(0);
        fill(&mut net, client, 4);
        let [near, far] = [0, 1].map(|node| key_of(node, 3, "fill0"));
        for keys in [vec![], vec![&near], vec![&far], vec![&near, &far]] {
            let reads = keys.iter().map(|key| format!("GET {key}"));
            let asks = ["DBSIZE", "KEYS *", "RANDOMKEY", "SELECT 1", "DBSIZE"].map(str::to_owned);
            let replies = block(&mut net, client, &reads.chain(asks).collect::<Vec<_>>());
            let [size, all, any, _, other] = &replies[keys.len()..] else { panic!("{replies:?}") };
            assert_eq!((size, count(all), other), (&Value::Integer(12), 12, &Value::Integer(0)), "{keys:?}");
            assert!(matches!(any, Value::Bulk(key) if !key.is_empty()), "{any:?}");
            assert_eq!(net.say(client, "SELECT 0"), "OK");
        }
        // A block of one node sees its own changes.
        let commands =
            [format!("SET {{{near}}}new v"), "DBSIZE".to_owned(), format!("DEL {{{near}}}new"), "DBSIZE".to_owned()];
        let replies = block(&mut net, client, &commands);
        assert_eq!([&replies[1], &replies[3]], [&Value::Integer(13), &Value::Integer(12)]);
        assert_eq!(net.say(client, "EVAL return(redis.call('dbsize')) 0"), "12");
        let script = "redis.call('set',KEYS[1],1)local\tn=redis.call('dbsize')redis.call('del',KEYS[1])return{n,redis.call('dbsize')}";
        for key in [&near, &far] {
            assert_eq!(net.say(client, &format!("EVAL {script} 1 {{{key}}}new")), "[13 12]");
        }
        assert_eq!(net.say(client, &format!("EVAL return(#redis.call('keys','*')) 1 {near}")), "12");
        assert_eq!(net.say(client, &format!("EVAL return(#redis.call('keys','*')) 1 {far}")), "12");
        let scan = "local\tn,c=0,'0'\trepeat\tlocal\tr=redis.call('scan',c,'count','3')\tn=n+#r[2]\tc=r[1]\tuntil\tc=='0'\treturn\tn";
        for at in [net.connect(0), net.connect(2)] {
            assert_eq!(net.say(at, &format!("EVAL {scan} 0")), "12", "each key once");
        }
        // A script with keys of several nodes is undone, too, gives its locks back while nodes are asked, and is done
        // once.
        let script = "redis.call('incr',KEYS[1])redis.call('incr',KEYS[2])local\tn=redis.call('dbsize')return{n,redis.call('get',KEYS[1]),#redis.call('keys','*')}";
        let [one, two] = [&near, &far].map(|key| format!("{{{key}}}several"));
        assert_eq!(net.say(client, &format!("EVAL {script} 2 {one} {two}")), "[14 1 12]");
        assert_eq!(net.say(client, &format!("EVAL {script} 2 {one} {two}")), "[14 2 14]");
        let scan = scan.replacen("local\tn", "redis.call('incr',KEYS[1])redis.call('incr',KEYS[2])local\tn", 1);
        assert_eq!(net.say(client, &format!("EVAL {scan} 2 {one} {two}")), "14");
        assert_eq!(net.say(client, &format!("MGET {one} {two}")), "[3 3]");
        assert_eq!(net.say(client, &format!("DEL {one} {two}")), "2");
        assert!(net.is_quiet(), "nothing is left");
        // Each command asks again.
        let script = format!("EVAL return(redis.call('publish','ch','x')) 2 {one} {two}");
        assert_eq!(net.say(client, &script), "0");
        let subscriber = net.connect(2);
        net.ask(subscriber, "SUBSCRIBE ch");
        assert_eq!(net.say(client, &script), "1");
        let smart = net.connect_smart(0);
        assert_eq!(net.say(smart, "EVAL return(redis.call('dbsize')) 0"), "4");
        assert_eq!(block(&mut net, smart, &["DBSIZE".to_owned()]), [Value::Integer(4)]);
    }
}

#[test]
fn what_flushes_all_nodes_is_refused_before_anything_has_run() {
    let mut net = Net::new(3, 1, 2);
    let client = net.connect(0);
    fill(&mut net, client, 2);
    let key = key_of(1, 3, "new");
    for flush in ["FLUSHALL", "FLUSHDB"] {
        for command in ["MULTI", &format!("SET {key} v"), flush] {
            net.ask(client, command);
        }
        assert!(net.say(client, "EXEC").starts_with("-EXECABORT"));
        assert!(net.say(client, &format!("EVAL return(redis.call('{flush}')) 0")).starts_with('-'));
        assert_eq!(net.say(client, "DBSIZE"), "6");
    }
}

/// At any place, DBSIZE in a script counts the keys that the script has added and removed, declared or not.
#[test]
fn a_script_counts_its_own_keys() {
    let counts = "local all = {}
        for i, key in ipairs(ARGV) do
            if i == 2 and redis.call('dbsize') < 0 then return nil end
            all[i] = redis.call('set', key, 1) and redis.call('dbsize')
        end
        for i, key in ipairs(ARGV) do redis.call('del', key) all[#all + 1] = redis.call('dbsize') end
        return all";
    let deletes = "redis.call('del', unpack(ARGV)) return redis.call('dbsize')";
    for (workers, seed) in [(1, 2), (2, 3)] {
        let mut net = Net::new(3, workers, seed);
        let client = net.connect(0);
        let [a, b, c] = [0, 1, 2].map(|node| key_of(node, 3, "k"));
        let of_one = |key: &str| [0, 1].map(|i| format!("{{{key}}}{i}"));
        // The databases of the keys may be swapped, too.
        for swapped in [false, true] {
            if swapped {
                assert_eq!(net.say(client, "SWAPDB 0 1"), "OK");
            }
            for keys in [of_one(&a), of_one(&b), [a.clone(), b.clone()], [b.clone(), c.clone()]] {
                let [one, two] = &keys;
                let commands = [format!("SET {one} 1"), format!("SET {two} 1"), "DBSIZE".to_owned()];
                let replies = block(
                    &mut net,
                    client,
                    &[&commands[..], &[format!("DEL {one} {two}"), "DBSIZE".to_owned()]].concat(),
                );
                let sizes = [2, 2, 0].map(Value::Integer);
                assert_eq!(replies[2..], sizes, "{keys:?}, swapped: {swapped}");
                for declared in 0..3 {
                    let words = |script| -> Vec<String> {
                        let declared = keys[..declared].iter();
                        let head = ["EVAL", script].map(str::to_owned).into_iter().chain([declared.len().to_string()]);
                        head.chain(declared.cloned()).chain(keys.iter().cloned()).collect()
                    };
                    let mut say = |words: Vec<String>| {
                        net.say_words(client, &words.iter().map(String::as_str).collect::<Vec<_>>())
                    };
                    let of = format!("{keys:?}, {declared} declared, swapped: {swapped}");
                    assert_eq!(say(words(counts)), "[1 2 1 0]", "{of}");
                    say([&["MSET".to_owned()], &[&keys[0], "1", &keys[1], "1"].map(str::to_owned)[..]].concat());
                    assert_eq!(say(words(deletes)), "0", "{of}");
                    let block = [&words(counts)[..], &words(deletes)[..]];
                    say(vec!["MULTI".to_owned()]);
                    block.iter().for_each(|words| drop(say(words.to_vec())));
                    assert_eq!(say(vec!["EXEC".to_owned()]), "[[1 2 1 0] 0]", "{of}");
                }
            }
        }
        assert!(net.is_quiet(), "nothing is left");
    }
}
