//! Checks the repository: file lengths, the rooms of ARCHITECTURE.md, the places of `unsafe`, documents and packages.

mod circle;
mod documents;
mod packaging;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The rooms, the lowest first: a crate uses those before it.
const ROOMS: [&str; 23] = [
    "clocks",
    "headroom",
    "resp",
    "object",
    "rdb",
    "acl",
    "keyspace",
    "redolog",
    "store",
    "shipping",
    "command",
    "script",
    "txn",
    "quorum",
    "standby",
    "loggroup",
    "sentinel",
    "engine",
    "membership",
    "node",
    "net",
    "sim",
    "holdfast",
];

/// Lines of the longest source file allowed.
const LINES_MAX: usize = 700;

/// The files and folders below `crates` that may say `unsafe`.
const UNSAFE: &[&str] = &[
    "headroom/src/reserve.rs",
    "holdfast/src/bench/process.rs",
    "holdfast/src/memory/mapped.rs",
    "holdfast/src/memory/mod.rs",
    "holdfast/src/server/clock.rs",
    "holdfast/src/server/crash.rs",
    "holdfast/src/server/process.rs",
    "holdfast/src/server/title.rs",
    "holdfast/tests/support/process.rs",
    "engine/examples/checkpoint.rs",
    "engine/examples/follow.rs",
    "keyspace/examples/heap.rs",
    "keyspace/src/dying.rs",
    "keyspace/src/entry.rs",
    "keyspace/src/heap/",
    "keyspace/src/keyspace.rs",
    "keyspace/src/local.rs",
    "keyspace/src/segment.rs",
    "keyspace/src/table.rs",
    "keyspace/src/value.rs",
    "keyspace/tests/epochs.rs",
    "keyspace/tests/heap_exchange.rs",
    "keyspace/tests/latches.rs",
    "rdb/tests/damage.rs",
    "redolog/src/run/slice.rs",
    "redolog/src/run/soon.rs",
    "redolog/tests/held.rs",
    "net/examples/relay.rs",
    "net/src/lane.rs",
    "net/src/listen.rs",
    "net/src/epoll/wait.rs",
    "net/src/socket.rs",
    "net/src/uring/",
    "object/src/zset/prefetch.rs",
    "script/src/lua/",
    "store/tests/crash/power.rs",
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn collect_files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            collect_files(&path, extension, found);
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
}

/// Source files of all crates by their path below `crates`, except this one, which names forbidden words.
fn sources() -> BTreeMap<String, String> {
    let crates = crates();
    let mut found = Vec::new();
    collect_files(&crates, "rs", &mut found);
    let named = found.into_iter().map(|path| {
        let text = fs::read_to_string(&path).expect("text");
        let name = path.strip_prefix(&crates).unwrap_or(&path).to_string_lossy().into_owned();
        (name, text)
    });
    named.filter(|(name, _)| name != "holdfast/tests/repository.rs").collect()
}

/// The code of a line, before a comment.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or("")
}

/// The comment of a line, behind the code.
fn comment(line: &str) -> &str {
    line.split_once("//").map_or("", |(_, comment)| comment)
}

fn has_word(line: &str, word: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == word)
}

/// Clippy holds the sections about errors in the documents of functions, crate by crate.
#[test]
fn every_crate_says_when_functions_fail() {
    let wants = "#![warn(clippy::missing_errors_doc)]";
    for (name, text) in sources().iter().filter(|(name, _)| name.ends_with("/src/lib.rs")) {
        assert!(text.lines().any(|line| line == wants), "{name} lacks {wants}");
    }
}

#[test]
fn files_can_be_read_in_one_sitting() {
    for (name, text) in sources() {
        let lines = text.lines().count();
        assert!(lines <= LINES_MAX, "{name} has {lines} lines: it is two ideas");
    }
}

/// A test target is a folder with a `main.rs`. A file beside it that is no module of it would never be compiled.
#[test]
fn files_of_test_targets_are_compiled() {
    let mut sources = sources();
    sources.insert("holdfast/tests/repository.rs".into(), include_str!("repository.rs").into());
    for name in sources.keys() {
        let Some((folder, file)) = name.split_once("/tests/") else { continue };
        let parts: Vec<&str> = file.trim_end_matches(".rs").split('/').collect();
        let module = match parts[..] {
            // A target by itself.
            [] | [_] | [_, "main"] => continue,
            [.., module, "mod"] | [.., module] => module,
        };
        let tests = format!("{folder}/tests/");
        let is_declared = sources.iter().any(|(other, text)| {
            other.starts_with(&tests) && text.lines().any(|line| line.ends_with(&format!("mod {module};")))
        });
        assert!(folder.contains('/') || is_declared, "{name} is a module of nothing");
    }
}

