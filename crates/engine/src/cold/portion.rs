//! Where memory is limited, reads of the store are asked for in portions. Asking for each small value would cost more
//! than reading it, and thousands of them in a row, which one block may need, take more than any margin.

/// Bytes of a portion.
const PORTION: u64 = headroom::LARGE as u64;

/// Bytes that a reader has read since there was room last.
#[derive(Default)]
pub(crate) struct Portion(u64);

impl Portion {
    /// True if `bytes` more may be read. `has_room` is asked at the end of each portion, about the next one, and at
    /// every later read while there is none. A value larger than a portion is asked for by itself.
    pub(super) fn fits(&mut self, bytes: u64, has_room: impl FnOnce(usize) -> bool) -> bool {
        let read = self.0.saturating_add(bytes);
        let fits = read < PORTION || has_room(usize::try_from(bytes.max(PORTION)).unwrap_or(usize::MAX));
        if fits {
            self.0 = if read < PORTION { read } else { 0 };
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_asked_at_the_end_of_a_portion() {
        let mut portion = Portion::default();
        let half = PORTION / 2;
        assert!(portion.fits(half, |_| panic!("asked within a portion")));
        assert!(!portion.fits(half, |bytes| bytes as u64 != PORTION), "there is no room");
        assert!(portion.fits(half - 1, |_| panic!("it still fits what was asked for")));
        assert!(!portion.fits(1, |_| false) && portion.fits(1, |_| true));
        assert!(portion.fits(half, |_| panic!("another portion")));
        assert!(!portion.fits(3 * PORTION, |bytes| bytes as u64 != 3 * PORTION), "all of what is large");
    }
}
