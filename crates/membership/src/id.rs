//! Names of nodes and clusters: 40 hexadecimal digits, as in Redis Cluster.

use std::fmt;
use std::str::FromStr;

use crate::codec::{Malformed, Reader};

/// Bytes of a name.
pub const ID_BYTES: usize = 20;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub [u8; ID_BYTES]);

        impl $name {
            /// A new one from random bytes.
            pub fn random(random: &mut dyn FnMut(&mut [u8])) -> Self {
                let mut bytes = [0; ID_BYTES];
                random(&mut bytes);
                Self(bytes)
            }

            /// The next one in `from`.
            ///
            /// # Errors
            /// There are too few bytes.
            pub fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
                from.array().map(Self)
            }

            /// Appends it.
            pub fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.0);
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        }

        impl FromStr for $name {
            type Err = Malformed;

            fn from_str(text: &str) -> Result<Self, Malformed> {
                digits(text.as_bytes()).map(Self)
            }
        }
    )*};
}

ids! {
    /// The name of a node: chosen by chance when its folder is new, the same for as long as the folder lives.
    NodeId
    /// The name of a cluster, chosen by chance when it is formed.
    ClusterId
}

fn digits(text: &[u8]) -> Result<[u8; ID_BYTES], Malformed> {
    let mut bytes = [0; ID_BYTES];
    let (pairs, rest) = text.as_chunks::<2>();
    if pairs.len() != ID_BYTES || !rest.is_empty() {
        return Err(Malformed("40 hexadecimal digits"));
    }
    for (byte, pair) in bytes.iter_mut().zip(pairs) {
        let digit = |c: u8| char::from(c).to_digit(16).ok_or(Malformed("40 hexadecimal digits"));
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_forty_digits() {
        let id = NodeId::random(&mut |bytes| bytes.iter_mut().enumerate().for_each(|(i, b)| *b = i as u8 * 13));
        let text = id.to_string();
        assert_eq!(text, "000d1a2734414e5b6875828f9ca9b6c3d0ddeaf7");
        assert_eq!(text.parse(), Ok(id));
        assert_eq!(text.to_uppercase().parse(), Ok(id));
        for wrong in ["", "00", &text[1..], &format!("{text}0"), &text.replace('a', "g")] {
            assert!(wrong.parse::<NodeId>().is_err(), "{wrong}");
        }
    }
}
