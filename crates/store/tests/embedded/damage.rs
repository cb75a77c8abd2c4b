//! Damage: bytes flipped, files cut, lengthened, zeroed, exchanged, put back from an older copy, removed. After any of
//! these a read gives the right answer or an error, opening works or refuses without a change, and the offline check
//! names the file.
//!
//! `STORE_DAMAGES` sets the number of flips in each file.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use crate::support::{Scratch, no_clock, open, settings};
use store::conformance::noise;
use store::{Batch, Compression, Embedded, Error, Limits, Settings, Store, check};

type Files = BTreeMap<PathBuf, Vec<u8>>;
type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

fn read_all(folder: &Path, found: &mut Files) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            read_all(&path, found);
        } else {
            found.insert(path.clone(), fs::read(&path).expect("a file"));
        }
    }
}

fn files(folder: &Path) -> Files {
    let mut found = Files::new();
    read_all(folder, &mut found);
    found
}

fn put_back(folder: &Path, files: &Files) {
    let _ = fs::remove_dir_all(folder);
    for (path, bytes) in files {
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, bytes).expect("written");
    }
}

/// A store of a few tables in two levels, its contents, and its files now and some time before.
struct Sample {
    folder: PathBuf,
    settings: Settings,
    entries: Entries,
    files: Files,
    older: Files,
}

fn sample(scratch: &Scratch, compression: Compression) -> Sample {
    let folder = scratch.join("store");
    let limits = Limits { table: 8 << 10, cache: 1, files: 4, compression, ..Limits::default() };
    let settings = Settings { limits, clock: no_clock(), ..settings() };
    let mut store = Some(open(&folder, &settings));
    let mut entries = Entries::new();
    let mut older = Files::new();
    for round in 0..27u64 {
        let mut batch = Batch::new();
        for n in 0..60 {
            let number = (n * 7 + round * 11) % 300;
            let key = [b"key".as_slice(), &number.to_be_bytes()].concat();
            if n % 9 == 8 {
                batch.delete(&key);
                entries.remove(&key);
            } else {
                let value: Vec<u8> = noise(round << 32 | n).take(60).chain([0; 60]).collect();
                batch.put(&key, &value);
                entries.insert(key, value);
            }
        }
        let open_store = store.as_ref().expect("it is open");
        open_store.write(&batch).expect("written");
        open_store.flush().expect("flushed");
        open_store.settle();
        if round == 25 {
            drop(store.take());
            older = files(&folder);
            store = Some(open(&folder, &settings));
        }
    }
    drop(store);
    let files = files(&folder);
    assert!(files.len() >= 6, "{:?}", files.keys());
    Sample { folder, settings, entries, files, older }
}

/// The outcome of a damage.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Outcome {
    Harmless,
    Read,
    Opened,
}

impl Sample {
    /// Reads everything in a damaged folder. An error is as good as the right answer; anything else is not.
    fn try_it(&self, at_least: u64) -> Result<Outcome, String> {
        let before = files(&self.folder);
        let settings = Settings { at_least, ..self.settings.clone() };
        let store = match Embedded::open(&self.folder, &settings) {
            Ok(store) => store,
            Err(error) => {
                let named = match &error {
                    Error::Damaged { file, .. } | Error::Io { file, .. } => {
                        file.starts_with(&self.folder) && file.is_file() || !file.exists()
                    }
                    Error::Refused { .. } => true,
                    _ => false,
                };
                if files(&self.folder) != before {
                    return Err(format!("it was refused, and files were changed: {error}"));
                }
                return if named { Ok(Outcome::Opened) } else { Err(format!("no file is named: {error}")) };
            }
        };
        let mut outcome = Outcome::Harmless;
        for number in 0..310u64 {
            let key = [b"key".as_slice(), &number.to_be_bytes()].concat();
            match store.get(&key) {
                Ok(found) if found.as_ref() == self.entries.get(&key) => {}
                Ok(found) => return Err(format!("{number} is {found:02x?}")),
                Err(Error::Damaged { .. } | Error::Io { .. }) => outcome = Outcome::Read,
                Err(error) => return Err(format!("reading {number}: {error}")),
            }
        }
        let snapshot = store.snapshot();
        let mut expected = self.entries.iter();
        for entry in snapshot.range((Bound::Unbounded, Bound::Unbounded)) {
            match entry {
                Ok((key, value)) if expected.next() == Some((&key, &value)) => {}
                Ok((key, _)) => return Err(format!("a scan gives {key:02x?}")),
                Err(Error::Damaged { .. } | Error::Io { .. }) => {
                    outcome = Outcome::Read;
                    expected = Default::default();
                    break;
                }
                Err(error) => return Err(format!("scanning: {error}")),
            }
        }
        if expected.next().is_some() {
            return Err("a scan ends early".into());
        }
        Ok(outcome)
    }

