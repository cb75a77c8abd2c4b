//! The io_uring driver: one system call per turn. Each worker makes and uses one on its own thread.
//!
//! Receives are multishot, into a ring of provided buffers, but the rest of a large argument is read to its place (see
//! [`large`]). Sends own their buffer until they complete, which may be after the connection is gone. Completions name
//! a place and a generation, so that a late one never meets another connection.

mod buffers;
mod large;
mod message;
mod quiet;
mod tls;
mod wake;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use node::{Outgoing, Output, Token, UnixMs, Worker};

use crate::lane::{Lane, Shed, thread_cpu_ns};
use crate::links::Links;
use crate::socket::{Incoming, READ_BYTES_PER_TURN, Socket};
use crate::tls::{Buffer, Kit};
use buffers::{Buffers, GROUP};
use message::Message;
use quiet::{Quiet, ROUND_MS};
pub use wake::Waker;

const TICK_MS: u64 = 100;
const LOOK_MS: u64 = 25;
/// Entries of the submission queue. More entries are submitted by several calls.
const ENTRIES: u32 = 1024;

/// The most bytes that all connections together should have handed over. The kernel continues a send by itself when the
/// peer has made room, so it may copy all of them in one turn.
const IN_FLIGHT: usize = 2 << 20;
/// Least and most bytes of one send.
const SEND_BYTES: (usize, usize) = (64 * 1024, 1 << 20);
/// Bytes handed over in one turn; as many may arrive in it.
const SEND_BYTES_PER_TURN: usize = 2 << 20;

const RECEIVE: u64 = 0;
const SEND: u64 = 1;
const WAKE: u64 = 2;
const CANCEL: u64 = 3;

/// A connection's socket, and the operations of the kernel on it.
struct Conn {
    token: Token,
    socket: Socket,
    generation: u32,
    /// A multishot receive is under way, or a poll.
    receiving: bool,
    /// True if that is a poll: see [`large`].
    polling: bool,
    /// The receive is being cancelled, for a poll to take its place.
    switching: bool,
    /// The bytes of the send under way.
    sending: Option<Outgoing>,
    /// The ciphertext of the send under way.
    sealed: Option<Buffer>,
    /// The pieces of the send under way, if there are several.
    message: Option<Box<Message>>,
    /// The send waits for a turn that may send more.
    delayed: bool,
    /// The worker has forgotten the connection. It goes as soon as the kernel has let go of it.
    doomed: bool,
    /// The stream has ended: nothing more is received.
    ended: bool,
    /// The worker has enough to do for now: nothing is received until it says so.
    held: bool,
    /// The time since it last sent something.
    quiet: Quiet,
    /// The lane it is to move to once its receive has ended.
    moving: Option<usize>,
}

/// A worker, its sockets, its ring.
pub struct Uring {
    ring: IoUring,
    buffers: Buffers,
    worker: Worker,
    lanes: Arc<[Lane]>,
    links: Links,
    waker: Arc<Waker>,
    /// The place that the eventfd's counter is read to.
    wake_value: Box<u64>,
    conns: Vec<Option<Conn>>,
    free: Vec<u32>,
    generation: u32,
    /// The place of a worker's connection, by the index in its token.
    places: Vec<u32>,
    /// Places whose receive must be armed again.
    rearm: Vec<u32>,
    /// Connections that still send before they are closed, by place and generation: those added since the last check,
    /// and earlier ones.
    cut: [Vec<(u32, u32)>; 2],
    /// Places that have filled a provided buffer in this turn.
    filled: Vec<u32>,
    /// Bytes that may still be read in this turn besides those in provided buffers.
    read_left: usize,
    /// Places with more output than one turn may send.
    unsent: Vec<u32>,
    /// Bytes that may still be handed to the kernel in this turn.
    send_left: usize,
    /// Sends under way.
    sends: usize,
    woken: bool,
    /// For connections that speak TLS.
    kit: Kit,
    /// Connections with the next step of a handshake to take.
    greeters: VecDeque<Token>,
    /// Buffers for ciphertext, to be used again.
    spare_buffers: Vec<Buffer>,
}

impl Conn {
    /// True if the kernel has some of its output.
    fn is_sending(&self) -> bool {
        self.sending.is_some() || self.sealed.is_some()
    }
}

fn new_ring() -> io::Result<IoUring> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_coop_taskrun()
        .setup_defer_taskrun()
        // Flags waiting completions, so that a worker with other work to do fetches them without waiting.
        .setup_taskrun_flag()
        .setup_cqsize(ENTRIES * 8)
        .build(ENTRIES)
}

