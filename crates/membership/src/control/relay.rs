//! Data links over TLS. Workers' drivers know sockets alone. So a worker gets one end of a local pair, and a task
//! copies between the other end and TLS.
//!
//! Both sides hold back by themselves: a copy waits for a slow reader. The end of one direction is passed on, and an
//! error ends both at once, which the worker sees as a broken connection. Threads of their own do this: however much is
//! copied, leases are renewed in time.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::copy_bidirectional_with_sizes;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_rustls::TlsStream;

use super::stream::Socket;

/// Bytes that are read at once.
const PIECE: usize = 64 << 10;

/// After so long a silence a node is probed: as for links without TLS.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// A node is given up after so long without an acknowledgement of sent bytes: as for links without TLS.
const SILENCE: Duration = Duration::from_secs(5);

/// How long a node that ends waits until its workers' bytes have left.
const LINGER: Duration = Duration::from_secs(1);

/// Threads at most.
const THREADS_MAX: usize = 8;

/// The threads.
pub struct Relays {
    /// None any more: the threads were stopped.
    threads: Mutex<Vec<Thread>>,
    next: AtomicUsize,
}

struct Thread {
    runtime: Handle,
    /// Every copy holds one, too.
    alive: mpsc::Sender<()>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Relays {
    /// Starts a thread for two cores each.
    pub fn start() -> io::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = (0..(cores / 2).clamp(1, THREADS_MAX)).map(|_| Thread::start()).collect::<io::Result<_>>()?;
        Ok(Self { threads: Mutex::new(threads), next: AtomicUsize::new(0) })
    }

    fn threads(&self) -> MutexGuard<'_, Vec<Thread>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies between `stream` and a socket, which is returned, until either ends.
    pub fn carry(&self, mut stream: Box<TlsStream<Socket>>) -> io::Result<OwnedFd> {
        let (near, far) = UnixStream::pair()?;
        near.set_nonblocking(true)?;
        far.set_nonblocking(true)?;
        let socket = stream.get_mut().0.take()?;
        let options = SockRef::from(&socket);
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(Duration::from_secs(1)).with_retries(3);
        options.set_tcp_keepalive(&keepalive)?;
        options.set_tcp_user_timeout(Some(SILENCE))?;
        let threads = self.threads();
        let next = self.next.fetch_add(1, Relaxed) % threads.len().max(1);
        let thread = threads.get(next).ok_or_else(|| io::Error::other("this node is stopping"))?;
        let alive = thread.alive.clone();
        thread.runtime.spawn(async move {
            if let Err(why) = copy(stream, socket, near).await {
                tracing::debug!("a link to another node ends: {why}");
            }
            drop(alive);
        });
        Ok(far.into())
    }

    /// Ends the threads when all bytes have left, or after a while.
    pub fn stop(&self) {
        let ending: Vec<JoinHandle<()>> = self.threads().drain(..).map(Thread::stop).collect();
        for thread in ending {
            let _ = thread.join();
        }
    }
}

impl Thread {
    fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let (alive, mut all) = mpsc::channel(1);
        let (stop, stopped) = oneshot::channel();
        let handle = runtime.handle().clone();
        let thread = std::thread::Builder::new().name("tls".to_owned()).spawn(move || {
            runtime.block_on(async {
                let _ = stopped.await;
                let _ = timeout(LINGER, all.recv()).await;
            });
        })?;
        Ok(Self { runtime: handle, alive, stop, thread })
    }

    fn stop(self) -> JoinHandle<()> {
        drop(self.alive);
        let _ = self.stop.send(());
        self.thread
    }
}

async fn copy(mut stream: Box<TlsStream<Socket>>, socket: std::net::TcpStream, near: UnixStream) -> io::Result<()> {
    stream.get_mut().0.put(socket)?;
    let mut near = tokio::net::UnixStream::from_std(near)?;
    copy_bidirectional_with_sizes(&mut stream, &mut near, PIECE, PIECE).await?;
    Ok(())
}
