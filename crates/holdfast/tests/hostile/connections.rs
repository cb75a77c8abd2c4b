//! Connections that come and go: too many, and at the worst moments.

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use resp::Value;

use crate::support::attack::{self, How, Raw, Scratch, Server, bulk, long, request, simple, text};
use crate::{error, falls_to, ok};

pub fn clients_have_a_limit(how: How) {
    let Some(server) = Server::start(how, &["--maxclients", "10"]) else { return };
    server.wait_alone();
    for _ in 0..5 {
        // A place is free once the server has seen that a client left.
        let deadline = Instant::now() + attack::PATIENCE;
        let mut clients: Vec<Raw> = Vec::new();
        while clients.len() < 10 {
            assert!(Instant::now() < deadline, "no place becomes free");
            let mut client = server.connect();
            match client.try_call(&["PING"]) {
                Ok(Some(reply)) if reply == simple("PONG") => clients.push(client),
                _ => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        let mut extra: Vec<Raw> = (0..20).map(|_| server.connect()).collect();
        for client in &mut extra {
            assert_eq!(client.rest(), "-ERR max number of clients reached\r\n");
        }
        clients.iter_mut().for_each(|client| assert_eq!(client.call(&["PING"]), simple("PONG")));
    }
    server.wait_alone();
    assert!(server.info("rejected_connections") >= 100);
}

pub fn descriptors_run_out(how: How) {
    let Some(server) = Server::start(how, &[]) else { return };
    server.wait_alone();
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count() as u64;
    let mut first = server.connect();
    first.call(&["PING"]);
    let old = server.limit_files(open + 40);
    let mut clients: Vec<Raw> = (0..60).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.command(&["PING"]));
    assert_eq!(clients[0].reply(), simple("PONG"));
    std::thread::sleep(Duration::from_millis(200));
    let before = server.cpu();
    std::thread::sleep(Duration::from_millis(1000));
    let spent = server.cpu() - before;
    assert!(spent < Duration::from_millis(500), "{spent:?} of CPU per second while nothing can be accepted");
    assert_eq!(first.call(&["PING"]), simple("PONG"));
    // Those at the back come in as those in front leave.
    drop(clients.remove(0));
    for mut client in clients {
        assert_eq!(client.reply(), simple("PONG"));
    }
    server.limit_files(old);
    server.is_well();
}

/// Connections do not take the descriptors that the log needs to go on.
pub fn the_log_has_descriptors_left(how: How) {
    let Some(server) = Server::start(how, &["--appendonly", "yes", "--log-segment-size", "64kb"]) else { return };
    server.wait_alone();
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count() as u64;
    let mut first = server.connect();
    first.call(&["PING"]);
    let old = server.limit_files(open + 40);
    let mut clients: Vec<Raw> = (0..60).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.command(&["PING"]));
    assert_eq!(clients[0].reply(), simple("PONG"));
    // Segment after segment.
    for _ in 0..300 {
        assert_eq!(first.call(&["SET", "key", &"x".repeat(2000)]), simple("OK"));
    }
    server.limit_files(old);
    for client in &mut clients[1..] {
        assert_eq!(client.reply(), simple("PONG"));
    }
    server.is_well();
}

