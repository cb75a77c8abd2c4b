use std::cell::{Cell, RefCell};
use std::fs;
use std::io::{self, Cursor, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;

use crate::wire::{CHUNK, Message, Messages};
use crate::{Ask, Pace, Pauses, Progress, ask, asked, receive, refuse, send};

/// A folder of a test, removed in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("holdfast-shipping-{}-{}", std::process::id(), NEXT.fetch_add(1, SeqCst));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A clock that stands still but for pauses.
#[derive(Default)]
struct Still(Cell<u64>);

impl Pauses for Still {
    fn now_ns(&self) -> u64 {
        self.0.get()
    }

    fn pause(&self, time: Duration) {
        self.0.set(self.0.get() + time.as_nanos() as u64);
    }
}

type Tree = Vec<(String, Vec<u8>)>;

fn make(folder: &Path, tree: &Tree) {
    fs::create_dir_all(folder).expect("a folder");
    for (path, bytes) in tree {
        let place = folder.join(path);
        fs::create_dir_all(place.parent().expect("a folder")).expect("folders");
        fs::write(place, bytes).expect("a file");
    }
}

fn found(folder: &Path) -> Tree {
    let files = crate::tree::files(folder).expect("a tree");
    files.into_iter().map(|(path, _)| (path.clone(), fs::read(folder.join(path)).expect("a file"))).collect()
}

/// The bytes that a sender would send, to a receiver that has everything.
fn sent(folder: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut received = Vec::new();
    Message::Received.write(&mut received).expect("bytes");
    let progress = Progress::default();
    let ends: (&mut dyn Read, &mut dyn Write) = (&mut Cursor::new(received), &mut bytes);
    send(folder, ends, (&Pace::new(0), &Still::default()), &progress).expect("a shipment");
    bytes
}

fn received(folder: &Path, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    receive(folder, (&mut Cursor::new(bytes), &mut answer), &Progress::default())?;
    Ok(answer)
}

fn small() -> Tree {
    vec![("CURRENT".into(), vec![7; 3]), ("tables/1".into(), vec![1; 40]), ("tables/2".into(), Vec::new())]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_folder_arrives_as_it_is(sizes in prop::collection::btree_map("[a-z]{1,3}(/[a-z]{1,3}){0,2}", 0usize..700_000, 0..6), seed in any::<u8>()) {
        // A name is a file's or a folder's.
        let names: Vec<&String> = sizes.keys().collect();
        prop_assume!(!names.iter().any(|a| names.iter().any(|b| b.starts_with(&format!("{a}/")))));
        let bytes = |size: usize| (0..size).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect::<Vec<u8>>();
        let tree: Tree = sizes.iter().map(|(path, size)| (path.clone(), bytes(*size))).collect();
        let scratch = Scratch::new();
        make(&scratch.at("from"), &tree);
        let (mut one, mut other) = UnixStream::pair().expect("sockets");
        let (from, to) = (scratch.at("from"), scratch.at("to"));
        let total: u64 = sizes.values().map(|size| *size as u64).sum();
        let sender = thread::spawn(move || {
            let wanted = asked(&mut one)?;
            let progress = Progress::default();
            let mut answers = one.try_clone()?;
            send(&from, (&mut answers, &mut one), (&Pace::new(0), &Still::default()), &progress)?;
            Ok::<_, io::Error>((wanted, progress.bytes()))
        });
        ask(&mut other, Ask { shard: 9 }).expect("a question");
        let progress = Progress::default();
        let mut from = other.try_clone().expect("a socket");
        receive(&to, (&mut from, &mut other), &progress).expect("a shipment");
        let (wanted, bytes) = sender.join().expect("a thread").expect("a shipment");
        prop_assert_eq!((wanted, bytes), (Ask { shard: 9 }, (total, total)));
        prop_assert_eq!(progress.bytes(), (total, total));
        prop_assert_eq!(found(&to), tree);
    }
}

/// Whatever happens to a byte, or wherever the connection ends: an error, and never a folder that counts.
#[test]
fn a_damaged_shipment_is_refused() {
    let scratch = Scratch::new();
    make(&scratch.at("from"), &small());
    let bytes = sent(&scratch.at("from"));
    assert!(received(&scratch.at("whole"), &bytes).is_ok());
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let to = scratch.at(&format!("d{at}"));
        assert!(received(&to, &damaged).is_err(), "byte {at}");
        let to = scratch.at(&format!("c{at}"));
        assert!(received(&to, &bytes[..at]).is_err(), "cut at {at}");
    }
}

