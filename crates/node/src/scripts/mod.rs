//! The state of scripts that all workers share: those that can be called by their digest, the libraries of functions,
//! and those that have run long enough to be seen.

pub(crate) mod libraries;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clocks::UnixMs;
use resp::OwnedArgs;
use script::Source;

use crate::scripts::libraries::{Agreed, Libraries};

/// SHA1 of a script in lower-case hexadecimal digits.
pub type Digest = [u8; 40];

/// Scripts of EVAL that are remembered. Beyond that, those with the oldest last use are forgotten. Scripts of SCRIPT
/// LOAD stay.
const REMEMBERED: usize = 500;

/// See the module's text.
#[derive(Default)]
pub struct Scripts {
    sources: Mutex<Sources>,
    /// Scripts of EVAL remembered so far: the measure of last uses.
    remembered: AtomicU64,
    /// The number of the last script that was remembered, or loaded.
    last: AtomicU64,
    /// How often all were forgotten (SCRIPT FLUSH).
    flushes: AtomicU64,
    /// How many were forgotten for newer ones.
    pub evicted: AtomicU64,
    /// The libraries, and what a cluster has agreed on beside them.
    libraries: Mutex<Agreed>,
    jobs: Mutex<Vec<Arc<Job>>>,
    /// How often some were asked to end.
    kills: AtomicU64,
    /// Scripts may call commands that work on sessions, too (DEBUG SET-DISABLE-DENY-SCRIPTS).
    pub deny_nothing: AtomicBool,
    /// Number of jobs that take longer than `busy-reply-threshold`.
    slow: AtomicUsize,
}

#[derive(Default)]
struct Sources {
    by_digest: BTreeMap<Digest, Arc<Known>>,
    /// Those of EVAL.
    of_eval: Vec<Arc<Known>>,
    bytes: usize,
}

/// A script that can be called by its digest.
pub struct Known {
    /// The script.
    pub source: Source,
    /// It came with SCRIPT LOAD.
    loaded: AtomicBool,
    /// It has been forgotten since.
    forgotten: AtomicBool,
    /// How many scripts of EVAL had been remembered when it was last used.
    used: AtomicU64,
    /// Its number in the order in which scripts were remembered, or loaded.
    number: AtomicU64,
}

impl Known {
    /// True if EVALSHA finds it no more.
    pub fn is_forgotten(&self) -> bool {
        self.forgotten.load(Relaxed)
    }

    /// True if it came with SCRIPT LOAD.
    pub fn is_loaded(&self) -> bool {
        self.loaded.load(Relaxed)
    }
}

/// A script that has been running for a while.
pub struct Job {
    /// The name of the function, if it is one (FCALL).
    pub function: Option<Box<str>>,
    /// The command that runs it.
    pub command: OwnedArgs,
    /// When it began.
    pub since: UnixMs,
    /// See [`Fate`]: the first change decides.
    fate: AtomicU8,
    /// It takes longer than `busy-reply-threshold`.
    slow: AtomicBool,
    /// The slots it holds; `None`: all.
    slots: Mutex<Option<Vec<u16>>>,
}

/// A script that has changed something goes on to its end. A script that was asked to end changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Fate {
    Open,
    Changes,
    Ends,
}