/// Without descriptors the log refuses writes, and goes on when there are some.
pub fn the_log_waits_for_descriptors(how: How) {
    let scratch = Scratch::new();
    let dir = scratch.path().display().to_string();
    let settings = ["--appendonly", "yes", "--log-segment-size", "64kb", "--dir", &dir];
    let Some(server) = Server::start(how, &settings) else { return };
    let (mut client, mut other) = (server.connect(), server.connect());
    let value = "x".repeat(2000);
    assert_eq!(client.call(&["SET", "key", &value]), ok());
    let refused = error("MISCONF Errors writing to the AOF file: Too many open files");
    assert_eq!(other.call(&["PING"]), simple("PONG"));
    // Open files stay.
    let old = server.limit_files(3);
    let mut sent = 0;
    // A segment that was being made comes once more.
    while !text(&other.call(&["INFO", "persistence"])).contains("aof_last_write_status:err")
        || other.call(&["SET", "other", "value"]) != refused
    {
        client.command(&["SET", &format!("key:{sent}"), &value]);
        sent += 1;
    }
    assert_eq!(other.call(&["GET", "key"]), bulk(&value));
    server.limit_files(old);
    // Writes that were under way when the lack was noticed have waited.
    let replies: Vec<Value> = (0..sent).map(|_| client.reply()).collect();
    assert!(replies.iter().all(|reply| *reply == ok() || *reply == refused), "{replies:?}");
    let deadline = Instant::now() + attack::PATIENCE;
    while other.call(&["SET", "key", "value"]) != ok() {
        assert!(Instant::now() < deadline, "it does not go on");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(server);
    let server = Server::start(how, &settings).expect("the driver was there");
    let mut client = server.connect();
    assert_eq!(client.call(&["GET", "key"]), bulk("value"));
    for (n, reply) in replies.iter().enumerate() {
        let confirmed = if *reply == ok() { bulk(&value) } else { Value::Null };
        assert_eq!(client.call(&["GET", &format!("key:{n}")]), confirmed, "key:{n}");
    }
}

/// Checkpoints wait in the same way.
pub fn checkpoints_wait_for_descriptors(how: How) {
    let scratch = Scratch::new();
    let dir = scratch.path().display().to_string();
    let settings = ["--appendonly", "yes", "--dir", &dir];
    let Some(server) = Server::start(how, &settings) else { return };
    let mut client = server.connect();
    for n in 0..100 {
        assert_eq!(client.call(&["SET", &format!("key:{n}"), "value"]), ok());
    }
    let mut saved = |is: &str| {
        let deadline = Instant::now() + attack::PATIENCE;
        let told = format!("rdb_last_bgsave_status:{is}");
        while !text(&client.call(&["INFO", "persistence"])).contains(&told) {
            client.call(&["BGSAVE"]);
            assert!(Instant::now() < deadline, "{told}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let old = server.limit_files(3);
    saved("err");
    server.limit_files(old);
    saved("ok");
    drop(server);
    let server = Server::start(how, &settings).expect("the driver was there");
    let mut client = server.connect();
    for n in 0..100 {
        assert_eq!(client.call(&["GET", &format!("key:{n}")]), bulk("value"), "key:{n}");
    }
}

pub fn half_closed_gets_all_replies(how: How) {
    let Some(server) = Server::start(how, &[]) else { return };
    let mut client = server.connect();
    let one = request(&["INCR", "n"]);
    client.send(one.repeat(5000));
    client.half_close();
    for i in 1..=5000 {
        assert_eq!(client.reply(), Value::Integer(i));
    }
    assert_eq!(client.try_reply().unwrap(), None);
    // More than fits into the socket's buffers.
    server.connect().call(&["SET", "large", &"x".repeat(1_000_000)]);
    let mut client = server.connect();
    client.send(request(&["GET", "large"]).repeat(50));
    client.half_close();
    std::thread::sleep(Duration::from_millis(100));
    for _ in 0..50 {
        assert_eq!(text(&client.reply()).len(), 1_000_000);
    }
    assert_eq!(client.try_reply().unwrap(), None);
    // A command that takes several turns.
    server.connect().call(&["DEBUG", "POPULATE", "20000"]);
    for command in ["KEYS *", "SCAN 0 COUNT 100000", "DBSIZE"] {
        let mut client = server.connect();
        client.send(format!("{command}\r\nPING\r\n"));
        client.half_close();
        assert!(!matches!(client.reply(), Value::Error(_)));
        assert_eq!(client.reply(), simple("PONG"));
        assert_eq!(client.try_reply().unwrap(), None);
    }
    // Half a command, or nothing: no reply, and the end.
    for bytes in ["", "PING", "*1\r\n$4\r\nPI"] {
        let mut client = server.connect();
        client.send(bytes);
        client.half_close();
        assert_eq!(client.rest(), "");
    }
    server.wait_alone();
}

pub fn half_closed_while_waiting(how: How) {
    let Some(server) = Server::start(how, &[]) else { return };
    for before in [true, false] {
        let mut client = server.connect();
        client.command(&["BLPOP", "list", "0"]);
        if before {
            server.wait_info("blocked_clients", 1);
        }
        client.half_close();
        server.wait_info("blocked_clients", 0);
        assert!(client.is_closed());
        let mut pusher = server.connect();
        assert_eq!(pusher.call(&["RPUSH", "list", "a"]), Value::Integer(1));
        assert_eq!(pusher.call(&["LPOP", "list"]), bulk("a"));
    }
    // With many bytes behind it that will never be read.
    let mut client = server.connect();
    client.command(&["BLPOP", "list", "0"]);
    client.send(request(&["SET", "k", "v"]).repeat(50_000));
    client.half_close();
    assert!(client.is_closed());
    server.wait_alone();
    assert_eq!(server.connect().call(&["EXISTS", "k"]), Value::Integer(0));
}

pub fn resets(how: How) {
    let Some(server) = Server::start(how, &[]) else { return };
    server.connect().call(&["SET", "large", &"x".repeat(1_000_000)]);
    let scenes: [&[u8]; 6] = [
        b"",
        b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\nabc",
        &request(&["GET", "large"]).repeat(20),
        &request(&["BLPOP", "none", "0"]),
        &request(&["KEYS", "*"]),
        b"MULTI\r\nWATCH a\r\nSET a b\r\n",
    ];
    for scene in scenes.iter().cycle().take(60) {
        let mut client = server.connect();
        client.send(scene);
        client.reset();
    }
    server.wait_alone();
    server.wait_info("blocked_clients", 0);
    server.is_well();
}

pub fn storms(how: How) {
    let Some(server) = Server::start(how, &[]) else { return };
    let rounds = if long() { 5000 } else { 300 };
    let storm = || {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let server = &server;
                scope.spawn(move || {
                    for i in 0..rounds {
                        let mut client = server.connect();
                        match (i + thread) % 5 {
                            0 => {}
                            1 => client.send("PING\r\n"),
                            2 => client.send("*2\r\n$3\r\nGET\r\n$"),
                            3 => assert_eq!(client.call(&["PING"]), simple("PONG")),
                            _ => {
                                client.send("BLPOP none 0\r\n");
                                client.reset();
                            }
                        }
                    }
                });
            }
        });
        server.wait_alone();
    };
    storm();
    let before = server.info("used_memory");
    storm();
    falls_to(&server, "used_memory", before + (2 << 20));
    server.wait_info("blocked_clients", 0);
    server.is_well();
}

pub fn leaving_in_the_middle_of_things(how: How) {
    let Some(server) = Server::start(how, &[]) else { return };
    server.connect().call(&["DEBUG", "POPULATE", "30000"]);
    let scenes: [&[&str]; 7] = [
        &["BLPOP a 0"],
        &["BLMOVE a b LEFT RIGHT 0", "SET never 1"],
        &["WATCH a b c", "MULTI", "SET never 1"],
        &["MULTI", "SET never 1", "BLPOP a 0"],
        &["WATCH a b c"],
        &["KEYS *"],
        &["CLIENT REPLY OFF", "BZPOPMIN z 0"],
    ];
    for kill in [false, true] {
        let mut clients = Vec::new();
        for scene in scenes.iter().cycle().take(70) {
            let mut client = server.connect();
            let id = client.id();
            scene.iter().for_each(|line| client.send(format!("{line}\r\n")));
            clients.push((client, id));
        }
        if kill {
            let mut killer = server.connect();
            for (_, id) in &clients {
                assert_eq!(killer.call(&["CLIENT", "KILL", "ID", id]), Value::Integer(1));
            }
            // From here on no client waits, and pushed elements stay.
            assert_eq!(killer.call(&["RPUSH", "a", "x"]), Value::Integer(1));
            assert_eq!(killer.call(&["LLEN", "a"]), Value::Integer(1));
            assert_eq!(killer.call(&["DEL", "a"]), Value::Integer(1));
            clients.iter_mut().for_each(|(client, _)| assert!(client.is_closed()));
        }
        drop(clients);
        server.wait_alone();
        for field in ["blocked_clients", "watching_clients", "total_blocking_keys", "total_watched_keys"] {
            server.wait_info(field, 0);
        }
        let mut client = server.connect();
        assert_eq!(client.call(&["EXISTS", "never"]), Value::Integer(0));
        assert_eq!(client.call(&["RPUSH", "a", "x"]), Value::Integer(1));
        assert_eq!(client.call(&["DEL", "a"]), Value::Integer(1));
    }
}

/// Clients that send more than their sockets hold while their worker is busy, and are killed then: their writes end at
/// once. (The kernel took a minute if a shutdown came first, as the window of a closed socket was not opened again.)
pub fn killed_while_sending(how: How) {
    let Some(server) = Server::start(how, &["--proto-max-bulk-len", "1gb"]) else { return };
    let mut killer = server.connect();
    let long = "a".repeat(2000);
    assert_eq!(killer.call(&["MSET", "a", &long, "b", &long]), ok());
    let part = vec![b'x'; 1 << 20];
    for _ in 0..3 {
        // Some of them are served by the worker of the killing client.
        let mut clients: Vec<Raw> = (0..6).map(|_| server.connect()).collect();
        clients.iter_mut().for_each(|client| assert_eq!(client.call(&["PING"]), simple("PONG")));
        // One command, which takes a while.
        let mut block = request(&["MULTI"]);
        (0..4).for_each(|_| block.extend(request(&["LCS", "a", "b", "LEN"])));
        block.extend(request(&["CLIENT", "KILL", "TYPE", "normal"]));
        block.extend(request(&["EXEC"]));
        killer.send(block);
        assert_eq!(killer.reply(), ok());
        for client in &mut clients {
            client.send("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000000\r\n");
            client.stream.set_nonblocking(true).unwrap();
            // Up to 64 MB: as much as fits.
            let _ = (0..64).try_for_each(|_| client.stream.write_all(&part));
            client.stream.set_nonblocking(false).unwrap();
        }
        (0..5).for_each(|_| assert_eq!(killer.reply(), simple("QUEUED")));
        assert_eq!(killer.reply(), Value::Array([vec![Value::Integer(2000); 4], vec![Value::Integer(6)]].concat()));
        for client in &mut clients {
            let error = (0..1000).find_map(|_| client.stream.write_all(&part).err()).expect("an end");
            assert!(matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error}");
            assert!(client.is_closed());
        }
    }
}

pub fn the_end_under_load(how: How) {
    let Some(server) = Server::start(how, &[]) else { return };
    server.connect().call(&["DEBUG", "POPULATE", "100000"]);
    let mut waiting: Vec<Raw> = (0..50).map(|_| server.connect()).collect();
    waiting.iter_mut().for_each(|client| client.send("BLPOP none 0\r\n"));
    let flood: Vec<_> = (0..8)
        .map(|_| {
            let mut client = server.connect();
            std::thread::spawn(move || {
                let part = b"SET k v\r\nGET k\r\nKEYS nothing*\r\n".repeat(100);
                let mut buffer = vec![0; 1 << 16];
                client.stream.set_nonblocking(true).unwrap();
                loop {
                    let (wrote, read) = (client.stream.write(&part), client.stream.read(&mut buffer));
                    for result in [wrote, read] {
                        match result {
                            Ok(1..) => {}
                            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                            _ => return,
                        }
                    }
                }
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    let begin = Instant::now();
    let status = server.terminate();
    assert!(status.success(), "{status:?}");
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?} to end", begin.elapsed());
    flood.into_iter().for_each(|thread| thread.join().unwrap());
}
