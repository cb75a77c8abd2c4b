//! Glob patterns as `KEYS`, `SCAN`, `PSUBSCRIBE`, `CONFIG GET` and ACL rules use them (Redis's `stringmatchlen`).
//!
//! `*` any bytes, `?` one byte, `[abc]`, `[a-z]`, `[^a]` one byte of a class, `\x` the byte `x` itself.
//! The odd corners are Redis's, because clients can see them. An unclosed class ends with the pattern, a range written
//! backwards is turned around, and bytes above 127 sort below the others in a range. An empty text matches only the
//! empty pattern (not even `*`).
//!
//! Time is at most the product of the two lengths, whatever the pattern: a mismatch goes back to the *last* star only.
//! A longer match for an earlier one cannot help where the last one already tried every position.

/// A pattern that comes to another star after this many (neighbours count as one, the last of the pattern not at all)
/// matches nothing. Redis gives up there, so that no client can keep it busy with stars.
const STARS_MAX: usize = 1000;

/// True if all of `text` matches `pattern`, byte for byte.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    run(pattern, text, false)
}

/// As [`matches`], taking ASCII letters of both cases as equal.
pub fn matches_nocase(pattern: &[u8], text: &[u8]) -> bool {
    run(pattern, text, true)
}

/// True if `pattern` holds a byte with a meaning of its own; if not, looking the name up is enough.
pub fn is_pattern(pattern: &[u8]) -> bool {
    pattern.iter().any(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\'))
}

fn run(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut p, mut t) = (0, 0);
    // Where to go on after the last star: the pattern behind it, and the text position it was last tried at.
    let mut star: Option<(usize, usize)> = None;
    let mut stars = 0;
    loop {
        let Some(&byte) = text.get(t) else {
            return pattern.get(p..).is_none_or(|rest| rest.iter().all(|byte| *byte == b'*'));
        };
        if pattern.get(p) == Some(&b'*') {
            while pattern.get(p) == Some(&b'*') {
                p += 1;
            }
            if p == pattern.len() {
                return true;
            }
            stars += 1;
            if stars > STARS_MAX {
                return false;
            }
            star = Some((p, t));
            continue;
        }
        if let Some(next) = element(pattern, p, byte, nocase) {
            (p, t) = (next, t + 1);
            continue;
        }
        let Some((behind, tried)) = star else {
            return false;
        };
        star = Some((behind, tried + 1));
        (p, t) = (behind, tried + 1);
    }
}

/// Matches `byte` against the element of the pattern at `p` (no star): the position behind the element, or `None`.
fn element(pattern: &[u8], p: usize, byte: u8, nocase: bool) -> Option<usize> {
    match *pattern.get(p)? {
        b'?' => Some(p + 1),
        b'[' => class(pattern, p + 1, byte, nocase),
        b'\\' => match pattern.get(p + 1) {
            Some(&escaped) => same(escaped, byte, nocase).then_some(p + 2),
            None => same(b'\\', byte, nocase).then_some(p + 1),
        },
        literal => same(literal, byte, nocase).then_some(p + 1),
    }
}

/// A class whose `[` lies before `p`.
fn class(pattern: &[u8], mut p: usize, byte: u8, nocase: bool) -> Option<usize> {
    let negated = pattern.get(p) == Some(&b'^');
    if negated {
        p += 1;
    }
    let mut found = false;
    loop {
        match *pattern.get(p..).unwrap_or_default() {
            [] => break,
            [b'\\', escaped, ..] => {
                found |= escaped == byte;
                p += 2;
            }
            [b']', ..] => {
                p += 1;
                break;
            }
            [from, b'-', to, ..] => {
                found |= in_range(from, to, byte, nocase);
                p += 3;
            }
            [literal, ..] => {
                found |= same(literal, byte, nocase);
                p += 1;
            }
        }
    }
    (found != negated).then_some(p)
}

