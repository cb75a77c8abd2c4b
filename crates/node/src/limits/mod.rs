//! The memory that data, connections and the process may take, and how it is given back when it is too much.

pub(crate) mod address_space;
mod closing;
pub(crate) mod crowd;
pub(crate) mod memory;
pub(crate) mod resident;
pub(crate) mod room;
mod shortage;
pub(crate) mod system;
pub(crate) mod tidying;
