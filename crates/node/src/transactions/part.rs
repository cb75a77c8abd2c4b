//! A node's part in an attempt, once it has its locks. It is executed and undone, or its keys are read, and the node
//! answers.

use std::sync::Arc;

use crate::admission::rights::User;
use clocks::UnixMs;
use command::effects::{self, op};
use command::flags;
use engine::{BlockRun, Call, Caller, Undone, Untimely};
use resp::{Args, Batch};
use txn::locks::Mode;
use txn::{Action, Execution, Lock, Record, RecordKind, Refusal, TxnId};

use super::client::{Client, Watched};
use super::port::{Desk, Port, Transacting};
use super::split::is_splittable;
use super::state::Looked;
use super::tasks::Done;
use super::wire;
use crate::admission::{self, AS_OF_CLIENTS, Admitted, Step, admit, arity, memory, rights, state};
use crate::cluster::peers::slot_of;
use crate::table::Command;
use crate::users::{Denial, UserTable};

/// Bytes of a part's replies, at most: they travel in one message.
const REPLIES_MAX: usize = 8 << 20;

/// Bytes of values, at most, that a transaction fetches from one node: they travel in one message.
pub(super) const IMAGES_MAX: usize = 8 << 20;
pub(super) const TOO_LARGE: &[u8] =
    b"ERR the values of one node are too large (8 MB) for a command, script or block with keys of several nodes";

