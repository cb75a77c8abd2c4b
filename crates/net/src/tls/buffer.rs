//! A buffer for ciphertext. Its bytes are initialised once, so that room for the next record costs nothing.

/// Ciphertext that is to be sent.
#[derive(Default)]
pub struct Buffer {
    /// All of it is initialised.
    bytes: Vec<u8>,
    /// Where the bytes to send begin, and where they end.
    from: usize,
    to: usize,
}

impl Buffer {
    /// Room for `n` bytes behind those that are there.
    pub fn room(&mut self, n: usize) -> &mut [u8] {
        if self.bytes.len() < self.to + n {
            self.bytes.resize((self.to + n).next_multiple_of(4096), 0);
        }
        &mut self.bytes[self.to..]
    }

    /// `n` bytes were written to the room.
    pub fn wrote(&mut self, n: usize) {
        self.to += n;
    }

    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.room(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.wrote(bytes.len());
    }

    /// The bytes to send.
    pub fn unsent(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.from == self.to
    }

    /// `n` of the bytes were sent.
    pub fn sent(&mut self, n: usize) {
        self.from += n;
        if self.from == self.to {
            self.clear();
        }
    }

    /// Drops the bytes; the memory stays.
    pub fn clear(&mut self) {
        (self.from, self.to) = (0, 0);
    }
}
