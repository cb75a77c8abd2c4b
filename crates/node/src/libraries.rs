//! The libraries of functions of a node (FUNCTION LOAD), as one snapshot that is replaced as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use script::{Flags, Library};

/// All libraries, by name, and which of them each function is in.
#[derive(Clone, Default)]
pub struct Libraries {
    by_name: BTreeMap<Box<str>, Arc<Library>>,
    functions: BTreeMap<Box<str>, Arc<Library>>,
}

/// Why a library was not added.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotAdded {
    /// There is one of this name.
    Exists,
    /// Another library has a function of this name.
    Function(Box<str>),
}

impl Libraries {
    /// The library of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Library>> {
        self.by_name.get(name)
    }

    /// The library with this function, and what the function declares.
    pub fn function(&self, name: &str) -> Option<(&Arc<Library>, Flags)> {
        let library = self.functions.get(name)?;
        let function = library.functions().iter().find(|function| &*function.name == name)?;
        Some((library, function.flags))
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
            .find(|function| self.functions.get(&function.name).is_some_and(|other| other.name() != library.name()));
        if let Some(function) = taken {
            return Err(NotAdded::Function(function.name.clone()));
        }
        self.remove(library.name());
        let library = Arc::new(library);
        for function in library.functions() {
            self.functions.insert(function.name.clone(), library.clone());
        }
        self.by_name.insert(library.name().into(), library);
        Ok(())
    }

    /// Removes a library. False: there is none of this name.
    pub fn remove(&mut self, name: &str) -> bool {
        let removed = self.by_name.remove(name).is_some();
        self.functions.retain(|_, library| library.name() != name);
        removed
    }
}
