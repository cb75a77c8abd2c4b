//! An operator restores an earlier state of a copy's folder.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::copies::Copied;
use crate::copies_shown::copy;

/// The longest time for which a client waits for a reply that must not come.
const SILENCE: Duration = Duration::from_secs(3);

fn set_back(folder: &Path, earlier: &Path) {
    fs::remove_dir_all(folder).unwrap();
    copy(earlier, folder);
}

/// The owner remembers what the copy had acknowledged (rule G9).
#[test]
fn a_copy_that_was_set_back_is_told_and_does_not_count() {
    let mut copied = Copied::new();
    copied.sets(20);
    let folder = copied.scratches[0].path().join("one/shard-1");
    let earlier = copied.scratches[0].path().join("earlier");
    let [own, one, _] = copied.places();
    assert!(copied.servers[0].as_mut().unwrap().ends_well());
    copied.servers[0] = None;
    copy(&folder, &earlier);
    copied.start(0);
    copied.is_whole();
    copied.sets(50);
    copied.until("it has everything", |copied| copied.copy(&one).contains("state=up,counts=1,blocks_behind=0,"));
    assert!(copied.servers[0].as_mut().unwrap().ends_well());
    copied.servers[0] = None;
    set_back(&folder, &earlier);
    copied.start(0);

    copied.until("it is noticed", |copied| copied.copy(&one).contains("state=set-back,"));
    let way_out = format!("`holdfast cluster group replace {one} {one}`");
    copied.status(|status| {
        status.contains("health: not ok")
            && status
                .contains(&format!("the copy of shard 1 at {one} was set back to an earlier state, and does not count"))
            && status.contains(&way_out)
            && status.contains(&format!("{one} (does not count: it was set back)"))
            && status.contains("2 of 3 copies of shard 1 are up: if one more fails, nothing can be written")
    });
    copied.says(&format!("the folder of {one} was set back to an earlier state"));
    assert!(copied.logged().contains(&way_out), "{}", copied.logged());
    // It gets what it lacks, and is no majority with the owner for all that.
    copied.sets(20);
    copied.until("it is brought up", |copied| copied.copy(&one).contains("state=set-back,counts=1,blocks_behind=0,"));
    copied.servers[1] = None;
    let mut client = copied.nodes.client(0);
    client.send("set unheard 1");
    let reply = client.reply_within(SILENCE);
    assert!(reply.as_ref().is_none_or(|reply| reply.starts_with('-')), "{reply:?}");
    copied.start(1);
    copied.sets(20);

    // A new folder at its place counts.
    copied.servers[0] = None;
    fs::remove_dir_all(&folder).unwrap();
    copied.start(0);
    copied.status(|status| status.contains(&format!("another folder was at {one}")));
    assert!(copied.group(&["replace", &one, &one]).contains("takes the place of"));
    copied.is_whole();
    copied.servers[1] = None;
    copied.sets(20);
    copied.start(1);
    copied.is_whole();
    copied.loses_its_log();
    assert!(copied.group(&["replace", &own, &own]).contains("takes the place of"));
    copied.is_whole();
}
