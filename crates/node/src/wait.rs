//! Connections that wait: for a latch, for keys, for a walk to end.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use engine::{Blocked, Step};
use resp::Reply;

use crate::conn::{Conn, Wait};
use crate::message::Message;
use crate::stats::{add, sub};
use crate::worker::{Token, Worker, write_error};

impl Worker {
    /// The command of this connection has become a wait for keys.
    pub(crate) fn wait_for_keys(&mut self, conn: &mut Conn, blocked: Arc<Blocked>) {
        add(&self.stats.blocked, 1);
        conn.session.client.blocked.store(true, Relaxed);
        if let Some(at) = blocked.deadline {
            self.deadlines.insert((at, conn.token));
        }
        conn.wait = Wait::Keys(blocked);
    }

    /// Sends on what the engine has for connections: wake-ups and served replies.
    pub(crate) fn send_on(&mut self) {
        for waiter in std::mem::take(&mut self.engine.wakes) {
            self.tell(waiter.worker, Message::Unpark(waiter.token));
        }
        for served in std::mem::take(&mut self.engine.served) {
            self.tell(served.waiter.worker, Message::Served { token: served.waiter.token, reply: served.reply });
        }
        // Nobody can subscribe yet.
        self.engine.published.clear();
        for token in std::mem::take(&mut self.again) {
            self.resume(token);
        }
    }

    fn tell(&mut self, worker: u16, message: Message) {
        if usize::from(worker) == self.index {
            self.deliver(message);
        } else {
            self.node.send(usize::from(worker), message);
        }
    }

    pub(crate) fn unpark(&mut self, token: Token) {
        if let Some(conn) = self.conn(token)
            && let Wait::Latch = conn.wait
        {
            conn.wait = Wait::No;
            self.resume(token);
        }
    }

    /// A blocked command has been served by whoever changed its key.
    pub(crate) fn served(&mut self, token: Token, reply: &[u8]) {
        let Some(mut conn) = self.take_conn(token) else { return };
        if let Wait::Keys(blocked) = std::mem::replace(&mut conn.wait, Wait::No) {
            sub(&self.stats.blocked, 1);
            conn.session.client.blocked.store(false, Relaxed);
            if let Some(at) = blocked.deadline {
                self.deadlines.remove(&(at, token));
            }
            self.ensure_out(&mut conn);
            conn.out.extend_from_slice(reply);
        }
        self.put_conn(conn);
        self.mark_dirty(token);
        self.resume(token);
    }

    /// Ends a wait for keys from the client's side: CLIENT UNBLOCK.
    pub(crate) fn unblock(&mut self, token: Token, with_error: bool) {
        let Some(conn) = self.conn(token) else { return };
        let Wait::Keys(blocked) = &conn.wait else { return };
        let blocked = blocked.clone();
        if blocked.cancel() {
            self.give_up(token, &blocked, with_error);
        }
    }

    /// Answers what a wait that was cancelled answers.
    fn give_up(&mut self, token: Token, blocked: &Arc<Blocked>, with_error: bool) {
        let Some(mut conn) = self.take_conn(token) else { return };
        self.end_wait(&mut conn);
        self.ensure_out(&mut conn);
        if with_error {
            let text = b"UNBLOCKED client unblocked via CLIENT UNBLOCK";
            write_error(&mut conn.out, blocked.protocol, text);
        } else {
            // Redis answers so whatever the command would have answered inside MULTI.
            Reply::new(&mut conn.out, blocked.protocol).null_array();
        }
        self.put_conn(conn);
        self.mark_dirty(token);
        self.resume(token);
    }

    /// Ends the waits whose time is over.
    pub(crate) fn end_waits(&mut self, now: u64) {
        while let Some(&(at, token)) = self.deadlines.first() {
            if at > now {
                break;
            }
            self.deadlines.pop_first();
            let Some(conn) = self.conn(token) else { continue };
            let Wait::Keys(blocked) = &conn.wait else { continue };
            let blocked = blocked.clone();
            if blocked.cancel() {
                self.give_up(token, &blocked, false);
            } else {
                // Somebody is serving it at this moment; if nothing comes of that, the wait is over all the same.
                self.deadlines.insert((now + 1, token));
                break;
            }
        }
    }

    /// Takes ended waits and watches out of the keyspace where that was not possible at once.
    pub(crate) fn clean_up(&mut self) {
        let leftovers = std::mem::take(&mut self.leftovers);
        for blocked in leftovers {
            if !self.engine.forget(&blocked) {
                self.leftovers.push(blocked);
            }
        }
        self.engine.unwatch_leftovers();
    }

    /// Lets every walk over the keyspace go on by a step.
    pub(crate) fn step_walks(&mut self) {
        for token in std::mem::take(&mut self.walks) {
            let Some(mut conn) = self.take_conn(token) else { continue };
            if let Wait::Walk(mut walking) = std::mem::replace(&mut conn.wait, Wait::No) {
                self.ensure_out(&mut conn);
                match self.engine.step_walk(&mut walking, &mut conn.out) {
                    Step::Done => self.again.push(token),
                    // A busy latch is looked at again next turn: walks are patient.
                    Step::More | Step::Busy(_) => {
                        conn.wait = Wait::Walk(walking);
                        self.walks.push(token);
                    }
                }
            }
            let finished = matches!(conn.wait, Wait::No);
            self.put_conn(conn);
            if finished {
                self.mark_dirty(token);
            }
        }
    }
}
