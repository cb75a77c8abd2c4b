//! Passing over values: an RDB file does not say how long a value is, so its reader walks over the parts of each.
//!
//! A walk knows lengths and strings, and nothing of what a string holds. [`super::decode`] checks that.

use super::{Dialect, kind};
use crate::Corrupt;

/// Bytes that come one after another, from memory or from a file.
pub trait Source {
    /// The possible faults.
    type Error: From<Corrupt>;

    /// The next `N` bytes.
    ///
    /// # Errors
    ///
    /// There are too few bytes.
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Self::Error>;

    /// Passes over the next `count` bytes.
    ///
    /// # Errors
    ///
    /// There are too few bytes.
    fn pass(&mut self, count: u64) -> Result<(), Self::Error>;
}

/// The bytes before a string, or in the place of a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// A length, or a count.
    Length(u64),
    /// A string that is encoded in this way (`RDB_ENC_*`).
    Encoded(u8),
}

/// A value that some servers have and this one does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// A value of the module with this type name.
    Module([u8; 9]),
    /// An array (Redis 8.8).
    Array,
    /// The state of a rate limiter (`GCRA`, Redis 8.8 where it is built in).
    RateLimiter,
}

const MODULE_END: u64 = 0;

/// Reads a prefix.
///
/// # Errors
///
/// The source has too few bytes, or wrong ones.
#[inline]
pub fn prefix<S: Source>(source: &mut S) -> Result<Prefix, S::Error> {
    let [first] = source.array()?;
    Ok(match first {
        0x00..=0x3f => Prefix::Length(u64::from(first)),
        0x40..=0x7f => {
            let [low] = source.array()?;
            Prefix::Length(u64::from(first & 0x3f) << 8 | u64::from(low))
        }
        0x80 => Prefix::Length(u64::from(u32::from_be_bytes(source.array()?))),
        0x81 => Prefix::Length(u64::from_be_bytes(source.array()?)),
        0xc0..=0xff => Prefix::Encoded(first & 0x3f),
        _ => return Err(Corrupt("unknown length encoding").into()),
    })
}

/// Reads a length or a count.
///
/// # Errors
///
/// The source has too few bytes, or wrong ones.
#[inline]
pub fn length<S: Source>(source: &mut S) -> Result<u64, S::Error> {
    match prefix(source)? {
        Prefix::Length(length) => Ok(length),
        Prefix::Encoded(_) => Err(Corrupt("an encoded string where a length belongs").into()),
    }
}

/// Passes over a string.
///
/// # Errors
///
/// The source has too few bytes, or wrong ones.
pub fn pass_string<S: Source>(source: &mut S) -> Result<(), S::Error> {
    let count = match prefix(source)? {
        Prefix::Length(length) => length,
        Prefix::Encoded(0) => 1,
        Prefix::Encoded(1) => 2,
        Prefix::Encoded(2) => 4,
        Prefix::Encoded(3) => {
            let compressed = length(source)?;
            length(source)?;
            compressed
        }
        Prefix::Encoded(_) => return Err(Corrupt("unknown string encoding").into()),
    };
    source.pass(count)
}

/// Passes over what follows the type byte `kind`; names it if it is a value that this server does not have.
///
/// # Errors
///
/// The source has too few bytes, or wrong ones.
pub fn pass_value<S: Source>(kind: u8, dialect: Dialect, source: &mut S) -> Result<Option<Foreign>, S::Error> {
    if dialect == Dialect::Valkey && kind > kind::VALKEY_HASH_2 {
        return Err(Corrupt("unknown type").into());
    }
    match kind {
        kind::VALKEY_HASH_2 if dialect == Dialect::Valkey => {
            each(source, |source| strings(source, 2).and_then(|()| source.pass(8)))
        }
        kind::STRING
        | kind::HASH_ZIPMAP
        | kind::LIST_ZIPLIST
        | kind::SET_INTSET
        | kind::ZSET_ZIPLIST
        | kind::HASH_ZIPLIST
        | kind::HASH_LISTPACK
        | kind::ZSET_LISTPACK
        | kind::SET_LISTPACK
        | kind::HASH_LISTPACK_EX_RC => pass_string(source),
        kind::LIST | kind::SET | kind::LIST_QUICKLIST => each(source, pass_string),
        kind::ZSET => each(source, |source| pass_string(source).and_then(|()| pass_text_double(source))),
        kind::ZSET_2 => each(source, |source| pass_string(source).and_then(|()| source.pass(8))),
        kind::HASH => each(source, |source| strings(source, 2)),
        kind::LIST_QUICKLIST_2 => each(source, |source| lengths(source, 1).and_then(|()| pass_string(source))),
        kind::HASH_METADATA_RC => pass_hash_metadata(source),
        kind::HASH_METADATA => source.pass(8).and_then(|()| pass_hash_metadata(source)),
        kind::HASH_LISTPACK_EX => source.pass(8).and_then(|()| pass_string(source)),
        kind::STREAM_LISTPACKS
        | kind::STREAM_LISTPACKS_2
        | kind::STREAM_LISTPACKS_3
        | kind::STREAM_LISTPACKS_4
        | kind::STREAM_LISTPACKS_5 => pass_stream(kind, source),
        kind::MODULE_PRE_GA => Err(Corrupt("a module's value in the form of a pre-release").into()),
        kind::MODULE_2 => {
            let name = module_name(length(source)?);
            pass_module_parts(source)?;
            return Ok(Some(Foreign::Module(name)));
        }
        kind::ARRAY => {
            pass_array(source)?;
            return Ok(Some(Foreign::Array));
        }
        kind::RATE_LIMITER => {
            length(source)?;
            return Ok(Some(Foreign::RateLimiter));
        }
        _ => Err(Corrupt("unknown type").into()),
    }?;
    Ok(None)
}

