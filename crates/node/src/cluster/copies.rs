//! Log groups and the copies of shards' logs, as people read them.

use std::collections::BTreeMap;

use ::membership::control::{CopyReport, CopyState, Status};
use ::membership::map::Node;
use ::membership::meta::{Acceptor, Group, HAS_LOG, Place, Reported, Shard};
use ::membership::{AcceptorId, Map, NodeId, ShardId};

use super::standbys;
use crate::figures::amount::human;

/// A member's address for clients; its name if it is gone.
fn address(map: &Map, id: NodeId) -> String {
    map.member(id).map_or_else(|| id.to_string(), |member| format!("{}:{}", member.host, member.port))
}

/// A place as operators write it: `HOST:PORT/DIR`.
pub(crate) fn place_text(map: &Map, place: &Place) -> String {
    let slash = if place.dir.starts_with('/') { "" } else { "/" };
    format!("{}{slash}{}", address(map, place.member), place.dir)
}

/// The place of a copy's folder, as operators write it.
#[must_use]
pub fn place_of_copy(map: &Map, shard: ShardId, id: AcceptorId) -> String {
    if let Some(known) = map.reported().iter().find(|known| known.shard == shard && known.id == id) {
        return place_text(map, &known.place);
    }
    let of = map.shards().iter().filter(|of| of.id == shard);
    let mut acceptors = of.flat_map(|of| of.settled.iter().chain(of.pending.iter().flatten()));
    match acceptors.find(|acceptor| acceptor.id == id) {
        // Another folder is to take its place.
        Some(acceptor) => format!("a former place at {}", address(map, acceptor.node)),
        None => "a folder that no group has".to_owned(),
    }
}

/// The place that an operator has written. The member is named by its address for clients, or by its name.
pub(crate) fn place_of(map: &Map, text: &str) -> Result<Place, String> {
    let (member, dir) = parts(text)?;
    Ok(Place { member: member_of(map, member)?, dir })
}

/// The place of a group that an operator has written; without a group: of any. Its member may be lost, and another one have
/// come to its address: that may have places in other groups already, and the lost one's wait for a new folder.
pub(crate) fn place_in_group(map: &Map, text: &str, group: Option<&str>) -> Result<Place, String> {
    let (name, dir) = parts(text)?;
    let is_it = is_named(name);
    let groups = map.groups().iter().filter(|of| group.is_none_or(|group| of.name == group));
    let there = |place: &&Place| place.dir == dir && map.member(place.member).is_some_and(&is_it);
    let is_lost = |place: &&Place| map.member(place.member).is_some_and(|member| member.lost);
    let mut places = groups.flat_map(|group| &group.places).filter(there);
    let first = places.next();
    let lost = first.into_iter().chain(places).find(is_lost);
    lost.or(first).map_or_else(|| place_of(map, text), |place| Ok(place.clone()))
}

/// The member of a place that an operator has written, and the directory.
fn parts(text: &str) -> Result<(&str, String), String> {
    let (member, dir) =
        text.split_once('/').ok_or_else(|| format!("{text} is no place: HOST:PORT/DIR, or HOST:PORT/-"))?;
    Ok((member, if dir == "-" { dir.to_owned() } else { format!("/{dir}") }))
}

/// The member that an operator has named.
pub(crate) fn member_of(map: &Map, text: &str) -> Result<NodeId, String> {
    let is_it = is_named(text);
    let unknown = || format!("no node or log-server is at {text}: `holdfast cluster status` shows the addresses");
    map.members().find(|member| !member.lost && is_it(member)).map(|member| member.id).ok_or_else(unknown)
}

/// Whether an operator names a member so: by its address for clients, or by its name.
fn is_named(text: &str) -> impl Fn(&Node) -> bool {
    let id = text.parse::<NodeId>().ok();
    move |member| Some(member.id) == id || format!("{}:{}", member.host, member.port) == text
}

