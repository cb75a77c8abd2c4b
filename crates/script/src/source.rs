//! The text of a script and what its first line says about it.

use crate::Error;
use object::sha1;
use std::sync::Arc;

/// The declaration of a script or a function (`flags=` of the shebang, `flags` of `redis.register_function`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags {
    /// `no-writes`: calls no command that writes.
    pub no_writes: bool,
    /// `allow-oom`: may run, and write, when memory is used up.
    pub allow_oom: bool,
    /// `allow-stale`: may run on a replica that has lost its primary.
    pub allow_stale: bool,
    /// `no-cluster`: refuses to run in a cluster.
    pub no_cluster: bool,
    /// `allow-cross-slot-keys`.
    pub allow_cross_slot_keys: bool,
}

impl Flags {
    /// In the order in which Redis lists them.
    const NAMES: [&'static str; 5] = ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

    /// Sets the flag of this name; false if there is none.
    pub(crate) fn set(&mut self, name: &[u8]) -> bool {
        match name {
            b"no-writes" => self.no_writes = true,
            b"allow-oom" => self.allow_oom = true,
            b"allow-stale" => self.allow_stale = true,
            b"no-cluster" => self.no_cluster = true,
            b"allow-cross-slot-keys" => self.allow_cross_slot_keys = true,
            _ => return false,
        }
        true
    }

    /// The names of those set (`FUNCTION LIST`).
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let set = [self.no_writes, self.allow_oom, self.allow_stale, self.no_cluster, self.allow_cross_slot_keys];
        Self::NAMES.into_iter().zip(set).filter_map(|(name, set)| set.then_some(name))
    }
}

/// A script for `EVAL`.
#[derive(Debug, Clone)]
pub struct Source {
    sha: [u8; 40],
    body: Arc<[u8]>,
    /// Where the Lua begins: behind the shebang, at its line break, so that lines are counted right.
    lua: usize,
    flags: Option<Flags>,
}

impl Source {
    /// Reads the shebang and computes the SHA1. Whether the rest is Lua is for [`crate::Machine::compile`] to say.
    ///
    /// # Errors
    /// Redis's, for a shebang that it would refuse.
    pub fn parse(body: &[u8]) -> Result<Self, Error> {
        let (flags, lua) = shebang(body)?;
        Ok(Self { sha: Self::sha_of(body), body: body.into(), lua, flags })
    }

    /// The SHA1 of a script in lower-case hexadecimal digits.
    pub fn sha_of(body: &[u8]) -> [u8; 40] {
        sha1::hex(body)
    }

    /// The SHA1 of the whole text in lower-case hexadecimal digits.
    pub fn sha(&self) -> &[u8; 40] {
        &self.sha
    }

    /// The whole text.
    pub fn body(&self) -> &Arc<[u8]> {
        &self.body
    }

    /// The declaration in the shebang; `None` without one: then the script may do everything that its caller may
    /// (Redis's compatibility mode).
    pub fn flags(&self) -> Option<Flags> {
        self.flags
    }

    pub(crate) fn lua(&self) -> &[u8] {
        self.body.get(self.lua..).unwrap_or_default()
    }
}

fn shebang(body: &[u8]) -> Result<(Option<Flags>, usize), Error> {
    if !body.starts_with(b"#!") {
        return Ok((None, 0));
    }
    let Some(end) = body.iter().position(|byte| *byte == b'\n') else {
        return Err(Error::new("ERR Invalid script shebang"));
    };
    let parts = resp::split_args(&body[..end]).unwrap_or_default();
    let Some((engine, options)) = parts.split_first() else {
        return Err(Error::new("ERR Invalid engine in script shebang"));
    };
    let refuse = |what: &str, which: &[u8]| Err(Error::new(format!("ERR {what}: {}", String::from_utf8_lossy(which))));
    if engine != b"#!lua" {
        return refuse("Unexpected engine in script shebang", engine);
    }
    let mut flags = Flags::default();
    for option in options {
        let Some(list) = option.strip_prefix(b"flags=") else {
            return refuse("Unknown lua shebang option", option);
        };
        if list.is_empty() {
            continue;
        }
        for name in list.split(|byte| *byte == b',') {
            if !flags.set(name) {
                return refuse("Unexpected flag in script shebang", name);
            }
        }
    }
    Ok((Some(flags), end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(body: &str) -> String {
        Source::parse(body.as_bytes()).unwrap_err().text().to_owned()
    }

    #[test]
    fn shebangs() {
        let source = Source::parse(b"return 1").unwrap();
        assert_eq!((source.flags(), source.lua()), (None, &b"return 1"[..]));
        assert_eq!(source.sha(), b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        let source = Source::parse(b"#!lua flags=no-writes,allow-stale\nreturn 1").unwrap();
        assert_eq!(source.lua(), b"\nreturn 1");
        assert!(source.flags().unwrap().names().eq(["no-writes", "allow-stale"]));
        assert_eq!(Source::parse(b"#!lua\n").unwrap().flags(), Some(Flags::default()));
        assert_eq!(error("#!lua"), "ERR Invalid script shebang");
        assert_eq!(error("#!not-lua\n"), "ERR Unexpected engine in script shebang: #!not-lua");
        assert_eq!(error("#!lua bad=1\n"), "ERR Unknown lua shebang option: bad=1");
        assert_eq!(error("#!lua flags=bad\n"), "ERR Unexpected flag in script shebang: bad");
    }
}
