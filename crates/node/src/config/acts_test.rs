//! A lint: rows say truly which settings have an effect.
//!
//! A setting that acts is a field of [`Settings`] or [`object::Limits`] that code outside this folder reads. A setting
//! whose field no code reads must say that it has no effect.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::row::Acts;
use super::table;

/// All code of the workspace that may read settings: not this folder, not tests.
fn code() -> String {
    fn add(path: &Path, code: &mut String) {
        for entry in fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if !path.ends_with("node/src/config") && name != "tests" && name != "target" {
                    add(&path, code);
                }
            } else if name.ends_with(".rs") && !name.ends_with("tests.rs") && name != "limits.rs" {
                code.push_str(&fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut all = String::new();
    add(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut all);
    // A field that `Limits` itself reads counts as read where its method is called.
    if all.contains(".list_exceeds(") {
        all.push_str(".list_max_listpack_size ");
    }
    all
}

/// The public fields of a structure in a source text.
fn fields(source: &str, structure: &str) -> Vec<String> {
    let body = source.split_once(&format!("pub struct {structure} {{\n")).unwrap().1.split_once("\n}").unwrap().0;
    let names = body.lines().filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(':'));
    names.map(|(name, _)| name.to_owned()).collect()
}

/// True if the code has `.field`, and not only as the beginning of a longer name.
fn is_read(code: &str, field: &str) -> bool {
    let dotted = format!(".{field}");
    let ends = |at: usize| {
        let next = code.as_bytes().get(at + dotted.len());
        !next.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'(')
    };
    code.match_indices(&dotted).any(|(at, _)| ends(at))
}

#[test]
fn settings_that_act_are_read_and_others_are_not() {
    let code = code();
    let limits = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../object/src/limits.rs")).unwrap();
    let mut fields = [fields(include_str!("settings.rs"), "Settings"), fields(&limits, "Limits")].concat();
    fields.retain(|field| field != "tunables");
    let mut read = BTreeMap::new();
    for field in fields {
        let setting = match field.as_str() {
            "output_limit_normal" | "output_limit_replica" | "output_limit_pubsub" => {
                "client-output-buffer-limit".to_owned()
            }
            other => other.replace('_', "-"),
        };
        *read.entry(setting).or_insert(false) |= is_read(&code, &field);
    }
    let mut wrong = Vec::new();
    for (_, row) in table::rows() {
        match (row.acts, read.remove(row.name)) {
            (Acts::Yes, Some(true)) | (Acts::No(_) | Acts::Refused(_), Some(false) | None) => {}
            (Acts::Yes, _) => wrong.push(format!("nothing reads '{}': mark its row `.inert(why)`", row.name)),
            (_, Some(true)) => {
                wrong.push(format!("'{}' is read: its row must not say that it has no effect", row.name))
            }
        }
    }
    wrong.extend(read.keys().map(|setting| format!("'{setting}' is a field, but no row has this name")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
