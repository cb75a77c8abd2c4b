//! Disks of a log with copies that fail or are full.

use std::fs;

use crate::copies::Copied;
use crate::support::limit_files;

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

/// A copy without room for its next segment does not stop the log. Two do: writes are refused and reads go on, until
/// there is room (rule L8).
#[test]
fn a_log_is_full_when_a_majority_of_its_copies_is() {
    let mut copied = Copied::of("log-segment-size 1mb\n", &["holdfast/log"], &["one"]);
    copied.sets(20);
    let ids = copied.servers.each_ref().map(|server| server.as_ref().unwrap().id());
    // No file can be opened.
    let before = limit_files(ids[0], 3);
    copied.fills(3 << 20);
    copied.status(|status| status.contains("has no room: make some") && status.contains("(no room, "));

    limit_files(ids[1], 3);
    let mut client = copied.nodes.client(0);
    let set = format!("set filler {}", "v".repeat(32 << 10));
    let refused = (0..1000).map(|_| client.call(&set)).find(|reply| reply != "+OK").unwrap();
    assert!(refused.starts_with("-MISCONF") && refused.contains("majority of its copies"), "{refused}");
    copied.status(|status| status.contains("refuses writes"));
    copied.has_all();

    for id in ids {
        limit_files(id, before);
    }
    copied.status(|status| !status.contains("refuses writes"));
    assert_eq!(client.call(&set), "+OK");
    copied.sets(20);
    copied.is_whole();
    copied.loses_its_log();
}
