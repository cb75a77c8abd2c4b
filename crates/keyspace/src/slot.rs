//! Which slot a key belongs to: CRC16 of Redis Cluster, `{tag}` rule included.

/// Number of slots of the keyspace (Redis Cluster specification); fewer under Miri, which takes long over each.
pub const SLOTS: usize = if cfg!(miri) { 64 } else { 16384 };

/// Eight tables: table `k` advances the CRC of a byte by `k` further zero bytes. So eight bytes cost eight independent
/// loads instead of a chain of eight.
static TABLES: [[u16; 256]; 8] = tables();

const fn tables() -> [[u16; 256]; 8] {
    let mut t = [[0u16; 256]; 8];
    let mut i = 0;
    while i < 256 {
        let mut crc = (i as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        t[0][i] = crc;
        i += 1;
    }
    let mut k = 1;
    while k < 8 {
        let mut i = 0;
        while i < 256 {
            let prev = t[k - 1][i];
            t[k][i] = (prev << 8) ^ t[0][(prev >> 8) as usize];
            i += 1;
        }
        k += 1;
    }
    t
}

/// CRC16/XMODEM of `bytes`.
#[inline]
pub fn crc16(bytes: &[u8]) -> u16 {
    // Zeros before the first byte change nothing: so the bytes that fill no chunk are taken as the end of one.
    let (head, chunks) = bytes.as_rchunks::<8>();
    let mut crc = match head.is_empty() {
        true => 0,
        false => advance(0, (short_word(head) << (64 - 8 * head.len() as u32)).to_le_bytes()),
    };
    for &chunk in chunks {
        crc = advance(crc, chunk);
    }
    crc
}

#[inline]
fn advance(crc: u16, c: [u8; 8]) -> u16 {
    TABLES[7][usize::from(c[0] ^ (crc >> 8) as u8)]
        ^ TABLES[6][usize::from(c[1] ^ crc as u8)]
        ^ TABLES[5][usize::from(c[2])]
        ^ TABLES[4][usize::from(c[3])]
        ^ TABLES[3][usize::from(c[4])]
        ^ TABLES[2][usize::from(c[5])]
        ^ TABLES[1][usize::from(c[6])]
        ^ TABLES[0][usize::from(c[7])]
}

/// Fewer than eight bytes, and at least one, as the low bytes of a word.
#[inline]
fn short_word(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    let shift = |at: usize| 8 * at as u32;
    if let (Some(low), Some(high)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        return u64::from(u32::from_le_bytes(*low)) | u64::from(u32::from_le_bytes(*high)) << shift(len - 4);
    }
    let (first, middle, last) = (bytes[0], bytes[len / 2], bytes[len - 1]);
    u64::from(first) | u64::from(middle) << shift(len / 2) | u64::from(last) << shift(len - 1)
}

/// True if one of the bytes is a `{`. Most keys are so short that a call costs more than the search.
#[inline]
fn has_brace(key: &[u8]) -> bool {
    const ONES: u64 = u64::MAX / 255;
    // A byte that is zero borrows. A borrow from it may also show a byte above it, which is no harm: one is there.
    let has = |word: u64| {
        let braces = word ^ (ONES * b'{' as u64);
        braces.wrapping_sub(ONES) & !braces & (ONES << 7) != 0
    };
    match (key.first_chunk::<8>(), key.last_chunk::<8>()) {
        (Some(first), Some(last)) if key.len() <= 16 => {
            has(u64::from_le_bytes(*first)) || has(u64::from_le_bytes(*last))
        }
        (Some(_), _) => memchr::memchr(b'{', key).is_some(),
        _ => !key.is_empty() && has(short_word(key)),
    }
}

/// The slot of `key`: of the part between the first `{` and the next `}` if that part is not empty, else of the whole
/// key.
#[inline]
pub fn slot_of(key: &[u8]) -> u16 {
    let hashed = if has_brace(key) { tag_of(key) } else { key };
    crc16(hashed) & (SLOTS as u16 - 1)
}

/// The part of a key that decides its slot.
#[inline(never)]
fn tag_of(key: &[u8]) -> &[u8] {
    let Some(open) = memchr::memchr(b'{', key) else { return key };
    match memchr::memchr(b'}', &key[open + 1..]) {
        None | Some(0) => key,
        Some(len) => &key[open + 1..open + 1 + len],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bitwise(bytes: &[u8]) -> u16 {
        bytes.iter().fold(0u16, |mut crc, &b| {
            crc ^= u16::from(b) << 8;
            for _ in 0..8 {
                crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
            }
            crc
        })
    }

    #[test]
    fn published_check_value() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
    }

    #[test]
    fn tags() {
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"{user1000}.followers"));
        assert_eq!(slot_of(b"foo{}{bar}"), bitwise(b"foo{}{bar}") & 16383);
        assert_eq!(slot_of(b"foo{{bar}}zap"), bitwise(b"{bar") & 16383);
        assert_eq!(slot_of(b"foo{bar}{zap}"), slot_of(b"bar"));
    }

    proptest::proptest! {
        #[test]
        fn sliced_equals_bitwise(bytes: Vec<u8>) {
            proptest::prop_assert_eq!(crc16(&bytes), bitwise(&bytes));
        }

        #[test]
        fn a_tag_is_found_in_a_key_of_any_length(key in "[ab{}z\\x00\\xfa]{0,40}") {
            let key = key.as_bytes();
            let hashed = match key.iter().position(|b| *b == b'{') {
                None => key,
                Some(open) => match key[open + 1..].iter().position(|b| *b == b'}') {
                    None | Some(0) => key,
                    Some(len) => &key[open + 1..open + 1 + len],
                },
            };
            proptest::prop_assert_eq!(slot_of(key), bitwise(hashed) & (SLOTS as u16 - 1));
        }
    }
}
