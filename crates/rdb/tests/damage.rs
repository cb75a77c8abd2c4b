//! Damaged files give an error or other values, but no panic, and take no memory beyond the size of the file.
//!
//! The allocator of this program counts. SAFETY: it passes every request on to the system's allocator unchanged.

mod support;

use object::Limits;
use proptest::prelude::*;
use rdb::{EntryRef, Item, Reader, Target, aof};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    /// Bytes of this thread's largest block since it was set to zero.
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

fn note(bytes: usize) {
    // A thread that ends has no counter any more.
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(bytes)));
}

// SAFETY: every request goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Reads all of a file, with its values. Returns the number of its items, and the largest block that this took.
fn survive(file: &[u8]) -> (usize, usize) {
    LARGEST.set(0);
    let mut count = 0;
    if let Ok(reader) = Reader::new(file) {
        let mut reader = reader.skip_foreign(true);
        while let Ok(Some(item)) = reader.next_item() {
            count += 1;
            if let Item::Entry(entry) = item {
                let _ = entry.value(&Limits::default());
            }
            assert!(reader.offset() <= file.len() as u64);
        }
    }
    let mut reader = aof::Reader::new(file).skip_foreign(true);
    while let Ok(Some(_)) = reader.next_step() {}
    (count, LARGEST.get())
}

/// The largest block that a file may take: its own buffers, twice its bytes, and LZF, which makes 88 bytes of one.
fn most(file: &[u8]) -> usize {
    (64 << 10) + 2 * 88 * file.len()
}

fn file(target: Target) -> Vec<u8> {
    let samples = support::samples();
    let entries: Vec<EntryRef<'_>> =
        samples.iter().map(|value| EntryRef::new(0, b"key", value.as_value_ref())).collect();
    support::file_of(target, &entries)
}

#[test]
fn a_file_cut_anywhere_is_an_error() {
    for target in support::TARGETS {
        let file = file(target);
        let (items, _) = survive(&file);
        assert!(items > 12, "{items}");
        for cut in (0..file.len()).filter(|cut| cut % 7 == 0 || cut + 40 > file.len()) {
            let error = support::items(&file[..cut]).unwrap_err();
            assert!(error.is_cut() && error.offset <= cut as u64, "{cut}: {error}");
        }
    }
}

#[test]
fn every_byte_may_be_any_other() {
    // Large values are one sample each, and their bytes are alike.
    let samples = support::samples();
    for target in [Target::Redis88, Target::Valkey9] {
        for value in samples.iter().filter(|value| object::rdb::dump(value.as_value_ref()).len() < 1000) {
            let file = support::file_of(target, &[EntryRef::new(0, b"key", value.as_value_ref())]);
            let from = file.len().saturating_sub(object::rdb::dump(value.as_value_ref()).len() + 12);
            for at in from..file.len() {
                for to in
                    [0x00, 0x01, 0x3f, 0x7f, 0x80, 0x81, 0xc3, 0xf3, 0xfe, 0xff, file[at] ^ 1, file[at].wrapping_add(1)]
                {
                    let mut damaged = file.clone();
                    damaged[at] = to;
                    let (_, largest) = survive(&damaged);
                    assert!(largest <= most(&file), "{largest} bytes for a file of {}, {at} {to}", file.len());
                }
            }
        }
    }
}

/// Lengths beyond the file's, in each place where a length is read.
#[test]
fn lengths_beyond_the_file_take_no_memory() {
    let huge = [&[0x81][..], &[0x7f; 8]].concat();
    let lists = [
        vec![0x00],
        vec![0x01],
        vec![0x02],
        vec![0x04],
        vec![0x05],
        vec![0x0e],
        vec![0x12],
        vec![0x0f],
        vec![0x1b],
        vec![0x1c],
    ];
    for start in lists {
        let kinds = [[&start[..], b"\x01k", &huge[..], b"abc"].concat(), [&start[..], &huge[..], b"abc"].concat()];
        for body in kinds {
            let file = [b"REDIS0014", body.as_slice()].concat();
            let (_, largest) = survive(&file);
            assert!(largest <= most(&file), "{largest}: {}", file.escape_ascii());
        }
    }
    // A compressed string that claims to be large.
    let lzf = [&b"REDIS0014\x00\x01k\xc3\x03"[..], &huge[..], b"\x01ab"].concat();
    assert!(survive(&lzf).1 <= most(&lzf));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_damage_is_survived(
        target in prop::sample::select(support::TARGETS.to_vec()),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let whole = file(target);
        let mut file = whole.clone();
        for (at, to) in damage {
            let at = at.index(file.len());
            file[at] = to;
        }
        if let Some(cut) = cut {
            file.truncate(cut.index(file.len()));
        }
        let (_, largest) = survive(&file);
        prop_assert!(largest <= most(&whole));
    }

    #[test]
    fn any_bytes_are_survived(body in proptest::collection::vec(any::<u8>(), 0..200), valkey: bool) {
        let header: &[u8] = if valkey { b"VALKEY080" } else { b"REDIS0014" };
        survive(&[header, &body].concat());
        survive(&body);
    }
}
