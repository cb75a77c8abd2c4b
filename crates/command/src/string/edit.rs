//! Changing strings in place: APPEND and SETRANGE, and their common part with the bitmaps.

use keyspace::{Db, Expiry, INLINE_MAX, Key, Str, Value, WrongType};
use std::sync::Arc;

use super::{OVERWRITE, STRING, check_length, put, row};
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::families::Run;
use crate::notify::class;
use crate::spec::{KeySpec, Row, Spec, flags::*, key_flags::*};

pub(crate) const ROWS: &[Row<Run>] = &[
    row(
        Spec {
            name: "append",
            arity: 3,
            flags: WRITE | DENYOOM | FAST,
            keys: &[KeySpec::one(1, RW | INSERT)],
            since: "2.0.0",
            complexity: "O(1). The amortized time complexity is O(1) assuming the appended value is small and the already \
                         present value is of any size, since the dynamic string library used by Redis will double the \
                         free space available on every reallocation.",
            summary: "Appends a string to the value of a key. Creates the key if it doesn't exist.",
            syntax: "key value",
            ..STRING
        },
        append,
    ),
    row(
        Spec {
            name: "setrange",
            arity: 4,
            flags: WRITE | DENYOOM,
            keys: &[KeySpec::one(1, RW | UPDATE)],
            since: "2.2.0",
            complexity: "O(1), not counting the time taken to copy the new string in place. Usually, this string is very \
                         small so the amortized complexity is O(1). Otherwise, complexity is O(M) with M being the length \
                         of the value argument.",
            summary: "Overwrites a part of a string value with another by an offset. Creates the key if it doesn't exist.",
            syntax: "key offset value",
            ..STRING
        },
        setrange,
    ),
];

/// Makes the string at least `len` bytes long, padded with zeros (from nothing, if the key is absent), and lets
/// `change` write in it. Its expiry stays, its encoding becomes "raw".
pub(super) fn in_place<R>(
    db: &mut Db<'_>,
    key: &Key<'_>,
    len: usize,
    change: impl FnOnce(&mut [u8]) -> R,
) -> Result<R, WrongType> {
    let present = db.peek(key).map(|entry| entry.string()).transpose()?;
    let (before, is_blob) = match present {
        None => (None, false),
        Some(text) => (Some(text.len()), matches!(text, Str::Blob(_))),
    };
    let total = before.unwrap_or(0).max(len);
    if is_blob || total > INLINE_MAX {
        return in_blob(db, key, before.is_some(), total, change);
    }
    if before == Some(total)
        && let Some(bytes) = db.inline_mut(key)
    {
        return Ok(change(bytes));
    }
    let mut bytes = Vec::with_capacity(total);
    if let Some(entry) = db.peek(key) {
        entry.string()?.with(|text| bytes.extend_from_slice(text));
    }
    bytes.resize(total, 0);
    let result = change(&mut bytes);
    db.set_string(key, &bytes, true, Expiry::Keep);
    Ok(result)
}

/// The same for a string that is, or becomes, too long for an entry.
fn in_blob<R>(
    db: &mut Db<'_>,
    key: &Key<'_>,
    present: bool,
    total: usize,
    change: impl FnOnce(&mut [u8]) -> R,
) -> Result<R, WrongType> {
    if present && let Some(mut blob) = db.blob_mut(key)? {
        let len = blob.len();
        match Arc::get_mut(&mut blob).filter(|own| total <= own.capacity() || total / 2 <= len) {
            Some(own) => own.resize(total, 0),
            // The system gives it zeroed, page by page as they are touched: a bit far out costs no time.
            None => {
                let mut bytes = vec![0; total];
                bytes[..len].copy_from_slice(&blob);
                *blob = Arc::new(bytes);
            }
        }
        let own: &mut Vec<u8> = Arc::make_mut(&mut blob);
        return Ok(change(own));
    }
    let mut bytes = vec![0; total];
    let result = change(&mut bytes);
    db.set_value(key, Value::Blob(Arc::new(bytes)), Expiry::Clear);
    Ok(result)
}

