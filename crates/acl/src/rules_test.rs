//! The users that rules make: texts, errors, descriptions.

use proptest::prelude::*;
use resp::{OwnedArgs, Protocol, Reply};

use crate::catalogue::Catalogue;
use crate::check::{Access, KeyUse, KeyUses};
use crate::denied::Denied;
use crate::error::Refused;
use crate::reply::{DryRun, HELP, dry_run, unknown_category, write_categories, write_category};
use crate::testing::catalogue;
use crate::user::User;
use crate::users::{RuleBook, Users};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The user that these rules make, or the error reply.
fn made(catalogue: &Catalogue, rules: &[&str]) -> Result<User, String> {
    let book = RuleBook { catalogue, all_channels: false };
    let change = Users::new(catalogue).set(book, b"bob", rules).map_err(|refused| text(&refused.reply()))?;
    Ok(User::clone(&change.after.unwrap()))
}

fn commands(rules: &str) -> String {
    let rules: Vec<&str> = rules.split(' ').collect();
    text(&made(&catalogue(), &rules).unwrap().root.command_text())
}

/// Keys of the requests below: argument 1, of COPY also 2.
fn keys_of(args: &[&str], keys: &mut KeyUses) {
    let mut push = |index, reads, writes| keys.push(KeyUse { index, access: Access::new(reads, writes) });
    match args {
        ["get" | "hget", ..] => push(1, true, false),
        ["set", .., "GET"] => push(1, true, true),
        ["set" | "hset" | "del", ..] => push(1, false, true),
        ["exists", ..] => push(1, false, false),
        ["copy", ..] => {
            push(1, true, false);
            push(2, false, true);
        }
        _ => {}
    }
}

/// The reply of DRYRUN for a user with these rules.
fn dry(rules: &str, request: &str) -> String {
    let catalogue = catalogue();
    let mut users = Users::new(&catalogue);
    let rules: Vec<&str> = rules.split(' ').collect();
    users.set(RuleBook { catalogue: &catalogue, all_channels: false }, b"bob", &rules).unwrap();
    let words: Vec<&str> = request.split(' ').collect();
    let args: OwnedArgs = words.iter().collect();
    let command = catalogue.called(words[0].as_bytes(), words.get(1).map(|word| word.as_bytes()));
    match dry_run(&users, &catalogue, b"bob", command, args.args(), |keys| keys_of(&words, keys)) {
        DryRun::Allowed => "OK".into(),
        DryRun::Denied(why) | DryRun::Error(why) => text(&why),
    }
}

#[test]
fn rules_about_commands_are_kept_in_their_order() {
    for (rules, kept) in [
        ("+@all -@hash -@slow +hget", "+@all -@hash -@slow +hget"),
        ("+@hash -@slow -@hash", "-@all -@slow -@hash"),
        ("+HGET +hget +hGeT", "-@all +hget"),
        ("+client|list +client|list +config|get +config +acl|whoami -acl", "-@all +client|list +config -acl"),
        ("+select|0 +select|0 +debug|segfault +debug", "-@all +select|0 +debug"),
        ("+config +config|get -config|set +config", "-@all +config"),
        ("-@string +@all", "+@all"),
        ("nocommands -@dangerous", "-@all -@dangerous"),
        ("allcommands +client|id", "+@all +client|id"),
    ] {
        assert_eq!(commands(rules), kept, "{rules}");
    }
}

