//! Frames on sockets, and the handshake over them.

use std::fmt;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::frame::{self, HEADER, Kind};
use crate::handshake::{self, Acceptor, Failed, Initiator, Nonce, Party, Peer, Refusal, Role};

/// How long a handshake may take.
pub const HANDSHAKE: Duration = Duration::from_secs(3);

/// Why there is no connection.
#[derive(Debug)]
pub enum NoLink {
    /// The network's reason.
    Io(io::Error),
    /// What came was no frame.
    Damaged(frame::Damaged),
    /// The handshake's.
    Handshake(Failed),
    /// It took too long.
    TimedOut,
}

impl fmt::Display for NoLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(why) => write!(f, "{why}"),
            Self::Damaged(why) => write!(f, "{why}"),
            Self::Handshake(why) => write!(f, "{why}"),
            Self::TimedOut => write!(f, "no answer"),
        }
    }
}

impl From<io::Error> for NoLink {
    fn from(why: io::Error) -> Self {
        Self::Io(why)
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

/// The next frame: its kind and body. Reads not a byte more, as others may go on reading.
pub async fn read(from: &mut (impl AsyncRead + Unpin), body_max: usize) -> Result<(Kind, Vec<u8>), NoLink> {
    let mut buffer = vec![0; HEADER];
    from.read_exact(&mut buffer).await?;
    let size = frame::size(&buffer, body_max)?.unwrap_or(HEADER);
    // Memory grows with what has arrived, not with what somebody has promised.
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

async fn step(stream: &mut TcpStream) -> Result<Vec<u8>, NoLink> {
    match read(stream, handshake::BODY_MAX).await? {
        (Kind::Handshake, body) => Ok(body),
        _ => Err(Failed::Malformed(crate::Malformed("a step of the handshake")).into()),
    }
}

/// Connects to a node and shakes hands.
pub async fn dial(
    place: (&str, u16),
    me: Party,
    secret: &[u8],
    role: Role,
    nonce: &Nonce,
) -> Result<(TcpStream, Peer), NoLink> {
    let dialing = async {
        let mut stream = TcpStream::connect(place).await?;
        stream.set_nodelay(true)?;
        let mut out = Vec::new();
        let mut initiator = Initiator::new(me, secret, role, nonce, &mut out);
        loop {
            stream.write_all(&out).await?;
            out.clear();
            let body = step(&mut stream).await?;
            if let Some(peer) = initiator.step(&body, &mut out)? {
                return Ok((stream, peer));
            }
        }
    };
    timeout(HANDSHAKE, dialing).await.unwrap_or(Err(NoLink::TimedOut))
}

/// Shakes hands with who has connected.
pub async fn accept(
    stream: &mut TcpStream,
    me: Party,
    secret: &[u8],
    nonce: Nonce,
    judge: impl Fn(&Peer) -> Result<(), Refusal>,
) -> Result<Peer, NoLink> {
    let accepting = async {
        stream.set_nodelay(true)?;
        let mut acceptor = Acceptor::new(me, secret, nonce);
        let mut out = Vec::new();
        loop {
            let body = step(stream).await?;
            let stepped = acceptor.step(&body, &judge, &mut out);
            stream.write_all(&out).await?;
            out.clear();
            if let Some(peer) = stepped? {
                return Ok(peer);
            }
        }
    };
    timeout(HANDSHAKE, accepting).await.unwrap_or(Err(NoLink::TimedOut))
}
