//! Runs random rules, requests and files of users here and at a real redis-server: every reply must be the same.
//!
//! `REDIS_SERVER` names the reference; without it nothing is compared. The catalogue is that of its own commands, and
//! it reports where the keys of a request are: only users and their rights are compared. Cases are few and fixed unless
//! `DIFFERENTIAL_CASES` asks for more, which are then new every time.
#![allow(clippy::disallowed_methods, reason = "tests wait for real servers")]

mod peer;
mod redis;

use std::path::PathBuf;

use acl::{Access, Catalogue, DryRun, KeyUse, KeyUses, RuleBook, Users};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use resp::{OwnedArgs, Protocol, Reply, ReplyDecoder, ReplyLimits, Value};

use peer::{Peer, show};
use redis::{catalogue, items, start, text, users_file};

/// Requests for DRYRUN. `K` is a name.
const REQUESTS: &[&str] = &[
    "get K",
    "GET K",
    "set K 1",
    "set K 1 get",
    "copy K K",
    "rename K K",
    "mset K 1 K 2",
    "exists K K",
    "del K K",
    "sort K",
    "sort K by w*",
    "sort K store K",
    "publish K m",
    "spublish K m",
    "subscribe K K",
    "ssubscribe K",
    "psubscribe K",
    "unsubscribe K",
    "config get x",
    "config set maxmemory 0",
    "config",
    "config nosuch",
    "client id",
    "client list",
    "select 0",
    "select 1",
    "debug sleep 0",
    "debug object K",
    "acl whoami",
    "acl setuser x",
    "auth x",
    "ping",
    "hget K f",
    "hset K f v",
    "eval x 1 K",
    "eval x 2 K K",
    "eval x 9 K",
    "zunionstore K 2 K K",
    "object encoding K",
    "bitfield K get u8 0",
    "bitfield K set u8 0 1",
    "georadius K 0 0 1 m store K",
    "xreadgroup group g c streams K 0",
    "blpop K K 0",
    "lmove K K left left",
    "memory usage K",
    "multi",
    "keys *",
    "nosuch x",
    "get",
    "config|get x",
    "migrate h 1 K 0 1",
    "touch K",
    "getex K",
    "sintercard 1 K",
    "pfcount K K",
    "hello 3",
    "command docs get",
    "function list",
];

/// Names of keys and channels, and patterns of them.
const NAMES: &[&str] = &["a", "b", "ab", "abc", "a*", "b?", "[ab]", "*", ""];

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(NAMES.to_vec()).prop_map(str::to_owned)
}

/// The names that the reference knows.
#[derive(Clone)]
struct Names {
    commands: Vec<String>,
    categories: Vec<String>,
}

/// A rule that is valid, unless all keys or channels are allowed already.
fn rule(Names { commands, categories }: Names) -> impl Strategy<Value = String> {
    let usual = [
        "get",
        "set",
        "del",
        "copy",
        "config",
        "config|get",
        "config|set",
        "client",
        "client|id",
        "select",
        "debug",
        "acl|whoami",
        "publish",
        "subscribe",
        "memory|usage",
    ];
    let command = prop_oneof![
        3 => prop::sample::select(usual.to_vec()).prop_map(str::to_owned),
        1 => prop::sample::select(commands),
    ];
    let fixed = vec![
        "on",
        "off",
        "nopass",
        "resetpass",
        "allkeys",
        "resetkeys",
        "resetkeys",
        "allchannels",
        "resetchannels",
        "resetchannels",
        "allcommands",
        "nocommands",
        "+@all",
        "-@all",
        "skip-sanitize-payload",
        "sanitize-payload",
        "clearselectors",
        "reset",
        "ON",
        "",
        "%R",
    ];
    prop_oneof![
        9 => ("[+-]", command).prop_map(|(sign, name)| format!("{sign}{name}")),
        3 => ("[+-]", prop::sample::select(categories)).prop_map(|(sign, name)| format!("{sign}@{name}")),
        3 => prop::sample::select(vec!["+select|0", "+select|1", "+SELECT|0", "+debug|sleep", "+Get|a"]).prop_map(str::to_owned),
        5 => ("(~|%R~|%W~|%RW~|%wr~)", name()).prop_map(|(sign, name)| format!("{sign}{name}")),
        3 => name().prop_map(|name| format!("&{name}")),
        1 => ">[ab]",
        4 => prop::sample::select(fixed).prop_map(str::to_owned),
    ]
}

/// A rule that is mostly wrong.
fn wrong() -> impl Strategy<Value = String> {
    let fixed = vec![
        "hehe",
        "%~a",
        "%",
        "%RR~a",
        "%X~a",
        "~a b",
        "&a b",
        "#ab",
        "!ab",
        ")",
        "+",
        "-",
        "+|",
        "+config|",
        "-config|",
        "+config|nosuch",
        "-config|nosuch",
        "+nosuch",
        "-get|x",
        "+config|get|x",
        "+get|x|y",
        "+@",
        "-@nosuch",
        "<c",
        "((+get))",
        "(on)",
        "(+get",
        "+get|",
    ];
    prop::sample::select(fixed).prop_map(str::to_owned)
}

