//! CLUSTER: the nodes and their slots, for clients; READONLY, READWRITE, ASKING.

mod admin;
mod failover;
mod groups;
mod map;
mod nodes;
mod slots;
mod standbys;
mod stats;

pub(super) use failover::of_owner;
pub(super) use standbys::replica_of;
pub(super) use stats::slot_of_argument;

use command::{Error, Row, Spec, flags::*};

use super::{Flow, SessionCtx, SessionRun, container, help, tipped};
use crate::cluster::copied::primary_of;
use crate::config::Redirect;

const fn sub(
    name: &'static str,
    arity: i32,
    since: &'static str,
    syntax: &'static str,
    summary: &'static str,
    run: SessionRun,
) -> Row<SessionRun> {
    let flags = LOADING | STALE | NEEDS_CLUSTER;
    let complexity = "O(N) where N is the total number of cluster nodes";
    let spec = Spec { name, arity, flags, group: "cluster", since, complexity, syntax, summary, ..Spec::NEW };
    Row { spec, run, subcommands: &[] }
}

/// A subcommand about the cluster as a whole, which waits for an answer.
const fn of_all(
    name: &'static str,
    arity: i32,
    since: &'static str,
    flags: u32,
    syntax: &'static str,
    summary: &'static str,
    run: SessionRun,
) -> Row<SessionRun> {
    let flags = flags | LOADING | STALE | NEEDS_CLUSTER | NOSCRIPT | NO_MULTI;
    let complexity = "O(N) where N is the total number of cluster nodes";
    let spec = Spec { name, arity, flags, group: "cluster", since, complexity, syntax, summary, ..Spec::NEW };
    Row { spec, run, subcommands: &[] }
}

const fn admin(mut row: Row<SessionRun>) -> Row<SessionRun> {
    row.spec.flags |= ADMIN;
    row
}

const fn row(
    name: &'static str,
    flags: u32,
    since: &'static str,
    summary: &'static str,
    run: SessionRun,
) -> Row<SessionRun> {
    let flags = flags | FAST | NEEDS_CLUSTER;
    let categories = &["connection"];
    let spec = Spec { name, arity: 1, flags, group: "cluster", categories, since, summary, ..Spec::NEW };
    Row { spec, run, subcommands: &[] }
}

