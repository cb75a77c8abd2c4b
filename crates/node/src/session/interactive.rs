//! BEGIN, COMMIT, ROLLBACK: transactions whose commands come one by one.
//!
//! Nothing is locked meanwhile. Keys that commands read are noted with their versions, and writes are kept here. COMMIT
//! locks the keys, checks that the versions are the same, and installs the writes (`transactions/interactive.rs`).

use command::{Error, Row, Spec, flags::*};

use super::transaction::Interactive;
use super::{Flow, SessionCtx, SessionRun};
use crate::config::Isolation;

const FLAGS: u32 = NOSCRIPT | NO_MULTI | NEEDS_CLUSTER | FAST;

const fn own(
    name: &'static str,
    arity: i32,
    syntax: &'static str,
    summary: &'static str,
    run: SessionRun,
) -> Row<SessionRun> {
    Row {
        spec: Spec { name, arity, flags: FLAGS, group: "transactions", since: "8.0.0", summary, syntax, ..Spec::NEW },
        run,
        subcommands: &[],
    }
}

/// The rows of the family.
pub const ROWS: &[Row<SessionRun>] = &[
    own(
        "begin",
        -1,
        "[strict-serializable | repeatable-read | read-committed]",
        "Begins a transaction whose commands are executed one by one.",
        begin,
    ),
    own("commit", 1, "", "Makes everything happen that was done since BEGIN, at one moment, or nothing.", commit),
    own("rollback", 1, "", "Forgets everything that was done since BEGIN.", rollback),
];

fn begin(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    if ctx.session.transaction.is_some() {
        return Err(Error::new("ERR a transaction has begun already: COMMIT or ROLLBACK ends it"));
    }
    let isolation = match ctx.args.get(1).map(<[u8]>::to_ascii_lowercase).as_deref() {
        None => ctx.settings.transaction_isolation,
        Some(b"strict-serializable") => Isolation::StrictSerializable,
        Some(b"repeatable-read") => Isolation::RepeatableRead,
        Some(b"read-committed") => Isolation::ReadCommitted,
        Some(_) => return Err(Error::SYNTAX),
    };
    if ctx.args.len() > 2 {
        return Err(Error::SYNTAX);
    }
    let user = ctx.session.user.principal;
    ctx.session.transaction = Some(Box::new(Interactive::new(isolation, user, ctx.engine.now())));
    ctx.reply().ok();
    Ok(Flow::Done)
}

/// A client with a transaction does not get here.
fn commit(_: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    Err(Error::new("ERR COMMIT without BEGIN"))
}

fn rollback(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    if ctx.session.transaction.take().is_none() {
        return Err(Error::new("ERR ROLLBACK without BEGIN"));
    }
    ctx.reply().ok();
    Ok(Flow::Done)
}
