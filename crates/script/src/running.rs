//! A script under way.

use crate::{Error, Library, Machine, Source};
use resp::{Args, Batch, Protocol};
use std::sync::Arc;

/// What the host gives a script.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// The first input.
    Start,
    /// Answers [`Step::Call`]: one reply in the protocol asked for.
    Reply(&'a [u8]),
    /// Answers [`Step::CheckCommand`].
    Checked(Checked),
    /// Answers [`Step::SliceOver`] and [`Step::Log`].
    Continue,
    /// Ends the script, whatever was asked, with this error (`Script killed by user with SCRIPT KILL...`; `ERR` is put in front). No
    /// `pcall` holds it up, so steps may still come, which are to be answered with `Stop` again, but no calls.
    Stop(&'a str),
}

/// What `redis.acl_check_cmd` is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checked {
    /// The user may run the command.
    Allowed,
    /// The user may not.
    Denied,
    /// There is no such command.
    Unknown,
}

/// Levels of `redis.log`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// `redis.LOG_DEBUG`
    Debug,
    /// `redis.LOG_VERBOSE`
    Verbose,
    /// `redis.LOG_NOTICE`
    Notice,
    /// `redis.LOG_WARNING`
    Warning,
}

/// What a script wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Execute [`Running::args`], with the reply in this protocol.
    Call {
        /// What the script has chosen with `redis.setresp`; RESP2 at first.
        protocol: Protocol,
    },
    /// Write a line to the log.
    Log {
        /// How important it is.
        level: LogLevel,
        /// The line.
        text: Vec<u8>,
    },
    /// Say whether the user may run [`Running::args`].
    CheckCommand,
    /// Nothing: the script has run for a while.
    SliceOver,
    /// Nothing more: [`Running::finish`].
    Done,
}

/// How a script ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// With a value.
    Value,
    /// With an error, or by returning one.
    Error {
        /// Whether it is still to be counted in `INFO errorstats`: an error of a command that failed has been counted then.
        count: bool,
    },
}

/// A script that has ended.
#[derive(Debug)]
pub struct Finished {
    /// The machine, for the next script.
    pub machine: Machine,
    /// How it ended.
    pub outcome: Outcome,
}

/// A script that could not be started, and the machine back.
#[derive(Debug)]
pub struct Refused {
    /// The machine, for the next script.
    pub machine: Machine,
    /// Why.
    pub error: Error,
}

/// A script under way; owns its machine.
#[derive(Debug)]
pub struct Running {
    machine: Machine,
    call: Batch,
}

impl Running {
    /// Starts a script with these `KEYS` and `ARGV`. The same `seed` gives the same numbers of `math.random`; Redis's is 0.
    ///
    /// # Errors
    /// If it does not compile.
    pub fn eval<'a>(
        mut machine: Machine,
        source: &Source,
        keys: impl Iterator<Item = &'a [u8]>,
        argv: impl Iterator<Item = &'a [u8]>,
        seed: i32,
    ) -> Result<Self, Box<Refused>> {
        let _ = (keys.count(), argv.count(), seed);
        match machine.compile(source) {
            Ok(()) => Ok(Self { machine, call: Batch::new() }),
            Err(error) => Err(Box::new(Refused { machine, error })),
        }
    }

    /// Starts a function of a library.
    ///
    /// # Errors
    /// If the machine cannot load the library.
    pub fn fcall<'a>(
        machine: Machine,
        library: &Arc<Library>,
        function: &str,
        keys: impl Iterator<Item = &'a [u8]>,
        argv: impl Iterator<Item = &'a [u8]>,
        seed: i32,
    ) -> Result<Self, Box<Refused>> {
        let _ = (library, function, keys.count(), argv.count(), seed);
        Ok(Self { machine, call: Batch::new() })
    }

    /// Goes on until the script wants something.
    pub fn step(&mut self, input: Input<'_>) -> Step {
        let _ = input;
        Step::Done
    }

    /// The command that [`Step::Call`] and [`Step::CheckCommand`] are about.
    ///
    /// # Panics
    /// If nothing else was ever asked.
    pub fn args(&self) -> Args<'_> {
        self.call.args(0, &[])
    }

    /// Appends the script's reply in the client's `protocol` and gives the machine back. A script that has not ended is stopped.
    pub fn finish(self, protocol: Protocol, out: &mut Vec<u8>) -> Finished {
        resp::Reply::new(out, protocol).null();
        Finished { machine: self.machine, outcome: Outcome::Value }
    }
}
