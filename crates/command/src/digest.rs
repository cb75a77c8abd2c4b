//! A digest of databases: equal for equal contents, whatever the order, the encoding or the history.
//!
//! DEBUG DIGEST EXACT shows it, and tests compare by it. A value's digest covers its type and its elements (positions in a
//! list, scores, fields with their expiry). A key's adds its name and expiry; a database's is the sum over its keys. It
//! detects accidents, not deliberate collisions.

mod redis;

use std::hash::{BuildHasher, Hasher};
use std::ops::AddAssign;

use clocks::UnixMs;
use keyspace::{Db, EntryRef, Kind, SLOTS};
use object::block::Elem;
use object::stream::Id;
use object::{Hash, List, Set, Stream, ZSet};

pub(crate) use redis::RedisDigest;

/// 160 bits. The digest of nothing is 0.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Digest([u64; 3]);

impl AddAssign for Digest {
    fn add_assign(&mut self, other: Digest) {
        for (a, b) in self.0.iter_mut().zip(other.0) {
            *a = a.wrapping_add(b);
        }
    }
}

impl std::fmt::Display for Digest {
    /// 40 hexadecimal digits, as DEBUG DIGEST EXACT answers.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b, c] = self.0;
        write!(f, "{a:016x}{b:016x}{:08x}", c >> 32)
    }
}

impl Digest {
    /// The digest of the bytes that `feed` writes, in order.
    fn of(feed: impl Fn(&mut Parts<foldhash::quality::FoldHasher<'_>>)) -> Digest {
        Digest([1, 2, 3].map(|seed| {
            let state = foldhash::quality::FixedState::with_seed(seed);
            let mut parts = Parts(state.build_hasher());
            feed(&mut parts);
            parts.0.finish()
        }))
    }

    /// Of an entry's value, without its key: type and elements. Fields that have expired by `now`
    /// are left out; 0 leaves none out.
    pub fn of_value(entry: EntryRef<'_>, now: UnixMs) -> Digest {
        let mut digest = Digest::of(|p| p.bytes(entry.kind().type_name().as_bytes()));
        let sum = match entry.kind() {
            Kind::Int | Kind::Short | Kind::Raw | Kind::Blob => entry.string().map(|s| s.with(of_bytes)),
            Kind::List => entry.collection::<List>().map(of_list),
            Kind::Set => entry.collection::<Set>().map(of_set),
            Kind::ZSet => entry.collection::<ZSet>().map(of_zset),
            Kind::Hash => entry.collection::<Hash>().map(|hash| of_hash(hash, now)),
            Kind::Stream => entry.collection::<Stream>().map(of_stream),
        };
        digest += sum.unwrap_or_default();
        digest
    }

    /// Of an entry: key, expiry and value. `now` as for [`Self::of_value`]; the digest of an entry without anything
    /// left is 0.
    pub fn of_entry(entry: EntryRef<'_>, now: UnixMs) -> Digest {
        let gone = entry.expired(now) || entry.collection::<Hash>().is_ok_and(|hash| hash.live_len(now) == 0);
        if gone {
            return Digest::default();
        }
        let value = Digest::of_value(entry, now);
        Digest::of(|p| {
            p.bytes(entry.key());
            p.number(UnixMs::to_wire(entry.expiry()));
            value.0.into_iter().for_each(|part| p.number(part));
        })
    }

    /// Of the selected database, all of which is held. `now` as for [`Self::of_entry`]. The time grows with the data.
    pub fn of_database(db: &Db<'_>, now: UnixMs) -> Digest {
        let mut digest = Digest::default();
        each_entry(db, |entry| digest += Digest::of_entry(entry, now));
        digest
    }

    /// Of every database; all of them are held. A key in another database gives another digest.
    pub fn of_everything(db: &mut Db<'_>, now: UnixMs) -> Digest {
        let home = db.logical();
        let mut digest = Digest::default();
        for number in 0..db.keyspace().databases() as u16 {
            db.switch(number);
            let part = Digest::of_database(db, now);
            if part != Digest::default() {
                digest += Digest::of(|p| {
                    p.number(number.into());
                    part.0.into_iter().for_each(|word| p.number(word));
                });
            }
        }
        db.switch(home);
        digest
    }
}

/// Every entry of the selected database, all of which is held.
fn each_entry(db: &Db<'_>, mut f: impl FnMut(EntryRef<'_>)) {
    let mut slot = db.keyspace().next_occupied(0);
    while let Some(at) = slot {
        let mut from = Some(0);
        while let Some(hash) = from {
            from = db.walk(at, hash, &mut f);
        }
        slot = if usize::from(at) + 1 < SLOTS { db.keyspace().next_occupied(at + 1) } else { None };
    }
}

