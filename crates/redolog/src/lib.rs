//! The log, which makes an acknowledged write outlive a crash.
//!
//! A node writes one or several *streams*, each to a directory of its own. Workers leave [records](format) in the
//! stream's [`Intake`]. The stream's [`Writer`] takes everything up to a *cut* at once, writes it as one block and
//! syncs it: that is group commit. The cut is then the stream's watermark: everything at or below it survives. The
//! bytes of a record (effects) mean nothing here.
//!
//! After a crash [`recover`] reads every stream up to the first torn block. It cuts the streams to a prefix that has
//! the dependencies of all its records (rule L5), and hands out the records in the order of their LSNs (rule L2).

#![warn(clippy::missing_errors_doc)]

mod aligned;
mod around;
mod chain;
mod check;
mod commit;
mod copies;
mod copy;
mod cursor;
mod device;
mod disk;
mod fail;
mod flight;
mod format;
mod intake;
mod lack;
mod lsn;
mod merge;
mod own;
mod pieces;
mod place;
mod recover;
mod replica;
mod run;
mod scan;
mod segments;
pub mod simulated;
mod sync;
mod tail;
#[cfg(test)]
mod tests;
mod window;
mod writer;

pub use chain::{Chain, Run};
pub use check::{Report, StreamReport, check, counted};
pub use commit::{Committer, Promise, Round, Watermarks};
pub use copies::{Around, Copies, Landed, Lead};
pub use copy::copy;
pub use cursor::{Gather, Gathered};
pub use device::{Devices, Pace};
pub use disk::{Direct, Disk, File, Folder, PAGE, PlainFile, make_folders};
pub use fail::point as fail_point;
pub use flight::Flight;
pub use format::{Broken, FRAME_HEAD, Format, Frame, Kind, Name, Record};
pub use intake::{Gate, Intake, Late, Take, Taken};
pub use lack::Lack;
pub use lsn::{Lsn, STREAM_BITS, STREAMS_MAX};
pub use recover::{Damage, Recovered, Recovery, recover};
pub use replica::{Holder, Keep, Reader, Replica, Retired, Spare};
pub use run::lock as lock_folder;
pub use run::{After, Clock, Facts, Fsync, Gates, Log, Opened, Promoted, Settings, State, Step, Stepped, ends_of};
pub use segments::{Limits, has_old_blocks, newest_holder};
pub use writer::Writer;
