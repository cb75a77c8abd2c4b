//! Acceptors with real folders behind real sockets, and an owner of which each message goes there.

use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quorum::{AcceptorId, Block, BlockId, Cut, Event, History, Limits as OwnerLimits, Order, Owner, Reply, Report};
use quorum::{Request, Stage, StreamId};
use redolog::{Limits, Lsn};

use super::made::{LIMITS, SHARD, body, lsn, term};
use crate::link::{Incoming, Outgoing, answer, reply_bytes};
use crate::{Acceptors, Dial, Heard, Listener, Port, Remote, Unusable};

const STREAMS: u16 = 2;

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process that has acceptors.
struct Site {
    /// How many connections came.
    connections: Arc<AtomicUsize>,
    directory: PathBuf,
    address: Arc<Mutex<Option<String>>>,
    acceptors: Option<Arc<Acceptors>>,
}

impl Site {
    fn new(test: &str, at: u8) -> Self {
        let directory = std::env::temp_dir().join(format!("holdfast-{test}-{}-{at}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        Self { connections: Arc::default(), directory, address: Arc::default(), acceptors: None }
    }

    fn start(&mut self, id: AcceptorId) {
        let acceptors = Acceptors::new(Limits { segment: 1 << 16, ..Limits::default() }, None);
        let directories = ["a", "b"].map(|name| self.directory.join(name));
        match acceptors.open(&directories, SHARD, STREAMS, None) {
            Ok(found) => assert_eq!(found, id),
            Err(Unusable::Empty) => drop(acceptors.make(&directories, SHARD, STREAMS, None, id).expect("room")),
            Err(why) => panic!("{why}"),
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        *lock(&self.address) = Some(listener.local_addr().expect("bound").to_string());
        let (serving, address, connections) = (acceptors.clone(), self.address.clone(), self.connections.clone());
        std::thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                if lock(&address).is_none() {
                    return;
                }
                connections.fetch_add(1, Relaxed);
                serving.serve(socket.into()).expect("threads");
            }
        });
        self.acceptors = Some(acceptors);
    }

    fn stop(&mut self) {
        if let Some(address) = lock(&self.address).take() {
            // The listener looks.
            drop(TcpStream::connect(address));
        }
        if let Some(acceptors) = self.acceptors.take() {
            acceptors.stop().expect("the disk works");
        }
    }

