//! Connections that speak TLS.
//!
//! Ciphertext is read to one buffer of the driver and decrypted there. Output is encrypted to another one, in batches,
//! and sent from it. A connection holds ciphertext of its own only if its socket has no room, or a record is not whole.

use std::io::{self, IoSlice};

use node::{Output, SLICES, Token, UnixMs};

use super::Epoll;
use crate::socket::Socket;
use crate::tls::{Buffer, Heard, READ_BYTES, SEAL_BYTES, Sort};

impl Epoll {
    /// Reads from a connection, and decrypts.
    pub(super) fn read_tls(&mut self, token: Token) {
        let Self { sockets, kit, worker, .. } = self;
        let Some(place) = sockets.get_mut(token as u32 as usize).and_then(Option::as_mut) else { return };
        let (ends, socket) = (place.ends, &mut place.socket);
        let Some(session) = socket.tls.as_deref_mut() else { return };
        let open = session.is_open();
        if !open && kit.steps_left == 0 {
            if !std::mem::replace(&mut session.queued, true) {
                self.greeters.push_back(token);
            }
            return;
        }
        if session.has_ended() || open && worker.space(token).is_none() {
            return;
        }
        kit.read.resize(READ_BYTES, 0);
        let room = READ_BYTES.min(self.read_left);
        let n = match socket.read(&mut kit.read[..room]) {
            Ok(0) => return worker.ended(token),
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return self.read_later(token),
            Err(_) => return self.closed(token),
        };
        self.read_left -= n;
        self.take_tls(token, n);
        if n == room || ends {
            self.read_later(token);
        }
    }

    /// Decrypts bytes that were read.
    fn take_tls(&mut self, token: Token, n: usize) {
        let Self { sockets, kit, worker, .. } = self;
        let Some(place) = sockets.get_mut(token as u32 as usize).and_then(Option::as_mut) else { return };
        let Some(session) = place.socket.tls.as_deref_mut() else { return };
        let now = worker.node().clock.unix_ms();
        match session.sort(&kit.read[..n]) {
            Sort::Plain => {
                place.socket.tls = None;
                worker.input(token, &kit.read[..n]);
                return;
            }
            Sort::Greets => {
                kit.begin(token, session, now);
                kit.steps_left = kit.steps_left.saturating_sub(1);
            }
            Sort::Open => {}
        }
        let taken = session.take(&mut kit.read[..n], &mut kit.sealed, |heard| match heard {
            Heard::Open(name) => worker.identified(token, name),
            Heard::Data(bytes) => _ = worker.input(token, bytes),
        });
        let (ended, open) = (session.has_ended(), session.is_open());
        let sent = send(&mut place.socket, &mut kit.sealed);
        if let Err(why) = taken {
            match open {
                true => tracing::debug!("a TLS connection of a client ends: {why}"),
                false => kit.complain(now, &place.socket, &why.to_string()),
            }
            return self.closed(token);
        }
        if sent.is_err() {
            return self.closed(token);
        }
        if ended {
            worker.ended(token);
        }
    }

    /// Reads from connections whose handshakes have waited for this turn, as many as it may take.
    pub(super) fn greet(&mut self) {
        while self.kit.steps_left > 0
            && let Some(token) = self.greeters.pop_front()
        {
            if let Some(session) = self.place(token).and_then(|place| place.socket.tls.as_deref_mut()) {
                session.queued = false;
                self.read(token);
            }
        }
    }

    /// Encrypts output of a connection and sends it, at most `left` bytes.
    pub(super) fn flush_tls(&mut self, token: Token, mut left: usize) {
        loop {
            let Self { sockets, kit, worker, .. } = self;
            let Some(place) = sockets.get_mut(token as u32 as usize).and_then(Option::as_mut) else { return };
            match send(&mut place.socket, &mut kit.sealed) {
                Ok(true) => {}
                // The edge that says there is room again flushes the rest.
                Ok(false) => return,
                Err(_) => return self.closed(token),
            }
            let Some(session) = place.socket.tls.as_deref_mut() else { return };
            let n = match worker.output(token) {
                Output::Idle => return,
                Output::Close => {
                    session.close(&mut kit.sealed);
                    let _ = send(&mut place.socket, &mut kit.sealed);
                    return self.remove(token);
                }
                Output::Last(bytes) => {
                    let bytes = &bytes[..bytes.len().min(SEAL_BYTES)];
                    if session.is_open()
                        && session.seal(&[IoSlice::new(bytes)], &mut kit.plain, &mut kit.sealed).is_ok()
                    {
                        session.close(&mut kit.sealed);
                        let _ = send(&mut place.socket, &mut kit.sealed);
                    }
                    kit.sealed.clear();
                    return self.closed(token);
                }
                // The end of the handshake comes with something to read, after which there is a turn.
                Output::Send(_) if !session.is_open() => return,
                Output::Send(_) if left == 0 => {
                    if !std::mem::replace(&mut place.unsent, true) {
                        self.unsent.push(token);
                    }
                    return;
                }
                Output::Send(out) => {
                    let mut pieces = [IoSlice::new(&[]); SLICES];
                    let count = out.slices(&mut pieces, left.min(SEAL_BYTES));
                    session.seal(&pieces[..count], &mut kit.plain, &mut kit.sealed)
                }
            };
            let Ok(n) = n else {
                kit.sealed.clear();
                return self.closed(token);
            };
            worker.sent(token, n);
            left -= n;
            self.send_left -= n;
        }
    }

    /// Ends handshakes that take too long.
    pub(super) fn end_greetings(&mut self, now: UnixMs) {
        self.kit.follow(self.worker.node());
        while let Some(token) = self.kit.overdue(now) {
            let Self { sockets, kit, .. } = self;
            let place = sockets.get(token as u32 as usize).and_then(Option::as_ref);
            if let Some(place) = place.filter(|place| place.token == token) {
                kit.complain(now, &place.socket, "the client has not finished its handshake in time");
                self.closed(token);
            }
        }
    }
}

/// Sends ciphertext: first what the socket had no room for before. The rest stays with the connection, and `sealed` is
/// empty afterwards. True: nothing is left.
fn send(socket: &mut Socket, sealed: &mut Buffer) -> io::Result<bool> {
    let Some(mut session) = socket.tls.take() else { return Ok(true) };
    let waited = !session.unsent.is_empty();
    if waited {
        session.unsent.push(sealed.unsent());
        sealed.clear();
    }
    let sent = send_all(socket, if waited { &mut session.unsent } else { sealed });
    if !waited && !sealed.is_empty() {
        session.unsent.push(sealed.unsent());
        sealed.clear();
    }
    if session.unsent.is_empty() && waited {
        session.unsent = Buffer::default();
    }
    socket.tls = Some(session);
    sent
}

fn send_all(socket: &Socket, bytes: &mut Buffer) -> io::Result<bool> {
    while !bytes.is_empty() {
        match socket.send(bytes.unsent()) {
            Ok(n) => bytes.sent(n),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
