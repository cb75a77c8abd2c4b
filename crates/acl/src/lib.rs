//! Users and their rights, as Redis's ACL version 2 has them.
//!
//! Everything here is data and pure functions: no connection, clock, random source or file. The caller supplies the
//! commands ([`Catalogue`]), the positions of the keys of a request, and the time.
//!
//! A [`User`] never changes. [`Users`] replaces it by another one with the same number and a higher revision. So a
//! connection may keep its user, and see by one number if it is still the newest.

#![warn(clippy::missing_errors_doc)]

mod apply;
mod catalogue;
mod check;
mod denied;
mod describe;
mod error;
mod file;
mod foreign;
mod genpass;
mod log;
mod merge;
mod ordered;
mod password;
mod reply;
mod secret;
mod selector;
mod snapshot;
mod user;
mod users;

pub use catalogue::{CATEGORIES, Catalogue, Categories, Channels, CommandId, Declared};
pub use check::{Access, KeyUse, KeyUses};
pub use denied::Denied;
pub use error::{BadRule, NO_PASSWORD_NEEDED, NOT_AUTHENTICATED, Refused, WRONG_PASSWORD};
pub use file::{ConfiguredUsers, FileError, Loaded};
pub use genpass::{GENPASS_BITS_MAX, GenpassError, genpass};
pub use log::{AccessLog, Context, Counts, Entry, Event, Reason};
pub use password::PasswordHash;
pub use reply::{DryRun, HELP, NO_ACL_FILE, NOT_SAVED, dry_run, unknown_category, write_categories, write_category};
pub use secret::without_passwords;
pub use snapshot::{Damaged, SNAPSHOT_BYTES_MAX};
pub use user::{User, UserNumber};
pub use users::{Change, RuleBook, Standing, Subscriptions, Users};

#[cfg(test)]
mod rules_test;
#[cfg(test)]
mod testing;
