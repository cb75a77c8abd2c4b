//! Many clients that together take too much: `maxmemory-clients`.

use std::io::Write;

use crate::ok;
use crate::support::attack::{How, Raw, Server, bulk, request, simple};

/// Sends so many bytes of a command whose end never comes, and waits until they have arrived.
fn send_half(server: &Server, client: &mut Raw, bytes: usize) {
    client.send(format!("*2\r\n$4\r\nECHO\r\n${}\r\n", 2 * bytes).into_bytes());
    client.send(vec![b'x'; bytes]);
    server.is_well();
}

pub fn the_largest_goes_first(how: How) {
    let Some(server) = Server::start(how, &["--maxmemory-clients", "4mb"]) else { return };
    let mut small: Vec<Raw> = (0..4).map(|_| server.connect()).collect();
    small.iter_mut().for_each(|client| send_half(&server, client, 100_000));
    let mut large = server.connect();
    // It may be closed while it still sends.
    let _ = large.stream.write_all(format!("*2\r\n$4\r\nECHO\r\n${}\r\n", 8 << 20).as_bytes());
    let _ = large.stream.write_all(&vec![b'x'; 4 << 20]);
    assert!(large.is_closed());
    server.wait_info("evicted_clients", 1);
    for client in &mut small {
        client.send(vec![b'x'; 100_000]);
        client.send(b"\r\n");
        assert_eq!(client.reply(), bulk("x".repeat(200_000)));
    }
    assert_eq!(server.info("evicted_clients"), 1);
}

pub fn who_must_not_be_evicted_stays(how: How) {
    let Some(server) = Server::start(how, &[]) else { return };
    let mut safe = server.connect();
    assert_eq!(safe.call(&["CLIENT", "NO-EVICT", "ON"]), ok());
    send_half(&server, &mut safe, 2 << 20);
    let mut other = server.connect();
    send_half(&server, &mut other, 1 << 20);
    let mut admin = server.connect();
    assert_eq!(admin.call(&["CLIENT", "NO-EVICT", "ON"]), ok());
    // The limit holds at once, for present clients, too.
    assert_eq!(admin.call(&["CONFIG", "SET", "maxmemory-clients", "1mb"]), ok());
    assert!(other.is_closed());
    safe.send(vec![b'x'; 2 << 20]);
    safe.send(b"\r\n");
    safe.reply();
    safe.send(request(&["PING"]));
    assert_eq!(safe.reply(), simple("PONG"));
    assert_eq!(admin.call(&["CONFIG", "SET", "maxmemory-clients", "0"]), ok());
    server.is_well();
}