/// The places of a cluster's default group: the default folders of its first nodes on three machines.
pub(crate) fn first_machines(map: &Map) -> Result<Vec<Place>, String> {
    const MACHINES: usize = 3;
    let mut machines: Vec<&str> = Vec::new();
    let mut places = Vec::new();
    for node in map.nodes().iter().filter(|node| !node.lost) {
        if node.machine.is_empty() {
            return Err(format!("node {} has not said yet on which machine it runs: try again", node.id));
        }
        if machines.contains(&node.machine.as_str()) {
            continue;
        }
        machines.push(&node.machine);
        places.push(Place { member: node.id, dir: "-".to_owned() });
        if places.len() == MACHINES {
            return Ok(places);
        }
    }
    Err(format!("nodes run on {} machines, and {MACHINES} are needed: name the places of the group", places.len()))
}

/// The problems with copies of logs, and what an operator should know of them. Only the former make a cluster unwell.
pub(crate) struct Findings {
    pub problems: Vec<String>,
    pub notes: Vec<String>,
}

/// What is wrong with the copies of logs, and what they are good for.
pub(crate) fn findings(status: &Status) -> Findings {
    let map = &status.map;
    let (mut problems, mut notes, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    for group in map.groups().iter().filter(|group| !survives(map, group.places.iter().map(|place| place.member))) {
        notes.push(format!(
            "the group {} survives the loss of no machine: it needs three places, on three machines",
            group.name
        ));
    }
    for shard in map.shards().iter().filter(|shard| map.slots_of_shard(shard) > 0) {
        let (copies, counting) = (shard.settled.len(), counting(map, shard));
        let wanted = map.copies_of(shard).len();
        if wanted > 0 && counting < wanted {
            problems.push(format!("shard {} has {counting} of the {wanted} copies of its log", shard.id.0));
        }
        if copies < 2 {
            continue;
        }
        if counting >= wanted && !survives(map, shard.settled.iter().map(|acceptor| acceptor.node)) {
            notes.push(format!("the copies of shard {} survive the loss of no machine", shard.id.0));
        }
        let known = reports(status, shard);
        let (up, down): (Vec<&Acceptor>, Vec<&Acceptor>) =
            shard.settled.iter().partition(|acceptor| takes_blocks(status, known, acceptor));
        if !down.is_empty() {
            let then = match up.len().checked_sub(copies / 2 + 1) {
                None => "nothing can be written, until more are",
                Some(0) => "if one more fails, nothing can be written",
                Some(_) => "more may fail",
            };
            problems.push(format!("{} of {copies} copies of shard {} are up: {then}", up.len(), shard.id.0));
        }
        // A member that is down is a problem of its own.
        for acceptor in down.iter().filter(|acceptor| is_up(status, acceptor.node) != Some(false)) {
            let place = place_of_copy(map, shard.id, acceptor.id);
            problems.push(match state_of(known, acceptor.id) {
                Some(CopyState::Failed) => {
                    format!("the disk of the copy of shard {} at {place} has failed: replace the place", shard.id.0)
                }
                Some(CopyState::Full) => {
                    format!(
                        "the copy of shard {} at {place} has no room: make some on its disk, or replace the place",
                        shard.id.0
                    )
                }
                Some(CopyState::SetBack) => {
                    format!(
                        "the copy of shard {} at {place} was set back to an earlier state, and does not count: \
                         give it an empty directory, and replace its place (`holdfast cluster group replace {place} {place}`)",
                        shard.id.0
                    )
                }
                _ => format!("the copy of shard {} at {place} does not answer the shard's owner", shard.id.0),
            });
        }
        if !standbys::has_electable(shard) {
            alone.push(shard.id.0.to_string());
        }
    }
    match &alone[..] {
        [] => {}
        [one] => notes.push(format!(
            "no standby: with the copies of its log, shard {one} survives the loss of a log disk, and not of its store"
        )),
        several => notes.push(format!(
            "no standbys: with the copies of their logs, shards {} survive the loss of log disks, and not of their stores",
            several.join(", ")
        )),
    }
    let promises = |shard: &&Shard| map.slots_of_shard(shard) > 0 && fsync(shard) != "?";
    let promises: Vec<_> = map.shards().iter().filter(promises).map(|shard| (shard.id.0, fsync(shard))).collect();
    if promises.iter().any(|(_, fsync)| *fsync != promises[0].1) {
        let each: Vec<String> = promises.iter().map(|(id, fsync)| format!("{id} ({fsync})")).collect();
        notes.push(format!("shards differ in appendfsync: {}", each.join(", ")));
    }
    Findings { problems, notes }
}

/// How many copies of a shard's log count, of those that should be there. A log without copies is one. While a place is
/// replaced, the folder before it is on the majority as well, but nobody wants it.
fn counting(map: &Map, shard: &Shard) -> usize {
    let counts = |place: &&Place| folder(map, shard, place).is_some_and(|id| is_settled(shard, id));
    map.copies_of(shard).iter().filter(counts).count().max(1)
}

/// The folder that a place has reported.
fn folder(map: &Map, shard: &Shard, place: &Place) -> Option<AcceptorId> {
    let is_it = |known: &&Reported| known.shard == shard.id && known.place == *place;
    map.reported().iter().find(is_it).map(|known| known.id)
}

fn is_settled(shard: &Shard, id: AcceptorId) -> bool {
    shard.settled.iter().any(|acceptor| acceptor.id == id)
}

/// The copies of a shard's log, as its owner has reported them; none if it was not heard.
fn reports<'a>(status: &'a Status, shard: &Shard) -> &'a [CopyReport] {
    let owner = status.nodes.iter().find(|node| node.id == shard.owner);
    owner.map_or(&[], |owner| &owner.copies)
}

