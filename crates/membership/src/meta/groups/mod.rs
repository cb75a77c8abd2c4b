//! Log groups: where copies of a shard's log lie, and which folders there are its acceptors.
//!
//! A *place* is a directory of a member. A group is a name and a list of places. A shard that uses a group has a copy
//! at its owner and at the group's places on other members. The process that has a place makes the folder there, and
//! reports the folder's name once: an acceptor. A folder that lost anything has another name. It is refused, until an
//! operator gives the place anew (rule G9).
//!
//! Acceptors of a shard change as rule G11 says. The new set is *pending* until the owner settles it.

mod command;

use std::collections::BTreeMap;

use quorum::{AcceptorId, ShardId};
use standby::NodeNumber;

use super::standbys::is_last_copy_of;
use super::{Acceptor, Kind, NODES_MAX, Refusal, Shard, State};
use crate::codec::{Malformed, Reader, put_bytes, put_count};
use crate::{NodeId, level};

pub use command::{GroupCommand, GroupRefusal, Recover, Report, Settle};

/// The name of the group that every shard without another one uses, if there is a group of this name.
pub const DEFAULT_GROUP: &str = "default";

/// The directory of a place that its process chooses. At a shard's owner it is the shard's own log.
pub const DEFAULT_DIR: &str = "-";

/// Most groups.
pub const GROUPS_MAX: usize = 64;

/// Most places of a group.
pub const PLACES_MAX: usize = 7;

/// Bytes of the longest name of a group.
pub const GROUP_NAME_MAX: usize = 64;

/// Bytes of the longest directory.
pub const DIR_MAX: usize = 255;

/// A directory of a member.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// The node or log-server.
    pub member: NodeId,
    /// An absolute path, or [`DEFAULT_DIR`].
    pub dir: String,
}

impl Place {
    /// The place of a shard's own log.
    fn own(owner: NodeId) -> Self {
        Self { member: owner, dir: DEFAULT_DIR.to_owned() }
    }

    fn put(&self, out: &mut Vec<u8>) {
        self.member.put(out);
        put_bytes(out, self.dir.as_bytes());
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { member: NodeId::read(from)?, dir: from.text(DIR_MAX)?.to_owned() })
    }

    /// True if it is written as places are.
    fn is_well_formed(&self) -> bool {
        let is_path = self.dir.starts_with('/') && !self.dir.contains(|c: char| c.is_control());
        self.dir.len() <= DIR_MAX && (self.dir == DEFAULT_DIR || is_path)
    }
}

/// A group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its places, in the order in which they were named.
    pub places: Vec<Place>,
}

/// An acceptor that has reported itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reported {
    /// The shard whose log it copies.
    pub shard: ShardId,
    /// Where it is.
    pub place: Place,
    /// Its name.
    pub id: AcceptorId,
}

/// The places of a shard's copies: the owner's own first. There are as many as the group has places, if enough of them
/// are on other members. Shards begin at different places of a group that has more than they need.
pub fn copies(places: &[Place], shard: ShardId, owner: NodeId) -> Vec<Place> {
    let others: Vec<&Place> = places.iter().filter(|place| place.member != owner).collect();
    let (count, begin) = (places.len().saturating_sub(1), shard.0 as usize);
    let chosen = (0..others.len().min(count)).map(|at| others[(begin + at) % others.len()].clone());
    [Place::own(owner)].into_iter().chain(chosen).collect()
}

/// Groups, and acceptors that have reported themselves.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Groups {
    all: BTreeMap<String, Vec<Place>>,
    /// An acceptor for each place of a shard's copies.
    reported: BTreeMap<(ShardId, Place), AcceptorId>,
}

impl Groups {
    /// All groups, in the order of their names.
    pub fn all(&self) -> Vec<Group> {
        self.all.iter().map(|(name, places)| Group { name: name.clone(), places: places.clone() }).collect()
    }

    /// All acceptors that have reported themselves.
    pub fn reported(&self) -> Vec<Reported> {
        let reported = self.reported.iter();
        reported.map(|((shard, place), id)| Reported { shard: *shard, place: place.clone(), id: *id }).collect()
    }

    /// A group, and an acceptor at its first place.
    #[cfg(test)]
    pub fn set(&mut self, name: &str, places: &[Place], shard: ShardId, id: AcceptorId) {
        self.all.insert(name.to_owned(), places.to_vec());
        self.reported.insert((shard, places[0].clone()), id);
    }

    /// A group that has a place at this member.
    fn with(&self, member: NodeId) -> Option<&String> {
        let mut groups = self.all.iter();
        groups.find(|(_, places)| places.iter().any(|place| place.member == member)).map(|(name, _)| name)
    }