#[test]
fn users_are_described_as_in_redis() {
    let catalogue = catalogue();
    let line = |rules: &[&str]| text(&made(&catalogue, rules).unwrap().line());
    assert_eq!(line(&[]), "user bob off sanitize-payload resetchannels -@all");
    assert_eq!(text(&Users::new(&catalogue).file()), "user default on nopass sanitize-payload ~* &* +@all\n");
    assert_eq!(
        line(&[
            "on",
            ">a",
            "~x",
            "%R~y",
            "%W~z",
            "%RW~w",
            "%w~y",
            "&c",
            "(%R~q",
            "+get)",
            "()",
            "skip-sanitize-payload"
        ]),
        "user bob on skip-sanitize-payload #ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb \
         ~x ~y %W~z ~w resetchannels &c -@all (%R~q resetchannels -@all +get) (resetchannels -@all)"
    );
    assert_eq!(line(&["on", "+@all", "(+get)", "reset"]), line(&[]));
    assert_eq!(line(&["(+get)", "clearselectors", "%R"]), "user bob off sanitize-payload %R~ resetchannels -@all");
    let book = RuleBook { catalogue: &catalogue, all_channels: true };
    let mut users = Users::new(&catalogue);
    users.set(book, b"bob", &["(+get)"]).unwrap();
    assert!(text(&users.file()).contains("user bob off sanitize-payload &* -@all (&* -@all +get)\n"));
}

#[test]
fn bad_rules_are_refused_in_the_words_of_redis() {
    let catalogue = catalogue();
    let syntax = "Syntax error";
    let unknown = "Unknown command or category name in ACL";
    for (rules, rule, why) in [
        (&["hehe"][..], "hehe", syntax),
        (&["~a b"], "~a b", syntax),
        (&["&a\tb"], "&a\tb", syntax),
        (&["%~a"], "%~a", syntax),
        (&["%RR~a"], "%RR~a", syntax),
        (&["%X~a"], "%X~a", syntax),
        (&["+select|"], "+select|", syntax),
        (&["+select|a b"], "+select|a b", syntax),
        (&["("], "", "Unmatched parenthesis in acl selector starting at '('."),
        (&["on", "(~a", "+get"], "", "Unmatched parenthesis in acl selector starting at '(~a'."),
        (&["(on)"], "(on)", syntax),
        (&["((+get))"], "((+get))", syntax),
        (&["+nosuch"], "+nosuch", unknown),
        (&["+"], "+", unknown),
        (&["-get|a"], "-get|a", unknown),
        (&["+get|a|b"], "+get|a|b", unknown),
        (&["+config|nosuch"], "+config|nosuch", unknown),
        (&["-config|nosuch"], "-config|nosuch", unknown),
        (&["+@nosuch"], "+@nosuch", unknown),
        (&["(~a", "+nosuch)"], "(~a +nosuch)", unknown),
        (&["+config|get|x"], "+config|get|x", "Allowing first-arg of a subcommand is not supported"),
        (&["<a"], "<a", "The password you are trying to remove from the user does not exist"),
        (
            &["#ab"],
            "#ab",
            "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters",
        ),
        (
            &["allkeys", "~a"],
            "~a",
            "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. \
             Try 'resetkeys' to start with an empty list of patterns",
        ),
        (
            &["&*", "&a"],
            "&a",
            "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
             effect. Try 'resetchannels' to start with an empty list of channels",
        ),
    ] {
        let expected = match rule {
            "" => format!("ERR {why}"),
            rule => format!("ERR Error in ACL SETUSER modifier '{rule}': {why}"),
        };
        assert_eq!(made(&catalogue, rules).unwrap_err(), expected);
    }
    let book = RuleBook { catalogue: &catalogue, all_channels: false };
    let refused = Users::new(&catalogue).set(book, b"a b", &["on"]).unwrap_err();
    assert_eq!(refused, Refused::BadName);
    assert_eq!(text(&refused.reply()), "ERR Usernames can't contain spaces or null characters");
}

