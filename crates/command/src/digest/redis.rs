//! The digests of DEBUG DIGEST and DIGEST-VALUE in Redis: the same numbers, so that servers can be compared.
//!
//! They cover less than [`super::Digest`]: that there is a time of expiry, not which; of a stream only its entries.

use keyspace::{Db, EntryRef, Kind};
use object::stream::Id;
use object::{Hash, List, Set, Stream, ZSet, sha1};

use super::each_entry;

/// A digest that grows.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct RedisDigest([u8; 20]);

impl std::fmt::Display for RedisDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(std::str::from_utf8(&sha1::digits(self.0)).unwrap_or_default())
    }
}

impl RedisDigest {
    /// Adds a part whose place does not matter.
    fn add(&mut self, part: &[u8]) {
        self.0.iter_mut().zip(sha1::digest(part)).for_each(|(byte, other)| *byte ^= other);
    }

    /// Adds the next part of a sequence.
    fn next(&mut self, part: &[u8]) {
        self.add(part);
        self.0 = sha1::digest(&self.0);
    }

    /// Of an entry's value, and of whether it expires.
    pub(crate) fn of_value(entry: EntryRef<'_>) -> Self {
        let mut digest = Self::default();
        digest.value(entry);
        digest
    }

    /// Of the keys of every database, all of which are held.
    pub(crate) fn of_everything(db: &mut Db<'_>) -> Self {
        let (home, mut all) = (db.logical(), Self::default());
        for number in 0..db.keyspace().databases() as u16 {
            db.switch(number);
            let mut is_empty = true;
            each_entry(db, |entry| {
                if std::mem::take(&mut is_empty) {
                    all.next(&u32::from(number).to_be_bytes());
                }
                let mut digest = Self::default();
                digest.next(entry.key());
                digest.value(entry);
                all.add(&digest.0);
            });
        }
        db.switch(home);
        all
    }

    fn value(&mut self, entry: EntryRef<'_>) {
        let kind: u32 = match entry.kind() {
            Kind::Int | Kind::Short | Kind::Raw | Kind::Blob => 0,
            Kind::List => 1,
            Kind::Set => 2,
            Kind::ZSet => 3,
            Kind::Hash => 4,
            Kind::Stream => 6,
        };
        self.next(&kind.to_be_bytes());
        // The kind decides which of these there is.
        let _ = match kind {
            0 => entry.string().map(|text| text.with(|bytes| self.next(bytes))),
            1 => entry.collection::<List>().map(|list| self.list(list)),
            2 => entry.collection::<Set>().map(|set| self.set(set)),
            3 => entry.collection::<ZSet>().map(|zset| self.zset(zset)),
            4 => entry.collection::<Hash>().map(|hash| self.hash(hash)),
            _ => entry.collection::<Stream>().map(|stream| self.stream(stream)),
        };
        if entry.expiry().is_some() {
            self.add(b"!!expire!!");
        }
    }

    fn list(&mut self, list: &List) {
        let mut digits = itoa::Buffer::new();
        list.iter().for_each(|elem| self.next(elem.as_bytes(&mut digits)));
    }

    fn set(&mut self, set: &Set) {
        let mut digits = itoa::Buffer::new();
        set.iter().for_each(|elem| self.add(elem.as_bytes(&mut digits)));
    }

    fn zset(&mut self, zset: &ZSet) {
        let mut text = Vec::new();
        for (member, score) in zset.iter(0..zset.len(), false) {
            text.clear();
            resp::append_floating(&mut text, score);
            let mut part = Self::default();
            part.next(member);
            part.next(&text);
            self.add(&part.0);
        }
    }

    fn hash(&mut self, hash: &Hash) {
        let mut digits = itoa::Buffer::new();
        for field in hash.fields() {
            let mut part = Self::default();
            part.next(field.name.as_bytes(&mut digits));
            part.next(field.value.as_bytes(&mut digits));
            if field.expiry.is_some() {
                part.add(b"!!hexpire!!");
            }
            self.add(&part.0);
        }
    }

    fn stream(&mut self, stream: &Stream) {
        let mut digits = itoa::Buffer::new();
        for entry in stream.log.range(Id::MIN, Id::MAX) {
            self.next(format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
            for (name, value) in entry.pairs() {
                self.next(name.as_bytes(&mut digits));
                self.next(value.as_bytes(&mut digits));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    /// The digests are those that Redis 8.8 answers.
    #[test]
    fn digests_are_those_of_redis() {
        let mut bench = Bench::new();
        let far = bench.now.0 + 9_999_999;
        for line in [
            "set int 12345",
            "set text hello",
            "set short x EX 5000",
            "rpush list 1 x -7 long-element",
            "sadd ints 3 1 2",
            "sadd texts a b 17",
            "zadd zset 1 one 1.5 half -inf low 1e17 big 3.0000000000000004e-7 tiny",
            "hset hash f 1 g v",
            "hset timed f 1 g v",
            &format!("hpexpireat timed {far} FIELDS 1 f"),
            "xadd stream 1-1 f 1 g v",
            "xadd stream 2-5 h w",
        ] {
            let reply = bench.words(line);
            assert!(!reply.starts_with('-'), "{line}: {reply}");
        }
        for (key, digest) in [
            ("int", "e1cf90774e995ae03de66e8109dc5cb9d9c2dc83"),
            ("text", "36b23a1456b2dce2c3ed252c456761301dba8060"),
            ("short", "0745672cb1bf060476eedeb8a28f5ffe1ff5a2be"),
            ("list", "f249936f418a040645c37d29a43e6abaf115ea73"),
            ("ints", "2a462a3f51a1db89738ebbeef0c47ce1bbc85246"),
            ("texts", "da8febe0eef810e442dfab4099e326584070379a"),
            ("zset", "268cb820250a677d3f22f29dff2b9462f9dd6eae"),
            ("hash", "f22cfe6ed63c6e0be297a476163cfb838ad489f4"),
            ("timed", "82b7d258e4e3a812f6e4cda2aa4e2322ce05a16b"),
            ("stream", "1e06d5d7a2a85bd0135d73b16cc904a4e102872d"),
            ("none", "0000000000000000000000000000000000000000"),
        ] {
            assert_eq!(bench.words(&format!("debug digest-value {key}")), format!("*1\r\n+{digest}\r\n"), "{key}");
        }
        bench.db = 3;
        bench.words("set elsewhere 1");
        assert_eq!(bench.words("debug digest"), "+fccf37ca870f60db5cb5e507e4a004de1d2a62df\r\n");
    }
}
