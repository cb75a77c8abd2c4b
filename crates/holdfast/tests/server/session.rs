//! Sessions and introspection, with real clients: HELLO, CLIENT, COMMAND, INFO, SLOWLOG, MONITOR, DEBUG.

use crate::support::{Client, Server};
use std::time::{Duration, Instant};

/// The value of a field in INFO or CLIENT LIST: `name:value` or `name=value`.
fn field(text: &str, name: &str) -> String {
    let named = |word: &&str| word.strip_prefix(name).is_some_and(|rest| rest.starts_with([':', '=']));
    let word = text.split(' ').find(named).unwrap_or_else(|| panic!("no {name} in {text}"));
    word[name.len() + 1..].to_string()
}

fn id(client: &mut Client) -> String {
    client.call("client id").trim_start_matches(':').to_string()
}

#[test]
fn passwords_open_the_door() {
    let server = Server::start(&["--workers", "2", "--requirepass", "secret"]);
    let mut client = server.client();
    assert_eq!(client.call("get x"), "-NOAUTH Authentication required.");
    assert!(client.call("hello 3").starts_with("-NOAUTH HELLO must be called with the client already authenticated"));
    assert_eq!(client.call("auth wrong"), "-WRONGPASS invalid username-password pair or user is disabled.");
    assert_eq!(client.call("hello 4"), "-NOPROTO unsupported protocol version");
    let hello = client.call("hello 3 auth default secret setname me");
    assert!(hello.starts_with("%7 $6 server $5 redis $7 version "), "{hello}");
    assert!(hello.contains("$5 proto :3 ") && hello.ends_with("$4 role $6 master $7 modules *0"), "{hello}");
    assert_eq!(client.call("client getname"), "$2 me");
    assert_eq!(client.call("reset"), "+RESET");
    assert_eq!(client.call("client getname"), "-NOAUTH Authentication required.");
    // Commands behind AUTH in the same packet have the rights that AUTH has given.
    client.send("auth secret;set k v;get k");
    assert_eq!([client.reply(), client.reply(), client.reply()], ["+OK", "+OK", "$1 v"]);
    let info = client.call("info stats errorstats");
    assert_eq!(field(&info, "acl_access_denied_auth"), "1");
    assert_eq!(field(&info, "errorstat_NOAUTH"), "count=3");
    assert_eq!(field(&info, "errorstat_WRONGPASS"), "count=1");
}

#[test]
fn reset_leaves_nothing_behind() {
    let server = Server::start(&["--workers", "1"]);
    let mut client = server.client();
    client
        .send("hello 3;select 5;client setname n;client setinfo lib-name lib;client no-touch on;watch k;multi;set k 1");
    (0..8).for_each(|_| drop(client.reply()));
    assert_eq!(client.call("reset"), "+RESET");
    let line = client.call("client info");
    for (name, value) in
        [("name", ""), ("db", "0"), ("flags", "N"), ("multi", "-1"), ("watch", "0"), ("resp", "2"), ("lib-name", "lib")]
    {
        assert_eq!(field(&line, name), value, "{name} in {line}");
    }
    assert_eq!(client.call("exec"), "-ERR EXEC without MULTI");
}

#[test]
fn clients_are_listed_and_killed() {
    let server = Server::start(&["--workers", "2"]);
    let (mut a, mut b, mut c) = (server.client(), server.client(), server.client());
    let ids = [id(&mut a), id(&mut b), id(&mut c)];
    assert_eq!(b.call("client setname bee"), "+OK");
    b.send("multi;get x");
    assert_eq!([b.reply(), b.reply()], ["+OK", "+QUEUED"]);
    let list = a.call("client list");
    assert_eq!(list.matches("id=").count(), 3, "{list}");
    let one = a.call(&format!("client list id {} 999", ids[1]));
    assert_eq!(field(&one, "name"), "bee");
    assert_eq!((field(&one, "flags"), field(&one, "multi")), ("x".into(), "1".into()));
    assert_eq!(a.call("client list type pubsub"), "$0");
    assert_eq!(a.call("client list type normal other"), "-ERR syntax error");
    assert_eq!(a.call("client setname a%20b"), "+OK");

    assert_eq!(a.call(&format!("client kill id {}", ids[1])), ":1");
    assert!(b.is_closed());
    assert_eq!(a.call("client kill user nobody"), "-ERR No such user 'nobody'");
    assert_eq!(a.call("client kill 1.2.3.4:5"), "-ERR No such client");
    assert_eq!(a.call("client kill maxage 1000"), ":0");
    assert_eq!(a.call("client kill skipme no"), ":2", "the reply comes before the end");
    assert!(a.is_closed() && c.is_closed());
    let mut d = server.client();
    let end = Instant::now() + Duration::from_secs(60);
    while field(&d.call("info clients"), "connected_clients") != "1" {
        assert!(Instant::now() < end, "{}", d.call("client list"));
    }
}

