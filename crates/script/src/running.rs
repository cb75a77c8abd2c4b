//! A script under way.

use crate::errors::Description;
use crate::lua::fiber::{Fiber, Stack};
use crate::lua::{Frame, Kind, Request, Resume};
use crate::{Error, Library, Machine, Source, reply};
use resp::{Args, Batch, Parts, Protocol, Reply};
use std::ffi::c_int;
use std::fmt;
use std::sync::Arc;

/// The host's input to a script.
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
    /// Ends the script, whatever its request, with this error (`Script killed by user with SCRIPT KILL...`; `ERR` is
    /// put in front). No `pcall` stops that. Further steps may come, which are to be answered with `Stop` again, but no
    /// calls.
    Stop(&'a str),
}

/// The answer to `redis.acl_check_cmd`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checked {
    /// The user may run the command.
    Allowed,
    /// The user may not.
    Denied,
    /// There is no such command.
    Unknown,
    /// The command takes another number of arguments.
    WrongArity,
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

/// The request of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Execute [`Running::args`], with the reply in this protocol.
    Call {
        /// The protocol that the script has chosen with `redis.setresp`; RESP2 at first.
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
        /// True if it is still to be counted in `INFO errorstats`: an error of a command that failed was counted then.
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

/// The name of a script in errors.
#[derive(Debug)]
enum Name {
    Sha([u8; 40]),
    Function(Box<str>),
}

impl Name {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Sha(sha) => sha,
            Self::Function(name) => name.as_bytes(),
        }
    }
}

/// A script under way; owns its machine. Dropped before it has ended, it is stopped, and the machine is gone.
pub struct Running {
    // Before the machine: it is dropped first.
    fiber: Option<Fiber>,
    machine: Option<Machine>,
    name: Name,
    /// Lua's status of a script that has ended.
    status: Option<c_int>,
    call: Batch,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("name", &self.name).field("status", &self.status).finish_non_exhaustive()
    }
}

