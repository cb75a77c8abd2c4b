//! The machines one by one: each test names the rule that it looks at.

mod acceptors;
mod catch_up;
mod changes;
mod histories;
mod owners;
mod set_back;
mod windows;
