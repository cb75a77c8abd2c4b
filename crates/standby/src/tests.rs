//! The machines one by one.

mod machines;
