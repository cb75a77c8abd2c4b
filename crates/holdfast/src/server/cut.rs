//! This node's part of an export over nodes (`node::Cut`). The thread that makes snapshots takes the exporter's orders
//! one after the other.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clocks::UnixMs;
use engine::SnapshotWalk;
use node::{Cut, Done, Job, Node, Order, Outcome, Parts};

use super::snapshots::{Moment, begin, failed, send_as, write_walk};
use super::switch::Switch;

/// Between two looks at whether the exporter has gone.
const LOOK: Duration = Duration::from_millis(10);
/// Between two attempts at a moment without scripts.
const RETRY: Duration = Duration::from_millis(1);
/// A hold gives up if a script is under way for so many milliseconds, so that clients wait for it no longer.
const SCRIPT_MS: u64 = 50;
/// A snapshot that was begun waits so long for the order to send it, in milliseconds. Copies pile up meanwhile.
const BEGUN_MS: u64 = 10_000;

/// Writes are held back as long as this value exists, and for a limited time.
struct Holding<'a> {
    node: &'a Node,
    until: UnixMs,
}

impl<'a> Holding<'a> {
    fn begin(node: &'a Node, ms: u64) -> Self {
        let until = node.clock.unix_ms() + ms;
        node.pauses.begin_cut(until);
        node.look_all();
        Self { node, until }
    }

    fn is_on(&self) -> bool {
        self.node.clock.unix_ms() < self.until
    }
}

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        self.node.pauses.end_cut();
        self.node.look_all();
    }
}

/// A snapshot that was begun.
struct Begun {
    walk: SnapshotWalk,
    moment: Moment,
    until: UnixMs,
}

/// Serves an export to its end. `job` ends when it begins.
pub fn serve(node: &Arc<Node>, switch: &Switch, cut: &Cut, job: &Job) {
    cut.serve();
    job.end(Ok(Done::Ok));
    let (mut holding, mut begun) = (None, None);
    while !cut.is_over() && !node.is_stopping() {
        // A hold that was not released in time was in vain, and so is a snapshot that nobody asks for.
        if begun.as_ref().is_some_and(|begun: &Begun| begun.until <= node.clock.unix_ms()) {
            break;
        }
        let Some((order, job)) = cut.take() else {
            thread::park_timeout(LOOK);
            continue;
        };
        let outcome = match order {
            Order::Hold(ms) => {
                drop(holding.take());
                hold(node, ms).map(|held| holding = Some(held)).map(|()| Done::Ok)
            }
            Order::Moment => {
                drop(begun.take());
                take(node, switch).map(|(taken, lists)| {
                    begun = Some(taken);
                    Done::Lists(lists)
                })
            }
            Order::Release => match holding.take().is_some_and(|held| held.is_on()) {
                true => Ok(Done::Ok),
                false => Err(b"ERR writes went on before".into()),
            },
            Order::Send => {
                drop(holding.take());
                job.end(send(node, begun.take()));
                break;
            }
        };
        job.end(outcome);
    }
    cut.end();
}

/// Holds writes back. Afterwards every worker knows that, and no script that may write is under way.
fn hold(node: &Arc<Node>, ms: u64) -> Result<Holding<'_>, Vec<u8>> {
    let held = Holding::begin(node, ms);
    let until = node.clock.unix_ms() + ms.min(SCRIPT_MS);
    while node.clock.unix_ms() < until {
        // A worker that stands still has ended its turn, and the next one looks first.
        match node.halt() {
            Ok(Some(_)) => return Ok(held),
            Ok(None) => thread::park_timeout(RETRY),
            Err(_) => return Err(failed("the server stops")),
        }
    }
    Err(b"ERR a script runs, and writes do not wait for its end".into())
}

/// Begins a snapshot. Returns also the transactions over nodes that are open, and those that are committed.
fn take(node: &Arc<Node>, switch: &Switch) -> Result<(Begun, Vec<Vec<String>>), Vec<u8>> {
    let transactions = &node.engine.transactions;
    let state = || [transactions.open_attempts(), transactions.committed()];
    let (walk, moment, lists) = begin(node, Some(switch), state).map_err(|why| failed(&why))?;
    let lists = lists.iter().map(|list| list.iter().map(ToString::to_string).collect()).collect();
    Ok((Begun { walk, moment, until: node.clock.unix_ms() + BEGUN_MS }, lists))
}

fn send(node: &Arc<Node>, begun: Option<Begun>) -> Outcome {
    let Some(Begun { walk, moment, .. }) = begun else {
        return Err(b"ERR HOLDFAST EXPORT MOMENT comes first".into());
    };
    send_as(node, false, |file| {
        write_walk(node, file, (walk, &moment), Parts::ALL, true).map_err(|why| why.to_string())?;
        Ok(moment.seen)
    })
}
