//! The libraries of functions of a node (FUNCTION LOAD), as one snapshot that is replaced as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use script::{Function, Library, Limits, Machine, load_library, restore_libraries};

/// All libraries, by name, and the library of each function.
#[derive(Clone, Default)]
pub struct Libraries {
    by_name: BTreeMap<Box<str>, Arc<Library>>,
    /// By their names in lower case, as Redis compares them.
    functions: BTreeMap<Box<str>, (Arc<Library>, Box<str>)>,
}

/// Libraries, and the users that a cluster has agreed on with them (`cluster/agreed.rs`).
#[derive(Clone, Default)]
pub struct Agreed {
    /// The version in the metadata; 0 if they are this server's own.
    pub version: u64,
    /// The libraries.
    pub libraries: Arc<Libraries>,
    /// The users, as bytes; empty if nobody has changed any.
    pub users: Arc<[u8]>,
}

/// The reason why a library was not added.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotAdded {
    /// There is one of this name.
    Exists,
    /// Another library has a function of this name.
    Function(Box<str>),
}

fn lower(function: &Function) -> Box<str> {
    function.name.to_ascii_lowercase().into()
}

impl Libraries {
    /// The library of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Library>> {
        self.by_name.get(name)
    }

    /// The function of this name, in any case, and its library.
    pub fn function(&self, name: &str) -> Option<(&Arc<Library>, &Function)> {
        let (library, exact) = self.functions.get(name.to_ascii_lowercase().as_str())?;
        Some((library, library.function(exact)?))
    }

    /// All libraries in the order of their names.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Library>> {
        self.by_name.values()
    }

    /// Number of libraries and of functions.
    pub fn count(&self) -> (usize, usize) {
        (self.by_name.len(), self.functions.len())
    }

    /// Adds a library. `replace`: it may take the place of one of its name.
    pub fn add(&mut self, library: Arc<Library>, replace: bool) -> Result<(), NotAdded> {
        let old = self.by_name.get(library.name());
        if old.is_some() && !replace {
            return Err(NotAdded::Exists);
        }
        let taken = library
            .functions()
            .iter()
            .find(|function| self.functions.get(&lower(function)).is_some_and(|(of, _)| of.name() != library.name()));
        if let Some(function) = taken {
            return Err(NotAdded::Function(function.name.clone()));
        }
        self.remove(library.name());
        for function in library.functions() {
            self.functions.insert(lower(function), (library.clone(), function.name.clone()));
        }
        self.by_name.insert(library.name().into(), library);
        Ok(())
    }

    /// All libraries, as FUNCTION DUMP gives them.
    pub fn dump(&self) -> Vec<u8> {
        script::dump_libraries(self.all().map(|library| &**library))
    }

    /// Loads the output of [`Self::dump`]. Libraries in `known` are not loaded again: workers go on with those that
    /// they have compiled.
    ///
    /// # Errors
    ///
    /// The reason, in words.
    pub fn restore(dumped: &[u8], known: &Self) -> Result<Self, String> {
        if dumped.is_empty() {
            return Ok(Self::default());
        }
        let codes = restore_libraries(dumped).map_err(|error| error.text().to_owned())?;
        Self::of_codes(&codes, known)
    }

    /// As [`Self::restore`], of the code of each library.
    pub fn of_codes(codes: &[Vec<u8>], known: &Self) -> Result<Self, String> {
        let mut libraries = Self::default();
        let text = |error: script::Error| error.text().to_owned();
        // The use of a library was checked when it was loaded.
        let mut machine = Machine::new(Limits { deprecated: true, ..Limits::default() }).map_err(text)?;
        for code in codes {
            let library = match known.all().find(|library| library.code()[..] == code[..]) {
                Some(library) => Arc::clone(library),
                None => Arc::new(load_library(&mut machine, code).map_err(text)?),
            };
            libraries.add(library, true).map_err(|why| format!("{why:?}"))?;
        }
        Ok(libraries)
    }

    /// Removes a library. False: there is none of this name.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some(library) = self.by_name.remove(name) else { return false };
        for function in library.functions() {
            self.functions.remove(&lower(function));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(name: &str, value: u32) -> Arc<Library> {
        let code = format!("#!lua name={name}\nredis.register_function('{name}', function() return {value} end)");
        let mut machine = Machine::new(Limits::default()).unwrap();
        Arc::new(load_library(&mut machine, code.as_bytes()).unwrap())
    }

    #[test]
    fn what_is_the_same_is_not_loaded_again() {
        let (mut known, mut next) = (Libraries::default(), Libraries::default());
        for (name, value) in [("a", 1), ("b", 2)] {
            known.add(library(name, value), false).unwrap();
            next.add(library(name, value * 2 - 1), false).unwrap();
        }
        let restored = Libraries::restore(&next.dump(), &known).unwrap();
        assert_eq!(restored.dump(), next.dump());
        let is_same = |name: &str| Arc::ptr_eq(restored.get(name).unwrap(), known.get(name).unwrap());
        assert!(is_same("a") && !is_same("b"));
        assert_eq!(Libraries::restore(&[], &known).unwrap().count(), (0, 0));
    }
}
