//! One Lua state with its libraries, and the scripts compiled in it.

use crate::library::Library;
use crate::load::{self, Loaded};
use crate::lua::fiber::Stack;
use crate::lua::{Frame, State};
use crate::sandbox::{self, Globals};
use crate::{Error, Source};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::ffi::c_int;
use std::fmt;
use std::sync::{Arc, Weak};

/// The limits of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that a script may make the machine hold; beyond it allocation fails with a Lua error (`not enough
    /// memory`).
    pub memory: usize,
    /// Instructions, or work in library functions worth as much, between two [`crate::Step::SliceOver`].
    pub slice: u32,
    /// Slices that loading a library may take (`FUNCTION LOAD timeout`).
    pub load_slices: u32,
    /// True if there are `getfenv`, `setfenv` and `newproxy` (`lua-enable-deprecated-api`).
    pub deprecated: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: 512 << 20, slice: 20_000, load_slices: 2_500, deprecated: false }
    }
}

/// Bytes of garbage that an idle machine may keep.
const GARBAGE: usize = 16 << 20;
/// Scripts kept compiled; above it all are compiled again when they are needed.
const SCRIPTS_MAX: usize = 2_000;

/// One Lua state with the sandbox and all libraries. Stays on the thread that made it; a worker keeps one, and more
/// when scripts are suspended.
pub struct Machine {
    pub(crate) state: State,
    pub(crate) globals: Globals,
    pub(crate) stack: Option<Stack>,
    limits: Limits,
    /// Bytes that Lua held after the last collection between two scripts.
    kept: usize,
    /// Compiled functions in the registry, by SHA1.
    scripts: HashMap<[u8; 40], c_int, FixedState>,
    libraries: Vec<(Weak<Library>, Loaded)>,
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Machine {
    /// A new machine.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn new(limits: Limits) -> Result<Self, Error> {
        let no_memory = || Error::new("ERR no memory for a Lua machine");
        let mut state = State::new(limits.memory, limits.slice).ok_or_else(no_memory)?;
        let globals = sandbox::build(&mut state, limits.deprecated);
        let scripts = HashMap::with_hasher(FixedState::default());
        Ok(Self { state, globals, stack: None, limits, kept: 0, scripts, libraries: Vec::new() })
    }

    /// Bytes that Lua holds.
    pub fn memory(&self) -> usize {
        self.state.shared().used()
    }

    /// Compiles a script unless this machine has it (`SCRIPT LOAD`, `EVAL`).
    ///
    /// # Errors
    /// `ERR Error compiling script (new function): ...`.
    pub fn compile(&mut self, source: &Source) -> Result<(), Error> {
        self.function(source).map(drop)
    }

    /// The compiled script in the registry.
    pub(crate) fn function(&mut self, source: &Source) -> Result<c_int, Error> {
        if let Some(reference) = self.scripts.get(source.sha()) {
            return Ok(*reference);
        }
        if self.scripts.len() >= SCRIPTS_MAX {
            self.forget_scripts();
        }
        self.state.set_globals(self.globals.eval);
        let mut frame = self.state.frame();
        if !frame.compile(source.lua(), c"@user_script") {
            return Err(take_error(&mut frame, "ERR Error compiling script (new function): "));
        }
        let reference = frame.keep();
        self.scripts.insert(*source.sha(), reference);
        Ok(reference)
    }

    /// A function of a library in the registry; the library is loaded if this machine has not used it before.
    pub(crate) fn library_function(&mut self, library: &Arc<Library>, name: &str) -> Result<c_int, Error> {
        let known = |(weak, _): &&(Weak<Library>, Loaded)| weak.as_ptr() == Arc::as_ptr(library);
        let found = self.libraries.iter().find(known).map(|(_, loaded)| loaded.reference(name));
        let reference = match found {
            Some(reference) => reference,
            None => {
                self.forget_dead_libraries();
                let loaded = load::load(self, library.lua())?;
                let reference = loaded.reference(name);
                self.libraries.push((Arc::downgrade(library), loaded));
                reference
            }
        };
        reference.ok_or_else(|| Error::new("ERR Function not found"))
    }

    /// Slices that loading may take.
    pub(crate) fn load_slices(&self) -> u32 {
        self.limits.load_slices
    }

    /// A stack for a script to run on.
    pub(crate) fn take_stack(&mut self) -> Result<Stack, Error> {
        match self.stack.take() {
            Some(stack) => Ok(stack),
            None => {
                let again = |error| if headroom::release() { Stack::new() } else { Err(error) };
                Stack::new().or_else(again).map_err(|error| Error::new(format!("OOM no stack for a script: {error}")))
            }
        }
    }

    /// After a script: nothing of it is left on the stack, and not much garbage.
    pub(crate) fn recover(&mut self) {
        let shared = self.state.shared();
        shared.reset(0);
        let much = shared.used().saturating_sub(self.kept) > GARBAGE.min(self.limits.memory / 4);
        let mut frame = self.state.frame();
        frame.truncate(0);
        if much {
            frame.collect();
            self.kept = self.state.shared().used();
        }
        self.state.shared().report();
    }

    fn forget_scripts(&mut self) {
        let mut frame = self.state.frame();
        for (_, reference) in self.scripts.drain() {
            frame.let_go(reference);
        }
    }

    /// Libraries that were deleted or replaced.
    fn forget_dead_libraries(&mut self) {
        let mut frame = self.state.frame();
        self.libraries.retain(|(library, loaded)| {
            let alive = library.strong_count() > 0;
            if !alive {
                loaded.references().for_each(|reference| frame.let_go(reference));
            }
            alive
        });
    }

    /// Forgets all compiled scripts, and libraries without an owner, and collects garbage (`SCRIPT FLUSH`, `FUNCTION
    /// FLUSH`).
    pub fn forget(&mut self) {
        self.forget_scripts();
        self.forget_dead_libraries();
        self.state.frame().collect();
        self.kept = self.memory();
    }
}

/// Takes the message on top as an error.
fn take_error(frame: &mut Frame<'_>, prefix: &str) -> Error {
    let text = String::from_utf8_lossy(frame.bytes(-1).unwrap_or_default()).into_owned();
    frame.pop(1);
    Error::new(format!("{prefix}{text}"))
}
