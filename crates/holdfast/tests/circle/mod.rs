//! Counts how tangled the files of `node` are: the largest circle of files that name one another, and the files that
//! add to `Worker`.
//!
//! A file *names* another one where a `use` or a path of it leads there. A path that leads through a re-export names
//! the file that defines the item. Re-exports, comments and tests themselves name nothing, and neither do calls of
//! methods.

use std::collections::{BTreeMap, BTreeSet};

/// The bounds only sink: a commit that lowers a number lowers its bound.
const CIRCLE_MAX: usize = 3;
const WORKER_FILES_MAX: usize = 17;
/// Places that ask whether the server is a node of a cluster.
const CLUSTER_ASKED_MAX: usize = 21;

const ROOT: &str = "node/src/";

/// A file, as far as the count needs it.
struct File {
    name: String,
    /// Its re-exports: the last word, and the path that it stands for.
    exports: Vec<(String, Vec<String>)>,
    /// The paths that it names, from the root of the crate.
    paths: Vec<Vec<String>>,
}

/// The words of the module that a file is.
fn module_of(name: &str) -> Vec<String> {
    let path = name.trim_start_matches(ROOT).trim_end_matches(".rs");
    let mut words: Vec<String> = path.split('/').map(str::to_owned).collect();
    if words.last().is_some_and(|last| last == "mod" || last == "lib") {
        words.pop();
    }
    words
}

/// A source without comments and quoted text.
fn bare(text: &str) -> String {
    let mut bare = String::with_capacity(text.len());
    for line in text.lines() {
        let mut quoted = false;
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\\' if quoted => drop(chars.next()),
                // A quotation mark in a character literal does not count.
                '\'' if !quoted && chars.peek() == Some(&'"') => drop(chars.next()),
                '"' => quoted = !quoted,
                '/' if !quoted && chars.peek() == Some(&'/') => break,
                c if !quoted => bare.push(c),
                _ => {}
            }
        }
        bare.push('\n');
    }
    bare
}

/// The paths of a tree of `use`, without its spaces.
fn paths_of(tree: &str) -> Vec<String> {
    let Some(open) = tree.find('{') else {
        return vec![tree.split(" as ").next().unwrap_or("").split_whitespace().collect()];
    };
    let (head, inner) = (tree[..open].trim(), &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())]);
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inner[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inner[start..]);
    let parts = parts.into_iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| paths_of(&format!("{head}{}", part.trim()))).collect()
}

/// The paths in code: words with `::` between them.
fn paths_in(code: &str) -> Vec<Vec<&str>> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let runs = code.split(|c: char| !is_word(c)).filter(|run| run.contains("::") && !run.starts_with(':'));
    runs.map(|run| run.split("::").filter(|word| !word.is_empty()).collect()).collect()
}

/// Statements of `mod` or `use`: the text before, the text of the statement, and its place.
fn statements<'a>(code: &'a str, word: &str) -> Vec<(&'a str, &'a str, usize, usize)> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = code[from..].find(word).map(|at| at + from) {
        from = at + word.len();
        let start = code[..at].rfind(['\n', ';', '{', '}']).map_or(0, |start| start + 1);
        let before = code[start..at].trim();
        let is_one = before.is_empty() || before == "pub" || before.starts_with("pub(") && before.ends_with(')');
        if let Some(len) = code[from..].find(';').filter(|_| is_one) {
            found.push((before, &code[from..from + len], start, from + len + 1));
        }
    }
    found
}

/// The code of a file without its tests, and the names of the files that are tests.
fn without_tests(text: &str) -> (String, Vec<String>) {
    let code = bare(text);
    let mut kept = String::new();
    let mut tests = Vec::new();
    let mut rest = code.as_str();
    while let Some(at) = rest.find("#[cfg(test)]") {
        kept.push_str(&rest[..at]);
        let item = rest[at..].split_once(']').map_or("", |(_, item)| item);
        let end = item.find([';', '{']).unwrap_or(item.len());
        if !item[end..].starts_with(';') {
            // Tests in place are at the end of their file.
            return (kept, tests);
        }
        tests.extend(item[..end].split_whitespace().last().map(str::to_owned));
        rest = &item[end + 1..];
    }
    kept.push_str(rest);
    (kept, tests)
}

