//! The transport of control links and handshakes: a socket, or TLS on one.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

/// A connection to another node.
pub enum Stream {
    /// In the clear.
    Plain(TcpStream),
    /// Encrypted.
    Tls(Box<TlsStream<Socket>>),
}

impl Stream {
    fn socket(&self) -> io::Result<&TcpStream> {
        match self {
            Self::Plain(socket) => Ok(socket),
            Self::Tls(stream) => stream.get_ref().0.get(),
        }
    }

    /// The address of this side.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket()?.local_addr()
    }
}

/// A socket below TLS. It can be taken out, to be driven by another thread, and put in again.
pub struct Socket(Option<TcpStream>);

impl Socket {
    /// One that is in.
    pub fn new(socket: TcpStream) -> Self {
        Self(Some(socket))
    }

    fn get(&self) -> io::Result<&TcpStream> {
        self.0.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Takes it out; until another is in, nothing can be read or written.
    pub fn take(&mut self) -> io::Result<std::net::TcpStream> {
        self.0.take().ok_or(io::Error::from(io::ErrorKind::NotConnected))?.into_std()
    }

    /// Puts it in, for the thread that calls this.
    pub fn put(&mut self, socket: std::net::TcpStream) -> io::Result<()> {
        self.0 = Some(TcpStream::from_std(socket)?);
        Ok(())
    }
}

/// Applies `f` to the socket, if there is one.
macro_rules! pass {
    ($socket:expr, $call:ident, $($argument:expr),*) => {
        match &mut $socket.get_mut().0 {
            Some(socket) => Pin::new(socket).$call($($argument),*),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        pass!(self, poll_read, cx, to)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        pass!(self, poll_write, cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        pass!(self, poll_write_vectored, cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        pass!(self, poll_flush, cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        pass!(self, poll_shutdown, cx)
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(cx, to),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, to),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