#[test]
fn the_nearest_refusal_is_told() {
    for (rules, request, answer) in [
        ("+@all ~a", "get a", "OK"),
        ("+@all ~a", "get b", "User bob has no permissions to access the 'b' key"),
        ("~a", "get a", "User bob has no permissions to run the 'get' command"),
        ("~a", "config get x", "User bob has no permissions to run the 'config|get' command"),
        ("off", "auth x", "OK"),
        ("+config|get", "config get x", "OK"),
        ("+config|get", "config set x y", "User bob has no permissions to run the 'config|set' command"),
        ("+select|0", "select 0", "OK"),
        ("+select|0", "select 1", "User bob has no permissions to run the 'select' command"),
        ("+debug|Sleep", "debug sleep", "OK"),
        ("+@all %R~a", "set a 1", "User bob has no permissions to access the 'a' key"),
        ("+@all %W~a", "set a 1", "OK"),
        ("+@all %W~a", "set a 1 GET", "User bob has no permissions to access the 'a' key"),
        ("+@all %W~a %R~a", "set a 1 GET", "OK"),
        ("+@all %W~a %R~a*", "set a 1 GET", "User bob has no permissions to access the 'a' key"),
        ("+@all %W~a", "exists a", "OK"),
        ("+@all %W~a", "exists b", "User bob has no permissions to access the 'b' key"),
        ("+@all %R~a %W~b", "copy a b", "OK"),
        ("+@all %R~a %W~b", "copy b a", "User bob has no permissions to access the 'b' key"),
        ("+get (~b +set)", "get b", "User bob has no permissions to access the 'b' key"),
        ("+get (~b +set)", "set b 1", "OK"),
        // If several selectors fail, the later argument is told, and a channel before a key.
        ("+copy ~a (+copy ~b)", "copy a b", "User bob has no permissions to access the 'b' key"),
        ("+copy ~b (+copy ~a)", "copy a b", "User bob has no permissions to access the 'b' key"),
        ("+@all &a", "publish a b", "OK"),
        ("+@all &a", "publish b a", "User bob has no permissions to access the 'b' channel"),
        ("+@all &a*", "subscribe a1 b", "User bob has no permissions to access the 'b' channel"),
        ("+@all &a*", "psubscribe a1", "User bob has no permissions to access the 'a1' channel"),
        ("+@all &a*", "psubscribe a*", "OK"),
        ("+@all", "unsubscribe b", "OK"),
        ("+get", "get", "ERR wrong number of arguments for 'get' command"),
        ("+get", "nosuch a", "ERR Command 'nosuch' not found"),
        ("+get", "config nosuch", "ERR Command 'config' not found"),
    ] {
        assert_eq!(dry(rules, request), answer, "{rules}: {request}");
    }
}

#[test]
fn clients_and_scripts_are_told_less() {
    let catalogue = catalogue();
    let user = made(&catalogue, &["on"]).unwrap();
    let get = catalogue.find(b"get").unwrap();
    let reply = |denied: Denied| text(&denied.reply(&user, &catalogue, get));
    assert_eq!(reply(Denied::Command), "NOPERM User bob has no permissions to run the 'get' command");
    assert_eq!(reply(Denied::Key(1)), "NOPERM No permissions to access a key");
    assert_eq!(reply(Denied::Channel(1)), "NOPERM No permissions to access a channel");
    let script = text(&Denied::Key(1).in_script(&user, &catalogue, get));
    assert_eq!(script, "ACL failure in script: No permissions to access a key");
    assert!(Denied::Command.in_exec().ends_with("reason: no permission to execute the command or subcommand"));
    assert!(Denied::Key(1).in_exec().ends_with("reason: no permission to touch the specified keys"));
    let of_channels = "reason: no permission to access one of the channels used as arguments";
    assert!(Denied::Channel(1).in_exec().ends_with(of_channels));
}

#[test]
fn any_key_means_the_pattern_for_all() {
    let catalogue = catalogue();
    let sort = catalogue.find(b"sort").unwrap();
    let args: OwnedArgs = ["sort", "a", "BY", "w*"].into_iter().collect();
    let may = |rules: &[&str]| {
        let user = made(&catalogue, rules).unwrap();
        let find = |keys: &mut KeyUses| keys.push(KeyUse { index: 1, access: Access::READ });
        user.check_with_any_key(&catalogue, sort, args.args(), find, Access::READ)
    };
    assert!(may(&["+sort", "allkeys"]) && may(&["+sort", "%R~*"]) && may(&["(+sort", "%R~*)"]));
    assert!(!may(&["+sort", "~a"]) && !may(&["+sort", "%W~*", "~a"]) && !may(&["+sort", "~a", "(+sort", "%W~*)"]));
}

