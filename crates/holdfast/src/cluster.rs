//! `holdfast cluster`: asks a node of a running cluster how it is, or to change it.

use clap::{Args, Subcommand};
use resp::Value;

use crate::client::{Connection, Target, explained};

/// Shows and changes a cluster through one of its nodes. Any node that runs will do.
#[derive(Args)]
pub struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Shows nodes, slots, leases, epochs and health.
    Status {
        #[command(flatten)]
        target: Target,
    },
    /// Removes another node from the cluster for good. It stops voting and cannot join again as the same node.
    ///
    /// A node that owns slots is refused, because no other node has its keys. If its disk is there, start it again
    /// instead.
    Forget {
        #[command(flatten)]
        target: Target,
        /// The name of the node, as `holdfast cluster status` shows it.
        node: String,
        /// Give up the data of the node: the other nodes get its slots, empty. Its keys are gone even if it comes back.
        #[arg(long)]
        lose_data: bool,
    },
    /// Raises the level of the cluster to the highest that all of its nodes speak.
    ///
    /// Run it when every node runs the new build and does well. Until then each node can go back to the build before.
    /// Afterwards none can, and the cluster refuses older builds. All nodes must be up.
    Finalize {
        #[command(flatten)]
        target: Target,
    },
    /// Removes the node at this address from its cluster, if it owns no slots. Stop it then.
    Leave {
        #[command(flatten)]
        target: Target,
    },
}

/// Sends the command and prints the answer.
///
/// # Errors
/// The node's error.
pub fn run(options: &Options) -> Result<(), String> {
    match &options.what {
        What::Status { target } => {
            let status = ask(target, &[b"CLUSTER", b"STATUS"])?;
            let (Value::Bulk(text) | Value::Verbatim(_, text)) = status else {
                return Err(format!("{target} has not answered with a status"));
            };
            print!("{}", String::from_utf8_lossy(&text));
        }
        What::Forget { target, node, lose_data } => {
            let mut words: Vec<&[u8]> = vec![b"CLUSTER", b"FORGET", node.as_bytes()];
            words.extend(lose_data.then_some(&b"LOSE-DATA"[..]));
            // As it is said here.
            ask(target, &words).map_err(|why| {
                why.replace(&format!("CLUSTER FORGET {node} LOSE-DATA gives"), "with --lose-data this command gives")
            })?;
            println!("node {node} has been taken out of the cluster");
        }
        What::Finalize { target } => {
            ask(target, &[b"CLUSTER", b"FINALIZE"])?;
            println!(
                "the level of the cluster is the highest that all of its nodes speak: `holdfast cluster status` shows it"
            );
        }
        What::Leave { target } => {
            ask(target, &[b"CLUSTER", b"LEAVE"])?;
            println!("the node at {target} has left its cluster, and may be stopped");
        }
    }
    Ok(())
}

fn ask(target: &Target, words: &[&[u8]]) -> Result<Value, String> {
    let answer = Connection::open(target).and_then(|mut connection| connection.call(words));
    answer.map_err(|why| explained(why.strip_prefix("ERR ").map(str::to_owned).unwrap_or(why)))
}