fn read(name: &str, code: &str) -> File {
    let me = module_of(name);
    let mods: Vec<&str> = statements(code, "mod ").into_iter().map(|(_, name, ..)| name).collect();
    let absolute = |path: &[&str]| -> Option<Vec<String>> {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        match *path.first()? {
            "crate" => Some(owned(&path[1..])),
            "self" => Some([me.clone(), owned(&path[1..])].concat()),
            "super" => {
                let up = path.iter().take_while(|word| **word == "super").count();
                Some([me[..me.len().checked_sub(up)?].to_vec(), owned(&path[up..])].concat())
            }
            first if mods.contains(&first) => Some([me.clone(), owned(path)].concat()),
            _ => None,
        }
    };
    let (mut exports, mut paths, mut rest, mut done) = (Vec::new(), Vec::new(), String::new(), 0);
    for (before, tree, start, end) in statements(code, "use ") {
        for path in paths_of(tree) {
            let words: Vec<&str> = path.split("::").collect();
            let Some(absolute) = absolute(&words) else { continue };
            match before.is_empty() {
                true => paths.push(absolute),
                false => exports.push((words.last().copied().unwrap_or("").to_owned(), absolute)),
            }
        }
        rest.push_str(&code[done.min(start)..start]);
        done = end;
    }
    rest.push_str(&code[done..]);
    paths.extend(paths_in(&rest).iter().filter_map(|path| absolute(path)));
    File { name: name.to_owned(), exports, paths }
}

/// The file that a path leads to.
fn leads_to<'a>(files: &'a BTreeMap<Vec<String>, File>, path: &[String], hops: usize) -> Option<&'a str> {
    let len = (1..=path.len()).rev().find(|len| files.contains_key(&path[..*len]))?;
    let file = &files[&path[..len]];
    let export = file.exports.iter().find(|(name, _)| path.get(len) == Some(name));
    match export.filter(|_| hops > 0) {
        Some((_, to)) => leads_to(files, &[to.as_slice(), &path[len + 1..]].concat(), hops - 1),
        None => Some(&file.name),
    }
}

/// The largest set of files each of which leads to all others.
fn largest_circle<'a>(names: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeSet<&'a str> {
    let reach = |from: &'a str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(file) = next.pop() {
            next.extend(names[file].iter().copied().filter(|named| seen.insert(*named)));
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> = names.keys().map(|file| (*file, reach(file))).collect();
    let circle = |file: &&'a str| -> BTreeSet<&'a str> {
        reached[*file].iter().copied().filter(|other| reached[*other].contains(*file)).collect()
    };
    names.keys().map(circle).max_by_key(BTreeSet::len).unwrap_or_default()
}

#[test]
fn the_worker_comes_apart() {
    let sources = super::sources();
    let node = sources.iter().filter(|(name, _)| name.starts_with(ROOT));
    let parted: BTreeMap<&str, _> = node.map(|(name, text)| (name.as_str(), without_tests(text))).collect();
    let tests: BTreeSet<Vec<String>> = parted
        .iter()
        .flat_map(|(name, (_, tests))| tests.iter().map(|test| [module_of(name), vec![test.clone()]].concat()))
        .collect();
    let is_test = |name: &str| (1..=module_of(name).len()).any(|len| tests.contains(&module_of(name)[..len]));
    let code: BTreeMap<&str, &str> =
        parted.iter().filter(|(name, _)| !is_test(name)).map(|(name, (code, _))| (*name, code.as_str())).collect();
    let files: BTreeMap<Vec<String>, File> =
        code.iter().map(|(name, code)| (module_of(name), read(name, code))).collect();
    let named_by =
        |file: &File| -> BTreeSet<&str> { file.paths.iter().filter_map(|path| leads_to(&files, path, 8)).collect() };
    let names: BTreeMap<&str, BTreeSet<&str>> =
        files.values().map(|file| (file.name.as_str(), named_by(file))).collect();

    let circle = largest_circle(&names);
    let said = |file: &&str| {
        let inside: Vec<&str> = names[*file].intersection(&circle).copied().filter(|other| other != file).collect();
        format!("{file} names {}", inside.join(" "))
    };
    let lines: Vec<String> = circle.iter().map(said).collect();
    assert!(circle.len() <= CIRCLE_MAX, "{} files name one another:\n{}", circle.len(), lines.join("\n"));

    let adds = |code: &&str| code.lines().any(|line| line == "impl Worker {");
    let workers: Vec<&str> = code.iter().filter(|(_, code)| adds(code)).map(|(name, _)| *name).collect();
    let found = workers.len();
    assert!(found <= WORKER_FILES_MAX, "{found} files add to Worker:\n{}", workers.join("\n"));
}

