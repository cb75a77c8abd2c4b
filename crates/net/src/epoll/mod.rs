//! The epoll driver, one for each worker. It works on every Linux.
//!
//! It is edge-triggered: it reads a socket until a short read shows that nothing is left. After a full buffer it reads
//! on in the next turn, after the other sockets.

mod tls;
mod wait;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use mio::unix::SourceFd;
use mio::{Interest, Poll, Token as MioToken, Waker};
use node::{Output, Token, UnixMs, Worker};

use crate::lane::{Lane, Shed, thread_cpu_ns};
use crate::links::Links;
use crate::socket::{Incoming, READ_BYTES, READ_BYTES_PER_TURN, SEND_BYTES, SEND_BYTES_PER_TURN, Socket};
use crate::tls::Kit;
use wait::Events;

const WAKE: MioToken = MioToken(usize::MAX);
/// Milliseconds after which a worker takes a turn even without events.
const TICK_MS: u64 = 100;
/// Events taken at once. To read from more ready connections would make a turn long.
const EVENTS: usize = 256;
/// Milliseconds between two reports of the worker's load.
const LOOK_MS: u64 = 25;

/// A connection's socket.
struct Place {
    token: Token,
    socket: Socket,
    /// True if the socket is in `Epoll::unsent`.
    unsent: bool,
    /// True if the socket is in `Epoll::unfinished`.
    unread: bool,
    /// True if the stream has an end that has not been read yet. The system reports it only once.
    ends: bool,
    /// True if output waits for room in the socket. The system reports room with nearly every request, too.
    full: bool,
}

/// A worker and its sockets.
pub struct Epoll {
    poll: Poll,
    worker: Worker,
    lanes: Arc<[Lane]>,
    links: Links,
    sockets: Vec<Option<Place>>,
    /// Sockets that may have more to read.
    unfinished: Vec<Token>,
    /// Sockets with more output than one turn may send.
    unsent: Vec<Token>,
    /// Bytes that may still be sent in this turn.
    send_left: usize,
    /// Bytes that may still be received in this turn.
    read_left: usize,
    /// For connections that speak TLS.
    kit: Kit,
    /// Those with the next step of a handshake to take, in another turn.
    greeters: VecDeque<Token>,
}

