//! MONITOR.

use command::{Error, Row, Spec, flags::*};

use super::{Flow, SessionCtx, SessionRun};

/// The rows of the family.
pub const ROWS: &[Row<SessionRun>] = &[Row {
    spec: Spec {
        name: "monitor",
        arity: 1,
        flags: ADMIN | NOSCRIPT | LOADING | STALE,
        group: "server",
        summary: "Listens for all requests received by the server in real-time.",
        ..Spec::NEW
    },
    run: monitor,
    subcommands: &[],
}];

fn monitor(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    if ctx.block.is_some() {
        return Err(Error::new("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    if !ctx.session.monitors {
        ctx.session.monitors = true;
        ctx.node.monitors.add(&ctx.session.client);
    }
    ctx.reply().ok();
    Ok(Flow::Done)
}

/// Ends MONITOR mode, if the client is in it (RESET, disconnect).
pub(crate) fn stop(node: &crate::Node, session: &mut super::Session) {
    if std::mem::take(&mut session.monitors) {
        node.monitors.remove(&session.client);
    }
}
