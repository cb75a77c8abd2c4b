//! The configuration of a running node: one place that changes it, and snapshots for its readers.
//!
//! Workers read a [`Follower`]. Between two changes that costs one load of a counter which is not written.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::change::{self, Host, Plan, Rights, SetError};
use super::files::replace_file;
use super::renames::Renames;
use super::rewrite::rewrite;
use super::settings::Settings;
use super::shared::{self, Shared};
use super::table::Id;
use super::values::Values;

/// The configuration of a node, shared by its workers.
#[derive(Debug)]
pub struct Live {
    /// Held while a change is put into effect, so that changes come one after the other.
    state: Mutex<State>,
    settings: RwLock<Arc<Settings>>,
    /// Counts the changes. It is written after `settings`: a reader of a new number finds settings that are at least as
    /// new.
    generation: AtomicU64,
    file: Option<PathBuf>,
    renames: Renames,
}

#[derive(Debug)]
struct State {
    values: Values,
    /// SHA-256 of the password, if only that is known.
    hash: Option<[u8; 32]>,
    /// Settings that the file or the command line names, until they were compared with those of a cluster.
    named: BTreeSet<Id>,
    /// The cluster's settings are in force.
    of_cluster: bool,
    /// The process, which puts changes into effect; none until it is set up, and in tests.
    host: Option<Box<dyn Host + Send>>,
}

impl State {
    fn settings(&self, hash: Option<[u8; 32]>) -> Settings {
        let mut settings = Settings::of(&self.values);
        settings.know(hash);
        settings
    }
}

/// The effect of a `CONFIG SET`.
#[derive(Debug)]
pub struct Wanted {
    /// Names of the settings that would change.
    pub changed: Vec<&'static str>,
    /// The settings after it.
    pub settings: Settings,
    /// The cluster's settings that it names.
    pub of_cluster: Vec<Shared>,
    /// All settings of a shard, if it changes one.
    pub of_shard: Vec<Shared>,
}

/// The reason why `CONFIG REWRITE` did not write.
#[derive(Debug)]
pub enum RewriteError {
    /// No file was named at start.
    NoFile,
    /// The system's error.
    Io(io::Error),
}

impl fmt::Display for RewriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RewriteError::NoFile => f.write_str("The server is running without a config file"),
            RewriteError::Io(error) => write!(f, "Rewriting config file: {error}"),
        }
    }
}

impl std::error::Error for RewriteError {}

impl Default for Live {
    fn default() -> Self {
        Live::new(Values::default(), None, Renames::default())
    }
}

impl Live {
    /// Starts with these values. `file` is where [`Live::rewrite`] writes: an absolute path, since `dir` may change.
    pub fn new(values: Values, file: Option<PathBuf>, renames: Renames) -> Live {
        let settings = RwLock::new(Arc::new(Settings::of(&values)));
        let (named, of_cluster) = (BTreeSet::new(), false);
        let state = Mutex::new(State { values, hash: None, named, of_cluster, host: None });
        Live { state, settings, generation: AtomicU64::new(0), file, renames }
    }

    /// The same, with a password that is known by its hash only.
    pub fn with_hash(self, hash: Option<[u8; 32]>) -> Live {
        let mut state = self.state();
        state.hash = hash;
        let settings = state.settings(hash);
        drop(state);
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
        self
    }

    /// The same, with the names of the settings of file and command line.
    pub fn with_named(self, named: BTreeSet<Id>) -> Live {
        self.state().named = named;
        self
    }

    /// Sets the process that puts changes into effect from now on.
    pub fn set_host(&self, host: Box<dyn Host + Send>) {
        self.state().host = Some(host);
    }

    /// The settings as they are now.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts the changes since the start.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The configuration file, if one was named (`INFO server`, `config_file`).
    pub fn file(&self) -> Option<&PathBuf> {
        self.file.as_ref()
    }

    /// `rename-command`: fixed at start.
    pub fn renames(&self) -> &Renames {
        &self.renames
    }

