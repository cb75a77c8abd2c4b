//! Configuration as data: rows say what settings there are, everything else follows them.
//!
//! - [`Row`] and [`SECTIONS`]: a setting is one row; [`Values`] holds what all of them are set to.
//! - [`Settings`]: the same as plain typed fields, for the data plane.

mod check;
mod kind;
mod line;
mod row;
mod rows;
mod settings;
mod special;
mod table;
mod values;

pub use kind::{Kind, Refusal, Value};
pub use row::{Acts, Row, Section};
pub use rows::SECTIONS;
pub use settings::{Allowed, ClientMemory, EvictionPolicy, IoDriver, LogLevel, OutputLimit, Settings};
pub use special::Special;
pub use table::{Id, find};
pub use values::Values;
