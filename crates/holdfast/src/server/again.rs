//! A node that is given another shard, or whose shard another node was given, starts again: its log and its memory are of
//! the shard that it had.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{env, io};

use membership::meta::{Place, Shard};
use membership::{Map, NodeId, ShardId};
use standby::NodeNumber;

use super::clock::monotonic_ms;

/// Tells the next life how many before it have begun again in a row, each soon after its start.
const IN_A_ROW: &str = "HOLDFAST_AGAIN";

/// A life that has lasted for so many milliseconds is none of a row.
pub const LASTED_MS: u64 = 3_000;

/// The first pause before another life in a row, and the longest, in milliseconds.
const PAUSE_MS: (u64, u64) = (300, 1_200);

/// The pause in milliseconds before another life, after so many short ones in a row: none after the first, and then twice as
/// long every time.
pub fn pause_of(row: u32, (first, longest): (u64, u64)) -> u64 {
    match row {
        0 | 1 => 0,
        row => (first << (row - 2).min(10)).min(longest),
    }
}

/// The process that runs, however it was called.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// The shard with copies that a process runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Runs {
    /// None: its log is the node's alone.
    Nothing,
    /// Its log was taken over from copies, or is being.
    Leads(ShardId),
    /// The process stands by.
    Follows(ShardId),
    /// The process has stood by, and takes over what the shard's owner had.
    TakesOver(ShardId),
    /// The process has led, and gives the shard to another one in order. It stands by then.
    Yields(ShardId),
}

/// How a process has been decided to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// An operator stops it.
    Over,
    /// It starts again, now.
    Again,
}

/// Whether this process is to start again, and how.
#[derive(Debug)]
pub struct Again {
    folder: PathBuf,
    arguments: Vec<OsString>,
    runs: Mutex<Runs>,
    /// This life has had a term of the shard that it leads.
    has_led: AtomicBool,
    is_wanted: AtomicBool,
    end: Mutex<Option<End>>,
    /// When this life began, in milliseconds, and how many before it are of one row.
    began: (u64, u32),
}

impl Again {
    /// For a server with these arguments, whose working directory is still where it was started.
    pub fn new(arguments: &[Vec<u8>]) -> Self {
        Self {
            folder: env::current_dir().unwrap_or_default(),
            arguments: arguments.iter().cloned().map(OsString::from_vec).collect(),
            runs: Mutex::new(Runs::Nothing),
            has_led: AtomicBool::new(false),
            is_wanted: AtomicBool::new(false),
            end: Mutex::new(None),
            began: (monotonic_ms(), env::var(IN_A_ROW).ok().and_then(|row| row.parse().ok()).unwrap_or(0)),
        }
    }

    /// How many lives in a row have begun again soon, this one included if it ends now.
    fn in_a_row(&self, now: u64) -> u32 {
        let (began, before) = self.began;
        if now.saturating_sub(began) < LASTED_MS { before.saturating_add(1) } else { 0 }
    }

    /// The pause before the next life. There is none before the first of a row: a start may find another part than its
    /// files say. While the metadata have no leader, it may find that again and again.
    pub fn pause(&self) -> Duration {
        Duration::from_millis(pause_of(self.in_a_row(monotonic_ms()), PAUSE_MS))
    }

    /// Notes that this process gives its shard to another one in order. [`Self::stands_by`] or [`Self::begins_with`] follows.
    pub fn yields(&self, shard: ShardId) {
        self.is_at(Runs::Yields(shard));
    }