fn state_of(known: &[CopyReport], id: AcceptorId) -> Option<CopyState> {
    known.iter().find(|report| report.id == id).map(|report| report.state)
}

/// True if an acceptor takes blocks, as far as it is known: its owner says so, or it may be, as its member is up.
fn takes_blocks(status: &Status, known: &[CopyReport], acceptor: &Acceptor) -> bool {
    match state_of(known, acceptor.id) {
        Some(state) => state == CopyState::Follows,
        None => is_up(status, acceptor.node) != Some(false),
    }
}

/// True if a majority of the copies is left when any one machine is lost.
fn survives(map: &Map, members: impl Iterator<Item = NodeId>) -> bool {
    let mut on: BTreeMap<String, usize> = BTreeMap::new();
    for id in members {
        let machine = map.member(id).map(|member| member.machine.clone()).filter(|machine| !machine.is_empty());
        *on.entry(machine.unwrap_or_else(|| id.to_string())).or_default() += 1;
    }
    let all: usize = on.values().sum();
    on.values().all(|lost| all - lost > all / 2)
}

fn is_up(status: &Status, id: NodeId) -> Option<bool> {
    let at = status.map.members().position(|member| member.id == id)?;
    status.nodes.get(at)?.lease_ms.map(|ms| ms > 0)
}

/// The groups: a row for each place.
pub(crate) fn group_rows(status: &Status) -> Vec<Vec<String>> {
    let map = &status.map;
    let mut rows = vec![["GROUP", "PLACE", "KIND", "HOST", "STATE"].map(str::to_owned).to_vec()];
    let row = |group: &Group, place: &Place| {
        let member = map.member(place.member);
        let kind = if map.index_of(place.member).is_some() { "node" } else { "log" };
        let state = match is_up(status, place.member) {
            None => "?",
            Some(true) => "up",
            Some(false) => "down",
        };
        let host = member.map(|member| member.machine.clone()).filter(|machine| !machine.is_empty());
        let host = host.unwrap_or_else(|| "?".to_owned());
        vec![group.name.clone(), place_text(map, place), kind.to_owned(), host, state.to_owned()]
    };
    let places = map.groups().iter().flat_map(|group| group.places.iter().map(move |place| (group, place)));
    rows.extend(places.map(|(group, place)| row(group, place)));
    rows
}

/// The copies of shards' logs: a row for each shard that has slots, or copies.
pub(crate) fn shard_rows(status: &Status) -> Vec<Vec<String>> {
    let map = &status.map;
    let mut rows = vec![["SHARD", "OWNER", "TERM", "FSYNC", "GROUP", "COPIES", "PLACES"].map(str::to_owned).to_vec()];
    let shown = map.shards().iter().filter(|shard| map.slots_of_shard(shard) > 0 || shard.settled.len() > 1);
    rows.extend(shown.map(|shard| {
        let (wanted, known) = (map.copies_of(shard), reports(status, shard));
        let places: Vec<String> = wanted.iter().map(|place| copy(map, shard, place, known)).collect();
        let own = || format!("{} (own log)", address(map, shard.owner));
        vec![
            shard.id.0.to_string(),
            address(map, shard.owner),
            shard.term.get().to_string(),
            fsync(shard).to_owned(),
            map.group_of(shard).map_or_else(|| "-".to_owned(), |group| group.name.clone()),
            format!("{} of {}", counting(map, shard), wanted.len().max(1)),
            if places.is_empty() { own() } else { places.join(" ") },
        ]
    }));
    rows
}

