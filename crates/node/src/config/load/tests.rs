use std::collections::BTreeMap;

use super::*;

/// Files in memory.
#[derive(Default)]
struct Memory(BTreeMap<PathBuf, Vec<u8>>);

impl Memory {
    fn of(files: &[(&str, &str)]) -> Memory {
        Memory(files.iter().map(|(path, text)| (path.into(), text.as_bytes().to_vec())).collect())
    }
}

impl Files for Memory {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.0.get(path).cloned().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "No such file or directory"))
    }

    fn matching(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        let pattern = pattern.as_os_str().as_encoded_bytes();
        let matches = |path: &&PathBuf| object::glob::matches(pattern, path.as_os_str().as_encoded_bytes());
        Ok(self.0.keys().filter(matches).cloned().collect())
    }
}

fn start(files: &[(&str, &str)], args: &[&str]) -> Result<Loaded, LoadError> {
    let args: Vec<_> = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
    load(&Arguments::parse(&args), &Memory::of(files), &mut || Ok(b"maxmemory 7mb\n".to_vec()))
}

fn get(loaded: &Loaded, name: &str) -> String {
    let found = loaded.values.matching(&[name.as_bytes()]);
    String::from_utf8(found.into_iter().next().expect("a setting").1).unwrap()
}

fn error(args: &[&str]) -> String {
    start(&[], args).expect_err("an error").to_string()
}

/// The configuration of Redis's test suite, spelled out here because no file of Redis is in this tree.
const SUITE: &str = "always-show-logo yes\nnotify-keyspace-events KEA\ndaemonize no\npidfile /var/run/redis.pid\n\
    port 6379\ntimeout 0\nbind 127.0.0.1\nloglevel verbose\nlogfile ''\ndatabases 16\nlatency-monitor-threshold 1\n\
    repl-diskless-sync-delay 0\n# a comment\nsave ''\n\nrdbcompression yes\ndbfilename dump.rdb\ndir ./\n\n\
    slave-serve-stale-data yes\nappendonly no\nappendfsync everysec\nno-appendfsync-on-rewrite no\n\
    activerehashing yes\nenable-protected-configs yes\nenable-debug-command yes\nenable-module-command yes\n\
    propagation-error-behavior panic\nshutdown-on-sigterm force\n";

#[test]
fn the_suite_s_file_is_taken() {
    let loaded = start(&[("d.conf", SUITE)], &["d.conf"]).unwrap();
    assert_eq!(get(&loaded, "notify-keyspace-events"), "AKE");
    assert_eq!(get(&loaded, "save"), "");
    assert_eq!(get(&loaded, "slave-serve-stale-data"), "yes");
    assert!(
        loaded
            .warnings
            .iter()
            .any(|warning| warning == "setting 'enable-module-command' has no effect at 'yes': there are no modules")
    );
    assert_eq!(loaded.file, Some("d.conf".into()));
}

#[test]
fn save_points_replace_the_defaults_and_then_add_up() {
    let save = |text: &str, args: &[&str]| {
        let args: Vec<_> = ["d.conf"].iter().chain(args).copied().collect();
        get(&start(&[("d.conf", text)], &args).unwrap(), "save")
    };
    assert_eq!(save("", &[]), "3600 1 300 100 60 10000");
    assert_eq!(save("save 100 100", &[]), "100 100");
    assert_eq!(save("save 900 1", &["--save", "100", "100"]), "900 1 100 100");
    assert_eq!(save("save 900 1", &["--save", ""]), "");
    assert_eq!(save("save 900 1", &["--save"]), "");
    assert_eq!(save("save 3600 1 300 100", &["--loglevel", "verbose"]), "3600 1 300 100");
    assert_eq!(save("save \"3600 1 300 100\"\nsave ''\nsave 1 2", &[]), "1 2");
}