/// The rules of one SETUSER, some in selectors, in one piece or in several.
fn rules(names: &Names) -> impl Strategy<Value = Vec<String>> + use<> {
    let inner = prop::collection::vec(rule(names.clone()), 0..4);
    let selector = (inner, any::<bool>()).prop_map(|(rules, whole)| {
        let joined = format!("({})", rules.join(" "));
        if whole { vec![joined] } else { joined.split(' ').map(str::to_owned).collect() }
    });
    let piece = prop_oneof![8 => rule(names.clone()).prop_map(|rule| vec![rule]), 1 => selector];
    let pieces = prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat());
    let wrong = prop_oneof![6 => Just(None), 1 => wrong().prop_map(Some)];
    (pieces, wrong).prop_map(|(rules, wrong)| rules.into_iter().chain(wrong).collect())
}

#[derive(Clone, Debug)]
enum Step {
    Set(usize, Vec<String>),
    Delete(usize),
    DryRun(usize, String),
    Auth(usize, String),
    Load(String),
}

/// The user of the connection. No step touches it, and every file has it.
const ADMIN: &str = "user admin on nopass +@all ~* &*";

const USERS: &[&str] = &["bob", "bob", "eve", "default", "nobody"];

fn steps(names: &Names) -> impl Strategy<Value = Vec<Step>> + use<> {
    let request = (prop::sample::select(REQUESTS.to_vec()), name(), name()).prop_map(|(line, first, second)| {
        let line = line.replacen('K', &first, 1).replace('K', &second);
        line.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    });
    // There are no comments: Redis 8.2 does not read them.
    let word = prop_oneof![6 => Just("user "), 1 => Just("usr "), 1 => Just("user  ")];
    let line = (word, "[ab]", rules(names)).prop_map(|(word, name, rules)| {
        // A selector in a file that is not closed makes Redis crash.
        let rules: Vec<String> =
            rules.into_iter().filter(|rule| !rule.starts_with('(') || rule.ends_with(')')).collect();
        format!("{word}{name} {}", rules.join(" "))
    });
    let file = prop::collection::vec(line, 0..4).prop_map(|lines| lines.join("\n"));
    let user = || 0..USERS.len() - 1;
    let step = prop_oneof![
        6 => (user(), rules(names)).prop_map(|(user, rules)| Step::Set(user, rules)),
        1 => user().prop_map(Step::Delete),
        12 => (0..USERS.len(), request).prop_map(|(user, request)| Step::DryRun(user, request)),
        1 => (0..USERS.len(), "[abc]").prop_map(|(user, password)| Step::Auth(user, password)),
        1 => file.prop_map(Step::Load),
    ];
    prop::collection::vec(step, 1..60)
}

