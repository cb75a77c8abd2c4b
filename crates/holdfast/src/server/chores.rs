//! The thread that does what commands ask for and wait for: see `node::Jobs`.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use node::cluster::{change_settings, change_shard};
use node::config::{Rights, SetError, Settings, Wanted};
use node::{Done, Node, Outcome, Task};

use super::switch::Switch;

/// Between two looks at whether the server stops.
const LOOK: Duration = Duration::from_millis(100);

/// Starts the thread, which ends when the server stops.
pub fn start(node: Arc<Node>, switch: Arc<Switch>) -> io::Result<JoinHandle<()>> {
    node.jobs.open();
    let run = move || {
        node.jobs.serve();
        while !node.is_stopping() {
            match node.jobs.take() {
                Some(job) => {
                    let outcome = match &job.task {
                        Some(Task::Configure { pairs, rights, of_cluster }) => {
                            let outcome = configure(&node, &switch, pairs, *rights);
                            if outcome.is_ok() && !of_cluster.is_empty() {
                                change_settings(&node, of_cluster.clone(), Arc::clone(&job));
                                continue;
                            }
                            outcome
                        }
                        Some(Task::Backup(folder)) => back_up(&switch, folder),
                        // The others have a thread of their own.
                        _ => Ok(Done::Ok),
                    };
                    job.end(outcome);
                }
                None => thread::park_timeout(LOOK),
            }
        }
    };
    thread::Builder::new().name("chores".into()).spawn(run)
}

/// `HOLDFAST BACKUP`.
fn back_up(switch: &Switch, folder: &Path) -> Outcome {
    // The path stays right if the working directory changes meanwhile.
    let folder = std::path::absolute(folder).map_err(|error| error.to_string());
    folder.and_then(|folder| switch.back_up(&folder)).map(|()| Done::Ok).map_err(|why| {
        tracing::warn!(cause = "backup", "A backup has failed: {why}");
        format!("ERR the backup has failed: {}", why.replace(['\r', '\n'], " ")).into_bytes()
    })
}

/// `CONFIG SET`, which may switch the log on or off: all of it, or nothing. The metadata know of settings of the shard
/// first, so no answered change is lost with this node.
fn configure(node: &Node, switch: &Switch, pairs: &[Vec<u8>], rights: Rights) -> Outcome {
    let args: Vec<&[u8]> = pairs.iter().map(Vec::as_slice).collect();
    let text = |error: SetError| error.text();
    // Another client's may have come before.
    let Wanted { changed, settings: wanted, of_shard, .. } = node.config.would_set(&args, rights).map_err(text)?;
    let in_shard = changed.iter().find(|name| of_shard.iter().any(|(of, _)| of == *name));
    let _changing = in_shard.map(|name| change_shard(node, name, of_shard.clone())).transpose()?;
    let before = node.config.settings();
    let switch_to = |settings: &Settings| if settings.appendonly { switch.on(settings) } else { switch.off() };
    let switches = changed.contains(&"appendonly");
    if switches {
        switch_to(&wanted).map_err(|why| {
            let what = if wanted.appendonly { "on" } else { "off" };
            tracing::warn!(cause = what, "CONFIG SET has not switched appendonly {what}: {why}");
            let why = format!("Unable to turn {what} AOF: {}", why.replace(['\r', '\n'], " "));
            SetError::Failed { name: b"appendonly".to_vec(), why }.text()
        })?;
    }
    let set = node.config.set(&args, rights).map(|()| Done::Ok).map_err(text);
    if switches
        && set.is_err()
        && let Err(why) = switch_to(&before)
    {
        tracing::warn!(cause = "switch", "appendonly is not as it is set, after a failed CONFIG SET: {why}");
    }
    if switches {
        // A change of the setting meanwhile has found no log to tell.
        node.config.follow(|settings| switch.follow(settings));
    }
    set
}
