//! A block that runs on copies of keys: the keys that it has asked for, and the values that it has found.

use std::collections::BTreeMap;
use std::sync::Arc;

use clocks::{BootMs, UnixMs};
use engine::Workspace;
use keyspace::Version;
use txn::locks::Mode;
use txn::{Lock, Member, Part, ParticipantId};

use super::doubts::LOOK_MS;
use super::members::Others;
use crate::session::{Aside, Suspended};

/// Most bytes of undeclared keys of one node.
const EXTRA_MAX: usize = 8 << 20;
/// Bytes that such a key counts beside its name.
const KEY: usize = 16;
const TOO_CURIOUS: &[u8] = b"ERR the script used more than 8 MB of undeclared keys of one node";

/// Versions of keys, by database and key.
pub(super) type Versions = BTreeMap<(u16, Box<[u8]>), Version>;

/// A block that runs on copies.
#[derive(Default)]
pub(super) struct Fetching {
    /// The nodes concerned, and their keys.
    pub(super) parts: Vec<Part>,
    /// Keys, with their owners, by which the present attempt was widened. They are not in `parts` yet.
    pub(super) wider: Vec<(ParticipantId, Arc<[Lock]>)>,
    /// Keys that scripts turned out to need, and their bytes by owner.
    pub(super) extra: Vec<Lock>,
    pub(super) extra_bytes: BTreeMap<ParticipantId, usize>,
    /// The values that its present attempt has found.
    pub(super) seen: Seen,
    /// True if the block is a command between BEGIN and COMMIT.
    pub(super) interactive: bool,
    /// True if its keys are fetched whole, even those that the worker has copies of.
    pub(super) whole: bool,
    /// True if the block is between two transactions. It holds no locks while other nodes answer a question about all
    /// keys.
    pub(super) apart: bool,
    /// Keys that were asked for because the client's transaction had not seen them.
    pub(super) asked: Vec<Lock>,
    /// Keys that its script lacks.
    pub(super) further: Vec<Lock>,
    /// When the block first asked for its keys.
    pub(super) asked_at: UnixMs,
    /// Present if the command waits when it finds nothing: the versions of the keys that exist.
    pub(super) patient: Option<Versions>,
    /// Present while the block runs.
    pub(super) run: Option<Box<Run>>,
    /// The other blocks of its transaction.
    pub(super) others: Option<Box<Others>>,
    /// The result of the block, once it has run.
    pub(super) told: Option<Told>,
}

/// The values found for a block.
#[derive(Default)]
pub(super) struct Seen {
    /// The latest time at which a node read them.
    pub(super) latest: UnixMs,
    /// When the first of the found keys, or of their fields, expires.
    pub(super) ends: Option<UnixMs>,
    /// Bytes found, by participant.
    pub(super) bytes: BTreeMap<ParticipantId, usize>,
}

/// A block that runs in a workspace.
pub(super) struct Run {
    pub(super) attempt: u32,
    pub(super) workspace: Workspace,
    pub(super) aside: Aside,
    /// The time that its commands see.
    pub(super) now: UnixMs,
    pub(super) suspended: Option<Box<Suspended>>,
    /// When it began.
    pub(super) begun: BootMs,
    /// When the owners of the keys were last told that the block takes long.
    pub(super) told_slow: Option<BootMs>,
}

/// The result of a block, which is told once the block is committed.
#[derive(Default)]
pub(super) struct Told {
    pub(super) reply: Vec<u8>,
    pub(super) aside: Aside,
    /// True if the client's connection is to be closed.
    pub(super) closes: bool,
}

impl Run {
    /// If the script takes long and the owners are to hear so: true if it is a function, and the participants to tell.
    pub(super) fn slow_script(&mut self, now: BootMs, fetching: &Fetching) -> Option<(bool, Vec<ParticipantId>)> {
        let is_due = self.told_slow.is_none_or(|told| told + LOOK_MS <= now);
        // Between BEGIN and COMMIT no locks are held.
        let function = self.aside.slow.filter(|_| is_due && !fetching.interactive)?;
        self.told_slow = Some(now);
        Some((function, fetching.parts.iter().map(|part| part.member.id).collect()))
    }
}

impl Fetching {
    /// `extra`: keys that the block is known to need beside those of its commands. `asked_at`: now.
    pub(super) fn new(parts: Vec<Part>, extra: Vec<Lock>, asked_at: UnixMs) -> Box<Self> {
        Box::new(Self { parts, extra, asked_at, ..Self::default() })
    }