/// The reply that a function writes, as a client reads it.
fn written(write: impl FnOnce(&mut Reply<'_>)) -> Value {
    let mut out = Vec::new();
    write(&mut Reply::new(&mut out, Protocol::Resp2));
    ReplyDecoder::new(ReplyLimits::default()).next(&out).unwrap().unwrap().0
}

fn error(text: &[u8]) -> Value {
    written(|out| out.error(text))
}

struct Pair {
    redis: Peer,
    users: Users,
    catalogue: Catalogue,
}

impl Pair {
    /// Resets both servers.
    fn reset(&mut self) {
        self.users = Users::new(&self.catalogue);
        let (redis, ours) = self.step(&Step::Load(String::new()));
        assert_eq!(redis, ours);
    }

    /// Takes the same step at both, and returns their replies.
    fn step(&mut self, step: &Step) -> (Value, Value) {
        let book = RuleBook { catalogue: &self.catalogue, all_channels: false };
        match step {
            Step::Set(user, rules) => {
                let mut call = vec!["acl", "setuser", USERS[*user]];
                call.extend(rules.iter().map(String::as_str));
                let ours = match self.users.set(book, USERS[*user].as_bytes(), rules) {
                    Ok(_) => written(|out| out.ok()),
                    Err(refused) => error(&refused.reply()),
                };
                (self.redis.call(&call), ours)
            }
            Step::Delete(user) => {
                let ours = match self.users.delete(&[USERS[*user]]) {
                    Ok(gone) => Value::Integer(gone.len() as i64),
                    Err(refused) => error(&refused.reply()),
                };
                (self.redis.words(&format!("acl deluser {}", USERS[*user])), ours)
            }
            Step::DryRun(user, request) => self.dry_run(USERS[*user], request),
            Step::Auth(user, password) => {
                let ours = match self.users.authenticate(USERS[*user].as_bytes(), password.as_bytes()) {
                    Some(_) => written(|out| out.ok()),
                    None => error(acl::WRONG_PASSWORD.as_bytes()),
                };
                let redis = self.redis.words(&format!("auth {} {password}", USERS[*user]));
                // The next steps need rights again.
                assert_eq!(text(&self.redis.words("auth admin x")), "OK");
                (redis, ours)
            }
            Step::Load(file) => {
                let file = format!("{ADMIN}\n{file}");
                std::fs::write(users_file(&self.redis), &file).unwrap();
                let ours = match self.users.load(book, "users.acl", file.as_bytes()) {
                    Ok(_) => written(|out| out.ok()),
                    Err(wrong) => error(&wrong.reply()),
                };
                (self.redis.words("acl load"), ours)
            }
        }
    }

    fn dry_run(&mut self, user: &str, request: &str) -> (Value, Value) {
        let words: Vec<&str> = request.split(' ').collect();
        let mut keys = KeyUses::new();
        let mut ask = vec!["command", "getkeysandflags"];
        ask.extend(&words);
        if let Value::Array(found) = self.redis.call(&ask) {
            for key in &found {
                let (key, flags) = (text(&items(key)[0]), items(&items(key)[1]));
                let has = |names: &[&str]| flags.iter().any(|flag| names.contains(&&*text(flag)));
                let access = Access::new(has(&["access"]), has(&["insert", "update", "delete"]));
                // If a word occurs twice, its later place: the replies name words.
                let index = words.iter().rposition(|word| *word == key).unwrap();
                keys.push(KeyUse { index, access });
            }
        }
        let command = self.catalogue.called(words[0].as_bytes(), words.get(1).map(|word| word.as_bytes()));
        let args: OwnedArgs = words.iter().collect();
        let find = |into: &mut KeyUses| into.extend_from_slice(&keys);
        let ours = match acl::dry_run(&self.users, &self.catalogue, user.as_bytes(), command, args.args(), find) {
            DryRun::Allowed => written(|out| out.ok()),
            DryRun::Denied(why) => Value::Bulk(why),
            DryRun::Error(why) => error(&why),
        };
        let mut call = vec!["acl", "dryrun", user];
        call.extend(&words);
        (self.redis.call(&call), ours)
    }

    /// The texts in which both show their users.
    fn shown(&mut self) -> Vec<(Value, Value)> {
        let mut all = vec![
            (self.redis.words("acl list"), written(|out| self.users.write_lines(out))),
            (self.redis.words("acl users"), written(|out| self.users.write_names(out))),
        ];
        for name in USERS {
            let ours = written(|out| match self.users.find(name.as_bytes()) {
                Some(user) => user.write(out),
                None => out.null(),
            });
            all.push((self.redis.words(&format!("acl getuser {name}")), ours));
        }
        all
    }
}

fn compare(pair: &mut Pair, steps: &[Step]) -> Result<(), TestCaseError> {
    pair.reset();
    let mut told = Vec::new();
    for step in steps {
        told.push(format!("{step:?}"));
        let (redis, ours) = pair.step(step);
        prop_assert!(redis == ours, "after\n  {}\nredis: {}\nours:  {}", told.join("\n  "), show(&redis), show(&ours));
    }
    for (redis, ours) in pair.shown() {
        prop_assert!(redis == ours, "after\n  {}\nredis: {}\nours:  {}", told.join("\n  "), show(&redis), show(&ours));
    }
    Ok(())
}

#[test]
fn users_are_as_in_redis() {
    let Some(reference) = std::env::var_os("REDIS_SERVER").map(PathBuf::from) else {
        eprintln!("nothing compared: REDIS_SERVER does not name a redis-server");
        return;
    };
    let mut redis = start(&reference, ADMIN);
    assert_eq!(text(&redis.words("auth admin x")), "OK");
    let catalogue = catalogue(&mut redis);
    let categories = items(&redis.words("acl cat")).iter().map(text).collect();
    let mut names = Names { categories, commands: Vec::new() };
    assert!(names.categories.iter().all(|name| acl::CATEGORIES.contains(&&**name)), "{:?}", names.categories);
    for category in &names.categories {
        let ours = written(|out| assert!(acl::write_category(out, &catalogue, category.as_bytes())));
        let sorted = |value: &Value| {
            let mut names: Vec<String> = items(value).iter().map(text).collect();
            names.sort();
            names
        };
        let theirs = sorted(&redis.words(&format!("acl cat {category}")));
        assert_eq!(theirs, sorted(&ours), "{category}");
        names.commands.extend(theirs);
    }
    let cases = std::env::var("DIFFERENTIAL_CASES").ok().and_then(|cases| cases.parse().ok());
    let rng = match cases {
        Some(_) => TestRng::from_seed(RngAlgorithm::ChaCha, &std::array::from_fn::<u8, 32, _>(|_| rand_byte())),
        None => TestRng::deterministic_rng(RngAlgorithm::ChaCha),
    };
    let config = Config { cases: cases.unwrap_or(200), failure_persistence: None, ..Config::default() };
    let pair = std::cell::RefCell::new(Pair { redis, users: Users::new(&catalogue), catalogue });
    let mut runner = TestRunner::new_with_rng(config, rng);
    let outcome = runner.run(&steps(&names), |steps| compare(&mut pair.borrow_mut(), &steps));
    outcome.unwrap_or_else(|difference| panic!("{difference}"));
}

/// A byte that differs from run to run.
fn rand_byte() -> u8 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish() as u8
}
