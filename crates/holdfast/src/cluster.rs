//! `holdfast cluster`: asks a node of a running cluster how it is, or to change it.

mod switchover;
mod upgrade;

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
    /// instead. If its log has copies, `holdfast cluster recover` may bring its shard back.
    Forget {
        #[command(flatten)]
        target: Target,
        /// The name of the node, as `holdfast cluster status` shows it.
        node: String,
        /// Give up the data of the node: the other nodes get its slots, empty. Its keys are gone even if it comes back.
        #[arg(long)]
        lose_data: bool,
    },
    Upgrade(Box<upgrade::Options>),
    /// Raises the level of the cluster to the highest that all of its nodes speak.
    ///
    /// Run it when every node runs the new build and does well. Until then each node can go back to the build before.
    /// Afterwards none can, and the cluster refuses older builds. All nodes must be up.
    Finalize {
        #[command(flatten)]
        target: Target,
    },
    /// Makes and changes log groups: the places of copies of the nodes' logs
    Group {
        #[command(subcommand)]
        what: Box<GroupWhat>,
    },
    /// Has a node without slots take over a shard whose owner is lost with its store.
    ///
    /// The shard's log is read from its copies. Count on it only as long as no checkpoint has cut the log: what was cut
    /// is in the lost store alone, and then the node does not start. If the owner's disks may be whole, start the owner
    /// again instead: after this it cannot serve the shard any more. It is refused while the owner may be alive, or if
    /// a majority of the copies cannot be read.
    Recover {
        #[command(flatten)]
        target: Target,
        /// The number of the shard, as `holdfast cluster status` shows it
        shard: u32,
        /// The address or the name of the node
        #[arg(long, value_name = "NODE")]
        on: String,
    },
    /// Has nodes without slots keep copies of a shard's data
    Standby {
        #[command(subcommand)]
        what: StandbyWhat,
    },
    /// Gives a shard to one of its standbys in order: clients see a pause, and no error.
    ///
    /// It waits until the shard has changed hands. If it does not within 15 seconds, the command says so and fails.
    Switchover {
        #[command(flatten)]
        target: Target,
        /// The number of the shard, as `holdfast cluster status` shows it
        shard: u32,
        /// The address or the name of the standby; without it one is chosen that may take over
        #[arg(long, value_name = "NODE")]
        to: Option<String>,
    },
    /// Removes the node at this address from its cluster, if it owns no slots. Stop it then.
    Leave {
        #[command(flatten)]
        target: Target,
    },
}

#[derive(Subcommand)]
enum StandbyWhat {
    /// Has a node become a standby of a shard. It needs a copy of the shard's log, and owns no slots.
    Add {
        #[command(flatten)]
        target: Target,
        /// The number of the shard, as `holdfast cluster status` shows it
        shard: u32,
        /// The address or the name of the node
        #[arg(long, value_name = "NODE")]
        on: String,
    },
    /// Takes a standby out: its copy counts no more, and its node goes on without data
    Remove {
        #[command(flatten)]
        target: Target,
        /// The number of the shard
        shard: u32,
        /// The address or the name of the node
        #[arg(long, value_name = "NODE")]
        on: String,
    },
}

#[derive(Subcommand)]
enum GroupWhat {
    /// Makes a group. The group `default` is used by every shard that has no other one.
    ///
    /// Then restart the nodes, one after the other: a shard gets its first copies at the next start of its node. A
    /// group cannot be removed.
    Add {
        #[command(flatten)]
        target: Target,
        /// The name of the group
        name: String,
        /// Its places: HOST:PORT/DIR, where HOST:PORT is the address of a node or log-server for clients, which
        /// `holdfast cluster status` shows before the `@`; its name may stand for it. DIR is an absolute path there, or
        /// `-` for the default one. For the group `default` without places: the first nodes on three machines
        places: Vec<String>,
    },
    /// Shows groups, their places and the copies there
    Show {
        #[command(flatten)]
        target: Target,
    },
    /// Has shards use a group; without numbers of shards: all of them
    Use {
        #[command(flatten)]
        target: Target,
        /// The name of the group; `-` for none of their own
        name: String,
        /// Numbers of shards; none: all
        shards: Vec<u32>,
    },
    /// Puts a place in place of another one, or a new folder in place of a lost one (the same place twice)
    Replace {
        #[command(flatten)]
        target: Target,
        /// The present place
        old: String,
        /// The new place
        new: String,
        /// The group, if several have the place
        #[arg(long, value_name = "NAME")]
        group: Option<String>,
    },
}

