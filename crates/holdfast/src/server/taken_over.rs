//! A start of a node whose log has copies at other members (rules G1 to G6).
//!
//! Such a node takes part in the cluster before it has its data: it needs a term, and what its own folder lacks comes from
//! others. It gets no lease meanwhile.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use loggroup::{Driver, Ended, Limits, Local, NotStarted, Own, Plan, Stage};
use membership::meta::Shard;
use node::cluster::place_of_copy;
use node::config::Settings;
use node::{LookAtCopies, Node};
use quorum::{AcceptorId, ShardId};
use redolog::{Log, State};

use super::chance;
use super::copies_watched::{self, News, Watch};
use super::durable::{Disks, Stored, limits_of_log};
use super::group::{self, Group};
use super::member;
use super::ownership::Ownership;
use super::places::Places;
use super::standby::Standbys;

/// Between two looks at whether the node has a term.
const LOOK: Duration = Duration::from_millis(20);
/// Between two looks at the acceptors that the metadata name.
const EVERY: Duration = Duration::from_secs(1);
/// Between two looks at the lag of standbys.
const LAG: Duration = Duration::from_millis(100);
/// Between two lines of the log about a start that waits, in milliseconds.
const SAY_MS: u64 = 5_000;

/// True if the log of this node has copies, as far as its files say: the metadata that it has kept, or its own log folder.
///
/// # Errors
/// It is not known where its log is. In words.
pub fn has_copies(settings: &Settings, dir: &Path) -> Result<bool, String> {
    if !settings.appendonly || !settings.takes_part_in_cluster() {
        return Ok(false);
    }
    Ok(member::has_group(settings) || loggroup::is_acceptor(&Places::of_data(settings, dir)?.logs))
}

/// Checks that a node whose shard's log has copies keeps a log.
///
/// # Errors
/// It would serve the shard without one.
pub fn check(settings: &Settings) -> Result<(), String> {
    let shard = (!settings.appendonly && settings.takes_part_in_cluster()).then(|| member::known_shard(settings));
    match shard.flatten().filter(|shard| shard.settled.len() > 1) {
        Some(shard) => Err(format!(
            "the log of this node's shard {} has {} copies, and appendonly is no: start it with `--appendonly yes`",
            shard.id.0,
            shard.settled.len()
        )),
        None => Ok(()),
    }
}

/// Begins a start of a node whose log has copies. Returns its shard, as far as its files say.
///
/// The node may have been given a shard whose owner is lost. Then the log in its folder is of the shard that it had, in
/// which no key was, and goes: names of its blocks may be those of others in the log that is taken over.
///
/// # Errors
/// It has data of the shard that it had, or that log cannot be removed.
pub fn begin(settings: &Settings, stored: &Stored) -> Result<Option<ShardId>, Box<dyn Error>> {
    let Some(shard) = member::known_shard(settings) else { return Ok(None) };
    let places = &stored.places;
    let is_own = match loggroup::shard_of_own(&places.logs)? {
        Some(of) => of == shard.id,
        // A log that has got copies has an acceptor. One that was lost has neither.
        None => shard.settled.len() < 2 || !places.has_log(),
    };
    if is_own {
        return Ok(Some(shard.id));
    }
    if stored.seed()?.is_some() {
        return Err(format!(
            "this node owns shard {} now, whose log is read from its copies, and has a checkpoint of the shard that it had: start it with an empty dir, and recover the shard there",
            shard.id.0
        )
        .into());
    }
    tracing::warn!("This node owns shard {} now: the log of the shard that it had is removed", shard.id.0);
    loggroup::remove_log(&places.logs)?;
    places.make()?;
    Ok(Some(shard.id))
}

/// Gets a term, and brings the own folder to the log that a majority of the acceptors has. `None`: the server stops. `known`:
/// the shard of the node, as far as its files say.
///
/// # Errors
/// Another node owns the shard, or the log cannot be brought up.
pub fn bring_up(
    settings: &Settings,
    node: &Arc<Node>,
    stored: Stored,
    ownership: &Ownership,
    known: Option<ShardId>,
) -> Result<Option<Disks>, Box<dyn Error>> {
    // A node that was given the shard may have lost it again before it had a folder.
    let known = loggroup::shard_of_own(&stored.places.logs)?.or(known);
    let mut waits = Waits::new(node, "A term is waited for: the metadata have given none to this start");
    let shard = loop {
        if let Some(shard) = ownership.shard() {
            break shard;
        }
        heed_loss(ownership, known, node)?;
        if !waits.go_on() {
            return Ok(None);
        }
        thread::park_timeout(LOOK);
    };
    let brought = in_terms(node, ownership, shard, |shard| try_bring_up(settings, node, &stored, ownership, shard))?;
    let Some(driver) = brought else { return Ok(None) };
    Ok(Some(stored.with_log(settings, Arc::clone(&node.clock), (driver, ownership.group()))?))
}

