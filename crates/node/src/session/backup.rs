//! HOLDFAST: commands that only this server has.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use command::{Error, Row, Spec, flags::*};

use super::script::take_text;
use super::{Flow, SessionCtx, SessionRun, container, help};
use crate::durability::cut::{Exporter, Order};
use crate::push::delivery::Kind;
use crate::worker::jobs::Task;

/// The rows of the family.
pub const ROWS: &[Row<SessionRun>] = &[Row {
    spec: Spec {
        name: "holdfast",
        arity: -2,
        group: "server",
        since: "8.0.0",
        complexity: "Depends on subcommand.",
        summary: "A container for commands that Redis does not have.",
        ..Spec::NEW
    },
    run: container,
    subcommands: &[
        Row {
            spec: Spec {
                name: "backup",
                arity: 3,
                flags: ADMIN | NOSCRIPT | NO_MULTI,
                group: "server",
                since: "8.0.0",
                complexity: "O(N) where N is the size of the data",
                summary: "Writes a backup of one moment to a new directory, and answers when it is complete.",
                syntax: "directory",
                ..Spec::NEW
            },
            run: backup,
            subcommands: &[],
        },
        Row {
            spec: Spec {
                name: "export",
                arity: -3,
                flags: ADMIN | NOSCRIPT | NO_MULTI,
                group: "server",
                since: "8.0.0",
                complexity: "O(N) where N is the size of the data",
                summary: "A step of an export over nodes, as `holdfast export` takes it.",
                syntax: "<BEGIN | HOLD milliseconds | MOMENT | RELEASE | SEND>",
                ..Spec::NEW
            },
            run: export,
            subcommands: &[],
        },
        Row {
            spec: Spec {
                name: "help",
                arity: 2,
                flags: LOADING | STALE,
                group: "server",
                since: "8.0.0",
                summary: "Returns helpful text about the different subcommands.",
                ..Spec::NEW
            },
            run: help,
            subcommands: &[],
        },
        Row {
            spec: Spec {
                name: "receivers",
                arity: 4,
                flags: FAST | LOADING | STALE,
                group: "server",
                since: "8.0.0",
                summary: "Returns how many subscribers of this node a message would reach; nodes ask each other.",
                syntax: "<CHANNEL | SHARD> channel",
                ..Spec::NEW
            },
            run: receivers,
            subcommands: &[],
        },
        Row {
            spec: Spec {
                name: "text",
                arity: 3,
                flags: NOSCRIPT | STALE,
                group: "server",
                since: "8.0.0",
                summary: "Remembers a script as EVAL does; owners of shards give their standbys what they know.",
                syntax: "script",
                ..Spec::NEW
            },
            run: take_text,
            subcommands: &[],
        },
    ],
}];

fn receivers(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let kind = match () {
        () if ctx.is(2, "channel") => Kind::Channel,
        () if ctx.is(2, "shard") => Kind::Shard,
        () => return Err(Error::SYNTAX),
    };
    let receivers = ctx.node.receivers(kind, ctx.arg(3));
    ctx.reply().count(receivers as u64);
    Ok(Flow::Done)
}

/// A client that may make backups may write below the working directory; elsewhere only a client that may change `dir`.
fn backup(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let path = Path::new(OsStr::from_bytes(ctx.arg(2)));
    let peer = &ctx.session.client.peer;
    let below = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if path.as_os_str().is_empty() {
        return Err(Error::new("ERR the directory of a backup needs a name"));
    }
    if !below && !ctx.settings.enable_protected_configs.admits(peer.unix || peer.loopback) {
        return Err(Error::new(
            "ERR a directory outside of 'dir' needs enable-protected-configs, as 'dir' itself does",
        ));
    }
    if ctx.node.durable().is_none() {
        return Err(Error::new("ERR a backup needs 'appendonly yes'"));
    }
    if ctx.node.jobs.has_backup() {
        return Err(Error::new("ERR another backup is under way"));
    }
    let job = ctx.node.jobs.ask(Task::Backup(path.to_owned()));
    job.map(Flow::Job).ok_or(Error::new("ERR this server has no thread that makes backups"))
}

/// Writes are held back for so many milliseconds at most.
const HOLD_MAX: i64 = 5_000;

/// A step of an export over nodes.
fn export(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let order = match ctx.args.len() {
        3 if ctx.is(2, "begin") => return begin_export(ctx),
        4 if ctx.is(2, "hold") => match ctx.int(3)? {
            time @ 1..=HOLD_MAX => Order::Hold(time as u64),
            _ => return Err(Error::new("ERR writes are held back for 1 to 5000 milliseconds")),
        },
        3 if ctx.is(2, "moment") => Order::Moment,
        3 if ctx.is(2, "release") => Order::Release,
        3 if ctx.is(2, "send") => Order::Send,
        _ => return Err(Error::SYNTAX),
    };
    let exporter = ctx.session.exporter.as_ref().ok_or(Error::new("ERR HOLDFAST EXPORT BEGIN comes first"))?;
    Ok(Flow::Job(exporter.order(order)))
}

fn begin_export(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let exporter = Exporter::default();
    let job = ctx.node.snapshots.jobs.ask(Task::Cut(exporter.0.clone()));
    // An earlier one is over.
    ctx.session.exporter = Some(exporter);
    job.map(Flow::Job).ok_or(Error::new("ERR this server has no thread that makes snapshots"))
}
