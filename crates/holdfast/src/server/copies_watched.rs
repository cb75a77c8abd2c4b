//! The copies of this node's log, as INFO and the cluster's status show them, and log lines about them.

use std::collections::BTreeMap;
use std::sync::Arc;

use loggroup::{Contact, CopyShown, Driver, Stage};
use membership::control::{CopyReport, CopyState};
use membership::{AcceptorId, Map};
use node::cluster::place_of_copy;
use node::{CopiesOfLog, CopyOfLog, CountCopies, Having, LookAtCopies, Node};

/// Looks in a row that must find a copy in another state before a line tells it: one that comes and goes within seconds
/// fills no log.
const LOOKS: u32 = 2;

/// The copies of a log, with the names of their places.
fn seen(copies: &Driver, map: &Map) -> CopiesOfLog {
    let shown = copies.shown();
    let of = |copy: CopyShown| CopyOfLog {
        place: place_of_copy(map, shown.shard, copy.acceptor),
        is_own: copy.is_own,
        report: CopyReport {
            id: copy.acceptor,
            counts: copy.counts,
            state: match copy.contact {
                Contact::Follows => CopyState::Follows,
                Contact::Silent => CopyState::Silent,
                Contact::Full => CopyState::Full,
                Contact::Failed => CopyState::Failed,
                Contact::SetBack => CopyState::SetBack,
            },
            blocks: copy.blocks,
            bytes: copy.bytes,
        },
        sent: copy.sent,
        trouble: copy.trouble,
    };
    CopiesOfLog {
        shard: shown.shard,
        term: shown.term,
        leads: shown.stage == Stage::Leading,
        uncommitted_bytes: shown.uncommitted_bytes,
        copies: shown.copies.into_iter().map(of).collect(),
    }
}

/// Shows the copies of a node's log for as long as both are there.
pub fn look(copies: &Arc<Driver>, node: &Arc<Node>) -> LookAtCopies {
    let (copies, node) = (Arc::downgrade(copies), Arc::downgrade(node));
    Box::new(move || {
        let (copies, node) = (copies.upgrade()?, node.upgrade()?);
        Some(seen(&copies, &node.cluster()?.map()))
    })
}

/// Counts the copies of a log that have something, for as long as it is there.
pub fn count(copies: &Arc<Driver>) -> CountCopies {
    let copies = Arc::downgrade(copies);
    Box::new(move |ends| {
        let having = copies.upgrade().map_or_else(loggroup::Having::default, |copies| copies.having(ends));
        Having { received: having.written, synced: having.synced, all: having.all }
    })
}

/// A line for the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum News {
    Good(String),
    Bad(String),
}

impl News {
    /// Logs it.
    pub fn tell(&self) {
        match self {
            News::Good(text) => tracing::info!("{text}"),
            News::Bad(text) => tracing::warn!("{text}"),
        }
    }
}

/// A copy as the last line about it said.
struct Told {
    place: String,
    state: CopyState,
    counts: bool,
    /// Looks in a row that have found another state.
    others: u32,
}

/// The lines that were told of a log's copies.
#[derive(Default)]
pub struct Watch(BTreeMap<AcceptorId, Told>);

