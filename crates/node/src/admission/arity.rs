//! Checks that a command exists, and that it takes so many arguments.

use command::Spec;
use resp::Args;

/// Most bytes of a client's words that an error repeats, as in Redis.
const ECHO_MAX: usize = 128;

/// The error for a script whose command takes another number of arguments.
pub(crate) const FROM_SCRIPT: &[u8] = b"ERR Wrong number of args calling Redis command from script";
/// The error for a part of a transaction: its coordinator has checked the arity.
pub(crate) const IN_PART: &str = "ERR a node of the cluster has other settings";
/// The error for a part with a command that this node does not have.
pub(crate) const UNKNOWN_IN_PART: &str = "ERR a node of the cluster lacks a command";
const UNKNOWN_FROM_SCRIPT: &[u8] = b"ERR Unknown Redis command called from script";

/// True if a command takes other numbers of arguments. `words`: how many there are, the name included.
#[inline]
pub(crate) fn is_wrong(spec: &Spec, words: usize) -> bool {
    !spec.accepts(words)
}

/// The error for a client whose command takes another number of arguments.
#[cold]
pub(crate) fn wrong(name: &str) -> Vec<u8> {
    format!("ERR wrong number of arguments for '{name}' command").into()
}

/// The error for a command that does not exist: its name, and the beginning of its arguments.
#[cold]
pub(crate) fn unknown(args: Args<'_>) -> Vec<u8> {
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(&args[0][..args[0].len().min(ECHO_MAX)]);
    text.extend_from_slice(b"', with args beginning with: ");
    let start = text.len();
    for arg in args.iter().skip(1) {
        let so_far = text.len() - start;
        if so_far >= ECHO_MAX {
            break;
        }
        text.push(b'\'');
        text.extend_from_slice(&arg[..arg.len().min(ECHO_MAX - (so_far + 1).min(ECHO_MAX))]);
        text.extend_from_slice(b"' ");
    }
    text
}

/// The error for a subcommand that does not exist. `guarded`: the container is DEBUG, which has its own text.
#[cold]
pub(crate) fn unknown_subcommand(container: &str, guarded: bool, name: &[u8]) -> Vec<u8> {
    let name = &name[..name.len().min(ECHO_MAX)];
    let what = if guarded { " or wrong number of arguments for" } else { "" };
    let hint = format!("'. Try {} HELP.", container.to_uppercase());
    [b"ERR unknown subcommand", what.as_bytes(), b" '", name, hint.as_bytes()].concat()
}

/// The error for a script whose command does not exist. `why`: what Redis has under that name, and why it is missing
/// here.
#[cold]
pub(crate) fn unknown_from_script(why: Option<String>) -> Vec<u8> {
    match why {
        Some(text) => format!("{}: {}", super::state::NOT_FROM_SCRIPT, text.trim_start_matches("ERR ")).into(),
        None => UNKNOWN_FROM_SCRIPT.into(),
    }
}