#[test]
fn only_all_rights_together_need_no_look() {
    let catalogue = catalogue();
    let full = |rules: &[&str]| made(&catalogue, rules).unwrap().is_full();
    assert!(full(&["+@all", "~*", "&*"]));
    assert!(full(&["+@all", "~*", "&*", "-get", "+get"]), "given back");
    assert!(!full(&["+@all", "~*"]) && !full(&["+@all", "~*", "&*", "-get"]));
    assert!(!full(&["+@all", "~*", "&*", "-config|get"]) && !full(&["+@all", "%RW~*", "&*"]));
    assert!(!full(&["(+@all", "~*", "&*)"]), "only the root is looked at");
}

#[test]
fn replies_have_the_fields_of_redis() {
    let catalogue = catalogue();
    let user = made(&catalogue, &["on", "nopass", "~a", "+get", "(&c)"]).unwrap();
    let mut out = Vec::new();
    user.write(&mut Reply::new(&mut out, Protocol::Resp3));
    let shown = text(&out).replace("\r\n", " ");
    assert_eq!(
        shown,
        "%6 $5 flags ~3 $2 on $6 nopass $16 sanitize-payload $9 passwords *0 $8 commands $10 -@all +get $4 keys $2 ~a \
         $8 channels $0  $9 selectors *1 %3 $8 commands $5 -@all $4 keys $0  $8 channels $2 &c "
    );
    let mut out = Vec::new();
    let mut reply = Reply::new(&mut out, Protocol::Resp2);
    write_categories(&mut reply);
    assert!(write_category(&mut reply, &catalogue, b"STRING") && !write_category(&mut reply, &catalogue, b"nosuch"));
    assert!(text(&out).ends_with("*2\r\n$3\r\nget\r\n$3\r\nset\r\n"));
    assert!(text(&out).starts_with("*22\r\n$8\r\nkeyspace\r\n"));
    assert_eq!(text(&unknown_category(&[b'x'; 200])), format!("ERR Unknown category '{}'", "x".repeat(128)));
    assert!(HELP.contains(&"WHOAMI"));
}

/// A rule that may be valid.
fn rule() -> impl Strategy<Value = String> {
    let names =
        ["get", "set", "del", "hget", "config", "config|get", "config|set", "client|id", "select", "debug", "acl"];
    let category = prop::sample::select(crate::catalogue::CATEGORIES.to_vec());
    prop_oneof![
        4 => ("[+-]", prop::sample::select(names.to_vec())).prop_map(|(sign, name)| format!("{sign}{name}")),
        2 => "\\+(select|debug|ping)\\|[a-cA-C0-1]{1,2}",
        3 => ("[+-]", category).prop_map(|(sign, name)| format!("{sign}@{name}")),
        3 => "(~|%R~|%W~|%RW~|%wr~)[a-b*?)(\\[\\]]{0,3}",
        1 => "%RW~\\*",
        2 => "&[a-c*]{0,2}",
        2 => "[><][ab]",
        3 => prop::sample::select(vec![
            "on", "off", "nopass", "resetpass", "allkeys", "resetkeys", "allchannels", "resetchannels", "allcommands",
            "nocommands", "+@all", "-@all", "skip-sanitize-payload", "sanitize-payload", "clearselectors", "reset", "",
        ]).prop_map(str::to_owned),
    ]
}

/// Rules, some of them in selectors.
fn rules() -> impl Strategy<Value = Vec<String>> {
    let selector = prop::collection::vec(rule(), 0..4).prop_map(|rules| format!("({})", rules.join(" ")));
    prop::collection::vec(prop_oneof![5 => rule(), 1 => selector], 0..14)
}

