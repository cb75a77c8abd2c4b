//! Changes of the libraries of functions, which belong to the cluster: its metadata have them, with a version, and every node that serves has them from there.
//! A node makes the new ones from those that it has, and offers them in the place of that version. If somebody was faster, it does so again with what that one
//! has made.

use std::sync::Arc;

use command::Error;

use crate::node::Node;
use crate::scripts::libraries::Libraries;
use crate::worker::jobs::{Done, Job};

/// For how long a change that others are faster than is tried again, in nanoseconds.
const AGAIN_NS: u64 = 10_000_000_000;

/// What is to become of the libraries; an error changes nothing.
pub(crate) type Change = Box<dyn Fn(&mut Libraries) -> Result<(), Error> + Send>;

/// A change under way.
struct Attempt {
    node: Arc<Node>,
    change: Change,
    reply: Done,
    job: Arc<Job>,
    /// By [`crate::Clock::monotonic_ns`].
    until: u64,
}

/// Has the libraries of the cluster changed, of which this node, which has a lease, has all that was ever answered. Who waits for the job hears `reply` when
/// all nodes that serve have the change.
///
/// # Errors
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

    /// Others have changed them.
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