impl<P: Port> Transacting<'_, P> {
    /// A part has its locks: it does what its participant asks for now.
    pub(super) fn has_locks(
        &mut self,
        mut block: BlockRun,
        (tx, widens): (TxnId, bool),
        locks: &[Lock],
        client: &Client,
        refusal: Option<Refusal>,
    ) -> Done {
        let wanted = self.part_locked(tx, true).into_iter().next();
        let caller = client.caller;
        let changed = match &client.watched {
            Watched::Nothing => false,
            Watched::Keys(keys) => !self.engine().is_unchanged(&block, keys),
            Watched::Lost => true,
        };
        let refusal = if changed { Some(Refusal::Changed) } else { refusal };
        match wanted {
            Some(Action::Execute { commands, logged, moment, .. }) => {
                let refusal = refusal.filter(|why| *why == Refusal::Changed || self.needs_room(&commands));
                let refusal = refusal.or_else(|| self.refusal_of_moment(&block, locks, moment?));
                self.execute_part(block, tx, locks, (&commands, logged, caller), refusal)
            }
            Some(Action::Fetch { logged, commands, .. }) => {
                let refusal = refusal.filter(|why| *why == Refusal::Changed);
                self.look_for_part(block, tx, (locks, &commands, logged, caller), refusal)
            }
            // The part was given up meanwhile.
            _ => {
                self.engine().undo_attempt(&mut block);
                let _ = match widens {
                    // The end of the attempt gives all its locks back at once.
                    true => self.engine().hold_attempt(block),
                    false => self.engine().drop_attempt(block, tx, locks),
                };
                Done::Over
            }
        }
    }

    /// A part has its locks: executes and undoes it, and leaves its Prepare record if the attempt is logged.
    pub(super) fn execute_part(
        &mut self,
        mut block: BlockRun,
        tx: TxnId,
        locks: &[Lock],
        (commands, logged, caller): (&[u8], bool, Caller),
        refusal: Option<Refusal>,
    ) -> Done {
        let refusal = refusal.or_else(|| self.refusal_of_owner(locks, logged));
        // A refusal that depends on keys is sent once the versions read are committed.
        let looked = refusal.as_ref().is_none_or(|why| *why == Refusal::Changed);
        let (execution, mut undone) = match refusal {
            Some(why) => (Err(why), self.engine().undo_attempt(&mut block)),
            None if wire::is_changes(commands) => {
                let taken = self.take_changes(&block, locks, commands);
                let (taken, events) = taken.map_or_else(|why| (Err(why), Vec::new()), |(taken, e)| (Ok(taken), e));
                self.engine().undo_attempt(&mut block);
                (taken, self.engine().undone_elsewhere(events))
            }
            None => {
                let replies = self.run_part(&mut block, locks, commands, caller);
                let mut undone = self.engine().undo_attempt(&mut block);
                self.engine().remember_attempt(&mut block);
                let effects = std::mem::take(&mut undone.effects).into();
                (replies.map(|replies| Execution::Done { effects, replies: replies.into() }), undone)
            }
        };
        undone.by = caller.client;
        match execution.unwrap_or_else(Execution::Refused) {
            // A coordinator that asks again hears nothing before that, either.
            read @ Execution::Done { .. } if !logged => {
                Done::Looked(self.engine().hold_attempt(block), tx, Looked::Read(read, undone))
            }
            execution => self.conclude_part((block, looked), tx, locks, execution, undone),
        }
    }

    fn conclude_part(
        &mut self,
        (block, looked): (BlockRun, bool),
        tx: TxnId,
        locks: &[Lock],
        execution: Execution,
        undone: Undone,
    ) -> Done {
        let mut actions = Vec::new();
        self.peers().shared.parts.with(|parts| parts.executed(tx, execution, &mut actions));
        let prepared = actions.iter().find_map(|action| match action {
            Action::Append { record: Record::Prepare(prepared) } => Some(prepared.clone()),
            _ => None,
        });
        match prepared {
            Some(prepared) => Done::Logged(self.engine().prepare(block, prepared, undone), tx, RecordKind::Prepare),
            None => {
                let unlocks: Vec<Action> =
                    actions.extract_if(.., |action| matches!(action, Action::Unlock { .. })).collect();
                let is_all = |unlock: &Action| matches!(unlock, Action::Unlock { locks: all, .. } if **all == *locks);
                let seen = match unlocks.iter().all(is_all) {
                    true => self.engine().drop_attempt(block, tx, locks),
                    false => {
                        // The part was widened, and holds more locks than it has asked for here. All are given back at
                        // once.
                        let seen = self.engine().hold_attempt(block);
                        self.act(unlocks);
                        seen
                    }
                };
                if looked {
                    self.txn().held_back.push((seen, actions));
                    let now = self.now();
                    self.look_at_log(now);
                } else {
                    self.act(actions);
                }
                Done::Over
            }
        }
    }

    /// A part of an attempt that fetches has its locks. It answers with the values once they are committed.
    fn look_for_part(
        &mut self,
        mut block: BlockRun,
        tx: TxnId,
        (locks, commands, logged, caller): (&[Lock], &[u8], bool, Caller),
        refusal: Option<Refusal>,
    ) -> Done {
        let known = wire::named_copies(commands);
        // The clock may have gone on since the turn began, if this machine stood still.
        let mut found = wire::begin_found(self.engine().now().max(self.node().clock.unix_ms()));
        let refusal = refusal.or_else(|| self.refusal_of_owner(locks, logged)).or_else(|| {
            match self.engine().look(&block, locks, (&known, IMAGES_MAX), &mut found) {
                Ok(true) => None,
                Ok(false) => Some(Refusal::Failed(TOO_LARGE.into())),
                Err(error) => Some(Refusal::Failed(error.as_bytes().into())),
            }
        });
        let undone = self.engine().undo_attempt(&mut block);
        if caller.caches && refusal.is_none() {
            // Nobody knows which of the keys its commands will read.
            self.engine().remember_keys(&block, caller.client, locks.iter().map(|lock| &*lock.key));
        }
        match refusal {
            None => Done::Looked(self.engine().hold_attempt(block), tx, Looked::Found(found.into())),
            Some(why) => {
                let looked = why == Refusal::Changed;
                self.conclude_part((block, looked), tx, locks, Execution::Refused(why), undone)
            }
        }
    }

    /// Takes the changes that the coordinator has computed for a part, if keys still have the versions that it read.
    fn take_changes(
        &mut self,
        block: &BlockRun,
        locks: &[Lock],
        bytes: &[u8],
    ) -> Result<(Execution, Vec<command::Event>), Refusal> {
        let failed = |text: &str| Refusal::Failed(text.as_bytes().into());
        let changes = wire::changes(bytes).map_err(|malformed| failed(malformed.0))?;
        let databases = self.settings().databases;
        let mode = |db: u16, key: &[u8]| {
            // The coordinator's node may have more databases.
            let at = locks.binary_search_by(|lock| lock.place().cmp(&(db, key))).ok().filter(|_| db < databases)?;
            Some(locks[at].mode)
        };
        for (db, key, version) in &changes.checks {
            let unreadable = |error: command::Error| Refusal::Failed(error.as_bytes().into());
            if mode(*db, key).is_none() || !self.engine().is_at(block, (*db, key), *version).map_err(unreadable)? {
                return Err(Refusal::Changed);
            }
        }
        for effect in effects::decode(changes.effects) {
            let effect = effect.map_err(|corrupt| failed(corrupt.0))?;
            // Every reader takes an expired key for gone, so a shared lock is enough to delete it.
            let least = if effect.op == op::DELETE { Mode::Shared } else { Mode::Exclusive };
            if effect.is_barrier() || mode(effect.db, effect.key).is_none_or(|mode| mode < least) {
                return Err(failed("ERR a change of a key that is not locked"));
            }
        }
        Ok((Execution::Done { effects: changes.effects.into(), replies: Arc::default() }, changes.events))
    }

    /// The refusal of a part that cannot be executed here. Keys have another owner, or this node has no lease, or the
    /// attempt is logged and the log takes no writes. As other commands do, transactions wait for a lease for
    /// `cluster-takeover-wait`: it may be back soon, or another node may have the keys.
    fn refusal_of_owner(&mut self, locks: &[Lock], logged: bool) -> Option<Refusal> {
        let Desk { peers, log, .. } = self.desk();
        let owns = |lock: &Lock| peers.has(slot_of(&lock.key));
        if !locks.iter().all(owns) {
            return Some(Refusal::Moved);
        }
        if !peers.serves {
            let awaits = peers.awaits_lease;
            return Some(if awaits { Refusal::Moved } else { Refusal::Failed(peers.no_lease().into()) });
        }
        let text = log.filter(|_| logged)?.refusal()?;
        Some(Refusal::Failed(peers.signed(text).into_bytes().into()))
    }

    /// The refusal of a part that cannot be executed at the moment that its attempt names.
    fn refusal_of_moment(&mut self, block: &BlockRun, locks: &[Lock], moment: UnixMs) -> Option<Refusal> {
        let now = self.engine().now();
        match self.engine().is_untimely(block, locks, moment) {
            Ok(untimely) => untimely.map(|untimely| match untimely {
                Untimely::Ends(ends) => Refusal::Untimely { now, ends: Some(ends) },
                Untimely::Over => Refusal::Untimely { now, ends: None },
            }),
            Err(error) => Some(Refusal::Failed(error.as_bytes().into())),
        }
    }

    /// True if a command of a part is refused when memory is full.
    pub(super) fn needs_room(&self, commands: &[u8]) -> bool {
        if wire::is_changes(commands) {
            // Effects from another node may make this node grow where a single server would not grow, as with RENAME.
            let is_short = self.node().uses_more_than(self.node().system_limit());
            let more = |changes: wire::Changes<'_>| {
                let mut effects = effects::decode(changes.effects);
                (changes.needs_memory || is_short) && effects.any(|effect| effect.is_ok_and(|e| e.op != op::DELETE))
            };
            return wire::changes(commands).is_ok_and(more);
        }
        let needs = |words: &[&[u8]]| self.node().table.of_words(words).is_none_or(|c| memory::needs(c.spec));
        wire::commands(commands).is_ok_and(|(_, commands)| commands.iter().any(|(_, words)| needs(words)))
    }

    fn run_part(
        &mut self,
        block: &mut BlockRun,
        locks: &[Lock],
        commands: &[u8],
        caller: Caller,
    ) -> Result<Vec<u8>, Refusal> {
        let failed = |text: &str| Refusal::Failed(text.as_bytes().into());
        let node = self.node().clone();
        // A node that does not name a user has none but `default`, which may do everything.
        let user = wire::principal(commands).map_or(User::NODE, User::new);
        let (protocol, commands) = wire::commands(commands).map_err(|malformed| failed(malformed.0))?;
        let mut replies = Vec::new();
        for (db, words) in &commands {
            let command = node.table.of_words(words).ok_or_else(|| failed(arity::UNKNOWN_IN_PART))?;
            let mut batch = Batch::new();
            if !batch.push_copy(words.iter().copied()) {
                return Err(failed("ERR a command is too long"));
            }
            let args = batch.args(0, &[]);
            let mut part = InPart { locks, db: *db, databases: self.settings().databases, user, users: &node.users };
            let command = admit(command, args, &mut part).map_err(|why| Refusal::Failed(why.into()))?;
            let Some(row) = command.data_row() else { return Err(failed(state::NOT_IN_PART)) };
            let token = 0;
            let call = Call { row, args, first: None, db: *db, protocol, token, seat: None, caller };
            let began = self.port.begin_part();
            let reply = self.run_in_part(command, block, &call);
            if let Some(began) = began {
                self.port.tell_part(&command, args, began, reply.len());
            }
            // The client's node counts the command. Here only errors of writes count.
            if command.spec.has(flags::WRITE)
                && let Some(error) = reply.strip_prefix(b"-")
            {
                self.stats().count_error(error);
            }
            if let Some(error) = reply.strip_prefix(b"-").filter(|_| is_splittable(&command)) {
                // Other nodes may have other parts of the command: all of it fails (rule T9).
                return Err(Refusal::Failed(error.trim_ascii_end().into()));
            }
            wire::put_bytes(&mut replies, &reply);
            if replies.len() > REPLIES_MAX {
                return Err(failed("ERR the reply is too long for a transaction over nodes"));
            }
        }
        Ok(replies)
    }

    fn run_in_part(&mut self, command: Admitted<'_>, block: &mut BlockRun, call: &Call<'_>) -> Vec<u8> {
        let mut reply = Vec::new();
        let parts = std::mem::take(&mut self.engine().parts);
        command.execute_in_attempt(self.engine(), block, call, &mut reply);
        self.engine().parts.copy_into(&mut reply);
        self.engine().parts = parts;
        reply
    }
}

