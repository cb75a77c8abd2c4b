//! `rename-command`: the command that a client means by a name.

use std::collections::BTreeMap;

/// Commands under other names, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renames {
    /// Names in lower case with another meaning: the command, or `None` if the name has none any more.
    meaning: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Renames {
    /// Takes the pairs of old and new name in order. `exists` says whether there is a command of a name, `is_known`
    /// whether Redis or Valkey have one. A command that only they have need not be hidden.
    ///
    /// # Errors
    ///
    /// The pair that is wrong, and the reason in Redis's words.
    pub fn new(
        pairs: &[(Vec<u8>, Vec<u8>)],
        exists: impl Fn(&[u8]) -> bool,
        is_known: impl Fn(&[u8]) -> bool,
    ) -> Result<Renames, (usize, &'static str)> {
        let mut renames = Renames::default();
        for (index, (from, to)) in pairs.iter().enumerate() {
            let failed = |why| Err((index, why));
            let (from, to) = (from.to_ascii_lowercase(), to.to_ascii_lowercase());
            let Some(command) = renames.meant(&from).map(<[u8]>::to_vec).filter(|name| exists(name) || is_known(name))
            else {
                return failed("No such command in rename-command");
            };
            if !exists(&command) {
                continue;
            }
            renames.meaning.insert(from, None);
            if to.is_empty() {
                continue;
            }
            if renames.meant(&to).is_some_and(&exists) {
                return failed("Target command name already exists");
            }
            renames.meaning.insert(to, Some(command));
        }
        Ok(renames)
    }

    /// True if no name is changed: then nothing need be looked up.
    pub fn is_empty(&self) -> bool {
        self.meaning.is_empty()
    }

    /// The command that a name (in lower case) stands for; `None` if it was removed.
    pub fn meant<'a>(&'a self, name: &'a [u8]) -> Option<&'a [u8]> {
        match self.meaning.get(name) {
            None => Some(name),
            Some(command) => command.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renames(pairs: &[(&str, &str)]) -> Result<Renames, String> {
        let pairs: Vec<_> = pairs.iter().map(|(from, to)| (from.as_bytes().to_vec(), to.as_bytes().to_vec())).collect();
        let exists = |name: &[u8]| [b"get".as_slice(), b"set", b"keys"].contains(&name);
        Renames::new(&pairs, exists, |name| name == b"sync").map_err(|(index, why)| format!("{index}: {why}"))
    }

    fn meant(renames: &Renames, name: &str) -> Option<String> {
        renames.meant(name.as_bytes()).map(|name| String::from_utf8_lossy(name).into_owned())
    }

    #[test]
    fn names_move_and_vanish() {
        let found = renames(&[("GET", "fetch"), ("keys", ""), ("fetch", "take"), ("set", "GET")]).unwrap();
        assert_eq!(meant(&found, "take"), Some("get".into()));
        assert_eq!(meant(&found, "get"), Some("set".into()), "a free name can be given away");
        assert_eq!([meant(&found, "fetch"), meant(&found, "keys"), meant(&found, "set")], [None, None, None]);
        assert_eq!(meant(&found, "other"), Some("other".into()));
        assert!(renames(&[]).unwrap().is_empty() && !found.is_empty());
    }

    #[test]
    fn refusals() {
        assert!(renames(&[("none", "x")]).unwrap_err().contains("No such command"));
        assert!(renames(&[("get", ""), ("get", "x")]).unwrap_err().contains("No such command"));
        assert!(
            renames(&[("keys", ""), ("get", "SET")]).unwrap_err().starts_with("1: Target command name already exists")
        );
    }

    #[test]
    fn a_command_that_only_redis_has_needs_no_other_name() {
        assert!(renames(&[("SYNC", ""), ("sync", "other")]).unwrap().is_empty());
    }
}
