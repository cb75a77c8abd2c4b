//! Keys fetched from other nodes, on their way into a workspace, and the moment that they are of.

use std::sync::Arc;

use clocks::UnixMs;
use command::effects;
use engine::{BlockRun, Workspace};
use keyspace::Version;
use txn::{Lock, ParticipantId};

use super::block::Block;
use super::copies::{self, Copies, NoCopy};
use super::fetching::{Fetching, Run, Seen as AllSeen, Versions};
use super::part::{IMAGES_MAX, TOO_LARGE};
use super::port::{Port, Transacting};
use super::wire::{self, Image};
use crate::session::transaction::Interactive;
use crate::session::{Aside, Suspended};
use crate::worker::conn::Conn;

/// How far the clocks of nodes may be apart, in milliseconds. A block on keys of several nodes has one time: that of
/// the latest of them.
const APART_MAX: u64 = 60_000;
const APART: &str = "ERR the clocks of nodes of the cluster are more than a minute apart: nothing was done";
const WRONG: &str = "ERR a node of the cluster has sent an impossible answer";
/// Why a transaction is over.
const TOO_MUCH: &str = "it has looked at more than 16 MB";

/// Why nothing runs on the fetched keys.
pub(super) enum Unusable {
    /// By the clock of one node something is there whose time has come by that of another: it will have come by both.
    Untimely,
    /// A copy is gone that was named.
    NoCopy,
    /// The error for the client.
    Wrong(String),
}

impl From<NoCopy> for Unusable {
    fn from(why: NoCopy) -> Self {
        match why {
            NoCopy::Gone => Self::NoCopy,
            NoCopy::Wrong => WRONG.into(),
        }
    }
}

impl From<&str> for Unusable {
    fn from(text: &str) -> Self {
        Unusable::Wrong(text.into())
    }
}

/// The keys that a participant has sent.
struct Found<'a> {
    id: ParticipantId,
    /// Its time then.
    there: UnixMs,
    keys: Vec<Image<'a>>,
}

impl<P: Port> Transacting<'_, P> {
    /// Puts the fetched keys into a workspace. Returns the time of the block that runs there, and what it runs with.
    pub(super) fn fill_workspace(
        &mut self,
        conn: &mut Conn,
        block: &mut Block,
        workspace: &mut Workspace,
        found: &[(ParticipantId, Arc<[u8]>)],
    ) -> Result<(UnixMs, Aside), Unusable> {
        let may_wait = self.may_wait_for_keys(block);
        let Some(fetching) = block.fetching.as_deref_mut() else { return Err(WRONG.into()) };
        fetching.patient = may_wait.then(Versions::new);
        let clock = self.node().clock.unix_ms();
        let found = read(found, fetching.asked_at, clock)?;
        // No client may see a key that another client has seen to be gone.
        let latest = found.iter().map(|found| found.there).max();
        let transaction = conn.session.transaction.as_deref_mut().filter(|_| fetching.is_interactive());
        let now = match transaction.as_deref() {
            Some(transaction) => transaction.next_time(clock, latest),
            None => latest.unwrap_or(self.engine().now()),
        };
        workspace.begin(now, self.engine().tunables());
        match transaction {
            Some(transaction) => {
                transaction.note_all_found(fetching, &found)?;
                fetching.begin_seeing();
                fetching.seen.latest = now;
                let locks: Vec<Lock> = fetching.locks().cloned().collect();
                transaction.fill(workspace, None, (&locks, &mut fetching.seen), now)?;
                transaction.note_time(now, clock, latest.is_some());
            }
            None => {
                fetching.begin_seeing();
                fetching.fill((workspace, None), &mut self.txn().copies, &found)?;
            }
        }
        workspace.end();
        fetching.told = None;
        fetching.further.clear();
        let keys = fetching.locks().map(|lock| ((lock.db, lock.key.clone()), lock.mode)).collect();
        Ok((now, Aside { keys, ..Aside::default() }))
    }

    /// Puts into a script's workspace the keys that the script turned out to need. The script goes on with the time
    /// that it has.
    pub(super) fn fill_further(
        &mut self,
        fetching: &mut Fetching,
        run: &mut Run,
        found: &[(ParticipantId, Arc<[u8]>)],
    ) -> Result<(), Unusable> {
        let found = read(found, fetching.asked_at, self.node().clock.unix_ms())?;
        run.workspace.begin(run.now, self.engine().tunables());
        let amid = run.suspended.as_deref().and_then(Suspended::block);
        let filled = fetching.fill((&mut run.workspace, amid), &mut self.txn().copies, &found);
        run.workspace.end();
        run.has_further(fetching);
        filled
    }

    /// As before, of a script between BEGIN and COMMIT: its transaction may have seen some of that.
    pub(super) fn fill_further_interactive(
        &mut self,
        transaction: &mut Interactive,
        fetching: &mut Fetching,
        run: &mut Run,
        found: &[(ParticipantId, Arc<[u8]>)],
    ) -> Result<(), Unusable> {
        let found = read(found, fetching.asked_at, self.node().clock.unix_ms())?;
        transaction.note_all_found(fetching, &found)?;
        fetching.asked.clear();
        let latest = found.iter().map(|found| found.there).max();
        // A later command does not see an earlier time.
        transaction.now = transaction.now.max(latest.unwrap_or(UnixMs::ZERO));
        fetching.seen.latest = fetching.seen.latest.max(transaction.now);
        run.workspace.begin(run.now, self.engine().tunables());
        let amid = run.suspended.as_deref().and_then(Suspended::block);
        let filled = transaction.fill(&mut run.workspace, amid, (&fetching.further, &mut fetching.seen), run.now);
        run.workspace.end();
        run.has_further(fetching);
        filled
    }

    /// True if it is a command that waits if it finds nothing.
    fn may_wait_for_keys(&self, block: &Block) -> bool {
        let waits = |id: usize| self.node().table.get(id).spec.has(command::flags::BLOCKING);
        let is_interactive = block.fetching.as_deref().is_some_and(Fetching::is_interactive);
        block.alone && !is_interactive && block.multi.queue.iter().all(|queued| waits(queued.command))
    }

    /// The fetched keys are of no single moment: they are fetched again.
    pub(super) fn fetch_later(&mut self, which: (u64, u32)) {
        let (now, mut events) = (self.now(), Vec::new());
        if let Some(coordinator) = self.txn().coordinator.as_mut() {
            // If the attempt is void by now, there will be another.
            coordinator.later(now, which, &mut events);
        }
        self.carry_out(events);
    }
}

