//! The output of one end of a link: the items of one turn, or of a few, become one frame.

use std::collections::BTreeMap;

use ::membership::frame::{self, HEADER, Kind};
use ::membership::items::{Item, extend_commands, items, put_commands, put_replies};

/// Bytes of items in a frame above which another frame begins: the other end has work meanwhile, and need not keep
/// more.
const FRAME: usize = 256 * 1024;

/// Bytes that may wait for more.
const WAITING: usize = 32 * 1024;

/// Bytes that are copied, and do not leave with their memory.
const COPIED: usize = 64 * 1024;

/// Frames that are being made.
#[derive(Default)]
pub(crate) struct Stage {
    bytes: Vec<u8>,
    /// Where the last one begins, if it has not ended.
    open: Option<usize>,
    /// The last item, if it holds commands: of which virtual connection, and where it begins.
    commands: Option<(u32, usize)>,
    /// It holds a message of a transaction, for which locks are held.
    hurries: bool,
}

impl Stage {
    /// The buffer for the next item.
    fn room(&mut self) -> &mut Vec<u8> {
        self.commands = None;
        if self.open.is_some_and(|at| self.bytes.len() - at > FRAME) {
            self.close();
        }
        if self.open.is_none() {
            self.open = Some(frame::begin(&mut self.bytes));
        }
        &mut self.bytes
    }

    /// True if there is nothing to send.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes to send.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds an item.
    pub(crate) fn put(&mut self, item: &Item<'_>) {
        item.put(self.room());
    }

    /// Adds a frame with a message of a transaction, whose body `write` appends.
    pub(crate) fn message(&mut self, write: &dyn Fn(&mut Vec<u8>)) {
        self.close();
        self.hurries = true;
        let at = frame::begin(&mut self.bytes);
        write(&mut self.bytes);
        if self.bytes.len() - at - HEADER > frame::BODY_MAX {
            // No caller makes such a message. It counts as lost.
            tracing::error!("a message of a transaction over nodes is longer than a frame, and is dropped");
            return self.bytes.truncate(at);
        }
        frame::finish(&mut self.bytes, at, Kind::Transactions);
    }

    /// Adds commands, to the last item if that holds commands of the same connection.
    pub(crate) fn commands(&mut self, vc: u32, epoch: u64, mut bytes: &[u8]) {
        loop {
            let (now, later) = bytes.split_at(bytes.len().min(FRAME));
            let is_long = self.open.is_some_and(|at| self.bytes.len() - at > FRAME);
            let at = match self.commands.filter(|(of, _)| *of == vc && !is_long) {
                Some((_, at)) => at,
                None => put_commands(self.room(), vc, epoch),
            };
            extend_commands(&mut self.bytes, at, now);
            self.commands = Some((vc, at));
            if later.is_empty() {
                return;
            }
            bytes = later;
        }
    }

    /// Adds replies: see [`put_replies`]. At most [`Self::PIECE`] bytes of them.
    pub(crate) fn replies(&mut self, vc: u32, lengths: &[u32], bytes: &[u8]) {
        put_replies(self.room(), vc, lengths, |out| out.extend_from_slice(bytes));
    }

    /// Most bytes of replies at once.
    pub(crate) const PIECE: usize = FRAME;

    fn close(&mut self) {
        self.commands = None;
        if let Some(at) = self.open.take() {
            frame::finish(&mut self.bytes, at, Kind::Data);
        }
    }

    /// True if it may be sent later, together with more.
    pub(crate) fn may_wait(&self) -> bool {
        !self.hurries && self.bytes.len() < WAITING
    }

    /// Ends the last frame and moves everything to the end of `out`: mostly by exchanging memory, if `out` is empty.
    pub(crate) fn flush(&mut self, out: &mut Vec<u8>) {
        self.close();
        self.hurries = false;
        if out.is_empty() && self.bytes.len() > COPIED {
            std::mem::swap(out, &mut self.bytes);
        } else {
            out.append(&mut self.bytes);
        }
    }

    /// The commands of each virtual connection.
    pub(crate) fn staged(&mut self) -> BTreeMap<u32, Vec<u8>> {
        self.close();
        let (mut staged, mut rest) = (BTreeMap::<u32, Vec<u8>>::new(), &self.bytes[..]);
        while let Ok(Some(frame)) = frame::read(rest) {
            for item in items(frame.body).filter(|_| frame.kind == Kind::Data) {
                if let Ok(Item::Commands { vc, bytes, .. }) = item {
                    staged.entry(vc).or_default().extend_from_slice(bytes);
                }
            }
            rest = &rest[HEADER + frame.body.len()..];
        }
        staged
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Stage::default();
    }
}

const _: () = assert!(2 * FRAME + HEADER < frame::BODY_MAX);