    /// The places of the group that a shard uses. None: it uses none, and its owner has the only copy.
    fn of(&self, shard: &Shard) -> Option<&Vec<Place>> {
        let name = if shard.group.is_empty() { DEFAULT_GROUP } else { &shard.group };
        self.all.get(name)
    }

    /// The places of a shard's copies.
    fn copies(&self, shard: &Shard) -> Vec<Place> {
        self.of(shard).map_or_else(Vec::new, |places| copies(places, shard.id, shard.owner))
    }

    /// Appends them.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_count(out, self.all.len());
        for (name, places) in &self.all {
            put_bytes(out, name.as_bytes());
            put_places(out, places);
        }
        put_count(out, self.reported.len());
        for ((shard, place), id) in &self.reported {
            out.extend_from_slice(&shard.0.to_le_bytes());
            place.put(out);
            out.extend_from_slice(&id.0);
        }
    }

    /// The next ones in `from`.
    pub fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut groups = Self::default();
        for _ in 0..from.count(GROUPS_MAX)? {
            groups.all.insert(from.text(GROUP_NAME_MAX)?.to_owned(), places(from)?);
        }
        for _ in 0..from.count(NODES_MAX * (PLACES_MAX + 1))? {
            let (shard, place) = (ShardId(from.u32()?), Place::read(from)?);
            groups.reported.insert((shard, place), AcceptorId(from.array()?));
        }
        Ok(groups)
    }
}

fn put_places(out: &mut Vec<u8>, places: &[Place]) {
    put_count(out, places.len());
    places.iter().for_each(|place| place.put(out));
}

fn places(from: &mut Reader<'_>) -> Result<Vec<Place>, Malformed> {
    let count = from.count(PLACES_MAX)?;
    (0..count).map(|_| Place::read(from)).collect()
}

impl State {
    /// The groups, in the order of their names.
    pub fn groups(&self) -> Vec<Group> {
        self.groups.all()
    }

    pub(super) fn change_groups(&mut self, command: &GroupCommand) -> Result<(), Refusal> {
        if self.level < level::SHARDS {
            return Err(Refusal::EarlierLevel { has: self.level, needs: level::SHARDS });
        }
        match command {
            GroupCommand::Add(group) => self.add_group(group),
            GroupCommand::Use { name, shards } => self.use_group(name, shards),
            GroupCommand::Replace { name, old, new } => self.replace(name, old, new),
            GroupCommand::Report(report) => self.report(report),
            GroupCommand::Settle(settle) => self.settle(settle),
            GroupCommand::Recover(recover) => self.recover(recover),
        }
    }

    fn add_group(&mut self, group: &Group) -> Result<(), Refusal> {
        let Group { name, places } = group;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.len() > GROUP_NAME_MAX || name == DEFAULT_DIR || !name.chars().all(is_plain) {
            return Err(GroupRefusal::BadName.into());
        }
        match self.groups.all.get(name) {
            Some(known) if known == places => return Ok(()),
            Some(_) => return Err(GroupRefusal::Exists(name.clone()).into()),
            None if self.groups.all.len() >= GROUPS_MAX => return Err(Refusal::TooMany),
            None => {}
        }
        if places.is_empty() || places.len() > PLACES_MAX {
            return Err(GroupRefusal::BadPlaces.into());
        }
        for (at, place) in places.iter().enumerate() {
            self.may_be_in_a_group(place)?;
            if places[..at].contains(place) {
                return Err(GroupRefusal::Twice(place.clone()).into());
            }
        }
        self.groups.all.insert(name.clone(), places.clone());
        self.consider_all();
        self.version += 1;
        Ok(())
    }

    fn may_be_in_a_group(&self, place: &Place) -> Result<(), Refusal> {
        match self.members.get(&place.member) {
            None => Err(Refusal::Unknown(place.member)),
            Some(member) if member.lost => Err(GroupRefusal::Lost(place.member).into()),
            Some(_) if !place.is_well_formed() => Err(GroupRefusal::BadDir(place.dir.clone()).into()),
            Some(_) => Ok(()),
        }
    }

    fn use_group(&mut self, name: &str, shards: &[ShardId]) -> Result<(), Refusal> {
        if !name.is_empty() && !self.groups.all.contains_key(name) {
            return Err(GroupRefusal::NoGroup(name.to_owned()).into());
        }
        if let Some(unknown) = shards.iter().find(|shard| !self.shards.all.contains_key(shard)) {
            return Err(GroupRefusal::NoShard(*unknown).into());
        }
        let chosen = |shard: &Shard| shards.is_empty() || shards.contains(&shard.id);
        for shard in self.shards.all.values_mut().filter(|shard| chosen(shard)) {
            name.clone_into(&mut shard.group);
        }
        self.consider_all();
        self.version += 1;
        Ok(())
    }

