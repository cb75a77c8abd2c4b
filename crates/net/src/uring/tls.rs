//! Connections that speak TLS.
//!
//! Ciphertext is decrypted in the provided buffer that it came in. Output is encrypted to a buffer that belongs to the
//! connection until the kernel has sent it. So at most one batch of ciphertext is under way for each connection.

use std::io::{self, IoSlice};

use io_uring::opcode;
use io_uring::types::Fd;
use node::{Output, SLICES, Token, UnixMs};

use super::{SEND, Uring, user_data};
use crate::tls::{Buffer, Heard, SEAL_BYTES, Sort};

/// Buffers for ciphertext that are kept.
const SPARES: usize = 32;

impl Uring {
    /// Takes ciphertext that has come. True: the worker has enough to do for this connection.
    pub(super) fn receive_tls(&mut self, place: u32, token: Token, id: u16, len: usize) -> io::Result<bool> {
        let Some(conn) = self.conns[place as usize].as_mut().filter(|c| !c.doomed && !c.ended) else {
            return Ok(false);
        };
        let Some(session) = conn.socket.tls.as_deref_mut() else { return Ok(false) };
        let bytes = self.buffers.bytes_mut(id, len);
        match session.sort(bytes) {
            Sort::Plain => {
                conn.socket.tls = None;
                return Ok(!self.worker.input(token, bytes));
            }
            Sort::Open => {
                let (worker, mut enough) = (&mut self.worker, false);
                let taken = session.take(bytes, &mut self.kit.sealed, |heard| match heard {
                    Heard::Open(name) => worker.identified(token, name),
                    Heard::Data(bytes) => enough |= !worker.input(token, bytes),
                });
                self.took(place, token, taken)?;
                return Ok(enough);
            }
            Sort::Greets => self.kit.begin(token, session, self.worker.node().clock.unix_ms()),
        }
        let fits = session.keep(bytes);
        if !std::mem::replace(&mut session.queued, true) {
            self.greeters.push_back(token);
        }
        if !fits {
            // The handshake may have ended already: what follows it waits in the kernel.
            self.hold(place)?;
        }
        Ok(false)
    }

    /// Takes as many steps of handshakes as a turn may.
    pub(super) fn greet(&mut self) -> io::Result<()> {
        while self.kit.steps_left > 0
            && let Some(token) = self.greeters.pop_front()
        {
            let Some(place) = self.place(token) else { continue };
            let Some(conn) = self.conns[place as usize].as_mut().filter(|c| !c.doomed) else { continue };
            let Some(session) = conn.socket.tls.as_deref_mut() else { continue };
            session.queued = false;
            self.kit.steps_left -= 1;
            let (worker, mut enough) = (&mut self.worker, false);
            let taken = session.greet(&mut self.kit.sealed, |heard| match heard {
                Heard::Open(name) => worker.identified(token, name),
                Heard::Data(bytes) => enough |= !worker.input(token, bytes),
            });
            let (held, ended) = (conn.held, taken.is_err());
            self.took(place, token, taken)?;
            match enough {
                true => self.hold(place)?,
                false if held && !ended => self.let_in(place)?,
                false => {}
            }
        }
        Ok(())
    }

    /// Sends the answers of TLS itself, and sees what has become of the connection.
    fn took(&mut self, place: u32, token: Token, taken: Result<(), rustls::Error>) -> io::Result<()> {
        let Some(conn) = self.conns[place as usize].as_mut() else { return Ok(()) };
        let under_way = conn.is_sending();
        let Some(session) = conn.socket.tls.as_deref_mut() else { return Ok(()) };
        let answers = std::mem::take(&mut self.kit.sealed);
        let (ended, open) = (session.has_ended(), session.is_open());
        if let Err(why) = taken {
            let now = self.worker.node().clock.unix_ms();
            match open {
                true => tracing::debug!("a TLS connection of a client ends: {why}"),
                false => self.kit.complain(now, &conn.socket, &why.to_string()),
            }
            let Some(session) = conn.socket.tls.as_deref_mut() else { return Ok(()) };
            if !under_way && session.unsent.is_empty() {
                let _ = conn.socket.send(answers.unsent());
            }
            self.give_back(answers);
            return self.doom(place);
        }
        session.unsent.push(answers.unsent());
        let has_answers = !answers.is_empty();
        if ended && !std::mem::replace(&mut conn.ended, true) {
            self.worker.ended(token);
        }
        self.give_back(answers);
        if has_answers { self.flush(place) } else { Ok(()) }
    }

    /// Keeps the driver's own buffer.
    fn give_back(&mut self, mut buffer: Buffer) {
        buffer.clear();
        self.kit.sealed = buffer;
    }

