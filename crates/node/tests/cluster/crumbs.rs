//! Frames whose replies come a byte at a time.

use membership::frame::{self, Kind};
use membership::items::{Item, items, put_replies};

/// Whole frames, with every item of replies as items of one byte each.
pub fn crumbled(mut frames: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(frame) = frame::read(frames).unwrap() {
        if !matches!(frame.kind, Kind::Data) {
            out.extend_from_slice(&frames[..frame.size]);
            frames = &frames[frame.size..];
            continue;
        }
        let at = frame::begin(&mut out);
        for item in items(frame.body).map(Result::unwrap) {
            let Item::Replies { vc, lengths, bytes } = item else {
                item.put(&mut out);
                continue;
            };
            let ends: Vec<usize> =
                lengths.iter().scan(0, |end, length| Some(std::mem::replace(end, *end + length) + length)).collect();
            for (i, byte) in bytes.iter().enumerate() {
                let ended: &[u32] = if ends.contains(&(i + 1)) { &[1] } else { &[] };
                put_replies(&mut out, vc, ended, |out| out.push(*byte));
            }
        }
        frame::finish(&mut out, at, Kind::Data);
        frames = &frames[frame.size..];
    }
    assert!(frames.is_empty(), "an output ends with a frame");
    out
}
