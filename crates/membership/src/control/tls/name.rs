//! The subject of a certificate, for messages: nothing depends on it.

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;
const INTEGER: u8 = 0x02;

/// 2.5.4.3, as DER has it.
const COMMON_NAME: &[u8] = &[0x06, 3, 0x55, 4, 3];

/// Bytes of the longest name that is shown.
const NAME_MAX: usize = 64;

/// Takes one element of DER (X.690) off the front: its tag and contents.
fn element<'a>(from: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let [tag, length, rest @ ..] = *from else { return None };
    let (length, rest) = match *length {
        short @ 0..0x80 => (usize::from(short), rest),
        long => {
            let (bytes, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            if bytes.is_empty() || bytes.len() > 4 {
                return None;
            }
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
    };
    let (contents, rest) = rest.split_at_checked(length)?;
    *from = rest;
    Some((*tag, contents))
}

fn of<'a>(from: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    element(from).filter(|(found, _)| *found == tag).map(|(_, contents)| contents)
}

/// The common name of the subject of an X.509 certificate (RFC 5280), if it has one.
pub fn subject(mut certificate: &[u8]) -> Option<String> {
    let mut certificate = of(&mut certificate, SEQUENCE)?;
    let mut signed = of(&mut certificate, SEQUENCE)?;
    if signed.first() == Some(&VERSION) {
        element(&mut signed)?;
    }
    of(&mut signed, INTEGER)?;
    // The algorithm, the issuer, the validity.
    for _ in 0..3 {
        of(&mut signed, SEQUENCE)?;
    }
    let mut subject = of(&mut signed, SEQUENCE)?;
    while let Some(mut part) = of(&mut subject, SET) {
        let attribute = of(&mut part, SEQUENCE)?;
        if let Some(mut value) = attribute.strip_prefix(COMMON_NAME) {
            let name = String::from_utf8_lossy(element(&mut value)?.1).into_owned();
            return Some(name[..name.floor_char_boundary(NAME_MAX)].to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::subject;

    fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let contents = parts.concat();
        let mut out = vec![tag, 0x82];
        out.extend_from_slice(&(contents.len() as u16).to_be_bytes());
        out.extend_from_slice(&contents);
        out
    }

    fn certificate(version: &[u8]) -> Vec<u8> {
        let name = |attribute: &[u8], text: &[u8]| der(0x31, &[&der(0x30, &[attribute, &der(0x0c, &[text])])]);
        let issuer = der(0x30, &[&name(&[6, 3, 0x55, 4, 3], b"authority")]);
        let subject = der(0x30, &[&name(&[6, 3, 0x55, 4, 10], b"company"), &name(&[6, 3, 0x55, 4, 3], b"node-3")]);
        let serial = [2, 1, 1];
        let signed = der(0x30, &[version, &serial, &der(0x30, &[]), &issuer, &der(0x30, &[]), &subject]);
        der(0x30, &[&signed])
    }

    #[test]
    fn the_subject_is_named() {
        assert_eq!(subject(&certificate(&[0xa0, 3, 2, 1, 2])).as_deref(), Some("node-3"));
        assert_eq!(subject(&certificate(&[])).as_deref(), Some("node-3"));
    }

    proptest! {
        #[test]
        fn what_is_damaged_has_no_name_or_another(at: prop::sample::Index, to: u8, cut: prop::sample::Index) {
            let mut bytes = certificate(&[0xa0, 3, 2, 1, 2]);
            let length = bytes.len();
            bytes[at.index(length)] = to;
            let _ = subject(&bytes);
            let _ = subject(&bytes[..cut.index(length)]);
        }
    }
}
