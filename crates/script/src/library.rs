//! Libraries of functions.

use crate::{Error, Flags, Machine, load};
use std::sync::Arc;

/// A function of a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name. Unique among all libraries; that is for the host to see to.
    pub name: Box<str>,
    /// Its description.
    pub description: Option<Box<[u8]>>,
    /// Its declared flags.
    pub flags: Flags,
}

/// A library loaded by `FUNCTION LOAD`. Machines load its code when one of its functions is first called there, and
/// forget it after the last [`Arc`] is gone.
#[derive(Debug)]
pub struct Library {
    name: Box<str>,
    code: Arc<[u8]>,
    /// Where the Lua begins: behind the shebang, at its line break.
    lua: usize,
    functions: Vec<Function>,
}

impl Library {
    /// The name in the shebang.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of its engine.
    pub fn engine(&self) -> &'static str {
        "LUA"
    }

    /// The whole text, with the shebang.
    pub fn code(&self) -> &Arc<[u8]> {
        &self.code
    }

    /// Its functions, ordered by name.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// Its function of this name.
    pub fn function(&self, name: &str) -> Option<&Function> {
        let at = self.functions.binary_search_by(|function| (*function.name).cmp(name)).ok()?;
        self.functions.get(at)
    }

    pub(crate) fn lua(&self) -> &[u8] {
        self.code.get(self.lua..).unwrap_or_default()
    }
}

/// Bytes above which a machine that has learnt a library is cleaned: little more than it needs itself.
const GARBAGE: usize = 80 << 10;

/// True if this may name a library or a function.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// The name in a library's shebang, and where the Lua begins (`FUNCTION LOAD` without running anything).
///
/// # Errors
/// Redis's, for a shebang that it would refuse.
pub fn library_name(code: &[u8]) -> Result<(Box<str>, usize), Error> {
    if !code.starts_with(b"#!") {
        return Err(Error::new("ERR Missing library metadata"));
    }
    let Some(end) = code.iter().position(|byte| *byte == b'\n') else {
        return Err(Error::new("ERR Invalid library metadata"));
    };
    let parts = resp::split_args(&code[..end]).unwrap_or_default();
    let Some((engine, options)) = parts.split_first() else {
        return Err(Error::new("ERR Invalid library metadata"));
    };
    let mut name = None;
    for option in options {
        match option.split_at_checked(5) {
            Some((key, value)) if key.eq_ignore_ascii_case(b"name=") => {
                if name.replace(value).is_some() {
                    return Err(Error::new("ERR Invalid metadata value, name argument was given multiple times"));
                }
            }
            _ => {
                let option = String::from_utf8_lossy(option);
                return Err(Error::new(format!("ERR Invalid metadata value given: {option}")));
            }
        }
    }
    let Some(name) = name else { return Err(Error::new("ERR Library name was not given")) };
    if !is_name(name) {
        return Err(Error::new(
            "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long",
        ));
    }
    let engine = engine.get(2..).unwrap_or_default();
    if !engine.eq_ignore_ascii_case(b"lua") {
        return Err(Error::new(format!("ERR Engine '{}' not found", String::from_utf8_lossy(engine))));
    }
    Ok((String::from_utf8_lossy(name).into(), end))
}

/// Runs a library's code to learn its functions (`FUNCTION LOAD`). The host checks whether its name or those of its
/// functions are taken.
///
/// # Errors
///
/// Redis's.
pub fn load_library(machine: &mut Machine, code: &[u8]) -> Result<Library, Error> {
    let (name, lua) = library_name(code)?;
    let loaded = load::load(machine, &code[lua..])?;
    let functions: Vec<Function> = loaded.functions().cloned().collect();
    // The machine loads it again when it is called: the registry must not depend on which machine loaded it first.
    let mut frame = machine.state.frame();
    loaded.references().for_each(|reference| frame.let_go(reference));
    if frame.shared().used() > GARBAGE {
        // Loading leaves much more behind than running does, and is rare.
        frame.collect();
    }
    if functions.is_empty() {
        return Err(Error::new("ERR No functions registered"));
    }
    Ok(Library { name, code: code.into(), lua, functions })
}