    fn runs(&self) -> Runs {
        *self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_at(&self, runs: Runs) {
        *self.runs.lock().unwrap_or_else(PoisonError::into_inner) = runs;
    }

    /// Notes the shard whose log this process takes over from copies, or has; none: the log is the node's alone.
    pub fn begins_with(&self, shard: Option<ShardId>) {
        self.is_at(shard.map_or(Runs::Nothing, Runs::Leads));
    }

    /// Notes that this process stands by for a shard.
    pub fn stands_by(&self, shard: ShardId) {
        self.is_at(Runs::Follows(shard));
    }

    /// Notes that this process takes over the shard that it stands by for. [`Self::begins_with`] follows.
    pub fn takes_over(&self, shard: ShardId) {
        self.leads();
        self.is_at(Runs::TakesOver(shard));
    }

    /// Notes that the metadata have given this life a term of the shard.
    pub fn leads(&self) {
        self.has_led.store(true, SeqCst);
    }

    /// The reason, in words, why the node has to start again by this map.
    pub fn wanted_by(&self, map: &Map, me: NodeId) -> Option<String> {
        self.given_by(map, me).or_else(|| self.lost_by(map, me)).or_else(|| self.stands_by_by(map, me))
    }

    /// The map shows another shard of the node than the one that the process runs. A log that the node wrote alone is its
    /// shard's only copy.
    pub fn given_by(&self, map: &Map, me: NodeId) -> Option<String> {
        let runs = self.runs();
        let is_other = |shard: &&Shard| match runs {
            Runs::Leads(of) | Runs::TakesOver(of) | Runs::Yields(of) => of != shard.id,
            // This process takes over what it stands by for, and only what itself was given.
            Runs::Follows(of) => of != shard.id || !is_of_this_life(map, me, shard),
            Runs::Nothing => true,
        };
        let shard = map.shards_of(me).find(|shard| shard.settled.len() > 1 && is_other(shard))?;
        Some(format!("this node is given shard {}, whose log has copies", shard.id.0))
    }

    /// The map shows that the log of this node's shard, which was its own alone at the start, has folders for copies at all
    /// its places: they begin to count at the next start.
    pub fn gets_copies_by(&self, map: &Map, me: NodeId) -> Option<String> {
        let is_alone = self.runs() == Runs::Nothing;
        let shard = map.shards_of(me).find(|shard| map.slots_of_shard(shard) > 0).filter(|_| is_alone)?;
        let places = map.copies_of(shard);
        let is_there =
            |place: &Place| map.reported().iter().any(|known| known.shard == shard.id && known.place == *place);
        (places.len() > 1 && places.iter().all(is_there))
            .then(|| format!("the log of shard {} gets copies", shard.id.0))
    }

    /// True if the map shows that the process is to serve the shard that it stands by for, and it does not lead it yet.
    pub fn is_to_take_over(&self, map: &Map, me: NodeId) -> bool {
        match self.runs() {
            Runs::Follows(of) | Runs::TakesOver(of) => map.shards_of(me).any(|shard| shard.id == of),
            Runs::Leads(_) | Runs::Yields(_) | Runs::Nothing => false,
        }
    }

    /// The map shows a shard that the node is to stand by for, and another one, or none, is what the process does.
    fn stands_by_by(&self, map: &Map, me: NodeId) -> Option<String> {
        let node = NodeNumber(map.node(map.index_of(me)?).number);
        let is_wanted = |shard: &&Shard| shard.standbys.get(&node).is_some_and(|standby| standby.is_wanted);
        let shard = map.shards().iter().find(is_wanted)?;
        let does = [Runs::Follows(shard.id), Runs::Yields(shard.id)].contains(&self.runs());
        (!does).then(|| format!("this node is to stand by for shard {}", shard.id.0))
    }

    /// The map shows that the shard which the process runs was given to another node.
    fn lost_by(&self, map: &Map, me: NodeId) -> Option<String> {
        let (Runs::Leads(began) | Runs::TakesOver(began)) = self.runs() else { return None };
        map.member(me)?;
        let leads = || map.shards_of(me).any(|shard| shard.id == began && is_of_this_life(map, me, shard));
        (self.has_led.load(SeqCst) && !leads()).then(|| format!("shard {} was given to another node", began.0))
    }

    fn end(&self) -> MutexGuard<'_, Option<End>> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process starts again when it has stopped. False if an operator has stopped it, or it starts again already.
    pub fn want(&self) -> bool {
        self.end().is_none() && !self.is_wanted.swap(true, SeqCst)
    }

    /// True if it starts again when it has stopped.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(SeqCst) && *self.end() != Some(End::Over)
    }

    /// True if it is to start again, and no operator can stop this life any more: [`Self::start`] follows.
    pub fn begins(&self) -> bool {
        self.is_wanted.load(SeqCst) && *self.end().get_or_insert(End::Again) == End::Again
    }

    /// True if the node does not own the shard any more that the process runs.
    pub fn is_given(&self) -> bool {
        self.is_wanted.load(SeqCst)
    }

    /// An operator stops the process: it does not start again. False: it does already, and the next life has to hear of it.
    pub fn never(&self) -> bool {
        *self.end().get_or_insert(End::Over) == End::Over
    }

    /// Starts the program anew in this process. Returns if that fails.
    pub fn start(&self) -> io::Error {
        if let Err(error) = env::set_current_dir(&self.folder) {
            return error;
        }
        let name = env::current_exe().unwrap_or_else(|_| Path::new("holdfast").to_owned());
        let row = self.in_a_row(monotonic_ms()).to_string();
        Command::new(OWN_PROGRAM).arg0(name).arg("server").args(&self.arguments).env(IN_A_ROW, row).exec()
    }
}

fn is_of_this_life(map: &Map, me: NodeId, shard: &Shard) -> bool {
    map.member(me).is_some_and(|member| member.incarnation == shard.incarnation)
}

#[cfg(test)]
mod tests {
    use membership::meta::{Acceptor, Command, Describe, Group, GroupCommand, Lead, Recover, Report, Settle, State};
    use membership::{AcceptorId, ClusterId, level};

    use super::*;

    fn id(n: u8) -> NodeId {
        NodeId([n; 20])
    }

    fn group(state: &mut State, command: GroupCommand) {
        let command = Command::Group(command);
        let response = state.apply(&command);
        assert!(matches!(response, membership::meta::Response::Done { .. }), "{command}: {response:?}");
    }

