//! Writers of an owner are slowed down for a standby that lags (rule S11).

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use crate::standbys::{Copied, PATIENCE};

#[test]
fn writers_wait_for_a_standby_that_lags_and_nothing_is_refused() {
    let mut copied = Copied::with("");
    copied.stands_by();
    // A standby is behind by something whenever it is looked at under load.
    assert_eq!(copied.nodes.client(0).call("config set standby-lag-max 1"), "+OK");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers = [0, 1].map(|number| {
            let (mut client, is_over) = (copied.nodes.client(0), &is_over);
            scope.spawn(move || {
                let value = "v".repeat(2_000);
                for round in 0.. {
                    if is_over.load(SeqCst) {
                        return;
                    }
                    let lines: Vec<String> = (0..200).map(|at| format!("set {number}:{at} {value}{round}")).collect();
                    client.send(&lines.join(";"));
                    (0..200).for_each(|_| assert_eq!(client.reply(), "+OK"));
                }
            })
        });
        let says = |words: &str| {
            let end = Instant::now() + PATIENCE;
            while !copied.nodes.log(0).contains(words) {
                assert!(Instant::now() < end, "the owner does not say: {words}");
                thread::sleep(Duration::from_millis(20));
            }
        };
        says("The standbys lag: commands that write go on at the speed of the nearest one");
        assert_eq!(copied.nodes.client(0).call("config set standby-lag-max 0 standby-lag-max-ms 0"), "+OK");
        says("commands that write are not slowed down");
        is_over.store(true, SeqCst);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
    assert!(copied.nodes.client(2).call("cluster status").contains("electable"));
    copied.sets(2, 50);
    copied.has_all(2);
}
