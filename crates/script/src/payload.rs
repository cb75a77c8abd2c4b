//! The payload of `FUNCTION DUMP` and `FUNCTION RESTORE`: Redis's `FUNCTION2` records of an RDB file, its version and a
//! checksum.

use crate::{Error, Library, lzf};
use crc_fast::CrcAlgorithm;
use std::borrow::Cow;

/// The RDB version of Redis 7.4 and 8: written, and the newest that is read.
const VERSION: u16 = 12;
/// The version and the checksum.
const FOOTER: usize = 10;
/// A library: its code as a string.
const FUNCTION: u8 = 245;
/// The form of release candidates of Redis 7.
const FUNCTION_PRE_GA: u8 = 246;

/// The longest library read.
const CODE_MAX: u64 = 512 << 20;

fn checksum(bytes: &[u8]) -> [u8; 8] {
    crc_fast::checksum(CrcAlgorithm::Crc64Redis, bytes).to_le_bytes()
}

/// Libraries as Redis writes them (`FUNCTION DUMP`).
pub fn dump_libraries<'a>(libraries: impl IntoIterator<Item = &'a Library>) -> Vec<u8> {
    let mut out = Vec::new();
    for library in libraries {
        out.push(FUNCTION);
        let code = library.code();
        match code.len() as u64 {
            len @ 0..0x40 => out.push(len as u8),
            len @ 0x40..0x4000 => out.extend_from_slice(&(len as u16 | 0x4000).to_be_bytes()),
            len @ 0x4000..=0xffff_ffff => {
                out.push(0x80);
                out.extend_from_slice(&(len as u32).to_be_bytes());
            }
            len => {
                out.push(0x81);
                out.extend_from_slice(&len.to_be_bytes());
            }
        }
        out.extend_from_slice(code);
    }
    out.extend_from_slice(&VERSION.to_le_bytes());
    let sum = checksum(&out);
    out.extend_from_slice(&sum);
    out
}

/// The code of each library in a payload, for [`crate::load_library`] (`FUNCTION RESTORE`). Nothing has been run.
///
/// # Errors
/// Redis's.
pub fn restore_libraries(payload: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let wrong = || Error::new("ERR DUMP payload version or checksum are wrong");
    let (body, footer) = payload.split_last_chunk::<FOOTER>().ok_or_else(wrong)?;
    let [low, high, sum @ ..] = footer;
    let sealed = &payload[..payload.len() - sum.len()];
    if u16::from_le_bytes([*low, *high]) > VERSION || *sum != checksum(sealed) {
        return Err(wrong());
    }
    let mut input = Input { rest: body };
    let mut libraries = Vec::new();
    while let Some((kind, rest)) = input.rest.split_first() {
        input.rest = rest;
        match *kind {
            FUNCTION => {}
            FUNCTION_PRE_GA => return Err(Error::new("ERR Pre-GA function format not supported")),
            _ => return Err(Error::new("ERR given type is not a function")),
        }
        let code = input.string().ok_or_else(|| Error::new("ERR Failed loading library payload"))?;
        libraries.push(code.into_owned());
    }
    Ok(libraries)
}

struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    fn take(&mut self, len: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(len).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*taken)
    }

    /// A length, or how a string is encoded.
    fn prefix(&mut self) -> Option<Result<u64, u8>> {
        let [first] = self.array()?;
        Some(match first {
            0x00..0x40 => Ok(u64::from(first)),
            0x40..0x80 => {
                let [second] = self.array()?;
                Ok(u64::from(first & 0x3f) << 8 | u64::from(second))
            }
            0x80 => Ok(u64::from(u32::from_be_bytes(self.array()?))),
            0x81 => Ok(u64::from_be_bytes(self.array()?)),
            0xc0.. => Err(first & 0x3f),
            _ => return None,
        })
    }

    /// A string: as it is, or compressed. Code is no number.
    fn string(&mut self) -> Option<Cow<'a, [u8]>> {
        match self.prefix()? {
            Ok(len) => self.take(len).map(Cow::Borrowed),
            Err(3) => {
                let compressed = self.prefix()?.ok()?;
                let len = self.prefix()?.ok().filter(|len| *len <= CODE_MAX)?;
                lzf::decompress(self.take(compressed)?, usize::try_from(len).ok()?).map(Cow::Owned)
            }
            Err(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, Machine, load_library};
    use proptest::prelude::*;

    fn library(name: &str, padding: usize) -> Library {
        let code = format!(
            "#!lua name={name}\n--{}\nredis.register_function('f_{name}', function() return 1 end)",
            "x".repeat(padding)
        );
        load_library(&mut Machine::new(Limits::default()).unwrap(), code.as_bytes()).unwrap()
    }

    #[test]
    fn round_trip() {
        let libraries = [library("a", 0), library("b", 100), library("c", 100_000)];
        let payload = dump_libraries(&libraries);
        let restored = restore_libraries(&payload).unwrap();
        assert!(restored.iter().zip(&libraries).all(|(code, library)| code[..] == library.code()[..]));
        assert_eq!(restored.len(), 3);
        assert_eq!(restore_libraries(&dump_libraries([])).unwrap(), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn refusals() {
        let seal = |mut body: Vec<u8>| {
            body.extend_from_slice(&VERSION.to_le_bytes());
            let sum = checksum(&body);
            body.extend_from_slice(&sum);
            restore_libraries(&body).unwrap_err().text().to_owned()
        };
        assert_eq!(seal(vec![FUNCTION_PRE_GA]), "ERR Pre-GA function format not supported");
        assert_eq!(seal(vec![0]), "ERR given type is not a function");
        assert_eq!(seal(vec![FUNCTION, 5, b'x']), "ERR Failed loading library payload");
        assert_eq!(restore_libraries(b"").unwrap_err().text(), "ERR DUMP payload version or checksum are wrong");
    }

    proptest! {
        #[test]
        fn arbitrary_bodies_do_no_harm(mut body in proptest::collection::vec(any::<u8>(), 0..60), tagged in any::<bool>()) {
            if tagged {
                body.insert(0, FUNCTION);
            }
            body.extend_from_slice(&VERSION.to_le_bytes());
            let sum = checksum(&body);
            body.extend_from_slice(&sum);
            let _ = restore_libraries(&body);
        }
    }
}
