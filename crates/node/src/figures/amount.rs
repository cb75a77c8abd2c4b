//! Amounts as people read them.

/// An amount of memory as people read it: `1.50M`.
pub(crate) fn human(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "K", "M", "G", "T", "P"];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let unit = (bytes.ilog2() / 10).min(5);
    format!("{:.2}{}", bytes as f64 / (1u64 << (unit * 10)) as f64, UNITS[unit as usize])
}

#[test]
fn amounts_for_people() {
    let shown: Vec<_> = [0, 1023, 1024, 1536 << 10, 5 << 30, u64::MAX].into_iter().map(human).collect();
    assert_eq!(shown, ["0B", "1023B", "1.00K", "1.50M", "5.00G", "16384.00P"]);
}
