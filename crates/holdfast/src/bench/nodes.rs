//! Several nodes: where they are, and with `--cluster` or `--shard` which of the keys each has.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::str::FromStr;

use keyspace::{SLOTS, slot_of};
use resp::{ReplyDecoder, Value};

use super::connection::{self, Stream};
use super::options::Options;

/// Where one node listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A host name or an address, and a port.
    Tcp(String, u16),
    /// The path of a unix socket.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) =
            parts.filter(|(host, _)| !host.is_empty()).ok_or("expected HOST:PORT, with commas between")?;
        Ok(Self::Tcp(host.trim_start_matches('[').trim_end_matches(']').to_owned(), port))
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A set of slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots(Vec<u64>);

impl Slots {
    fn none() -> Self {
        Self(vec![0; SLOTS.div_ceil(64)])
    }

    fn add(&mut self, slot: usize) {
        self.0[slot / 64] |= 1 << (slot % 64);
    }

    /// True if the slot of a key is in it.
    #[inline]
    pub fn have(&self, key: &[u8]) -> bool {
        self.has(usize::from(slot_of(key)))
    }

    #[inline]
    fn has(&self, slot: usize) -> bool {
        self.0[slot / 64] >> (slot % 64) & 1 == 1
    }

    fn first(&self) -> Option<usize> {
        (0..SLOTS).find(|slot| self.has(*slot))
    }
}

/// The nodes of a run; connections are dealt out to them in turn.
#[derive(Clone, Debug)]
pub struct Nodes {
    /// Where they are; at least one.
    pub addresses: Vec<Address>,
    /// With `--cluster` or `--shard`, what each has, in the same order; else empty.
    pub slots: Vec<Slots>,
    /// Those that the options name.
    named: Vec<Address>,
}

impl Nodes {
    /// Those that the options name, or, with `--cluster`, those that the named one names.
    ///
    /// # Errors
    /// In words for the user: with `--cluster` the server does not say who has what; there are too few connections for
    /// each node to get one.
    pub fn find(options: &Options) -> Result<Self, String> {
        let named = match &options.target.unix_socket {
            Some(path) => vec![Address::Unix(path.clone())],
            None if !options.nodes.is_empty() => options.nodes.clone(),
            None => vec![Address::Tcp(options.target.host.clone(), options.target.port)],
        };
        let nodes = match (options.cluster, options.shard) {
            (true, _) => Self::asked(options, &named, &mut 0)?,
            (_, true) => Self::shared_out(named),
            _ => return Ok(Self { addresses: named.clone(), slots: Vec::new(), named }),
        };
        if nodes.addresses.len() * options.threads > options.connections {
            return Err(format!(
                "--connections {}: each of --threads {} needs one to each of {} nodes",
                options.connections,
                options.threads,
                nodes.addresses.len()
            ));
        }
        Ok(nodes)
    }

