//! `CONFIG SET`: several settings at once, all or none.

use std::fmt;

use super::kind::Value;
use super::row::Row;
use super::settings::Settings;
use super::slot_stats;
use super::table::{self, Id};
use super::values::{Values, words_of};

/// The reason why `CONFIG SET` changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetError {
    /// No value behind the last name.
    Syntax,
    /// No setting of this name.
    Unknown(Vec<u8>),
    /// Data is loading.
    Loading,
    /// A value is refused, or could not be put into effect.
    Failed {
        /// The setting.
        name: Vec<u8>,
        /// The reason, in Redis's words where Redis has some.
        why: String,
    },
}

impl SetError {
    /// The reply, code word included.
    pub fn text(&self) -> Vec<u8> {
        match self {
            SetError::Syntax => b"ERR syntax error".to_vec(),
            SetError::Unknown(name) => {
                [b"ERR Unknown option or number of arguments for CONFIG SET - '", name.as_slice(), b"'"].concat()
            }
            SetError::Loading => b"LOADING Redis is loading the dataset in memory".to_vec(),
            SetError::Failed { name, why } => {
                let head = b"ERR CONFIG SET failed (possibly related to argument '";
                [head, name.as_slice(), b"') - ", why.as_bytes()].concat()
            }
        }
    }
}

/// The rights of a client that changes a setting.
#[derive(Clone, Copy, Debug)]
pub struct Rights {
    /// True if this client may change protected settings (`enable-protected-configs`, which may ask for a client on
    /// this machine).
    pub protected: bool,
    /// True if data is loading.
    pub loading: bool,
}

/// The parts of the process that must agree with the values: sockets, the working directory, limits of the process.
pub trait Host: fmt::Debug {
    /// Makes a directory the working one, and returns its absolute path.
    ///
    /// # Errors
    ///
    /// The system's error.
    fn enter_dir(&mut self, path: &[u8]) -> Result<Vec<u8>, String>;

    /// Puts a changed setting into effect. It is called with the old settings again to take the change back.
    ///
    /// # Errors
    ///
    /// The reason, in Redis's words where Redis has some. The whole `CONFIG SET` is then undone.
    fn apply(&mut self, row: &'static Row, settings: &Settings) -> Result<(), String>;
}

/// A change that was checked, and is not in effect yet.
#[derive(Debug)]
pub(super) struct Plan {
    /// All values after it.
    pub values: Values,
    /// The differences to the values before, in the order of the command.
    pub changed: Vec<(Id, &'static Row)>,
}

/// Checks names, rights and values of the arguments behind `CONFIG SET`.
pub(super) fn plan(values: &Values, args: &[&[u8]], rights: Rights) -> Result<Plan, SetError> {
    if args.is_empty() || !args.len().is_multiple_of(2) {
        return Err(SetError::Syntax);
    }
    let pairs: Vec<_> = args.chunks_exact(2).filter_map(|pair| Some((*pair.first()?, *pair.get(1)?))).collect();
    let mut chosen: Vec<(Id, &'static Row, &[u8])> = Vec::with_capacity(pairs.len());
    for (name, text) in pairs {
        let failed = |why: &str| Err(SetError::Failed { name: name.to_vec(), why: why.to_owned() });
        let Some((id, row)) = table::find(name) else {
            return Err(SetError::Unknown(name.to_vec()));
        };
        // Scripts that set everything that CONFIG GET shows know which of Redis's settings to leave out, but not those
        // of this server.
        let same = row.own && values.show(id, row) == text;
        if row.immutable && !same {
            return failed("can't set immutable config");
        }
        if row.protected && !rights.protected {
            return failed("can't set protected config");
        }
        if row.deny_loading && rights.loading {
            return Err(SetError::Loading);
        }
        if chosen.iter().any(|(earlier, ..)| *earlier == id) {
            return failed("duplicate parameter");
        }
        chosen.push((id, row, text));
    }
    let mut plan = Plan { values: values.clone(), changed: Vec::new() };
    for (id, row, text) in chosen {
        let failed = |why: String| SetError::Failed { name: row.name.into(), why };
        let value = plan.values.read(id, row, &words_of(row.kind, text)).map_err(|why| failed(why.into_owned()))?;
        if let Some(reason) = Values::refusal(row, &value) {
            return Err(failed(reason.to_owned()));
        }
        if row.name == slot_stats::NAME
            && let Some(reason) = slot_stats::refusal(values.get(id), &value)
        {
            return Err(failed(reason.to_owned()));
        }
        if *values.get(id) != value {
            plan.changed.push((id, row));
            plan.values.put(id, value);
        }
    }
    Ok(plan)
}

/// Puts a plan into effect outside, or takes everything back. The working directory becomes absolute in `plan`.
pub(super) fn carry_out(old: &Values, plan: &mut Plan, host: &mut dyn Host) -> Result<Settings, SetError> {
    let mut done: Vec<(Id, &'static Row)> = Vec::new();
    let outcome = enter(plan, host).and_then(|()| {
        let settings = Settings::of(&plan.values);
        for (id, row) in &plan.changed {
            done.push((*id, row));
            host.apply(row, &settings).map_err(|why| SetError::Failed { name: row.name.into(), why })?;
        }
        Ok(settings)
    });
    if outcome.is_err() {
        take_back(old, &done, &plan.changed, host);
    }
    outcome
}

/// Enters the new working directory, if it changes.
fn enter(plan: &mut Plan, host: &mut dyn Host) -> Result<(), SetError> {
    let Some((id, _)) = plan.changed.iter().find(|(_, row)| row.name == "dir") else {
        return Ok(());
    };
    if let Value::Text(path) = plan.values.get(*id) {
        let entered = host.enter_dir(path).map_err(|why| SetError::Failed { name: b"dir".to_vec(), why })?;
        plan.values.put(*id, Value::Text(entered));
    }
    Ok(())
}

fn take_back(old: &Values, done: &[(Id, &'static Row)], changed: &[(Id, &'static Row)], host: &mut dyn Host) {
    let settings = Settings::of(old);
    for (_, row) in done.iter().rev() {
        if let Err(why) = host.apply(row, &settings) {
            tracing::warn!("could not take back '{}' after a failed CONFIG SET: {why}", row.name);
        }
    }
    if changed.iter().any(|(_, row)| row.name == "dir")
        && let Err(why) = host.enter_dir(&settings.dir)
    {
        tracing::warn!("could not go back to the directory after a failed CONFIG SET: {why}");
    }
}

#[cfg(test)]
mod tests;
