//! Settings that are the cluster's ([`super::Owner`]) as its metadata have them: names, and values as `CONFIG GET`
//! shows them. A setting that is not named has its default.

use std::collections::{BTreeMap, BTreeSet};

use super::kind::Value;
use super::login;
use super::row::Row;
use super::table::{self, Id};
use super::values::{Values, default_of, words_of};

/// The name of a password's SHA-256, in hexadecimal digits; empty if the password itself is known, or there is none.
pub const HASH: &str = "requirepass-sha256";

/// The setting that it belongs to.
const PASSWORD: &str = "requirepass";

/// The setting of a shard that says whether it has a log.
const HAS_LOG: &str = "appendonly";

/// A name and a value.
pub type Shared = (&'static str, Vec<u8>);

/// The rows of the cluster's settings.
fn rows() -> impl Iterator<Item = (Id, &'static Row)> {
    table::rows().filter(|(_, row)| row.is_of_cluster())
}

/// The cluster's settings among the arguments of `CONFIG SET`, with their values from `values`, which are those after
/// it.
pub(super) fn named(values: &Values, args: &[&[u8]]) -> Vec<Shared> {
    let names = args.iter().step_by(2).filter_map(|name| table::find(name));
    let of_cluster = names.filter(|(_, row)| row.is_of_cluster());
    let mut named: Vec<Shared> = of_cluster.map(|(id, row)| (row.name, values.show(id, row))).collect();
    if named.iter().any(|(name, _)| *name == PASSWORD) {
        // A new password, whatever it is, replaces the one that is known by its hash.
        named.push((HASH, Vec::new()));
    }
    named
}

/// The cluster's settings of a node that are not at their defaults.
pub(super) fn first(values: &Values, hash: Option<&[u8; 32]>) -> Vec<Shared> {
    let own = rows().filter(|(id, row)| *values.get(*id) != default_of(row));
    let own = own.map(|(id, row)| (row.name, values.show(id, row)));
    own.chain(hash.map(|hash| (HASH, login::digits_of(hash).into_bytes()))).collect()
}

/// The settings in the metadata, as this node understands them.
pub(super) struct Taken {
    pub values: Values,
    pub hash: Option<[u8; 32]>,
}

/// The values of a node, with the cluster's settings put in.
pub(super) fn read<'a>(values: &Values, settings: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Taken {
    let mut settings: BTreeMap<&str, &[u8]> = settings.into_iter().collect();
    let mut taken = Taken { values: values.clone(), hash: None };
    if let Some(digits) = settings.remove(HASH) {
        taken.hash = login::hash_of(digits);
    }
    for (id, row) in rows() {
        taken.values.put(id, default_of(row));
        let Some(text) = settings.remove(row.name) else { continue };
        match taken.values.read(id, row, &words_of(row.kind, text)) {
            Ok(value) => taken.values.put(id, value),
            Err(why) => tracing::warn!(
                cause = row.name,
                "the cluster's value of '{}' is not taken, it has its default: {why}",
                row.name
            ),
        }
    }
    for name in settings.keys() {
        tracing::warn!(cause = *name, "the cluster has a setting that this version does not know: '{name}'");
    }
    taken
}

/// The cluster's settings that differ.
pub(super) fn changed(before: &Values, after: &Values) -> Vec<(Id, &'static Row)> {
    rows().filter(|(id, _)| before.get(*id) != after.get(*id)).collect()
}

/// Takes the cluster's settings out of `named`.
pub(super) fn take_named(named: &mut BTreeSet<Id>) -> BTreeSet<Id> {
    rows().map(|(id, _)| id).filter(|id| named.remove(id)).collect()
}

/// The settings of a shard, with their values.
pub(super) fn of_shard(values: &Values) -> Vec<Shared> {
    table::rows().filter(|(_, row)| row.is_of_shard()).map(|(id, row)| (row.name, values.show(id, row))).collect()
}

/// The settings of a shard that its metadata have otherwise than this node, with the metadata's values. A log that was
/// switched off stays so until a start that has it on: that loads what is on the disks.
pub(super) fn other_of_shard<'a>(
    values: &Values,
    settings: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Vec<(Id, &'static Row, Value)> {
    let row = |name: &str| table::find(name.as_bytes()).filter(|(_, row)| row.is_of_shard());
    let read = |(name, text): (&str, &str)| {
        let Some((id, row)) = row(name) else {
            tracing::warn!(cause = name, "the shard has a setting that this version does not know: '{name}'");
            return None;
        };
        match values.read(id, row, &words_of(row.kind, text.as_bytes())) {
            Ok(value) => Some((id, row, value)),
            Err(why) => {
                tracing::warn!(cause = row.name, "the shard's value of '{name}' is not taken: {why}");
                None
            }
        }
    };
    let is_other = |(id, row, value): &(Id, &Row, Value)| {
        values.get(*id) != value && !(row.name == HAS_LOG && *value == Value::Bool(false))
    };
    settings.into_iter().filter_map(read).filter(is_other).collect()
}

