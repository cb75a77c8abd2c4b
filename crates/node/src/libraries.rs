//! The libraries of functions of a node (FUNCTION LOAD), as one snapshot that is replaced as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use script::{Function, Library};

/// All libraries, by name, and which of them each function is in.
#[derive(Clone, Default)]
pub struct Libraries {
    by_name: BTreeMap<Box<str>, Arc<Library>>,
    /// By their names in lower case, as Redis compares them.
    functions: BTreeMap<Box<str>, (Arc<Library>, Box<str>)>,
}

/// Why a library was not added.
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
    pub fn add(&mut self, library: Library, replace: bool) -> Result<(), NotAdded> {
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
        let library = Arc::new(library);
        for function in library.functions() {
            self.functions.insert(lower(function), (library.clone(), function.name.clone()));
        }
        self.by_name.insert(library.name().into(), library);
        Ok(())
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
