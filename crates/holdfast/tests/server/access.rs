//! Users and their rights, with real clients: AUTH, ACL, refusals, lost subscriptions.

use crate::support::{Client, Scratch, Server};

fn as_user(server: &Server, login: &str) -> Client {
    let mut client = server.client();
    assert_eq!(client.call(login), "+OK");
    client
}

#[test]
fn a_user_does_what_it_may_and_nothing_else() {
    let server = Server::start(&["--workers", "2"]);
    let mut admin = server.client();
    assert_eq!(admin.call("acl setuser bob on >pw +@all -debug ~a* %R~r* &ch*"), "+OK");
    let mut bob = as_user(&server, "auth bob pw");
    assert_eq!(bob.call("acl whoami"), "$3 bob");
    for (request, reply) in [
        ("set a1 x", "+OK"),
        ("get r1", "$-1"),
        ("set r1 x", "-NOPERM No permissions to access a key"),
        ("get z", "-NOPERM No permissions to access a key"),
        ("publish other m", "-NOPERM No permissions to access a channel"),
        ("debug sleep 0", "-NOPERM User bob has no permissions to run the 'debug' command"),
        ("sort a by w*", "-ERR BY option of SORT denied due to insufficient ACL permissions."),
        ("sort a get #", "-ERR GET option of SORT denied due to insufficient ACL permissions."),
    ] {
        assert_eq!(bob.call(request), reply, "{request}");
    }
    // The next command of an open connection lacks a right that was taken away.
    assert_eq!(admin.call("acl setuser bob -set"), "+OK");
    assert_eq!(bob.call("set a1 y"), "-NOPERM User bob has no permissions to run the 'set' command");
    assert_eq!(bob.call("multi"), "+OK");
    assert!(bob.call("set a1 y").starts_with("-NOPERM"));
    assert!(bob.call("exec").starts_with("-EXECABORT"));
    let log = admin.call("acl log 1");
    assert!(log.contains("$5 multi") && log.contains("$3 set") && log.contains("$3 bob"), "{log}");
}

#[test]
fn rights_are_looked_at_again_by_exec_and_by_scripts() {
    let server = Server::start(&["--workers", "1"]);
    let mut admin = server.client();
    assert_eq!(admin.call("acl setuser bob on nopass +@all ~a"), "+OK");
    let mut bob = as_user(&server, "auth bob x");
    assert_eq!(bob.call("multi"), "+OK");
    assert_eq!(bob.call("set a 1"), "+QUEUED");
    assert_eq!(admin.call("acl setuser bob resetkeys ~b"), "+OK");
    assert!(bob.call("exec").contains("-NOPERM ACLs rules changed between the moment"), "EXEC looks again");
    let script = bob.call("eval redis.call('get','a') 0");
    assert!(script.contains("ACL failure in script: No permissions to access a key"), "{script}");
    assert_eq!(bob.call("eval return(redis.acl_check_cmd('get','b')) 0"), ":1");
    assert_eq!(bob.call("eval return(redis.acl_check_cmd('get','a')) 0"), "$-1");
    let wrong = bob.call("eval return(redis.acl_check_cmd('get')) 0");
    assert!(wrong.contains("Wrong number of args for redis.acl_check_cmd()"), "{wrong}");
}

#[test]
fn clients_go_with_their_user_and_with_their_channels() {
    let server = Server::start(&["--workers", "2"]);
    let mut admin = server.client();
    assert_eq!(admin.call("acl setuser sub on nopass +@all &a &b*"), "+OK");
    let (mut lost, mut kept) = (as_user(&server, "auth sub x"), as_user(&server, "auth sub x"));
    assert!(lost.call("subscribe a").contains("subscribe"));
    assert!(kept.call("psubscribe b*").contains("psubscribe"));
    assert_eq!(admin.call("acl setuser sub resetchannels &b*"), "+OK");
    assert!(lost.is_closed(), "it was subscribed to a channel that its user has lost");
    assert!(!admin.call("client list").contains("sub=1 psub=0"));
    assert_eq!(admin.call("acl deluser sub nobody"), ":1");
    assert!(kept.is_closed(), "its user is gone");
}

