//! How much memory data, connections and the process may take, and what is given back when it is too much.

pub(crate) mod address_space;
pub(crate) mod crowd;
pub(crate) mod resident;
pub(crate) mod room;
pub(crate) mod tidying;
