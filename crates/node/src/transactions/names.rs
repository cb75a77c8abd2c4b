//! The names of participants, and the nodes where they are, by the map (rule T1).
//!
//! A participant is a shard, and its life is the shard's term: whichever process has the term has the shard's log. It says
//! nothing in a term before it has read that log to its end.
//!
//! Below [`level::SHARD_PARTICIPANTS`] each node is a participant, with its number and its life. Logs keep such names.
//! From that level on the shard of such a node answers for them, and its terms are above the node's lives.

use ::membership::map::Node;
use ::membership::{Continued, Map, ShardId, level};
use txn::{Life, Member, NodeId, ParticipantId, Recipient, Sender};

/// A node of the map in its present life, as transactions know it.
pub(super) fn life(node: &Node) -> Life {
    Life { node: NodeId(u64::from(node.number)), incarnation: node.incarnation }
}

/// True if participants are shards. A map of tests may have none.
fn has_shards(map: &Map) -> bool {
    map.level() >= level::SHARD_PARTICIPANTS && !map.shards().is_empty()
}

/// The participant that the node with this index is, in its last term. None: it owns no shard.
pub(super) fn participant(map: &Map, index: u16) -> Option<Member> {
    if !has_shards(map) {
        return Some(Member::of(life(map.node(index))));
    }
    let shard = map.shard_at(index)?;
    Some(Member { id: ParticipantId::of_shard(shard.id.0), incarnation: u64::from(shard.term.get()) })
}

/// The participant that has the slots of the node with this index.
pub(super) fn member(map: &Map, index: u16) -> Member {
    participant(map, index).unwrap_or_else(|| Member::of(life(map.node(index))))
}

/// The participant that a process is: one that was given the last term of a shard. None: it is none, or the map has not
/// heard of that.
pub(super) fn participant_of(map: &Map, from: Life) -> Option<Member> {
    let number = u32::try_from(from.node.0).ok()?;
    if !has_shards(map) {
        // Another node has the log of a former owner.
        return Some(Member::of(from)).filter(|_| map.shard_of_former(number).is_none());
    }
    let index = map.nodes().iter().position(|node| node.number == number)? as u16;
    map.shard_at(index).filter(|shard| shard.incarnation == from.incarnation)?;
    participant(map, index)
}

/// Who a message from a process comes from.
pub(super) fn sender(map: &Map, from: Life) -> Sender {
    Sender { life: from, participant: participant_of(map, from).map(|member| member.id) }
}

/// The node to which messages for this recipient go; none while that is not known. A process without the shard's last term
/// does not answer them.
pub(super) fn place(to: Recipient, map: &Map) -> Option<NodeId> {
    match to {
        Recipient::Coordinator(node) => Some(node),
        Recipient::Participant(participant) => Some(life(map.node(place_of(participant, map)?)).node),
    }
}

/// The index of the node that a participant is at.
pub(super) fn place_of(participant: ParticipantId, map: &Map) -> Option<u16> {
    let at = |number: u32| map.nodes().iter().position(|node| node.number == number).map(|at| at as u16);
    if !has_shards(map) {
        return at(participant.node()?);
    }
    let id = match participant.shard() {
        Some(number) => ShardId(number),
        None => shard_of(participant.node()?, map)?,
    };
    map.index_of(map.shard(id)?.owner)
}

/// The shard that answers for a node which was a participant. It may be gone.
fn shard_of(number: u32, map: &Map) -> Option<ShardId> {
    let owned = || map.nodes().iter().position(|node| node.number == number).map(|at| at as u16);
    map.shard_of_former(number).or_else(|| Some(map.shard_at(owned()?)?.id))
}

