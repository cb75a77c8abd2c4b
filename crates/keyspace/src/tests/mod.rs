//! Databases against models: contents, counters, walks, flushes.

mod cold;
mod counts;
mod crowded;
mod graves;
mod model;
mod snapshots;
mod unlatched;
mod walks;

/// Key `n`: three of four share one slot by their tag, so that its table grows, splits and shrinks.
fn name(n: u16) -> Vec<u8> {
    if n.is_multiple_of(4) { format!("k{n}").into_bytes() } else { format!("{{tag}}{n}").into_bytes() }
}