#[test]
fn files_hold_what_a_list_cannot() {
    let catalogue = catalogue();
    let user = made(&catalogue, &["%RW~*", "~a\"", "(\"~b\\\"'\" \"~c)\" ~d\\ +get)"]).unwrap();
    let shown = r#"user bob off sanitize-payload ~* ~a" resetchannels -@all (~b"' ~c) ~d\ resetchannels -@all +get)"#;
    assert_eq!(text(&user.line()), shown);
    let filed =
        r#"user bob off sanitize-payload %RW~* ~a" resetchannels -@all ("~b\"'" "~c)" ~d\ resetchannels -@all +get)"#;
    assert_eq!(text(&user.file_line()), filed);
    let mut users = Users::new(&catalogue);
    users.load(RuleBook { catalogue: &catalogue, all_channels: true }, "", filed.as_bytes()).unwrap();
    assert!(users.find(b"bob").unwrap().is_like(&user));
}

/// The user made by the rules that are valid one by one.
fn user_of(catalogue: &Catalogue, all_channels: bool, rules: &[String]) -> (Users, User) {
    let book = RuleBook { catalogue, all_channels };
    let mut users = Users::new(catalogue);
    users.set(book, b"bob", &["off"]).unwrap();
    for rule in rules {
        let _ = users.set(book, b"bob", &[rule]);
    }
    let user = User::clone(users.find(b"bob").unwrap());
    (users, user)
}

/// The commands that each selector allows, bit by bit.
fn allowed(catalogue: &Catalogue, user: &User) -> Vec<String> {
    let of = |selector: &crate::selector::Selector| {
        let ids = (0..catalogue.len() as u16).map(crate::catalogue::CommandId);
        let names: Vec<&str> = ids.filter(|id| selector.has(*id)).map(|id| catalogue.name(id)).collect();
        format!("{} {names:?} {:?}", selector.all_commands, selector.first_arguments)
    };
    user.all_selectors().map(of).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// A description makes the user again: the same flags, passwords, patterns and commands.
    #[test]
    fn descriptions_make_the_same_user(rules in rules(), all_channels: bool, later: bool) {
        let catalogue = catalogue();
        let (_, user) = user_of(&catalogue, all_channels, &rules);
        // Redis cannot read some descriptions that it shows. Files hold these in another form.
        prop_assume!(user.line() == user.file_line());
        let described = text(&user.rules());
        let words: Vec<&str> = described.split(' ').collect();
        let book = RuleBook { catalogue: &catalogue, all_channels: later };
        let mut users = Users::new(&catalogue);
        let again = users.set(book, b"bob", &words).unwrap().after.unwrap();
        prop_assert_eq!(text(&again.rules()), described.clone());
        prop_assert_eq!(allowed(&catalogue, &again), allowed(&catalogue, &user), "{}", described);
        prop_assert!(again.is_like(&user), "{described}\n{again:?}\n{user:?}");
    }

    /// A file and a snapshot of users make them again.
    #[test]
    fn files_and_snapshots_make_the_same_users(rules in rules(), all_channels: bool) {
        let catalogue = catalogue();
        let (users, user) = user_of(&catalogue, all_channels, &rules);
        let snapshot = Users::from_bytes(&catalogue, &users.to_bytes()).unwrap();
        prop_assert_eq!(&snapshot, &users);
        prop_assert_eq!(allowed(&catalogue, snapshot.find(b"bob").unwrap()), allowed(&catalogue, &user));
        let book = RuleBook { catalogue: &catalogue, all_channels: !all_channels };
        let mut loaded = Users::new(&catalogue);
        loaded.load(book, "", &users.file()).unwrap();
        let again = loaded.find(b"bob").unwrap();
        prop_assert!(again.is_like(&user), "{}\n{again:?}\n{user:?}", text(&users.file()));
    }
}
