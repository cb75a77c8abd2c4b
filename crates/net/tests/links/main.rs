//! Links over real sockets, with both drivers.

mod nodes;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use net::Driver;
use node::config::IoDriver;
use nodes::Nodes;
use resp::{ReplyDecoder, Value, append_request};

struct Client {
    stream: TcpStream,
    received: Vec<u8>,
    decoder: ReplyDecoder,
}

impl Client {
    fn connect(port: u16) -> Client {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, received: Vec::new(), decoder: ReplyDecoder::default() }
    }

    fn send(&mut self, commands: &[Vec<&[u8]>]) {
        let mut bytes = Vec::new();
        commands.iter().for_each(|words| append_request(&mut bytes, words));
        self.stream.write_all(&bytes).unwrap();
    }

    fn reply(&mut self) -> Value {
        loop {
            if let Some((value, length)) = self.decoder.next(&self.received).unwrap() {
                self.received.drain(..length);
                return value;
            }
            let mut piece = vec![0; 1 << 20];
            let n = match self.stream.read(&mut piece) {
                // With a time limit, a stop of the process for a moment ends the call.
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                n => n.unwrap(),
            };
            assert!(n > 0, "the connection was closed");
            self.received.extend_from_slice(&piece[..n]);
        }
    }

    fn ask(&mut self, words: &[&[u8]]) -> Value {
        self.send(&[words.to_vec()]);
        self.reply()
    }
}

fn with_every_driver(test: impl Fn(&Nodes)) {
    for setting in [IoDriver::Epoll, IoDriver::Auto] {
        let driver = Driver::choose(setting).unwrap();
        let nodes = Nodes::start(3, driver, 0, &[("workers", "2"), ("protected-mode", "no")]).unwrap();
        test(&nodes);
        nodes.stop().unwrap();
    }
}

#[test]
fn many_clients_use_keys_of_all_nodes() {
    with_every_driver(|nodes| {
        std::thread::scope(|scope| {
            for client in 0..12 {
                let port = nodes.ports[client % 3];
                scope.spawn(move || {
                    let mut connection = Client::connect(port);
                    for round in 0..30 {
                        let keys: Vec<String> = (0..100).map(|i| format!("{client}:{i}")).collect();
                        let values: Vec<String> = (0..100).map(|i| format!("{client}:{round}:{i}")).collect();
                        let both = keys.iter().zip(&values);
                        let commands: Vec<Vec<&[u8]>> = both
                            .flat_map(|(key, value)| {
                                [vec![&b"SET"[..], key.as_bytes(), value.as_bytes()], vec![&b"GET"[..], key.as_bytes()]]
                            })
                            .collect();
                        connection.send(&commands);
                        for value in &values {
                            assert_eq!(connection.reply(), Value::Simple(b"OK".to_vec()));
                            assert_eq!(connection.reply(), Value::Bulk(value.as_bytes().to_vec()));
                        }
                    }
                });
            }
        });
        let mut client = Client::connect(nodes.ports[1]);
        assert_eq!(client.ask(&[b"DBSIZE"]), Value::Integer(1200));
    });
}

#[test]
fn what_is_large_goes_through() {
    with_every_driver(|nodes| {
        let mut client = Client::connect(nodes.ports[0]);
        let value = vec![b'v'; 20 << 20];
        for i in 0..6 {
            let key = format!("large:{i}");
            assert_eq!(client.ask(&[b"SET", key.as_bytes(), &value]), Value::Simple(b"OK".to_vec()));
        }
        // A client that does not read at once stops no other.
        let mut slow = Client::connect(nodes.ports[1]);
        let keys: Vec<String> = (0..6).map(|i| format!("large:{i}")).collect();
        slow.send(&keys.iter().map(|key| vec![&b"GET"[..], key.as_bytes()]).collect::<Vec<_>>());
        let mut other = Client::connect(nodes.ports[1]);
        for i in 0..300 {
            let key = format!("small:{i}");
            assert_eq!(other.ask(&[b"INCR", key.as_bytes()]), Value::Integer(1));
        }
        for _ in 0..6 {
            assert_eq!(slow.reply(), Value::Bulk(value.clone()));
        }
    });
}

#[test]
fn blocked_clients_are_served_from_anywhere() {
    with_every_driver(|nodes| {
        std::thread::scope(|scope| {
            for i in 0..9 {
                let (waits, pushes) = (nodes.ports[i % 3], nodes.ports[(i + 1) % 3]);
                scope.spawn(move || {
                    let list = format!("list:{i}");
                    let mut waiting = Client::connect(waits);
                    let mut pushing = Client::connect(pushes);
                    for n in 0..200 {
                        waiting.send(&[vec![b"BLPOP", list.as_bytes(), b"30"]]);
                        let element = n.to_string();
                        assert_eq!(pushing.ask(&[b"RPUSH", list.as_bytes(), element.as_bytes()]), Value::Integer(1));
                        let popped = [list.as_bytes(), element.as_bytes()].map(|text| Value::Bulk(text.to_vec()));
                        assert_eq!(waiting.reply(), Value::Array(popped.to_vec()));
                    }
                });
            }
        });
    });
}
