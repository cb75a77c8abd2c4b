//! The questions of a block or script to other nodes, and their answers.

use engine::Busy;
use resp::{Args, append_request};

/// A question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Question {
    pub(super) db: u16,
    pub(super) words: Vec<Box<[u8]>>,
    /// This node is asked as well.
    pub(super) home: bool,
}

impl Question {
    pub(super) fn of(db: u16, args: Args<'_>, home: bool) -> Self {
        Self { db, words: args.iter().map(Into::into).collect(), home }
    }

    /// The question in the form in which nodes get it. A message leaves only when its block is committed, so nodes are
    /// asked how many clients it would reach.
    pub(super) fn request(&self) -> Vec<u8> {
        let word = |i: usize| self.words.get(i).map_or(&b""[..], |word| word);
        let mut bytes = Vec::new();
        let shard = word(0).eq_ignore_ascii_case(b"spublish");
        if shard || word(0).eq_ignore_ascii_case(b"publish") {
            let kind: &[u8] = if shard { b"SHARD" } else { b"CHANNEL" };
            append_request(&mut bytes, &[&b"HOLDFAST"[..], b"RECEIVERS", kind, word(1)]);
        } else {
            append_request(&mut bytes, &self.words);
        }
        bytes
    }

    /// The question without the text of a message.
    pub(super) fn key(&self) -> (u16, &[Box<[u8]>], bool) {
        let is_message = self.words.first().is_some_and(|word| word.to_ascii_lowercase().ends_with(b"publish"));
        (self.db, if is_message { self.words.get(..2).unwrap_or(&[]) } else { &self.words }, self.home)
    }
}

/// The verdict on a command of a block or script.
pub(crate) enum Asks {
    /// It runs.
    Nothing,
    /// It does not run: the answers of nodes are its reply.
    Answered,
    /// It is undone, and runs again when other nodes have answered.
    Waits(Busy),
    /// Its reply is this error.
    Fails(&'static [u8]),
}

/// The questions of the present command of a session.
#[derive(Default)]
pub struct Answers {
    pub(super) wanted: Option<Question>,
    pub(super) known: Vec<(Question, Vec<Vec<u8>>)>,
    /// Its command has ended, or runs in a workspace.
    pub(crate) is_over: bool,
}

impl Answers {
    pub(super) fn find(&self, question: &Question) -> Option<&Vec<Vec<u8>>> {
        self.known.iter().find(|(known, _)| known.key() == question.key()).map(|(_, parts)| parts)
    }

    /// Present if nodes are to be asked. True if the question is about keys, and so waits for locked ones.
    pub(crate) fn wants(&self) -> Option<bool> {
        self.wanted.as_ref().map(|question| question.home)
    }

    pub(crate) fn learn(&mut self, question: Question, parts: Vec<Vec<u8>>) {
        self.known.push((question, parts));
    }
}