#[test]
fn a_command_that_waits_is_denied_when_its_user_loses_the_key() {
    let server = Server::start(&["--workers", "2"]);
    let mut admin = server.client();
    assert_eq!(admin.call("acl setuser bob on nopass +@all ~list*"), "+OK");
    let (mut bob, mut other) = (as_user(&server, "auth bob x"), as_user(&server, "auth bob x"));
    bob.send("blpop list1 0");
    other.send("blpop list2 0");
    server.blocked_clients(2);
    assert_eq!(admin.call("acl setuser bob resetkeys ~list2"), "+OK");
    assert_eq!(bob.reply(), "-NOPERM No permissions to access a key");
    assert_eq!(admin.call("rpush list1 x"), ":1");
    assert_eq!(admin.call("llen list1"), ":1", "nobody has taken it");
    assert_eq!(admin.call("rpush list2 y"), ":1");
    assert_eq!(other.reply(), "*2 $5 list2 $1 y");
    assert_eq!(bob.call("ping"), "+PONG");
    assert!(admin.call("info commandstats").contains("cmdstat_blpop:calls=1"));
}

/// The change of the key comes right behind the loss of the right, maybe before the waiting client's worker hears of it.
#[test]
fn a_change_behind_the_loss_of_a_right_serves_nobody() {
    let server = Server::start(&["--workers", "2"]);
    let mut admin = server.client();
    for _ in 0..30 {
        assert_eq!(admin.call("acl setuser bob on nopass +@all resetkeys ~list ~other"), "+OK");
        let (mut bob, mut other) = (as_user(&server, "auth bob x"), as_user(&server, "auth bob x"));
        bob.send("blpop list 0");
        other.send("blpop other 0");
        server.blocked_clients(2);
        admin.send("acl setuser bob resetkeys ~other;rpush list x;rpush other x");
        assert_eq!([admin.reply(), admin.reply(), admin.reply()], ["+OK", ":1", ":1"]);
        assert_eq!(bob.reply(), "-NOPERM No permissions to access a key");
        assert_eq!(other.reply(), "*2 $5 other $1 x", "a change that has passed it by is not lost");
        assert_eq!(admin.call("del list"), ":1");
    }
}

#[test]
fn the_session_shows_its_user_and_reset_takes_it_away() {
    let server = Server::start(&["--workers", "2"]);
    let mut admin = server.client();
    assert_eq!(admin.call("acl setuser bob on >pw +@all ~*"), "+OK");
    let mut bob = server.client();
    assert!(bob.call("hello 2 auth bob wrong").starts_with("-WRONGPASS"));
    assert!(bob.call("hello 2 auth bob pw setname it").contains("$5 proto"));
    assert!(bob.call("client info").contains(" user=bob "));
    assert!(admin.call("client list").contains(" user=bob "));
    assert!(admin.call("info stats").contains("acl_access_denied_auth:1"));
    let log = admin.call("acl log");
    assert!(log.contains("$4 auth") && log.contains("$11 client-info"), "{log}");
    assert_eq!(bob.call("reset"), "+RESET");
    assert_eq!(bob.call("acl whoami"), "$7 default");
    assert_eq!(bob.call("auth bob pw"), "+OK");
    assert_eq!(admin.call("client kill user bob"), ":1");
    assert!(bob.is_closed());
    // Secrets are not shown.
    assert_eq!(admin.call("config set slowlog-log-slower-than 0"), "+OK");
    assert_eq!(admin.call("acl setuser bob >topsecret"), "+OK");
    assert_eq!(admin.call("auth bob topsecret"), "+OK");
    assert!(!admin.call("slowlog get 10").contains("topsecret"));
}

