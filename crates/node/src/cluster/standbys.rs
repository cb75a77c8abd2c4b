//! Standbys of shards, as people read them.

use ::membership::control::{Following, NodeStatus, Status};
use ::membership::map::Node;
use ::membership::meta::Shard;
use ::membership::{NodeNumber, Standby};

use crate::figures::amount::human;

/// A standby of a shard.
struct Of<'a> {
    shard: &'a Shard,
    number: NodeNumber,
    standby: &'a Standby,
    /// Its node, as the map and the leader know it.
    known: Option<(&'a Node, &'a NodeStatus)>,
}

impl Of<'_> {
    fn is_up(&self) -> bool {
        self.known.is_some_and(|(node, status)| !node.lost && status.lease_ms.is_some_and(|ms| ms > 0))
    }
}

/// All standbys of all shards.
fn all(status: &Status) -> Vec<Of<'_>> {
    let known = |number: &NodeNumber| status.map.members().zip(&status.nodes).find(|(node, _)| node.number == number.0);
    let mut all = Vec::new();
    for shard in status.map.shards() {
        for (number, standby) in shard.standbys.iter().filter(|(_, standby)| standby.is_wanted) {
            all.push(Of { shard, number: *number, standby, known: known(number) });
        }
    }
    all
}

/// True if a standby of the shard may take it over, whether it is up or not.
pub(super) fn has_electable(shard: &Shard) -> bool {
    shard.standbys.values().any(|standby| standby.is_electable)
}

/// What is wrong with the standbys of shards.
pub(super) fn problems(status: &Status) -> Vec<String> {
    let all = all(status);
    let can = |shard: &Shard| all.iter().any(|of| of.shard.id == shard.id && of.standby.is_electable && of.is_up());
    let lack = status.map.shards().iter().filter(|shard| shard.has_standbys() && !can(shard));
    lack.map(|shard| format!("no standby of shard {} could take it over now", shard.id.0)).collect()
}

/// A row for each standby of each shard, below the heads; empty: there are none.
pub(super) fn rows(status: &Status) -> Vec<Vec<String>> {
    let row = |of: Of<'_>| {
        let address = of.known.map(|(node, _)| format!("{}:{}", node.host, node.port));
        let following = of.known.and_then(|(_, status)| status.standing).and_then(|standing| standing.following);
        let state = match (of.standby.is_pinned, of.standby.is_electable) {
            (_, true) => "electable",
            (true, false) => "pinned",
            (false, false) => "given up",
        };
        let behind = |of: Following| format!("{}, {} ms", human(of.behind_bytes), of.behind_ms);
        vec![
            of.shard.id.0.to_string(),
            address.unwrap_or_else(|| format!("node {}", of.number.0)),
            if of.is_up() { state.to_owned() } else { format!("{state}, down") },
            following.map_or_else(|| "?".to_owned(), behind),
            following.map_or_else(|| "?".to_owned(), |of| of.priority.to_string()),
        ]
    };
    let mut rows: Vec<Vec<String>> = all(status).into_iter().map(row).collect();
    if !rows.is_empty() {
        rows.insert(0, ["SHARD", "STANDBY", "STATE", "BEHIND", "PRIORITY"].map(str::to_owned).to_vec());
    }
    rows
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ::membership::Map;
    use ::membership::control::Standing;

    use super::*;
    use crate::cluster::copies::tests::status;
    use crate::cluster::status::status_text;

    /// A shard of node 1 with these standbys, whose nodes are up if they are among `up`.
    fn of(standbys: &[(u32, bool, bool)], up: &[u8]) -> Status {
        let mut status = status(&[1, 2, 3], None, up);
        let mut shards = status.map.shards().to_vec();
        let standby = |&(node, is_pinned, is_electable): &(u32, bool, bool)| {
            (NodeNumber(node), Standby { life: 1, is_pinned, is_electable, is_wanted: true })
        };
        shards[0].standbys = standbys.iter().map(standby).collect();
        status.map = Arc::new(Map::clone(&status.map).with_shards(shards));
        status
    }

    #[test]
    fn a_status_shows_standbys_and_how_far_they_are() {
        let without = status_text(&of(&[], &[1, 2, 3]));
        assert!(!without.contains("STANDBY") && without.contains("note: no standby"), "{without}");
        let mut well = of(&[(2, true, true)], &[1, 2, 3]);
        let log = Default::default();
        let following =
            Following { log, covered: log, behind_bytes: 3 << 10, behind_ms: 12, applied_bytes: 0, priority: 100 };
        well.nodes[1].standing = Some(Standing { following: Some(following), ..Standing::default() });
        let text = status_text(&well);
        for line in [
            "health: ok\n",
            "\nSHARD  STANDBY        STATE      BEHIND        PRIORITY\n",
            "\n1      10.0.0.1:7002  electable  3.00K, 12 ms  100\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!text.contains("note: no standby"), "{text}");
        for (flags, up, row) in [
            ((true, true), &[1, 3][..], "1      10.0.0.1:7002  electable, down  ?       ?\n"),
            ((true, false), &[1, 2, 3], "1      10.0.0.1:7002  pinned  ?       ?\n"),
            ((false, false), &[1, 2, 3], "1      10.0.0.1:7002  given up  ?       ?\n"),
        ] {
            let text = status_text(&of(&[(2, flags.0, flags.1)], up));
            for line in [row, "health: not ok", "  no standby of shard 1 could take it over now\n"] {
                assert!(text.contains(line), "{line}: {text}");
            }
        }
    }
}