/// The rows of the family.
pub const ROWS: &[Row<SessionRun>] = &[
    Row {
        spec: command::CLUSTER,
        run: container,
        subcommands: &[
            of_all(
                "failover",
                -2,
                "3.0.0",
                ADMIN,
                "[FORCE | TAKEOVER]",
                "Forces a replica to perform a manual failover of its master.",
                failover::failover,
            ),
            of_all(
                "finalize",
                2,
                "8.0.0",
                ADMIN,
                "",
                "Raises the level of the cluster to the highest that all nodes speak; none goes back to an earlier build.",
                admin::finalize,
            ),
            of_all(
                "forget",
                -3,
                "3.0.0",
                ADMIN,
                "node-id [LOSE-DATA]",
                "Takes a node out of the cluster; with LOSE-DATA also one that owns slots, which the others get, empty.",
                admin::forget,
            ),
            of_all(
                "group",
                -3,
                "8.0.0",
                ADMIN,
                "<ADD name [place ...] | SHOW | USE <name | -> [shard ...] | REPLACE place place [name]>",
                "Makes log groups, shows them, has shards use one, puts a place in place of another.",
                groups::group,
            ),
            sub("help", 2, "5.0.0", "", "Returns helpful text about the different subcommands.", help),
            tipped(
                &["nondeterministic_output"],
                sub("info", 2, "3.0.0", "", "Returns information about the state of a node.", nodes::info),
            ),
            sub("keyslot", 3, "3.0.0", "key", "Returns the hash slot for a key.", keyslot),
            of_all(
                "leave",
                2,
                "8.0.0",
                ADMIN,
                "",
                "Takes this node out of the cluster, if it owns no slots.",
                admin::leave,
            ),
            tipped(
                &["nondeterministic_output"],
                sub("links", 2, "7.0.0", "", "Returns a list of all TCP links to and from peer nodes.", nodes::links),
            ),
            sub("myid", 2, "3.0.0", "", "Returns the ID of a node.", myid),
            tipped(
                &["nondeterministic_output"],
                sub("myshardid", 2, "7.2.0", "", "Returns the shard ID of a node.", myshardid),
            ),
            tipped(
                &["nondeterministic_output"],
                sub("nodes", 2, "3.0.0", "", "Returns the cluster configuration for a node.", nodes::nodes),
            ),
            of_all(
                "recover",
                5,
                "8.0.0",
                ADMIN,
                "shard ON node",
                "Has a node without slots take over a shard whose owner is lost, from the copies of its log.",
                groups::recover,
            ),
            tipped(
                &["nondeterministic_output"],
                admin(sub(
                    "replicas",
                    3,
                    "5.0.0",
                    "node-id",
                    "Lists the replica nodes of a master node.",
                    nodes::replicas,
                )),
            ),
            of_all(
                "replicate",
                -3,
                "3.0.0",
                ADMIN,
                "<node-id | NO ONE>",
                "Configure a node as replica of a master node.",
                standbys::replicate,
            ),
            sub(
                "redirect",
                3,
                "8.0.0",
                "<FORWARD | MOVED | DEFAULT>",
                "Chooses what this connection gets for a key of another node: the reply, or -MOVED and where to.",
                redirect,
            ),
            tipped(
                &["nondeterministic_output"],
                sub("shards", 2, "7.0.0", "", "Returns the mapping of cluster slots to shards.", slots::shards),
            ),
            tipped(
                &["nondeterministic_output"],
                admin(sub(
                    "slaves",
                    3,
                    "3.0.0",
                    "node-id",
                    "Lists the replica nodes of a master node.",
                    nodes::replicas,
                )),
            ),
            stats::ROW,
            tipped(
                &["nondeterministic_output"],
                sub("slots", 2, "3.0.0", "", "Returns the mapping of cluster slots to nodes.", slots::slots),
            ),
            of_all(
                "standby",
                6,
                "8.0.0",
                ADMIN,
                "<ADD | REMOVE> shard ON node",
                "Has a node keep a copy of a shard's data, from which it takes the shard over, or not any more.",
                standbys::standby,
            ),
            of_all(
                "switchover",
                -3,
                "8.0.0",
                ADMIN,
                "shard [TO node]",
                "Gives a shard to one of its standbys in order.",
                failover::switchover,
            ),
            of_all("status", 2, "8.0.0", 0, "", "Returns how the cluster is, as a table for people.", admin::status),
        ],
    },
    row("asking", 0, "3.0.0", "Signals that a cluster client is following an -ASK redirect.", ok),
    row(
        "readonly",
        LOADING | STALE,
        "3.0.0",
        "Enables read-only queries for a connection to a Redis Cluster replica node.",
        readonly,
    ),
    row(
        "readwrite",
        LOADING | STALE,
        "3.0.0",
        "Enables read-write queries for a connection to a Redis Cluster replica node.",
        readwrite,
    ),
];

fn ok(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    ctx.reply().ok();
    Ok(Flow::Done)
}

fn readonly(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    ctx.session.reads_copies = true;
    ok(ctx)
}

fn readwrite(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    ctx.session.reads_copies = false;
    ok(ctx)
}

fn keyslot(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let slot = keyspace::slot_of(ctx.arg(2));
    ctx.reply().count(slot.into());
    Ok(Flow::Done)
}

fn myid(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let id = ctx.node.cluster().map(|cluster| cluster.me().to_string()).unwrap_or_default();
    ctx.reply().bulk(id);
    Ok(Flow::Done)
}

/// A standby and the owner of its data are one shard.
fn myshardid(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let (map, me) = map::map(ctx)?;
    match me.and_then(|me| primary_of(&map, me)) {
        Some(primary) => ctx.reply().bulk(map.node(primary).id.to_string()),
        None => return myid(ctx),
    }
    Ok(Flow::Done)
}

fn redirect(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    ctx.session.redirect = match () {
        () if ctx.is(2, "forward") => Some(Redirect::Forward),
        () if ctx.is(2, "moved") => Some(Redirect::Moved),
        () if ctx.is(2, "default") => None,
        () => return Err(Error::SYNTAX),
    };
    ctx.reply().ok();
    Ok(Flow::Done)
}