    fn dial(&self) -> Dial {
        let address = self.address.clone();
        Arc::new(move || {
            let address = lock(&address).clone().ok_or(std::io::ErrorKind::ConnectionRefused)?;
            Ok(OwnedFd::from(TcpStream::connect(address)?))
        })
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

struct Inside {
    owner: Owner,
    clock: u64,
    /// Requests that are to go out, in the order in which the owner said them, and true if a thread sends some.
    outbox: Vec<(AcceptorId, Request, bool)>,
    is_sending: bool,
}

/// An owner with a port to each acceptor.
struct Boss {
    inside: Mutex<Inside>,
    ports: Mutex<BTreeMap<AcceptorId, Arc<Remote>>>,
    news: Condvar,
}

impl Boss {
    fn new(of: u32, sites: &[(AcceptorId, &Site)]) -> Arc<Self> {
        let mut out = Vec::new();
        let limits = OwnerLimits { ring_bytes: 20_000, ..OwnerLimits::default() };
        let set = sites.iter().map(|(id, _)| *id).collect();
        let known = vec![History::default(); usize::from(STREAMS)];
        let owner = Owner::new((SHARD, term(of)), set, None, known, limits, &mut out);
        let inside = Mutex::new(Inside { owner, clock: 1000 * u64::from(of), outbox: Vec::new(), is_sending: false });
        let boss = Arc::new(Self { inside, ports: Mutex::default(), news: Condvar::new() });
        for (id, site) in sites {
            let weak = Arc::downgrade(&boss);
            let listener: Listener = Arc::new(move |from, heard| {
                if let Some(boss) = weak.upgrade() {
                    boss.act(|inside, out| match heard {
                        Heard::Connected => inside.owner.connected(from, out),
                        Heard::Lost => inside.owner.lost(from, out),
                        Heard::Reply(reply) => inside.owner.reply(from, reply, out),
                    });
                }
            });
            let remote = Remote::start(*id, site.dial(), listener).expect("a thread");
            lock(&boss.ports).insert(*id, Arc::new(remote));
        }
        boss
    }

    fn act<R>(&self, act: impl FnOnce(&mut Inside, &mut Vec<Event>) -> R) -> R {
        let mut out = Vec::new();
        let mut inside = lock(&self.inside);
        let result = act(&mut inside, &mut out);
        while !out.is_empty() {
            for event in std::mem::take(&mut out) {
                match event {
                    Event::Send { to, request, apart } => inside.outbox.push((to, request, apart)),
                    Event::Sealed { .. } => {
                        let ends: Vec<Cut> = (0..STREAMS).map(|_| Cut(inside.clock << 4)).collect();
                        inside.clock += 1;
                        inside.owner.begin(&ends, &mut out).expect("it was sealed");
                    }
                    _ => {}
                }
            }
        }
        self.news.notify_all();
        while !inside.is_sending && !inside.outbox.is_empty() {
            inside.is_sending = true;
            let sends = std::mem::take(&mut inside.outbox);
            drop(inside);
            let ports = lock(&self.ports).clone();
            for (to, request, apart) in sends {
                match ports.get(&to) {
                    Some(port) if apart => port.send_apart(request),
                    Some(port) => port.send(request),
                    None => {}
                }
            }
            inside = lock(&self.inside);
            inside.is_sending = false;
        }
        result
    }

    fn append(&self, count: u64) {
        for _ in 0..count {
            self.act(|inside, out| {
                for stream in (0..STREAMS).map(StreamId) {
                    inside.clock += 1;
                    let before = inside.owner.history(stream).map_or(BlockId::default(), History::last);
                    let id = BlockId { term: inside.owner.term(), sequence: before.sequence + 1 };
                    let cut: Lsn = lsn(stream, inside.clock);
                    let body = body(stream, before, id, cut, &[7; 1000]);
                    inside.owner.append(stream, Cut(cut.0), body, out).expect("it leads");
                }
            });
        }
    }

    /// Waits, at most for so long. Returns whether it came.
    fn wait(&self, seconds: u64, until: impl Fn(&Owner) -> bool) -> bool {
        let waited = self
            .news
            .wait_timeout_while(lock(&self.inside), Duration::from_secs(seconds), |inside| !until(&inside.owner));
        until(&waited.unwrap_or_else(PoisonError::into_inner).0.owner)
    }

    fn is_committed(owner: &Owner) -> bool {
        let at_end =
            |stream| owner.history(stream).is_some_and(|history| owner.synced(stream) == history.last().sequence);
        owner.stage() == Stage::Leading && (0..STREAMS).map(StreamId).all(at_end)
    }
}

const IDS: [AcceptorId; 3] = [AcceptorId([1; 16]), AcceptorId([2; 16]), AcceptorId([3; 16])];

fn three(test: &str) -> [Site; 3] {
    [0, 1, 2].map(|at: u8| {
        let mut site = Site::new(test, at);
        site.start(IDS[usize::from(at)]);
        site
    })
}

fn with_ids(sites: &[Site; 3]) -> Vec<(AcceptorId, &Site)> {
    IDS.into_iter().zip(sites).collect()
}

/// Two of three are enough. The third one comes back, and gets what it has missed, of which memory has a part only.
#[test]
fn an_acceptor_that_was_away_catches_up() {
    let mut sites = three("copies-away");
    let boss = Boss::new(1, &with_ids(&sites));
    assert!(boss.wait(20, |owner| owner.stage() == Stage::Leading), "{:?}", lock(&boss.inside).owner.stage());
    boss.append(30);
    assert!(boss.wait(20, Boss::is_committed));
    sites[2].stop();
    boss.append(60);
    assert!(boss.wait(20, Boss::is_committed), "two of three have it");
    assert!(lock(&boss.inside).owner.lags().any(|lag| lag.acceptor == IDS[2] && lag.blocks > 0));
    sites[2].connections.store(0, Relaxed);
    sites[2].start(IDS[2]);
    assert!(boss.wait(20, |owner| owner.lags().all(|lag| lag.answers && lag.blocks == 0)), "it has all");
    let made = sites.each_ref().map(|site| site.connections.load(Relaxed));
    assert!(made[2] == 2 && made[0] + made[1] >= 3, "old blocks had connections of their own: {made:?}");
    sites[0].stop();
    boss.append(5);
    assert!(boss.wait(20, Boss::is_committed), "it counts again");
    drop(boss);
    // A later owner finds everything, also with that one and a second one.
    let later = Boss::new(2, &with_ids(&sites));
    assert!(later.wait(20, |owner| owner.stage() == Stage::Leading));
    let last = lock(&later.inside).owner.history(StreamId(0)).map(|history| history.last().sequence);
    assert_eq!(last, Some(1 + 30 + 60 + 5 + 1));
    for site in &mut sites {
        site.stop();
    }
}

/// Rule G9: a folder that was wiped gets another name. It is in no set, so it neither seals nor counts.
#[test]
fn a_wiped_folder_does_not_vote() {
    let mut sites = three("copies-wiped");
    let boss = Boss::new(1, &with_ids(&sites));
    assert!(boss.wait(20, |owner| owner.stage() == Stage::Leading));
    boss.append(10);
    assert!(boss.wait(20, Boss::is_committed));
    sites[2].stop();
    std::fs::remove_dir_all(&sites[2].directory).expect("removed");
    sites[2].start(AcceptorId([9; 16]));
    sites[1].stop();
    boss.append(1);
    assert!(!boss.wait(2, Boss::is_committed), "one of three has it");
    assert_eq!(lock(&boss.ports).get(&IDS[2]).and_then(|port| port.trouble()).as_deref(), Some("it has no such copy"));
    drop(boss);
    let later = Boss::new(2, &with_ids(&sites));
    assert!(!later.wait(2, |owner| owner.stage() != Stage::Sealing), "one of three has answered");
    sites[1].start(IDS[1]);
    assert!(later.wait(20, |owner| owner.stage() == Stage::Leading));
}

/// An acceptor's end of the next connection, behind its greeting.
fn taken(dialed: &Receiver<UnixStream>) -> (Incoming, Arc<Outgoing>) {
    let socket = dialed.recv_timeout(Duration::from_secs(20)).expect("it dials");
    let (mut incoming, outgoing) = Incoming::split(socket.into()).expect("a socket");
    assert_eq!(incoming.greeted().expect("a greeting"), (IDS[0], false));
    outgoing.send(answer(Ok(&[])), None);
    (incoming, outgoing)
}

/// A process greets, and ends the connection when the seal comes. It is not dialed twenty times a second.
#[test]
fn connections_of_no_use_are_made_less_often() {
    let (dials, dialed) = channel();
    let dial: Dial = Arc::new(move || {
        let (here, there) = UnixStream::pair()?;
        dials.send((there, now())).map_err(std::io::Error::other)?;
        Ok(here.into())
    });
    let remote = Remote::start(IDS[0], dial, Arc::new(|_, _| {})).expect("a thread");
    let trouble = || remote.trouble();
    let sealed = Reply { shard: SHARD, term: term(1), report: Report::Sealed { histories: Vec::new() } };
    let at = BlockId::default();
    let useful = Reply { report: Report::Ack { stream: StreamId(0), written: at, synced: at }, ..sealed.clone() };
    let end_one = |reply: &Reply| {
        let (socket, at) = dialed.recv_timeout(Duration::from_secs(20)).expect("it dials");
        let of_before = trouble();
        let (mut incoming, outgoing) = Incoming::split(socket.into()).expect("a socket");
        incoming.greeted().expect("a greeting");
        outgoing.send(answer(Ok(&[])), None);
        outgoing.send(reply_bytes(reply), None);
        outgoing.close();
        (at, of_before)
    };
    let dialed_at: Vec<_> = (0..5).map(|_| end_one(&sealed).0).collect();
    assert!(dialed_at[4] - dialed_at[0] >= Duration::from_millis(50 + 100 + 200 + 400), "{dialed_at:?}");
    assert!(end_one(&useful).1.is_some(), "the reason is shown");
    assert_eq!(end_one(&sealed).1, None, "that one was of use, and may be made again at once");
}

#[expect(clippy::disallowed_methods, reason = "a test of pauses")]
fn now() -> Instant {
    Instant::now()
}

/// Nothing is read of the connection for old blocks, of which there are many. A block of now comes all the same. When
/// either of the two connections ends, both are made again.
#[test]
fn old_blocks_do_not_delay_those_of_now() {
    let (dials, dialed) = channel();
    let dial: Dial = Arc::new(move || {
        let (here, there) = UnixStream::pair()?;
        dials.send(there).map_err(std::io::Error::other)?;
        Ok(here.into())
    });
    let (hears, heard) = channel();
    let listener: Listener = Arc::new(move |_, heard| drop(hears.send(heard)));
    let remote = Remote::start(IDS[0], dial, listener).expect("a thread");
    let (mut now, of_now) = taken(&dialed);
    let patience = Duration::from_secs(20);
    assert_eq!(heard.recv_timeout(patience), Ok(Heard::Connected));
    let append = |sequence: u64, bytes: usize| {
        let id = BlockId { term: term(1), sequence };
        let block = Block { id, cut: Cut(sequence), is_start: false, body: Arc::from(vec![7; bytes]) };
        let before = BlockId { term: term(1), sequence: sequence - 1 };
        let order = Order::Append { stream: StreamId(0), before, committed: 0, through: true, block };
        Request { shard: SHARD, term: term(1), order }
    };
    (1..=8).for_each(|sequence| remote.send_apart(append(sequence, 4 << 20)));
    let (mut apart, of_old) = taken(&dialed);
    remote.send(append(20, 9));
    assert_eq!(Request::decode(now.next().expect("a message")).expect("whole"), append(20, 9));
    // Its answers are heard as well.
    let missed =
        Reply { shard: SHARD, term: term(1), report: Report::Missed { stream: StreamId(0), last: BlockId::default() } };
    of_old.send(reply_bytes(&missed), None);
    assert_eq!(heard.recv_timeout(patience), Ok(Heard::Reply(missed)));
    for sequence in 1..=8 {
        assert_eq!(Request::decode(apart.next().expect("a message")).expect("whole"), append(sequence, 4 << 20));
    }
    of_old.close();
    assert_eq!(heard.recv_timeout(patience), Ok(Heard::Lost));
    assert!(now.next().is_err(), "both have ended");
    drop(of_now);
    let (_now, _) = taken(&dialed);
    assert_eq!(heard.recv_timeout(patience), Ok(Heard::Connected));
}

/// Shards of two clusters have one number, and a log-server may still have what another cluster left.
#[test]
fn a_copy_of_another_cluster_is_refused() {
    let path = std::env::temp_dir().join(format!("holdfast-clusters-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let (directories, ours, theirs) = ([path.clone()], Some([1; 20]), Some([2; 20]));
    let open = |cluster| {
        let acceptors = Acceptors::new(LIMITS, None);
        let opened = acceptors.open(&directories, SHARD, STREAMS, cluster);
        acceptors.stop().expect("the disk works");
        opened
    };
    let make = |cluster, id| {
        let acceptors = Acceptors::new(LIMITS, None);
        acceptors.make(&directories, SHARD, STREAMS, cluster, AcceptorId([id; 16])).expect("room");
        acceptors.stop().expect("the disk works");
    };
    make(theirs, 5);
    assert!(matches!(open(ours), Err(Unusable::Lost(why)) if why.contains("another cluster")));
    assert_eq!(open(theirs).expect("its own"), AcceptorId([5; 16]));
    // One of before there were names of clusters.
    std::fs::remove_dir_all(&path).expect("it is there");
    make(None, 6);
    assert_eq!(open(ours).expect("nothing speaks against it"), AcceptorId([6; 16]));
    std::fs::remove_dir_all(&path).expect("it is there");
}