/// Logs that the shard has another value than this node's file or command line.
pub(super) fn say_of_shard(before: &Values, after: &Values, (id, row): (Id, &'static Row), is_named: bool) {
    let (was, is) = (shown(before, id, row), shown(after, id, row));
    if is_named {
        tracing::warn!(
            cause = row.name,
            "'{}' is '{was}' in this node's configuration and '{is}' in the shard that it owns: the shard's value holds. CONFIG SET at this node changes it, CONFIG REWRITE brings the file up to date",
            row.name
        );
    } else {
        tracing::info!(cause = row.name, "'{}' is '{is}', as the shard of this node has it; it was '{was}'", row.name);
    }
}

/// A value for the log.
fn shown(values: &Values, id: Id, row: &Row) -> String {
    if row.sensitive { "(redacted)".to_owned() } else { String::from_utf8_lossy(&values.show(id, row)).into_owned() }
}

/// Logs the effect on a node's settings: those for which its file or its command line, which name `named`, have another
/// value than the cluster. If it `knows` the cluster's settings, only changes of the cluster are logged.
pub(super) fn say(
    before: &Values,
    after: &Values,
    hashes: (Option<[u8; 32]>, Option<[u8; 32]>),
    knows: bool,
    named: &BTreeSet<Id>,
) {
    let other_hash = |row: &Row| row.name == PASSWORD && hashes.0 != hashes.1;
    for (id, row) in rows().filter(|(id, row)| before.get(*id) != after.get(*id) || other_hash(row)) {
        let (was, is) = (shown(before, id, row), shown(after, id, row));
        if named.contains(&id) {
            tracing::warn!(
                cause = row.name,
                "'{}' is '{was}' in this node's configuration and '{is}' in the cluster: the cluster's value holds. CONFIG SET at any node changes it, CONFIG REWRITE brings the file up to date",
                row.name
            );
        } else if knows {
            tracing::info!(cause = row.name, "the cluster's setting '{}' is '{is}' now; it was '{was}'", row.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::live::Live;
    use super::super::renames::Renames;
    use super::*;
    use crate::config::Rights;

    const FREE: Rights = Rights { protected: true, loading: false };

    fn get(live: &Live, name: &str) -> String {
        String::from_utf8(live.get(&[name.as_bytes()]).remove(0).1).unwrap()
    }

    fn live(settings: &[(&str, &str)]) -> Live {
        let mut values = Values::default();
        settings.iter().for_each(|(name, text)| values.set(name, text.as_bytes()).unwrap());
        Live::new(values, None, Renames::default())
    }

    fn take(live: &Live, settings: &[Shared]) {
        live.take(settings.iter().map(|(name, value)| (*name, value.as_slice())));
    }

    /// A setting that one node offers is taken by another one, whatever it is.
    #[test]
    fn values_go_from_node_to_node() {
        let limits = "normal 1mb 0 0 pubsub 64mb 16mb 90 replica 1gb 1 2";
        let settings = [
            ("notify-keyspace-events", "Kg$"),
            ("client-output-buffer-limit", limits),
            ("maxmemory-policy", "volatile-lrm"),
            ("stream-node-max-bytes", "8kb"),
            ("list-max-listpack-size", "-5"),
            ("compatibility", "valkey"),
            ("lua-enable-deprecated-api", "yes"),
            ("proto-max-bulk-len", "1gb"),
            ("requirepass", "a \"b\" c"),
        ];
        let (from, to) = (live(&settings), live(&[("timeout", "7"), ("maxmemory", "1gb")]));
        let first = from.first_of_cluster();
        assert_eq!(first.len(), settings.len(), "{first:?}");
        take(&to, &first);
        for (name, _) in settings {
            assert_eq!(get(&to, name), get(&from, name), "{name}");
        }
        assert_eq!((get(&to, "timeout"), get(&to, "maxmemory")), ("0".into(), "1073741824".into()));
        assert_eq!(to.first_of_cluster(), first);
        // Every setting of a cluster comes back from the value that CONFIG GET shows.
        let defaults: Vec<Shared> = rows().map(|(id, row)| (row.name, Values::default().show(id, row))).collect();
        take(&to, &defaults);
        assert!(to.first_of_cluster().is_empty(), "{:?}", to.first_of_cluster());
    }

    /// A setting without a value, or with one that is not understood, has its default.
    #[test]
    fn what_the_cluster_does_not_say_has_its_default() {
        let live = live(&[("timeout", "7"), ("hash-max-listpack-entries", "9")]);
        take(&live, &[("timeout", b"no number".to_vec()), ("of-a-later-version", Vec::new()), ("hz", b"99".to_vec())]);
        assert_eq!((get(&live, "timeout"), get(&live, "hash-max-listpack-entries")), ("0".into(), "512".into()));
        assert_eq!(get(&live, "hz"), "10", "it is the node's");
    }

    #[test]
    fn a_password_of_which_the_hash_is_known_goes_along() {
        let hash = [0xab; 32];
        let (from, to) = (live(&[]).with_hash(Some(hash)), live(&[("requirepass", "own")]));
        assert!(from.settings().requirepass.is_some());
        take(&to, &from.first_of_cluster());
        assert_eq!(to.first_of_cluster(), [(HASH, "ab".repeat(32).into_bytes())]);
        assert_eq!(get(&to, "requirepass"), "");
        assert!(to.settings().requirepass.is_some());
        // A new password replaces it, even an empty one.
        let wanted = to.would_set(&[b"requirepass", b""], FREE).unwrap();
        assert_eq!(wanted.of_cluster, [("requirepass", Vec::new()), (HASH, Vec::new())]);
        take(&to, &wanted.of_cluster);
        assert!(to.settings().requirepass.is_none());
    }

    /// The text of one class adds to the limits of the others.
    #[test]
    fn what_is_offered_is_whole() {
        let live = live(&[]);
        let args: [&[u8]; 4] = [b"client-output-buffer-limit", b"pubsub 1mb 0 0", b"maxmemory", b"1gb"];
        let wanted = live.would_set(&args, FREE).unwrap();
        assert_eq!(wanted.changed, ["client-output-buffer-limit", "maxmemory"]);
        let value = b"normal 0 0 0 slave 268435456 67108864 60 pubsub 1048576 0 0".to_vec();
        assert_eq!(wanted.of_cluster, [("client-output-buffer-limit", value)]);
    }
}
