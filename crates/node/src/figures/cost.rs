//! The cost of a command, as HOTKEYS and CLUSTER SLOT-STATS count it.

use resp::Args;

/// The cost of a command.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Cost {
    pub(crate) nanos: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

/// Bytes of a command as clients send it.
pub(crate) fn request_bytes(args: Args<'_>) -> u64 {
    let digits = |n: usize| n.checked_ilog10().unwrap_or(0) as usize + 1;
    let head = 1 + digits(args.len()) + 2;
    let each = args.iter().map(|arg| 1 + digits(arg.len()) + 2 + arg.len() + 2);
    (head + each.sum::<usize>()) as u64
}

#[cfg(test)]
mod tests {
    use resp::{Batch, append_request};

    use super::*;

    #[test]
    fn bytes_of_requests_are_those_on_the_wire() {
        for words in [&["PING"][..], &["SET", "key", "value"], &["SET", "", &"x".repeat(100)]] {
            let (mut batch, mut wire) = (Batch::new(), Vec::new());
            assert!(batch.push_copy(words.iter().map(|word| word.as_bytes())));
            append_request(&mut wire, words);
            assert_eq!(request_bytes(batch.args(0, &[])), wire.len() as u64, "{words:?}");
        }
    }
}