/// Transactions over nodes, and links with what is forwarded over them, reach their worker through ports alone.
#[test]
fn rooms_with_a_port_know_no_worker() {
    let sources = super::sources();
    for room in ["transactions/", "cluster/"] {
        let folder = format!("{ROOT}{room}");
        let mut known = 0;
        for (name, text) in sources.iter().filter(|(name, _)| name.starts_with(&folder)) {
            let (code, _) = without_tests(text);
            let line = code.lines().find(|line| super::has_word(line, "Worker"));
            assert_eq!(line, None, "{name} names the worker: what it needs of it belongs into the port");
            known += 1;
        }
        assert!(known > 0, "no files of {room}");
    }
}

/// The groups of waits, and the files where each begins and ends.
const WAITS: [(&str, &[&str]); 6] = [
    ("KeyWait", &["worker/waits.rs"]),
    ("LogWait", &["durability/replies.rs"]),
    ("JobWait", &["worker/waits.rs"]),
    ("NodeWait", &["cluster/", "transactions/"]),
    ("OperatorWait", &["worker/waits.rs"]),
    ("Steps", &["worker/steps.rs"]),
];

/// The purpose of a wait is known only where its group begins and ends. Other files ask `Wait`.
#[test]
fn each_group_of_waits_has_one_place() {
    let sources = super::sources();
    let mut known = 0;
    for (name, text) in sources.iter().filter(|(name, _)| name.starts_with(ROOT)) {
        let name = &name[ROOT.len()..];
        let (code, _) = without_tests(text);
        for (group, places) in WAITS {
            let names = code.lines().any(|line| line.contains(&format!("{group}::")) && super::has_word(line, group));
            let is_place = name == "worker/wait.rs" || places.iter().any(|place| name.starts_with(place));
            // A timer that is due is passed to its group.
            let is_end = name == "worker/waits.rs";
            assert!(!names || is_place || is_end, "{name} names a wait of {group}: `worker/wait.rs` answers questions");
            known += usize::from(names);
        }
    }
    assert!(known >= WAITS.len(), "the groups of waits are not found");
}

/// `Peers::new` decides if a server is a node of a cluster. Behind it there is always a `Peers`, so other code need not
/// find out.
#[test]
fn peers_are_told_apart_once() {
    let sources = super::sources();
    let (mut asked, mut known) = (Vec::new(), 0);
    for (name, text) in sources.iter().filter(|(name, _)| name.starts_with(ROOT)) {
        let (code, _) = without_tests(text);
        for line in code.lines().filter(|line| !line.contains("fn ")) {
            let is_optional = line.contains("Option<") && super::has_word(line, "Peers");
            assert!(!is_optional, "{name} has peers that may be missing: {line}");
            known += usize::from(super::has_word(line, "Peers"));
            asked.extend((line.contains(".is_cluster()") || line.contains(".lacks_lease()")).then_some(name));
        }
    }
    assert!(known > 0 && !asked.is_empty(), "no peers are found");
    assert!(asked.len() <= CLUSTER_ASKED_MAX, "{} places ask for a cluster: {asked:?}", asked.len());
}