    fn lead(state: &mut State, owner: u8) {
        let map = state.map(|_| true);
        let shard = map.shards_of(id(owner)).next().unwrap();
        let (known, shard) = (shard.term, shard.id);
        state.apply(&Command::Lead(Lead { shard, known, id: id(owner), incarnation: 1, of_log: 0 }));
    }

    /// Node 1 with all slots, and the log-server-like nodes 2 and 3, which have copies of its log. Nodes 4 and 5 have
    /// nothing.
    fn copied() -> State {
        let mut state = State::new();
        let node = |n: u8| {
            let (port, bus_port) = (100 + u16::from(n), 200 + u16::from(n));
            Describe { id: id(n), incarnation: 1, host: "h".to_owned(), port, bus_port, client_port: 0 }
        };
        let level = level::SHARDS;
        state.apply(&Command::Form { cluster: ClusterId([7; 20]), nodes: vec![node(1)], settings: Vec::new(), level });
        for n in 2..=5 {
            state.apply(&Command::Join { node: node(n), settings: Vec::new(), level });
        }
        let place = |n: u8| Place { member: id(n), dir: "-".to_owned() };
        group(&mut state, GroupCommand::Add(Group { name: "g".to_owned(), places: [1, 2, 3].map(place).to_vec() }));
        group(&mut state, GroupCommand::Use { name: "g".to_owned(), shards: vec![ShardId(1)] });
        for n in 1..=3 {
            let (shard, id) = (ShardId(1), AcceptorId([n; 16]));
            group(&mut state, GroupCommand::Report(Report { shard, place: place(n), incarnation: 1, id, streams: 1 }));
        }
        lead(&mut state, 1);
        let map = state.map(|_| true);
        let shard = map.shards_of(id(1)).next().unwrap();
        let acceptors = shard.pending.iter().flatten().map(|acceptor: &Acceptor| acceptor.id).collect();
        let settle = Settle { shard: shard.id, id: id(1), incarnation: 1, term: shard.term, acceptors };
        group(&mut state, GroupCommand::Settle(settle));
        state
    }

    fn recover(state: &mut State, to: u8) {
        group(state, GroupCommand::Recover(Recover { shard: ShardId(1), to: id(to) }));
    }

    #[test]
    fn lives_that_begin_again_in_a_row_do_so_more_and_more_seldom() {
        let of = |before| Again { began: (monotonic_ms(), before), ..Again::new(&[]) };
        let pauses = [0, 1, 2, 3, 50].map(|before| of(before).pause().as_millis());
        assert_eq!(pauses, [0, 300, 600, 1200, 1200]);
        assert_eq!(of(50).in_a_row(monotonic_ms() + LASTED_MS), 0, "it has lasted");
        assert_eq!(of(2).in_a_row(monotonic_ms()), 3);
    }

    #[test]
    fn a_process_is_stopped_or_starts_again_and_not_both() {
        let (stopped, begins) = (Again::new(&[]), Again::new(&[]));
        assert!(stopped.want() && stopped.is_wanted() && stopped.never());
        assert!(!stopped.is_wanted() && !stopped.begins() && !stopped.want());
        assert!(!begins.begins(), "nobody wants it");
        assert!(begins.want() && begins.begins() && !begins.never());
        assert!(begins.is_wanted() && begins.begins());
    }

    #[test]
    fn a_node_without_slots_starts_again_for_a_shard_that_it_is_given() {
        let (mut state, again) = (copied(), Again::new(&[]));
        again.begins_with(None);
        assert_eq!(again.wanted_by(&state.map(|_| true), id(4)), None);
        recover(&mut state, 4);
        assert!(again.wanted_by(&state.map(|_| true), id(4)).is_some_and(|why| why.contains("is given shard 1")));
        let next = Again::new(&[]);
        next.begins_with(Some(ShardId(1)));
        assert_eq!(next.wanted_by(&state.map(|_| true), id(4)), None);
        lead(&mut state, 4);
        assert_eq!(next.wanted_by(&state.map(|_| true), id(4)), None);
    }

    #[test]
    fn an_owner_whose_shard_is_given_away_starts_again_even_if_it_has_come_back() {
        let (mut state, again) = (copied(), Again::new(&[]));
        again.begins_with(Some(ShardId(1)));
        again.leads();
        assert_eq!(again.wanted_by(&state.map(|_| true), id(1)), None);
        recover(&mut state, 4);
        let gone = again.wanted_by(&state.map(|_| true), id(1)).unwrap();
        assert!(gone.contains("was given to another node"), "{gone}");
        // It hears of both changes at once.
        lead(&mut state, 4);
        recover(&mut state, 5);
        let both = Again::new(&[]);
        both.begins_with(Some(ShardId(1)));
        both.leads();
        assert!(both.wanted_by(&state.map(|_| true), id(5)).is_some());
    }
}