impl Epoll {
    /// Makes the poll that a driver waits with, and the waker that ends the wait from any thread.
    ///
    /// # Errors
    ///
    /// The system gives no poll, or no waker.
    pub fn poll() -> io::Result<(Poll, Waker)> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        Ok((poll, waker))
    }

    /// A driver for `worker`.
    pub(crate) fn new(poll: Poll, worker: Worker, links: Links) -> Epoll {
        Epoll {
            poll,
            worker,
            lanes: links.lanes().clone(),
            links,
            sockets: Vec::new(),
            unfinished: Vec::new(),
            unsent: Vec::new(),
            send_left: SEND_BYTES_PER_TURN,
            read_left: READ_BYTES_PER_TURN,
            kit: Kit::default(),
            greeters: VecDeque::new(),
        }
    }

    /// Runs until the node stops.
    ///
    /// # Errors
    ///
    /// The poll has failed.
    pub fn run(mut self) -> io::Result<()> {
        let node = self.worker.node().clone();
        let mut events = Events::new(EVENTS);
        let mut tokens: Vec<(Token, bool, bool, bool)> = Vec::new();
        let mut looked = UnixMs::ZERO;
        while !self.worker.has_left() {
            match events.wait(&self.poll, self.patience_ms()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            }
            let now = node.clock.unix_ms();
            self.send_left = SEND_BYTES_PER_TURN;
            self.read_left = READ_BYTES_PER_TURN;
            self.kit.turn();
            tokens.clear();
            for event in events.all() {
                if event.token() == WAKE.0 {
                    self.worker.read_mail();
                    self.take_incoming(now);
                } else {
                    let token = event.token() as Token;
                    tokens.push((token, event.is_readable(), event.is_writable(), event.is_read_closed()));
                }
            }
            self.greet();
            // Sockets that had to wait in the last turn, because enough had been read, come first.
            if !self.unfinished.is_empty() {
                self.read_on();
            }
            for &(token, readable, writable, ended) in &tokens {
                if writable {
                    self.has_room(token);
                }
                if readable {
                    self.read(token);
                }
                if ended {
                    // Input that came before the end of the stream is executed and answered first.
                    if let Some(place) = self.place(token) {
                        place.ends = true;
                    }
                    self.read_later(token);
                }
            }
            self.worker.turn(now);
            while let Some(dial) = self.worker.next_dial() {
                self.links.dial(self.worker.index(), &dial);
            }
            while let Some(token) = self.worker.next_thirsty() {
                self.read_later(token);
            }
            if !self.unsent.is_empty() {
                self.send_on();
            }
            while let Some(token) = self.worker.next_output() {
                self.flush(token);
            }
            if now >= looked + LOOK_MS {
                looked = now;
                self.look(now);
            }
        }
        Ok(())
    }

    /// Reads from the sockets that may have more.
    fn read_on(&mut self) {
        for token in std::mem::take(&mut self.unfinished) {
            if let Some(place) = self.place(token) {
                place.unread = false;
                self.read(token);
            }
        }
    }

    /// Sends to the sockets whose output was more than one turn may send.
    fn send_on(&mut self) {
        for token in std::mem::take(&mut self.unsent) {
            if let Some(place) = self.place(token) {
                place.unsent = false;
                self.flush(token);
            }
        }
    }

    /// The socket has room: output that waits for it is sent.
    fn has_room(&mut self, token: Token) {
        if let Some(place) = self.place(token)
            && (place.full || place.socket.tls.is_some())
        {
            place.full = false;
            self.flush(token);
        }
    }

    /// Reports the load and carries out orders of the governor.
    fn look(&mut self, now: UnixMs) {
        self.end_greetings(now);
        let lane = &self.lanes[self.worker.index()];
        lane.cpu_ns.store(thread_cpu_ns(), Relaxed);
        if let Some(order) = lane.take_order() {
            self.shed(order);
        }
    }

    fn patience_ms(&self) -> u64 {
        let waits = !self.unfinished.is_empty() || !self.unsent.is_empty() || !self.greeters.is_empty();
        if self.worker.has_work() || waits {
            return 0;
        }
        self.worker.patience_ms(TICK_MS)
    }

    fn take_incoming(&mut self, now: UnixMs) {
        for incoming in self.lanes[self.worker.index()].take() {
            match incoming {
                Incoming::Client { mut socket, peer } => match self.worker.accept(peer, now) {
                    Ok(token) => {
                        if let Some(session) = socket.tls.as_deref_mut().filter(|session| !session.may_be_plain()) {
                            self.kit.begin(token, session, now);
                        }
                        self.install(token, socket);
                    }
                    Err(refusal) => {
                        if socket.tls.is_none() {
                            let _ = socket.send(refusal);
                        }
                    }
                },
                Incoming::Moved { socket, session } => {
                    let token = self.worker.adopt(*session);
                    self.install(token, socket);
                }
                Incoming::Link { socket, from } => {
                    let token = self.worker.accept_link(&from, now);
                    self.install(token, socket);
                }
                Incoming::Dialed { token, socket: Some(socket) } => {
                    if self.worker.link_opened(token) {
                        self.install(token, socket);
                    }
                }
                Incoming::Dialed { token, socket: None } => self.worker.closed(token),
            }
        }
    }

    /// Gives connections that are at rest to another worker.
    fn shed(&mut self, order: Shed) {
        let tokens: Vec<Token> = self.sockets.iter().flatten().map(|place| place.token).collect();
        let mut left = order.count;
        for token in tokens {
            if left == 0 {
                break;
            }
            if !self.place(token).is_some_and(|place| place.socket.is_at_rest()) {
                continue;
            }
            let Some(detached) = self.worker.detach(token) else { continue };
            left -= 1;
            let place = self.sockets.get_mut(token as u32 as usize).and_then(Option::take);
            if let Some(Place { socket, .. }) = place {
                // The new driver hears of data that arrives from here on when it registers the socket.
                let _ = self.poll.registry().deregister(&mut SourceFd(&socket.fd()));
                self.lanes[order.to].put(Incoming::Moved { socket, session: detached });
            }
        }
    }

    fn install(&mut self, token: Token, socket: Socket) {
        let interest = Interest::READABLE | Interest::WRITABLE;
        if self.poll.registry().register(&mut SourceFd(&socket.fd()), MioToken(token as usize), interest).is_err() {
            return self.worker.closed(token);
        }
        let index = token as u32 as usize;
        if self.sockets.len() <= index {
            self.sockets.resize_with(index + 1, || None);
        }
        self.sockets[index] = Some(Place { token, socket, unsent: false, unread: false, ends: false, full: true });
    }

    fn place(&mut self, token: Token) -> Option<&mut Place> {
        self.sockets.get_mut(token as u32 as usize)?.as_mut().filter(|place| place.token == token)
    }

    fn remove(&mut self, token: Token) {
        if self.place(token).is_some() {
            // Closing the descriptor takes it out of epoll, too.
            self.sockets[token as u32 as usize] = None;
        }
    }

    /// The peer has closed or reset the connection.
    fn closed(&mut self, token: Token) {
        self.worker.closed(token);
        self.remove(token);
    }

    /// Reads from the socket in the next turn.
    fn read_later(&mut self, token: Token) {
        if let Some(place) = self.place(token)
            && !std::mem::replace(&mut place.unread, true)
        {
            self.unfinished.push(token);
        }
    }

    fn read(&mut self, token: Token) {
        if self.read_left == 0 {
            return self.read_later(token);
        }
        let place = self.sockets.get(token as u32 as usize).and_then(Option::as_ref);
        let Some(&Place { ref socket, ends, .. }) = place.filter(|place| place.token == token) else { return };
        if socket.tls.is_some() {
            return self.read_tls(token);
        }
        let Some(buffer) = self.worker.space(token) else { return };
        let room = (buffer.capacity() - buffer.len()).min(READ_BYTES).min(self.read_left);
        match socket.read_into(buffer, room) {
            Ok(0) => self.worker.ended(token),
            Ok(n) => {
                self.read_left -= n;
                self.worker.received(token, n);
                if n == room || ends {
                    self.read_later(token);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => self.read_later(token),
            Err(_) => self.closed(token),
        }
    }

    fn flush(&mut self, token: Token) {
        let mut left = SEND_BYTES.min(self.send_left);
        loop {
            let place = self.sockets.get_mut(token as u32 as usize).and_then(Option::as_mut);
            let Some(place) = place.filter(|place| place.token == token) else { return };
            if place.socket.tls.is_some() {
                return self.flush_tls(token, left);
            }
            let result = match self.worker.output(token) {
                Output::Idle => return,
                Output::Close => return self.remove(token),
                Output::Last(bytes) => {
                    let _ = place.socket.send(bytes);
                    return self.closed(token);
                }
                Output::Send(_) if left == 0 => {
                    if !std::mem::replace(&mut place.unsent, true) {
                        self.unsent.push(token);
                    }
                    return;
                }
                Output::Send(out) => place.socket.send_out(out, left),
            };
            match result {
                Ok(n) => {
                    left -= n;
                    self.send_left -= n;
                    if self.worker.sent(token, n) {
                        return;
                    }
                }
                // The event that reports room flushes the rest.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return place.full = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.closed(token),
            }
        }
    }
}