/// Fails if this kernel does not allow the operations of the driver.
///
/// # Errors
///
/// This kernel does not allow the operations of the driver.
pub fn available() -> io::Result<()> {
    let ring = new_ring()?;
    Buffers::register(&ring.submitter()).map(drop)
}

fn user_data(kind: u64, place: u32, generation: u32) -> u64 {
    kind << 62 | u64::from(generation & 0x3fff_ffff) << 32 | u64::from(place)
}

impl Uring {
    /// A driver for `worker`, on the calling thread.
    pub(crate) fn new(worker: Worker, links: Links, waker: Arc<Waker>) -> io::Result<Uring> {
        let ring = new_ring()?;
        let buffers = Buffers::register(&ring.submitter())?;
        let mut driver = Uring {
            ring,
            buffers,
            worker,
            lanes: links.lanes().clone(),
            links,
            waker,
            wake_value: Box::new(0),
            conns: Vec::new(),
            free: Vec::new(),
            generation: 0,
            places: Vec::new(),
            rearm: Vec::new(),
            cut: Default::default(),
            filled: Vec::new(),
            read_left: READ_BYTES_PER_TURN,
            unsent: Vec::new(),
            send_left: SEND_BYTES_PER_TURN,
            sends: 0,
            woken: false,
            kit: Kit::default(),
            greeters: VecDeque::new(),
            spare_buffers: Vec::new(),
        };
        driver.arm_wake()?;
        Ok(driver)
    }

    /// Runs until the node stops.
    ///
    /// # Errors
    ///
    /// The io_uring has failed.
    pub fn run(mut self) -> io::Result<()> {
        self.serve()
    }

    fn serve(&mut self) -> io::Result<()> {
        let node = self.worker.node().clone();
        let (mut looked, mut looked_at_quiet) = (UnixMs::ZERO, UnixMs::ZERO);
        let mut completions: Vec<(u64, i32, u32)> = Vec::new();
        while !self.worker.has_left() {
            self.wait()?;
            let now = node.clock.unix_ms();
            self.send_left = SEND_BYTES_PER_TURN;
            self.read_left = READ_BYTES_PER_TURN;
            self.kit.turn();
            completions.extend(self.ring.completion().map(|c| (c.user_data(), c.result(), c.flags())));
            for (data, result, flags) in completions.drain(..) {
                self.complete(data, result, flags)?;
            }
            if std::mem::take(&mut self.woken) {
                self.arm_wake()?;
                self.worker.read_mail();
                self.take_incoming(now)?;
            }
            self.buffers.publish();
            self.greet()?;
            for place in std::mem::take(&mut self.rearm) {
                self.arm_receive(place)?;
            }
            self.worker.turn(now);
            while let Some(dial) = self.worker.next_dial() {
                self.links.dial(self.worker.index(), &dial);
            }
            self.switch_to_polls()?;
            self.send_delayed()?;
            while let Some(token) = self.worker.next_output() {
                if let Some(place) = self.place(token) {
                    self.flush(place)?;
                }
            }
            while let Some(token) = self.worker.next_thirsty() {
                if let Some(place) = self.place(token) {
                    self.let_in(place)?;
                }
            }
            if now >= looked + LOOK_MS {
                looked = now;
                self.look()?;
                self.end_greetings(now)?;
            }
            if now >= looked_at_quiet + ROUND_MS {
                looked_at_quiet = now;
                self.look_at_quiet()?;
            }
        }
        Ok(())
    }

