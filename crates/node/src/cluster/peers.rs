//! A worker's state of the cluster: the map as its turn sees it, and its links.

use std::sync::Arc;

use ::membership::{BootNs, Map, NodeId, Slot, level};
use clocks::UnixMs;
use keyspace::Version;

use super::Cluster;
use super::kinds::Kind;
use super::outbound::{OpenLink, Outbound};
use super::patience::Patience;
use super::probe::Probes;
use super::spread::Spread;
use crate::admission::cluster::Place;
use crate::node::Node;
use crate::worker::token::Token;

/// The slot of a key, to be looked up in the map.
#[inline]
pub(crate) fn slot_of(key: &[u8]) -> Slot {
    Slot::of(keyspace::slot_of(key))
}

/// The texts of scripts that a standby was given.
pub(super) struct Given {
    pub(super) node: NodeId,
    /// Its life, and when the link to it was opened: what was on its way is lost with either.
    pub(super) life: (u64, UnixMs),
    /// The number of the last one.
    pub(super) upto: u64,
}

/// The last look at the copy of another node's data: nobody looks twice in a millisecond.
#[derive(Default)]
pub(super) struct LastLook {
    pub(super) at: Option<UnixMs>,
    /// The owner of the data, as its place in the map, if they may be read here.
    pub(super) owner: Option<u16>,
}

/// Nanoseconds for which other nodes may not have heard of a map: as long as they wait for one.
const NEWS_NS: u64 = 2_000_000_000;

/// A map that was replaced a moment ago.
struct Former {
    map: Arc<Map>,
    until: BootNs,
}

/// See the module's text.
pub(crate) struct Peers {
    is_cluster: bool,
    pub(crate) shared: Arc<Cluster>,
    pub(crate) map: Arc<Map>,
    changes: u64,
    /// Earlier maps, while other nodes may not have heard of the next ones.
    former: Vec<Former>,
    /// This node's place in the map; no node's if it is not there.
    pub(crate) me: u16,
    /// The epoch of what it owns.
    pub(crate) epoch: u64,
    /// The kinds of commands, by id.
    pub(crate) kinds: Box<[Kind]>,
    /// This node has a lease, as this turn sees it.
    pub(crate) serves: bool,
    /// Links of which this is the origin. The first one leads back here, for commands in which every node has a part.
    pub(crate) links: Vec<Outbound>,
    /// Link of each node of the map.
    routes: Vec<Option<usize>>,
    /// Virtual connections that have output.
    pub(crate) speaking: Vec<Token>,
    /// Ends of links that have received bytes.
    pub(crate) heard: Vec<Token>,
    /// Ends of links here whose origins are other nodes, and that have items to send.
    pub(crate) staged: Vec<Token>,
    /// Decides how long items wait for more.
    pub(crate) patience: Patience,
    /// Links to be dialed, by the driver.
    pub(crate) dials: Vec<(Token, usize)>,
    /// The checks of links.
    pub(crate) probes: Probes,
    /// Messages for other nodes' subscribers.
    pub(crate) spread: Spread,
    /// The highest timestamp that was sent over links.
    pub(crate) told: Version,
    /// The moment when this node, which has no lease, will have had none for long; [`UnixMs::NEVER`]: it
    /// has, and that was handled.
    pub(crate) lapses_at: Option<UnixMs>,
    /// Since when this node has had no lease.
    pub(crate) unserved_since: Option<UnixMs>,
    /// It has one, or has had one within `cluster-takeover-wait`: transactions are tried again.
    pub(crate) awaits_lease: bool,
    /// The texts of scripts that standbys were given.
    pub(super) texts: Vec<Given>,
    /// Whether clients may read the copy of another node's data here.
    pub(super) copy: LastLook,
}

/// The link that leads back.
pub(crate) const HOME: usize = 0;

/// The place of a node that is not in the map.
const NOT_THERE: u16 = u16::MAX;

