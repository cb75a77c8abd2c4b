//! Resuming suspended commands.

use super::suspended::{Suspended, What};
use super::{Flow, Multi, SessionCtx};

impl Suspended {
    /// Lets it go on for a while, as the command it is, with [`Self::out`] as the output.
    pub fn go_on(self, ctx: &mut SessionCtx<'_>) -> Flow {
        match self.what {
            What::Script(script) => script.go_on(ctx),
            What::Exec(exec) => exec.go_on(ctx),
        }
    }

    /// Gives it up, in a workspace: it runs again from the start, or not at all. Returns the block for that.
    pub fn give_up(self, ctx: &mut SessionCtx<'_>) -> Option<Box<Multi>> {
        match self.what {
            What::Script(_) => None,
            What::Exec(exec) => Some(exec.give_up(ctx)),
        }
    }

    /// True if its script is to end because a client has killed it.
    pub fn is_killed(&self) -> bool {
        match &self.what {
            What::Script(script) => script.is_killed(),
            What::Exec(exec) => exec.is_killed(),
        }
    }

    /// The latches it holds.
    pub fn block(&self) -> Option<&engine::BlockRun> {
        match &self.what {
            What::Script(script) => script.block(),
            What::Exec(exec) => Some(exec.block()),
        }
    }
}