/// Reads the answers of nodes that were asked at `asked_at` by this node's clock, which is `clock` now.
fn read(said: &[(ParticipantId, Arc<[u8]>)], asked_at: UnixMs, clock: UnixMs) -> Result<Vec<Found<'_>>, Unusable> {
    let mut all = Vec::with_capacity(said.len());
    for (id, said) in said {
        let (there, keys) = wire::found(said).map_err(|_| WRONG)?;
        // It has answered after it was asked, and before this.
        if there > clock + APART_MAX || there + APART_MAX < asked_at {
            let ahead_ms = there.ahead_of(clock);
            tracing::warn!(
                cause = id.0,
                node = id.0,
                ahead_ms,
                "the clock of another node is far from that of this one"
            );
            return Err(APART.into());
        }
        all.push(Found { id: *id, there, keys });
    }
    Ok(all)
}

/// The database and the key of an image.
pub(super) fn place_of(image: &[u8]) -> Option<(u16, &[u8])> {
    let effect = effects::decode(image).next()?.ok()?;
    Some((effect.db, effect.key))
}

/// True if the time has come of a key, or of one of its fields, that [ends](Workspace::ends) so.
fn have_ended(ends: [Option<UnixMs>; 2], now: UnixMs) -> bool {
    ends.into_iter().flatten().any(|ends| ends < now)
}

impl AllSeen {
    /// True if something that was there has ended by the time at which a node has looked.
    fn have_ended(&self) -> bool {
        have_ended([self.ends, None], self.latest)
    }
}

impl Run {
    /// The keys that its script lacked are there.
    fn has_further(&mut self, fetching: &mut Fetching) {
        let further = std::mem::take(&mut fetching.further);
        self.aside.keys.extend(further.into_iter().map(|lock| ((lock.db, lock.key), lock.mode)));
    }
}

