//! CONFIG SET of settings that are the cluster's: its metadata have them, and every node takes them from there.

use std::sync::Arc;

use ::membership::control::NotConfigured;
use ::membership::meta::{Setting, VALUE_MAX};
use command::Error;

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
pub fn change_settings(node: &Node, settings: Vec<Shared>, job: Arc<Job>) {
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
    let then = move |changed| {
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
