//! Clients that count together with one key: no increment that was answered is lost, and none is answered twice.

use std::collections::{BTreeSet, VecDeque};

use redolog::simulated::Chance;
use resp::Value;

use super::{Client, Common, Found, Request, Verdict, number, wrong};
use crate::invariants::seen::number_in;
use crate::machine::promise::Promise;

/// Requests under way at most.
const WINDOW: usize = 4;

/// The clients' knowledge of a counter.
#[derive(Default)]
pub struct Tally {
    /// It cannot be higher.
    sent: u64,
    /// Numbers that were answered since the last start.
    told: BTreeSet<u64>,
    /// It cannot be lower.
    least: u64,
    /// The counter cannot be lower after a power failure, whatever was promised at the time.
    firm: u64,
}

/// See the module's text.
pub struct Counter {
    id: usize,
    /// Of each request: the least value the counter had when it was sent, and the promise.
    pending: VecDeque<(u64, Promise)>,
    is_cut_off: bool,
}

impl Counter {
    /// Client number `id`.
    pub fn new(id: usize) -> Self {
        Self { id, pending: VecDeque::new(), is_cut_off: false }
    }
}

const KEY: &str = "c";

impl Client for Counter {
    fn name(&self) -> String {
        format!("counter {}", self.id)
    }

    fn next(&mut self, common: &mut Common, _: &mut Chance) -> Option<Request> {
        if self.is_cut_off || self.pending.len() >= WINDOW {
            return None;
        }
        self.pending.push_back((common.tally.least, common.promise));
        common.tally.sent += 1;
        Some(vec![vec!["incr".into(), KEY.into()]])
    }

    fn answered(&mut self, common: &mut Common, replies: Vec<Value>) -> Verdict {
        let Some((before, promised)) = self.pending.pop_front() else {
            return wrong("replies", &self.name(), "an answer to nothing");
        };
        match replies.last().and_then(number) {
            Some(count) if count > before && count <= common.tally.sent && common.tally.told.insert(count) => {
                common.tally.least = common.tally.least.max(count);
                if common.is_firm(promised) {
                    common.tally.firm = common.tally.firm.max(count);
                }
                Ok(())
            }
            _ => wrong("replies", &self.name(), format_args!("{replies:?}, after {before}")),
        }
    }

    fn refused(&mut self, common: &mut Common) {
        self.pending.pop_front();
        common.tally.sent -= 1;
    }

    fn cut_off(&mut self) {
        self.is_cut_off = true;
        self.pending.clear();
    }

    fn look(&mut self, common: &mut Common, found: &Found<'_>) -> Verdict {
        self.is_cut_off = false;
        let (tally, there) = (&mut common.tally, number_in(found.contents, KEY));
        let kept = there >= if found.keeps_promises { tally.least } else { tally.firm };
        if !kept || there > tally.sent {
            let what = format_args!(
                "the counter is {there}, was {} at least ({} firmly), {} at most",
                tally.least, tally.firm, tally.sent
            );
            return wrong("acknowledged", &self.name(), what);
        }
        *tally = Tally { sent: there, told: BTreeSet::new(), least: there, firm: there };
        Ok(())
    }
}
