//! Words on a line of a configuration file: quoting (Redis's `sdscatrepr`) and trimming. [`resp::split_args`] splits.

/// `text` in double quotes, such that [`resp::split_args`] gives it back.
pub fn quote(text: &[u8]) -> Vec<u8> {
    let mut quoted = Vec::with_capacity(text.len() + 2);
    quoted.push(b'"');
    for byte in text {
        match byte {
            b'\\' | b'"' => quoted.extend([b'\\', *byte]),
            b'\n' => quoted.extend(b"\\n"),
            b'\r' => quoted.extend(b"\\r"),
            b'\t' => quoted.extend(b"\\t"),
            7 => quoted.extend(b"\\a"),
            8 => quoted.extend(b"\\b"),
            b' '..=b'~' => quoted.push(*byte),
            other => quoted.extend(format!("\\x{other:02x}").into_bytes()),
        }
    }
    quoted.push(b'"');
    quoted
}

/// `text` unchanged if it is one plain word, else quoted.
pub fn quote_where_needed(text: &[u8]) -> Vec<u8> {
    let plain = !text.is_empty() && text.iter().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\''));
    if plain { text.to_vec() } else { quote(text) }
}

/// `line` without blanks at its ends.
pub fn trim(line: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let start = line.iter().position(|byte| !blank(byte)).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| !blank(byte)).map_or(start, |last| last + 1);
    line.get(start..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use resp::split_args;

    use super::*;

    #[test]
    fn trims_blanks_only_at_the_ends() {
        assert_eq!(trim(b" \ta b\r\n"), b"a b");
        assert_eq!(trim(b" \n"), b"");
    }

    proptest! {
        #[test]
        fn what_is_quoted_is_one_word(text: Vec<u8>) {
            prop_assert_eq!(split_args(&quote(&text)), Ok(vec![text.clone()]));
            prop_assert_eq!(split_args(&quote_where_needed(&text)), Ok(vec![text]));
        }
    }
}