/// A start from a file that was saved before any login must not be open.
#[test]
fn a_password_that_was_set_is_shown_and_saved_at_once() {
    let scratch = Scratch::new();
    let file = scratch.path().join("users.acl");
    std::fs::write(&file, "user default on nopass ~* &* +@all\n").unwrap();
    let server = Server::start(&["--aclfile", &file.display().to_string()]);
    let mut admin = server.client();
    assert_eq!(admin.call("config set requirepass hh"), "+OK");
    assert!(!admin.call("acl list").contains("nopass"));
    assert_eq!(admin.call("acl save"), "+OK");
    assert!(std::fs::read_to_string(&file).unwrap().contains("user default on sanitize-payload #"));
    // The later password counts, not an older one that was taken back.
    admin.send_raw(b"*4\r\n$6\r\nCONFIG\r\n$3\r\nSET\r\n$11\r\nrequirepass\r\n$0\r\n\r\n");
    assert_eq!(admin.reply(), "+OK");
    std::fs::write(&file, "user default on >strong ~* &* +@all\n").unwrap();
    assert_eq!(admin.call("acl load"), "+OK");
    assert!(server.client().call("ping").starts_with("-NOAUTH"));
}

#[test]
fn users_come_from_a_file_and_go_to_it() {
    let scratch = Scratch::new();
    let file = scratch.path().join("users.acl");
    std::fs::write(&file, "user bob on >pw ~a* +@all\nuser eve on nopass ~* +@all &*\n").unwrap();
    let path = file.display().to_string();
    let server = Server::start(&["--workers", "2", "--aclfile", &path]);
    let mut admin = server.client();
    let mut eve = as_user(&server, "auth eve x");
    let mut bob = as_user(&server, "auth bob pw");
    assert_eq!(admin.call("acl setuser bob -get"), "+OK");
    assert_eq!(admin.call("acl save"), "+OK");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("user bob on sanitize-payload #") && text.contains("+@all -get"), "{text}");
    assert!(text.contains("user default on nopass"), "{text}");
    // A file with an error changes nothing.
    std::fs::write(&file, "user bob on nopass +nosuch\n").unwrap();
    assert!(admin.call("acl load").starts_with("-ERR "), "nothing is loaded");
    assert_eq!(admin.call("acl users"), "*3 $3 bob $7 default $3 eve");
    // Clients of deleted users are closed, and those of others stay.
    std::fs::write(&file, "user bob on >other ~b* +@all\n").unwrap();
    assert_eq!(admin.call("acl load"), "+OK");
    assert!(eve.is_closed());
    assert_eq!(bob.call("get a1"), "-NOPERM No permissions to access a key");
    assert_eq!(bob.call("get b1"), "$-1");
    assert!(server.client().call("auth bob pw").starts_with("-WRONGPASS"));
    drop(server);
    std::fs::write(&file, "user bob on >secret +nosuch\n").unwrap();
    let error = Server::refused(&["--aclfile", &path]);
    assert!(error.contains("because of ACL errors") && error.contains("+nosuch"), "{error}");
    let both = scratch.path().join("both.conf");
    std::fs::write(&both, format!("aclfile {path}\nuser eve on\n")).unwrap();
    let error = Server::with_file(&both, &[]).err().unwrap();
    assert!(error.contains("but not both"), "{error}");
}

#[test]
fn lines_of_the_configuration_make_users_and_a_rewrite_keeps_them() {
    let scratch = Scratch::new();
    let file = scratch.path().join("server.conf");
    std::fs::write(&file, "requirepass secret\nuser bob on >pw ~a* +@all\n").unwrap();
    for _ in 0..2 {
        let server = Server::with_file(&file, &["--workers", "1", "--appendonly", "no", "--save", ""]).unwrap();
        assert!(server.client().call("get a").starts_with("-NOAUTH"));
        let mut admin = as_user(&server, "auth secret");
        let mut bob = as_user(&server, "auth bob pw");
        assert_eq!(bob.call("get b"), "-NOPERM No permissions to access a key");
        assert_eq!(bob.call("get a"), "$-1");
        assert_eq!(admin.call("acl setuser eve on nopass"), "+OK");
        assert_eq!(admin.call("config rewrite"), "+OK");
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("user bob on sanitize-payload #") && text.contains("user eve on nopass"), "{text}");
        assert!(!text.contains("user default"), "{text}");
        assert_eq!(admin.call("acl setuser default on >more"), "+OK");
        assert_eq!(
            admin.call("acl load"),
            "-ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis configuration."
        );
    }
}

