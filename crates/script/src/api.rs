//! The table `redis`, and Redis's `math.random`.

use crate::lua::{Frame, Kind, Raised, Request, Resume};
use crate::random::Random;
use crate::reply::{Pushed, into_lua};
use crate::{Checked, LogLevel, errors, load};
use object::sha1;
use resp::Protocol;
use smallvec::SmallVec;
use std::ffi::c_int;

/// The version of Redis whose commands and behaviour are offered: scripts and clients see it.
pub const REDIS_VERSION: &str = "8.8.0";
const VERSION_NUM: f64 = 0x0008_0800 as f64;

/// The API that a piece of code has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Set {
    /// `EVAL`'s.
    Eval,
    /// Functions'.
    Function,
    /// That of a library being loaded.
    Load,
}

/// Pushes the table `redis`.
pub(crate) fn push(f: &mut Frame<'_>, set: Set) {
    f.push_table(0, 32);
    let constant = |f: &mut Frame<'_>, name: &str, value: f64| {
        f.push_number(value);
        f.set_field(-2, name);
    };
    f.push_native(log);
    f.set_field(-2, "log");
    for (level, name) in ["LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"].into_iter().enumerate() {
        constant(f, name, level as f64);
    }
    f.push_bytes(REDIS_VERSION);
    f.set_field(-2, "REDIS_VERSION");
    constant(f, "REDIS_VERSION_NUM", VERSION_NUM);
    if set == Set::Load {
        f.push_native(load::register_function);
        f.set_field(-2, "register_function");
        return;
    }
    f.push_native(|f: &mut Frame<'_>| call(f, true));
    f.set_field(-2, "call");
    f.push_native(|f: &mut Frame<'_>| call(f, false));
    f.set_field(-2, "pcall");
    f.push_native(set_resp);
    f.set_field(-2, "setresp");
    f.push_native(sha1_hex);
    f.set_field(-2, "sha1hex");
    f.push_native(error_reply);
    f.set_field(-2, "error_reply");
    f.push_native(status_reply);
    f.set_field(-2, "status_reply");
    f.push_native(set_repl);
    f.set_field(-2, "set_repl");
    for (name, value) in
        [("REPL_NONE", 0.0), ("REPL_AOF", 1.0), ("REPL_SLAVE", 2.0), ("REPL_REPLICA", 2.0), ("REPL_ALL", 3.0)]
    {
        constant(f, name, value);
    }
    f.push_native(check_command);
    f.set_field(-2, "acl_check_cmd");
    if set == Set::Eval {
        f.push_native(breakpoint);
        f.set_field(-2, "breakpoint");
        f.push_native(debug);
        f.set_field(-2, "debug");
        f.push_native(replicate_commands);
        f.set_field(-2, "replicate_commands");
    }
}

/// Where a command's argument is.
enum Part<'a> {
    Text(&'a [u8]),
    /// A number, printed up to here.
    Number(usize),
}

/// Puts the arguments into [`crate::lua::Shared::call`].
fn gather(f: &mut Frame<'_>) -> Result<(), &'static str> {
    if f.args() == 0 {
        return Err("Please specify at least one argument for this redis lib call");
    }
    let shared = f.shared();
    let mut parts = SmallVec::<[Part<'_>; 16]>::new();
    let mut numbers = shared.buffer();
    for at in 1..=f.args() {
        match f.kind(at) {
            Kind::Number => {
                // Not as Lua prints it: that loses digits.
                match f.number(at).unwrap_or(0.0) {
                    0.0 => numbers.push(b'0'),
                    number => resp::append_double(&mut numbers, number),
                }
                parts.push(Part::Number(numbers.len()));
            }
            Kind::String => parts.push(Part::Text(f.arg(at).unwrap_or_default())),
            _ => {
                shared.give_back(numbers);
                return Err("Lua redis lib command arguments must be strings or integers");
            }
        }
    }
    let mut call = shared.call.take();
    call.clear();
    let mut start = 0;
    let pushed = call.push_copy(parts.iter().map(|part| match part {
        Part::Text(text) => *text,
        Part::Number(end) => &numbers[std::mem::replace(&mut start, *end)..*end],
    }));
    shared.call.set(call);
    shared.give_back(numbers);
    if pushed { Ok(()) } else { Err("The arguments of the redis lib call are too long") }
}

/// Arguments beside which there may not be enough room for a reply on Lua's stack, which 8000 values fill.
const MANY: c_int = 4000;

/// `redis.call` raises the error of a command, `redis.pcall` returns it.
fn call(f: &mut Frame<'_>, raise: bool) -> Result<c_int, Raised> {
    if let Err(text) = gather(f) {
        errors::push(f, text.as_bytes());
        return if raise { Err(Raised) } else { Ok(1) };
    }
    if f.args() > MANY {
        // They would leave the reply no room on the stack.
        f.pack_args();
    }
    match f.call(into_lua)? {
        Some(Pushed::Value) => Ok(1),
        Some(Pushed::Error) if !raise => Ok(1),
        Some(Pushed::Error) => Err(Raised),
        Some(Pushed::Malformed) | None => Err(errors::raise(f, "malformed reply to a redis lib call")),
    }
}

fn check_command(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    if let Err(text) = gather(f) {
        return Err(errors::raise(f, text));
    }
    match f.ask(Request::Check)? {
        Resume::Checked(Checked::Allowed) => f.push_boolean(true),
        Resume::Checked(Checked::Denied) => f.push_boolean(false),
        Resume::Checked(Checked::WrongArity) => {
            return Err(errors::raise(f, "Wrong number of args for redis.acl_check_cmd()"));
        }
        _ => return Err(errors::raise(f, "Invalid command passed to redis.acl_check_cmd()")),
    }
    Ok(1)
}

fn sha1_hex(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    if f.args() != 1 {
        return Err(errors::raise(f, "wrong number of arguments"));
    }
    // Redis hashes nothing for a value that is no string.
    let text = f.arg(1).unwrap_or_default();
    f.charge(text.len() / 8)?;
    f.push_bytes(sha1::hex(text));
    Ok(1)
}

/// The argument of `error_reply` and `status_reply`; pushes an error object if it is none.
fn only_string<'a>(f: &mut Frame<'a>) -> Option<&'a [u8]> {
    if f.args() == 1 && f.kind(1) == Kind::String {
        return f.arg(1);
    }
    errors::push(f, b"wrong number or type of arguments");
    None
}

fn error_reply(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    if let Some(text) = only_string(f) {
        let text = text.strip_prefix(b"-").unwrap_or(text);
        errors::push(f, &[b"-", text].concat());
    }
    Ok(1)
}

fn status_reply(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    if let Some(text) = only_string(f) {
        f.push_table(0, 1);
        f.push_bytes(text);
        f.set_field(-2, "ok");
    }
    Ok(1)
}

/// Checks its argument. The effects of a script are always replicated, not its text.
fn set_repl(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    if f.args() != 1 {
        return Err(errors::raise(f, "redis.set_repl() requires one argument."));
    }
    let flags = f.number(1).unwrap_or(0.0) as i64;
    if flags & !3 != 0 {
        let text = "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
        return Err(errors::raise(f, text));
    }
    Ok(0)
}

fn set_resp(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    if f.args() != 1 {
        return Err(errors::raise(f, "redis.setresp() requires one argument."));
    }
    let protocol = match f.number(1).unwrap_or(0.0) as i64 {
        2 => Protocol::Resp2,
        3 => Protocol::Resp3,
        _ => return Err(errors::raise(f, "RESP version must be 2 or 3.")),
    };
    f.shared().protocol.set(protocol);
    Ok(0)
}

fn log(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    if f.args() < 2 {
        return Err(errors::raise(f, "redis.log() requires two arguments or more."));
    }
    let Some(level) = f.number(1) else {
        return Err(errors::raise(f, "First argument must be a number (log level)."));
    };
    let level = match level as i64 {
        0 => LogLevel::Debug,
        1 => LogLevel::Verbose,
        2 => LogLevel::Notice,
        3 => LogLevel::Warning,
        _ => return Err(errors::raise(f, "Invalid log level.")),
    };
    let mut line = Vec::new();
    for at in 2..=f.args() {
        if let Some(text) = f.arg(at) {
            if at != 2 {
                line.push(b' ');
            }
            line.extend_from_slice(text);
        }
    }
    f.ask(Request::Log(level, line))?;
    Ok(0)
}

/// There is no debugger.
fn breakpoint(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    f.push_boolean(false);
    Ok(1)
}

fn debug(_: &mut Frame<'_>) -> Result<c_int, Raised> {
    Ok(0)
}

fn replicate_commands(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    f.push_boolean(true);
    Ok(1)
}

/// `math.random`.
pub(crate) fn random(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    let mut generator = f.shared().random.get();
    let fraction = generator.fraction();
    f.shared().random.set(generator);
    // As C converts: to 32 bits, wrapping.
    let number = match f.args() {
        0 => fraction,
        1 => {
            let upper = f.check_integer(1)? as i32;
            if upper < 1 {
                return Err(f.bad_argument(1, "interval is empty"));
            }
            (fraction * f64::from(upper)).floor() + 1.0
        }
        2 => {
            let (lower, upper) = (f.check_integer(1)? as i32, f.check_integer(2)? as i32);
            if lower > upper {
                return Err(f.bad_argument(2, "interval is empty"));
            }
            let width = upper.wrapping_sub(lower).wrapping_add(1);
            (fraction * f64::from(width)).floor() + f64::from(lower)
        }
        _ => return Err(f.raise("wrong number of arguments")),
    };
    f.push_number(number);
    Ok(1)
}

/// `math.randomseed`.
pub(crate) fn random_seed(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    let seed = f.check_integer(1)? as i32;
    f.shared().random.set(Random::seeded(seed));
    Ok(0)
}
