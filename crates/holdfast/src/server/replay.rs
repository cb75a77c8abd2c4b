//! The log's tail is replayed on several threads: one reads and deals, the others apply (`engine::checkpoint::Dealer`).

use std::error::Error;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use engine::checkpoint::{Batch, Dealer, Due, Hand, Replayed, Unreplayable, Why};
use keyspace::Local;
use redolog::Opened;

/// Batches that wait for a hand: the reader goes on meanwhile.
const WAITING: usize = 4;

/// An order to a hand.
enum Order {
    Apply(Batch),
    /// To say that everything before this has been applied.
    Say(SyncSender<()>),
}

/// A thread, as the dealer sees it.
struct Helper {
    orders: SyncSender<Order>,
    /// Batches that have been applied: their memory is used again.
    empty: Receiver<Batch>,
}

impl Helper {
    /// False: the thread has given up.
    fn hand_over(&self, batch: &mut Batch) -> bool {
        let next = self.empty.try_recv().unwrap_or_default();
        batch.is_empty() || self.orders.send(Order::Apply(std::mem::replace(batch, next))).is_ok()
    }
}

fn work<'a>(
    mut hand: Hand<'a>,
    mut local: Local,
    orders: &Receiver<Order>,
    empty: &Sender<Batch>,
) -> Result<Hand<'a>, Unreplayable> {
    for order in orders {
        match order {
            Order::Apply(mut batch) => {
                hand.apply(&mut local, &mut batch)?;
                let _ = empty.send(batch);
            }
            Order::Say(done) => {
                hand.settle(&mut local)?;
                let _ = done.send(());
            }
        }
    }
    hand.settle(&mut local)?;
    Ok(hand)
}

/// Replays the log. `hands` with their parts of the keyspace.
pub fn run(
    log: &mut Opened,
    mut dealer: Dealer<'_>,
    hands: Vec<(Hand<'_>, Local)>,
) -> Result<Replayed, Box<dyn Error>> {
    thread::scope(|scope| {
        let (helpers, threads): (Vec<_>, Vec<_>) = hands
            .into_iter()
            .map(|(hand, local)| {
                let (orders, taken) = sync_channel(WAITING);
                let (given, empty) = channel();
                let thread = scope.spawn(move || work(hand, local, &taken, &given));
                (Helper { orders, empty }, thread)
            })
            .unzip();
        let mut outcome = Ok(());
        // A thread that has given up says why in the end.
        let mut going = true;
        let read = log.replay(|record| {
            if !going || outcome.is_err() {
                return;
            }
            let given_up = || Unreplayable { lsn: record.lsn, why: Why::Nonsense("a thread has given up") };
            // A barrier takes every latch: without everybody's word nobody says that they are free.
            outcome = dealer.deal(record.lsn, record.effects, |due, _, batches| {
                going = match due {
                    Due::Of(hand) => helpers[hand].hand_over(&mut batches[hand]),
                    Due::All => settle(&helpers, batches),
                };
                if going { Ok(()) } else { Err(given_up()) }
            });
        });
        for (helper, batch) in helpers.iter().zip(dealer.batches()) {
            helper.hand_over(batch);
        }
        drop(helpers);
        let mut done = Vec::new();
        for thread in threads {
            done.push(thread.join().map_err(|_| "a thread that replays the log has panicked")??);
        }
        read?;
        outcome?;
        Ok(dealer.finish(&done))
    })
}

/// Everything that was dealt is applied. False: a thread has given up.
fn settle(helpers: &[Helper], batches: &mut [Batch]) -> bool {
    let (done, all) = sync_channel(helpers.len());
    for (helper, batch) in helpers.iter().zip(batches) {
        if !helper.hand_over(batch) || helper.orders.send(Order::Say(done.clone())).is_err() {
            return false;
        }
    }
    drop(done);
    all.iter().count() == helpers.len()
}
