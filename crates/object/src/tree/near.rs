//! Binary search that begins at a guess.

/// The number of indexes below `len` for which `holds`, which is true up to some index and false from there on.
///
/// Looks at few indexes beside the guess if that is good, and at about twice log `len` in all if it is not.
#[inline]
pub(crate) fn partition_near(len: usize, guess: usize, holds: impl Fn(usize) -> bool) -> usize {
    if len == 0 {
        return 0;
    }
    let guess = guess.min(len - 1);
    let mut step = 1;
    // Everything below `low` holds, nothing from `high` on does.
    let (mut low, mut high) = if holds(guess) {
        let mut low = guess + 1;
        loop {
            let probe = low + step - 1;
            if probe >= len {
                break (low, len);
            }
            if !holds(probe) {
                break (low, probe);
            }
            low = probe + 1;
            step *= 2;
        }
    } else {
        let mut high = guess;
        loop {
            if high < step {
                break (0, high);
            }
            let probe = high - step;
            if holds(probe) {
                break (probe + 1, high);
            }
            high = probe;
            step *= 2;
        }
    };
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::partition_near;

    #[test]
    fn finds_the_same_from_every_guess() {
        for len in 0..20 {
            for end in 0..=len {
                for guess in 0..=len + 1 {
                    let holds = |i: usize| {
                        assert!(i < len);
                        i < end
                    };
                    assert_eq!(partition_near(len, guess, holds), end, "{end} of {len} from {guess}");
                }
            }
        }
    }
}