    /// Those that one of these names: the first that answers. `first` is the one that is asked first, and then the one
    /// that has answered: a machine that is silent costs time only once.
    fn asked(options: &Options, named: &[Address], first: &mut usize) -> Result<Self, String> {
        let mut why = String::new();
        for (at, address) in named.iter().enumerate().cycle().skip(*first).take(named.len()) {
            match Self::asked_at(options, address) {
                Ok(nodes) => {
                    *first = at;
                    return Ok(Self { named: named.to_vec(), ..nodes });
                }
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// Where the nodes are now, in the same order: with `--cluster` those that have the first slot of each. Others stay where
    /// they were. `first`: which of the named ones is asked first.
    pub fn now(&self, options: &Options, first: &mut usize) -> Vec<Address> {
        let mut now = self.addresses.clone();
        if let (true, Ok(found)) = (options.cluster, Self::asked(options, &self.named, first)) {
            for (slots, address) in self.slots.iter().zip(&mut now) {
                let owner = found.slots.iter().position(|of| slots.first().is_some_and(|slot| of.has(slot)));
                if let Some(found) = owner.and_then(|at| found.addresses.get(at)) {
                    address.clone_from(found);
                }
            }
        }
        now
    }

    fn asked_at(options: &Options, named: &Address) -> Result<Self, String> {
        let reply = ask(options, named, &[b"CLUSTER", b"SLOTS"])?;
        let host = match named {
            Address::Tcp(host, _) => host,
            Address::Unix(_) => &options.target.host,
        };
        Self::read(&reply, host)
            .ok_or_else(|| format!("{named} has not answered CLUSTER SLOTS as a cluster does: {reply:?}"))
    }

    /// Each has as many of the slots as the others, or one more.
    fn shared_out(addresses: Vec<Address>) -> Self {
        let mut slots = vec![Slots::none(); addresses.len()];
        (0..SLOTS).for_each(|slot| slots[slot * addresses.len() / SLOTS].add(slot));
        Self { named: addresses.clone(), addresses, slots }
    }

    /// From a reply to CLUSTER SLOTS; a node without a host is at `host`. None if it is no such reply, or names nobody.
    fn read(reply: &Value, host: &str) -> Option<Self> {
        let Value::Array(ranges) = reply else { return None };
        let mut nodes = Self { addresses: Vec::new(), slots: Vec::new(), named: Vec::new() };
        for range in ranges {
            let Value::Array(range) = range else { return None };
            let [Value::Integer(first), Value::Integer(last), Value::Array(owner), ..] = range.as_slice() else {
                return None;
            };
            let [named, Value::Integer(port), ..] = owner.as_slice() else { return None };
            let host = match named {
                Value::Bulk(name) if !name.is_empty() => String::from_utf8_lossy(name).into_owned(),
                _ => host.to_owned(),
            };
            let address = Address::Tcp(host, u16::try_from(*port).ok()?);
            let at = nodes.addresses.iter().position(|known| *known == address).unwrap_or_else(|| {
                nodes.addresses.push(address);
                nodes.slots.push(Slots::none());
                nodes.slots.len() - 1
            });
            for slot in usize::try_from(*first).ok()?..=usize::try_from(*last).ok().filter(|last| *last < SLOTS)? {
                nodes.slots[at].add(slot);
            }
        }
        (!nodes.addresses.is_empty()).then_some(nodes)
    }
}

/// The reply to one command.
fn ask(options: &Options, address: &Address, words: &[&[u8]]) -> Result<Value, String> {
    let mut stream = Stream::open(address, &options.target.tls, options.dial_patience())?;
    connection::log_in(&mut stream, options, true)?;
    let mut request = Vec::new();
    resp::append_request(&mut request, words);
    let fail = |error: io::Error| format!("{address} has not answered: {error}");
    stream.set_timeout(Some(options.patience())).map_err(fail)?;
    stream.write_all(&request).map_err(fail)?;
    let (mut decoder, mut bytes, mut more) = (ReplyDecoder::default(), Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut more) {
            Ok(0) => return Err(format!("{address} closed the connection")),
            Ok(count) => bytes.extend_from_slice(&more[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(fail(error)),
        }
        let parsed =
            decoder.next(&bytes).map_err(|why| format!("{address} has not answered as a server does: {why}"))?;
        match parsed {
            Some((Value::Error(text), _)) => return Err(format!("{address}: {}", String::from_utf8_lossy(&text))),
            Some((value, _)) => return Ok(value),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!("localhost:7001".parse(), Ok(Address::Tcp("localhost".to_owned(), 7001)));
        assert_eq!("[::1]:7001".parse(), Ok(Address::Tcp("::1".to_owned(), 7001)));
        for bad in ["", "localhost", ":7001", "localhost:70010"] {
            assert!(bad.parse::<Address>().unwrap_err().contains("HOST:PORT"), "{bad}");
        }
    }

    #[test]
    fn each_slot_is_given_to_one_server() {
        let at = |port| Address::Tcp("a".to_owned(), port);
        let nodes = Nodes::shared_out(vec![at(1), at(2), at(3)]);
        let counts: Vec<u32> =
            nodes.slots.iter().map(|slots| slots.0.iter().map(|word| word.count_ones()).sum()).collect();
        assert_eq!(counts, [5462, 5461, 5461]);
        for key in 0..1000 {
            let key = format!("key{key}");
            assert_eq!(nodes.slots.iter().filter(|slots| slots.have(key.as_bytes())).count(), 1, "{key}");
        }
    }

    #[test]
    fn who_has_what() {
        let bulk = |text: &str| Value::Bulk(text.into());
        let owner = |host: &str, port| Value::Array(vec![bulk(host), Value::Integer(port), bulk("id")]);
        let range = |first, last, owner| Value::Array(vec![Value::Integer(first), Value::Integer(last), owner]);
        let reply = Value::Array(vec![range(0, 99, owner("a", 1)), range(100, 16383, owner("", 2))]);
        let nodes = Nodes::read(&reply, "here").unwrap();
        assert_eq!(nodes.addresses, [Address::Tcp("a".to_owned(), 1), Address::Tcp("here".to_owned(), 2)]);
        for key in 0..1000 {
            let key = format!("key{key}");
            let at = usize::from(slot_of(key.as_bytes()) >= 100);
            assert!(nodes.slots[at].have(key.as_bytes()) && !nodes.slots[1 - at].have(key.as_bytes()));
        }
        for bad in [Value::Integer(1), Value::Array(Vec::new()), Value::Array(vec![range(0, 16384, owner("a", 1))])] {
            assert!(Nodes::read(&bad, "here").is_none(), "{bad:?}");
        }
    }
}