    /// Damages a fresh copy. `path`: the file that the check must name.
    fn damage(&self, path: &Path, what: &str, at_least: u64, act: impl FnOnce()) -> Outcome {
        put_back(&self.folder, &self.files);
        act();
        let said = format!("{} {what}", path.display());
        let report = check(&self.folder);
        let tried = self.try_it(at_least).unwrap_or_else(|why| panic!("{said}: {why}"));
        if at_least == 0 {
            let report = report.unwrap_or_else(|why| panic!("{said}: {why}"));
            assert!(!report.is_whole(), "{said}: the check found {report:?}");
        }
        tried
    }

    fn table(&self, n: usize) -> &Path {
        self.files.keys().filter(|path| path.parent().is_some_and(|p| p.ends_with("tables"))).nth(n).expect("a table")
    }
}

fn flips() -> u64 {
    std::env::var("STORE_DAMAGES").ok().and_then(|n| n.parse().ok()).unwrap_or(60)
}

fn flips_in_every_file(compression: Compression) {
    let scratch = Scratch::in_memory();
    let sample = sample(&scratch, compression);
    let mut outcomes: BTreeMap<Outcome, u64> = BTreeMap::new();
    for (number, (path, bytes)) in sample.files.iter().enumerate() {
        let mut dice = noise(number as u64);
        let mut draw = |sides: usize| (0..4).fold(0, |n, _| n << 8 | usize::from(dice.next().unwrap_or(0))) % sides;
        // All of the ends, where lengths and positions are, and some of the rest.
        let ends = (0..bytes.len()).filter(|at| *at < 40 || *at + 60 > bytes.len()).map(|at| at * 8 + at % 8);
        let places: Vec<_> = ends.chain((0..flips()).map(|_| draw(bytes.len() * 8))).collect();
        for bit in places {
            let outcome = sample.damage(path, &format!("bit {bit}"), 0, || {
                let mut bytes = bytes.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                fs::write(path, bytes).expect("written");
            });
            *outcomes.entry(outcome).or_default() += 1;
        }
    }
    // Both outcomes happen, or the suite does not do what it claims. Nearly every byte matters: one repeats a version.
    assert!(outcomes[&Outcome::Read] > 0 && outcomes[&Outcome::Opened] > 0, "{outcomes:?}");
    assert!(outcomes.get(&Outcome::Harmless).is_none_or(|&n| n * 500 < outcomes[&Outcome::Read]), "{outcomes:?}");
}

#[test]
fn flipped_bits() {
    flips_in_every_file(Compression::None);
}

#[test]
fn flipped_bits_in_compressed_tables() {
    flips_in_every_file(Compression::Lz4);
}

#[test]
fn files_cut_lengthened_zeroed_and_removed() {
    let scratch = Scratch::in_memory();
    let sample = sample(&scratch, Compression::Lz4);
    for (path, bytes) in &sample.files {
        let with = |what: &str, new: Vec<u8>| {
            if new != *bytes {
                sample.damage(path, what, 0, || fs::write(path, new).expect("written"));
            }
        };
        for part in [0, 1, 7, 13, 15] {
            with("cut", bytes[..bytes.len() * part / 16].to_vec());
        }
        with("cut by a byte", bytes[..bytes.len() - 1].to_vec());
        with("longer", [bytes.as_slice(), &[0; 100]].concat());
        with("twice", [bytes.as_slice(), bytes].concat());
        for at in (0..bytes.len()).step_by(512) {
            let mut new = bytes.clone();
            let end = (at + 512).min(bytes.len());
            new[at..end].fill(0);
            with("a sector of zeros", new);
        }
        with("all ones", vec![0xff; bytes.len()]);
        sample.damage(path, "removed", 0, || fs::remove_file(path).expect("removed"));
    }
}

#[test]
fn files_exchanged() {
    let scratch = Scratch::in_memory();
    let sample = sample(&scratch, Compression::None);
    let paths: Vec<_> = sample.files.keys().collect();
    for a in &paths {
        for b in &paths {
            if sample.files[*a] != sample.files[*b] {
                sample.damage(a, &format!("is a copy of {}", b.display()), 0, || {
                    fs::write(a, &sample.files[*b]).expect("written");
                });
                sample.damage(a, &format!("exchanged with {}", b.display()), 0, || {
                    fs::write(a, &sample.files[*b]).expect("written");
                    fs::write(b, &sample.files[*a]).expect("written");
                });
            }
        }
    }
}

