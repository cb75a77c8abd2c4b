//! The subject of a certificate, for messages and as the name of a user.

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;
const INTEGER: u8 = 0x02;

/// 2.5.4.3, as DER has it.
const COMMON_NAME: &[u8] = &[0x06, 3, 0x55, 4, 3];

/// Texts in UTF-8, of printable letters, of Teletex, and of ASCII.
const TEXTS: [u8; 4] = [0x0c, 0x13, 0x14, 0x16];

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

/// The common name of the subject of an X.509 certificate (RFC 5280), for messages.
pub fn subject(certificate: &[u8]) -> Option<String> {
    let (_, name) = first_name(certificate)?;
    let name = String::from_utf8_lossy(name).into_owned();
    Some(name[..name.floor_char_boundary(NAME_MAX)].to_owned())
}

/// The bytes of the common name of the subject, if they can be a user's name: text of one byte a letter or UTF-8, and
/// no zero byte. The first name counts if there are several, as in Redis.
pub fn common_name(certificate: &[u8]) -> Option<&[u8]> {
    let (kind, name) = first_name(certificate)?;
    let is_text = TEXTS.contains(&kind) && !name.is_empty() && !name.contains(&0);
    is_text.then_some(name)
}

/// The first common name of the subject: its tag and its bytes.
fn first_name(mut certificate: &[u8]) -> Option<(u8, &[u8])> {
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
            return element(&mut value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{common_name, subject};

    fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let contents = parts.concat();
        let mut out = vec![tag, 0x82];
        out.extend_from_slice(&(contents.len() as u16).to_be_bytes());
        out.extend_from_slice(&contents);
        out
    }

    fn certificate(version: &[u8]) -> Vec<u8> {
        of(version, 0x0c, b"node-3")
    }

    fn of(version: &[u8], kind: u8, text: &[u8]) -> Vec<u8> {
        let named = |attribute: &[u8], kind, text: &[u8]| der(0x31, &[&der(0x30, &[attribute, &der(kind, &[text])])]);
        let name = |attribute, text| named(attribute, 0x0c, text);
        let issuer = der(0x30, &[&name(&[6, 3, 0x55, 4, 3], b"authority")]);
        let subject = der(0x30, &[&name(&[6, 3, 0x55, 4, 10], b"company"), &named(&[6, 3, 0x55, 4, 3], kind, text)]);
        let serial = [2, 1, 1];
        let signed = der(0x30, &[version, &serial, &der(0x30, &[]), &issuer, &der(0x30, &[]), &subject]);
        der(0x30, &[&signed])
    }

    #[test]
    fn the_subject_is_named() {
        assert_eq!(subject(&certificate(&[0xa0, 3, 2, 1, 2])).as_deref(), Some("node-3"));
        assert_eq!(subject(&certificate(&[])).as_deref(), Some("node-3"));
    }

    #[test]
    fn a_name_that_is_text_may_be_a_users() {
        let name = |kind, text| common_name(&of(&[], kind, text)).map(<[u8]>::to_vec);
        for kind in [0x0c, 0x13, 0x14, 0x16] {
            assert_eq!(name(kind, b"node-3").unwrap(), b"node-3");
        }
        // Two bytes a letter; a part of a longer name; nothing.
        assert_eq!([name(0x1e, b"\0a\0b"), name(0x0c, b"default\0more"), name(0x0c, b"")], [None, None, None]);
    }

    proptest! {
        #[test]
        fn what_is_damaged_has_no_name_or_another(at: prop::sample::Index, to: u8, cut: prop::sample::Index) {
            let mut bytes = certificate(&[0xa0, 3, 2, 1, 2]);
            let length = bytes.len();
            bytes[at.index(length)] = to;
            let _ = (subject(&bytes), common_name(&bytes));
            let _ = subject(&bytes[..cut.index(length)]);
        }
    }
}
