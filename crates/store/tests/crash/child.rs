//! The process that is killed: this test program again, with its task in the environment.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use store::{Error, Store};

use super::history::{batch, is_flushed, mark};
use super::support::{open, small};

const FOLDER: &str = "STORE_CHILD_FOLDER";
const SEED: &str = "STORE_CHILD_SEED";
const FLAW: &str = "STORE_CHILD_FLAW";

/// Batches after which the child ends by itself.
const BATCHES: u64 = 600;

/// The flaw of the child, so that the suite can show that it notices it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    Nothing,
    /// Reports a flush before it has flushed.
    Early,
    /// Flushes in the middle of a batch.
    Torn,
}

/// Starts the child in `folder`; `through` is a program that runs it, with its arguments.
pub fn start(folder: &Path, seed: u64, flaw: Flaw, through: &[&str]) -> Child {
    let program = std::env::current_exe().expect("a path");
    let mut command = match through {
        [] => Command::new(program),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    };
    command
        .args(["--exact", "the_process_that_is_killed", "--ignored", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .env(SEED, seed.to_string())
        .env(FLAW, format!("{flaw:?}"))
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command.spawn().expect("a child")
}

/// Kills the child, and the processes that it runs.
pub fn kill(child: &Child) {
    let group = format!("-{}", child.id());
    let killed = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
    killed.expect("the program kill");
}

/// The child's reports, read as they come.
pub struct Told(BufReader<ChildStdout>);

impl Told {
    pub fn by(child: &mut Child) -> Self {
        Self(BufReader::new(child.stdout.take().expect("a pipe")))
    }

    /// The next line that is ours: a batch that is flushed, or an error. `None` when it has ended.
    pub fn next(&mut self) -> Option<Result<u64, String>> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).ok()? == 0 || !line.ends_with('\n') {
                return None;
            }
            match line.trim_end().split_once(' ') {
                Some(("FLUSHED", number)) => return Some(Ok(number.parse().expect("a number"))),
                Some(("FAILED", why)) => return Some(Err(why.to_owned())),
                _ => {}
            }
        }
    }
}

fn tell(what: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(format!("{what}\n").as_bytes());
    let _ = out.flush();
}

/// The child's work: goes on where the store is.
pub fn work() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let seed: u64 = std::env::var(SEED).expect("a seed").parse().expect("a number");
    let flaw = std::env::var(FLAW).expect("a flaw");
    let store = open(Path::new(&folder), &small());
    let start = mark(&store).expect("a mark");
    for number in start + 1..=start + BATCHES {
        let outcome = one(&store, seed, number, &flaw);
        if let Err(error) = outcome {
            tell(&format!("FAILED {error}"));
            // An error that is final stays; others are tried once more.
            let again = one(&store, seed, number, &flaw);
            match (&error, again) {
                (Error::NoSpace(_), Ok(())) => {}
                (_, Err(error)) => return tell(&format!("FAILED {error}")),
                (_, Ok(())) => return tell("FAILED not at all, the second time"),
            }
        }
    }
}

fn one(store: &dyn Store, seed: u64, number: u64, flaw: &str) -> Result<(), Error> {
    store.write(&batch(seed, number))?;
    if is_flushed(seed, number) {
        if flaw == "Early" {
            tell(&format!("FLUSHED {number}"));
        }
        store.flush()?;
        tell(&format!("FLUSHED {number}"));
    } else if flaw == "Torn" && number.is_multiple_of(3) {
        store.flush()?;
    }
    Ok(())
}