impl Running {
    /// Starts a script with these `KEYS` and `ARGV`. The same `seed` gives the same numbers of `math.random`; Redis's
    /// is 0.
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
        let (reference, stack) = match machine.function(source).and_then(|f| Ok((f, machine.take_stack()?))) {
            Ok(prepared) => prepared,
            Err(error) => return Err(Box::new(Refused { machine, error })),
        };
        let globals = machine.globals;
        machine.state.set_globals(globals.eval);
        let mut frame = machine.state.frame();
        frame.push_reference(globals.eval_real);
        push_strings(&mut frame, keys);
        frame.set_field(-2, "KEYS");
        push_strings(&mut frame, argv);
        frame.set_field(-2, "ARGV");
        frame.truncate(0);
        frame.push_reference(globals.handler);
        frame.push_reference(reference);
        // A script may have given itself another environment.
        machine.state.set_environment(globals.eval);
        Ok(Self::start(machine, stack, 0, Name::Sha(*source.sha()), seed))
    }

    /// Starts a function of a library.
    ///
    /// # Errors
    /// If the machine cannot load the library.
    pub fn fcall<'a>(
        mut machine: Machine,
        library: &Arc<Library>,
        function: &str,
        keys: impl Iterator<Item = &'a [u8]>,
        argv: impl Iterator<Item = &'a [u8]>,
        seed: i32,
    ) -> Result<Self, Box<Refused>> {
        let prepared = machine.library_function(library, function).and_then(|f| Ok((f, machine.take_stack()?)));
        let (reference, stack) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Err(Box::new(Refused { machine, error })),
        };
        let globals = machine.globals;
        machine.state.set_globals(globals.function);
        let mut frame = machine.state.frame();
        frame.push_reference(globals.handler);
        frame.push_reference(reference);
        push_strings(&mut frame, keys);
        push_strings(&mut frame, argv);
        Ok(Self::start(machine, stack, 2, Name::Function(function.into()), seed))
    }

    /// Starts the function below so many arguments, with the handler at the bottom of the stack.
    fn start(mut machine: Machine, stack: Stack, arguments: c_int, name: Name, seed: i32) -> Self {
        machine.state.shared().reset(seed);
        // The batch of the last script, for its memory.
        let call = machine.state.shared().call.take();
        let fiber = machine.state.fiber(stack, arguments, 1);
        Self { fiber: Some(fiber), machine: Some(machine), name, status: None, call }
    }

    /// Goes on until the script wants something.
    pub fn step(&mut self, input: Input<'_>) -> Step {
        let (Some(fiber), Some(machine), None) = (&mut self.fiber, &self.machine, self.status) else {
            return Step::Done;
        };
        let shared = machine.state.shared();
        let resume = match input {
            Input::Start | Input::Continue => Resume::Continue,
            // Read before `resume` comes back, so the borrow is long enough.
            Input::Reply(bytes) => Resume::Reply(bytes),
            Input::Checked(checked) => Resume::Checked(checked),
            Input::Stop(text) => {
                shared.stop(text);
                Resume::Stop
            }
        };
        shared.call.set(std::mem::take(&mut self.call));
        match fiber.resume(shared, resume) {
            Ok(status) => {
                self.status = Some(status);
                Step::Done
            }
            Err(Request::Log(level, text)) => Step::Log { level, text },
            Err(Request::Slice) => Step::SliceOver,
            Err(Request::Call) => {
                self.call = shared.call.take();
                Step::Call { protocol: shared.protocol.get() }
            }
            Err(Request::Check) => {
                self.call = shared.call.take();
                Step::CheckCommand
            }
        }
    }

    /// The command that the last step, [`Step::Call`] or [`Step::CheckCommand`], is about.
    ///
    /// # Panics
    /// After any other step.
    pub fn args(&self) -> Args<'_> {
        self.call.args(0, &[])
    }

    /// Appends the script's reply in the client's `protocol` and gives the machine back. A script that has not ended is
    /// stopped.
    ///
    /// # Panics
    /// Never: the machine is there until this is called.
    pub fn finish(mut self, protocol: Protocol, out: &mut Vec<u8>) -> Finished {
        self.end();
        let mut machine = self.machine.take().expect("taken here only");
        machine.stack = self.fiber.take().and_then(Fiber::into_stack);
        if self.call.memory() > 0 {
            machine.state.shared().call.set(std::mem::take(&mut self.call));
        }
        let script = machine.state.shared().protocol.get();
        // Nothing is shared with Lua; the parts say whether there was memory for the reply.
        let (mut parts, start) = (Parts::default(), out.len());
        let mut reply = Reply::sharing(out, protocol, &mut parts);
        let mut frame = machine.state.frame();
        let outcome = match self.status {
            Some(0) => reply::write(&mut frame, script, &mut reply),
            _ => write_error(&mut frame, self.name.bytes(), &mut reply),
        };
        if parts.take_refused() {
            out.truncate(start);
            Reply::new(out, protocol).error(headroom::OOM);
        }
        machine.recover();
        Finished { machine, outcome }
    }

    /// Stops the script if it has not ended.
    fn end(&mut self) {
        for _ in 0..STOPS_MAX {
            if self.step(Input::Stop("the script was given up")) == Step::Done {
                return;
            }
        }
    }
}

/// Steps that a script that is stopped may take. It takes none: nothing suspends when a script is to end.
const STOPS_MAX: usize = 1_000;

impl Drop for Running {
    fn drop(&mut self) {
        if self.machine.is_none() {
            return;
        }
        self.end();
        if let Some(fiber) = self.fiber.take()
            && fiber.into_stack().is_none()
        {
            // Its frames are lost, so the state is in no order: neither is used again.
            std::mem::forget(self.machine.take());
        }
    }
}

/// Pushes an array of strings.
fn push_strings<'a>(frame: &mut Frame<'_>, strings: impl Iterator<Item = &'a [u8]>) {
    frame.push_table(strings.size_hint().0, 0);
    for (index, string) in (1..).zip(strings) {
        frame.push_bytes(string);
        frame.set_element(-2, index);
    }
}

/// Writes the error on top as the script's reply.
fn write_error(frame: &mut Frame<'_>, name: &[u8], reply: &mut Reply<'_>) -> Outcome {
    if frame.kind(-1) != Kind::Table {
        // Not even the handler could run.
        let text = frame.bytes(-1).unwrap_or(b"execution failure");
        let text = &text[..text.len().min(100)];
        reply.error([b"ERR Error running script ", name, b", ", text].concat());
        return Outcome::Error { count: true };
    }
    let error = Description::of(frame);
    let mut text = error.text;
    if let Some((source, line)) = error.place {
        text.extend_from_slice(&[b" script: ", name, b", on ", &source[..], b":", &line[..], b"."].concat());
    }
    reply.error(&text);
    Outcome::Error { count: !error.counted }
}
