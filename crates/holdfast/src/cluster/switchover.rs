//! `holdfast cluster switchover`: a shard is given to a standby, and the command waits for what comes of it.

use std::thread;
use std::time::{Duration, Instant};

use super::upgrade::plan::troubles;
use super::upgrade::view::View;
use crate::client::{Connection, Target, explained};

/// The time between two looks at the cluster.
const LOOK: Duration = Duration::from_millis(100);

/// The owner has given a switchover up by then: it waits for ten seconds for the standby to come near, and then for about
/// four.
const LONGEST: Duration = Duration::from_secs(15);

/// The longest time that a node may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// Has a shard change hands. Returns the address of the new owner.
///
/// # Errors
/// It cannot begin, or the shard has not changed hands in time.
pub fn run(target: &Target, shard: u32, to: Option<&str>) -> Result<String, String> {
    let number = shard.to_string();
    let mut words: Vec<&[u8]> = vec![b"CLUSTER", b"SWITCHOVER", number.as_bytes()];
    words.extend(to.iter().flat_map(|to| [&b"TO"[..], to.as_bytes()]));
    let before = look(target).map(|view| owner_in(&view, shard));
    super::ask(target, &words)?;
    let before =
        before?.ok_or_else(|| format!("{target} does not tell who has shard {shard}, and what comes of it"))?;
    let end = now() + LONGEST;
    loop {
        thread::park_timeout(LOOK);
        let seen = look(target);
        let owner = seen.as_ref().ok().and_then(|view| owner_in(view, shard));
        if let Some(owner) = owner.filter(|owner| *owner != before) {
            return Ok(owner);
        }
        if now() >= end {
            return Err(stays(shard, &before, seen.map(|view| troubles(&view))));
        }
    }
}

/// The error of a shard that has not changed hands.
fn stays(shard: u32, owner: &str, seen: Result<Vec<String>, String>) -> String {
    let why = match seen {
        Ok(troubles) if troubles.is_empty() => format!("the log of {owner} says why"),
        Ok(troubles) => troubles.join("; "),
        Err(why) => format!("the cluster does not answer now ({why})"),
    };
    format!("shard {shard} is still at {owner}, {} seconds after it was to be given away: {why}", LONGEST.as_secs())
}

fn owner_in(view: &View, shard: u32) -> Option<String> {
    view.shards.iter().find(|known| known.number == shard).map(|known| known.owner.clone())
}

fn look(target: &Target) -> Result<View, String> {
    let text = super::text(Connection::open_within(target, ANSWER)?.call(&[b"CLUSTER", b"STATUS"])?, target);
    text.and_then(|text| View::read(&text)).map_err(explained)
}

#[expect(clippy::disallowed_methods, reason = "a command that waits for real time")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_why_a_shard_stays() {
        let at = "a:6379";
        let why = stays(2, at, Ok(vec!["nobody leads the metadata".to_owned()]));
        assert!(
            why.starts_with("shard 2 is still at a:6379, 15 seconds") && why.ends_with("nobody leads the metadata")
        );
        assert!(stays(2, at, Ok(Vec::new())).ends_with("the log of a:6379 says why"));
        assert!(stays(2, at, Err("refused".to_owned())).ends_with("the cluster does not answer now (refused)"));
    }
}
