//! Chance that nobody can foresee, from the system.

use std::fs::File;
use std::io::{self, Read};

/// The system's source of randomness. It is opened once, so that a connection to a node never lacks a descriptor for
/// it.
pub struct Source(File);

impl Source {
    /// Opens it.
    ///
    /// # Errors
    /// There is none, or no descriptor is left.
    pub fn open() -> io::Result<Self> {
        File::open("/dev/urandom").map(Self)
    }

    /// Fills `bytes`.
    ///
    /// # Errors
    /// Those of reading, which the system does not know for this source.
    pub fn fill(&self, bytes: &mut [u8]) -> io::Result<()> {
        (&self.0).read_exact(bytes)
    }
}

/// Fills with it; false: the system could not.
pub fn fill(bytes: &mut [u8]) -> bool {
    Source::open().and_then(|source| source.fill(bytes)).is_ok()
}

/// So many bytes of it.
///
/// # Errors
/// Those of [`Source::open`].
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    Source::open()?.fill(&mut bytes)?;
    Ok(bytes)
}