    /// For a command between BEGIN and COMMIT.
    pub(super) fn interactive(parts: Vec<Part>) -> Option<Box<Self>> {
        Some(Box::new(Self { parts, interactive: true, ..Self::default() }))
    }

    /// The participant, in the life in which it was asked.
    pub(super) fn member_of(&self, id: ParticipantId) -> Option<Member> {
        self.parts.iter().map(|part| part.member).find(|member| member.id == id)
    }

    pub(super) fn is_interactive(&self) -> bool {
        self.interactive
    }

    /// Keys that the block was found to need beside those of its commands.
    pub(super) fn extra(&self) -> &[Lock] {
        &self.extra
    }

    /// The version at which a key was seen; 0 if it did not exist.
    pub(super) fn version_of(&self, db: u16, key: &[u8]) -> Version {
        self.patient.as_ref().and_then(|versions| versions.get(&(db, key.into()))).copied().unwrap_or_default()
    }

    /// True if keys have other owners now.
    pub(super) fn is_elsewhere(&self, parts: &[Part]) -> bool {
        let of = |parts: &[Part]| -> Vec<_> { parts.iter().map(|part| (part.member.id, part.locks.clone())).collect() };
        of(&self.parts) != of(parts)
    }

    /// Makes its keys part of `extra`, so that they are asked for whichever block of the transaction runs.
    pub(super) fn note_own(&mut self) {
        let own: Vec<Lock> = self.locks().cloned().collect();
        self.extra.extend(own);
    }

    /// All keys of its parts.
    pub(super) fn locks(&self) -> impl Iterator<Item = &Lock> {
        self.parts.iter().flat_map(|part| part.locks.iter())
    }

    pub(super) fn owner_of(&self, place: (u16, &[u8])) -> Option<ParticipantId> {
        let has = |locks: &[Lock]| locks.binary_search_by(|lock| lock.place().cmp(&place)).is_ok();
        let part = self.parts.iter().find(|part| has(&part.locks)).map(|part| part.member.id);
        part.or_else(|| self.wider.iter().rev().find(|(_, locks)| has(locks)).map(|(id, _)| *id))
    }
}

impl Fetching {
    /// Forgets the values found before.
    pub(super) fn begin_seeing(&mut self) {
        self.seen = Seen::default();
    }

    /// Adds the keys by which the attempt was widened to the parts.
    pub(super) fn put_together(&mut self) {
        let wider = std::mem::take(&mut self.wider);
        self.parts.iter_mut().for_each(|part| part.widen(&wider));
    }

    /// Checks the limit on further keys, and counts these. The error is for the client.
    pub(super) fn may_widen(&mut self, more: Vec<Part>) -> Result<Vec<Part>, Vec<u8>> {
        for part in &more {
            let bytes = self.extra_bytes.entry(part.member.id).or_default();
            *bytes += part.locks.iter().map(|lock| lock.key.len() + KEY).sum::<usize>();
            if *bytes > EXTRA_MAX {
                return Err(TOO_CURIOUS.into());
            }
        }
        Ok(more)
    }

    /// Notes the further keys that the attempt asks for.
    pub(super) fn note_wider(&mut self, more: &[Part]) {
        for part in more {
            let id = part.member.id;
            match self.parts.iter().any(|known| known.member.id == id) {
                true => self.wider.push((id, Arc::clone(&part.locks))),
                false => self.parts.push(part.clone()),
            }
        }
        self.parts.sort_by_key(|part| part.member);
        self.further = more.iter().flat_map(|part| part.locks.iter().cloned()).collect();
    }

    /// True if the attempt holds some of these keys with a shared lock. All its keys are then to be locked exclusively
    /// from the start, as a shared lock cannot become an exclusive one.
    pub(super) fn shares_some_of(&mut self, missing: &[Lock]) -> bool {
        let Some(run) = self.run.as_deref() else { return false };
        let shares = missing.iter().any(|lock| run.aside.keys.contains_key(&(lock.db, lock.key.clone())));
        if shares {
            self.put_together();
            let alone = self.locks().map(|lock| Lock { mode: Mode::Exclusive, ..lock.clone() });
            let alone: Vec<Lock> = alone.collect();
            self.extra.extend(alone);
        }
        shares
    }
}