/// Ways to a key that a user may not use. The reply is a denial, whatever the command is.
const SIDE_DOORS: &[&str] = &[
    "get secret",
    "set secret x",
    "append secret x",
    "copy secret mine",
    "copy mine secret replace",
    "rename secret mine",
    "rename mine secret",
    "move secret 1",
    "del secret",
    "unlink mine secret",
    "exists secret",
    "type secret",
    "touch secret",
    "expire secret 1",
    "object encoding secret",
    "object freq secret",
    "memory usage secret",
    "dump secret",
    "restore secret 0 x replace",
    "getex secret persist",
    "getdel secret",
    "mget mine secret",
    "mset mine 1 secret 2",
    "lcs mine secret",
    "bitop not mine secret",
    "sort list by nosort get secret*",
    "sort list by secret*",
    "sort list get #",
    "sort_ro list get secret",
    "sort secretlist",
    "sort list store secret",
    "lmove secretlist list left left",
    "lmpop 1 secretlist left",
    "blmpop 0 2 list2 secretlist left",
    "blpop secretlist 0",
    "sintercard 2 mineset secretset",
    "sdiffstore mineset secretset",
    "zunionstore minez 1 secretz",
    "pfmerge minehll secrethll",
    "xread streams secretstream 0",
    "watch secret",
    "eval return(redis.call('get','secret')) 0",
    "eval return(redis.call('get',KEYS[1])) 1 secret",
    "eval return(redis.pcall('get','secret')['err']) 0",
    "eval_ro return(redis.call('get','secret')) 0",
    "eval return(redis.call('sort','list','by','nosort','get','secret*')) 0",
    "eval return(redis.call('rename','secret','mine')) 0",
    "fcall peek 0",
    "fcall_ro peek 0",
    "fcall peek 1 secret",
    "debug object secret",
    "acl setuser eve ~*",
    "acl list",
    "config get requirepass",
    "function dump",
    "subscribe news",
    "publish news x",
    "psubscribe __key*",
];

#[test]
fn no_side_door_leads_to_a_key() {
    let server = Server::start(&["--workers", "2", "--enable-debug-command", "yes"]);
    let mut admin = server.client();
    for (request, reply) in [
        ("set secret treasure", "+OK"),
        ("rpush secretlist treasure", ":1"),
        ("rpush list a", ":1"),
        ("set secreta treasure", "+OK"),
    ] {
        assert_eq!(admin.call(request), reply);
    }
    let code = "#!lua name=lib\nredis.register_function{function_name='peek',callback=function() \
                return redis.call('get','secret') end,flags={'no-writes'}}";
    admin.send_raw(format!("*3\r\n$8\r\nfunction\r\n$4\r\nload\r\n${}\r\n{code}\r\n", code.len()).as_bytes());
    assert_eq!(admin.reply(), "$3 lib");
    let rules = "on nopass +@all -debug -acl -config -function ~mine* ~list*";
    assert_eq!(admin.call(&format!("acl setuser eve {rules}")), "+OK");
    let mut eve = as_user(&server, "auth eve x");
    for request in SIDE_DOORS {
        let reply = eve.call(request);
        let is_denied =
            ["NOPERM", "No permissions", "insufficient ACL permissions"].iter().any(|why| reply.contains(why));
        assert!(is_denied && !reply.contains("treasure"), "{request}: {reply}");
        assert_eq!(eve.call("multi"), "+OK");
        let queued = eve.call(request);
        let ran = eve.call("exec");
        assert!(!queued.contains("treasure") && !ran.contains("treasure"), "{request}: {queued} {ran}");
    }
    // Only those of BY and GET that name another key are checked.
    assert_eq!(eve.call("sort list by nosort"), "*1 $1 a");
    assert_eq!(admin.call("mget secret secreta mine"), "*3 $8 treasure $8 treasure $-1");
    assert_eq!(admin.call("llen secretlist"), ":1");
    assert_eq!(admin.call("acl getuser eve").matches("~*").count(), 0);
}