/// Leads the log of the shard that this process has stood by for, in the term that it has: from the acceptor that it has
/// followed. `None`: the server stops.
///
/// # Errors
/// Another node owns the shard, or the log cannot be led.
pub fn lead_copy(
    settings: &Settings,
    node: &Arc<Node>,
    own: &Arc<Local<redolog::Folder>>,
    ownership: &Ownership,
    shard: Shard,
) -> Result<Option<Arc<Driver>>, Box<dyn Error>> {
    in_terms(node, ownership, shard, |shard| {
        let plan = group::plan(shard, own.id());
        take_over((settings, node, ownership), shard, plan, |plan, limits, wait| {
            Driver::take_over(own, plan, limits, |listener| ownership.ports(shard, listener), wait)
        })
    })
}

/// Tries to lead a term of the shard, and the next one if acceptors of that are withdrawn. `None`: the server stops.
fn in_terms<T>(
    node: &Arc<Node>,
    ownership: &Ownership,
    mut shard: Shard,
    lead: impl Fn(&Shard) -> Result<Option<T>, Box<dyn Error>>,
) -> Result<Option<T>, Box<dyn Error>> {
    loop {
        if let Some(led) = lead(&shard)? {
            return Ok(Some(led));
        }
        if node.is_stopping() {
            return Ok(None);
        }
        let Some(next) = next_term((&ownership.group(), ownership), &shard, node)? else { return Ok(None) };
        shard = next;
    }
}

/// Checks that no other node owns the shard: nothing ends that wait. A node that stands by for it now starts again.
fn heed_loss(ownership: &Ownership, shard: Option<ShardId>, node: &Arc<Node>) -> Result<(), Box<dyn Error>> {
    let Some((shard, why)) = shard.and_then(|shard| Some((shard, ownership.lost(shard)?))) else { return Ok(()) };
    if ownership.stands_by_for(shard) {
        let why = format!("it stands by for shard {}, which it has owned", shard.0);
        member::begin_again(ownership.again(), node, &why);
        return Ok(());
    }
    tracing::error!("{why}");
    Err(why.into())
}

/// The next term, after acceptors of this one were withdrawn. `None`: the server stops.
fn next_term(
    (group, ownership): (&Group, &Ownership),
    shard: &Shard,
    node: &Arc<Node>,
) -> Result<Option<Shard>, Box<dyn Error>> {
    heed_loss(ownership, Some(shard.id), node)?;
    tracing::warn!("The copies that the log of shard {} was to get are withdrawn", shard.id.0);
    let mut waits = Waits::new(node, "");
    loop {
        match group.next_term(shard) {
            Ok(next) => return Ok(Some(next)),
            Err(why) => waits.text = format!("A term is waited for: {why}"),
        }
        heed_loss(ownership, Some(shard.id), node)?;
        if !waits.go_on() {
            return Ok(None);
        }
        thread::park_timeout(EVERY);
    }
}

/// `None`: the server stops, acceptors that were pending are withdrawn, or another node owns the shard.
fn try_bring_up(
    settings: &Settings,
    node: &Arc<Node>,
    stored: &Stored,
    ownership: &Ownership,
    shard: &Shard,
) -> Result<Option<Arc<Driver>>, Box<dyn Error>> {
    let logs = stored.places.logs.len();
    if shard.streams != 0 && logs != usize::from(shard.streams) {
        return Err(format!(
            "the log of shard {} has {} streams, each in a directory of its own, and log-dirs names {logs}",
            shard.id.0, shard.streams
        )
        .into());
    }
    let (limits, fresh) = (limits_of_log(settings), AcceptorId(chance::random()?));
    let own = Own::at(&stored.places.logs, shard.id, ownership.cluster(), limits, fresh)?;
    if own.term() >= shard.term {
        return Err(format!(
            "the own log folder knows term {}, and the metadata give {} to this start: they are of another time",
            own.term().get(),
            shard.term.get()
        )
        .into());
    }
    let plan = group::plan(shard, own.acceptor());
    take_over((settings, node, ownership), shard, plan, |plan, limits, wait| {
        own.bring_up(plan, limits, |listener| ownership.ports(shard, listener), wait)
    })
}

