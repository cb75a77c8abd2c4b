use std::sync::{Arc, Mutex};

use super::*;
use crate::config::live::{Follower, Live};

const FREE: Rights = Rights { protected: true, loading: false };

/// The calls that a [`Fake`] has got.
#[derive(Debug, Default)]
struct Told {
    applied: Vec<(&'static str, u16, u64)>,
    dir: Vec<u8>,
}

/// A host whose port 7000 is taken.
#[derive(Clone, Debug, Default)]
struct Fake(Arc<Mutex<Told>>);

impl Host for Fake {
    fn enter_dir(&mut self, path: &[u8]) -> Result<Vec<u8>, String> {
        if path == b"gone" {
            return Err("No such file or directory".into());
        }
        self.0.lock().unwrap().dir = path.to_vec();
        Ok([b"/abs/", path].concat())
    }

    fn apply(&mut self, row: &'static Row, settings: &Settings) -> Result<(), String> {
        self.0.lock().unwrap().applied.push((row.name, settings.port, settings.maxmemory));
        if row.name == "port" && settings.port == 7000 {
            return Err("Unable to listen on this port. Check server logs.".into());
        }
        Ok(())
    }
}

fn live() -> (Arc<Live>, Fake) {
    let (live, fake) = (Arc::new(Live::default()), Fake::default());
    live.set_host(Box::new(fake.clone()));
    (live, fake)
}

fn set(live: &Live, args: &[&str]) -> Result<(), String> {
    let args: Vec<_> = args.iter().map(|arg| arg.as_bytes()).collect();
    live.set(&args, FREE).map_err(|error| String::from_utf8(error.text()).unwrap())
}

fn get(live: &Live, name: &str) -> String {
    String::from_utf8(live.get(&[name.as_bytes()]).remove(0).1).unwrap()
}

#[test]
fn refusals_and_their_texts() {
    let (live, _) = live();
    for (args, text) in [
        (&["nothing", "1"][..], "ERR Unknown option or number of arguments for CONFIG SET - 'nothing'"),
        (&["maxmemory"], "ERR syntax error"),
        (
            &["maxmemory", "10000001", "maxmemory", "10000002"],
            "ERR CONFIG SET failed (possibly related to argument 'maxmemory') - duplicate parameter",
        ),
        (
            &["slave-read-only", "no", "replica-read-only", "no"],
            "ERR CONFIG SET failed (possibly related to argument 'replica-read-only') - duplicate parameter",
        ),
        (
            &["daemonize", "yes"],
            "ERR CONFIG SET failed (possibly related to argument 'daemonize') - can't set immutable config",
        ),
        (
            &["maxmemory", "10000001", "maxmemory-clients", "200%", "client-query-buffer-limit", "invalid"],
            "ERR CONFIG SET failed (possibly related to argument 'maxmemory-clients') - percentage argument must be \
             less or equal to 100",
        ),
        (
            &["port", "65536"],
            "ERR CONFIG SET failed (possibly related to argument 'port') - argument must be between 0 and 65535 \
             inclusive",
        ),
        (
            &["latency-tracking", "x"],
            "ERR CONFIG SET failed (possibly related to argument 'latency-tracking') - argument must be 'yes' or 'no'",
        ),
        (
            &["loglevel", "x"],
            "ERR CONFIG SET failed (possibly related to argument 'loglevel') - argument(s) must be one of the \
             following: debug, verbose, notice, warning, nothing",
        ),
        (&["dir", "gone"], "ERR CONFIG SET failed (possibly related to argument 'dir') - No such file or directory"),
    ] {
        assert_eq!(set(&live, args), Err(text.to_owned()), "{args:?}");
    }
    let protected = Rights { protected: false, loading: false };
    let error = live.set(&[b"dir", b"x"], protected).unwrap_err();
    assert!(error.text().ends_with(b"can't set protected config"));
    let loading = Rights { protected: true, loading: true };
    assert_eq!(live.set(&[b"dir", b"x"], loading), Err(SetError::Loading));
    assert_eq!(live.generation(), 0, "nothing was changed");
}

#[test]
fn several_settings_at_once() {
    let (live, _) = live();
    let mut follower = Follower::new(Arc::clone(&live));
    set(&live, &["maxmemory", "10000001", "repl-backlog-size", "10000002", "save", "3000 5"]).unwrap();
    assert_eq!(get(&live, "save"), "3000 5");
    assert_eq!(get(&live, "repl-backlog-size"), "10000002");
    assert_eq!(follower.settings().maxmemory, 0, "a snapshot stays as it is");
    assert!(follower.refresh() && !follower.refresh());
    assert_eq!(follower.settings().maxmemory, 10000001);
    set(&live, &["maxmemory", "10000001", "SAVE", "3000 5"]).unwrap();
    assert!(!follower.refresh(), "nothing changed");
    set(&live, &["save", "", "hz", "100000", "notify-keyspace-events", "KEA"]).unwrap();
    assert_eq!((get(&live, "save"), get(&live, "hz")), (String::new(), "500".to_owned()));
    assert_eq!(get(&live, "notify-keyspace-events"), "AKE");
}

#[test]
fn what_fails_outside_is_taken_back() {
    let (live, host) = live();
    let error = set(&live, &["maxmemory", "5", "port", "7000", "hz", "20", "dir", "d"]).unwrap_err();
    assert_eq!(
        error,
        "ERR CONFIG SET failed (possibly related to argument 'port') - Unable to listen on this port. Check server \
         logs."
    );
    assert_eq!(
        host.0.lock().unwrap().applied,
        [("maxmemory", 7000, 5), ("port", 7000, 5), ("port", 6379, 0), ("maxmemory", 6379, 0)],
        "applied up to the failure, then back in reverse"
    );
    assert_eq!(host.0.lock().unwrap().dir, b"./");
    assert_eq!((get(&live, "maxmemory"), get(&live, "port")), ("0".to_owned(), "6379".to_owned()));
    set(&live, &["dir", "d"]).unwrap();
    assert_eq!(get(&live, "dir"), "/abs/d");
}

/// Redis's "CONFIG sanity": SET takes the values that GET shows, and nothing changes by it.
#[test]
fn what_get_shows_set_takes() {
    let live = Live::default();
    let before = live.get(&[b"*"]);
    for (name, value) in &before {
        let (_, row) = table::find(name).unwrap();
        if row.immutable && !row.own {
            continue;
        }
        live.set(&[name, value], FREE).unwrap_or_else(|error| {
            panic!("{}: {}", String::from_utf8_lossy(name), String::from_utf8_lossy(&error.text()))
        });
    }
    assert_eq!(live.get(&[b"*"]), before);
    assert_eq!(live.generation(), 0);
}

proptest::proptest! {
    #[test]
    fn any_arguments_are_taken(index in 0..230usize, text: Vec<u8>, text2 in "[-0-9a-zA-Z% ]{0,20}") {
        let live = Live::default();
        let names: Vec<_> = table::names().map(|(name, ..)| name).collect();
        let name = names[index % names.len()].as_bytes();
        for text in [text.as_slice(), text2.as_bytes()] {
            if live.set(&[name, text], FREE).is_ok() {
                // A value that was taken is shown in a form that is taken again, and means the same.
                let shown = live.get(&[name]).remove(0).1;
                if name != b"dir" {
                    live.set(&[name, &shown], FREE).unwrap();
                    proptest::prop_assert_eq!(live.get(&[name]).remove(0).1, shown);
                }
            }
        }
    }
}
