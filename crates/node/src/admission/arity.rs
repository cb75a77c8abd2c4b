//! Whether there is such a command, and whether it takes so many arguments.

use command::Spec;
use resp::Args;

/// Most bytes of a client's words that an error repeats, as in Redis.
const ECHO_MAX: usize = 128;

/// What a script hears whose command takes another number of arguments.
pub(crate) const FROM_SCRIPT: &[u8] = b"ERR Wrong number of args calling Redis command from script";
/// What a part of a transaction hears, as its coordinator has checked that.
pub(crate) const IN_PART: &str = "ERR a node of the cluster has other settings";
/// What a part hears of a command that this node does not have.
pub(crate) const UNKNOWN_IN_PART: &str = "ERR a node of the cluster lacks a command";
const UNKNOWN_FROM_SCRIPT: &[u8] = b"ERR Unknown Redis command called from script";

/// Whether a command takes other numbers of arguments. `words`: how many there are, its name among them.
#[inline]
pub(crate) fn is_wrong(spec: &Spec, words: usize) -> bool {
    !spec.accepts(words)
}

/// What a client hears whose command takes another number of arguments.
#[cold]
pub(crate) fn wrong(name: &str) -> Vec<u8> {
    format!("ERR wrong number of arguments for '{name}' command").into()
}

/// What a client hears of a command that does not exist: its name, and the beginning of its arguments.
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

/// What a client hears of a subcommand that does not exist. `guarded`: the container is DEBUG, which takes its subcommands
/// apart itself, and words this differently.
#[cold]
pub(crate) fn unknown_subcommand(container: &str, guarded: bool, name: &[u8]) -> Vec<u8> {
    let name = &name[..name.len().min(ECHO_MAX)];
    let what = if guarded { " or wrong number of arguments for" } else { "" };
    let hint = format!("'. Try {} HELP.", container.to_uppercase());
    [b"ERR unknown subcommand", what.as_bytes(), b" '", name, hint.as_bytes()].concat()
}

/// What a script hears of a command that does not exist. `why`: what Redis has under that name, and why it is not here.
#[cold]
pub(crate) fn unknown_from_script(why: Option<String>) -> Vec<u8> {
    match why {
        Some(text) => format!("{}: {}", super::state::NOT_FROM_SCRIPT, text.trim_start_matches("ERR ")).into(),
        None => UNKNOWN_FROM_SCRIPT.into(),
    }
}