#[test]
fn replies_can_be_left_out() {
    let server = Server::start(&["--workers", "1"]);
    let mut client = server.client();
    client.send("client reply skip;ping 1;ping 2");
    assert_eq!(client.reply(), "$1 2");
    client.send("client reply off;ping;foo;multi;ping;exec;client reply on;ping");
    assert_eq!([client.reply(), client.reply()], ["+OK", "+PONG"]);
}

#[test]
fn blocked_clients_are_unblocked() {
    let server = Server::start(&["--workers", "2"]);
    let (mut admin, mut waiter) = (server.client(), server.client());
    let target = id(&mut waiter);
    assert_eq!(admin.call(&format!("client unblock {target}")), ":0");
    waiter.send("blpop none 0");
    server.blocked_clients(1);
    assert_eq!(admin.call(&format!("client unblock {target} error")), ":1");
    assert_eq!(waiter.reply(), "-UNBLOCKED client unblocked via CLIENT UNBLOCK");
    waiter.send("blmove none other left right 0");
    server.blocked_clients(1);
    assert_eq!(admin.call(&format!("client unblock {target}")), ":1");
    assert_eq!(waiter.reply(), "*-1");
    assert_eq!(admin.call("client unblock 1 now"), "-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
    let stats = admin.call("info commandstats");
    assert!(field(&stats, "cmdstat_blpop").contains("calls=1,") && stats.contains("failed_calls=1"), "{stats}");
}

#[test]
fn a_pause_holds_commands_back() {
    let server = Server::start(&["--workers", "2"]);
    let (mut admin, mut writer, mut reader) = (server.client(), server.client(), server.client());
    assert_eq!(admin.call("client pause 60000 write"), "+OK");
    writer.send("set k v;get k");
    writer.waits();
    assert_eq!(reader.call("get k"), "$-1");
    reader.send("multi;get k;exec");
    assert_eq!([reader.reply(), reader.reply(), reader.reply()], ["+OK", "+QUEUED", "*1 $-1"]);
    assert_eq!(admin.call("client unpause"), "+OK");
    assert_eq!([writer.reply(), writer.reply()], ["+OK", "$1 v"]);

    let begun = Instant::now();
    assert_eq!(admin.call("client pause 200"), "+OK");
    assert_eq!(reader.call("get k"), "$1 v");
    assert!(begun.elapsed() >= Duration::from_millis(200));
    assert_eq!(admin.call("client pause -1"), "-ERR timeout is negative");
}

#[test]
fn commands_describe_themselves() {
    let server = Server::start(&["--workers", "1"]);
    let mut client = server.client();
    let count = client.call("command count");
    assert!(client.call("command").starts_with(&format!("*{} ", &count[1..])));
    assert_eq!(
        client.call("command info get nothing"),
        "*2 *10 $3 get :2 *2 +readonly +fast :1 :1 :1 *3 +@read +@string +@fast *0 *1 *6 $5 flags *2 +RO +access \
         $12 begin_search *4 $4 type $5 index $4 spec *2 $5 index :1 $9 find_keys *4 $4 type $5 range $4 spec *6 \
         $7 lastkey :0 $7 keystep :1 $5 limit :0 *0 $-1"
    );
    assert_eq!(client.call("command getkeys mset a 1 b 2"), "*2 $1 a $1 b");
    assert_eq!(
        client.call("command getkeysandflags lmove a b left left"),
        "*2 *2 $1 a *3 +RW +access +delete *2 $1 b *2 +RW +insert"
    );
    assert_eq!(client.call("command getkeys ping"), "-ERR The command has no key arguments");
    assert_eq!(client.call("command getkeys ssubscribe a"), "-ERR The command has no key arguments");
    assert_eq!(client.call("command getkeys get"), "-ERR Invalid number of arguments specified for command");
    assert_eq!(client.call("command getkeys nothing a"), "-ERR Invalid command specified");
    assert_eq!(client.call("command list filterby pattern mset*"), "*3 $4 mset $6 msetnx $6 msetex");
    assert!(client.call("command docs getdel").contains("$9 arguments *1 *8 $4 name $3 key $4 type $3 key"));
    assert_eq!(client.call("command nothing"), "-ERR unknown subcommand 'nothing'. Try COMMAND HELP.");
    let wrong = "-ERR unknown subcommand or wrong number of arguments for";
    assert_eq!(client.call("pubsub CHANNELS a b"), format!("{wrong} 'CHANNELS'. Try PUBSUB HELP."));
    assert_eq!(client.call("function Flush sync x"), format!("{wrong} 'Flush'. Try FUNCTION HELP."));
    // Redis's sets are sets, and its internal flags are kept back.
    client.call("hello 3");
    let eval = client.call("command info eval");
    assert!(
        eval.starts_with(
            "*1 *10 $4 eval :-3 ~6 +noscript +stale +skip_monitor +no_mandatory_keys +movablekeys +script_runner"
        ),
        "{eval}"
    );
    assert!(eval.contains("~2 +@slow +@scripting ~0 ~1 ") && eval.ends_with(" ~0"), "{eval}");
    client.call("hello 2");
    assert_eq!(client.call("config|get x"), "-ERR unknown command 'config|get', with args beginning with: 'x'");
    assert_eq!(client.call("client kill"), "-ERR wrong number of arguments for 'client|kill' command");
    assert!(
        client.call("migrate h 1 k 0 1").starts_with("-ERR 'migrate' is not supported by this version of Holdfast")
    );
}

#[test]
fn counts_are_kept_by_command_and_error() {
    let server = Server::start(&["--workers", "2"]);
    let mut client = server.client();
    client.send("set s x;set s x;get s;incr s;lpush s x;get;multi;incr s;get s s;exec");
    let replies: Vec<String> = (0..10).map(|_| client.reply()).collect();
    assert!(replies[9].starts_with("-EXECABORT"), "{replies:?}");
    client.send("multi;incr s;set n 1;exec");
    (0..4).for_each(|_| drop(client.reply()));
    let info = client.call("info everything");
    let stat = |name: &str| {
        let text = field(&info, &format!("cmdstat_{name}"));
        let parts: Vec<_> = text.split(',').map(|part| part.split_once('=').unwrap()).collect();
        let get = |name: &str| parts.iter().find(|(key, _)| *key == name).unwrap().1.parse::<u64>().unwrap();
        (get("calls"), get("rejected_calls"), get("failed_calls"))
    };
    assert_eq!(stat("set"), (3, 0, 0));
    assert_eq!(stat("get"), (1, 2, 0));
    assert_eq!(stat("incr"), (2, 0, 2));
    assert_eq!(stat("lpush"), (1, 0, 1));
    assert_eq!(stat("exec"), (2, 0, 1));
    assert_eq!(field(&info, "errorstat_WRONGTYPE"), "count=1");
    assert_eq!(field(&info, "errorstat_ERR"), "count=4");
    assert_eq!(field(&info, "errorstat_EXECABORT"), "count=1");
    assert_eq!(field(&info, "total_error_replies"), "6");
    assert_eq!(field(&info, "db0"), "keys=2,expires=0,avg_ttl=0,subexpiry=0,keys_with_volatile_items=0");
    assert!(field(&info, "latency_percentiles_usec_set").starts_with("p50="));
    assert_eq!(client.call("config resetstat"), "+OK");
    let info = client.call("info commandstats errorstats");
    assert!(!info.contains("cmdstat_set") && !info.contains("errorstat"), "{info}");
    assert!(client.call("latency histogram nothing config").starts_with("*2 $16 config|resetstat *4 $5 calls :1"));
}

#[test]
fn slow_commands_are_logged() {
    let server = Server::start(&["--workers", "2", "--slowlog-log-slower-than", "0", "--slowlog-max-len", "3"]);
    let mut client = server.client();
    assert_eq!(client.call("client setname me"), "+OK");
    assert_eq!(client.call(&format!("set k {}", "x".repeat(200))), "+OK");
    assert_eq!(client.call(&format!("mset{}", " a b".repeat(20))), "+OK");
    client.call("auth default secret");
    assert_eq!(client.call("slowlog len"), ":3");
    let log = client.call("slowlog get -1");
    assert!(log.contains("*2 $7 slowlog $3 len") && log.contains("*3 $4 auth $10 (redacted) $10 (redacted)"), "{log}");
    assert!(log.contains("$23 ... (10 more arguments)") && log.contains("$2 me"), "{log}");
    assert_eq!(client.call("slowlog reset"), "+OK");
    assert_eq!(client.call("slowlog get x"), "-ERR count should be greater than or equal to -1");
    assert_eq!(client.call("slowlog get -2"), "-ERR count should be greater than or equal to -1");
    assert_eq!(client.call("config set slowlog-log-slower-than -1"), "+OK");
    client.call("slowlog reset");
    client.call("ping");
    assert_eq!(client.call("slowlog len"), ":0");
}

#[test]
fn monitors_see_what_runs() {
    let server = Server::start(&["--workers", "2"]);
    let (mut monitor, mut client) = (server.client(), server.client());
    assert_eq!(monitor.call("monitor"), "+OK");
    client.send("select 3;multi;set k v;get k;exec;config get port;auth a b;lpush k 1");
    (0..8).for_each(|_| drop(client.reply()));
    let mut seen: Vec<String> = (0..7).map(|_| monitor.reply()).collect();
    seen.iter_mut().for_each(|line| *line = line[line.find('[').unwrap() + 1..].to_string());
    let words: Vec<_> = seen.iter().map(|line| line.split_once("] ").unwrap().1).collect();
    assert_eq!(
        words,
        [
            r#""select" "3""#,
            r#""multi""#,
            r#""set" "k" "v""#,
            r#""get" "k""#,
            r#""exec""#,
            r#""auth" "(redacted)" "(redacted)""#,
            r#""lpush" "k" "1""#,
        ]
    );
    assert!(seen[0].starts_with("0 127.0.0.1:") && seen[1].starts_with("3 127.0.0.1:"));
    let list = client.call("client list");
    assert!(list.contains("flags=O "), "{list}");
    let mut other = server.client();
    other.call("monitor");
    assert_eq!(other.call("get k"), "-ERR Replica can't interact with the keyspace");
    assert_eq!(monitor.call("reset"), "+RESET");
    assert_eq!(monitor.call("exists k"), ":0");
    assert_eq!(client.call("ping"), "+PONG");
    monitor.waits();
}

#[test]
fn debug_needs_permission_and_sleep_stops_everything() {
    let closed = Server::start(&["--workers", "1"]);
    for line in ["debug sleep 0", "debug nothing"] {
        let reply = closed.client().call(line);
        assert!(reply.starts_with("-ERR DEBUG command not allowed. If the enable-debug-command"), "{reply}");
    }

    let server = Server::start(&["--workers", "2", "--enable-debug-command", "local"]);
    let (mut sleeper, mut other) = (server.client(), server.client());
    // On a busy machine the sleep may be over before the other client asks.
    let mut sleeps = 0;
    loop {
        sleeps += 1;
        assert!(sleeps < 20, "somebody is served while the server sleeps");
        sleeper.send("debug sleep 0.3;ping");
        let mut longest = Duration::ZERO;
        while longest < Duration::from_millis(150) && sleeper.reply_within(Duration::from_millis(1)).is_none() {
            let asked = Instant::now();
            assert_eq!(other.call("ping"), "+PONG");
            longest = longest.max(asked.elapsed());
        }
        if longest >= Duration::from_millis(150) {
            break;
        }
        assert_eq!(sleeper.reply(), "+PONG");
    }
    assert_eq!([sleeper.reply(), sleeper.reply()], ["+OK", "+PONG"]);
    assert_eq!(
        other.call("debug nothing"),
        "-ERR unknown subcommand or wrong number of arguments for 'nothing'. Try DEBUG HELP."
    );
    assert_eq!(
        other.call("debug sleep"),
        "-ERR unknown subcommand or wrong number of arguments for 'sleep'. Try DEBUG HELP."
    );
    assert_eq!(other.call("debug error OOPS"), "-OOPS");
    let info = other.call("info commandstats");
    assert!(field(&info, "cmdstat_debug").starts_with(&format!("calls={},usec=", sleeps + 1)), "{info}");
}

#[test]
fn a_block_without_keys_needs_no_latch() {
    let server = Server::start(&["--workers", "1"]);
    let mut client = server.client();
    client.send("multi;ping;echo x;exec");
    assert_eq!([client.reply(), client.reply(), client.reply()], ["+OK", "+QUEUED", "+QUEUED"]);
    assert_eq!(client.reply(), "*2 +PONG $1 x");
}

#[test]
fn exec_refuses_what_memory_forbids() {
    let server = Server::start(&["--workers", "1"]);
    let (mut client, mut admin) = (server.client(), server.client());
    client.send("multi;set k v");
    assert_eq!([client.reply(), client.reply()], ["+OK", "+QUEUED"]);
    assert_eq!(admin.call("config set maxmemory 1"), "+OK");
    assert_eq!(
        client.call("exec"),
        "-EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'."
    );
    assert_eq!(client.call("exec"), "-ERR EXEC without MULTI");
    // Queueing takes memory, too: as in Redis nothing is queued now, and commands that only read run outside a block.
    client.send("multi;get k;exec;get k");
    assert_eq!(client.reply(), "+OK");
    assert_eq!(client.reply(), "-OOM command not allowed when used memory > 'maxmemory'.");
    assert_eq!(client.reply(), "-EXECABORT Transaction discarded because of previous errors.");
    assert_eq!(client.reply(), "$-1");
}

#[test]
fn shutdown_ends_the_process() {
    let mut server = Server::start(&["--workers", "2"]);
    let mut client = server.client();
    assert_eq!(client.call("shutdown abort"), "-ERR No shutdown in progress.");
    assert_eq!(client.call("shutdown nosave save"), "-ERR syntax error");
    client.send("shutdown nosave");
    assert!(client.is_closed());
    assert!(server.ends_well());
}

/// Commands that MULTI queues count towards the limit of unexecuted bytes.
#[test]
fn a_queue_does_not_grow_for_ever() {
    let server = Server::start(&["--workers", "1", "--client-query-buffer-limit", "1mb"]);
    let (mut client, mut other) = (server.client(), server.client());
    assert_eq!(client.call("multi"), "+OK");
    for _ in 0..3 {
        assert_eq!(client.call(&format!("set k {}", "x".repeat(345_000))), "+QUEUED");
    }
    // Little enough to be sent before the server closes.
    client.send(&format!("set k {}", "x".repeat(20_000)));
    assert!(client.is_closed());
    assert_eq!(field(&other.call("info stats"), "client_query_buffer_limit_disconnections"), "1");
}

/// A command that is longer than the limit is refused however it arrives: also if its end is there before its beginning
/// is read.
#[test]
fn a_single_command_has_a_limit() {
    let server = Server::start(&["--workers", "1", "--client-query-buffer-limit", "1mb"]);
    let mut other = server.client();
    for round in 1..=20 {
        let mut client = server.client();
        client.send(&format!("set k {}", "x".repeat(1 << 20)));
        assert!(client.is_closed());
        assert_eq!(field(&other.call("info stats"), "client_query_buffer_limit_disconnections"), round.to_string());
    }
    assert_eq!(other.call("exists k"), ":0");
}

/// A client that waits for a key of a block is served when the block has slept, not at the time at which it began.
#[test]
fn sleep_in_a_block_comes_before_who_waits() {
    let server = Server::start(&["--workers", "2", "--enable-debug-command", "yes"]);
    let (mut waiting, mut client) = (server.client(), server.client());
    waiting.send("blpop list 1");
    server.blocked_clients(1);
    for line in ["multi", "rpush list a", "pexpire list 50", "debug sleep 0.1", "exec"] {
        client.call(line);
    }
    assert_eq!(waiting.reply(), "*-1");
    assert_eq!(client.call("exists list"), ":0");
}

/// A small flush is done when its reply comes; in a block it does not count as freed lazily.
#[test]
fn a_small_flush_is_done_at_once() {
    let server = Server::start(&["--workers", "2"]);
    let mut client = server.client();
    for (lines, freed) in [(&["flushall"][..], "2"), (&["multi", "flushall", "exec"], "0")] {
        client.call("config resetstat");
        client.call("mset a 1 b 2");
        for line in lines {
            client.call(line);
        }
        let memory = client.call("info memory");
        assert_eq!([field(&memory, "lazyfree_pending_objects"), field(&memory, "lazyfreed_objects")], ["0", freed]);
    }
}

/// INFO's figures of data are about the present data, in any form of storage.
#[test]
fn the_dataset_is_what_keys_hold() {
    let dir = crate::support::Scratch::new();
    let dir = dir.path().display().to_string();
    for more in [&["--appendonly", "no"][..], &["--dir", &dir, "--appendonly", "yes"]] {
        let server = Server::start(&[&["--workers", "1"], more].concat());
        let mut client = server.client();
        let mut dataset = || -> i64 { field(&client.call("info memory"), "used_memory_dataset").parse().unwrap() };
        let before = dataset();
        let mut other = server.client();
        assert_eq!(other.call(&format!("set large {}", "v".repeat(3_000_000))), "+OK");
        let members: Vec<String> = (0..50_000).map(|n| format!("member:{n:020}")).collect();
        assert_eq!(other.call(&format!("sadd set {}", members.join(" "))), ":50000");
        assert_eq!(other.call("client no-evict on"), "+OK");
        let grown = dataset() - before;
        assert!((4_000_000..20_000_000).contains(&grown), "{grown} more");
        assert_eq!(other.call("del large set"), ":2");
    }
}

#[test]
fn what_takes_long_is_kept() {
    let server = Server::start(&["--workers", "2", "--enable-debug-command", "yes"]);
    let mut client = server.client();
    assert!(client.call("latency doctor").contains("not monitored"));
    assert_eq!(client.call("debug sleep 0.3"), "+OK");
    assert_eq!(client.call("latency latest"), "*0");
    // Longer than any other command can take on a busy machine.
    assert_eq!(client.call("config set latency-monitor-threshold 250"), "+OK");
    assert_eq!(client.call("debug sleep 0.3"), "+OK");
    assert!(client.call("latency latest").starts_with("*1 *4 $7 command :"));
    assert!(client.call("latency history command").starts_with("*1 *2 :"));
    assert_eq!(client.call("latency history COMMAND"), "*0");
    assert!(client.call("latency graph command").contains("command - high "));
    assert_eq!(client.call("latency graph no"), "-ERR No samples available for event 'no'");
    assert!(client.call("latency doctor").contains("1. command: 1 latency spikes"));
    assert_eq!(client.call("latency reset no COMMAND"), ":1");
    assert_eq!(client.call("latency reset"), ":0");
}

#[test]
fn a_pause_keeps_what_has_expired() {
    let server = Server::start(&["--workers", "1"]);
    let mut client = server.client();
    // In one turn: the key must not have expired before the pause.
    client.send("multi;set gone 1 px 500;set there 1;exec;client pause 60000 write");
    (0..3).for_each(|_| drop(client.reply()));
    assert_eq!([client.reply(), client.reply()], ["*2 +OK +OK", "+OK"]);
    std::thread::sleep(Duration::from_millis(700));
    let expired = |client: &mut Client| field(&client.call("info stats"), "expired_keys");
    assert_eq!(client.call("get gone"), "$-1");
    assert_eq!(client.call("exists gone there"), ":1");
    assert_eq!((client.call("dbsize"), expired(&mut client)), (":2".into(), "0".into()));
    // Scripts that promise not to write run; others wait.
    assert_eq!(client.call("eval \"#!lua flags=no-writes\\nreturn redis.call('get', 'gone')\" 0"), "$-1");
    assert_eq!(client.call("client unpause"), "+OK");
    assert_eq!(client.call("get gone"), "$-1");
    assert_eq!((client.call("dbsize"), expired(&mut client)), (":1".into(), "1".into()));
}

#[test]
fn an_argument_counts_when_it_is_announced() {
    let server = Server::start(&["--workers", "1"]);
    let mut client = server.client();
    let weigh = |client: &mut Client, sent: usize| {
        let mut other = server.client();
        assert_eq!(other.call("client setname heavy"), "+OK");
        other.send_raw(format!("*2\r\n$3\r\nget\r\n$1000000\r\n{}", "x".repeat(sent)).as_bytes());
        let seen = format!(" qbuf={sent} ");
        for _ in 0..6000 {
            let list = client.call("client list");
            let line = list.split(" id=").find(|line| line.contains("name=heavy") && line.contains(&seen));
            if let Some(line) = line {
                assert!(line.contains(" argv-mem=23 "), "{line}");
                return field(line, "tot-mem");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("never so much: {}", client.call("client list"));
    };
    let (a, b) = (weigh(&mut client, 10), weigh(&mut client, 300_000));
    assert_eq!(a, b);
}

#[test]
fn a_block_counts_the_keys_that_it_has_made() {
    let server = Server::start(&["--workers", "2", "--appendonly", "no"]);
    let mut client = server.client();
    client.send("multi;set a 1;set b 1 px 1000000;dbsize;info keyspace;del b;dbsize;randomkey;exec");
    let replies: Vec<String> = (0..9).map(|_| client.reply()).collect();
    let counted = replies[8].split_once(":2 ").expect("of two keys").1;
    assert!(counted.contains("keys=2,expires=1,") && counted.ends_with(" :1 :1 $1 a"), "{counted}");
    let script = "redis.call('set', KEYS[1], 1) return redis.call('dbsize')";
    assert_eq!(client.call(&format!("eval \"{script}\" 1 b")), ":2");
    let changes = |client: &mut Client| field(&client.call("info persistence"), "rdb_changes_since_last_save");
    let before: u64 = changes(&mut client).parse().unwrap();
    assert_eq!(client.call("flushall"), "+OK");
    assert_eq!(changes(&mut client), (before + 2).to_string());
    client.send("multi;set a 1;set b 1;del a;flushall;exec");
    (0..6).for_each(|_| assert!(!client.reply().starts_with('-')));
    assert_eq!(changes(&mut client), (before + 6).to_string());
}

/// A setting switches all replies in which Valkey differs from Redis. Both are those that the servers were seen to
/// give.
#[test]
fn compatibility_switches_to_valkeys_answers() {
    let server = Server::start(&["--workers", "1"]);
    let mut client = server.client();
    let block = |client: &mut Client, inner: &str| {
        client.send(&format!("multi;{inner};set k v;exec"));
        [client.reply(), client.reply(), client.reply(), client.reply()]
    };
    let nested = block(&mut client, "multi");
    assert_eq!(nested, ["+OK", "-ERR MULTI calls can not be nested", "+QUEUED", "*1 +OK"]);
    assert_eq!(block(&mut client, "watch a")[1..], ["-ERR WATCH inside MULTI is not allowed", "+QUEUED", "*1 +OK"]);
    let refused = "-EXECABORT Transaction discarded because of previous errors.";
    let barred = block(&mut client, "save");
    assert_eq!(barred[1..], ["-ERR Command not allowed inside a transaction", "+QUEUED", refused]);

    assert_eq!(client.call("config set compatibility valkey"), "+OK");
    for name in ["multi", "watch a", "save"] {
        let command = name.split(' ').next().unwrap_or_default();
        let wanted = format!("-ERR Command '{command}' not allowed inside a transaction");
        assert_eq!(block(&mut client, name), ["+OK", &wanted, "+QUEUED", refused]);
    }
    assert_eq!(client.call("scan 0 type what"), "-ERR unknown type name 'what'");
    assert_eq!(client.call("scan 0 type STRING"), "*2 $1 0 *1 $1 k");
    assert!(client.call("hello").starts_with("*14 $6 server $6 valkey $7 version $5 9."));
    assert_eq!(field(&client.call("info server"), "server_name"), "valkey");
    assert_eq!(client.call("config set compatibility redis"), "+OK");
    assert_eq!(client.call("scan 0 type what"), "*2 $1 0 *0");
    assert!(client.call("hello").starts_with("*14 $6 server $5 redis "));
}

/// As in Redis: a command that waits counts when it has its reply, and commands of a script count, too.
#[test]
fn a_clients_commands_are_counted_when_they_end() {
    let server = Server::start(&["--workers", "2"]);
    let (mut popper, mut other) = (server.client(), server.client());
    let id = popper.call("client id").trim_start_matches(':').to_owned();
    // The counter rises at the end of a turn, which other clients may see a moment later.
    let mut counted = |wanted: &str| {
        let begun = Instant::now();
        while field(&other.call(&format!("client list id {id}")), "tot-cmds") != wanted {
            assert!(begun.elapsed() < Duration::from_secs(20), "{wanted} commands are not counted");
        }
    };
    counted("1");
    popper.send("blpop l 0");
    server.blocked_clients(1);
    counted("1");
    assert_eq!(server.client().call("rpush l x"), ":1");
    assert_eq!(popper.reply(), "*2 $1 l $1 x");
    counted("2");
    assert_eq!(popper.call("blpop l 0.01"), "*-1");
    counted("3");
    assert_eq!(popper.call("fcall nosuch 0"), "-ERR Function not found");
    counted("4");
    popper.send("eval redis.call('ping')redis.call('get','a') 0");
    assert_eq!(popper.reply(), "$-1");
    counted("7");
    let line = popper.call("client info");
    assert_eq!(field(&line, "avg-pipeline-len-sum"), "5", "{line}");
}

/// Fields of Redis 8.8: each counts as its name says.
#[test]
fn figures_of_redis_8_8_are_there() {
    let server = Server::start(&["--workers", "1"]);
    let mut client = server.client();
    let number = |text: &str, name: &str| field(text, name).parse::<f64>().unwrap();
    client.send("set a 1;get a;get b");
    (0..3).for_each(|_| drop(client.reply()));
    let line = client.call("client info");
    assert_eq!(field(&line, "tot-cmds"), "3");
    assert!(number(&line, "tot-net-in") > 0.0 && number(&line, "tot-net-out") > 0.0, "{line}");
    assert_eq!((field(&line, "io-thread"), field(&line, "avg-pipeline-len-sum")), ("0".into(), "3".into()));
    let info = client.call("info everything");
    assert_eq!(field(&info, "active_clients"), "1");
    assert!(field(&info, "io_thread_0").starts_with("clients=1,reads="));
    assert!(number(&info, "used_memory_peak_time") > 1e9);
    let (sum, count) = (number(&info, "avg_pipeline_length_sum"), number(&info, "avg_pipeline_length_cnt"));
    assert!(sum >= count && count >= 1.0 && number(&info, "eventloop_cycles_with_clients_processing") <= count);

    assert_eq!(field(&info, "slowlog_commands_count"), "0");
    assert_eq!(client.call("config set slowlog-log-slower-than 0"), "+OK");
    assert_eq!(client.call("get a"), "$1 1");
    assert!(number(&client.call("info stats"), "slowlog_commands_count") >= 1.0);
    let info = client.call("info commandstats");
    let get = field(&info, "cmdstat_get");
    let (_, slow) = get.split_once(",slowlog_count=1,slowlog_time_ms_sum=").unwrap();
    let (sum, max) = slow.split_once(",slowlog_time_ms_max=").unwrap();
    assert_eq!(sum, max);
    assert!(!field(&info, "cmdstat_set").contains("slowlog"), "{info}");

    assert_eq!(client.call("config set slowlog-log-slower-than -1"), "+OK");
    assert_eq!(client.call("set gone 1 px 1"), "+OK");
    let begun = Instant::now();
    while client.call("dbsize") != ":1" {
        assert!(begun.elapsed() < Duration::from_secs(60), "nobody has deleted what has expired");
        std::thread::sleep(Duration::from_millis(10));
    }
    let info = client.call("info stats");
    assert_eq!((field(&info, "expired_keys"), field(&info, "expired_keys_active")), ("1".into(), "1".into()));
}
