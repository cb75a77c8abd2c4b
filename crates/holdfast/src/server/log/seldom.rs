//! Lines that traffic can cause are logged at most once in ten seconds for each cause, with a count of those left out.
//!
//! A client or another node can repeat an action as fast as the network allows. The log must not grow with that.

use std::collections::BTreeMap;

/// Milliseconds between two lines of one cause.
pub const EVERY_MS: u64 = 10_000;
/// Causes that are told apart. Beyond these the place in the code is the cause.
const CAUSES_MAX: usize = 256;
/// Bytes of the name of a cause: the rest does not tell it from others.
const NAME_MAX: usize = 256;

/// Why a line is logged: the place in the code, and a name where one place logs for several causes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cause {
    place: (&'static str, u32),
    name: String,
}

impl Cause {
    /// A cause of this place, a file and a line.
    pub fn new(place: (&'static str, u32), name: &str) -> Self {
        Self { place, name: name.chars().take(NAME_MAX).collect() }
    }
}

/// A line that was left out, and how many there were of its cause.
#[derive(PartialEq, Eq, Debug)]
pub struct LeftOut {
    /// How important it is: the sign of its level.
    pub sign: char,
    /// The last of these lines.
    pub text: String,
    /// How many lines.
    pub count: u64,
}

#[derive(Debug)]
struct Known {
    /// When a line was logged, in milliseconds.
    logged: u64,
    left_out: LeftOut,
}

/// See the module's text.
#[derive(Debug, Default)]
pub struct Seldom {
    known: BTreeMap<Cause, Known>,
}

impl Seldom {
    /// Decides if a line is logged at `now`, in milliseconds of any clock. Returns the number of lines of its cause that
    /// were left out before it; `None`: this line is left out.
    pub fn admit(&mut self, now: u64, mut cause: Cause, (sign, text): (char, &str)) -> Option<u64> {
        if self.known.len() >= CAUSES_MAX && !self.known.contains_key(&cause) {
            self.known.retain(|_, known| known.left_out.count > 0 || now < known.logged + EVERY_MS);
            if self.known.len() >= CAUSES_MAX {
                cause.name.clear();
            }
        }
        let Some(known) = self.known.get_mut(&cause) else {
            let left_out = LeftOut { sign, text: String::new(), count: 0 };
            self.known.insert(cause, Known { logged: now, left_out });
            return Some(0);
        };
        if now < known.logged + EVERY_MS {
            let count = known.left_out.count + 1;
            known.left_out = LeftOut { sign, text: text.to_owned(), count };
            return None;
        }
        known.logged = now;
        Some(std::mem::take(&mut known.left_out.count))
    }

    /// True if lines were left out that nobody has been told of.
    pub fn owes(&self) -> bool {
        self.known.values().any(|known| known.left_out.count > 0)
    }

    /// The counts of omitted lines that are due to be logged at `now`, in milliseconds of the same clock.
    pub fn overdue(&mut self, now: u64) -> Vec<LeftOut> {
        let due = |known: &&mut Known| known.left_out.count > 0 && now >= known.logged + EVERY_MS;
        let take = |known: &mut Known| {
            known.logged = now;
            let nothing = LeftOut { sign: known.left_out.sign, text: String::new(), count: 0 };
            std::mem::replace(&mut known.left_out, nothing)
        };
        self.known.values_mut().filter(due).map(take).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(line: u32, name: &str) -> Cause {
        Cause::new(("a.rs", line), name)
    }

    #[test]
    fn a_cause_is_logged_once_in_ten_seconds_with_a_count() {
        let mut seldom = Seldom::default();
        assert_eq!(seldom.admit(5, cause(1, ""), ('#', "a")), Some(0));
        for _ in 0..3469 {
            assert_eq!(seldom.admit(6, cause(1, ""), ('#', "a")), None);
        }
        assert_eq!(seldom.admit(6, cause(2, ""), ('#', "b")), Some(0), "another place");
        assert_eq!(seldom.admit(EVERY_MS + 4, cause(1, ""), ('#', "a")), None);
        assert_eq!(seldom.admit(EVERY_MS + 5, cause(1, ""), ('#', "a")), Some(3470));
        assert_eq!(seldom.admit(2 * EVERY_MS + 5, cause(1, ""), ('#', "a")), Some(0));
    }

    #[test]
    fn what_was_left_out_last_is_told_though_nothing_follows() {
        let mut seldom = Seldom::default();
        seldom.admit(0, cause(1, "x"), ('#', "first"));
        seldom.admit(1, cause(1, "x"), ('#', "second"));
        assert_eq!(seldom.admit(1, cause(1, "y"), ('*', "of another node")), Some(0));
        assert!(seldom.owes() && seldom.overdue(EVERY_MS - 1).is_empty());
        let second = LeftOut { sign: '#', text: "second".into(), count: 1 };
        assert_eq!(seldom.overdue(EVERY_MS), [second]);
        assert!(!seldom.owes());
        assert_eq!(seldom.admit(EVERY_MS + 1, cause(1, "x"), ('#', "third")), None, "it was just told");
    }

    #[test]
    fn many_causes_of_one_place_are_bounded() {
        let mut seldom = Seldom::default();
        let logged = (0..10_000).filter(|i| seldom.admit(0, cause(1, &i.to_string()), ('#', "")).is_some()).count();
        assert_eq!(logged, CAUSES_MAX + 1);
        assert!(seldom.known.len() <= CAUSES_MAX + 1);
        assert_eq!(seldom.admit(EVERY_MS, cause(1, "new"), ('#', "")), Some(0), "those before are over");
    }
}