/// The reason why no script was killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotKilled {
    /// None is running.
    NotBusy,
    /// The running one has changed something.
    Unkillable,
    /// A function is running and a script was to be killed, or the other way round.
    OtherKind,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scripts {
    /// The script with this digest.
    pub fn find(&self, digest: &Digest) -> Option<Arc<Known>> {
        lock(&self.sources).by_digest.get(digest).cloned()
    }

    /// Remembers a script. `loaded`: until SCRIPT FLUSH.
    pub fn remember(&self, source: Source, loaded: bool) -> Arc<Known> {
        let mut sources = lock(&self.sources);
        let digest = *source.sha();
        if let Some(known) = sources.by_digest.get(&digest).cloned() {
            if loaded && !known.loaded.swap(true, Relaxed) {
                known.number.store(self.last.fetch_add(1, Relaxed) + 1, Relaxed);
                sources.of_eval.retain(|other| !Arc::ptr_eq(other, &known));
            }
            return known;
        }
        sources.bytes += source.body().len();
        let known = Arc::new(Known {
            source,
            loaded: AtomicBool::new(loaded),
            forgotten: AtomicBool::new(false),
            used: AtomicU64::new(0),
            number: AtomicU64::new(self.last.fetch_add(1, Relaxed) + 1),
        });
        sources.by_digest.insert(digest, known.clone());
        if !loaded {
            known.used.store(self.remembered.fetch_add(1, Relaxed) + 1, Relaxed);
            sources.of_eval.push(known.clone());
            if sources.of_eval.len() > REMEMBERED {
                sources.forget_one_of_eval();
                self.evicted.fetch_add(1, Relaxed);
            }
        }
        known
    }

    /// The last number that was given, and the first scripts with numbers above this one, at most so many, with their
    /// numbers. It costs nothing while no new scripts come.
    pub fn behind(&self, number: u64, most: usize) -> (u64, Vec<(u64, Arc<Known>)>) {
        if self.last.load(Relaxed) == number {
            return (number, Vec::new());
        }
        // Numbers are given under the lock.
        let sources = lock(&self.sources);
        let last = self.last.load(Relaxed);
        let numbered = sources.by_digest.values().map(|known| (known.number.load(Relaxed), known));
        let mut behind: Vec<_> = numbered.filter(|(at, _)| *at > number).collect();
        behind.sort_unstable_by_key(|(at, _)| *at);
        (last, behind.into_iter().take(most).map(|(at, known)| (at, Arc::clone(known))).collect())
    }

    /// Notes that a script is used. It costs nothing while no new scripts come.
    #[inline]
    pub fn used(&self, known: &Known) {
        let now = self.remembered.load(Relaxed);
        if known.used.load(Relaxed) != now {
            known.used.store(now, Relaxed);
        }
    }

    /// Forgets all scripts.
    pub fn flush(&self) {
        let mut sources = lock(&self.sources);
        sources.by_digest.values().for_each(|known| known.forgotten.store(true, Relaxed));
        *sources = Sources::default();
        self.flushes.fetch_add(1, Relaxed);
    }

    /// Number of [`Self::flush`]es.
    #[inline]
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Relaxed)
    }

    /// Number of scripts that EVALSHA finds, and bytes of their texts.
    pub fn size(&self) -> (usize, usize) {
        let sources = lock(&self.sources);
        (sources.by_digest.len(), sources.bytes)
    }

    /// The libraries.
    pub fn libraries(&self) -> Arc<Libraries> {
        lock(&self.libraries).libraries.clone()
    }

    /// The libraries and the users of the cluster, with their version, or this server's own libraries.
    pub fn agreed(&self) -> Agreed {
        lock(&self.libraries).clone()
    }

    /// Changes this server's own libraries, one changer at a time.
    pub fn change_libraries<R>(&self, change: impl FnOnce(&mut Libraries) -> R) -> R {
        // A copy, if another thread is reading.
        change(Arc::make_mut(&mut lock(&self.libraries).libraries))
    }

    /// All libraries, as FUNCTION DUMP gives them.
    pub fn dump_libraries(&self) -> Vec<u8> {
        self.libraries().dump()
    }

    /// Replaces all libraries, at the start, by the output of [`Self::dump_libraries`].
    pub fn load_libraries(&self, dumped: &[u8]) -> Result<(), String> {
        self.take_libraries(0, dumped, &[])
    }

    /// Replaces all libraries, at the start, by those with this code.
    pub fn load_code(&self, codes: &[Vec<u8>]) -> Result<(), String> {
        let libraries = Libraries::of_codes(codes, &self.libraries())?;
        lock(&self.libraries).libraries = Arc::new(libraries);
        Ok(())
    }

    /// As [`Self::load_libraries`], for those of the cluster, of this version. `users`: the cluster's, as bytes.
    pub fn take_libraries(&self, version: u64, dumped: &[u8], users: &[u8]) -> Result<(), String> {
        let libraries = Arc::new(Libraries::restore(dumped, &self.libraries())?);
        *lock(&self.libraries) = Agreed { version, libraries, users: users.into() };
        Ok(())
    }

    // ---- those under way

    /// Shows a script that takes long.
    pub fn show(&self, job: Job) -> Arc<Job> {
        let job = Arc::new(job);
        lock(&self.jobs).push(job.clone());
        job
    }

    /// A script that was shown has ended.
    pub fn hide(&self, job: &Arc<Job>) {
        lock(&self.jobs).retain(|other| !Arc::ptr_eq(other, job));
        if job.slow.load(Relaxed) {
            self.slow.fetch_sub(1, Relaxed);
        }
    }

    /// The scripts that have been running for a while.
    pub fn jobs(&self) -> Vec<Arc<Job>> {
        lock(&self.jobs).clone()
    }

    /// Notes that a job has exceeded `busy-reply-threshold` while it holds these slots (`None`: all). True: for the
    /// first time.
    pub fn mark_slow(&self, job: &Job, slots: Option<&[u16]>) -> bool {
        *lock(&job.slots) = slots.map(<[u16]>::to_vec);
        let first = !job.slow.swap(true, Relaxed);
        if first {
            self.slow.fetch_add(1, Relaxed);
        }
        first
    }

    /// True if a script takes longer than it may.
    #[inline]
    pub fn any_slow(&self) -> bool {
        self.slow.load(Relaxed) > 0
    }

    /// The slow job that holds a slot.
    pub fn slow_holder(&self, slot: u16) -> Option<Arc<Job>> {
        let holds = |job: &Job| lock(&job.slots).as_ref().is_none_or(|slots| slots.contains(&slot));
        lock(&self.jobs).iter().find(|job| job.is_in_the_way() && holds(job)).cloned()
    }

    /// Any slow job.
    pub fn slow_job(&self) -> Option<Arc<Job>> {
        lock(&self.jobs).iter().find(|job| job.is_in_the_way()).cloned()
    }

    /// Asks the running functions, or scripts, to end that have changed nothing. If some take too long, only those: the
    /// others wait for them, or are soon done.
    pub fn kill(&self, functions: bool) -> Result<(), NotKilled> {
        let jobs = self.jobs();
        if jobs.is_empty() {
            return Err(NotKilled::NotBusy);
        }
        let of_kind = || jobs.iter().filter(|job| job.function.is_some() == functions);
        let any_slow = of_kind().any(|job| job.is_in_the_way());
        let mut outcome = Err(NotKilled::OtherKind);
        for job in of_kind().filter(|job| !any_slow || job.is_in_the_way()) {
            match job.decide(Fate::Ends) {
                true => outcome = Ok(()),
                false => outcome = outcome.or(Err(NotKilled::Unkillable)),
            }
        }
        if outcome.is_ok() {
            self.kills.fetch_add(1, Relaxed);
        }
        outcome
    }

    /// How often scripts were asked to end.
    pub fn kills(&self) -> u64 {
        self.kills.load(Relaxed)
    }
}

