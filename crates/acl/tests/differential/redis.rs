//! A real redis-server with users, and the catalogue of its commands.

use std::path::{Path, PathBuf};

use acl::{Catalogue, Categories, Channels, Declared};
use resp::Value;

use crate::peer::Peer;

/// The name of the file that ACL LOAD reads.
const USERS: &str = "users.acl";

/// Starts a server with these users.
pub fn start(program: &Path, users: &str) -> Peer {
    Peer::start(program, &["--bind", "127.0.0.1", "--save", "", "--aclfile", USERS], &[(USERS, users)])
}

/// The file that ACL LOAD reads.
pub fn users_file(redis: &Peer) -> PathBuf {
    redis.file(USERS)
}

/// The commands of a server.
pub fn catalogue(redis: &mut Peer) -> Catalogue {
    let mut declared = Vec::new();
    items(&redis.words("command")).iter().for_each(|command| declare(command, &mut declared));
    Catalogue::new(declared)
}

pub fn text(value: &Value) -> String {
    match value {
        Value::Bulk(text) | Value::Simple(text) | Value::Error(text) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("no text: {other:?}"),
    }
}

pub fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) | Value::Set(items) => items,
        other => panic!("no array: {other:?}"),
    }
}

/// A command of COMMAND's reply, with its subcommands.
fn declare(command: &Value, declared: &mut Vec<Declared>) {
    let fields = items(command);
    let name = text(&fields[0]);
    let Value::Integer(arity) = fields[1] else { panic!("{name} has no arity") };
    let categories: Vec<String> = items(&fields[6]).iter().map(text).collect();
    let known = categories.iter().map(|name| name.trim_start_matches('@'));
    declared.push(Declared {
        arity: arity as i32,
        categories: Categories::named(known).unwrap_or_else(|| panic!("{name} has other categories")),
        is_free: items(&fields[2]).iter().any(|flag| text(flag) == "no_auth"),
        channels: match &*name {
            "publish" | "spublish" => Channels::First,
            "subscribe" | "ssubscribe" => Channels::All,
            "psubscribe" => Channels::Patterns,
            _ => Channels::None,
        },
        is_hidden: false,
        name,
    });
    items(&fields[9]).iter().for_each(|sub| declare(sub, declared));
}