#[test]
fn blocks_exchanged_within_a_table() {
    let scratch = Scratch::in_memory();
    let sample = sample(&scratch, Compression::None);
    // Every block of entries in this table begins with a header; whole ones are exchanged, so that every checksum of a
    // block is right.
    let path = sample.table(0);
    let bytes = &sample.files[path];
    let starts: Vec<_> = bytes.windows(5).enumerate().filter(|(_, w)| *w == b"LSM\x03\x00").map(|(at, _)| at).collect();
    assert!(starts.len() > 2, "{starts:?}");
    let size = |at: usize| 33 + u32::from_le_bytes(bytes[at + 21..at + 25].try_into().expect("four")) as usize;
    put_back(&sample.folder, &sample.files);
    let [first, second] = [starts[0], starts[1]];
    let exchanged = [
        &bytes[..first],
        &bytes[second..second + size(second)],
        &bytes[first..first + size(first)],
        &bytes[second + size(second)..],
    ];
    fs::write(path, exchanged.concat()).expect("written");
    assert!(!check(&sample.folder).expect("checked").is_whole());
    let store = open(&sample.folder, &sample.settings);
    let snapshot = store.snapshot();
    let scanned: Result<Vec<_>, _> = snapshot.range((Bound::Unbounded, Bound::Unbounded)).collect();
    scanned.expect_err("the scan did not notice");
}

#[test]
fn files_put_back_from_an_older_copy() {
    let scratch = Scratch::in_memory();
    let sample = sample(&scratch, Compression::Lz4);
    let current = sample.folder.join("tree/current");
    let generation = check(&sample.folder).expect("checked").generation.expect("a generation");
    for (path, bytes) in &sample.older {
        if sample.files.get(path).is_some_and(|now| now != bytes) {
            sample.damage(path, "an older copy", 0, || fs::write(path, bytes).expect("written"));
        }
    }
    // `current` with the manifest that it names, and everything as it was: only a reader that remembers the generation
    // can tell.
    let tried = sample.damage(&current, "with its manifest", generation, || {
        for (path, bytes) in
            sample.older.iter().filter(|(path, _)| !path.parent().is_some_and(|p| p.ends_with("tables")))
        {
            fs::write(path, bytes).expect("written");
        }
    });
    assert_eq!(tried, Outcome::Opened);
    let tried = sample.damage(&current, "with everything", generation, || put_back(&sample.folder, &sample.older));
    assert_eq!(tried, Outcome::Opened);
}

#[test]
fn a_checksum_that_is_ignored_would_be_noticed() {
    let scratch = Scratch::in_memory();
    let sample = sample(&scratch, Compression::None);
    let path = sample.table(0);
    // A damaged block with corrected checksums: a reader that ignores checksums sees the same.
    let mut noticed = 0;
    for at in (33..sample.files[path].len().min(3000)).step_by(50) {
        put_back(&sample.folder, &sample.files);
        let mut bytes = sample.files[path].clone();
        let size = u32::from_le_bytes(bytes[21..25].try_into().expect("four")) as usize;
        if at >= 33 + size {
            break;
        }
        bytes[at] ^= 1;
        let sum = xxhash_rust::xxh3::xxh3_128(&bytes[33..33 + size]);
        bytes[5..21].copy_from_slice(&sum.to_le_bytes());
        let sum = xxhash_rust::xxh3::xxh3_128(&bytes[..29]);
        bytes[29..33].copy_from_slice(&sum.to_le_bytes()[..4]);
        fs::write(path, bytes).expect("written");
        assert!(!check(&sample.folder).expect("checked").is_whole());
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| sample.try_it(0)));
        noticed += u32::from(!matches!(tried, Ok(Ok(_))));
    }
    assert!(noticed > 20, "{noticed}");
}

#[test]
fn a_store_that_cannot_compact_says_so() {
    let scratch = Scratch::in_memory();
    let sample = sample(&scratch, Compression::None);
    let path = sample.table(0);
    put_back(&sample.folder, &sample.files);
    let mut bytes = sample.files[path].clone();
    bytes[200] ^= 1;
    fs::write(path, bytes).expect("written");
    let store = open(&sample.folder, &sample.settings);
    let mut outcome = Ok(0);
    for round in 0..40u64 {
        let mut batch = Batch::new();
        for n in 0..300u64 {
            batch.put(&[b"key".as_slice(), &n.to_be_bytes()].concat(), &round.to_be_bytes());
        }
        outcome = store.write(&batch).and_then(|()| store.flush());
        store.settle();
        if outcome.is_err() {
            break;
        }
    }
    let error = outcome.expect_err("it compacted what is damaged").to_string();
    assert!(error.contains(path.to_str().expect("text")) && error.contains("at byte 33"), "{error}");
    assert_eq!(store.fault().map(|fault| fault.to_string()), Some(error));
    assert_eq!(store.get(&[b"key".as_slice(), &5u64.to_be_bytes()].concat()).map(|found| found.is_some()), Ok(true));
}
