//! The age of what a standby knows: when its owner said how far the log was committed, and all of that is applied since
//! (rule S14).

use std::sync::{Mutex, PoisonError};

use quorum::Term;

/// The knowledge of a standby: all that was committed at a time is applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Known {
    /// The term whose owner has said what was committed.
    pub term: Term,
    /// When that owner was heard saying so, in nanoseconds of the standby's clock; 0: never. What it said was true then or
    /// somewhat earlier.
    pub at: u64,
    /// When the owner was last heard.
    pub heard_at: u64,
}

/// [`Known`], for other threads.
#[derive(Default)]
pub struct Shared(Mutex<Known>);

impl Shared {
    pub fn get(&self) -> Known {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, known: Known) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = known;
    }
}

/// The word of an owner about all streams: how far each is committed, and when the oldest of these words came.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Word {
    places: Vec<u64>,
    at: u64,
}

/// The words of owners, and how far the standby is with what they said.
#[derive(Default)]
pub struct Words {
    /// The words are of this term's owner.
    term: Term,
    /// For each stream, the place up to which it is committed, and when that was said; 0: never.
    said: Vec<(u64, u64)>,
    /// The places up to which everything is applied.
    done: Vec<u64>,
    /// A word that is waited for. Without it a log that goes on would never be caught up with.
    next: Option<Word>,
    known: Known,
}

impl Words {
    pub fn new(streams: usize) -> Self {
        Self { said: vec![(0, 0); streams], done: vec![0; streams], ..Self::default() }
    }

    /// The owner of the term that is promised says that a stream is committed up to a place. Words of former owners count
    /// no more.
    pub fn say(&mut self, term: Term, stream: usize, place: u64, now: u64) {
        if term != self.term {
            (self.term, self.next) = (term, None);
            self.said.fill((0, 0));
        }
        if let Some((known, at)) = self.said.get_mut(stream) {
            (*known, *at) = ((*known).max(place), now);
        }
        self.known.heard_at = now;
    }

    /// Everything is applied up to these places.
    pub fn done(&mut self, places: impl Iterator<Item = u64>) {
        self.done.iter_mut().zip(places).for_each(|(done, place)| *done = place.max(*done));
    }

    /// Finds out what is known now, and shows it.
    pub fn show(&mut self, shared: &Shared) {
        let at = self.said.iter().map(|(_, at)| *at).min().unwrap_or(0);
        let last = Word { places: self.said.iter().map(|(place, _)| *place).collect(), at };
        let is_done =
            |word: &Word| word.at > 0 && word.places.iter().zip(&self.done).all(|(place, done)| place <= done);
        let done = if is_done(&last) {
            Some(last.at)
        } else {
            self.next.as_ref().filter(|word| is_done(word)).map(|word| word.at)
        };
        if let Some(at) = done {
            (self.known.term, self.known.at) = (self.term, at);
            self.next = None;
        }
        if self.next.is_none() && done != Some(last.at) {
            self.next = Some(last);
        }
        shared.set(self.known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(n: u32) -> Term {
        Term::new(n).unwrap()
    }

    struct Standby(Words, Shared);

    impl Standby {
        fn new() -> Self {
            Self(Words::new(2), Shared::default())
        }

        /// Both streams are said to be committed up to a place.
        fn said(&mut self, of: u32, places: [u64; 2], at: u64) -> u64 {
            (0..2).for_each(|stream| self.0.say(term(of), stream, places[stream], at));
            self.at()
        }

        fn applied(&mut self, places: [u64; 2]) -> u64 {
            self.0.done(places.into_iter());
            self.at()
        }

        fn at(&mut self) -> u64 {
            self.0.show(&self.1);
            self.1.get().at
        }
    }

    #[test]
    fn an_idle_log_is_known_as_long_as_its_owner_speaks() {
        let mut of = Standby::new();
        assert_eq!(of.applied([5, 7]), 0, "nobody has said anything");
        assert_eq!(of.said(1, [5, 7], 100), 100);
        assert_eq!(of.said(1, [5, 7], 200), 200);
        // It says something of one stream alone: what is known of the other one counts.
        of.0.say(term(1), 0, 5, 300);
        assert_eq!(of.at(), 200);
        assert_eq!((of.1.get().heard_at, of.1.get().term), (300, term(1)));
    }

    #[test]
    fn what_is_known_is_as_old_as_what_is_applied() {
        let mut of = Standby::new();
        of.applied([1, 1]);
        assert_eq!(of.said(1, [1, 1], 10), 10);
        // A log that goes on faster than words are waited for.
        for round in 1..50 {
            let (at, ahead) = (10 + 10 * round, 1 + 10 * round);
            let before = of.said(1, [ahead, 1], at);
            assert!(before + 20 >= at && before < at, "round {round}: {before}");
            let known = of.applied([ahead - 5, 1]);
            assert!(known < at, "not all of it is applied");
        }
        let known = of.at();
        assert_eq!(of.said(1, [1000, 1], 9_000), known);
        assert_eq!(of.applied([999, 1]), 500, "the word before is done");
        assert_eq!(of.applied([1000, 1]), 9_000);
    }

    #[test]
    fn words_of_former_owners_count_no_more() {
        let mut of = Standby::new();
        of.applied([5, 5]);
        assert_eq!(of.said(1, [5, 5], 10), 10);
        of.0.say(term(2), 0, 5, 20);
        assert_eq!(of.at(), 10, "the new owner has not spoken of all streams");
        of.0.say(term(2), 1, 6, 30);
        assert_eq!((of.at(), of.1.get().term), (10, term(1)));
        assert_eq!((of.applied([5, 6]), of.1.get().term), (20, term(2)));
    }
}
