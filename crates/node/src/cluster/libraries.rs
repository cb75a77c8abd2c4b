//! Changes of the libraries of functions, which belong to the cluster. Its metadata have them, with a version, and
//! every node that serves takes them from there. To change them, a node makes new ones from those that it has, and
//! proposes them for that version. If another node was faster, it makes them again from the newer ones.

use std::sync::Arc;

use command::Error;

use crate::clock::MonoNs;
use crate::node::Node;
use crate::scripts::libraries::Libraries;
use crate::worker::jobs::{Done, Job};

/// Nanoseconds for which a change is repeated while other nodes are faster.
const AGAIN_NS: u64 = 10_000_000_000;

/// The change of the libraries; an error changes nothing.
pub(crate) type Change = Box<dyn Fn(&mut Libraries) -> Result<(), Error> + Send>;

/// A change under way.
struct Attempt {
    node: Arc<Node>,
    change: Change,
    reply: Done,
    job: Arc<Job>,
    /// When it gives up.
    until: MonoNs,
}

/// Changes the libraries of the cluster. This node has a lease, so it has every library that a client was told of. The
/// job's client gets `reply` when all nodes that serve have the change.
///
/// # Errors
///
/// Those of `change`: nothing was done.
pub(crate) fn change_libraries(node: &Arc<Node>, change: Change, reply: Done) -> Result<Arc<Job>, Error> {
    let job = Job::of_cluster();
    let until = node.clock.monotonic_ns() + AGAIN_NS;
    Attempt { node: Arc::clone(node), change, reply, job: Arc::clone(&job), until }.begin()?;
    Ok(job)
}

impl Attempt {
    fn begin(self) -> Result<(), Error> {
        let (version, libraries) = self.node.scripts.libraries_of_cluster();
        let mut next = Libraries::clone(&libraries);
        (self.change)(&mut next)?;
        let node = Arc::clone(&self.node);
        let admin = node.cluster().and_then(|cluster| cluster.administration());
        let admin = admin.ok_or(Error::new("ERR nobody keeps the cluster's metadata"))?;
        let then = Box::new(move |changed| match changed {
            Ok(true) => self.job.end(Ok(self.reply)),
            Ok(false) => self.again(),
            Err(why) => self.job.end(Err(format!("ERR {why}").into())),
        });
        admin.change_libraries(version, next.dump().into(), then);
        Ok(())
    }

    /// Other nodes have changed them.
    fn again(self) {
        let job = Arc::clone(&self.job);
        let begun = if self.node.clock.monotonic_ns() < self.until {
            self.begin()
        } else {
            Err(Error::new("ERR the libraries are changed by others all the time: nothing was done"))
        };
        if let Err(error) = begun {
            job.end(Err(error.as_bytes().to_vec()));
        }
    }
}
