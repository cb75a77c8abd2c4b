//! Decides where in the cluster a command runs, and the error if it cannot.
//!
//! The room `cluster` finds the owners of keys, and acts on the verdicts. The verdicts are here.

use ::membership::Slot;

/// The place of keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// There are no keys.
    Anywhere,
    /// At the node at this place of the map; the first key's slot.
    At(u16, Slot),
    /// The slot of one key has no owner.
    Nobody,
    /// At several nodes.
    Several,
}

pub(crate) const SEVERAL: &[u8] =
    b"ERR the keys belong to several nodes, and this block or script cannot run over nodes";
pub(crate) const EVERYTHING: &[u8] =
    b"ERR a block or script in a cluster of several nodes cannot contain a command that works on more than its keys";
/// The error for SORT with patterns that lead to keys anywhere, or with a destination elsewhere.
const PATTERNS: &[u8] =
    b"ERR BY and GET options of SORT are denied in a cluster of several nodes when keys formed by the pattern, or what it stores, may be in different slots";
pub(crate) const NO_OWNER: &[u8] = b"CLUSTERDOWN Hash slot not served";
/// The error for a script that cannot be undone.
const NO_OWNER_IN_SCRIPT: &[u8] = b"ERR Hash slot not served";
pub(crate) const TRY_AGAIN: &[u8] = b"TRYAGAIN The slot belongs to another node by now: the command was not executed";

/// The error while this node has no lease, for this reason, which may be empty.
#[cold]
pub(crate) fn no_lease(reason: &str) -> Vec<u8> {
    let reason = if reason.is_empty() { "this node has no lease, or has just started" } else { reason };
    format!("CLUSTERDOWN {reason}").into()
}

/// The error that redirects a client to a slot's node.
#[cold]
pub(crate) fn moved(slot: Slot, host: &str, port: u16) -> Vec<u8> {
    format!("MOVED {slot} {host}:{port}").into()
}

impl Place {
    /// The place of both sets of keys.
    pub(crate) fn and(self, other: Place) -> Place {
        match (self, other) {
            (Place::Anywhere, place) | (place, Place::Anywhere) => place,
            (Place::Nobody, _) | (_, Place::Nobody) => Place::Nobody,
            (Place::At(a, slot), Place::At(b, _)) if a == b => Place::At(a, slot),
            _ => Place::Several,
        }
    }
}

/// Where a client's command runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Runs {
    /// At this node, in its turn.
    Here,
    /// Not yet: it joins a block, and EXEC finds out.
    WithItsBlock,
    /// At several nodes, as a transaction.
    OverNodes,
    /// At the node at this place of the map.
    At(u16),
    /// Nowhere: the client hears that the slot is at the node at this place of the map.
    Moved(Slot, u16),
    /// Nowhere: this node has no lease.
    NoLease,
    /// Nowhere, with this error.
    Refused(&'static [u8]),
}

/// Beside the place of the keys, the inputs that decide where a client's command runs. Closures are called only where
/// they matter.
pub(crate) struct OfClient<F, B, K, L> {
    /// This node's place in the map.
    pub(crate) me: u16,
    /// This node has a lease.
    pub(crate) serves: bool,
    /// The client is told where keys of other nodes are: it is a smart one, and asks each node by itself.
    pub(crate) moves: bool,
    /// It joins a block.
    pub(crate) queues: bool,
    /// True if it calls a function of a library: a node without a lease may lack some.
    pub(crate) calls_function: F,
    /// True if the client's block concerns this node.
    pub(crate) belongs_here: B,
    /// True if it works on its keys alone.
    pub(crate) on_keys_alone: K,
    /// True if the node at a place of the map is lost.
    pub(crate) is_lost: L,
}

impl<F: Fn() -> bool, B: Fn() -> bool, K: Fn() -> bool, L: Fn(u16) -> bool> OfClient<F, B, K, L> {
    /// The place where it runs.
    #[inline]
    pub(crate) fn runs(self, place: Place) -> Runs {
        match place {
            Place::Anywhere | Place::Several if !self.serves && (self.calls_function)() => Runs::NoLease,
            Place::Anywhere => Runs::Here,
            Place::At(owner, _) if owner == self.me && !self.serves => Runs::NoLease,
            Place::At(owner, _) if owner == self.me => Runs::Here,
            Place::Nobody => Runs::Refused(NO_OWNER),
            // The keys are not at one place that the client could be told: EXEC brings them together.
            Place::Several if self.queues => Runs::WithItsBlock,
            Place::Several if !(self.on_keys_alone)() => Runs::Refused(PATTERNS),
            Place::Several => Runs::OverNodes,
            Place::At(..) if self.queues && (self.belongs_here)() => Runs::WithItsBlock,
            // The lost node's place may be another node's by now, which would send the client there again.
            Place::At(owner, _) if self.moves && (self.is_lost)(owner) => Runs::Refused(NO_OWNER),
            Place::At(owner, slot) if self.moves => Runs::Moved(slot, owner),
            Place::At(owner, _) => Runs::At(owner),
        }
    }
}