#[test]
fn nothing_is_left_to_be_done() {
    for (name, text) in sources() {
        // In pieces, so that this file has none of the words.
        for mark in [concat!("to", "do!"), concat!("unimple", "mented!"), concat!("FIX", "ME"), concat!("TO", "DO")] {
            assert!(!text.contains(mark), "{name} has a {mark}");
        }
    }
}

#[test]
fn unsafe_is_where_it_is_known_to_be() {
    let sources = sources();
    let allowed = |name: &str| UNSAFE.iter().any(|u| if u.ends_with('/') { name.starts_with(u) } else { name == *u });
    let says = |text: &str| text.lines().any(|line| has_word(code(line), "unsafe"));
    for (name, text) in &sources {
        assert!(allowed(name) || !says(text), "{name} says unsafe");
    }
    for place in UNSAFE {
        let used = sources.iter().any(|(name, text)| name.starts_with(place) && says(text));
        assert!(used, "nothing unsafe is left in {place}: take it off the list");
    }
}

/// The names in the dependency tables of a manifest, with the rest of their lines.
fn dependencies(manifest: &str) -> Vec<(String, String)> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line.trim_end_matches(']').ends_with("dependencies");
        } else if inside && !line.is_empty() && !line.starts_with('#') {
            let end = line.find(['.', ' ', '=']).unwrap_or(line.len());
            found.push((line[..end].to_owned(), line[end..].to_owned()));
        }
    }
    found
}

/// The README starts the server with `cargo run`, which names no binary, and there are several. `./check` does not run
/// it, as that would build most crates once more.
#[test]
fn cargo_run_starts_the_server() {
    let mut manifests = Vec::new();
    collect_files(&crates(), "toml", &mut manifests);
    manifests.push(crates().join("../Cargo.toml"));
    let texts: Vec<String> = manifests.iter().map(|path| fs::read_to_string(path).expect("text")).collect();
    let chooses = |line: &&str| line.starts_with("default-run") || line.starts_with("default-members");
    let chosen: Vec<&str> = texts.iter().flat_map(|text| text.lines()).filter(chooses).collect();
    assert_eq!(chosen, ["default-run = \"holdfast\""]);
}

#[test]
fn rooms_use_lower_rooms_only() {
    let mut seen = Vec::new();
    for entry in fs::read_dir(crates()).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        let Ok(manifest) = fs::read_to_string(path.join("Cargo.toml")) else { continue };
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(room) = ROOMS.iter().position(|r| *r == name) else { panic!("{name} is no room") };
        for (dependency, rest) in dependencies(&manifest) {
            assert!(rest.replace(' ', "").contains("workspace=true"), "{name}: {dependency} is not the workspace's");
            if let Some(other) = ROOMS.iter().position(|r| *r == dependency) {
                assert!(other < room, "{name} uses {dependency}, which is not below it");
            }
        }
        seen.push(name);
    }
    seen.sort();
    let mut rooms = ROOMS;
    rooms.sort_unstable();
    assert_eq!(seen, rooms);
}

/// The checks of `tests/histories` find the mistakes of small histories, and none in right ones. Without Python they
/// are skipped.
#[test]
fn histories_with_mistakes_are_found() {
    let program = crates().join("../tests/histories/fixtures.py");
    let Ok(checked) = Command::new("python3").arg(program).output() else { return };
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

/// The calls that run a handler, and the only files of `node` that may use them. All other code needs an `Admitted`,
/// which only `admit` makes.
const RUNS_HANDLERS: [(&str, &[&str]); 7] = [
    (".run_in_block(", &["node/src/admission/mod.rs"]),
    (".run_in_attempt(", &["node/src/admission/mod.rs"]),
    ("engine.run(", &["node/src/admission/mod.rs"]),
    ("engine().run(", &[]),
    (".run)(", &[]),
    ("handler_of(", &["node/src/session/families.rs"]),
    ("impl Underway for", &["node/src/session/suspended.rs"]),
];

#[test]
fn no_second_path_leads_to_a_handler() {
    let sources = sources();
    let of_node = sources.iter().filter(|(name, _)| name.starts_with("node/src/"));
    let code_of = |text: &str| text.lines().map(code).map(str::trim).collect::<String>();
    let of_node: Vec<_> = of_node.map(|(name, text)| (name.as_str(), code_of(text))).collect();
    for (call, places) in RUNS_HANDLERS {
        let found = of_node.iter().filter(|(_, text)| text.contains(call)).map(|(name, _)| *name);
        assert_eq!(found.collect::<Vec<_>>(), places, "{call} runs a handler, or lets one go on");
    }
    let makes = of_node.iter().filter(|(_, text)| text.contains("Admitted { command }"));
    assert_eq!(makes.map(|(name, _)| *name).collect::<Vec<_>>(), ["node/src/admission/mod.rs"]);
}