/// Gives a list that was taken and emptied its memory back, so that no turn allocates it anew. Much memory goes.
pub(crate) fn give_back(list: &mut Vec<Token>, emptied: Vec<Token>) {
    const KEPT: usize = 1024;
    if list.is_empty() && emptied.capacity() <= KEPT {
        *list = emptied;
    }
}

impl Peers {
    /// The peers of a worker of `node`, which is one of a `cluster`, or none. Only this function looks at that: all
    /// others ask [`Self::is_cluster`] at most. A server that is no cluster has a map without nodes.
    pub(crate) fn new(node: &Node, cluster: Option<Arc<Cluster>>) -> Self {
        let is_cluster = cluster.is_some();
        let shared = cluster.unwrap_or_else(Cluster::none);
        let changes = shared.changes();
        let mut peers = Self {
            is_cluster,
            changes,
            former: Vec::new(),
            me: NOT_THERE,
            epoch: 0,
            routes: Vec::new(),
            map: Arc::new(Map::empty()),
            shared,
            kinds: Kind::of_all(&node.table),
            serves: false,
            links: vec![Outbound::home()],
            speaking: Vec::new(),
            heard: Vec::new(),
            staged: Vec::new(),
            patience: Patience::default(),
            dials: Vec::new(),
            probes: Probes::default(),
            spread: Spread::default(),
            told: Version::ZERO,
            lapses_at: None,
            unserved_since: None,
            awaits_lease: true,
            texts: Vec::new(),
            copy: LastLook::default(),
        };
        peers.take_map();
        peers
    }

    /// True if the node is one of a cluster, perhaps the only one.
    #[inline]
    pub(crate) fn is_cluster(&self) -> bool {
        self.is_cluster
    }

    /// True if the node is one of a cluster, and has no lease.
    pub(crate) fn lacks_lease(&self) -> bool {
        self.is_cluster && !self.serves
    }

    /// Returns the error of a node of a cluster that may lack what the cluster has agreed on: it has no lease.
    pub(crate) fn doubt(&self) -> Option<Vec<u8>> {
        (self.is_cluster && !self.serves).then(|| self.no_lease())
    }

    fn take_map(&mut self) {
        self.map = self.shared.map();
        self.me = self.map.index_of(self.shared.me()).unwrap_or(NOT_THERE);
        self.epoch = self.my_place().map_or(0, |me| self.map.node(me).epoch);
        self.routes = vec![None; self.map.nodes().len()];
        self.copy = LastLook::default();
    }

    /// Checks what has changed; returns the map from before, if it has changed. `now` was read after the bytes of this turn have arrived
    /// (rule O1).
    pub(crate) fn begin_turn(&mut self, now: BootNs) -> Option<Arc<Map>> {
        self.serves = self.shared.may_serve(now);
        if self.former.first().is_some_and(|former| former.until < now) {
            self.former.retain(|former| former.until >= now);
        }
        let changes = self.shared.changes();
        if changes == self.changes {
            return None;
        }
        self.changes = changes;
        let before = self.map.clone();
        self.take_map();
        self.former.push(Former { map: before.clone(), until: now.after(NEWS_NS) });
        Some(before)
    }

    /// True if a slot had another owner a moment ago. The new one, or the one before, may not know that yet, and would
    /// send a client back: it is not told to go there, and its command is forwarded, as it can wait there for the map.
    pub(crate) fn has_just_moved(&self, place: Place) -> bool {
        let Place::At(owner, slot) = place else { return false };
        let had_another = |map: &Map| map.owner_of(slot).is_some_and(|it| map.node(it).id != self.map.node(owner).id);
        self.former.iter().any(|former| had_another(&former.map))
    }