/// Writes `bytes` at `offset` and notes it; the caller has checked the type, and notifies.
pub(super) fn overwrite(ctx: &mut Ctx<'_>, key: &Key<'_>, offset: usize, bytes: &[u8]) -> Result<(), Error> {
    let end = offset + bytes.len();
    check_room(ctx, key, end)?;
    in_place(&mut ctx.db, key, end, |text| text[offset..end].copy_from_slice(bytes))?;
    ctx.effect(OVERWRITE, key, |w| {
        w.varint(offset as u64);
        w.bytes(bytes);
    });
    Ok(())
}

/// Checks that the system has memory for a change of the key's string up to `end`. The string is copied if it has to
/// grow, and if a reply, a checkpoint or the journal of a block shares it.
pub(super) fn check_room(ctx: &mut Ctx<'_>, key: &Key<'_>, end: usize) -> Result<(), Error> {
    if !headroom::is_limited() {
        return Ok(());
    }
    let (present, is_copied) = match ctx.db.peek(key).map(|entry| entry.string()).transpose()? {
        Some(Str::Blob(blob)) => (blob.len(), end > blob.capacity() || Arc::strong_count(blob) > 1),
        Some(text) => (text.len(), end > text.len()),
        None => (0, true),
    };
    let total = present.max(end);
    // A string that grows may get room to grow further.
    let bytes = if end > present { 2 * total } else { total };
    let is_too_long = end > present && total as u64 > headroom::largest_string();
    if is_too_long || is_copied && !headroom::has_room(bytes, total) { Err(Error::OOM) } else { Ok(()) }
}

fn append(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    let more = ctx.arg(2);
    let present = match ctx.db.peek(&key) {
        Some(entry) => Some(entry.string()?.len()),
        None => None,
    };
    match present {
        Some(len) => {
            check_length(ctx, len as u64, more.len() as u64)?;
            overwrite(ctx, &key, len, more)?;
        }
        None => put(ctx, &key, more, false, Expiry::Clear),
    }
    ctx.notify(class::STRING, "append", &key);
    ctx.out.count((present.unwrap_or(0) + more.len()) as u64);
    Ok(Outcome::Done)
}

