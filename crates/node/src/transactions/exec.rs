//! Decides where a block runs: here, at one other node as a whole, or over several nodes.

use ::membership::Slot;

use crate::admission::cluster::{EVERYTHING, OfBlock, Place, Runs};
use crate::cluster::kinds::Kind;
use crate::cluster::peers::{Peers, slot_of};
use crate::cluster::route::calls_function;
use crate::session::Multi;
use crate::table::Table;
use crate::worker::conn::Conn;

/// The needs of a block.
pub(crate) struct Needs {
    /// The owners of its keys.
    pub(crate) place: Place,
    /// True if it has commands in which every node has a part.
    everything: bool,
    /// True if it has commands that concern this node alone.
    own: bool,
    /// True if it calls functions of libraries, which this node may lack, as it has no lease.
    functions: bool,
    /// The database that it selects last.
    pub(crate) db: Option<u16>,
}

/// The place where a block runs.
pub(crate) enum Way {
    /// The block runs here; `quick`: it has no scripts, and ends at once.
    Here { quick: bool },
    /// The block runs at the other end of this link, as a whole.
    At(usize),
    /// The block runs over several nodes.
    Over,
    /// The block does not run: this node has lost track of its watched keys, which may have changed.
    Broken,
    /// The block waits: this node has no lease.
    NoLease,
    /// The block does not run, and its client hears this error.
    Refused(Vec<u8>),
}

impl Needs {
    /// True if it runs where its keys are, and nowhere else.
    pub(crate) fn is_of_keys_alone(&self) -> bool {
        !self.everything && !self.own && self.db.is_none()
    }

    /// The needs of a block without commands, or outside of a cluster.
    pub(crate) const NONE: Needs =
        Needs { place: Place::Anywhere, everything: false, own: false, functions: false, db: None };
}

impl Peers {
    /// The needs of a block.
    pub(crate) fn needs_of(&self, (table, databases): (&Table, u16), multi: &Multi) -> Needs {
        let mut needs = Needs::NONE;
        for (queued, args) in multi.commands() {
            let command = table.get(queued.command);
            match self.kinds[queued.command] {
                Kind::Keyed | Kind::Patient | Kind::Script => {
                    let key = queued.key.map(|(slot, _)| slot);
                    needs.place = needs.place.and(self.place_of(command, args, key));
                    needs.functions |= !self.serves && calls_function(command);
                }
                _ if self.may_be_asked(command) => {}
                Kind::Gather(_) | Kind::Libraries | Kind::Scan | Kind::Slot => needs.everything = true,
                Kind::Unwatch => {}
                Kind::Quick => {
                    let chosen = args.get(1).filter(|_| command.name == "select").and_then(keyspace::canonical_int);
                    let chosen = chosen.and_then(|db| u16::try_from(db).ok()).filter(|db| *db < databases);
                    needs.db = chosen.or(needs.db);
                }
                Kind::Watch | Kind::Exec | Kind::Own => needs.own = true,
            }
        }
        needs
    }

    /// The place where the block of a connection runs, given its needs.
    pub(crate) fn way_of(&mut self, needs: &Needs, conn: &Conn) -> Way {
        if self.has_moved_watch(conn) {
            return Way::Broken;
        }
        let block = OfBlock {
            me: self.me,
            alone: self.is_alone(),
            serves: self.serves,
            keys: needs.place,
            watched: self.place_of_watched(conn),
            watched_here: self.place_of_watched_here(conn),
            everything: needs.everything,
            own: needs.own,
            functions: needs.functions,
        };
        let link = match block.runs() {
            Runs::OverNodes => return Way::Over,
            Runs::Refused(error) => return Way::Refused(error.into()),
            Runs::NoLease => return Way::NoLease,
            Runs::At(owner) => Some(self.link_to(owner)),
            Runs::Here | Runs::WithItsBlock | Runs::Moved(..) => None,
        };
        let remote = conn.remote.as_deref();
        if remote.is_some_and(|remote| remote.watching().any(|watched| Some(watched) != link)) {
            return Way::Refused(EVERYTHING.into());
        }
        if remote.is_some_and(|remote| remote.lost_watch) {
            return Way::Broken;
        }
        match link {
            Some(link) => Way::At(link),
            None => {
                let is_script = |id: usize| self.kinds[id] == Kind::Script;
                let has_script = |multi: &Multi| multi.queue.iter().any(|queued| is_script(queued.command));
                Way::Here { quick: !conn.session.multi.as_deref().is_some_and(has_script) }
            }
        }
    }

    /// True if a key has another owner than the one that was asked to watch it, so that nobody knows if it has changed.
    fn has_moved_watch(&self, conn: &Conn) -> bool {
        let has_moved =
            |slot: Slot, owner: Option<u16>| !matches!(self.place(slot), Place::At(at, _) if Some(at) == owner);
        let mut here = conn.session.watched.iter().map(|watched| Slot::of(watched.slot));
        if here.any(|slot| has_moved(slot, Some(self.me))) {
            return true;
        }
        let Some(remote) = conn.remote.as_deref() else { return false };
        remote.lines.iter().enumerate().filter_map(|(link, line)| Some((link, line.as_ref()?))).any(|(link, line)| {
            let owner = self.links[link].node.and_then(|node| self.map.index_of(node));
            line.watched.iter().any(|(_, key)| has_moved(slot_of(key), owner))
        })
    }

    /// The owners of the keys that a connection watches.
    fn place_of_watched(&self, conn: &Conn) -> Place {
        let here = self.place_of_watched_here(conn);
        let Some(remote) = conn.remote.as_deref() else { return here };
        let lines = remote.lines.iter().flatten().flat_map(|line| &line.watched);
        lines.fold(here, |place, (_, key)| place.and(self.place(slot_of(key))))
    }

    /// This node, if the connection watches keys here.
    fn place_of_watched_here(&self, conn: &Conn) -> Place {
        conn.session.watched.first().map_or(Place::Anywhere, |watched| Place::At(self.me, Slot::of(watched.slot)))
    }
}
