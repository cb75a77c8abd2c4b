//! Disks of a log with copies that fail or are full.

use std::fs;

use crate::copies::Copied;

/// The directory of the own log goes away under a running node: the log goes on with its copies (rule G10), and the next
/// start has everything.
#[test]
fn a_node_goes_on_without_its_own_log_disk() {
    let mut copied = Copied::of("log-segment-size 1mb\n", &["holdfast/log"], &["one"]);
    copied.sets(20);
    let log = copied.nodes.dirs[0].path().join("holdfast/log");
    fs::rename(&log, log.with_extension("gone")).unwrap();
    // Two segments are full, and the next one cannot be made.
    copied.fills(3 << 20);
    copied.status(|status| status.contains("a disk of its own log has failed, and the log goes on with its copies"));
    copied.sets(50);
    copied.has_all();

    // It starts from the copies. The new folder gets the place of the failed one.
    copied.nodes.kill(0);
    copied.nodes.start(0);
    copied.nodes.serves(0);
    copied.has_all();
    copied.status(|status| status.contains("another folder was at") && !status.contains("has failed"));
    let [own, ..] = copied.places();
    assert!(copied.group(&["replace", &own, &own]).contains("takes the place of"));
    copied.is_whole();
    copied.sets(20);
}
