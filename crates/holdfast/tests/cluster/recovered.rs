//! `cluster recover` where it cannot help, or is called twice.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::copies::{Copied, answer};
use crate::log_servers::holdfast;

/// The longest wait for anything that a cluster must do, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

impl Copied {
    /// Has a node take shard 1 over.
    fn recover(&self, asked: usize, on: usize) -> String {
        let [at, on] = [asked, on].map(|node| self.nodes.ports[node]);
        holdfast(&["cluster", "recover", "1", "--on", &format!("127.0.0.1:{on}"), "-p", &at.to_string()])
    }

    fn recover_until(&self, asked: usize, on: usize, is_it: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let said = self.recover(asked, on);
            if is_it(&said) {
                return said;
            }
            assert!(Instant::now() < end, "{said}");
            thread::sleep(LOOK);
        }
    }
}

/// The first segment of a copy's only stream.
fn first_segment(shard: &Path) -> Option<PathBuf> {
    let names = fs::read_dir(shard.join("stream-0")).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.extension().is_some_and(|extension| extension == "log")).min()
}

/// The store of the lost owner alone has the records that a checkpoint covers.
#[test]
fn a_shard_whose_log_was_cut_is_not_moved_to_a_node_that_cannot_read_it() {
    let mut copied = Copied::with("log-segment-size 1mb\n", &["holdfast/log"], &["one"], 1);
    copied.nodes.serves(1);
    copied.sets(50);
    copied.fills(4 << 20);
    let shards = copied.scratches.each_ref().map(|scratch| scratch.path().join("one/shard-1"));
    let before = shards.each_ref().map(|shard| first_segment(shard));
    assert!(copied.nodes.client(0).call("bgsave").starts_with('+'));
    let end = Instant::now() + PATIENCE;
    while shards.iter().zip(&before).any(|(shard, before)| first_segment(shard) == *before) {
        assert!(Instant::now() < end, "{before:?}");
        thread::sleep(LOOK);
    }

    copied.nodes.kill(0);
    let said = copied.recover_until(1, 1, |said| said.contains("have cut the log of shard 1"));
    assert!(said.contains("nothing was changed") && said.contains("behind block "), "{said}");
    assert!(said.contains("Start the owner again with its dir") && said.contains("--lose-data"), "{said}");
    assert!(!copied.nodes.log(1).contains("this node is given shard"), "{}", copied.nodes.log(1));
    // The owner is only away, and has everything.
    copied.nodes.start(0);
    copied.is_whole();
    copied.has_all();
    copied.sets(20);
}

/// The node that was given the shard first has no data, and would wait for a term without an end.
#[test]
fn a_node_that_has_lost_a_shard_before_it_led_ends() {
    let mut copied = Copied::with("", &["holdfast/log"], &["one"], 2);
    copied.sets(50);
    (1..3).for_each(|node| copied.nodes.serves(node));
    copied.nodes.kill(0);
    copied.recover_until(2, 1, |said| said.contains("owns shard 1 now"));
    let end = Instant::now() + PATIENCE;
    while !copied.nodes.log(1).contains("this node is given shard 1") {
        assert!(Instant::now() < end, "{}", copied.nodes.log(1));
        thread::sleep(LOOK);
    }
    copied.nodes.kill(1);
    copied.recover_until(2, 2, |said| said.contains("owns shard 1 now"));
    assert!(answer(&copied.nodes, 2, "get key:7").ends_with(" 7"));
    copied.has_all_at(2);
    // Whatever it had begun of a folder.
    let log = copied.nodes.dirs[1].path().join("holdfast/log");
    if log.exists() {
        fs::remove_dir_all(log).unwrap();
    }
    let why = copied.nodes.try_start_with(1, &[]).unwrap_err();
    assert!(why.contains("owns shard 1 now, and has taken over its log"), "{why}");
    copied.has_all_at(2);
}
