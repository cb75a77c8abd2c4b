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
    let mut crc = 0u16;
    let (chunks, rest) = bytes.as_chunks::<8>();
    for c in chunks {
        crc = TABLES[7][usize::from(c[0] ^ (crc >> 8) as u8)]
            ^ TABLES[6][usize::from(c[1] ^ crc as u8)]
            ^ TABLES[5][usize::from(c[2])]
            ^ TABLES[4][usize::from(c[3])]
            ^ TABLES[3][usize::from(c[4])]
            ^ TABLES[2][usize::from(c[5])]
            ^ TABLES[1][usize::from(c[6])]
            ^ TABLES[0][usize::from(c[7])];
    }
    for &b in rest {
        crc = (crc << 8) ^ TABLES[0][usize::from((crc >> 8) as u8 ^ b)];
    }
    crc
}

/// The slot of `key`: of the part between the first `{` and the next `}` if that part is not empty, else of the whole
/// key.
#[inline]
pub fn slot_of(key: &[u8]) -> u16 {
    let hashed = match memchr::memchr(b'{', key) {
        None => key,
        Some(open) => match memchr::memchr(b'}', &key[open + 1..]) {
            None | Some(0) => key,
            Some(len) => &key[open + 1..open + 1 + len],
        },
    };
    crc16(hashed) & (SLOTS as u16 - 1)
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
    }
}