/// A command of a part, as admission sees it. Checks that concern the node were made for the whole part: it owns the
/// keys and has a lease, the log takes writes, and there is memory.
struct InPart<'l> {
    locks: &'l [Lock],
    /// The database that the command works in.
    db: u16,
    /// The number of databases here.
    databases: u16,
    /// The user for whom it runs.
    user: User,
    users: &'l UserTable,
}

type Passes = Result<(), Vec<u8>>;

impl admission::Caller for InPart<'_> {
    const ORDER: [Step; Step::COUNT] = AS_OF_CLIENTS;
    type Instead = Vec<u8>;

    /// The coordinator has checked the command, by its own table and settings, which may differ.
    fn arity(&mut self, command: &Command, args: Args<'_>) -> Passes {
        if command.data_row().is_none() {
            return Err(state::NOT_IN_PART.into());
        }
        let wrong = arity::is_wrong(command.spec, args.len()) || self.db >= self.databases;
        if wrong { Err(arity::IN_PART.into()) } else { Ok(()) }
    }

    fn rights(&mut self, command: &Command, args: Args<'_>) -> Passes {
        match rights::refusal(self.users, &mut self.user, command, args) {
            // The client's node has judged it by rights that are newer than those that this one knows, and by all keys
            // that it uses here.
            None | Some(Denial::Behind) => Ok(()),
            Some(denial) => Err(denial.reply()),
        }
    }

    fn state(&mut self, command: &Command, args: Args<'_>) -> Passes {
        let alone = command.data_row().is_some_and(|row| state::works_on_keys_alone(row, args));
        if alone { Ok(()) } else { Err(state::NOT_IN_PART.into()) }
    }

    /// Checks that the command's keys are locked as it needs them. Another node has named the locks, and a key that it
    /// left out would have no latch. The locks are in order ([`Lock::normalized`]).
    fn cluster(&mut self, command: &Command, args: Args<'_>) -> Passes {
        let mut positions = Vec::new();
        command.spec.keys_of(args, &mut positions);
        debug_assert!(self.locks.is_sorted_by(|a, b| a.place() < b.place()), "locks come in order, each key once");
        let mode = command.mode();
        let is_locked = |key: &[u8]| {
            let at = self.locks.binary_search_by(|lock| lock.place().cmp(&(self.db, key)));
            at.is_ok_and(|at| self.locks[at].mode >= mode)
        };
        let all = !positions.is_empty() && positions.iter().filter_map(|at| args.get(at.index)).all(is_locked);
        if all { Ok(()) } else { Err(state::NOT_IN_PART.into()) }
    }

    fn write(&mut self, _: &Command, _: Args<'_>) -> Passes {
        Ok(())
    }

    fn memory(&mut self, _: &Command, _: Args<'_>) -> Passes {
        Ok(())
    }

    fn now(&mut self, _: &Command, _: Args<'_>) -> Passes {
        Ok(())
    }
}
