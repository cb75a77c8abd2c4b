//! SCRIPT KILL and FUNCTION KILL.

use command::Error;

use super::super::{Flow, SessionCtx};
use crate::scripts::NotKilled;

/// The error of a killed script.
pub(super) const KILLED: &str = "Script killed by user with SCRIPT KILL.";

pub(super) fn script(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    kill(ctx, false)
}

pub(super) fn function(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    kill(ctx, true)
}

fn kill(ctx: &mut SessionCtx<'_>, functions: bool) -> Result<Flow, Error> {
    match ctx.node.scripts.kill(functions) {
        Ok(()) => {
            // Some scripts may wait for keys of other nodes.
            ctx.node.look_all();
            ctx.reply().ok();
            Ok(Flow::Done)
        }
        Err(NotKilled::NotBusy) => Err(Error::new("NOTBUSY No scripts in execution right now.")),
        Err(NotKilled::Unkillable) => Err(Error::new(
            "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the \
             script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.",
        )),
        Err(NotKilled::OtherKind) if functions => {
            Err(Error::new("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."))
        }
        Err(NotKilled::OtherKind) => {
            Err(Error::new("BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."))
        }
    }
}
