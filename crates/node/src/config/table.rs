//! Finding rows by name.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::row::Row;
use super::rows::SECTIONS;

/// The number of a setting: its place in the order of all rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id(pub(super) usize);

struct Table {
    rows: Vec<&'static Row>,
    names: BTreeMap<&'static str, Id>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let rows: Vec<_> = SECTIONS.iter().flat_map(|section| section.rows).collect();
    let mut names = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        names.insert(row.name, Id(index));
        names.extend(row.alias.map(|alias| (alias, Id(index))));
    }
    Table { rows, names }
});

/// All rows with their numbers.
pub fn rows() -> impl Iterator<Item = (Id, &'static Row)> {
    TABLE.rows.iter().enumerate().map(|(index, row)| (Id(index), *row))
}

/// All names and aliases, sorted, with the number of the row of each.
pub fn names() -> impl Iterator<Item = (&'static str, Id, &'static Row)> {
    TABLE.names.iter().filter_map(|(name, id)| Some((*name, *id, *TABLE.rows.get(id.0)?)))
}

/// The setting of that name or alias, in any case of letters.
pub fn find(name: &[u8]) -> Option<(Id, &'static Row)> {
    let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
    let id = *TABLE.names.get(name.as_str())?;
    Some((id, TABLE.rows.get(id.0)?))
}

#[cfg(test)]
mod tests {
    use super::super::row::Acts;
    use super::*;

    #[test]
    fn names_are_unique_lower_case_and_found() {
        let mut count = 0;
        for (id, row) in rows() {
            for name in [Some(row.name), row.alias].into_iter().flatten() {
                count += 1;
                assert_eq!(name, name.to_ascii_lowercase());
                let found = find(name.to_ascii_uppercase().as_bytes()).map(|(id, _)| id);
                assert_eq!(found, Some(id), "{name} is named twice");
            }
            let help = row.help;
            assert!(help.ends_with('.') && !help.contains('\n') && !help.contains("  "), "help of {}", row.name);
        }
        assert_eq!(names().count(), count);
        for name in ["include", "rename-command", "user"] {
            assert!(find(name.as_bytes()).is_none(), "{name} is no setting");
        }
        assert!(find(b"no-such-setting").is_none() && find(b"\xff").is_none());
    }

    /// A setting without an effect need not be the same everywhere; places, ports and secrets of nodes must be known
    /// first.
    #[test]
    fn settings_of_a_cluster_act_and_say_nothing_of_a_machine() {
        let of_cluster: Vec<_> = rows().map(|(_, row)| row).filter(|row| row.is_of_cluster()).collect();
        assert!(of_cluster.iter().all(|row| row.acts == Acts::Yes));
        for word in ["file", "-dir", "port", "bind", "announce", "tls", "workers", "append", "checkpoint", "slowlog"] {
            let of_machine = of_cluster.iter().find(|row| row.name.contains(word));
            assert!(of_machine.is_none(), "{of_machine:?}");
        }
        for name in ["maxmemory", "maxclients", "databases", "loglevel", "cluster-secret", "slowlog-max-len"] {
            assert!(find(name.as_bytes()).is_some_and(|(_, row)| !row.is_of_cluster()), "{name}");
        }
        for name in ["notify-keyspace-events", "requirepass", "lua-time-limit", "hash-max-ziplist-entries"] {
            assert!(find(name.as_bytes()).is_some_and(|(_, row)| row.is_of_cluster()), "{name}");
        }
    }

    #[test]
    fn every_setting_of_redis_and_valkey_is_known() {
        for list in [include_str!("oracle/redis.txt"), include_str!("oracle/valkey.txt")] {
            let names = list.lines().filter(|line| !line.starts_with('#'));
            let missing: Vec<_> = names.filter(|name| find(name.as_bytes()).is_none()).collect();
            assert!(missing.is_empty(), "{missing:?}");
        }
    }
}