    /// True if a client must not be sent to the owner of these keys now: see [`Self::has_just_moved`]. Or the owner does not
    /// answer since a moment ago: its standby, or itself, will, and the client's command waits for that here.
    pub(crate) fn holds_back(&self, place: Place) -> bool {
        let is_silent = |owner: u16| {
            let link = self.routes.get(usize::from(owner)).copied().flatten();
            link.is_some_and(|link| self.links[link].is_silent())
        };
        self.has_just_moved(place) || matches!(place, Place::At(owner, _) if is_silent(owner))
    }

    /// The link to a node of the map; a new one if there is none yet.
    pub(crate) fn link_to(&mut self, node: u16) -> usize {
        let index = usize::from(node);
        if node == self.me {
            return HOME;
        }
        if let Some(Some(link)) = self.routes.get(index) {
            return *link;
        }
        let member = self.map.node(node);
        let known = self.links.iter().position(|link| link.node == Some(member.id));
        let link = known.unwrap_or_else(|| {
            self.links.push(Outbound::to(member));
            self.links.len() - 1
        });
        self.links[link].look_up(member);
        self.routes[index] = Some(link);
        link
    }

    /// This node's place in the map, if it has one.
    pub(crate) fn my_place(&self) -> Option<u16> {
        (self.me != NOT_THERE).then_some(self.me)
    }

    /// An error text about this node, for a client of another node that may not know which node it is about.
    pub(crate) fn signed(&self, text: String) -> String {
        match self.my_place().map(|me| self.map.node(me)) {
            Some(me) => format!("{text} (node {}:{})", me.host, me.port),
            None => text,
        }
    }

    /// True if this node does not belong to the cluster: it was removed, or is not in yet.
    #[inline]
    pub(crate) fn is_out(&self) -> bool {
        self.me == NOT_THERE && !self.map.nodes().is_empty()
    }

    /// True if a slot is this node's, by the map.
    #[inline]
    pub(crate) fn has(&self, slot: Slot) -> bool {
        self.map.owner_of(slot) == Some(self.me)
    }

    /// True if keys of this slot are here: without a cluster those of all slots are.
    pub(crate) fn is_here(&self, slot: Slot) -> bool {
        !self.is_cluster || self.has(slot)
    }

    /// The slots of this node as ranges; none if it is no node of a cluster, and has them all.
    pub(crate) fn own_ranges(&self) -> Option<Vec<(u16, u16)>> {
        let ranges = |me| self.map.ranges_of(me).map(|range| (range.start.get(), range.end.get())).collect();
        self.is_cluster.then(|| self.my_place().map_or_else(Vec::new, ranges))
    }

    /// The links that are open, of those of which this worker is the origin.
    pub(crate) fn open_links(&self) -> Vec<OpenLink> {
        self.links.iter().filter_map(Outbound::shown).collect()
    }

    /// True if links have received bytes, or are about to send some.
    pub(crate) fn has_work(&self) -> bool {
        !self.heard.is_empty() || self.has_staged()
    }

    /// True if there are items for other nodes, or from them, that must not be lost when this one shuts down.
    pub(crate) fn owes(&self) -> bool {
        self.has_work() || !self.speaking.is_empty() || !self.spread.is_empty()
    }

    /// True if links are about to send items.
    pub(crate) fn has_staged(&self) -> bool {
        !self.staged.is_empty() || self.links.iter().any(Outbound::has_something_to_say)
    }

    /// True if all nodes understand for which user commands are forwarded (rule U1).
    #[inline]
    pub(crate) fn says_principals(&self) -> bool {
        self.map.level() >= level::PRINCIPALS
    }

    /// True if a node holds no lease, as the metadata's leader said last.
    pub(crate) fn holds_no_lease(&self, node: NodeId) -> bool {
        self.shared.administration().is_some_and(|administration| administration.silent().contains(&node))
    }

    /// True if a node may be down: it holds no lease, or it led and others have elected another leader.
    pub(crate) fn may_be_down(&self, node: NodeId) -> bool {
        self.shared.administration().is_some_and(|administration| administration.suspects().contains(&node))
    }

    /// True if the node is the only one.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        self.map.nodes().len() <= 1
    }
}