    /// Submits the entries and waits for completions.
    fn wait(&mut self) -> io::Result<()> {
        let patience = self.patience_ms();
        let time = Timespec::new().sec(patience / 1000).nsec((patience % 1000) as u32 * 1_000_000);
        let args = SubmitArgs::new().timespec(&time);
        match self.ring.submitter().submit_with_args(usize::from(patience > 0), &args) {
            Ok(_) => Ok(()),
            Err(e) if matches!(e.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)) => {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn patience_ms(&self) -> u64 {
        if self.worker.has_work() || !self.unsent.is_empty() || !self.greeters.is_empty() {
            return 0;
        }
        self.worker.patience_ms(TICK_MS)
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        loop {
            // SAFETY: what the entry points to lives until its completion: buffers in `Conn::sending`, `wake_value`,
            // and the provided buffers.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return Ok(());
            }
            match self.ring.submit() {
                Err(e) if !matches!(e.raw_os_error(), Some(libc::EINTR | libc::EAGAIN)) => return Err(e),
                _ => {}
            }
        }
    }

    fn arm_wake(&mut self) -> io::Result<()> {
        let entry = opcode::Read::new(Fd(self.waker.fd()), (&raw mut *self.wake_value).cast(), 8).build();
        self.push(&entry.user_data(user_data(WAKE, 0, 0)))
    }

    fn arm_receive(&mut self, place: u32) -> io::Result<()> {
        let Some(conn) = self.conns[place as usize].as_mut() else { return Ok(()) };
        if conn.receiving || conn.doomed || conn.ended || conn.held || conn.moving.is_some() {
            return Ok(());
        }
        conn.receiving = true;
        conn.polling = conn.socket.tls.is_none() && large::is_worth_a_poll(self.worker.lacks(conn.token));
        let fd = Fd(conn.socket.fd());
        let entry = match conn.polling {
            true => opcode::PollAdd::new(fd, libc::POLLIN as u32).build(),
            false => opcode::RecvMulti::new(fd, GROUP).build(),
        };
        let entry = entry.user_data(user_data(RECEIVE, place, conn.generation));
        self.push(&entry)
    }

    // ---- completions

    fn complete(&mut self, data: u64, result: i32, flags: u32) -> io::Result<()> {
        let (kind, place, generation) = (data >> 62, data as u32, (data >> 32) as u32 & 0x3fff_ffff);
        if kind == WAKE {
            self.woken = true;
            return Ok(());
        }
        if kind == CANCEL {
            return Ok(());
        }
        let alive = self.conns.get(place as usize).and_then(Option::as_ref);
        let token = alive.filter(|c| c.generation & 0x3fff_ffff == generation).map(|c| c.token);
        if kind == SEND {
            self.sends = self.sends.saturating_sub(1);
            return token.map_or(Ok(()), |token| self.sent(place, token, result));
        }
        self.received(place, token, result, flags)
    }

    fn received(&mut self, place: u32, token: Option<Token>, result: i32, flags: u32) -> io::Result<()> {
        let mut enough = false;
        if let Some(id) = cqueue::buffer_select(flags) {
            if let (Some(token), Ok(len @ 1..)) = (token, usize::try_from(result)) {
                let is_tls = self.conns[place as usize].as_ref().is_some_and(|conn| conn.socket.tls.is_some());
                enough = match is_tls {
                    true => self.receive_tls(place, token, id, len)?,
                    false => !self.worker.input(token, self.buffers.bytes(id, len)),
                };
                if len == buffers::SIZE && !is_tls {
                    self.filled.push(place);
                }
            }
            self.buffers.give_back(id);
        }
        let Some(token) = token else { return Ok(()) };
        if enough {
            self.hold(place)?;
        }
        let Some(conn) = self.conns[place as usize].as_mut() else { return Ok(()) };
        conn.quiet = Quiet::Recently;
        if cqueue::more(flags) {
            return Ok(());
        }
        conn.receiving = false;
        conn.switching = false;
        let polled = std::mem::take(&mut conn.polling);
        if conn.doomed {
            return self.dispose(place);
        }
        if polled && result > 0 {
            return self.read(place, token);
        }
        if result == 0 {
            // Input that came before the end is executed and answered first.
            conn.ended = true;
            conn.moving = None;
            self.worker.ended(token);
            return Ok(());
        }
        if result < 0 && result != -libc::ENOBUFS && result != -libc::ECANCELED && result != -libc::EINTR {
            return self.doom(place);
        }
        if let Some(to) = conn.moving.take() {
            return self.hand_over(place, token, to);
        }
        self.rearm.push(place);
        Ok(())
    }

    /// Stops receiving: the worker has enough to do for this connection.
    fn hold(&mut self, place: u32) -> io::Result<()> {
        match self.conns[place as usize].as_mut() {
            Some(conn) if !conn.held => conn.held = true,
            _ => return Ok(()),
        }
        self.cancel_receive(place)
    }

    /// Receives again.
    fn let_in(&mut self, place: u32) -> io::Result<()> {
        if let Some(conn) = self.conns[place as usize].as_mut() {
            conn.held = false;
        }
        self.arm_receive(place)
    }

    fn cancel_receive(&mut self, place: u32) -> io::Result<()> {
        let Some(conn) = self.conns[place as usize].as_ref().filter(|c| c.receiving) else { return Ok(()) };
        let target = user_data(RECEIVE, place, conn.generation);
        let entry = opcode::AsyncCancel::new(target).build().user_data(user_data(CANCEL, place, 0));
        self.push(&entry)
    }

    /// Closes a connection now, even with bytes left to receive or to send.
    fn doom(&mut self, place: u32) -> io::Result<()> {
        let Some(conn) = self.conns[place as usize].as_mut() else { return Ok(()) };
        self.worker.closed(conn.token);
        conn.doomed = true;
        self.dispose(place)
    }

    fn sent(&mut self, place: u32, token: Token, result: i32) -> io::Result<()> {
        let Some(conn) = self.conns[place as usize].as_mut() else { return Ok(()) };
        if conn.sealed.is_some() {
            return self.sent_sealed(place, token, result);
        }
        let Some(mut out) = conn.sending.take() else { return Ok(()) };
        match usize::try_from(result) {
            Ok(n) => {
                self.worker.count_sent(token, &mut out, n);
                if out.unsent() > 0 && !conn.doomed {
                    conn.sending = Some(out);
                    return self.send(place);
                }
            }
            Err(_) if !conn.doomed && (result == -libc::EINTR || result == -libc::EAGAIN) => {
                conn.sending = Some(out);
                return self.send(place);
            }
            Err(_) if !conn.doomed => {
                self.worker.closed(token);
                conn.doomed = true;
            }
            Err(_) => {}
        }
        let doomed = conn.doomed;
        self.worker.recycle(out);
        if doomed {
            return self.dispose(place);
        }
        self.flush(place)
    }

    // ---- sending and closing

    /// Sends the output of a connection, unless a send is under way: its completion comes back here.
    fn flush(&mut self, place: u32) -> io::Result<()> {
        let Some(conn) = self.conns[place as usize].as_mut().filter(|c| !c.doomed) else { return Ok(()) };
        if conn.is_sending() {
            if self.worker.is_cut(conn.token) {
                self.cut[0].push((place, conn.generation));
            }
            return Ok(());
        }
        if conn.socket.tls.is_some() {
            return self.flush_tls(place);
        }
        match self.worker.output(conn.token) {
            Output::Idle => Ok(()),
            Output::Close => {
                conn.doomed = true;
                self.dispose(place)
            }
            Output::Last(bytes) => {
                let _ = conn.socket.send(bytes);
                self.doom(place)
            }
            Output::Send(_) => {
                conn.sending = self.worker.take_output(conn.token);
                self.send(place)
            }
        }
    }

    /// Hands output of a connection to the kernel, as much as this turn may still send.
    fn send(&mut self, place: u32) -> io::Result<()> {
        let Some(conn) = self.conns[place as usize].as_mut() else { return Ok(()) };
        let Some(out) = &conn.sending else { return Ok(()) };
        if self.send_left == 0 {
            conn.delayed = true;
            self.unsent.push(place);
            return Ok(());
        }
        self.sends += 1;
        let (least, most) = SEND_BYTES;
        let most = (IN_FLIGHT / self.sends).clamp(least, most).min(self.send_left);
        self.send_left -= out.unsent().min(most);
        let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        let fd = Fd(conn.socket.fd());
        let entry = if out.is_plain() {
            let bytes = out.plain();
            opcode::Send::new(fd, bytes.as_ptr(), bytes.len().min(most) as u32).flags(flags).build()
        } else {
            let message = conn.message.get_or_insert_default();
            opcode::SendMsg::new(fd, message.fill(out, most)).flags(flags as u32).build()
        };
        let entry = entry.user_data(user_data(SEND, place, conn.generation));
        self.push(&entry)
    }

    /// Goes on with sends that had to wait because enough was being sent.
    fn send_delayed(&mut self) -> io::Result<()> {
        for place in std::mem::take(&mut self.unsent) {
            let conn = self.conns.get_mut(place as usize).and_then(Option::as_mut);
            let Some(conn) = conn.filter(|conn| conn.delayed) else { continue };
            conn.delayed = false;
            match conn.sending.is_some() {
                true => self.send(place)?,
                false => self.flush(place)?,
            }
        }
        Ok(())
    }

    /// Lets a doomed connection go, as far as the kernel has let go of it.
    fn dispose(&mut self, place: u32) -> io::Result<()> {
        let Some(conn) = self.conns[place as usize].as_mut() else { return Ok(()) };
        if std::mem::take(&mut conn.delayed)
            && let Some(out) = conn.sending.take()
        {
            // The kernel does not use the buffer.
            self.worker.recycle(out);
        }
        if conn.is_sending() {
            // Ends a send that waits for room.
            conn.socket.end_sending();
        }
        if conn.receiving {
            // A shutdown would not do. A receive that goes on after it does not open the window again. A peer that has
            // filled the window would then wait for a minute for its writes to fail (FIN-WAIT-2 in Linux).
            return self.cancel_receive(place);
        }
        if conn.is_sending() {
            return Ok(());
        }
        self.conns[place as usize] = None;
        self.free.push(place);
        Ok(())
    }

    // ---- connections

    fn place(&self, token: Token) -> Option<u32> {
        let place = *self.places.get(token as u32 as usize)?;
        self.conns.get(place as usize)?.as_ref().filter(|c| c.token == token).map(|_| place)
    }

    fn install(&mut self, token: Token, socket: Socket) -> io::Result<()> {
        self.generation = self.generation.wrapping_add(1);
        let conn = Conn {
            token,
            socket,
            generation: self.generation,
            receiving: false,
            polling: false,
            switching: false,
            sending: None,
            sealed: None,
            message: None,
            delayed: false,
            doomed: false,
            ended: false,
            held: false,
            quiet: Quiet::Looked,
            moving: None,
        };
        let place = self.free.pop().unwrap_or_else(|| {
            self.conns.push(None);
            self.conns.len() as u32 - 1
        });
        self.conns[place as usize] = Some(conn);
        let index = token as u32 as usize;
        if self.places.len() <= index {
            self.places.resize(index + 1, u32::MAX);
        }
        self.places[index] = place;
        self.arm_receive(place)
    }

    fn take_incoming(&mut self, now: UnixMs) -> io::Result<()> {
        for incoming in self.lanes[self.worker.index()].take() {
            match incoming {
                Incoming::Client { mut socket, peer } => match self.worker.accept(peer, now) {
                    Ok(token) => {
                        if let Some(session) = socket.tls.as_deref_mut().filter(|session| !session.may_be_plain()) {
                            self.kit.begin(token, session, now);
                        }
                        self.install(token, socket)?;
                    }
                    Err(_) if socket.tls.is_some() => {}
                    Err(refusal) => drop(socket.send(refusal)),
                },
                Incoming::Moved { socket, session } => {
                    let token = self.worker.adopt(*session);
                    self.install(token, socket)?;
                }
                Incoming::Link { socket, from } => {
                    let token = self.worker.accept_link(&from, now);
                    self.install(token, socket)?;
                }
                Incoming::Dialed { token, socket: Some(socket) } => {
                    if self.worker.link_opened(token) {
                        self.install(token, socket)?;
                    }
                }
                Incoming::Dialed { token, socket: None } => self.worker.closed(token),
            }
        }
        Ok(())
    }

    /// Reports the load and carries out orders of the governor.
    fn look(&mut self) -> io::Result<()> {
        let lane = &self.lanes[self.worker.index()];
        lane.cpu_ns.store(thread_cpu_ns(), Relaxed);
        let order = lane.take_order();
        // Sends that could be completed have been by now. The rest may take for ever, as the peer need not read.
        let recent = std::mem::take(&mut self.cut[0]);
        for (place, generation) in std::mem::replace(&mut self.cut[1], recent) {
            if self.conns[place as usize].as_ref().is_some_and(|c| c.generation == generation && !c.doomed) {
                self.doom(place)?;
            }
        }
        match order {
            Some(order) => self.shed(order),
            None => Ok(()),
        }
    }

    /// Begins to give connections to another worker: cancels their receives. The completions do the rest.
    fn shed(&mut self, order: Shed) -> io::Result<()> {
        let mut left = order.count;
        for place in 0..self.conns.len() as u32 {
            let Some(conn) = self.conns[place as usize].as_mut() else { continue };
            if left == 0 || !conn.receiving || conn.doomed || conn.is_sending() || conn.moving.is_some() {
                continue;
            }
            left -= 1;
            conn.moving = Some(order.to);
            self.cancel_receive(place)?;
        }
        Ok(())
    }

    /// Gives a connection whose receive has ended to another worker if it is at rest. Otherwise it stays.
    fn hand_over(&mut self, place: u32, token: Token, to: usize) -> io::Result<()> {
        let busy = self.conns[place as usize].as_ref().is_none_or(|c| c.is_sending() || !c.socket.is_at_rest());
        let detached = if busy { None } else { self.worker.detach(token) };
        let Some(detached) = detached else {
            self.rearm.push(place);
            return Ok(());
        };
        if let Some(conn) = self.conns[place as usize].take() {
            self.free.push(place);
            self.lanes[to].put(Incoming::Moved { socket: conn.socket, session: detached });
        }
        Ok(())
    }
}

impl Drop for Uring {
    /// Leaks the buffers, because the kernel may still read and write them. They end with the process.
    fn drop(&mut self) {
        std::mem::forget(std::mem::take(&mut self.conns));
        std::mem::forget(std::mem::take(&mut self.wake_value));
    }
}