#[test]
fn a_file_that_changes_ends_the_shipment() {
    let messages = |sizes: &[(u64, &[u8])], cargo: (u32, u64)| {
        let mut bytes = Vec::new();
        Message::Cargo { files: cargo.0, bytes: cargo.1 }.write(&mut bytes).expect("bytes");
        for (at, (size, chunk)) in sizes.iter().enumerate() {
            Message::File { size: *size, path: &format!("f{at}") }.write(&mut bytes).expect("bytes");
            if !chunk.is_empty() {
                Message::Chunk(chunk).write(&mut bytes).expect("bytes");
            }
        }
        Message::End.write(&mut bytes).expect("bytes");
        bytes
    };
    let scratch = Scratch::new();
    let cases: [(&str, Vec<u8>, &str); 4] = [
        ("longer", messages(&[(3, b"four")], (1, 3)), "longer"),
        ("shorter", messages(&[(3, b"ab"), (0, b"")], (2, 3)), "shorter"),
        ("fewer", messages(&[(3, b"abc")], (2, 3)), "before all of it"),
        ("less", messages(&[(3, b"abc")], (1, 4)), "before all of it"),
    ];
    for (name, bytes, why) in cases {
        let error = received(&scratch.at(name), &bytes).expect_err(name).to_string();
        assert!(error.contains(why), "{name}: {error}");
    }
    // A chunk of no file.
    let mut bytes = Vec::new();
    Message::Cargo { files: 0, bytes: 1 }.write(&mut bytes).expect("bytes");
    Message::Chunk(b"a").write(&mut bytes).expect("bytes");
    assert!(received(&scratch.at("none"), &bytes).is_err());
}

#[test]
fn a_path_stays_in_the_folder() {
    let scratch = Scratch::new();
    let deep = "a/".repeat(9) + "b";
    let long = "x".repeat(1025);
    for path in ["../up", "/etc/x", "a/../../b", "a//b", "", ".", "a/.", "a\0b", "a\\b", &deep, &long] {
        let mut bytes = Vec::new();
        Message::Cargo { files: 1, bytes: 0 }.write(&mut bytes).expect("bytes");
        Message::File { size: 0, path }.write(&mut bytes).expect("bytes");
        Message::End.write(&mut bytes).expect("bytes");
        let _ = fs::remove_dir_all(scratch.at("to"));
        assert!(received(&scratch.at("to"), &bytes).is_err(), "{path:?}");
        assert!(!scratch.at("up").exists());
    }
    // The same file twice.
    let mut bytes = Vec::new();
    Message::Cargo { files: 2, bytes: 0 }.write(&mut bytes).expect("bytes");
    for _ in 0..2 {
        Message::File { size: 0, path: "a" }.write(&mut bytes).expect("bytes");
    }
    Message::End.write(&mut bytes).expect("bytes");
    assert!(received(&scratch.at("twice"), &bytes).is_err());
}

#[test]
fn a_refusal_says_why() {
    let scratch = Scratch::new();
    let mut bytes = Vec::new();
    refuse(&mut bytes, "it owns no such shard").expect("bytes");
    let why = received(&scratch.at("to"), &bytes).expect_err("refused").to_string();
    assert_eq!(why, "the other node refuses: it owns no such shard");
    assert!(!scratch.at("to").exists(), "nothing was begun");
    fs::create_dir(scratch.at("to")).expect("a folder");
    make(&scratch.at("from"), &small());
    let why = received(&scratch.at("to"), &sent(&scratch.at("from"))).expect_err("it is there");
    assert_eq!(why.kind(), io::ErrorKind::AlreadyExists);
}

