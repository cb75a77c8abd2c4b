//! The machines one by one: each test names the rule that it looks at.

mod acceptors;
mod changes;
mod histories;
mod owners;
mod windows;
