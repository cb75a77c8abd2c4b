//! The `holdfast` binary.

fn main() {}