    /// Encrypts the next batch of output, and hands it to the kernel. No send is under way.
    pub(super) fn flush_tls(&mut self, place: u32) -> io::Result<()> {
        let Some(conn) = self.conns[place as usize].as_mut() else { return Ok(()) };
        let (token, mut buffer) = (conn.token, self.spare_buffers.pop().unwrap_or_default());
        let Some(session) = conn.socket.tls.as_deref_mut() else { return Ok(()) };
        if !session.unsent.is_empty() {
            buffer.push(session.unsent.unsent());
            session.unsent = Buffer::default();
        }
        let (plain, open) = (&mut self.kit.plain, session.is_open());
        let n = match self.worker.output(token) {
            Output::Idle => Ok(0),
            Output::Close => {
                session.close(&mut buffer);
                let _ = conn.socket.send(buffer.unsent());
                conn.doomed = true;
                self.keep_spare(buffer);
                return self.dispose(place);
            }
            Output::Last(bytes) => {
                let bytes = &bytes[..bytes.len().min(SEAL_BYTES)];
                if open && session.seal(&[IoSlice::new(bytes)], plain, &mut buffer).is_ok() {
                    session.close(&mut buffer);
                    let _ = conn.socket.send(buffer.unsent());
                }
                self.keep_spare(buffer);
                return self.doom(place);
            }
            Output::Send(_) if !open => Ok(0),
            Output::Send(_) if self.send_left == 0 => {
                if !std::mem::replace(&mut conn.delayed, true) {
                    self.unsent.push(place);
                }
                Ok(0)
            }
            Output::Send(out) => {
                let mut pieces = [IoSlice::new(&[]); SLICES];
                let count = out.slices(&mut pieces, SEAL_BYTES.min(self.send_left));
                session.seal(&pieces[..count], plain, &mut buffer)
            }
        };
        let Ok(n) = n else {
            self.keep_spare(buffer);
            return self.doom(place);
        };
        if n > 0 {
            self.worker.sent(token, n);
            self.send_left -= n;
        }
        if buffer.is_empty() {
            self.keep_spare(buffer);
            return Ok(());
        }
        conn.sealed = Some(buffer);
        self.send_sealed(place)
    }

    /// Hands ciphertext to the kernel.
    fn send_sealed(&mut self, place: u32) -> io::Result<()> {
        let Some(conn) = self.conns[place as usize].as_ref() else { return Ok(()) };
        let Some(buffer) = &conn.sealed else { return Ok(()) };
        self.sends += 1;
        let (bytes, flags) = (buffer.unsent(), libc::MSG_NOSIGNAL | libc::MSG_WAITALL);
        let entry = opcode::Send::new(Fd(conn.socket.fd()), bytes.as_ptr(), bytes.len() as u32).flags(flags).build();
        let entry = entry.user_data(user_data(SEND, place, conn.generation));
        self.push(&entry)
    }

    /// The kernel has sent ciphertext, or has failed to.
    pub(super) fn sent_sealed(&mut self, place: u32, token: Token, result: i32) -> io::Result<()> {
        let Some(conn) = self.conns[place as usize].as_mut() else { return Ok(()) };
        let Some(mut buffer) = conn.sealed.take() else { return Ok(()) };
        match usize::try_from(result) {
            Ok(n) => buffer.sent(n),
            Err(_) if result == -libc::EINTR || result == -libc::EAGAIN => {}
            Err(_) if !conn.doomed => {
                self.worker.closed(token);
                conn.doomed = true;
            }
            Err(_) => {}
        }
        if conn.doomed {
            self.keep_spare(buffer);
            return self.dispose(place);
        }
        if !buffer.is_empty() {
            conn.sealed = Some(buffer);
            return self.send_sealed(place);
        }
        self.keep_spare(buffer);
        self.flush(place)
    }

    fn keep_spare(&mut self, mut buffer: Buffer) {
        buffer.clear();
        if self.spare_buffers.len() < SPARES {
            self.spare_buffers.push(buffer);
        }
    }

    /// Ends handshakes that take too long.
    pub(super) fn end_greetings(&mut self, now: UnixMs) -> io::Result<()> {
        self.kit.follow(self.worker.node());
        while let Some(token) = self.kit.overdue(now) {
            let Some(place) = self.place(token) else { continue };
            let Some(conn) = self.conns[place as usize].as_ref().filter(|conn| !conn.doomed) else { continue };
            self.kit.complain(now, &conn.socket, "the client has not finished its handshake in time");
            self.doom(place)?;
        }
        Ok(())
    }
}