/// Each pause is as long as the bytes before it take. Time that was not used is not made up for.
#[test]
fn a_shipment_keeps_its_pace() {
    struct Counted {
        clock: Still,
        pauses: RefCell<Vec<Duration>>,
    }
    impl Pauses for Counted {
        fn now_ns(&self) -> u64 {
            self.clock.now_ns()
        }
        fn pause(&self, time: Duration) {
            self.pauses.borrow_mut().push(time);
            self.clock.pause(time);
        }
    }
    let counted = Counted { clock: Still::default(), pauses: RefCell::default() };
    let pace = Pace::new(1 << 20);
    let mut meter = crate::pace::Meter::new(&pace, &counted, 1 << 30);
    for _ in 0..4 {
        meter.sent(CHUNK as u64);
    }
    assert_eq!(*counted.pauses.borrow(), [Duration::from_millis(250); 4]);
    counted.clock.pause(Duration::from_secs(10));
    meter.sent(CHUNK as u64);
    assert_eq!(counted.pauses.borrow().last(), Some(&Duration::from_millis(250)), "no burst after a rest");
    // Short pauses are put together.
    counted.pauses.borrow_mut().clear();
    for _ in 0..10 {
        meter.sent(500);
    }
    let total: Duration = counted.pauses.borrow().iter().sum();
    assert!(counted.pauses.borrow().len() <= 5, "{:?}", counted.pauses.borrow());
    assert!(total >= Duration::from_micros(3500), "{total:?}");
    pace.set(0);
    counted.pauses.borrow_mut().clear();
    meter.sent(1 << 30);
    assert!(counted.pauses.borrow().is_empty());
}

#[test]
fn either_end_can_stop_it() {
    let scratch = Scratch::new();
    make(&scratch.at("from"), &small());
    let bytes = sent(&scratch.at("from"));
    let progress = Progress::default();
    progress.stop();
    let why = receive(&scratch.at("to"), (&mut Cursor::new(&bytes), &mut Vec::new()), &progress);
    assert!(why.expect_err("stopped").to_string().contains("stopped here"));
    let why = send(
        &scratch.at("from"),
        (&mut Cursor::new(Vec::new()), &mut Vec::new()),
        (&Pace::new(0), &Still::default()),
        &progress,
    );
    assert!(why.expect_err("stopped").to_string().contains("stopped here"));
}

#[test]
fn golden_bytes() {
    let hex = |message: Message<'_>| {
        let mut bytes = Vec::new();
        message.write(&mut bytes).expect("bytes");
        // Each is read as it was written.
        let mut from = Cursor::new(&bytes);
        assert_eq!(Messages::new(&mut from).next().expect("a message"), message);
        bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    assert_eq!(hex(Message::Ask(Ask { shard: 3 })), "1300000001484f4c44534849500100030000007f3d653e");
    assert_eq!(hex(Message::Refused("no")), "07000000026e6fbde99964");
    assert_eq!(hex(Message::Cargo { files: 2, bytes: 300 }), "1100000003020000002c01000000000000cd8aeb89");
    assert_eq!(hex(Message::File { size: 5, path: "tables/1" }), "150000000405000000000000007461626c65732f312f3a8a6c");
    assert_eq!(hex(Message::Chunk(b"hello")), "0a0000000568656c6c6f9dedecd5");
    assert_eq!(hex(Message::End), "0500000006b9b4dc74");
    assert_eq!(hex(Message::Received), "0500000007ba37b786");
}

#[test]
fn messages_of_other_versions_and_sizes_are_refused() {
    let decoded = |body: &[u8]| {
        let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, body) as u32;
        let whole = [&(body.len() as u32 + 4).to_le_bytes()[..], body, &crc.to_le_bytes()].concat();
        let mut from = Cursor::new(whole);
        Messages::new(&mut from).next().map(|message| format!("{message:?}"))
    };
    assert!(decoded(b"\x01HOLDSHIP\x01\x00\x03\x00\x00\x00").is_ok());
    for body in [
        &b"\x01HOLDSHIP\x02\x00\x03\x00\x00\x00"[..],
        b"\x01HOLDSHIP\x01\x00\x03\x00\x00",
        b"\x01HOLDCOPY\x01\x00\x03\x00\x00\x00",
        b"\x02\xff\xfe",
        b"\x03\x01\x00\x00\x00",
        b"\x04\x01",
        b"\x05",
        b"\x06x",
        b"\x07x",
        b"\x08",
        b"\x00",
    ] {
        assert!(decoded(body).is_err(), "{body:?}");
    }
    for length in [0u32, 4, (CHUNK + 65) as u32, u32::MAX] {
        let mut from = Cursor::new([&length.to_le_bytes()[..], &[0; 64]].concat());
        assert!(Messages::new(&mut from).next().is_err(), "{length}");
    }
}
