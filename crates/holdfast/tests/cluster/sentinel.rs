//! Clients of Sentinel find a node that serves, and hear when it is another one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::support::{Nodes, Server, free_port, free_ports};

/// The longest wait for anything that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Client(BufReader<TcpStream>);

impl Client {
    pub fn new(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(BufReader::new(stream))
    }

    pub fn send(&mut self, line: &str) {
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
    }

    /// The texts of an array of texts; empty for an array that is nil.
    pub fn texts(&mut self) -> Vec<String> {
        let mut count = self.line()[1..].parse::<i64>().unwrap();
        let mut texts = Vec::new();
        while count > 0 {
            texts.push(self.text());
            count -= 1;
        }
        texts
    }

    /// The texts of an array of arrays of texts.
    pub fn records(&mut self) -> Vec<Vec<String>> {
        let count = self.line()[1..].parse::<usize>().unwrap();
        (0..count).map(|_| self.texts()).collect()
    }

    fn text(&mut self) -> String {
        let head = self.line();
        if head.starts_with(':') {
            return head;
        }
        let mut text = vec![0; head[1..].parse::<usize>().unwrap() + 2];
        self.0.read_exact(&mut text).unwrap();
        String::from_utf8(text).unwrap().trim_end().to_owned()
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub fn master(&mut self, name: &str) -> Vec<String> {
        self.send(&format!("SENTINEL GET-MASTER-ADDR-BY-NAME {name}"));
        self.texts()
    }

    /// Asks until the master is at this port.
    pub fn until_master(&mut self, name: &str, port: u16) {
        let place = ["127.0.0.1".to_owned(), port.to_string()];
        self.until(|client| client.master(name), |found| *found == place);
    }

    /// Asks until so many Sentinels are usable.
    pub fn until_usable(&mut self, name: &str, count: u8) {
        let asks = |client: &mut Self| {
            client.send(&format!("SENTINEL CKQUORUM {name}"));
            client.line()
        };
        self.until(asks, |line| line.starts_with(&format!("+OK {count} usable Sentinels. Quorum")));
    }

    pub fn until<T: std::fmt::Debug>(&mut self, asks: impl Fn(&mut Self) -> T, is_it: impl Fn(&T) -> bool) {
        let end = Instant::now() + PATIENCE;
        loop {
            let found = asks(self);
            if is_it(&found) {
                return;
            }
            assert!(Instant::now() < end, "{found:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn clients_of_sentinel_find_a_node_that_serves() {
    let first = free_ports(3);
    let files = [0, 1, 2].map(|node| format!("sentinel-port {}\nsentinel-master-name main\n", first + node));
    let mut nodes = Nodes::with_files(3, 3, &files.each_ref().map(String::as_str));
    (0..3).for_each(|node| nodes.serves(node));
    let mut clients = [0, 1, 2].map(|node| Client::new(first + node));
    // Each names the first node that it has seen serve.
    let mut named = [0; 3];
    for (client, named) in clients.iter_mut().zip(&mut named) {
        client.until(|client| client.master("main"), |found| !found.is_empty());
        let port = client.master("main")[1].parse::<u16>().unwrap();
        *named = nodes.ports.iter().position(|known| *known == port).unwrap();
        assert_eq!(client.master("mymaster"), [""; 0]);
        client.until_usable("main", 3);
    }
    for (shard, port) in nodes.ports.clone().into_iter().enumerate() {
        clients[2].until_master(&format!("shard-{}", shard + 1), port);
    }

    let asked = (0..3).find(|node| named[*node] != *node).expect("one that names another");
    let (lost, client) = (named[asked], &mut clients[asked]);
    let mut subscriber = Client::new(first + asked as u16);
    subscriber.send("SUBSCRIBE +switch-master");
    assert_eq!(subscriber.texts(), ["subscribe", "+switch-master", ":1"]);
    nodes.kill(lost);
    let heard = subscriber.texts();
    let switch = |port: u16| format!("main 127.0.0.1 {} 127.0.0.1 {port}", nodes.ports[lost]);
    let to = nodes.ports.iter().find(|port| heard == ["message", "+switch-master", &switch(**port)]);
    let to = *to.unwrap_or_else(|| panic!("{heard:?}"));
    client.until_master("main", to);
    // Its own keys are not served meanwhile, and nobody has taken them over.
    client.until_master(&format!("shard-{}", lost + 1), nodes.ports[lost]);
    client.until_usable("main", 2);
    nodes.start(lost);
    client.until_usable("main", 3);
    client.until_master("main", to);
}

#[test]
fn a_server_alone_is_the_master() {
    let port = free_port();
    let server = Server::start(&["--sentinel-port", &port.to_string(), "--appendonly", "no"]);
    let mut client = Client::new(port);
    assert_eq!(client.master("mymaster"), ["127.0.0.1".to_owned(), server.port().to_string()]);
    client.send("SENTINEL FAILOVER mymaster");
    assert!(client.line().starts_with("-ERR SENTINEL FAILOVER is not supported"));
}