/// A process that was killed while it saved users has left hashes of passwords in a file.
#[test]
fn what_a_killed_save_has_left_goes_at_the_next_start() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    let file = scratch.path().join("users.acl");
    std::fs::write(&file, "user default on nopass ~* &* +@all\n").unwrap();
    let left = scratch.path().join("users.acl.tmp-4711");
    std::fs::write(&left, "user bob on #hash\n").unwrap();
    let server = Server::start(&["--aclfile", &file.display().to_string()]);
    assert!(!left.exists());
    std::fs::write(&left, "user bob on #hash\n").unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(server.client().call("acl save"), "+OK");
    assert!(!left.exists());
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn odd_names_and_patterns_come_back_from_a_rewritten_file() {
    let scratch = Scratch::new();
    let file = scratch.path().join("server.conf");
    std::fs::write(&file, "").unwrap();
    let rules: [&[u8]; 6] = [b"on", b">se cret", b"~a\"b", b"~'\\#", b"&\x01\xff", b"(~\"c\\\")\" +get)"];
    let server = Server::with_file(&file, &["--appendonly", "no", "--save", ""]).unwrap();
    let mut admin = server.client();
    for name in [b"b\"ob\x02".as_slice(), b"#eve"] {
        let words = [&[b"acl".as_slice(), b"setuser", name], &rules[..]].concat();
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend([format!("${}\r\n", word.len()).as_bytes(), word, b"\r\n"].concat());
        }
        admin.send_raw(&request);
        assert_eq!(admin.reply(), "+OK");
    }
    let list = admin.call("acl list");
    assert_eq!(admin.call("config rewrite"), "+OK");
    drop(server);
    let server = Server::with_file(&file, &["--appendonly", "no", "--save", ""]).unwrap();
    assert_eq!(server.client().call("acl list"), list);
}

#[test]
fn a_file_of_redis_may_name_what_is_not_there() {
    let scratch = Scratch::new();
    let (file, log) = (scratch.path().join("users.acl"), scratch.path().join("log").display().to_string());
    let rules = "+@all -failover +psync -migrate -@search -ft.config (~a -@json +get)";
    std::fs::write(&file, format!("user bob on nopass ~* {rules}\nuser eve on nopass ~mine +migrate\n")).unwrap();
    let server = Server::start(&["--aclfile", &file.display().to_string(), "--logfile", &log]);
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(
        said.contains("rules of users without an effect") && said.contains("'-@search' of the user 'bob'"),
        "{said}"
    );
    let mut admin = server.client();
    assert!(
        admin.call("acl list").contains("+@all -failover +psync -migrate -ft.config"),
        "{}",
        admin.call("acl list")
    );
    let mut bob = as_user(&server, "auth bob x");
    assert_eq!(bob.call("failover"), "-NOPERM User bob has no permissions to run the 'failover' command");
    assert_eq!(bob.call("migrate h 1 k 0 1"), "-NOPERM User bob has no permissions to run the 'migrate' command");
    assert!(bob.call("cluster meet h 1").starts_with("-ERR "));
    assert_eq!(admin.call("failover"), "-ERR FAILOVER requires connected replicas.");
    let mut eve = as_user(&server, "auth eve x");
    assert_eq!(eve.call("migrate h 1 k 0 1"), "-NOPERM No permissions to access a key");
    let mut of_several = |keys: &[&str]| {
        let words = [&["migrate", "h", "1", "", "0", "1", "keys"], keys].concat();
        let words = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
        eve.send_raw(format!("*{}\r\n{}", words.len(), words.collect::<String>()).as_bytes());
        eve.reply()
    };
    assert_eq!(of_several(&["mine", "other"]), "-NOPERM No permissions to access a key");
    assert!(of_several(&["mine"]).contains("is not supported by this version"));
    assert!(eve.call("migrate h 1 mine 0 1").contains("is not supported by this version"));
    assert!(admin.call("acl log 1").contains("$5 other"));
    assert_eq!(admin.call("acl dryrun bob failover"), "$57 User bob has no permissions to run the 'failover' command");
    assert!(admin.call("acl setuser bob -ft.config").contains("Unknown command or category name"));
    // A slip in a denial would leave a right.
    drop(server);
    std::fs::write(&file, "user bob on +@all -@dangerus\n").unwrap();
    assert!(Server::refused(&["--aclfile", &file.display().to_string()]).contains("-@dangerus"));
}

