//! Checks that a command may write: the script does not only read, and the log takes writes.

use command::{Spec, flags};

const READ_ONLY: &[u8] = b"ERR Write commands are not allowed from read-only scripts.";

/// True if a command may write, or tell replicas something.
#[inline]
pub(crate) fn may(spec: &Spec) -> bool {
    spec.flags & (flags::WRITE | flags::MAY_REPLICATE) != 0
}

/// The reason why a script that is declared not to write may not call a command, if there is one.
#[inline]
pub(crate) fn refusal_of_script(spec: &Spec, read_only: bool) -> Option<&'static [u8]> {
    (read_only && may(spec)).then_some(READ_ONLY)
}
