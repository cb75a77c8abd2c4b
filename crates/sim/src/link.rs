//! A connection: bytes on their way to the machine, and replies as they leave it. A reply that has left the machine
//! counts as said.

use std::collections::VecDeque;

use node::Token;
use resp::{ReplyDecoder, Value, append_request};

use crate::clients::Request;

/// See the module's text.
#[derive(Default)]
pub struct Link {
    /// Worker and token, while it is open.
    pub to: Option<(usize, Token)>,
    /// Bytes that have not arrived.
    pub under_way: VecDeque<u8>,
    /// How many replies each request that is not answered waits for.
    waiting: VecDeque<usize>,
    received: Vec<u8>,
    replies: Vec<Value>,
    decoder: ReplyDecoder,
}

impl Link {
    /// A connection to this worker, which calls it so.
    pub fn new(to: Option<(usize, Token)>) -> Self {
        Self { to, ..Self::default() }
    }

    /// Sends a request.
    pub fn send(&mut self, request: &Request) {
        let mut bytes = Vec::new();
        for words in request {
            append_request(&mut bytes, words);
        }
        self.under_way.extend(bytes);
        self.waiting.push_back(request.len());
    }

    /// Bytes have left the machine: the requests that they answer.
    ///
    /// # Errors
    ///
    /// The bytes are no replies.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<Vec<Vec<Value>>, String> {
        self.received.extend_from_slice(bytes);
        let mut answered = Vec::new();
        loop {
            let next = self.decoder.next(&self.received).map_err(|error| error.to_string())?;
            let Some((value, length)) = next else { return Ok(answered) };
            self.received.drain(..length);
            self.replies.push(value);
            if self.waiting.front() == Some(&self.replies.len()) {
                self.waiting.pop_front();
                answered.push(std::mem::take(&mut self.replies));
            }
        }
    }

    /// True if everything that was asked has been answered.
    pub fn is_quiet(&self) -> bool {
        self.under_way.is_empty() && self.waiting.is_empty()
    }
}