#[test]
fn errors_of_the_command_line() {
    for (args, wanted) in [
        (&["--invalid"][..], &["Bad directive or wrong number of arguments"][..]),
        (&["--port"], &["'port'", "wrong number of arguments"]),
        (&["--port", "6380", "--loglevel"], &["'loglevel'", "wrong number of arguments"]),
        (&["--port", "6379", "6380"], &[r#"'port "6379" "6380"'"#, "wrong number of arguments"]),
        (&["--port", "--loglevel", "verbose"], &[r#"'port "--loglevel" "verbose"'"#, "wrong number of arguments"]),
        (
            &["--port", "--bla", "--loglevel", "verbose"],
            &[r#"'port "--bla"'"#, "argument couldn't be parsed into an integer", "an integer from 0 to 65535"],
        ),
        (
            &["--logfile", "--my--log--file", "--loglevel", "--bla"],
            &[r#"'loglevel "--bla"'"#, "argument(s) must be one of the following"],
        ),
        (&["--shutdown-on-sigint"], &["'shutdown-on-sigint'", "argument(s) must be one of the following"]),
        (
            &["--shutdown-on-sigint", "now force", "--shutdown-on-sigterm"],
            &["'shutdown-on-sigterm'", "argument(s) must be one of the following"],
        ),
        (&["--replicaof", "127.0.0.1", "abc"], &[r#"'replicaof "127.0.0.1" "abc"'"#, "Invalid master port"]),
        (&["--replicaof", "--127.0.0.1", "--abc"], &[r#"'replicaof "--127.0.0.1"'"#, "wrong number of arguments"]),
        (&["--log-dirs", ""], &["'log-dirs", "needs a directory"]),
        (&["--store", "s3://bucket"], &["'store'", "not built yet"]),
        (&["--proc-title-template", "{x}"], &["template format is invalid"]),
    ] {
        let text = error(args);
        for wanted in wanted {
            assert!(text.contains(wanted), "{args:?}: no {wanted:?} in {text}");
        }
    }
}

#[test]
fn options_of_several_words() {
    let args = ["--shutdown-on-sigint", "nosave", "force", "now", "--shutdown-on-sigterm", "nosave force"];
    let loaded = start(&[], &args).unwrap();
    assert_eq!(get(&loaded, "shutdown-on-sigint"), "nosave now force");
    assert_eq!(get(&loaded, "shutdown-on-sigterm"), "nosave force");
    let loaded = start(&[], &["--maxmemory 700mb", "--maxmemory-policy 'volatile-lru'"]).unwrap();
    assert_eq!(
        (get(&loaded, "maxmemory"), get(&loaded, "maxmemory-policy")),
        ("734003200".into(), "volatile-lru".into())
    );
    let loaded = start(&[], &["--hash-max-ziplist-entries", "20", "--hash-max-listpack-entries", "21"]).unwrap();
    assert_eq!(get(&loaded, "hash-max-ziplist-entries"), "21");
    assert_eq!(get(&start(&[], &["--hz", "100000"]).unwrap(), "hz"), "500");
}

#[test]
fn files_name_the_file_and_the_line() {
    let text = start(&[("/etc/h.conf", "# first\n\nport x\n")], &["/etc/h.conf"]).unwrap_err().to_string();
    assert!(text.contains("FATAL CONFIG FILE ERROR"), "{text}");
    assert!(text.contains("Reading the configuration file /etc/h.conf, at line 3\n>>> 'port x'\n"), "{text}");
    let text = start(&[], &["missing.conf"]).unwrap_err().to_string();
    assert!(text.contains("can't open config file 'missing.conf'"), "{text}");
    let text = start(&[("a", "port \"1")], &["a"]).unwrap_err().to_string();
    assert!(text.contains("Unbalanced quotes in configuration line"), "{text}");
}

#[test]
fn includes() {
    let files = [
        ("main.conf", "include a/*.conf\ninclude none/*.conf\ninclude more.conf\nport 5"),
        ("a/1.conf", "port 1\nhz 50"),
        ("a/2.conf", "port 2\ntimeout 9"),
        ("more.conf", "port 3\nmaxclients 4"),
    ];
    let loaded = start(&files, &["main.conf"]).unwrap();
    for (name, value) in [("port", "5"), ("hz", "50"), ("timeout", "9"), ("maxclients", "4")] {
        assert_eq!(get(&loaded, name), value, "{name}");
    }
    let text = start(&[("m", "include gone.conf")], &["m"]).unwrap_err().to_string();
    assert!(text.contains("'gone.conf'"), "{text}");
    for itself in ["include m", "include m\ninclude m"] {
        let text = start(&[("m", itself)], &["m"]).unwrap_err().to_string();
        assert!(text.contains("too many included files"), "{text}");
    }
}

#[test]
fn other_lines() {
    let text = "RENAME-COMMAND flushdb badger\nrename-command keys \"\"\nlist-max-ziplist-entries 5\n";
    let loaded = start(&[("m", text)], &["m", "--port", "1", "-"]).unwrap();
    assert_eq!(loaded.renames, [(b"flushdb".into(), b"badger".into()), (b"keys".into(), b"".to_vec())]);
    assert_eq!(get(&loaded, "maxmemory"), "7340032", "from standard input");
    for bad in ["loadmodule x.so", "sentinel monitor a", "mod.setting 1", "rename-command a", "user", "what 1"] {
        assert!(start(&[("m", bad)], &["m"]).is_err(), "{bad}");
    }
}

/// Names of commands: some exist, some only Redis has, others are unknown.
fn renames(text: &str) -> Result<Renames, LoadError> {
    start(&[("m", text)], &["m"])?
        .renames(|name| name == b"get", |name| [b"sync".as_slice(), b"migrate"].contains(&name))
}

#[test]
fn a_rename_of_what_is_not_there_changes_nothing_and_one_of_nothing_names_its_line() {
    assert!(renames("rename-command SYNC \"\"\nrename-command migrate secret\n").unwrap().is_empty());
    let error = renames("port 1\nrename-command GET \"\"\nrename-command nothing x\n").unwrap_err().to_string();
    assert!(error.contains("file m, at line 3\n>>> 'rename-command nothing x'\nNo such command"), "{error}");
}

#[test]
fn a_line_for_the_default_user_is_its_password() {
    let loaded = |text: &str, args: &[&str]| {
        let args: Vec<_> = ["m"].iter().chain(args).copied().collect();
        start(&[("m", text)], &args)
    };
    let rest = "~* &* +@all";
    let hash = "1ec1c26b50d5d3c58d9583181af8076655fe00756bf7285940ba3670f99fcba0";
    for (text, args, password, hashed) in [
        (format!("user default on >abc {rest}"), &[][..], "abc", false),
        (format!("requirepass old\nuser default on >abc {rest}"), &[], "abc", false),
        (format!("user default on nopass {rest}\nrequirepass old"), &[], "", false),
        (format!("user default on nopass {rest}"), &["--requirepass", "new"], "new", false),
        (format!("user default on #{hash} {rest}"), &[], "", true),
        (format!("requirepass s3cret\nuser default on #{hash} {rest}"), &[], "s3cret", false),
        (format!("requirepass other\nuser default on #{hash} {rest}"), &[], "", true),
    ] {
        let loaded = loaded(&text, args).unwrap();
        assert_eq!(
            (get(&loaded, "requirepass").as_str(), loaded.hash.is_some()),
            (password, hashed),
            "{text} {args:?}"
        );
    }
    for (text, why) in [
        ("port 1\nuser alice on >secret ~* +nosuch", "at line 2\n>>> 'user alice on >(redacted) ~* +nosuch'\nError in"),
        (
            "user alice on\nuser alice on >secret",
            "at line 2\n>>> 'user alice on >(redacted)'\nError in user declaration",
        ),
        ("user default on nopass ~* &* +@all\nuser default on nopass ~* &* +@all", "at line 2"),
        ("user default on nopass ~* &* +@all\nuser default off", "at line 2"),
    ] {
        let table = crate::table::Table::new();
        let users = loaded(text, &[]).and_then(|loaded| crate::users::configured(&table, &loaded));
        let error = users.unwrap_err().to_string();
        assert!(error.contains(why) && !error.contains("secret"), "{error}");
    }
    let table = crate::table::Table::new();
    let loaded = loaded("user alice on >a +get ~a*\nuser bob on nopass", &[]).unwrap();
    assert!(!crate::users::configured(&table, &loaded).unwrap().is_empty());
}

/// A user of a Redis file expects its snapshots to keep the data.
#[test]
fn without_a_log_a_file_keeps_its_save_points() {
    let args = |more: &[&'static str]| [&["m"], more].concat();
    let save = |text: &str, more: &[&'static str]| get(&start(&[("m", text)], &args(more)).unwrap(), "save");
    const DEFAULT: &str = "3600 1 300 100 60 10000";
    for (text, more, points) in [
        ("port 1\nappendonly no", &[][..], DEFAULT),
        ("save 900 1\nappendonly no", &[], "900 1"),
        ("save 60 1", &["--appendonly", "no"], "60 1"),
        ("", &["--appendonly", "no", "--save", "60", "1"], "60 1"),
        ("appendonly no\nsave ''", &[], ""),
        ("appendonly no", &["--appendonly", "yes"], DEFAULT),
        ("", &["--appendonly", "no"], ""),
        ("appendonly no", &["--appendonly", "no"], ""),
    ] {
        assert_eq!(save(text, more), points, "{text} {more:?}");
    }
}

#[test]
fn the_last_value_counts_for_what_is_not_built() {
    let loaded = start(&[("m", "store s3://bucket")], &["m", "--store", "embedded"]).unwrap();
    assert_eq!(get(&loaded, "store"), "embedded");
}

proptest::proptest! {
    #[test]
    fn any_text_is_taken(text: Vec<u8>, args: Vec<Vec<u8>>) {
        let files = Memory([(PathBuf::from("m"), text)].into());
        let mut args = args;
        args.insert(0, b"m".to_vec());
        let _ = load(&Arguments::parse(&args), &files, &mut || Ok(Vec::new()));
    }
}
