//! Checks the documents: links lead somewhere, named files and tests exist, and rules that comments cite are defined.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::{collect_files, comment, crates, has_word, sources};

/// Lines of the README at most.
const README_LINES_MAX: usize = 120;
/// Columns of a line of prose at most.
const COLUMNS_MAX: usize = 120;
/// Columns of a row of a table at most.
const ROW_MAX: usize = 400;
/// Lines of a paragraph at most.
const PARAGRAPH_MAX: usize = 5;

/// Documents whose prose follows CONTRIBUTING, "Prose". Others are generated, or older.
const PROSE: [&str; 6] =
    ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/benchmarks.md", "docs/internals/", "docs/operating/"];

/// Rules of mechanisms that are not built need no citation. They are below this heading.
const NOT_BUILT: &str = "## Rules of what is not built";

fn root() -> PathBuf {
    crates().join("..")
}

/// All documents by their path below the root.
fn documents() -> BTreeMap<String, String> {
    let root = root();
    let mut found = Vec::new();
    for entry in fs::read_dir(&root).expect("a readable folder").flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|e| e == "md") {
            found.push(path);
        }
    }
    for folder in ["docs", "bench", "tests"] {
        collect_files(&root.join(folder), "md", &mut found);
    }
    let named = found.into_iter().map(|path| {
        let text = fs::read_to_string(&path).expect("text");
        (path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().into_owned(), text)
    });
    named.collect()
}

/// The lines of a document that are no code, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fence && !fenced).then_some((at + 1, line))
    })
}

/// The texts between backquotes, and the rest.
fn spans(line: &str) -> (Vec<&str>, String) {
    let mut quoted = Vec::new();
    let mut rest = String::new();
    for (at, piece) in line.split('`').enumerate() {
        if at % 2 == 1 {
            quoted.push(piece);
        } else {
            rest.push_str(piece);
        }
    }
    (quoted, rest)
}

/// The targets of the links in a line.
fn links(line: &str) -> Vec<String> {
    let (_, rest) = spans(line);
    let ends = rest.match_indices("](").map(|(at, _)| rest[at + 2..].to_owned());
    ends.filter_map(|link| Some(link[..link.find(')')?].to_owned())).collect()
}

/// The anchors of a document's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = lines(text).map(|(_, line)| line).filter(|line| line.starts_with('#'));
    let mut found = BTreeSet::new();
    for heading in headings.map(|line| line.trim_start_matches('#').trim()) {
        let kept =
            heading.to_lowercase().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>();
        let anchor = kept.replace(' ', "-");
        let again = (1..).map(|n| format!("{anchor}-{n}"));
        let free = std::iter::once(anchor.clone()).chain(again).find(|a| !found.contains(a));
        found.extend(free);
    }
    found
}

/// A path without the `..` in it.
fn tidy(path: &Path) -> String {
    let mut kept: Vec<String> = Vec::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(kept.pop()),
            Component::Normal(name) => kept.push(name.to_string_lossy().into_owned()),
            _ => {}
        }
    }
    kept.join("/")
}