/// Feeds a hasher so that different sequences of parts are different bytes.
struct Parts<H: Hasher>(H);

impl<H: Hasher> Parts<H> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.write_u64(bytes.len() as u64);
        self.0.write(bytes);
    }

    fn number(&mut self, n: u64) {
        self.0.write_u64(n);
    }

    fn id(&mut self, id: Id) {
        self.number(id.ms);
        self.number(id.seq);
    }

    fn elem(&mut self, elem: Elem<'_>) {
        self.bytes(elem.as_bytes(&mut itoa::Buffer::new()));
    }
}

fn of_bytes(bytes: &[u8]) -> Digest {
    Digest::of(|p| p.bytes(bytes))
}

fn sum(parts: impl Iterator<Item = Digest>) -> Digest {
    let mut total = Digest::default();
    parts.for_each(|part| total += part);
    total
}

fn of_list(list: &List) -> Digest {
    sum(list.iter().enumerate().map(|(i, elem)| {
        Digest::of(|p| {
            p.number(i as u64);
            p.elem(elem);
        })
    }))
}

fn of_set(set: &Set) -> Digest {
    sum(set.iter().map(|elem| Digest::of(|p| p.elem(elem))))
}

fn of_zset(zset: &ZSet) -> Digest {
    sum(zset.iter(0..zset.len(), false).map(|(member, score)| {
        Digest::of(|p| {
            p.bytes(member);
            p.number(score.to_bits());
        })
    }))
}

fn of_hash(hash: &Hash, now: UnixMs) -> Digest {
    sum(hash.fields().filter(|field| !field.expired(now)).map(|field| {
        Digest::of(|p| {
            p.elem(field.name);
            p.elem(field.value);
            p.number(UnixMs::to_wire(field.expiry));
        })
    }))
}

/// The times when consumers were seen are left out: they change with every attempt to read.
fn of_stream(stream: &Stream) -> Digest {
    let marks = stream.log.marks();
    let mut digest = Digest::of(|p| {
        [marks.last, marks.max_deleted].into_iter().for_each(|mark| p.id(mark));
        p.number(marks.added);
    });
    digest += sum(stream.log.range(Id::MIN, Id::MAX).map(|entry| {
        Digest::of(|p| {
            p.id(entry.id);
            entry.pairs().for_each(|(name, value)| {
                p.elem(name);
                p.elem(value);
            });
        })
    }));
    for (name, group) in stream.groups.iter() {
        digest += Digest::of(|p| {
            p.bytes(name);
            p.id(group.last);
            p.number(group.entries_read as u64);
        });
        digest += sum(group.consumers().map(|(_, consumer)| {
            Digest::of(|p| {
                p.bytes(name);
                p.bytes(&consumer.name);
            })
        }));
        // The order of entries without an owner decides which consumer gets which.
        digest += sum(group.released().iter().zip(0..).map(|(delivery, place)| {
            Digest::of(|p| {
                p.bytes(name);
                p.id(delivery.id);
                p.number(place);
            })
        }));
        digest += sum(group.pending_from(Id::MIN).map(|delivery| {
            Digest::of(|p| {
                p.bytes(name);
                p.id(delivery.id);
                p.bytes(group.name(delivery.consumer));
                p.number(delivery.time as u64);
                p.number(delivery.count);
            })
        }));
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    fn digest(bench: &mut Bench) -> Digest {
        bench.inspect(|db| Digest::of_database(db, UnixMs::ZERO))
    }

    #[test]
    fn nothing_is_zero() {
        assert_eq!(digest(&mut Bench::new()).to_string(), "0".repeat(40));
    }

    #[test]
    fn order_and_encoding_do_not_matter() {
        let (mut a, mut b) = (Bench::new(), Bench::new());
        for line in ["set x 10", "rpush l a 1 b", "hset h f 1 g 2"] {
            a.words(line);
        }
        for line in ["hset h g 2", "rpush l z", "hset h f 1", "rpush l a 1 b", "lpop l", "set x 1", "append x 0"] {
            b.words(line);
        }
        assert_eq!(digest(&mut a), digest(&mut b));
    }

    #[test]
    fn everything_else_does() {
        let mut seen = Vec::new();
        for lines in [
            &["set x 1"][..],
            &["set y 1"],
            &["set x 2"],
            &["rpush x 1"],
            &["rpush x 1 2"],
            &["rpush x 2 1"],
            &["hset x 1 2"],
            &["hset x 2 1"],
            &["set x 1", "pexpire x 100"],
            &["set x 1", "pexpire x 101"],
            &["set x 1", "set y 1"],
        ] {
            let mut bench = Bench::new();
            for line in lines {
                bench.words(line);
            }
            seen.push(digest(&mut bench).to_string());
        }
        let count = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), count);
    }
}