impl Sources {
    /// Forgets the script of EVAL with the oldest last use; of those that were not used since, the oldest.
    fn forget_one_of_eval(&mut self) {
        let Some(at) = (0..self.of_eval.len()).min_by_key(|&i| self.of_eval[i].used.load(Relaxed)) else { return };
        let known = self.of_eval.remove(at);
        known.forgotten.store(true, Relaxed);
        self.bytes -= known.source.body().len();
        self.by_digest.remove(known.source.sha());
    }
}

impl Job {
    /// A script that began at `since`.
    pub fn new(function: Option<Box<str>>, command: OwnedArgs, since: UnixMs) -> Self {
        Self {
            function,
            command,
            since,
            fate: AtomicU8::new(Fate::Open as u8),
            slow: AtomicBool::new(false),
            slots: Mutex::new(Some(Vec::new())),
        }
    }

    fn decide(&self, fate: Fate) -> bool {
        let decided = self.fate.compare_exchange(Fate::Open as u8, fate as u8, Relaxed, Relaxed);
        decided.map_or_else(|before| before == fate as u8, |_| true)
    }

    /// Notes that it is about to change something. False: it was asked to end before.
    pub fn may_change(&self) -> bool {
        self.decide(Fate::Changes)
    }

    /// True if it was asked to end.
    pub fn is_killed(&self) -> bool {
        self.fate.load(Relaxed) == Fate::Ends as u8
    }