#[test]
fn links_lead_somewhere() {
    let documents = documents();
    assert!(documents.len() > 30, "documents are not found");
    let mut wrong = Vec::new();
    for (name, text) in &documents {
        let folder = Path::new(name).parent().unwrap_or(Path::new(""));
        for (at, line) in lines(text) {
            for link in links(line).into_iter().filter(|link| !link.contains("://")) {
                let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
                let target = if file.is_empty() { name.clone() } else { tidy(&folder.join(file)) };
                let exists = root().join(&target).exists();
                let found = anchor.is_empty() || documents.get(&target).is_some_and(|t| anchors(t).contains(anchor));
                if !exists || !found {
                    wrong.push(format!("{name}:{at}: {link}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "links that lead nowhere:\n{}", wrong.join("\n"));
}

/// True if a quoted text names a file or folder of the tree: `folder/file.rs`, `folder/`, `folder/file.rs::name`.
fn is_path(quoted: &str) -> bool {
    let path = quoted.split("::").next().unwrap_or("");
    let plain = path.chars().all(|c| c.is_alphanumeric() || "/._-".contains(c));
    plain && path.contains('/') && (path.ends_with('/') || path.ends_with(".rs") || path.ends_with(".md"))
}

/// Folders that documents name and that a user makes.
const OF_USERS: [&str; 1] = ["dev-cluster/"];

/// True for a document that names files of the tree.
fn names_files(document: &str) -> bool {
    ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/formats.md"].contains(&document)
        || ["docs/internals/", "docs/operating/"].iter().any(|folder| document.starts_with(folder))
        || document.starts_with("tests/") && document.ends_with("README.md")
}

#[test]
fn files_and_tests_that_are_named_exist() {
    let mut wrong = Vec::new();
    for (name, text) in documents() {
        if !names_files(&name) {
            continue;
        }
        let folder = root().join(&name).parent().map(Path::to_path_buf).unwrap_or_default();
        for (at, line) in lines(&text) {
            for quoted in spans(line).0.into_iter().filter(|quoted| is_path(quoted) && !OF_USERS.contains(quoted)) {
                let (path, item) = quoted.split_once("::").unwrap_or((quoted, ""));
                let places = [root().join(path), crates().join(path), folder.join(path)];
                let found = places.iter().find(|place| place.exists());
                let has = |place: &PathBuf| {
                    item.is_empty()
                        || fs::read_to_string(place).is_ok_and(|text| text.lines().any(|line| has_word(line, item)))
                };
                if !found.is_some_and(has) {
                    wrong.push(format!("{name}:{at}: {quoted}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "files or tests that are not there:\n{}", wrong.join("\n"));
}

/// True if a word names a rule by a letter out of `letters`.
fn is_rule(word: &str, letters: &str) -> bool {
    let digits = word.get(1..).unwrap_or("");
    word.starts_with(|c| letters.contains(c))
        && matches!(digits.len(), 1 | 2)
        && digits.chars().all(|c| c.is_ascii_digit())
}

/// The rules that a comment cites.
fn cited(comment: &str) -> Vec<&str> {
    let says_rule = has_word(&comment.to_lowercase(), "rule") || has_word(&comment.to_lowercase(), "rules");
    // Some of the other letters with a number have other meanings elsewhere.
    let letters = if says_rule { "KLCTOGSMU" } else { "KLCTO" };
    comment.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| is_rule(word, letters)).collect()
}

#[test]
fn rules_that_are_cited_are_defined_and_those_that_are_built_are_cited() {
    let rules = fs::read_to_string(root().join("docs/internals/rules.md")).expect("rules.md");
    let (mut built, mut others) = (BTreeSet::new(), BTreeSet::new());
    let mut is_built = true;
    for (_, line) in lines(&rules) {
        is_built &= line != NOT_BUILT;
        let heading = line.strip_prefix("### ").or_else(|| line.strip_prefix("| "));
        let Some(rule) = heading.and_then(|rest| rest.split(' ').next()).filter(|rule| is_rule(rule, "KLCTOGSMU"))
        else {
            continue;
        };
        let is_new = if is_built { built.insert(rule) } else { others.insert(rule) };
        assert!(is_new, "{rule} is defined twice");
    }
    assert!(built.len() >= 35 && others.len() >= 20, "the rules are not found");
    let mut seen = BTreeSet::new();
    let sources = sources();
    for (name, text) in &sources {
        for (at, line) in text.lines().enumerate() {
            for rule in cited(comment(line)) {
                assert!(built.contains(rule) || others.contains(rule), "{name}:{}: rule {rule} is not defined", at + 1);
                seen.insert(rule);
            }
        }
    }
    let uncited: Vec<_> = built.iter().filter(|rule| !seen.contains(*rule)).collect();
    assert!(uncited.is_empty(), "no code cites {uncited:?}: are they kept?");
}

#[test]
fn prose_can_be_read() {
    let mut wrong = Vec::new();
    for (name, text) in documents() {
        if !PROSE.iter().any(|p| name.starts_with(p)) {
            continue;
        }
        let mut paragraph = 0;
        for (at, line) in lines(&text) {
            let is_prose = !line.is_empty() && !line.starts_with(['|', '#', '<']);
            let begins = line.trim_start().starts_with("- ")
                || line.trim_start().split_once(". ").is_some_and(|(n, _)| n.parse::<u32>().is_ok());
            paragraph = match (is_prose, begins) {
                (false, _) => 0,
                (true, true) => 1,
                (true, false) => paragraph + 1,
            };
            if is_prose && line.chars().count() > COLUMNS_MAX {
                wrong.push(format!("{name}:{at}: longer than {COLUMNS_MAX} columns"));
            }
            if paragraph == PARAGRAPH_MAX + 1 {
                wrong.push(format!("{name}:{at}: a paragraph of more than {PARAGRAPH_MAX} lines"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let readme = fs::read_to_string(root().join("README.md")).expect("README.md");
    assert!(readme.lines().count() <= README_LINES_MAX, "the README is longer than {README_LINES_MAX} lines");
}

#[test]
fn rows_of_tables_can_be_read() {
    let mut wrong = Vec::new();
    for (name, text) in documents() {
        let rows = lines(&text).filter(|(_, line)| line.starts_with('|'));
        let long = rows.filter(|(_, line)| line.chars().count() > ROW_MAX);
        wrong.extend(long.map(|(at, line)| format!("{name}:{at}: {} columns", line.chars().count())));
    }
    assert!(wrong.is_empty(), "rows of more than {ROW_MAX} columns:\n{}", wrong.join("\n"));
}

#[test]
fn pages_of_mechanisms_have_the_same_parts() {
    for (name, text) in documents() {
        let is_page =
            name.starts_with("docs/internals/") && !name.ends_with("rules.md") && !name.ends_with("glossary.md");
        for part in ["## Purpose", "## Source map", "## Rules", "## Known gaps"].iter().filter(|_| is_page) {
            assert!(lines(&text).any(|(_, line)| line == *part), "{name} has no {part}");
        }
    }
}

#[test]
fn the_contents_name_every_document() {
    let documents = documents();
    let contents = documents.get("docs/SUMMARY.md").expect("the contents");
    let named: BTreeSet<String> =
        lines(contents).flat_map(|(_, line)| links(line)).map(|link| tidy(&Path::new("docs").join(link))).collect();
    for name in documents.keys().filter(|name| name.starts_with("docs/") && *name != "docs/SUMMARY.md") {
        assert!(named.contains(name), "docs/SUMMARY.md does not name {name}");
    }
}