/// The verdict on a client's command whose place does not follow from its keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keyless {
    /// It runs at this node, in its turn.
    Here,
    /// It runs at all nodes.
    AtAll,
    /// It runs at the node of the slot that it names.
    AtSlot,
    /// It runs nowhere: this node has no lease.
    NoLease,
}

/// The facts that decide it. A smart client asks each node by itself, and means that node's data.
#[derive(Clone, Copy)]
pub(crate) struct OfKeyless {
    /// This is the only node.
    pub(crate) alone: bool,
    /// This node has a lease.
    pub(crate) serves: bool,
    /// The client is a smart one.
    pub(crate) moves: bool,
    /// The command joins a block.
    pub(crate) queues: bool,
}

impl OfKeyless {
    /// A command in which every node has a part. `for_all`: a smart client means all nodes, too.
    pub(crate) fn gathers(self, for_all: bool, needs_lease: bool) -> Keyless {
        match self {
            _ if self.alone || self.queues => Keyless::Here,
            _ if !self.moves || for_all => Keyless::AtAll,
            _ if needs_lease && !self.serves => Keyless::NoLease,
            _ => Keyless::Here,
        }
    }

    /// SCAN, whose cursor names a slot.
    pub(crate) fn scans(self) -> Keyless {
        match self {
            _ if self.alone || self.queues => Keyless::Here,
            _ if !self.moves => Keyless::AtSlot,
            _ if !self.serves => Keyless::NoLease,
            _ => Keyless::Here,
        }
    }

    /// A command about a slot by its number.
    pub(crate) fn names_slot(self) -> Keyless {
        if self.queues || self.moves { Keyless::Here } else { Keyless::AtSlot }
    }

    /// A change of the libraries of functions. Without a lease this node may have old ones.
    pub(crate) fn changes_libraries(self) -> Keyless {
        if self.queues || self.serves { Keyless::Here } else { Keyless::NoLease }
    }
}

/// The place where WATCH of a client without a block runs. `me`: this node's place in the map.
pub(crate) fn of_watch(place: Place, me: u16, serves: bool) -> Runs {
    match place {
        Place::Anywhere => Runs::Here,
        Place::At(owner, _) if owner != me => Runs::At(owner),
        Place::At(..) if serves => Runs::Here,
        Place::At(..) => Runs::NoLease,
        Place::Nobody => Runs::Refused(NO_OWNER),
        Place::Several => Runs::OverNodes,
    }
}

/// The subject of a client's command between BEGIN and COMMIT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OfTransaction {
    /// Its keys, and perhaps others; or a function of a library, which a node without a lease may not have.
    Keys {
        /// It works on its keys alone.
        alone: bool,
        /// It calls a function.
        calls_function: bool,
    },
    /// The subscribers of a channel.
    Message,
    /// The connection.
    Connection,
    /// More than that.
    Everything,
}

pub(crate) const NOT_HERE: &[u8] = b"ERR this command is not possible between BEGIN and COMMIT";

impl OfTransaction {
    /// The place where it runs: as a part of the transaction, which may be over nodes, or here.
    pub(crate) fn runs(self, serves: bool) -> Runs {
        match self {
            OfTransaction::Keys { calls_function: true, .. } if !serves => Runs::NoLease,
            OfTransaction::Keys { alone: true, .. } | OfTransaction::Message => Runs::OverNodes,
            OfTransaction::Connection => Runs::Here,
            OfTransaction::Keys { .. } | OfTransaction::Everything => Runs::Refused(NOT_HERE),
        }
    }
}

/// True if a node outside of its cluster refuses a client's command: all but those about the connection alone.
pub(crate) fn refuses_outside(is_out: bool, is_local: bool, queues: bool) -> bool {
    is_out && !is_local && !queues
}

/// The facts that decide where a block runs.
#[derive(Clone, Copy)]
pub(crate) struct OfBlock {
    /// This node's place in the map.
    pub(crate) me: u16,
    /// This is the only node.
    pub(crate) alone: bool,
    /// This node has a lease.
    pub(crate) serves: bool,
    /// The owner of its keys.
    pub(crate) keys: Place,
    /// The owner of the keys that its client watches.
    pub(crate) watched: Place,
    /// This node, if the client watches keys here.
    pub(crate) watched_here: Place,
    /// It has commands in which every node has a part.
    pub(crate) everything: bool,
    /// It has commands that concern this node alone.
    pub(crate) own: bool,
    /// It calls functions of libraries, which this node, without a lease, may not have.
    pub(crate) functions: bool,
}