/// The earlier names of participants that are there, each with the present one, and participants that are lost.
pub(super) fn heirs(map: &Map) -> (Vec<(ParticipantId, ParticipantId)>, Vec<ParticipantId>) {
    let of_node = |number: u32| ParticipantId::of(NodeId(u64::from(number)));
    let former = |number: &u32| map.shard_of_former(*number).is_some();
    if !has_shards(map) {
        let gone = map.gone().filter(|number| !former(number));
        let lost = map.former_owners().filter(|number| map.continued(*number) == Some(Continued::Lost));
        return (Vec::new(), gone.chain(lost).map(of_node).collect());
    }
    let mut lost: Vec<ParticipantId> = map.gone_shards().iter().map(|id| ParticipantId::of_shard(id.0)).collect();
    let mut heirs = Vec::new();
    let present = map.nodes().iter().map(|node| node.number).filter(|number| !former(number));
    let gone = map.gone().filter(|number| !former(number));
    for number in present.chain(map.former_owners()).chain(gone) {
        match shard_of(number, map).filter(|id| map.shard(*id).is_some()) {
            Some(id) => heirs.push((of_node(number), ParticipantId::of_shard(id.0))),
            // Its shard was dissolved.
            None => lost.push(of_node(number)),
        }
    }
    (heirs, lost)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ::membership::meta::Shard;
    use ::membership::{Slot, Term, map::Range};

    use super::*;

    fn id(number: u32) -> ::membership::NodeId {
        ::membership::NodeId([number as u8; 20])
    }

    fn node(number: u32, incarnation: u64) -> Node {
        Node {
            id: id(number),
            number,
            host: "10.0.0.1".to_owned(),
            port: 7000,
            bus_port: 17000,
            client_port: 8000,
            incarnation,
            epoch: 1,
            lost: false,
            level: level::HIGHEST,
            machine: String::new(),
            voter: true,
        }
    }

    /// A shard of this number, whose owner has got a term in this life.
    fn shard(number: u32, owner: u32, incarnation: u64, term: u32) -> Shard {
        Shard {
            id: ShardId(number),
            owner: id(owner),
            incarnation,
            term: Term::new(term).unwrap(),
            group: String::new(),
            settled: Vec::new(),
            pending: None,
            pending_since: Term::ZERO,
            streams: 0,
            settings: BTreeMap::new(),
            standbys: BTreeMap::new(),
            rests_ms: 0,
        }
    }

    /// Node 1 has lost shard 1 to node 4, which stood by for it, and node 2 owns shard 3. Shard 2 was dissolved.
    fn map(level: u16) -> Map {
        let ranges = vec![
            Range { start: Slot::of(0), end: Slot::of(99), node: 2 },
            Range { start: Slot::of(100), end: Slot::of(16383), node: 1 },
        ];
        Map::new(None, 7, 1, vec![node(1, 5), node(2, 3), node(4, 2)], ranges)
            .with_level(level)
            .with_shards(vec![shard(1, 4, 2, 9), shard(3, 2, 3, 6)])
            .with_gone(vec![3], vec![ShardId(2)])
            .with_former(vec![(1, ShardId(1))])
    }

    fn of_node(number: u64) -> ParticipantId {
        ParticipantId::of(NodeId(number))
    }

    #[test]
    fn a_participant_is_a_shard_wherever_it_is() {
        let map = map(level::SHARD_PARTICIPANTS);
        let (first, third) = (ParticipantId::of_shard(1), ParticipantId::of_shard(3));
        assert_eq!(member(&map, 2), Member { id: first, incarnation: 9 });
        assert_eq!(participant(&map, 0), None, "it has lost its shard");
        for to in [first, of_node(1), of_node(4)] {
            assert_eq!(place(Recipient::Participant(to), &map), Some(NodeId(4)), "{to:?}");
        }
        assert_eq!(place(Recipient::Participant(third), &map), Some(NodeId(2)));
        assert_eq!(place(Recipient::Participant(ParticipantId::of_shard(2)), &map), None);
        assert_eq!(place(Recipient::Coordinator(NodeId(1)), &map), Some(NodeId(1)), "nodes coordinate");
    }

    #[test]
    fn a_process_speaks_for_a_shard_that_it_was_given_a_term_of() {
        let map = map(level::SHARD_PARTICIPANTS);
        let of = |node, incarnation| sender(&map, Life { node: NodeId(node), incarnation }).participant;
        assert_eq!(of(4, 2), Some(ParticipantId::of_shard(1)));
        assert_eq!([of(4, 1), of(4, 3)], [None; 2], "another life has the term");
        assert_eq!([of(1, 5), of(3, 1)], [None; 2], "they own none");
    }

    #[test]
    fn earlier_names_have_heirs_or_are_lost() {
        let map = map(level::SHARD_PARTICIPANTS);
        let (heirs, lost) = heirs(&map);
        let of = |node| heirs.iter().find(|(name, _)| *name == of_node(node)).map(|(_, heir)| *heir);
        assert_eq!([1, 2, 4].map(of), [1, 3, 1].map(|shard| Some(ParticipantId::of_shard(shard))));
        assert_eq!(lost, [ParticipantId::of_shard(2), of_node(3)]);
    }

    #[test]
    fn below_its_level_each_node_is_a_participant() {
        let map = map(level::SHARD_PARTICIPANTS - 1);
        assert_eq!(member(&map, 1), Member { id: of_node(2), incarnation: 3 });
        assert_eq!(place(Recipient::Participant(of_node(2)), &map), Some(NodeId(2)));
        let of = |node| participant_of(&map, Life { node: NodeId(node), incarnation: 2 }).map(|member| member.id);
        assert_eq!([of(1), of(4)], [None, Some(of_node(4))], "node 1 has lost its log");
        assert_eq!(heirs(&map), (Vec::new(), vec![of_node(3)]));
    }
}