/// Neither what the process prints when it does not start nor its log has a password.
#[test]
fn a_bad_start_tells_no_password() {
    let scratch = Scratch::new();
    let (file, users) = (scratch.path().join("bad.conf"), scratch.path().join("users.acl"));
    for line in [
        "requirepass topsecret more",
        "requirepass \"topsecret",
        "masterauth topsecret more",
        "tls-key-file-pass topsecret more",
        "cluster-secret topsecret more",
        "requirepas topsecret",
        "REQUIREPASS topsecret more",
        "user bob on >topsecret +nosuch",
        "user bob on (~a >topsecret)",
        "user bob on \">topsecret",
        "user bob on '(~a >topsecret)'",
        "user bob on \">a topsecret\" hehe",
        "user bob on #topsecret",
        "user bob on <topsecret",
        "user default on >topsecret ~* &* +@all\nuser default on >topsecret ~* &* +@all",
        "user bob on >topsecret\nuser bob on >topsecret",
    ] {
        std::fs::write(&file, line).unwrap();
        let error = Server::with_file(&file, &[]).err().unwrap_or_else(|| panic!("{line}: it starts"));
        assert!(!error.contains("topsecret") && error.contains("line"), "{line}: {error}");
        assert!(!error.contains("more'"), "{line}: {error}");
    }
    for line in ["user bob on >topsecret +nosuch", "user bob\ton\t>topsecret", "user bob on (~a >topsecret +nosuch)"] {
        std::fs::write(&users, line).unwrap();
        let error = Server::refused(&["--aclfile", &users.display().to_string()]);
        assert!(!error.contains("topsecret") && error.contains("ACL"), "{line}: {error}");
    }
    let error = Server::refused(&["--requirepass", "topsecret", "more"]);
    assert!(!error.contains("topsecret"), "{error}");
}

#[test]
fn the_log_says_that_a_server_is_open_if_it_is() {
    let scratch = Scratch::new();
    let (file, log) = (scratch.path().join("users.acl"), scratch.path().join("log").display().to_string());
    let arguments = ["--aclfile", &file.display().to_string(), "--logfile", &log];
    for (users, is_open) in [
        ("", true),
        ("user default off\nuser bob on nopass ~* +@all\n", false),
        ("user default on >pw ~* &* +@all\n", false),
        ("user default on nopass ~* &* +@all\n", true),
    ] {
        std::fs::write(&file, users).unwrap();
        let _ = std::fs::remove_file(&log);
        drop(Server::start(&arguments));
        let said = std::fs::read_to_string(&log).unwrap();
        assert_eq!(said.contains("No password is set"), is_open, "{users}: {said}");
    }
}

/// Each of so many rules looked through all before it: a minute.
#[test]
fn a_hundred_thousand_rules_are_set_at_once() {
    let server = Server::start(&["--workers", "1"]);
    let mut admin = server.client();
    let begun = std::time::Instant::now();
    for sign in ["~p:", "&c:", "+select|", ">"] {
        let rules: Vec<String> = (0..100_000).map(|n| format!("{sign}{n}")).collect();
        assert_eq!(admin.call(&format!("acl setuser bob {}", rules.join(" "))), "+OK");
    }
    let rules: Vec<String> = (0..100_000).map(|n| format!("<{n}")).collect();
    assert_eq!(admin.call(&format!("acl setuser bob {}", rules.join(" "))), "+OK");
    assert_eq!(admin.call("acl setuser bob resetchannels +select"), "+OK");
    let took = begun.elapsed();
    assert!(took < std::time::Duration::from_secs(60), "{took:?}");
}

/// The log of denied requests shows the names that clients give themselves.
#[test]
fn long_names_of_clients_do_not_fill_memory_with_the_log() {
    let server = Server::start(&["--workers", "1"]);
    let mut admin = server.client();
    assert_eq!(admin.call("acl setuser bob on nopass -@all +client"), "+OK");
    let mut bob = as_user(&server, "auth bob x");
    assert_eq!(bob.call(&format!("client setname {}", "n".repeat(100_000))), "+OK");
    assert!(bob.call("get x").starts_with("-NOPERM"));
    assert!(admin.call("acl log 1").len() < 4096);
}