    /// True if it takes too long and goes on: a killed one will have ended in a moment.
    fn is_in_the_way(&self) -> bool {
        self.slow.load(Relaxed) && !self.is_killed()
    }

    /// The error for clients that need its keys.
    pub fn busy_error(&self) -> &'static str {
        busy_error(self.function.is_some())
    }
}

/// The error for clients that need the keys of a script, or a function, for too long.
pub fn busy_error(function: bool) -> &'static str {
    if function {
        "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
    } else {
        "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(n: usize) -> Source {
        Source::parse(format!("return {n}").as_bytes()).unwrap()
    }

    #[test]
    fn a_script_that_was_killed_changes_nothing_and_one_that_changes_is_not_killed() {
        for changes_first in [false, true] {
            let scripts = Scripts::default();
            let job = scripts.show(Job::new(None, ["eval"].into_iter().collect(), UnixMs(0)));
            if changes_first {
                assert!(job.may_change());
            }
            let killed = scripts.kill(false);
            assert_eq!(killed, if changes_first { Err(NotKilled::Unkillable) } else { Ok(()) });
            assert_eq!((job.is_killed(), job.may_change()), (!changes_first, changes_first));
        }
    }

    #[test]
    fn a_script_that_waits_for_a_slow_one_is_not_killed() {
        let scripts = Scripts::default();
        let show = || scripts.show(Job::new(None, ["eval"].into_iter().collect(), UnixMs(0)));
        let (slow, waiting) = (show(), show());
        scripts.mark_slow(&slow, None);
        assert_eq!(scripts.kill(false), Ok(()));
        assert!(slow.is_killed() && !waiting.is_killed());
        // No other one is slow: it is asked for the next time.
        assert_eq!(scripts.kill(false), Ok(()));
        assert!(waiting.is_killed());
    }

    #[test]
    fn scripts_have_numbers_in_the_order_in_which_they_came() {
        let scripts = Scripts::default();
        let numbers = |above, most| scripts.behind(above, most).1.into_iter().map(|(at, _)| at).collect::<Vec<_>>();
        assert!(numbers(0, 9).is_empty());
        let first = scripts.remember(source(1), false);
        scripts.remember(source(2), false);
        scripts.remember(source(2), false);
        assert_eq!((numbers(0, 9), numbers(1, 9), numbers(0, 1)), (vec![1, 2], vec![2], vec![1]));
        // One that is loaded is new: it stays.
        scripts.remember(source(1), true);
        assert_eq!((numbers(0, 9), numbers(2, 9)), (vec![2, 3], vec![3]));
        assert!(first.is_loaded() && Arc::ptr_eq(&first, &scripts.behind(2, 9).1[0].1));
        scripts.flush();
        assert!(numbers(0, 9).is_empty());
        scripts.remember(source(1), false);
        assert_eq!(numbers(3, 9), [4]);
    }

    #[test]
    fn of_eval_go_those_not_used_for_longest_and_those_loaded_stay() {
        let scripts = Scripts::default();
        let loaded = scripts.remember(source(0), true);
        let first = scripts.remember(source(1), false);
        let second = scripts.remember(source(2), false);
        let third = scripts.remember(source(3), false);
        scripts.remember(source(2), true);
        for n in 4..=REMEMBERED + 1 {
            scripts.remember(source(n), false);
        }
        assert_eq!(scripts.evicted.load(Relaxed), 0);
        scripts.used(&first);
        scripts.remember(source(9_000), false);
        assert!(third.is_forgotten() && !first.is_forgotten() && !second.is_forgotten() && !loaded.is_forgotten());
        assert!(scripts.find(third.source.sha()).is_none());
        assert_eq!(scripts.evicted.load(Relaxed), 1);
        assert_eq!(scripts.size().0, REMEMBERED + 2);
        scripts.flush();
        assert!(loaded.is_forgotten() && first.is_forgotten());
        assert_eq!(scripts.size(), (0, 0));
    }
}