/// Sends the command and prints the answer.
///
/// # Errors
/// The node's error.
pub fn run(options: &Options) -> Result<(), String> {
    match &options.what {
        What::Status { target } => {
            show(target, &[b"CLUSTER", b"STATUS"])?;
        }
        What::Upgrade(options) => upgrade::run(options)?,
        What::Group { what } => group(what)?,
        What::Recover { target, shard, on } => {
            ask(target, &[b"CLUSTER", b"RECOVER", shard.to_string().as_bytes(), b"ON", on.as_bytes()])?;
            println!("node {on} owns shard {shard} now, and reads its log from the copies");
        }
        What::Standby { what } => standby(what)?,
        What::Switchover { target, shard, to } => {
            let owner = switchover::run(target, *shard, to.as_deref())?;
            println!("shard {shard} is at {owner} now");
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

fn standby(what: &StandbyWhat) -> Result<(), String> {
    let (word, target, shard, on) = match what {
        StandbyWhat::Add { target, shard, on } => ("ADD", target, shard, on),
        StandbyWhat::Remove { target, shard, on } => ("REMOVE", target, shard, on),
    };
    let words: [&[u8]; 6] =
        [b"CLUSTER", b"STANDBY", word.as_bytes(), &shard.to_string().into_bytes(), b"ON", on.as_bytes()];
    ask(target, &words)?;
    match what {
        StandbyWhat::Add { .. } => {
            println!("node {on} is to be a standby of shard {shard}: `holdfast cluster status` shows how far it is");
        }
        StandbyWhat::Remove { .. } => println!("node {on} is no standby of shard {shard} any more"),
    }
    Ok(())
}

fn group(what: &GroupWhat) -> Result<(), String> {
    let words = |first: &str, rest: &[String]| {
        let all = ["CLUSTER", "GROUP", first].into_iter().chain(rest.iter().map(String::as_str));
        all.map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>()
    };
    let tell = |target: &Target, words: Vec<Vec<u8>>, done: String| {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        ask(target, &words).map(|_| println!("{done}"))
    };
    match what {
        GroupWhat::Show { target } => show(target, &[b"CLUSTER", b"GROUP", b"SHOW"]),
        GroupWhat::Add { target, name, places } => {
            let rest = [std::slice::from_ref(name), places].concat();
            tell(
                target,
                words("ADD", &rest),
                format!("there is a group {name}: `holdfast cluster group show` shows it"),
            )
        }
        GroupWhat::Use { target, name, shards } => {
            let rest: Vec<String> = [name.clone()].into_iter().chain(shards.iter().map(u32::to_string)).collect();
            let whose = if shards.is_empty() { "all shards" } else { "these shards" };
            let done = match name.as_str() {
                "-" => format!("{whose} have no group of their own, and use the group `default` if there is one"),
                name => format!("{whose} use the group {name}"),
            };
            tell(target, words("USE", &rest), done)
        }
        GroupWhat::Replace { target, old, new, group } => {
            let rest: Vec<String> = [old.clone(), new.clone()].into_iter().chain(group.clone()).collect();
            tell(target, words("REPLACE", &rest), format!("{new} takes the place of {old}"))
        }
    }
}

/// Prints the text that a node answers.
fn show(target: &Target, words: &[&[u8]]) -> Result<(), String> {
    print!("{}", text(ask(target, words)?, target)?);
    Ok(())
}

/// The text in the answer of a node.
fn text(answer: Value, target: &Target) -> Result<String, String> {
    match answer {
        Value::Bulk(text) | Value::Verbatim(_, text) => Ok(String::from_utf8_lossy(&text).into_owned()),
        _ => Err(format!("{target} has not answered with a text")),
    }
}

fn ask(target: &Target, words: &[&[u8]]) -> Result<Value, String> {
    let answer = Connection::open(target).and_then(|mut connection| connection.call(words));
    answer.map_err(|why| explained(why.strip_prefix("ERR ").map(str::to_owned).unwrap_or(why)))
}