/// A command or block runs on the keys that were fetched for it, and on no others.
impl Fetching {
    /// `amid`: the block that lacked these keys, if it runs already. All keys that are fetched for it, now and before,
    /// must exist at one time, the latest at which a node has looked. Another client may have seen there that a key is
    /// gone. A client that asks only a key's owner gets the answer by the owner's clock.
    fn fill(
        &mut self,
        (workspace, amid): (&mut Workspace, Option<&BlockRun>),
        copies: &mut Copies,
        found: &[Found<'_>],
    ) -> Result<(), Unusable> {
        for Found { id, there, keys } in found {
            self.seen.latest = self.seen.latest.max(*there);
            let mut bytes = self.seen.bytes.get(id).copied().unwrap_or(0);
            bytes += keys.iter().map(|(_, said)| said.len()).sum::<usize>();
            for (version, said) in keys {
                let place = if copies::are_steps(said) {
                    let steps = wire::steps(said).map_err(|_| WRONG)?;
                    let place = (steps.db, steps.key);
                    bytes += copies.fill(workspace, amid, *id, (*version, steps))?;
                    Some(place)
                } else {
                    workspace.put(said, amid).map_err(|_| WRONG)?;
                    place_of(said)
                };
                if bytes > IMAGES_MAX {
                    return Err(Unusable::Wrong(String::from_utf8_lossy(TOO_LARGE).into_owned()));
                }
                if *version != Version::ZERO
                    && let Some(place) = place
                {
                    if let Some(owner) = self.member_of(*id) {
                        copies.keep(workspace, amid, owner, (place, *version));
                    }
                    let ends = workspace.ends(place, *there, amid).into_iter().flatten();
                    self.seen.ends = ends.chain(self.seen.ends).min();
                }
                if let Some(versions) = &mut self.patient
                    && let Some((db, key)) = place
                {
                    versions.insert((db, key.into()), *version);
                }
            }
            self.seen.bytes.insert(*id, bytes);
        }
        if self.seen.have_ended() { Err(Unusable::Untimely) } else { Ok(()) }
    }
}

/// A command between BEGIN and COMMIT runs on the keys of its transaction: those that were fetched for it, now or
/// earlier, with its own changes.
impl Interactive {
    /// The time of its next command; `latest`: the latest time of the nodes that were asked for it.
    fn next_time(&self, clock: UnixMs, latest: Option<UnixMs>) -> UnixMs {
        // It goes on by the clocks of the nodes that were asked, whatever this node's clock says.
        let goes_on = clock.ahead_by(self.lead);
        // It sees no key again that it has seen to be gone.
        latest.unwrap_or(goes_on).max(self.now)
    }

    /// The time of its next command is `now`, when this node's clock is at `clock`.
    fn note_time(&mut self, now: UnixMs, clock: UnixMs, others_were_asked: bool) {
        if others_were_asked {
            self.lead = now.ahead_of(clock);
        }
        self.now = now;
    }

    fn note_all_found(&mut self, fetching: &Fetching, found: &[Found<'_>]) -> Result<(), Unusable> {
        for Found { id, there, keys } in found {
            let of = |lock: &&Lock| fetching.owner_of(lock.place()) == Some(*id);
            let asked: Vec<Lock> = fetching.asked.iter().filter(of).cloned().collect();
            if !self.note_found(&asked, *there, keys) {
                self.end(TOO_MUCH);
                return Err(Unusable::Wrong(format!("ABORTED The transaction was rolled back: {TOO_MUCH}")));
            }
        }
        Ok(())
    }

    /// Puts keys of a command, which runs at `now`, into a workspace; `amid`: the block that lacked these keys, if it
    /// runs already. `all`: the keys that it has seen.
    fn fill(
        &mut self,
        workspace: &mut Workspace,
        amid: Option<&BlockRun>,
        (locks, all): (&[Lock], &mut AllSeen),
        now: UnixMs,
    ) -> Result<(), Unusable> {
        for lock in locks {
            let seen = self.keys.get_mut(&(lock.db, lock.key.clone())).ok_or(WRONG)?;
            workspace.put(&seen.image, amid).map_err(|_| WRONG)?;
            let fetched = seen.fetched.take();
            if let Some(there) = fetched.filter(|_| seen.version != Version::ZERO) {
                seen.ends = workspace.ends((lock.db, &lock.key), there, amid);
            }
            match fetched {
                _ if !have_ended(seen.ends, now) => {
                    all.ends = seen.ends.into_iter().flatten().chain(all.ends).min();
                }
                // It is asked for again.
                Some(_) => return Err(Unusable::Untimely),
                // It was there for an earlier command.
                None => seen.doubt(),
            }
        }
        if all.have_ended() { Err(Unusable::Untimely) } else { Ok(()) }
    }
}
