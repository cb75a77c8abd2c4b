//! For tests.

use super::common::int;
use crate::config::kind::Kind;
use crate::config::row::{Section, row};

pub(super) static SECTION: Section = Section {
    title: "For tests",
    rows: &[
        row("watchdog-period", int(0), "0", "Milliseconds after which a server that is stuck reports where.")
            .hidden()
            .inert("there is no watchdog"),
        row("use-exit-on-panic", Kind::Bool, "no", "Exit instead of dumping core.")
            .hidden()
            .inert("the build decides what a panic does"),
    ],
};