impl Watch {
    /// Looks at the copies: about once a second. Returns what is new.
    pub fn look(&mut self, now: &CopiesOfLog) -> Vec<News> {
        let (shard, mut news) = (now.shard.0, Vec::new());
        let (answering, counting) = (now.answering(), now.counting());
        self.0.retain(|id, told| {
            let stays = now.copies.iter().any(|copy| copy.report.id == *id);
            if !stays {
                news.push(News::Good(format!("The copy of the log of shard {shard} at {} is given up", told.place)));
            }
            stays
        });
        // The node tells of its own log itself.
        for copy in now.copies.iter().filter(|copy| !copy.is_own) {
            let CopyReport { id, counts, state, .. } = copy.report;
            let is_new = !self.0.contains_key(&id);
            let told = self.0.entry(id).or_insert_with(|| Told {
                place: copy.place.clone(),
                state: CopyState::Follows,
                counts,
                others: 0,
            });
            told.place.clone_from(&copy.place);
            if is_new && !counts {
                news.push(News::Good(format!("A copy of the log of shard {shard} is brought up at {}", copy.place)));
            }
            if counts != told.counts {
                told.counts = counts;
                let does = if counts { "counts now" } else { "does not count any more" };
                news.push(News::Good(format!("The copy of the log of shard {shard} at {} {does}", copy.place)));
            }
            // One that is brought up is missed by nobody yet.
            told.others = if state == told.state || !counts { 0 } else { told.others + 1 };
            if told.others < LOOKS {
                continue;
            }
            (told.state, told.others) = (state, 0);
            let left = format!("{answering} of {counting} copies answer");
            news.push(match state {
                CopyState::Follows => News::Good(format!(
                    "The copy of the log of shard {shard} at {} answers again, and is brought up: {left}",
                    copy.place
                )),
                CopyState::Full => News::Bad(format!("A copy of the log of shard {shard} takes nothing until there is room: {}: {left}", copy.text())),
                CopyState::Silent => News::Bad(format!("A copy of the log of shard {shard} is lost: {}: {left}", copy.text())),
                CopyState::Failed => News::Bad(format!(
                    "A copy of the log of shard {shard} is lost: {}, and takes nothing until its place is replaced: {left}",
                    copy.text()
                )),
                CopyState::SetBack => News::Bad(format!(
                    "A copy of the log of shard {shard} does not count any more: {}: it lacks blocks that it had acknowledged. \
                     Give it an empty directory, and replace its place (`holdfast cluster group replace {} {}`): {left}",
                    copy.text(),
                    copy.place,
                    copy.place
                )),
            });
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use membership::{ShardId, Term};

    use super::*;

    fn copies(of: &[(u8, CopyState, bool)]) -> CopiesOfLog {
        let copy = |(n, state, counts): &(u8, CopyState, bool)| CopyOfLog {
            place: format!("h{n}:1/-"),
            is_own: *n == 1,
            report: CopyReport { id: AcceptorId([*n; 16]), counts: *counts, state: *state, blocks: 1, bytes: 2048 },
            sent: 0,
            trouble: (*state == CopyState::Silent).then(|| "Connection refused".to_owned()),
        };
        let (shard, copies) = (ShardId(3), of.iter().map(copy).collect());
        CopiesOfLog { shard, term: Term::ZERO, leads: true, uncommitted_bytes: 0, copies }
    }

    #[test]
    fn a_change_is_told_once() {
        use CopyState::{Failed, Follows, SetBack, Silent};
        let well = copies(&[(1, Follows, true), (2, Follows, true), (3, Follows, true)]);
        let lost = copies(&[(1, Follows, true), (2, Silent, true), (3, Follows, true)]);
        let mut watch = Watch::default();
        assert!(watch.look(&well).is_empty() && watch.look(&well).is_empty());
        for _ in 0..3 {
            assert!(watch.look(&lost).is_empty() && watch.look(&well).is_empty(), "it comes and goes");
        }
        assert!(watch.look(&lost).is_empty());
        let bad = |text: &str| vec![News::Bad(text.to_owned())];
        let good = |text: &str| vec![News::Good(text.to_owned())];
        let gone =
            "A copy of the log of shard 3 is lost: h2:1/- does not answer (Connection refused): 2 of 3 copies answer";
        assert_eq!(watch.look(&lost), bad(gone));
        assert!((0..9).all(|_| watch.look(&lost).is_empty()), "it is told once");
        assert!(watch.look(&well).is_empty());
        let back = "The copy of the log of shard 3 at h2:1/- answers again, and is brought up: 3 of 3 copies answer";
        assert_eq!(watch.look(&well), good(back));

        let failed = copies(&[(1, Follows, true), (2, Follows, true), (3, Failed, true)]);
        assert!(watch.look(&failed).is_empty());
        let broken = "A copy of the log of shard 3 is lost: the disk of h3:1/- has failed, and takes nothing until its place is replaced: 2 of 3 copies answer";
        assert_eq!(watch.look(&failed), bad(broken));

        let old = copies(&[(1, Follows, true), (2, SetBack, true), (3, Failed, true)]);
        assert!(watch.look(&old).is_empty());
        let text = "A copy of the log of shard 3 does not count any more: the folder of h2:1/- was set back to an earlier state: it lacks blocks that it had acknowledged. Give it an empty directory, and replace its place (`holdfast cluster group replace h2:1/- h2:1/-`): 1 of 3 copies answer";
        assert_eq!(watch.look(&old), bad(text));
        assert!(watch.look(&old).is_empty());
        assert!(watch.look(&failed).is_empty() && watch.look(&failed).len() == 1);

        let next = |state| copies(&[(1, Follows, true), (2, Follows, true), (3, Failed, true), (4, state, false)]);
        assert_eq!(watch.look(&next(Follows)), good("A copy of the log of shard 3 is brought up at h4:1/-"));
        assert!((0..9).all(|_| watch.look(&next(Silent)).is_empty()), "it is missed by nobody yet");
        let settled = copies(&[(1, Follows, true), (2, Follows, true), (4, Follows, true)]);
        let both = [
            good("The copy of the log of shard 3 at h3:1/- is given up"),
            good("The copy of the log of shard 3 at h4:1/- counts now"),
        ];
        assert_eq!(watch.look(&settled), both.concat());
        assert!(watch.look(&settled).is_empty());
    }
}
