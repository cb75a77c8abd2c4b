//! Selectors may be spread over several arguments: `(~a` `+get)`.

/// A selector that nothing closes: the position of the argument that opens it, and the rules before it.
pub(crate) type Unmatched = (usize, Vec<Vec<u8>>);

/// The rules of ACL SETUSER with each selector in one piece.
pub(crate) fn merged<T: AsRef<[u8]>>(rules: &[T]) -> Result<Vec<Vec<u8>>, Unmatched> {
    let mut merged: Vec<Vec<u8>> = Vec::new();
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (at, rule) in rules.iter().map(AsRef::as_ref).enumerate() {
        match open.take() {
            Some((start, mut selector)) => {
                selector.push(b' ');
                selector.extend_from_slice(rule);
                if rule.ends_with(b")") {
                    merged.push(selector);
                } else {
                    open = Some((start, selector));
                }
            }
            None if rule.starts_with(b"(") && !rule.ends_with(b")") => open = Some((at, rule.to_vec())),
            None => merged.push(rule.to_vec()),
        }
    }
    match open {
        Some((start, _)) => Err((start, merged)),
        None => Ok(merged),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn pieces_of_selectors_become_one() {
        let merged = |rules: &[&str]| {
            let texts =
                |all: Vec<Vec<u8>>| all.iter().map(|t| String::from_utf8_lossy(t).into_owned()).collect::<Vec<_>>();
            super::merged(rules).map(texts).map_err(|(at, before)| (at, texts(before)))
        };
        assert_eq!(merged(&["on", "(~a", "+get)", "off"]).unwrap(), ["on", "(~a +get)", "off"]);
        assert_eq!(merged(&["(", "~a", ")"]).unwrap(), ["( ~a )"]);
        assert_eq!(merged(&["()", ")", ""]).unwrap(), ["()", ")", ""]);
        assert_eq!(merged(&["on", "(~a", "+get"]).unwrap_err(), (1, vec!["on".to_owned()]));
    }
}
