//! Passwords, users, what clients may do.

use super::common::long;
use crate::config::kind::Kind;
use crate::config::row::{Section, row};

const ALLOWED: Kind = Kind::Enum(&["no", "yes", "local"]);

pub(super) static SECTION: Section = Section {
    title: "Security",
    rows: &[
        row("requirepass", Kind::OptionalText, "", "Password of the user `default`.").cluster().sensitive(),
        row("aclfile", Kind::Text, "", "File of users and their rights.").immutable(),
        row(
            "acl-pubsub-default",
            Kind::Enum(&["allchannels", "resetchannels"]),
            "resetchannels",
            "Channels that a new user may use.",
        ),
        row("acllog-max-len", long(0), "128", "Entries kept in ACL LOG."),
        row(
            "enable-debug-command",
            ALLOWED,
            "no",
            "The clients that may use DEBUG: none, all, or those on this machine.",
        )
        .immutable(),
        row("enable-protected-configs", ALLOWED, "no", "The clients that may change protected settings such as `dir`.")
            .immutable(),
        row("enable-module-command", ALLOWED, "no", "The clients that may use MODULE.")
            .immutable()
            .inert("there are no modules"),
        row("hide-user-data-from-log", Kind::Bool, "no", "Keep keys and values out of the log.")
            .inert("keys and values are never logged")
            .harmless("yes"),
        row(
            "sanitize-dump-payload",
            Kind::Enum(&["no", "yes", "clients"]),
            "no",
            "Whether RESTORE checks its payload.",
        )
        .inert("it is always checked")
        .harmless("yes"),
    ],
};