/// Calls `pass` as often as a count says.
fn each<S: Source>(source: &mut S, mut pass: impl FnMut(&mut S) -> Result<(), S::Error>) -> Result<(), S::Error> {
    for _ in 0..length(source)? {
        pass(source)?;
    }
    Ok(())
}

fn strings<S: Source>(source: &mut S, count: usize) -> Result<(), S::Error> {
    (0..count).try_for_each(|_| pass_string(source))
}

fn lengths<S: Source>(source: &mut S, count: usize) -> Result<(), S::Error> {
    (0..count).try_for_each(|_| length(source).map(|_| ()))
}

fn pass_text_double<S: Source>(source: &mut S) -> Result<(), S::Error> {
    match source.array()? {
        [253..=255] => Ok(()),
        [count] => source.pass(u64::from(count)),
    }
}

fn pass_hash_metadata<S: Source>(source: &mut S) -> Result<(), S::Error> {
    each(source, |source| lengths(source, 1).and_then(|()| strings(source, 2)))
}

fn pass_stream<S: Source>(kind: u8, source: &mut S) -> Result<(), S::Error> {
    const ID: u64 = 16;
    const TIME: u64 = 8;
    let first = kind == kind::STREAM_LISTPACKS;
    let times = if matches!(kind, kind::STREAM_LISTPACKS | kind::STREAM_LISTPACKS_2) { TIME } else { 2 * TIME };
    each(source, |source| strings(source, 2))?;
    lengths(source, if first { 3 } else { 8 })?;
    each(source, |source| {
        pass_string(source)?;
        lengths(source, if first { 2 } else { 3 })?;
        each(source, |source| source.pass(ID + TIME).and_then(|()| lengths(source, 1)))?;
        each(source, |source| {
            pass_string(source)?;
            source.pass(times)?;
            each(source, |source| source.pass(ID))
        })?;
        if kind == kind::STREAM_LISTPACKS_5 { each(source, |source| source.pass(ID)) } else { Ok(()) }
    })?;
    if matches!(kind, kind::STREAM_LISTPACKS_4 | kind::STREAM_LISTPACKS_5) {
        lengths(source, 2)?;
        each(source, |source| {
            pass_string(source)?;
            each(source, |source| pass_string(source).and_then(|()| lengths(source, 2)))
        })?;
        lengths(source, 2)?;
    }
    Ok(())
}

fn pass_array<S: Source>(source: &mut S) -> Result<(), S::Error> {
    let count = length(source)?;
    match length(source)? {
        0 => {}
        1 => lengths(source, 1)?,
        _ => return Err(Corrupt("insertion index of an array").into()),
    }
    for _ in 0..count {
        lengths(source, 1)?;
        match length(source)? {
            0 | 3 => pass_string(source)?,
            1 | 2 => source.pass(8)?,
            _ => return Err(Corrupt("element of an array").into()),
        }
    }
    Ok(())
}

/// Passes over the parts of a module's value, up to the mark of its end.
///
/// # Errors
///
/// The source has too few bytes, or wrong ones.
pub fn pass_module_parts<S: Source>(source: &mut S) -> Result<(), S::Error> {
    loop {
        match length(source)? {
            MODULE_END => return Ok(()),
            1 | 2 => lengths(source, 1)?,
            3 => source.pass(4)?,
            4 => source.pass(8)?,
            5 => pass_string(source)?,
            _ => return Err(Corrupt("part of a module's value").into()),
        }
    }
}

/// The characters of module names, six bits each.
const CHARACTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The type name in a module's number: nine characters above its version of ten bits.
pub fn module_name(number: u64) -> [u8; 9] {
    std::array::from_fn(|at| CHARACTERS[(number >> (10 + 6 * (8 - at))) as usize & 63])
}

/// The name of a class of a key's metadata: four characters above its version and its flags, of eight bits together.
pub fn class_name(word: u32) -> [u8; 4] {
    std::array::from_fn(|at| CHARACTERS[(word >> (8 + 6 * (3 - at))) as usize & 63])
}