    /// `CONFIG GET`: names and values of the settings that the patterns match, sorted.
    pub fn get(&self, patterns: &[&[u8]]) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.state().values.matching(patterns)
    }

    /// `CONFIG SET` with the arguments behind it: all of them, or none.
    ///
    /// # Errors
    ///
    /// The reply for the client; nothing is changed then.
    pub fn set(&self, args: &[&[u8]], rights: Rights) -> Result<(), SetError> {
        let mut state = self.state();
        let State { values, hash, host, .. } = &mut *state;
        let mut plan = change::plan(values, args, rights)?;
        // A new password, even an empty one, replaces the one that is known by its hash only.
        let names_password = args.iter().step_by(2).any(|name| name.eq_ignore_ascii_case(b"requirepass"));
        let forgets = names_password && hash.is_some();
        if plan.changed.is_empty() && !forgets {
            return Ok(());
        }
        let mut settings = match host {
            Some(host) => change::carry_out(values, &mut plan, host.as_mut())?,
            None => Settings::of(&plan.values),
        };
        for warning in plan.changed.iter().filter_map(|(id, row)| plan.values.no_effect(*id, row)) {
            tracing::warn!(cause = warning.to_string(), "{warning}");
        }
        *values = plan.values;
        if forgets {
            *hash = None;
        }
        settings.know(*hash);
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
        self.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Calls `f` with the present settings, while no thread changes them. So an object that follows the settings from
    /// now on misses no change.
    pub fn follow(&self, f: impl FnOnce(&Settings)) {
        let _unchanged = self.state();
        f(&self.settings());
    }

    /// The effect that [`Live::set`] would have.
    ///
    /// # Errors
    ///
    /// As of [`Live::set`].
    pub fn would_set(&self, args: &[&[u8]], rights: Rights) -> Result<Wanted, SetError> {
        let state = self.state();
        let plan = change::plan(&state.values, args, rights)?;
        let mut settings = Settings::of(&plan.values);
        settings.know(state.hash);
        let changed = plan.changed.iter().map(|(_, row)| row.name).collect();
        let concerns_shard = plan.changed.iter().any(|(_, row)| row.is_of_shard());
        let of_shard = if concerns_shard { shared::of_shard(&plan.values) } else { Vec::new() };
        Ok(Wanted { changed, settings, of_cluster: shared::named(&plan.values, args), of_shard })
    }

    /// The settings with which a cluster begins whose first node this is: this node's values of the cluster's settings,
    /// without defaults.
    pub fn first_of_cluster(&self) -> Vec<Shared> {
        let state = self.state();
        shared::first(&state.values, state.hash.as_ref())
    }

    /// Takes the cluster's settings: these, and the default of every other one. The first time, a warning names the
    /// settings whose values in file or command line differ.
    pub fn take<'a>(&self, settings: impl IntoIterator<Item = (&'a str, &'a [u8])>) {
        let mut state = self.state();
        let taken = shared::read(&state.values, settings);
        let named = shared::take_named(&mut state.named);
        let hashes = (state.hash, taken.hash);
        shared::say(&state.values, &taken.values, hashes, state.of_cluster, &named);
        let State { values, hash, host, .. } = &mut *state;
        let changed = shared::changed(values, &taken.values);
        let mut plan = Plan { values: taken.values, changed };
        let carried_out = match host {
            Some(host) => change::carry_out(values, &mut plan, host.as_mut()),
            None => Ok(Settings::of(&plan.values)),
        };
        let mut settings = carried_out.unwrap_or_else(|why| {
            let why = String::from_utf8_lossy(&why.text()).into_owned();
            tracing::warn!(cause = why, "a setting of the cluster has no effect here: {why}");
            Settings::of(&plan.values)
        });
        (*values, *hash) = (plan.values, taken.hash);
        settings.know(*hash);
        state.of_cluster = true;
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// The settings of a shard by which this node runs.
    pub fn of_shard(&self) -> Vec<Shared> {
        shared::of_shard(&self.state().values)
    }

    /// Takes the settings of the node's shard, as the metadata have them. A warning names those whose values in file or
    /// command line differ.
    ///
    /// # Errors
    ///
    /// One of them could not be put into effect; nothing is changed then.
    pub fn take_of_shard<'a>(&self, settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<(), SetError> {
        let mut state = self.state();
        let other = shared::other_of_shard(&state.values, settings);
        if other.is_empty() {
            return Ok(());
        }
        let State { values, hash, named, host, .. } = &mut *state;
        let mut plan = Plan { values: values.clone(), changed: Vec::new() };
        for (id, row, value) in other {
            plan.values.put(id, value);
            plan.changed.push((id, row));
        }
        let mut settings = match host {
            Some(host) => change::carry_out(values, &mut plan, host.as_mut())?,
            None => Settings::of(&plan.values),
        };
        for change in &plan.changed {
            shared::say_of_shard(values, &plan.values, *change, named.remove(&change.0));
        }
        *values = plan.values;
        settings.know(*hash);
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
        self.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// `CONFIG REWRITE`: brings the configuration file up to date. It reads and writes files, so it is not for the data
    /// path.
    ///
    /// `all` writes defaults, too (`DEBUG CONFIG-REWRITE-FORCE-ALL`). A `user` line stays only where the password is
    /// known by nothing else: beside `requirepass` it would hold at the next start, whatever was set since.
    ///
    /// # Errors
    ///
    /// The file is then unchanged.
    pub fn rewrite(&self, users: &[Vec<u8>], all: bool) -> Result<(), RewriteError> {
        let file = self.file.as_ref().ok_or(RewriteError::NoFile)?;
        let state = self.state();
        let old = match std::fs::read(file) {
            Ok(old) => old,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(RewriteError::Io(error)),
        };
        replace_file(file, &rewrite(&old, &state.values, Some(users), all, state.of_cluster)).map_err(RewriteError::Io)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Values are replaced as a whole, so a panic elsewhere cannot have left them half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One reader's snapshot of the settings, renewed when it asks.
#[derive(Clone, Debug)]
pub struct Follower {
    live: Arc<Live>,
    seen: u64,
    settings: Arc<Settings>,
}

impl Follower {
    /// Follows a configuration.
    pub fn new(live: Arc<Live>) -> Follower {
        let seen = live.generation();
        let settings = live.settings();
        Follower { live, seen, settings }
    }

    /// Takes over the changes since; returns whether there were any.
    pub fn refresh(&mut self) -> bool {
        let generation = self.live.generation();
        if generation == self.seen {
            return false;
        }
        self.seen = generation;
        self.settings = self.live.settings();
        true
    }

    /// The settings as of the last [`Follower::refresh`].
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// The configuration itself, to change it.
    pub fn live(&self) -> &Arc<Live> {
        &self.live
    }
}
