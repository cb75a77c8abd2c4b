//! A block that runs on copies of keys: what it has asked for, and what it has found.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::Workspace;
use txn::locks::Mode;
use txn::{Lock, Member, Part, ParticipantId};

use super::doubts::LOOK_MS;
use super::members::Others;
use crate::session::{Aside, Suspended};

/// Bytes of keys of one node that scripts find out about, at most.
const EXTRA_MAX: usize = 8 << 20;
/// What such a key costs beside itself, in bytes.
const KEY: usize = 16;
const TOO_CURIOUS: &[u8] = b"ERR a script used more than 8 MB of keys of one node that it had not declared";

/// Of keys, with their databases.
pub(super) type Versions = BTreeMap<(u16, Box<[u8]>), u64>;

/// A block that runs on copies.
#[derive(Default)]
pub(super) struct Fetching {
    /// The nodes concerned, and their keys.
    pub(super) parts: Vec<Part>,
    /// Keys that its present attempt was widened by, beside those of the parts, and their owners.
    pub(super) wider: Vec<(ParticipantId, Arc<[Lock]>)>,
    /// Keys that scripts turned out to need, and how many bytes they are by owner.
    pub(super) extra: Vec<Lock>,
    pub(super) extra_bytes: BTreeMap<ParticipantId, usize>,
    /// What its present attempt has found.
    pub(super) seen: Seen,
    /// It is a command between BEGIN and COMMIT.
    pub(super) interactive: bool,
    /// Its keys are fetched whole, whatever there are copies of.
    pub(super) whole: bool,
    /// It is between two transactions, and holds nothing, as nodes are asked about their keys.
    pub(super) apart: bool,
    /// What was asked for, of what its transaction had not seen.
    pub(super) asked: Vec<Lock>,
    /// What its script lacks.
    pub(super) further: Vec<Lock>,
    /// When it was first asked for, unix milliseconds.
    pub(super) asked_at: u64,
    /// The command waits if it finds nothing: the versions of the keys that there are.
    pub(super) patient: Option<Versions>,
    /// It runs.
    pub(super) run: Option<Box<Run>>,
    /// Other blocks that its transaction runs.
    pub(super) others: Option<Box<Others>>,
    /// It has run.
    pub(super) told: Option<Told>,
}

/// What was found for a block.
#[derive(Default)]
pub(super) struct Seen {
    /// The latest time at which a node has looked, unix milliseconds.
    pub(super) latest: u64,
    /// When the first of the keys, or of their fields, ends that were there, unix milliseconds.
    pub(super) ends: Option<u64>,
    /// How much it is, by participant.
    pub(super) bytes: BTreeMap<ParticipantId, usize>,
}

/// A block under way in a workspace.
pub(super) struct Run {
    pub(super) attempt: u32,
    pub(super) workspace: Workspace,
    pub(super) aside: Aside,
    /// Its time, unix milliseconds.
    pub(super) now: u64,
    pub(super) suspended: Option<Box<Suspended>>,
    /// When it began, in milliseconds of [`crate::Clock::boot_ns`].
    pub(super) begun: u64,
    /// When the owners of the keys were last told that it takes long, in milliseconds of [`crate::Clock::boot_ns`].
    pub(super) told_slow: Option<u64>,
}

/// What a block tells once it is committed.
#[derive(Default)]
pub(super) struct Told {
    pub(super) reply: Vec<u8>,
    pub(super) aside: Aside,
    /// The client's connection is to be closed.
    pub(super) closes: bool,
}

impl Run {
    /// Its script takes long, and it is time to say so: whether that is a function, and to whom.
    pub(super) fn slow_script(&mut self, now: u64, fetching: &Fetching) -> Option<(bool, Vec<ParticipantId>)> {
        let is_due = self.told_slow.is_none_or(|told| told + LOOK_MS <= now);
        // Between BEGIN and COMMIT nothing is held.
        let function = self.aside.slow.filter(|_| is_due && !fetching.interactive)?;
        self.told_slow = Some(now);
        Some((function, fetching.parts.iter().map(|part| part.member.id).collect()))
    }
}

impl Fetching {
    /// `extra`: keys that it is known to need beside those of its commands; `asked_at`: now, in unix milliseconds.
    pub(super) fn new(parts: Vec<Part>, extra: Vec<Lock>, asked_at: u64) -> Box<Self> {
        Box::new(Self { parts, extra, asked_at, ..Self::default() })
    }

    /// Of a command between BEGIN and COMMIT.
    pub(super) fn interactive(parts: Vec<Part>) -> Option<Box<Self>> {
        Some(Box::new(Self { parts, interactive: true, ..Self::default() }))
    }

    /// The life of a participant in which it was asked.
    pub(super) fn member_of(&self, id: ParticipantId) -> Option<Member> {
        self.parts.iter().map(|part| part.member).find(|member| member.id == id)
    }

    pub(super) fn is_interactive(&self) -> bool {
        self.interactive
    }

    /// Keys that it was found to need beside those of its commands.
    pub(super) fn extra(&self) -> &[Lock] {
        &self.extra
    }

    /// The version of a key that was looked at; 0: it is not there.
    pub(super) fn version_of(&self, db: u16, key: &[u8]) -> u64 {
        self.patient.as_ref().and_then(|versions| versions.get(&(db, key.into()))).copied().unwrap_or(0)
    }

    /// Whether keys have other owners now.
    pub(super) fn is_elsewhere(&self, parts: &[Part]) -> bool {
        let of = |parts: &[Part]| -> Vec<_> { parts.iter().map(|part| (part.member.id, part.locks.clone())).collect() };
        of(&self.parts) != of(parts)
    }

    /// Its keys are asked for whichever of its blocks runs.
    pub(super) fn note_own(&mut self) {
        let own: Vec<Lock> = self.locks().cloned().collect();
        self.extra.extend(own);
    }

    /// All its keys.
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
    /// Nothing is found yet.
    pub(super) fn begin_seeing(&mut self) {
        self.seen = Seen::default();
    }

    /// The parts have what the attempt was widened by, too.
    pub(super) fn put_together(&mut self) {
        let wider = std::mem::take(&mut self.wider);
        self.parts.iter_mut().for_each(|part| part.widen(&wider));
    }

    /// Whether it may ask for that beside what it has asked for. The error is for the client.
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

    /// Notes what is asked for beside what was.
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

    /// Whether it has some of these keys and shares them with others. Then it is to have all of its keys alone, as it
    /// may need more of them so.
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
