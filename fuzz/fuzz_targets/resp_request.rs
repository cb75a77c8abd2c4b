//! Requests: arbitrary bytes decoded in arbitrary pieces give what they give in one piece.

#![no_main]

use libfuzzer_sys::fuzz_target;
use resp::{Batch, Decoder, Limits, ProtocolError};

type Command = Vec<Vec<u8>>;

#[derive(Debug, PartialEq)]
struct Outcome {
    commands: Vec<Command>,
    error: Option<ProtocolError>,
    unread: usize,
}

/// Feeds `stream` in pieces whose lengths `pieces` repeats (none: all at once), at most `max_commands` a call.
fn decode(stream: &[u8], pieces: &[u8], limits: &Limits, max_commands: usize) -> Outcome {
    let (mut decoder, mut batch) = (Decoder::new(), Batch::new());
    let (mut buffer, mut commands) = (Vec::new(), Vec::new());
    let mut rest = stream;
    let mut pieces = pieces.iter().cycle();
    loop {
        batch.clear();
        let progress = decoder.decode(&buffer, limits, max_commands, &mut batch);
        assert!(progress.consumed <= buffer.len() && batch.len() <= max_commands);
        assert!(decoder.memory() <= buffer.len() * 4 + 64, "memory follows what has arrived");
        let mut end = 0;
        for index in 0..batch.len() {
            assert!(end < batch.end(index) && batch.end(index) <= progress.consumed);
            end = batch.end(index);
            let command: Command = batch.args(index, &buffer).iter().map(<[u8]>::to_vec).collect();
            assert!(!command.is_empty());
            commands.push(command);
        }
        buffer.drain(..progress.consumed);
        if progress.error.is_some() {
            return Outcome { commands, error: progress.error, unread: 0 };
        }
        if batch.len() == max_commands {
            continue;
        }
        if rest.is_empty() {
            return Outcome { commands, error: None, unread: buffer.len() };
        }
        let piece = pieces.next().map_or(rest.len(), |piece| usize::from(*piece)).clamp(1, rest.len());
        buffer.extend_from_slice(&rest[..piece]);
        rest = &rest[piece..];
    }
}

// The first bytes say how the rest is cut: authenticated or not, commands a call, and the lengths of up to seven
// pieces.
fuzz_target!(|data: &[u8]| {
    let [control, max_commands, data @ ..] = data else { return };
    let (pieces, stream) = data.split_at(usize::from(control & 7).min(data.len()));
    let limits = Limits { proto_max_bulk_len: 20_000, authenticated: control & 8 == 0 };
    let whole = decode(stream, &[], &limits, usize::MAX);
    let cut = decode(stream, pieces, &limits, usize::from(*max_commands).max(1));
    assert_eq!(whole, cut);
});
