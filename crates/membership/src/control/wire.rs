//! Frames on sockets, and the handshake over them.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::stream::Stream;
use super::tls::{self, Tls};
use crate::frame::{self, HEADER, Kind};
use crate::handshake::{self, Acceptor, Failed, Initiator, Nonce, Party, Peer, Refusal, Role};

/// How long a handshake may take.
pub const HANDSHAKE: Duration = Duration::from_secs(3);

/// The reason why there is no connection.
#[derive(Debug)]
pub enum NoLink {
    /// The network's reason.
    Io(io::Error),
    /// The bytes were no frame.
    Damaged(frame::Damaged),
    /// The handshake's error.
    Handshake(Failed),
    /// TLS's error, in words.
    Tls(String),
    /// It took too long.
    TimedOut,
}

impl fmt::Display for NoLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(why) => write!(f, "{why}"),
            Self::Damaged(why) => write!(f, "{why}"),
            Self::Handshake(why) => write!(f, "{why}"),
            Self::Tls(why) => write!(f, "{why}"),
            Self::TimedOut => write!(f, "no answer"),
        }
    }
}

impl From<io::Error> for NoLink {
    fn from(why: io::Error) -> Self {
        // The side that opens a connection hears only behind the handshake of TLS that its certificate is refused.
        match tls::of_tls(&why) {
            Some(words) => Self::Tls(words),
            None => Self::Io(why),
        }
    }
}

impl From<frame::Damaged> for NoLink {
    fn from(why: frame::Damaged) -> Self {
        Self::Damaged(why)
    }
}

impl From<Failed> for NoLink {
    fn from(why: Failed) -> Self {
        Self::Handshake(why)
    }
}

/// The next frame: its kind and body. Reads no byte more, because others may go on reading.
pub async fn read(from: &mut (impl AsyncRead + Unpin), body_max: usize) -> Result<(Kind, Vec<u8>), NoLink> {
    let mut buffer = vec![0; HEADER];
    from.read_exact(&mut buffer).await?;
    let size = frame::size(&buffer, body_max)?.unwrap_or(HEADER);
    // Memory grows with the bytes that have arrived, not with announced ones.
    while buffer.len() < size {
        let (at, more) = (buffer.len(), (size - buffer.len()).min(64 << 10));
        buffer.resize(at + more, 0);
        from.read_exact(&mut buffer[at..]).await?;
    }
    let Some(read) = frame::read_bounded(&buffer, body_max)? else { return Err(NoLink::TimedOut) };
    let kind = read.kind;
    buffer.drain(..HEADER);
    Ok((kind, buffer))
}

async fn step(stream: &mut Stream) -> Result<Vec<u8>, NoLink> {
    match read(stream, handshake::BODY_MAX).await? {
        (Kind::Handshake, body) => Ok(body),
        _ => Err(Failed::Malformed(crate::Malformed("a step of the handshake")).into()),
    }
}

/// Refuses a socket that has reached itself: nobody listens at a port of those that the system gives to connections, and it
/// gave this one that very port. Closes it without a rest, which would keep the port from the node that starts there again.
fn not_to_itself(socket: TcpStream) -> io::Result<TcpStream> {
    if socket.local_addr()? != socket.peer_addr()? {
        return Ok(socket);
    }
    socket.set_zero_linger()?;
    Err(io::ErrorKind::ConnectionRefused.into())
}

/// Connects to a node and shakes hands, over TLS if there is one.
pub async fn dial(
    place: (&str, u16),
    tls: Option<&Arc<Tls>>,
    me: Party,
    secret: &[u8],
    role: Role,
    nonce: &Nonce,
) -> Result<(Stream, Peer), NoLink> {
    let dialing = async {
        let socket = not_to_itself(TcpStream::connect(place).await?)?;
        socket.set_nodelay(true)?;
        let mut stream = match tls {
            Some(tls) => Stream::Tls(Box::new(tls.connect(socket).await?)),
            None => Stream::Plain(socket),
        };
        let mut out = Vec::new();
        let mut initiator = Initiator::new(me, secret, role, nonce, &mut out);
        loop {
            stream.write_all(&out).await?;
            stream.flush().await?;
            out.clear();
            let body = step(&mut stream).await?;
            if let Some(peer) = initiator.step(&body, &mut out)? {
                return Ok((stream, peer));
            }
        }
    };
    timeout(HANDSHAKE, dialing).await.unwrap_or(Err(NoLink::TimedOut))
}

/// A node's data about itself for a node that connects.
pub struct Host<'a> {
    pub me: Party,
    pub secret: &'a [u8],
    pub tls: Option<&'a Arc<Tls>>,
    pub nonce: Nonce,
}

/// Shakes hands with the side that has connected, over TLS if there is one.
pub async fn accept(
    socket: TcpStream,
    host: Host<'_>,
    judge: impl Fn(&Peer) -> Result<(), Refusal>,
) -> Result<(Stream, Peer), NoLink> {
    let accepting = async {
        socket.set_nodelay(true)?;
        let mut stream = begin(socket, host.tls).await?;
        let mut acceptor = Acceptor::new(host.me, host.secret, host.nonce);
        let mut out = Vec::new();
        loop {
            let body = step(&mut stream).await?;
            let stepped = acceptor.step(&body, &judge, &mut out);
            stream.write_all(&out).await?;
            stream.flush().await?;
            out.clear();
            if let Some(peer) = stepped? {
                return Ok((stream, peer));
            }
        }
    };
    timeout(HANDSHAKE, accepting).await.unwrap_or(Err(NoLink::TimedOut))
}

/// TLS, if this node uses it; a side that does not do the same is told.
async fn begin(mut socket: TcpStream, tls: Option<&Arc<Tls>>) -> Result<Stream, NoLink> {
    let mut first = [0];
    if socket.peek(&mut first).await? == 0 {
        // It says nothing at all, like a port scanner.
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    let is_tls = first == [tls::RECORD];
    match tls {
        Some(tls) if is_tls => Ok(Stream::Tls(Box::new(tls.accept(socket).await?))),
        None if !is_tls => Ok(Stream::Plain(socket)),
        _ => {
            let says = |who: &str, uses: bool| format!("{who} {} TLS", if uses { "uses" } else { "does not use" });
            let why = format!(
                "{}, {}: tls-cluster must be the same on all nodes",
                says("it", is_tls),
                says("this node", !is_tls)
            );
            let mut out = Vec::new();
            let other = format!("{}: tls-cluster must be the same on all nodes", says("this node", !is_tls));
            handshake::refuse(&mut out, &Refusal::Other(other));
            socket.write_all(&out).await?;
            socket.shutdown().await?;
            tls::drain(&mut socket).await;
            Err(NoLink::Tls(why))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::net::TcpSocket;
    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn a_call_that_reaches_itself_is_refused_and_leaves_the_port() {
        let calls = async {
            // The system chooses the port. It rarely chooses the very one that is called, so that is done here.
            let socket = TcpSocket::new_v4()?;
            socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
            let place = socket.local_addr()?;
            let itself = socket.connect(place).await?;
            assert_eq!(itself.peer_addr()?, place);
            let refused = not_to_itself(itself);
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
            // A connection that rests would have it in use, for an option that is not set here.
            let listener = TcpSocket::new_v4()?;
            listener.bind(place)?;
            let listener = listener.listen(8)?;
            assert!(not_to_itself(TcpStream::connect(place).await?).is_ok(), "another one listens there");
            drop(listener);
            io::Result::Ok(())
        };
        Builder::new_current_thread().enable_all().build().unwrap().block_on(calls).unwrap();
    }
}