    fn replace(&mut self, name: &str, old: &Place, new: &Place) -> Result<(), Refusal> {
        let Some(places) = self.groups.all.get(name) else {
            return Err(GroupRefusal::NoGroup(name.to_owned()).into());
        };
        let Some(at) = places.iter().position(|place| place == old) else {
            // It may be asked for again, after an answer that was lost.
            let is_done = places.contains(new);
            return if is_done { Ok(()) } else { Err(GroupRefusal::NoPlace(old.clone()).into()) };
        };
        self.may_be_in_a_group(new)?;
        if old != new && places.contains(new) {
            return Err(GroupRefusal::Twice(new.clone()).into());
        }
        if let Some(places) = self.groups.all.get_mut(name) {
            places[at] = new.clone();
        }
        // The folder of a log without copies is not replaced: with it the shard's data would be gone.
        let is_given_up = |shard: ShardId| {
            self.shards.all.get(&shard).is_some_and(|of| {
                let group = if of.group.is_empty() { DEFAULT_GROUP } else { &of.group };
                group == name && (of.owner != old.member || of.settled.len() > 1)
            })
        };
        self.groups.reported.retain(|(shard, place), _| place != old || !is_given_up(*shard));
        self.consider_all();
        self.version += 1;
        Ok(())
    }

    fn report(&mut self, Report { shard, place, incarnation, id, streams }: &Report) -> Result<(), Refusal> {
        let Some(member) = self.members.get(&place.member) else { return Err(Refusal::Unknown(place.member)) };
        if *incarnation != member.incarnation {
            return Err(Refusal::EarlierLife { id: place.member, known: member.incarnation });
        }
        let Some(of) = self.shards.all.get(shard) else { return Err(GroupRefusal::NoShard(*shard).into()) };
        if !self.groups.copies(of).contains(place) {
            return Err(GroupRefusal::NoPlace(place.clone()).into());
        }
        let key = (*shard, place.clone());
        match self.groups.reported.get(&key) {
            Some(known) if known == id => return Ok(()),
            Some(_) => return Err(GroupRefusal::OtherFolder(place.clone()).into()),
            None => {}
        }
        if self.groups.reported.values().any(|known| known == id) {
            return Err(GroupRefusal::SameFolder(place.clone()).into());
        }
        let says_streams = of.streams == 0 && place.member == of.owner;
        if *streams == 0 || !says_streams && *streams != of.streams {
            return Err(GroupRefusal::OtherStreams(*shard, of.streams).into());
        }
        if let Some(of) = self.shards.all.get_mut(shard) {
            of.streams = *streams;
        }
        self.groups.reported.insert(key, *id);
        self.consider(*shard);
        self.version += 1;
        Ok(())
    }

    fn settle(&mut self, Settle { shard, id, incarnation, term, acceptors }: &Settle) -> Result<(), Refusal> {
        let Some(of) = self.shards.all.get_mut(shard).filter(|of| of.owner == *id) else {
            return Err(Refusal::NotOwner { id: *id, shard: *shard });
        };
        if (*term, *incarnation) != (of.term, of.incarnation) {
            return Err(Refusal::OtherTerm { shard: *shard, term: of.term });
        }
        let ids = |of: &[Acceptor]| of.iter().map(|acceptor| acceptor.id).collect::<Vec<_>>();
        let Some(pending) = of.pending.as_ref().filter(|pending| ids(pending) == *acceptors) else {
            let is_so = of.pending.is_none() && ids(&of.settled) == *acceptors;
            return if is_so { Ok(()) } else { Err(GroupRefusal::OtherAcceptors(*shard).into()) };
        };
        if *term <= of.pending_since {
            return Err(GroupRefusal::OtherAcceptors(*shard).into());
        }
        of.settled = pending.clone();
        of.pending = None;
        self.consider(*shard);
        self.version += 1;
        Ok(())
    }

