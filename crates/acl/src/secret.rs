//! Rules as errors and the log may show them: without passwords.

/// A rule without the passwords in it, which are behind their signs, also between parentheses.
pub fn without_passwords(rule: &[u8]) -> Vec<u8> {
    let is_sign = |byte: &u8| b"><#!".contains(byte);
    // All of it is a password, with the blanks in it.
    if let Some(sign) = rule.first().filter(|byte| is_sign(byte)) {
        return hidden(*sign);
    }
    let mut shown = Vec::new();
    for word in rule.split_inclusive(|byte| byte.is_ascii_whitespace() || *byte == 0) {
        let start = word.iter().position(|byte| !matches!(byte, b'(' | b'"' | b'\'')).unwrap_or(0);
        let (opening, behind) = word.split_at(start);
        match behind.first().filter(|byte| is_sign(byte)) {
            // A blank may belong to it, so nothing behind it is shown.
            Some(sign) => return [shown, opening.to_vec(), hidden(*sign)].concat(),
            None => shown.extend_from_slice(word),
        }
    }
    shown
}

fn hidden(sign: u8) -> Vec<u8> {
    [&[sign], &b"(redacted)"[..]].concat()
}

#[cfg(test)]
mod tests {
    #[test]
    fn passwords_are_left_out() {
        for (rule, shown) in [
            ("+get", "+get"),
            ("~a b", "~a b"),
            (">secret", ">(redacted)"),
            ("#secret secret", "#(redacted)"),
            ("(~a >secret +get)", "(~a >(redacted)"),
            ("(\"<secret\")", "(\"<(redacted)"),
            ("bob\ton\t!secret", "bob\ton\t!(redacted)"),
            ("", ""),
        ] {
            let ours = super::without_passwords(rule.as_bytes());
            assert_eq!(String::from_utf8_lossy(&ours), shown, "{rule}");
        }
    }
}