/// Redis compares the ends of a range as C's signed `char`.
fn in_range(from: u8, to: u8, byte: u8, nocase: bool) -> bool {
    let (from, to) = if (from as i8) > (to as i8) { (to, from) } else { (from, to) };
    let fold = |byte: u8| if nocase { byte.to_ascii_lowercase() as i8 } else { byte as i8 };
    (fold(from)..=fold(to)).contains(&fold(byte))
}

fn same(a: u8, b: u8, nocase: bool) -> bool {
    a == b || nocase && a.eq_ignore_ascii_case(&b)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_forms() {
        for (pattern, text) in [
            ("*", "a"),
            ("a*", "a"),
            ("h?llo", "hello"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hallo"),
            ("h[a-b]llo", "hbllo"),
            ("h[b-a]llo", "hbllo"),
            ("a\\*b", "a*b"),
            ("[\\]]", "]"),
            ("[a", "a"),
            ("[^", "x"),
            ("*.*", "a.b.c"),
            ("*abc*", "ababcab"),
            ("a*b*c", "axxbyyc"),
            ("\\", "\\"),
            ("", ""),
            ("a**", "a"),
        ] {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern:?} should match {text:?}");
        }
        for (pattern, text) in [
            ("", "a"),
            ("*", ""),
            ("a", ""),
            ("h?llo", "hllo"),
            ("h[^e]llo", "hello"),
            ("[]", "a"),
            ("[]a]", "a"),
            ("a*b", "a"),
            ("?", "ab"),
            ("A", "a"),
            ("a*bc", "abcb"),
        ] {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern:?} should not match {text:?}");
        }
        assert!(matches_nocase(b"H[A-C]LLO*", b"hbllo world"));
        assert!(!matches_nocase(b"[\\A]", b"a"), "an escaped byte of a class is compared as it is");
    }

    #[test]
    fn bytes_above_127_sort_below_the_others_in_a_range() {
        assert!(matches(b"[\x80-a]", b"\xff"));
        assert!(matches(b"[\x80-a]", b"0"));
        assert!(!matches(b"[\x80-a]", b"z"));
    }

    #[test]
    fn a_pattern_of_many_stars_takes_the_product_of_the_lengths_at_most() {
        let pattern = b"*a".repeat(2000);
        let text = b"a".repeat(1999);
        assert!(!matches(&pattern, &text));
        let mut longer = b"a".repeat(60_000);
        longer.push(b'b');
        assert!(!matches(b"a*a*a*a*a*a*a*a*c", &longer));
    }

    #[test]
    fn nothing_matches_behind_a_thousand_stars() {
        let text = b"a".repeat(5000);
        assert!(matches(&b"*a".repeat(1000), &text));
        assert!(matches(&[&b"*a".repeat(1000)[..], b"**"].concat(), &text), "the last star is free");
        assert!(!matches(&b"*a".repeat(1001), &text));
    }

    /// The definition, exponential and recursive, without the special case of the empty text.
    fn model(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
        match pattern.first() {
            None => text.is_empty(),
            Some(b'*') => (0..=text.len()).any(|skip| model(&pattern[1..], &text[skip..], nocase)),
            Some(_) => text.first().is_some_and(|byte| {
                element(pattern, 0, *byte, nocase).is_some_and(|next| model(&pattern[next..], &text[1..], nocase))
            }),
        }
    }

    proptest! {
        #[test]
        fn equals_the_definition(pattern in "[ab*?\\[\\]^\\\\A-]{0,9}", text in "[abA*-]{1,9}", nocase: bool) {
            prop_assert_eq!(
                run(pattern.as_bytes(), text.as_bytes(), nocase),
                model(pattern.as_bytes(), text.as_bytes(), nocase)
            );
        }

        #[test]
        fn takes_any_bytes(pattern: Vec<u8>, text: Vec<u8>, nocase: bool) {
            run(&pattern, &text, nocase);
        }

        #[test]
        fn a_plain_text_matches_only_itself(a in "[a-z]{0,5}", b in "[a-z]{0,5}") {
            prop_assert_eq!(matches(a.as_bytes(), b.as_bytes()), a == b);
        }
    }
}
