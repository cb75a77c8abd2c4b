//! CONFIG SET of settings that are the cluster's: its metadata have them, and every node takes them from there.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use ::membership::control::{ChangingShard, NotConfigured};
use ::membership::meta::{Setting, VALUE_MAX};
use command::Error;

use super::libraries::change_users;
use crate::config::{SetError, Shared};
use crate::node::Node;
use crate::worker::jobs::{Done, Job};

/// Refuses values that a cluster does not keep.
///
/// # Errors
///
/// The setting that has such a value.
pub(crate) fn check(settings: &[Shared]) -> Result<(), Error> {
    match settings.iter().find(|(_, value)| value.len() > VALUE_MAX) {
        None => Ok(()),
        Some((name, _)) => {
            let why = format!("a setting of a cluster has at most {VALUE_MAX} bytes");
            Err(Error::text(SetError::Failed { name: (*name).into(), why }.text()))
        }
    }
}

/// Changes settings of the cluster. `job` ends with the reply when more than half of the voting nodes have them on
/// their disks, and this node has taken them.
pub fn change_settings(node: &Arc<Node>, settings: Vec<Shared>, job: Arc<Job>) {
    let first = settings.first().map_or("", |(name, _)| *name);
    let settings: Vec<Setting> =
        settings.into_iter().map(|(name, value)| Setting { name: name.to_owned(), value }).collect();
    let down = |why: &str| {
        let why = why.replace(['\r', '\n'], " ");
        Err(format!("CLUSTERDOWN the cluster's settings were not changed: {why}").into_bytes())
    };
    let Some(cluster) = node.cluster() else { return job.end(down("this server is no node of a cluster")) };
    let Some(admin) = cluster.administration() else { return job.end(down("nobody keeps the cluster's metadata")) };
    if cluster.lease().until() <= node.clock.boot_ns() {
        return job.end(down(&cluster.lease().reason()));
    }
    let follows =
        settings.iter().any(|setting| setting.name == "requirepass") && !node.scripts.agreed().users.is_empty();
    let of_users = Arc::clone(node);
    let then = move |changed: Result<(), NotConfigured>| {
        if follows && changed.is_ok() {
            return follow_password(&of_users, &job);
        }
        job.end(match changed {
            Ok(()) => Ok(Done::Ok),
            Err(NotConfigured::Refused(why)) => Err(SetError::Failed { name: first.into(), why }.text()),
            Err(why @ (NotConfigured::Unled(_) | NotConfigured::Unknown(_))) => {
                Err(format!("CLUSTERDOWN {why}").replace(['\r', '\n'], " ").into_bytes())
            }
        });
    };
    admin.configure(settings, Box::new(then));
}

/// How long a change of a shard's settings is waited for.
const CHANGED: Duration = Duration::from_secs(20);

/// Changes the settings of the node's shard in the metadata: all of them, and `name` is the one that a client has named.
/// The caller puts them into effect before it gives up what it gets. It waits here. None: the node is no node of a
/// cluster.
///
/// # Errors
///
/// The reply: nothing is changed here.
pub fn change_shard(node: &Node, name: &str, settings: Vec<Shared>) -> Result<Option<ChangingShard>, Vec<u8>> {
    let Some(cluster) = node.cluster() else { return Ok(None) };
    let Some(admin) = cluster.administration() else { return Ok(None) };
    let down = |why: &str| format!("CLUSTERDOWN {why}").replace(['\r', '\n'], " ").into_bytes();
    let unchanged = |why: &str| down(&format!("the settings of this node's shard were not changed: {why}"));
    if cluster.lease().until() <= node.clock.boot_ns() {
        return Err(unchanged(&cluster.lease().reason()));
    }
    let as_text = |(name, value): Shared| (name.to_owned(), String::from_utf8_lossy(&value).into_owned());
    let (tell, told) = channel();
    admin.set_shard(settings.into_iter().map(as_text).collect(), Box::new(move |changed| drop(tell.send(changed))));
    let changed = told.recv_timeout(CHANGED).unwrap_or_else(|_| Err(NotConfigured::Unknown("no answer".to_owned())));
    changed.map(Some).map_err(|why| match why {
        NotConfigured::Refused(why) => SetError::Failed { name: name.into(), why }.text(),
        NotConfigured::Unled(why) => unchanged(&why),
        NotConfigured::Unknown(why) => {
            down(&format!("it is not certain that the settings of this node's shard were changed: {why}"))
        }
    })
}

/// Has the cluster's users say that `default` has the new `requirepass` and no other password: those that it had before
/// must not come back with an older `requirepass`. Nodes let nobody in by them meanwhile.
fn follow_password(node: &Arc<Node>, job: &Arc<Job>) {
    // A proposal follows `requirepass` before anything else.
    if let Err(error) = change_users(node, Box::new(|_, _| Ok(Done::Ok)), job, 0) {
        job.end(Err(error.as_bytes().to_vec()));
    }
}
