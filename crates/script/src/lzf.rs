//! LZF, as Redis compresses strings in RDB files: only reading it.

/// The `len` bytes that `compressed` stands for; `None` if it does not.
pub(crate) fn decompress(compressed: &[u8], len: usize) -> Option<Vec<u8>> {
    // Three bytes make at most 264.
    if len / 88 > compressed.len() {
        return None;
    }
    let mut out = Vec::with_capacity(len);
    let mut rest = compressed;
    while let Some((control, tail)) = rest.split_first() {
        let control = usize::from(*control);
        if control < 32 {
            let (literal, tail) = tail.split_at_checked(control + 1)?;
            out.extend_from_slice(literal);
            rest = tail;
        } else {
            let (extra, tail) = if control >> 5 == 7 { tail.split_first()? } else { (&0, tail) };
            let (low, tail) = tail.split_first()?;
            rest = tail;
            let distance = (control & 31) << 8 | usize::from(*low);
            let start = out.len().checked_sub(distance + 1)?;
            // The copied bytes may overlap the written ones.
            for index in start..start + (control >> 5) + usize::from(*extra) + 2 {
                out.push(*out.get(index)?);
            }
        }
        if out.len() > len {
            return None;
        }
    }
    (out.len() == len).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_copies() {
        assert_eq!(decompress(&[2, b'a', b'b', b'c'], 3).as_deref(), Some(&b"abc"[..]));
        assert_eq!(decompress(&[0, b'a', 0xe0, 1, 0], 11).as_deref(), Some(&b"aaaaaaaaaaa"[..]));
        assert_eq!(decompress(&[0, b'a', 0x20, 5], 4), None);
        assert_eq!(decompress(&[0, b'a'], 100_000), None);
        assert_eq!(decompress(&[], 0), Some(Vec::new()));
    }
}
