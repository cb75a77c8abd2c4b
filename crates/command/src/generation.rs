//! The beginning and the end of a generation in the log: `appendonly` was switched on or off while the server ran (rule
//! L13).
//!
//! Records before the beginning say nothing about the generation. It goes on from a checkpoint of everything, and
//! without that checkpoint it is void.

use clocks::UnixMs;
use object::Corrupt;

use crate::effects::{Effect, Writer, op};

/// See the module's text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Generation {
    /// A new one begins here.
    Begins(UnixMs),
    /// It ends here: later changes were not logged.
    Ends(UnixMs),
}

impl Generation {
    /// Its effect, alone in its record.
    pub fn encode(self) -> Vec<u8> {
        let (kind, time) = match self {
            Generation::Ends(time) => (0, time),
            Generation::Begins(time) => (1, time),
        };
        let mut payload = Vec::new();
        Writer(&mut payload).u8(kind);
        Writer(&mut payload).varint(time.0);
        let mut out = vec![op::GENERATION];
        let mut writer = Writer(&mut out);
        writer.varint(0);
        writer.bytes(b"");
        writer.bytes(&payload);
        out
    }
}

impl Effect<'_> {
    /// The generation that the effect begins or ends, if any.
    ///
    /// # Errors
    ///
    /// Its bytes are no such effect.
    pub fn generation(&mut self) -> Result<Option<Generation>, Corrupt> {
        if self.op != op::GENERATION {
            return Ok(None);
        }
        match (self.payload.u8()?, self.payload.varint()?) {
            (0, time) => Ok(Some(Generation::Ends(UnixMs(time)))),
            (1, time) => Ok(Some(Generation::Begins(UnixMs(time)))),
            _ => Err(Corrupt("neither the beginning nor the end of a generation")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effects::decode;

    #[test]
    fn golden_bytes() {
        for (mark, bytes) in [
            (Generation::Begins(UnixMs(0x1234)), &b"\x07\x00\x00\x03\x01\xb4\x24"[..]),
            (Generation::Ends(UnixMs(5)), b"\x07\x00\x00\x02\x00\x05"),
        ] {
            assert_eq!(mark.encode(), bytes);
            let mut effect = decode(bytes).next().unwrap().unwrap();
            assert!(effect.is_barrier());
            assert_eq!(effect.generation(), Ok(Some(mark)));
        }
        let wrong = b"\x07\x00\x00\x02\x02\x05";
        assert!(decode(wrong).next().unwrap().unwrap().generation().is_err());
    }
}