/// Takes the log over from its copies. `None`: as for [`try_bring_up`].
fn take_over(
    (settings, node, ownership): (&Settings, &Arc<Node>, &Ownership),
    shard: &Shard,
    plan: Plan,
    take: impl FnOnce(Plan, Limits, loggroup::Wait<'_>) -> Result<Arc<Driver>, NotStarted>,
) -> Result<Option<Arc<Driver>>, Box<dyn Error>> {
    let copies: BTreeSet<_> = plan.settled.iter().chain(plan.pending.iter().flatten()).collect();
    let (count, term) = (copies.len(), plan.term.get());
    tracing::info!("The log of shard {} is taken over from its {count} copies, in term {term}", plan.shard.0);
    let limits = Limits { through: settings.appendfsync == node::config::AppendFsync::Always, ..Limits::default() };
    let (group, mut say) = (ownership.group(), saying(node, shard.id));
    let stays = || group.stays(shard) && ownership.lost(shard.id).is_none();
    let mut wait = |stage, silent: &[AcceptorId]| stays() && say(stage, silent);
    match take(plan, limits, &mut wait) {
        Ok(driver) => Ok(Some(driver)),
        Err(NotStarted::Ended(Ended::Stopped)) => Ok(None),
        Err(why) => Err(why.into()),
    }
}

/// Waits until the shard is led. `log` runs in the own folder. Start blocks that wait for acceptors which the metadata have
/// withdrawn come in another term.
pub fn follow(copies: &Arc<Driver>, group: &Group, log: &Log, node: &Arc<Node>) -> Result<(), Box<dyn Error>> {
    let mut say = saying(node, copies.shard());
    let mut led = copies.follow(log, &mut |stage, silent| !group.has_withdrawn(copies) && say(stage, silent));
    while led == Err(Ended::Stopped) && !node.is_stopping() && !copies.is_over() {
        led = match group.lead_again(copies, &mut say) {
            Ok(()) => Ok(()),
            Err(why) => {
                tracing::warn!(cause = "log copies", "The log waits for another term: {why}");
                thread::park_timeout(EVERY);
                Err(Ended::Stopped)
            }
        };
    }
    led?;
    tracing::info!("The shard is led here, in term {}", copies.term().get());
    Ok(())
}

/// Has the node show the copies of its log. Starts a thread that tells acceptors what is committed, follows changes of
/// them, and logs what becomes of them. It ends when the log has ended.
pub fn keep(
    (copies, standbys): (&Arc<Driver>, Option<&Arc<Standbys>>),
    log: &Log,
    ownership: &Ownership,
    node: &Arc<Node>,
) -> Result<(), Box<dyn Error>> {
    if let Some(durable) = node.durable() {
        durable.show_copies(copies_watched::look(copies, node), copies_watched::count(copies));
    }
    let (weak, log, group) = (Arc::downgrade(copies), log.clone(), ownership.group());
    let (standbys, clock) = (standbys.cloned(), Arc::clone(&node.clock));
    let watcher = Arc::downgrade(node);
    let (look, mut watch): (LookAtCopies, _) = (copies_watched::look(copies, node), Watch::default());
    let keep = move || {
        while let Some(copies) = weak.upgrade().filter(|_| !matches!(log.state(), State::Failed(_))) {
            copies.tell_committed();
            if let Err(why) = group.follow(&copies) {
                tracing::warn!(cause = "log copies", "The copies of the log do not change yet: {why}");
            }
            let now = clock.boot_ns().ms();
            if let Some(why) = standbys.as_ref().and_then(|standbys| group.stand_by(standbys, now).err()) {
                tracing::warn!(cause = "standbys", "The standbys of the shard do not change yet: {why}");
            }
            if let Some(node) = watcher.upgrade() {
                node.waited_for_copies(copies.longest_wait());
            }
            drop(copies);
            look().iter().flat_map(|now| watch.look(now)).for_each(|news: News| news.tell());
            for _ in 0..EVERY.as_millis() / LAG.as_millis() {
                if let (Some(standbys), Some(node)) = (&standbys, watcher.upgrade()) {
                    group.slow_down(standbys, &node, clock.boot_ns().ms());
                }
                thread::park_timeout(LAG);
            }
        }
    };
    thread::Builder::new().name("log-copies".into()).spawn(keep)?;
    Ok(())
}

/// Says now and then that a start waits.
struct Waits<'a> {
    node: &'a Node,
    text: String,
    since: clocks::UnixMs,
}

impl<'a> Waits<'a> {
    fn new(node: &'a Node, text: &str) -> Self {
        Self { node, text: text.to_owned(), since: node.clock.unix_ms() }
    }

    /// False: the server stops.
    fn go_on(&mut self) -> bool {
        let now = self.node.clock.unix_ms();
        if now.0.saturating_sub(self.since.0) >= SAY_MS {
            self.since = now;
            tracing::warn!("{}", self.text);
        }
        !self.node.is_stopping()
    }
}

fn saying(node: &Arc<Node>, shard: ShardId) -> impl FnMut(Stage, &[AcceptorId]) -> bool {
    let mut waits = Waits::new(node, "");
    move |stage, silent| {
        let map = node.cluster().map(|cluster| cluster.map());
        let name = |id: &AcceptorId| map.as_ref().map_or_else(String::new, |map| place_of_copy(map, shard, *id));
        let does = match stage {
            Stage::Sealing | Stage::Fetching => "is taken over",
            _ => "is brought to its copies",
        };
        let silent: Vec<String> = silent.iter().map(name).collect();
        waits.text = match silent.is_empty() {
            true => format!("The log of shard {} {does}: all of these answer", shard.0),
            false => format!("The log of shard {} {does}: no answer comes from {}", shard.0, silent.join(", ")),
        };
        waits.go_on()
    }
}
