//! Character classes of patterns.

/// True if `%class` matches the byte; a class that is no letter of one matches itself.
fn named(byte: u8, class: u8) -> bool {
    let found = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    found == class.is_ascii_lowercase()
}

/// True if a set, from its `[` to before its `]`, matches the byte.
pub(super) fn set(byte: u8, set: &[u8]) -> bool {
    let (mut rest, wanted) = match set {
        [b'[', b'^', rest @ ..] => (rest, false),
        [_, rest @ ..] => (rest, true),
        [] => return false,
    };
    loop {
        rest = match rest {
            [] => return !wanted,
            [b'%', class, rest @ ..] => {
                if named(byte, *class) {
                    return wanted;
                }
                rest
            }
            [low, b'-', high, rest @ ..] => {
                if (*low..=*high).contains(&byte) {
                    return wanted;
                }
                rest
            }
            [one, rest @ ..] => {
                if *one == byte {
                    return wanted;
                }
                rest
            }
        };
    }
}

/// True if an item of a pattern, one byte, `%` and one, or a set with its brackets, matches the byte.
pub(super) fn single(byte: u8, item: &[u8]) -> bool {
    match item {
        [b'.'] => true,
        [b'%', class] => named(byte, *class),
        [b'[', .., _] => set(byte, &item[..item.len() - 1]),
        [one, ..] => *one == byte,
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets() {
        for (byte, item, expected) in [
            (b'b', "[a-c]", true),
            (b'd', "[a-c]", false),
            (b'd', "[^a-c]", true),
            (b'-', "[a-]", true),
            (b']', "[]]", true),
            (b'7', "[%a%d]", true),
            (b'7', "%D", false),
            (b' ', "%s", true),
            (b'.', "%.", true),
            (b'x', "%.", false),
        ] {
            assert_eq!(single(byte, item.as_bytes()), expected, "{item}");
        }
    }
}
