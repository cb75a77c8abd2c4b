//! A network that is slow, for experiments: what comes to an address is passed on to another one after a delay, in both
//! directions. It needs no privileges.
//!
//! `relay DELAY_SECONDS FROM_HOST:PORT=TO_HOST:PORT ...` says `ready`, and runs until its standard input is closed. It
//! is one thread, because it shares the processor with what is measured.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

const INPUT: usize = 0;
const TIMER: usize = 1;
const LISTENERS: usize = 2;
const CHUNK: usize = 64 << 10;

/// One end of a relayed connection.
struct End {
    socket: TcpStream,
    /// Bytes that are due, and that the socket has not taken.
    left: VecDeque<u8>,
    is_over: bool,
}

/// Bytes on their way to an end. None: the other end was closed.
struct Due {
    at: Instant,
    to: usize,
    bytes: Vec<u8>,
}

struct Relay {
    poll: Poll,
    timer: OwnedFd,
    /// The time that the timer is set to.
    set: Option<Instant>,
    delay: Duration,
    listeners: Vec<(TcpListener, SocketAddr)>,
    /// The two ends of a connection have numbers that differ in the lowest bit. No number is used again.
    ends: Vec<Option<End>>,
    /// In the order in which they are due: the delay is always the same.
    due: VecDeque<Due>,
    buffer: Vec<u8>,
}

#[expect(clippy::disallowed_methods, reason = "it measures")]
fn now() -> Instant {
    Instant::now()
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, what.to_owned())
}

fn timer() -> io::Result<OwnedFd> {
    // SAFETY: it takes no pointers.
    let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

impl Relay {
    fn new(delay: Duration, pairs: Vec<(SocketAddr, SocketAddr)>) -> io::Result<Self> {
        let (poll, timer) = (Poll::new()?, timer()?);
        poll.registry().register(&mut SourceFd(&0), Token(INPUT), Interest::READABLE)?;
        poll.registry().register(&mut SourceFd(&timer.as_raw_fd()), Token(TIMER), Interest::READABLE)?;
        let mut listeners = Vec::new();
        for (at, (here, there)) in pairs.into_iter().enumerate() {
            let mut listener = TcpListener::bind(here)?;
            poll.registry().register(&mut listener, Token(LISTENERS + at), Interest::READABLE)?;
            listeners.push((listener, there));
        }
        // The two ends of a connection begin at an even number.
        let ends = (0..(LISTENERS + listeners.len()).next_multiple_of(2)).map(|_| None).collect();
        let (set, due, buffer) = (None, VecDeque::new(), vec![0; CHUNK]);
        Ok(Self { poll, timer, set, delay, listeners, ends, due, buffer })
    }

    fn accept(&mut self, listener: usize) -> io::Result<()> {
        while let Some((listener, there)) = self.listeners.get(listener) {
            let near = match listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            for mut socket in [near, TcpStream::connect(*there)?] {
                let _ = socket.set_nodelay(true);
                let token = Token(self.ends.len());
                self.poll.registry().register(&mut socket, token, Interest::READABLE | Interest::WRITABLE)?;
                self.ends.push(Some(End { socket, left: VecDeque::new(), is_over: false }));
            }
        }
        Ok(())
    }

    /// Takes what has come to an end.
    fn take(&mut self, from: usize) {
        let (at, to) = (now() + self.delay, from ^ 1);
        while let Some(end) = self.ends.get_mut(from).and_then(Option::as_mut).filter(|end| !end.is_over) {
            let bytes = match end.socket.read(&mut self.buffer) {
                Ok(count) => self.buffer[..count].to_vec(),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => Vec::new(),
            };
            end.is_over = bytes.is_empty();
            self.due.push_back(Due { at, to, bytes });
        }
    }

    /// Has an end take these bytes, behind those that it has not taken yet.
    fn give(&mut self, to: usize, bytes: &[u8]) {
        let Some(end) = self.ends.get_mut(to).and_then(Option::as_mut) else { return };
        let mut rest = bytes;
        loop {
            let (queued, _) = end.left.as_slices();
            let (first, is_queued) = if queued.is_empty() { (rest, false) } else { (queued, true) };
            if first.is_empty() {
                return;
            }
            match end.socket.write(first) {
                Ok(count) if is_queued => drop(end.left.drain(..count)),
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => {
                    end.left.extend(rest);
                    return;
                }
                Err(_) => return self.close(to),
            }
        }
    }

    fn close(&mut self, one: usize) {
        for at in [one, one ^ 1] {
            if let Some(mut end) = self.ends.get_mut(at).and_then(Option::take) {
                let _ = end.socket.shutdown(Shutdown::Both);
                let _ = self.poll.registry().deregister(&mut end.socket);
            }
        }
    }

    /// Passes on what is due, and sets the timer for the next.
    fn pass(&mut self) -> io::Result<()> {
        let mut time = now();
        while let Some(due) = self.due.pop_front_if(|due| due.at <= time) {
            match due.bytes.is_empty() {
                true => self.close(due.to),
                false => self.give(due.to, &due.bytes),
            }
            if self.due.front().is_some_and(|next| next.at > time) {
                time = now();
            }
        }
        let next = self.due.front().map(|due| due.at);
        if let Some(at) = next.filter(|_| next != self.set) {
            let wait = at.saturating_duration_since(time).max(Duration::from_nanos(1));
            let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            let value = libc::timespec { tv_sec: wait.as_secs() as _, tv_nsec: wait.subsec_nanos().into() };
            let spec = libc::itimerspec { it_interval: zero, it_value: value };
            // SAFETY: the descriptor is open, and the system only reads the value.
            if unsafe { libc::timerfd_settime(self.timer.as_raw_fd(), 0, &raw const spec, std::ptr::null_mut()) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        self.set = next;
        Ok(())
    }

    fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(256);
        loop {
            match self.poll.poll(&mut events, None) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                polled => polled?,
            }
            for event in &events {
                match event.token().0 {
                    INPUT => return Ok(()),
                    TIMER => self.set = None,
                    at if at < LISTENERS + self.listeners.len() => self.accept(at - LISTENERS)?,
                    at => {
                        if event.is_writable() {
                            self.give(at, &[]);
                        }
                        self.take(at);
                    }
                }
            }
            self.pass()?;
        }
    }
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let seconds: f64 =
        arguments.next().and_then(|text| text.parse().ok()).ok_or_else(|| invalid("a delay in seconds"))?;
    let delay = Duration::try_from_secs_f64(seconds).map_err(|_| invalid("a delay in seconds"))?;
    let pair = |text: String| {
        let (here, there) = text.split_once('=')?;
        Some((here.parse().ok()?, there.parse().ok()?))
    };
    let pairs = arguments.map(pair).collect::<Option<Vec<_>>>().ok_or_else(|| invalid("HOST:PORT=HOST:PORT"))?;
    let mut relay = Relay::new(delay, pairs)?;
    println!("ready");
    io::stdout().flush()?;
    relay.run()
}