/// When the log of a shard is synced, as its owner has said.
fn fsync(shard: &Shard) -> &str {
    match shard.settings.get(HAS_LOG).map(String::as_str) {
        Some("no") => "no log",
        _ => shard.settings.get("appendfsync").map_or("?", String::as_str),
    }
}

/// A place of a shard's copies, whether the copy counts, and how far it is behind.
fn copy(map: &Map, shard: &Shard, place: &Place, known: &[CopyReport]) -> String {
    let id = folder(map, shard, place);
    let report = known.iter().find(|report| Some(report.id) == id);
    let state = match report.map(|report| (report.state, report.bytes)) {
        None | Some((CopyState::Follows, 0)) => String::new(),
        Some((CopyState::Follows, bytes)) => format!("{} behind", human(bytes)),
        Some((CopyState::Silent, _)) => "does not answer".to_owned(),
        Some((CopyState::Full, bytes)) => format!("no room, {} behind", human(bytes)),
        Some((CopyState::Failed, _)) => "its disk has failed".to_owned(),
        Some((CopyState::SetBack, _)) => "does not count: it was set back".to_owned(),
    };
    let counts = id.is_some_and(|id| is_settled(shard, id));
    let comes = id.is_some_and(|id| shard.pending.iter().flatten().any(|acceptor| acceptor.id == id));
    let mark = match (id, counts, comes) {
        (None, ..) => "no folder yet",
        (_, true, _) => "",
        (_, _, true) => "catches up",
        _ => "waits",
    };
    let marks: Vec<&str> = [mark, &state].into_iter().filter(|mark| !mark.is_empty()).collect();
    let marks = if marks.is_empty() { String::new() } else { format!(" ({})", marks.join(", ")) };
    format!("{}{marks}", place_text(map, place))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use ::membership::control::NodeStatus;
    use ::membership::map::Range;
    use ::membership::meta::Acceptor;
    use ::membership::{AcceptorId, ClusterId, ShardId, Slot, Term};

    use super::*;
    use crate::cluster::status::status_text;

    pub fn id(n: u8) -> NodeId {
        NodeId([n; 20])
    }

    fn node(n: u8) -> Node {
        Node {
            id: id(n),
            number: n.into(),
            host: "10.0.0.1".to_owned(),
            port: 7000 + u16::from(n),
            bus_port: 17000 + u16::from(n),
            client_port: 0,
            incarnation: 1,
            epoch: 1,
            lost: false,
            level: 11,
            machine: format!("rack-{n}"),
            voter: true,
        }
    }

    fn place(member: u8, dir: &str) -> Place {
        Place { member: id(member), dir: dir.to_owned() }
    }

    fn acceptor(n: u8) -> Acceptor {
        Acceptor { id: AcceptorId([n; 16]), node: id(n) }
    }

    fn report(n: u8, state: CopyState, bytes: u64) -> CopyReport {
        CopyReport { id: AcceptorId([n; 16]), counts: true, state, blocks: bytes >> 9, bytes }
    }

    /// Two nodes and a log-server. Shard 1 has the copies of these members, of which those reach `up`.
    pub fn status(settled: &[u8], pending: Option<&[u8]>, up: &[u8]) -> Status {
        let shard = Shard {
            id: ShardId(1),
            owner: id(1),
            incarnation: 1,
            term: Term::new(4).unwrap(),
            group: String::new(),
            settled: settled.iter().map(|n| acceptor(*n)).collect(),
            pending: pending.map(|of| of.iter().map(|n| acceptor(*n)).collect()),
            pending_since: Term::ZERO,
            streams: 1,
            settings: BTreeMap::from([("appendfsync".to_owned(), "always".to_owned())]),
            standbys: BTreeMap::new(),
            rests_ms: 0,
        };
        let places = vec![place(1, "-"), place(2, "-"), place(3, "/mnt/a")];
        let reported = |n: u8| {
            let place = places[usize::from(n) - 1].clone();
            Reported { shard: ShardId(1), place, id: AcceptorId([n; 16]) }
        };
        // The later ones have the places of the earlier ones.
        let known = settled.iter().filter(|n| **n <= 3).chain(pending.unwrap_or_default());
        let reported = known.map(|n| reported(*n)).collect();
        let ranges = vec![Range { start: Slot::FIRST, end: Slot::LAST, node: 0 }];
        let map = Map::new(Some(ClusterId([9; 20])), 4, 1, vec![node(1), node(2)], ranges);
        let group = Group { name: "default".to_owned(), places };
        let map = map.with_log_servers(vec![node(3)]).with_shards(vec![shard]).with_groups(vec![group], reported);
        let of = |n: u8| {
            let lease_ms = Some(if up.contains(&n) { 1500 } else { 0 });
            NodeStatus {
                id: id(n),
                linked: true,
                lease_ms,
                level: Some(11),
                trouble: String::new(),
                copies: Vec::new(),
                standing: None,
            }
        };
        Status {
            me: id(1),
            cluster: map.cluster(),
            map: Arc::new(map),
            leader: Some(id(1)),
            term: 3,
            lease_ms: 1500,
            reason: String::new(),
            changing: false,
            nodes: (1..=3).map(of).collect(),
        }
    }

    #[test]
    fn places_are_read_as_they_are_shown() {
        let map = status(&[], None, &[1]).map;
        for (text, place) in [("10.0.0.1:7002/-", place(2, "-")), ("10.0.0.1:7003/mnt/a", place(3, "/mnt/a"))] {
            assert_eq!(place_of(&map, text), Ok(place.clone()));
            assert_eq!(place_text(&map, &place), text);
        }
        assert_eq!(place_of(&map, &format!("{}/-", id(3))), Ok(place(3, "-")));
        assert!(place_of(&map, "10.0.0.1:7002").is_err_and(|why| why.contains("is no place")));
        assert!(
            place_of(&map, "10.0.0.1:9/-").is_err_and(|why| why.contains("no node or log-server is at 10.0.0.1:9"))
        );
    }

    /// A log-server whose first directory was wiped is another member, at the address of the one before.
    #[test]
    fn the_place_of_a_lost_member_is_named_by_its_address() {
        let map = status(&[1, 2, 3], None, &[1, 2, 3]).map;
        let lost = Node { lost: true, ..node(3) };
        let new = Node { id: id(4), number: 4, ..node(3) };
        let (groups, reported) = (map.groups().to_vec(), map.reported().to_vec());
        let map = Map::new(map.cluster(), 5, 1, map.nodes().to_vec(), map.ranges().to_vec());
        let map = map.with_log_servers(vec![lost, new]).with_groups(groups, reported);
        let text = "10.0.0.1:7003/mnt/a";
        assert_eq!(place_of(&map, text), Ok(place(4, "/mnt/a")), "the new one");
        assert_eq!(place_in_group(&map, text, None), Ok(place(3, "/mnt/a")));
        assert_eq!(place_in_group(&map, &format!("{}/mnt/a", id(3)), None), Ok(place(3, "/mnt/a")));
        assert_eq!(place_in_group(&map, "10.0.0.1:7002/-", None), Ok(place(2, "-")));
    }

    /// It had places in two groups, and the first one has its new folder already.
    #[test]
    fn the_places_of_a_lost_member_are_replaced_one_after_the_other_by_its_address() {
        let map = status(&[1, 2, 3], None, &[1, 2, 3]).map;
        let (lost, new) = (Node { lost: true, ..node(3) }, Node { id: id(4), number: 4, ..node(3) });
        let of = |name: &str, member| Group { name: name.to_owned(), places: vec![place(1, "-"), place(member, "-")] };
        let with = |groups| {
            let map = Map::new(map.cluster(), 5, 1, map.nodes().to_vec(), map.ranges().to_vec());
            map.with_log_servers(vec![lost.clone(), new.clone()]).with_groups(groups, Vec::new())
        };
        let text = "10.0.0.1:7003/-";
        let map = with(vec![of("one", 4), of("two", 3)]);
        assert_eq!(place_in_group(&map, text, None), Ok(place(3, "-")), "what is lost goes first");
        assert_eq!(place_in_group(&map, text, Some("two")), Ok(place(3, "-")));
        assert_eq!(place_in_group(&map, text, Some("one")), Ok(place(4, "-")));
        assert_eq!(place_in_group(&map, &format!("{}/-", id(4)), None), Ok(place(4, "-")));
        let map = with(vec![of("one", 4), of("two", 4)]);
        assert_eq!(place_in_group(&map, text, None), Ok(place(4, "-")), "both have it");
        assert_eq!(place_in_group(&map, text, Some("three")), Ok(place(4, "-")), "the metadata refuse it");
    }

    #[test]
    fn the_default_group_is_the_first_three_machines() {
        let mut nodes = [1, 2, 3, 4].map(node).to_vec();
        nodes[1].machine = "rack-1".to_owned();
        let map = |nodes: &[Node]| Map::new(None, 1, 1, nodes.to_vec(), Vec::new());
        let chosen = first_machines(&map(&nodes)).unwrap();
        assert_eq!(chosen, [place(1, "-"), place(3, "-"), place(4, "-")]);
        assert!(first_machines(&map(&nodes[..3])).is_err_and(|why| why.contains("run on 2 machines")));
    }

    #[test]
    fn a_status_shows_copies_and_what_they_are_good_for() {
        let well = status_text(&status(&[1, 2, 3], None, &[1, 2, 3]));
        for line in [
            "health: ok\n",
            "  note: no standby: with the copies of its log, shard 1 survives the loss of a log disk, and not of its store\n",
            "\nSHARD  OWNER          TERM  FSYNC   GROUP    COPIES  PLACES\n",
            "\n1      10.0.0.1:7001  4     always  default  3 of 3  10.0.0.1:7001/- 10.0.0.1:7003/mnt/a 10.0.0.1:7002/-\n",
            "rack-3  log   up ",
        ] {
            assert!(well.contains(line), "{line}: {well}");
        }
        let growing = status_text(&status(&[1], Some(&[1, 2]), &[1, 2, 3]));
        for line in [
            "health: not ok",
            "  shard 1 has 1 of the 3 copies of its log\n",
            "1 of 3  10.0.0.1:7001/- 10.0.0.1:7003/mnt/a (no folder yet) 10.0.0.1:7002/- (catches up)\n",
        ] {
            assert!(growing.contains(line), "{line}: {growing}");
        }
        let down = status_text(&status(&[1, 2, 3], None, &[1, 2]));
        for line in [
            "log-server 0303030303030303030303030303030303030303 at 10.0.0.1:7003 is down\n",
            "  2 of 3 copies of shard 1 are up: if one more fails, nothing can be written\n",
        ] {
            assert!(down.contains(line), "{line}: {down}");
        }
    }

    /// The folder before it is on the majority, and is not the one that is wanted.
    #[test]
    fn a_copy_that_replaces_another_one_does_not_count_before_it_has_everything() {
        let mut replaced = status(&[1, 2, 4], Some(&[1, 2, 3]), &[1, 2, 3]);
        let text = status_text(&replaced);
        for line in [
            "health: not ok",
            "  shard 1 has 2 of the 3 copies of its log\n",
            "2 of 3  10.0.0.1:7001/- 10.0.0.1:7003/mnt/a (catches up) 10.0.0.1:7002/-\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!text.contains("3 of 3"), "{text}");
        replaced.nodes[0].copies = vec![report(1, CopyState::Follows, 0), report(3, CopyState::Follows, 5 << 20)];
        let text = status_text(&replaced);
        assert!(text.contains("10.0.0.1:7003/mnt/a (catches up, 5.00M behind)"), "{text}");
    }

    #[test]
    fn a_status_shows_how_far_copies_are_behind() {
        let mut shown = status(&[1, 2, 3], None, &[1, 2, 3]);
        let copies = |state| vec![report(1, CopyState::Follows, 0), report(2, state, 3 << 10), report(3, state, 0)];
        shown.nodes[0].copies = copies(CopyState::Follows);
        let text = status_text(&shown);
        let row = "3 of 3  10.0.0.1:7001/- 10.0.0.1:7003/mnt/a 10.0.0.1:7002/- (3.00K behind)\n";
        assert!(text.contains("health: ok\n") && text.contains(row), "{text}");
        shown.nodes[0].copies = copies(CopyState::Silent);
        let text = status_text(&shown);
        for line in [
            "health: not ok",
            "  1 of 3 copies of shard 1 are up: nothing can be written, until more are\n",
            "  the copy of shard 1 at 10.0.0.1:7002/- does not answer the shard's owner\n",
            "10.0.0.1:7003/mnt/a (does not answer) 10.0.0.1:7002/- (does not answer)\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        shown.nodes[0].copies = vec![report(3, CopyState::Failed, 9)];
        let text = status_text(&shown);
        for line in [
            "  2 of 3 copies of shard 1 are up: if one more fails, nothing can be written\n",
            "  the disk of the copy of shard 1 at 10.0.0.1:7003/mnt/a has failed: replace the place\n",
            "10.0.0.1:7003/mnt/a (its disk has failed)",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        shown.nodes[0].copies = vec![report(3, CopyState::SetBack, 0)];
        let text = status_text(&shown);
        for line in [
            "  2 of 3 copies of shard 1 are up: if one more fails, nothing can be written\n",
            "  the copy of shard 1 at 10.0.0.1:7003/mnt/a was set back to an earlier state, and does not count: give it \
             an empty directory, and replace its place (`holdfast cluster group replace 10.0.0.1:7003/mnt/a 10.0.0.1:7003/mnt/a`)\n",
            "10.0.0.1:7003/mnt/a (does not count: it was set back)",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        shown.nodes[0].copies = vec![report(3, CopyState::Full, 9)];
        let text = status_text(&shown);
        for line in [
            "  2 of 3 copies of shard 1 are up: if one more fails, nothing can be written\n",
            "  the copy of shard 1 at 10.0.0.1:7003/mnt/a has no room: make some on its disk, or replace the place\n",
            "10.0.0.1:7003/mnt/a (no room, ",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn shards_whose_logs_promise_different_things_are_told() {
        let mut of_one = status(&[1, 2, 3], None, &[1, 2, 3]);
        let mut shards = of_one.map.shards().to_vec();
        let settings = BTreeMap::from([(HAS_LOG.to_owned(), "no".to_owned())]);
        shards.push(Shard { id: ShardId(2), owner: id(2), settings, settled: Vec::new(), ..shards[0].clone() });
        let range = |start, end, node| Range { start: Slot::new(start).unwrap(), end: Slot::new(end).unwrap(), node };
        let ranges = vec![range(0, 9, 0), range(10, 16383, 1)];
        let map = Map::new(of_one.map.cluster(), 4, 1, of_one.map.nodes().to_vec(), ranges);
        let map = map.with_log_servers(vec![node(3)]);
        of_one.map = Arc::new(map.clone().with_shards(shards.clone()));
        let text = status_text(&of_one);
        assert!(text.contains("  note: shards differ in appendfsync: 1 (always), 2 (no log)\n"), "{text}");
        // One line tells of several shards without standbys.
        shards[1].settled = shards[0].settled.clone();
        of_one.map = Arc::new(map.with_shards(shards));
        let text = status_text(&of_one);
        let both = "  note: no standbys: with the copies of their logs, shards 1, 2 survive the loss of log disks";
        assert!(text.contains(both), "{text}");
    }

    #[test]
    fn a_group_that_survives_nothing_is_told() {
        let mut of_one = status(&[1, 2, 3], None, &[1, 2, 3]);
        let mut nodes = [node(1), node(2)].to_vec();
        nodes[1].machine = "rack-1".to_owned();
        let map = Map::new(of_one.map.cluster(), 4, 1, nodes, of_one.map.ranges().to_vec());
        let map = map.with_log_servers(vec![node(3)]).with_shards(of_one.map.shards().to_vec());
        of_one.map = Arc::new(map.with_groups(of_one.map.groups().to_vec(), of_one.map.reported().to_vec()));
        let text = status_text(&of_one);
        for line in [
            "health: ok\n",
            "  note: the group default survives the loss of no machine: it needs three places, on three machines\n",
            "  note: the copies of shard 1 survive the loss of no machine\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!survives(&of_one.map, [id(1), id(3)].into_iter()), "two are no majority without one");
    }
}
