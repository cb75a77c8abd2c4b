//! Handshakes under way, bounded in number and time.

use std::collections::VecDeque;

use node::{Token, UnixMs};

use super::HANDSHAKE_MS;

/// The connections of a worker whose handshake has begun, in the order in which they began. Those that are done stay in
/// it until their time is over, which does no harm.
#[derive(Default)]
pub struct Greetings(VecDeque<(UnixMs, Token)>);

impl Greetings {
    /// Notes that a handshake begins at this moment. There may be `most`: the oldest gives way, which
    /// is returned.
    pub fn begin(&mut self, token: Token, now: UnixMs, most: usize) -> Option<Token> {
        self.0.push_back((now + HANDSHAKE_MS, token));
        if self.0.len() > most { self.0.pop_front().map(|(_, token)| token) } else { None }
    }

    /// The next connection whose time is over, if its handshake is still not done.
    pub fn overdue(&mut self, now: UnixMs) -> Option<Token> {
        let (until, token) = *self.0.front()?;
        (until <= now).then(|| {
            self.0.pop_front();
            token
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_few_and_end_in_time() {
        let mut greetings = Greetings::default();
        assert_eq!([1, 2, 3].map(|token| greetings.begin(token, UnixMs(100 * token), 2)), [None, None, Some(1)]);
        assert_eq!(greetings.overdue(UnixMs(HANDSHAKE_MS + 199)), None);
        assert_eq!([1, 2].map(|_| greetings.overdue(UnixMs(HANDSHAKE_MS + 200))), [Some(2), None]);
    }
}