    /// A node without slots takes over a shard whose owner is lost. The owner holds no lease, and a majority of the
    /// acceptors answers: the leader has seen to that.
    fn recover(&mut self, Recover { shard, to }: &Recover) -> Result<(), Refusal> {
        if self.shards.all.get(shard).is_some_and(|of| of.owner == *to) {
            // It may be asked for again, after an answer that was lost.
            return Ok(());
        }
        self.may_recover(*shard, *to)?;
        if let Some(member) = self.members.get(to) {
            self.shards.drop_standby(NodeNumber(member.number));
        }
        let empty: Vec<ShardId> = self.shards.of(*to).map(|of| of.id).collect();
        for id in empty {
            self.shards.all.remove(&id);
            self.shards.gone.insert(id);
        }
        if let Some(of) = self.shards.all.get_mut(shard) {
            let before = std::mem::replace(&mut of.owner, *to);
            of.incarnation = 0;
            let number = self.members.get(&before).map(|member| member.number);
            if let Some(number) = number.filter(|_| self.level >= level::HEIRS) {
                self.shards.former.insert(number, *shard);
            }
        }
        self.epoch += 1;
        if let Some(member) = self.members.get_mut(to) {
            member.epoch = self.epoch;
        }
        self.consider_all();
        self.version += 1;
        Ok(())
    }

    /// Checks that a node may take over a shard, as far as the metadata know.
    ///
    /// # Errors
    /// A standby may take the shard over. Or the shard has one copy only, or the node has keys of its own, or a copy: a node reads copies at others only. Or it
    /// has lost a shard before: logs name it as the owner of that one.
    pub fn may_recover(&self, shard: ShardId, to: NodeId) -> Result<(), Refusal> {
        let Some(of) = self.shards.all.get(&shard) else { return Err(GroupRefusal::NoShard(shard).into()) };
        let member = self.members.get(&to).filter(|member| member.kind == Kind::Data && !member.lost);
        match (member, self.slots_of(to)) {
            (None, _) => Err(Refusal::Unknown(to)),
            _ if of.owner == to => Err(GroupRefusal::Owns(to, shard).into()),
            (Some(member), _) if self.shards.former.contains_key(&member.number) => {
                Err(GroupRefusal::HasLost(to).into())
            }
            (_, slots @ 1..) => Err(Refusal::OwnsSlots { id: to, slots: slots as u32 }),
            _ if is_last_copy_of(of).is_err() => is_last_copy_of(of),
            _ if of.settled.len() < 2 => Err(GroupRefusal::OneCopy(shard).into()),
            _ if of.has_copy_at(to) => Err(GroupRefusal::HasCopy(to, shard).into()),
            _ => Ok(()),
        }
    }

    /// Checks that no place of a group, and no copy of another node's log, keeps a member in the cluster.
    ///
    /// # Errors
    /// The group, or the shard whose log would lose a copy that counts.
    pub(super) fn is_free(&self, id: NodeId) -> Result<(), Refusal> {
        if let Some(name) = self.groups.with(id) {
            return Err(GroupRefusal::InGroup(id, name.clone()).into());
        }
        match self.shards.all.values().find(|of| of.owner != id && of.has_copy_at(id)) {
            Some(of) => Err(GroupRefusal::Counts(id, of.id).into()),
            None => Ok(()),
        }
    }

    /// Shards, their owners or groups have changed.
    pub(super) fn consider_all(&mut self) {
        let shards: Vec<ShardId> = self.shards.all.keys().copied().collect();
        self.groups.reported.retain(|(shard, _), _| shards.contains(shard));
        shards.into_iter().for_each(|shard| self.consider(shard));
    }

    /// Finds the acceptors that a shard should have, and makes them pending if there are enough of them.
    ///
    /// A set may grow until the owner has asked for a term with it. From then on it stays until it is settled, unless
    /// one of its folders is given up. Then the set is withdrawn: what is committed is on a majority of the settled set
    /// as well (rule G11).
    fn consider(&mut self, shard: ShardId) {
        let Some(of) = self.shards.all.get_mut(&shard) else { return };
        let copies = match self.groups.copies(of) {
            // It gives its copies up.
            none if none.is_empty() && of.settled.len() > 1 => vec![Place::own(of.owner)],
            copies => copies,
        };
        self.groups.reported.retain(|(other, place), _| *other != shard || copies.contains(place));
        let acceptor = |place: &Place| {
            let id = self.groups.reported.get(&(shard, place.clone()))?;
            Some(Acceptor { id: *id, node: place.member })
        };
        let found: Vec<Acceptor> = copies.iter().filter_map(acceptor).collect();
        let Some(own) = copies.first().and_then(acceptor) else {
            // The owner's own folder has not reported itself.
            of.pending = None;
            return;
        };
        if of.settled.is_empty() {
            // The log that it has written alone is a group of one.
            of.settled = vec![own];
        }
        if let Some(pending) = &of.pending
            && of.term > of.pending_since
            && pending.iter().all(|acceptor| found.contains(acceptor))
        {
            return;
        }
        let enough = found.len() > copies.len() / 2;
        let is_settled = found.len() == of.settled.len() && found.iter().all(|acceptor| of.settled.contains(acceptor));
        of.pending = (enough && !is_settled).then_some(found);
        of.pending_since = of.term;
    }
}