impl OfBlock {
    /// The place where it runs. Keys that the client watches at further nodes do not count.
    pub(crate) fn runs(self) -> Runs {
        let (me, place) = (self.me, self.keys.and(self.watched));
        // A block goes over nodes even if its keys are of one other node: where it needs this node as well, or has no
        // keys but those it watches.
        let apart = self.own || self.keys == Place::Anywhere;
        let elsewhere = matches!(place, Place::At(owner, _) if owner != me);
        if (place == Place::Several || elsewhere && apart) && !self.everything && !self.functions {
            return Runs::OverNodes;
        }
        match self.keys.and(self.watched_here) {
            Place::Nobody => Runs::Refused(NO_OWNER),
            Place::Several | Place::Anywhere if self.functions => Runs::NoLease,
            Place::Several => Runs::Refused(EVERYTHING),
            _ if self.everything && !self.alone => Runs::Refused(EVERYTHING),
            Place::At(owner, _) if owner != me => Runs::At(owner),
            Place::At(..) if !self.serves => Runs::NoLease,
            Place::At(..) | Place::Anywhere => Runs::Here,
        }
    }
}

/// The verdict on a command that another node has forwarded: it runs here or nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Forwarded {
    /// It runs.
    Runs,
    /// It was sent by a map that this node does not know yet: it waits for that map.
    AwaitsMap,
    /// Its keys are not here: it goes back, or is tried again.
    GoesBack,
    /// This node has no lease.
    NoLease,
    /// Its reply is this error.
    Refused(&'static [u8]),
}

/// The verdict on a command that another node has forwarded. `me`: this node's place in the map. `is_behind`: the other
/// node has a newer map.
#[inline]
pub(crate) fn of_forwarded(place: Place, me: u16, serves: bool, is_behind: impl FnOnce() -> bool) -> Forwarded {
    match place {
        Place::Anywhere => Forwarded::Runs,
        _ if is_behind() => Forwarded::AwaitsMap,
        Place::At(owner, _) if owner == me && serves => Forwarded::Runs,
        Place::At(owner, _) if owner == me => Forwarded::NoLease,
        Place::Nobody => Forwarded::Refused(NO_OWNER),
        Place::At(..) | Place::Several => Forwarded::GoesBack,
    }
}

/// The verdict on a script that calls a command, or on its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Called {
    /// The command runs.
    Runs,
    /// The reply to the command is this error.
    Fails(&'static [u8]),
    /// The script is undone as a whole, because this node has no lease. Clients may take the error for "try again".
    UndoesForLease,
    /// The script is undone as a whole, and answers this error, which clients may take for "try again".
    Undoes(&'static [u8]),
    /// The script is undone as a whole, and runs at the node that has its keys by now.
    Elsewhere,
}

/// The inputs that decide whether a script that runs at this node may call a command.
#[derive(Clone, Copy)]
pub(crate) struct OfScript {
    /// This node's place in the map.
    pub(crate) me: u16,
    /// This node has a lease.
    pub(crate) serves: bool,
    /// The script can be undone. One that cannot has every latch, and has held everything since it was routed here.
    pub(crate) can_be_undone: bool,
    /// The map has changed since the script began.
    pub(crate) is_old: bool,
}

impl OfScript {
    /// The verdict on a command that works on more than its keys, in a cluster of several nodes.
    pub(crate) fn calls_for_everything(self) -> Called {
        self.not_here(EVERYTHING)
    }

    /// The verdict on a command that works on keys, those of its arguments among them. `is_held`: the script has their
    /// latches.
    pub(crate) fn calls_with_keys(self, place: Place, is_held: bool, on_keys_alone: impl Fn() -> bool) -> Called {
        match place {
            Place::Anywhere => Called::Runs,
            // No client, here or elsewhere, has changed the keys that the script has held since this node had its
            // lease.
            Place::At(owner, _) if owner == self.me && (self.serves || is_held) => Called::Runs,
            Place::At(owner, _) if owner == self.me && self.can_be_undone => Called::UndoesForLease,
            Place::At(owner, _) if owner == self.me => Called::Runs,
            // On copies it would also lack the keys that it finds by itself.
            Place::At(..) | Place::Several if !on_keys_alone() => self.not_here(EVERYTHING),
            Place::At(..) | Place::Several => self.not_here(SEVERAL),
            Place::Nobody if !self.is_old && self.can_be_undone => Called::Undoes(NO_OWNER),
            Place::Nobody => self.not_here(NO_OWNER_IN_SCRIPT),
        }
    }

    fn not_here(self, error: &'static [u8]) -> Called {
        match (self.is_old, self.can_be_undone) {
            (true, true) => Called::Elsewhere,
            (true, false) => Called::Runs,
            (false, _) => Called::Fails(error),
        }
    }
}

/// The kind of a command for a block or script that runs in a workspace on copies of its keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OnCopies {
    /// It works on the keys that it names, or is about none.
    Keys,
    /// Other nodes are asked about it.
    IsAsked,
    /// It works on more than its keys.
    Everything,
}

/// The reason why a workspace may not run a command, if there is one.
pub(crate) fn of_workspace(what: OnCopies) -> Option<&'static [u8]> {
    (what == OnCopies::Everything).then_some(EVERYTHING)
}