fn setrange(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let offset = u64::try_from(ctx.int(2)?).map_err(|_| Error::new("ERR offset is out of range"))?;
    let key = ctx.key(1);
    let bytes = ctx.arg(3);
    let present = match ctx.db.peek(&key) {
        Some(entry) => entry.string()?.len() as u64,
        None => 0,
    };
    if bytes.is_empty() {
        ctx.out.count(present);
        return Ok(Outcome::Done);
    }
    check_length(ctx, offset, bytes.len() as u64)?;
    overwrite(ctx, &key, offset as usize, bytes)?;
    ctx.notify(class::STRING, "setrange", &key);
    ctx.out.count(present.max(offset + bytes.len() as u64));
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use keyspace::Str;

    use crate::testing::Bench;

    thread_local! {
        /// Bytes that are left, as far as this test knows: others run in the same process.
        static LEFT: Cell<i64> = const { Cell::new(i64::MAX) };
    }

    fn encoding(bench: &mut Bench, key: &[u8]) -> &'static str {
        bench.inspect(|db| db.peek(&db.key(key)).map_or("none", |entry| entry.encoding()))
    }

    #[test]
    fn appending_makes_strings_raw() {
        let mut bench = Bench::new();
        assert_eq!(bench.words("append k 1"), ":1\r\n");
        assert_eq!(encoding(&mut bench, b"k"), "int");
        assert_eq!(bench.words("append k 2"), ":2\r\n");
        assert_eq!(encoding(&mut bench, b"k"), "raw");
        assert_eq!(bench.words("get k"), "$2\r\n12\r\n");
        assert_eq!(bench.words("incr k"), ":13\r\n");
        assert_eq!(encoding(&mut bench, b"k"), "int");
        assert_eq!(bench.notified(), ["append k", "append k", "incrby k"]);
    }

    #[test]
    fn long_strings_grow() {
        let mut bench = Bench::new();
        let mut expected = Vec::new();
        for step in 0..40 {
            let piece = vec![b'a' + step; 1000];
            expected.extend_from_slice(&piece);
            assert_eq!(bench.run(&[b"append", b"k", &piece]), format!(":{}\r\n", expected.len()).as_bytes());
        }
        assert_eq!(bench.words("setrange k 39999 zz"), ":40001\r\n");
        expected.truncate(39_999);
        expected.extend_from_slice(b"zz");
        let reply = bench.run(&[b"get", b"k"]);
        assert!(reply.ends_with(b"zz\r\n") && reply.windows(expected.len()).any(|window| window == expected));
        let text = |entry: &keyspace::EntryRef<'_>| entry.string().unwrap().to_vec();
        assert_eq!(bench.replayed().image(text), bench.image(text));
    }

    #[test]
    fn ranges_are_padded() {
        let mut bench = Bench::new();
        assert_eq!(bench.run(&[b"setrange", b"k", b"0", b""]), b":0\r\n");
        assert_eq!(bench.words("exists k"), ":0\r\n");
        assert_eq!(bench.words("setrange k 1 foo"), ":4\r\n");
        assert_eq!(bench.words("get k"), "$4\r\n\0foo\r\n");
        bench.words("set n 1234 ex 5");
        assert_eq!(bench.run(&[b"setrange", b"n", b"0", b""]), b":4\r\n");
        assert_eq!(encoding(&mut bench, b"n"), "int");
        assert_eq!(bench.words("setrange n 1 3"), ":4\r\n");
        assert_eq!(encoding(&mut bench, b"n"), "raw");
        assert_eq!(bench.words("setrange n 5 2"), ":6\r\n");
        assert_eq!(bench.words("get n"), "$6\r\n1334\x002\r\n");
        let images = bench.image(|_| Vec::new());
        assert_eq!(images[1].1, Some(bench.now + 5000));
        assert_eq!(bench.words("setrange n -1 x"), "-ERR offset is out of range\r\n");
        for too_far in ["536870912", "9223372036854775807"] {
            let reply = bench.words(&format!("setrange n {too_far} x"));
            assert_eq!(reply, "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n");
        }
        bench.tunables.max_string = 8;
        let reply = bench.words("append n xxx");
        assert_eq!(reply, "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n");
        assert_eq!(bench.words("append n xx"), ":8\r\n");
    }

    /// A reply, a checkpoint and the journal of a block share it: without room, it is the copy that would end the
    /// process.
    #[test]
    fn a_long_string_that_others_have_as_well_is_copied_only_if_there_is_room() {
        const LEN: i64 = 1_000_000;
        const CHANGES: [&str; 4] = ["setrange k 5 yy", "setbit k 77 1", "bitfield k set u8 8 1", "append k x"];
        const OOM: &str = "-OOM the system's limit of this process's memory leaves no room for this\r\n";
        headroom::limit_resident(u64::MAX, 0);
        headroom::ask(headroom::Asked { left: Box::new(|| LEFT.get()), has_block: |_| true });
        let mut bench = Bench::new();
        assert_eq!(bench.words(&format!("setrange k {} x", LEN - 1)), format!(":{LEN}\r\n"));
        let shared = |bench: &mut Bench| {
            bench.inspect(|db| match db.peek(&db.key(b"k")).unwrap().string().unwrap() {
                Str::Blob(text) => text.clone(),
                _ => panic!("it is long"),
            })
        };
        let reply = shared(&mut bench);
        LEFT.set(LEN - 1);
        let before = bench.effects.dirty;
        for change in CHANGES {
            assert_eq!(bench.words(change), OOM, "{change}");
        }
        assert!(Arc::ptr_eq(&reply, &shared(&mut bench)) && bench.effects.dirty == before, "nothing has happened");
        LEFT.set(LEN);
        assert_eq!(bench.words(CHANGES[3]), OOM, "what grows needs more");
        assert_eq!(bench.words(CHANGES[0]), format!(":{LEN}\r\n"));
        assert_eq!((&reply[..8], &shared(&mut bench)[..8]), (&[0; 8][..], &b"\0\0\0\0\0yy\0"[..]));
        // It is nobody else's now: nothing is copied.
        LEFT.set(0);
        let own = Arc::as_ptr(&shared(&mut bench));
        for change in &CHANGES[..3] {
            assert!(!bench.words(change).starts_with('-'), "{change}");
        }
        assert_eq!(bench.words(CHANGES[3]), OOM);
        assert!(std::ptr::eq(own, Arc::as_ptr(&shared(&mut bench))));
    }
}
