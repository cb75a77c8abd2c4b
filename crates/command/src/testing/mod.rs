//! A bench for handlers: one database, one thread, no engine.
//!
//! It runs a command as the engine would (expired keys deleted first, every key latched), collects its effects, and can
//! replay all of them into an empty database to compare.

mod history;
mod logged;
mod replay;

use clocks::UnixMs;
use keyspace::access::{AccessClock, Tracks};
use keyspace::{Db, EntryRef, Held, Keyspace, Local, Need, SIZED_TYPES, SIZES, SLOTS, Version};
use resp::{Batch, Protocol, Reply};

use crate::effects::{self, op};
use crate::families::{FAMILIES, Reach, Run};
use crate::spec::{KeyAt, Row};
use crate::{Aside, Ctx, Digest, Effects, Events, Outcome, Position, Prepared, Rng, Tunables, Walk};

/// See the module's text.
pub struct Bench {
    keyspace: Keyspace,
    local: Local,
    clock: AccessClock,
    /// The time that commands see.
    pub now: UnixMs,
    /// The selected database.
    pub db: u16,
    /// RESP2 unless set.
    pub protocol: Protocol,
    /// The settings that commands see.
    pub tunables: Tunables,
    /// Everything effects and their count.
    pub effects: Effects,
    /// Every notification.
    pub events: Events,
    /// True if these tell of keys that are new or missed.
    pub tells_sightings: bool,
    /// True if what takes long is done aside.
    pub patient: bool,
    rng: Rng,
    version: Version,
}

/// Compares how large values are said to be with what is there.
fn check_sizes(db: &Db<'_>, number: u16) {
    let mut there = [[0; SIZES]; SIZED_TYPES.len()];
    each_entry(db, |entry| {
        let size = entry.string().map_or_else(|_| entry.elements(), |text| text.len() as u64);
        let bucket = (0..).find(|bucket| size < 1 << bucket).expect("no value is that large");
        if let Some(row) = SIZED_TYPES.iter().position(|name| *name == entry.kind().type_name()) {
            there[row][bucket] += 1;
        }
    });
    assert_eq!(db.keyspace().sizes(number), there, "sizes in database {number}");
}

impl Bench {
    /// An empty database with Redis's default settings, on 2001-09-09.
    pub fn new() -> Self {
        let keyspace = Keyspace::new(1, 16, 7);
        let local = keyspace.local(0);
        let mut clock = AccessClock::new(7);
        clock.set(UnixMs(1_000_000_000_000), Tracks::Use, 10, 1);
        Self {
            keyspace,
            local,
            clock,
            now: UnixMs(1_000_000_000_000),
            db: 0,
            protocol: Protocol::Resp2,
            tunables: Tunables { max_string: 512 << 20, databases: 16, shares_integers: true, ..Tunables::default() },
            effects: Effects { recording: true, ..Effects::default() },
            events: Events { wanted: u32::MAX, list: Vec::new() },
            tells_sightings: false,
            patient: false,
            rng: Rng::new(7),
            version: Version::ZERO,
        }
    }

    /// Runs a command given as words and returns its reply, undecoded.
    pub fn words(&mut self, line: &str) -> String {
        let words: Vec<&[u8]> = line.split_ascii_whitespace().map(str::as_bytes).collect();
        String::from_utf8_lossy(&self.run(&words)).into_owned()
    }

    /// Runs a command and returns its reply, undecoded; what blocks replies nothing.
    pub fn run(&mut self, args: &[&[u8]]) -> Vec<u8> {
        let (mut prepared, mut attempts) = (None, 0);
        loop {
            match self.attempt(args, prepared.take(), attempts) {
                Ok(reply) => return reply,
                Err(work) => prepared = Some(Box::new(work.run())),
            }
            attempts += 1;
        }
    }

    /// Runs a command, or has it hand out work to be done aside before.
    fn attempt(
        &mut self,
        args: &[&[u8]],
        prepared: Option<Box<Prepared>>,
        attempts: u32,
    ) -> Result<Vec<u8>, Box<Aside>> {
        let row = row_of(args);
        let mut batch = Batch::new();
        assert!(batch.push_copy(args.iter().copied()));
        let args = batch.args(0, &[]);
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, self.protocol);
        if !row.spec.accepts(args.len()) {
            reply.error(crate::Error::arity(row.spec.name).as_bytes());
            return Ok(out);
        }
        let mut keys = Vec::new();
        row.spec.keys_of(args, &mut keys);
        self.version.0 += 1;
        self.local.note_sightings(self.tells_sightings, self.tells_sightings);
        let held = match row.run {
            Run::Keyed(_) => self.hold_keys(args, &keys),
            Run::KeyedOrWhole(_, reach) if reach(args) != Reach::Everything => self.hold_keys(args, &keys),
            _ => self.hold(),
        };
        self.delete_expired(&held, args, &keys);
        let mut ctx = Ctx {
            args,
            db: Db::new(&self.keyspace, &held, &mut self.local, &self.clock, self.db, self.version),
            out: reply,
            fx: &mut self.effects,
            events: &mut self.events,
            now: self.now,
            rng: &mut self.rng,
            tunables: &self.tunables,
            scan_end: keyspace::SLOTS as u16,
            only_reads: false,
            in_script: false,
            first: None,
            // As the engine's patience.
            patient: self.patient && attempts < 4,
            prepared,
        };
        let (start, mut aside) = (ctx.out.position(), None);
        let outcome = match row.run {
            Run::Keyed(run) | Run::KeyedOrWhole(run, _) | Run::Whole(run) => run(&mut ctx),
            Run::Walk(begin) => walk(&mut ctx, begin),
            Run::Container => Err(crate::Error::new("ERR unknown subcommand")),
        };
        match outcome {
            Ok(Outcome::Done) => {}
            Ok(Outcome::Aside(work)) => {
                assert!(ctx.out.since(start).is_empty(), "nothing is answered yet");
                aside = Some(work);
            }
            Ok(Outcome::Load(keys)) => panic!("everything is in memory, {keys:?} too"),
            Ok(Outcome::Rest(rest)) => rest.finish(&mut ctx.out),
            Ok(Outcome::Block(_)) => ctx.out.rewind(start),
            Err(error) => {
                ctx.out.rewind(start);
                ctx.out.error(error.as_bytes());
            }
        }
        if let Some(barrier) = self.effects.barrier.take()
            && let Some(mut reclaim) = barrier.carry_out(&self.keyspace, &held, &mut self.local)
        {
            while !reclaim.step(&mut self.local, 100) {}
        }
        self.events.tell(self.local.take_sightings());
        self.local.publish_counts();
        self.keyspace.release(held, |_| {});
        aside.map_or(Ok(out), Err)
    }

    /// Runs a query on the database.
    pub fn inspect<R>(&mut self, f: impl FnOnce(&Db<'_>) -> R) -> R {
        let held = self.hold();
        let result = f(&Db::new(&self.keyspace, &held, &mut self.local, &self.clock, self.db, self.version));
        self.local.publish_counts();
        self.keyspace.release(held, |_| {});
        result
    }

    /// Does something to a key outside of any command, as the engine's sweeps do.
    pub fn sweep<R>(&mut self, key: &str, f: impl FnOnce(&mut Db<'_>, &keyspace::Key<'_>, &mut Effects) -> R) -> R {
        let held = self.hold();
        self.version.0 += 1;
        let mut db = Db::new(&self.keyspace, &held, &mut self.local, &self.clock, 0, self.version);
        let key = db.key(key.as_bytes());
        let result = f(&mut db, &key, &mut self.effects);
        self.local.publish_counts();
        self.keyspace.release(held, |_| {});
        result
    }

    /// Names of the notifications since the last call, with their keys.
    pub fn notified(&mut self) -> Vec<String> {
        self.events
            .list
            .drain(..)
            .map(|event| format!("{} {}", event.name, String::from_utf8_lossy(&event.key)))
            .collect()
    }

    /// Digest of all databases without what has expired.
    pub fn digest_alive(&mut self) -> Digest {
        let now = self.now;
        self.inspect_occupied(|db| Digest::of_everything(db, now))
    }

    /// The contents of all databases, expired keys included: for each key the database, name, expiry, and digest of the
    /// value.
    pub fn contents(&mut self) -> Vec<(u16, String, Option<UnixMs>, String)> {
        let mut contents = Vec::new();
        self.inspect_occupied(|db| {
            for number in 0..db.keyspace().databases() as u16 {
                db.switch(number);
                each_entry(db, |entry| {
                    let key = entry.key().escape_ascii().to_string();
                    let digest = Digest::of_value(entry, UnixMs(0)).to_string();
                    contents.push((number, key, entry.expiry(), format!("{} {digest}", entry.kind().type_name())));
                });
            }
        });
        contents.sort();
        contents
    }

    /// Compares the counters of every database with what is there.
    pub fn check_counts(&mut self) {
        self.inspect_occupied(|db| {
            for number in 0..db.keyspace().databases() as u16 {
                db.switch(number);
                let (mut keys, mut expiring, mut fields_expiring) = (0, 0, 0);
                each_entry(db, |entry| {
                    keys += 1;
                    expiring += u64::from(entry.expiry().is_some());
                    let hash = entry.collection::<object::Hash>().ok();
                    fields_expiring += u64::from(hash.and_then(object::Hash::next_expiry).is_some());
                });
                assert_eq!(db.keyspace().len(number), keys, "keys of database {number}");
                assert_eq!(db.keyspace().expires(number), expiring, "keys with an expiry of database {number}");
                let counted = db.keyspace().field_expires(number);
                assert_eq!(counted, fields_expiring, "hashes with fields that expire of database {number}");
                check_sizes(db, number);
            }
        });
    }

    fn inspect_occupied<R>(&mut self, f: impl FnOnce(&mut Db<'_>) -> R) -> R {
        let mut slots = smallvec::SmallVec::new();
        let mut at = self.keyspace.next_occupied(0);
        while let Some(slot) = at {
            slots.push(slot);
            at = self.keyspace.next_occupied(slot + 1);
        }
        let held = self.keyspace.try_acquire(&Need::Slots(slots), |_| {}).expect("nobody else is there");
        let result = f(&mut Db::new(&self.keyspace, &held, &mut self.local, &self.clock, self.db, self.version));
        self.local.publish_counts();
        self.keyspace.release(held, |_| {});
        result
    }

    /// Everything in the database in a form that can be compared: key, expiry, encoding-independent contents.
    pub fn image(
        &mut self,
        contents: impl Fn(&keyspace::EntryRef<'_>) -> Vec<u8>,
    ) -> Vec<(Vec<u8>, Option<UnixMs>, Vec<u8>)> {
        let mut image = Vec::new();
        self.inspect(|db| {
            for slot in 0..SLOTS as u16 {
                let mut at = Some(0);
                while let Some(from) = at {
                    at = db.walk(slot, from, |entry| {
                        image.push((entry.key().to_vec(), entry.expiry(), contents(&entry)));
                    });
                }
            }
        });
        image.sort();
        image
    }

    /// Another bench, filled by replaying this one's effects.
    pub fn replayed(&self) -> Bench {
        let mut other = Bench::new();
        let held = other.hold();
        let mut encoded = Vec::new();
        effects::write_with_images(&self.effects.encoded, &self.effects.late, &mut encoded);
        for effect in effects::decode(&encoded) {
            let mut effect = effect.expect("our own encoding");
            if let Some(barrier) = effect.barrier().expect("our own encoding") {
                if let Some(mut reclaim) = barrier.carry_out(&other.keyspace, &held, &mut other.local) {
                    while !reclaim.step(&mut other.local, 100) {}
                }
                continue;
            }
            let mut db = Db::new(&other.keyspace, &held, &mut other.local, &other.clock, effect.db, Version(1));
            effects::replay(&mut effect, &mut db, &self.tunables.limits).expect("our own effect");
        }
        other.local.publish_counts();
        other.keyspace.release(held, |_| {});
        other
    }

    /// Applies effects, which may be damaged, up to the first that fails.
    pub fn replay(&mut self, encoded: &[u8]) {
        let held = self.hold();
        let mut db = Db::new(&self.keyspace, &held, &mut self.local, &self.clock, 0, Version(1));
        for effect in effects::decode(encoded) {
            let Ok(mut effect) = effect else { break };
            if effect.db != 0 || effects::replay(&mut effect, &mut db, &self.tunables.limits).is_err() {
                break;
            }
        }
        self.local.publish_counts();
        self.keyspace.release(held, |_| {});
    }

    fn hold(&self) -> Held {
        self.keyspace.try_acquire(&Need::All, |_| {}).expect("nobody else is there")
    }

    fn hold_keys(&self, args: resp::Args<'_>, keys: &[KeyAt]) -> Held {
        let slot = |at: &KeyAt| keyspace::slot_of(args.get(at.index).expect("found by the row"));
        let mut slots: smallvec::SmallVec<[u16; 8]> = keys.iter().map(slot).collect();
        slots.sort();
        slots.dedup();
        self.keyspace.try_acquire(&Need::Slots(slots), |_| {}).expect("nobody else is there")
    }

    fn delete_expired(&mut self, held: &Held, args: resp::Args<'_>, keys: &[KeyAt]) {
        let mut db = Db::new(&self.keyspace, held, &mut self.local, &self.clock, self.db, self.version);
        for at in keys {
            let key = db.key(args.get(at.index).expect("found by the row"));
            if db.peek(&key).is_some_and(|entry| entry.expired(self.now)) {
                db.remove(&key);
                self.effects.push(op::DELETE, self.db, &key, |_| {});
            }
        }
    }
}

fn each_entry(db: &Db<'_>, mut f: impl FnMut(EntryRef<'_>)) {
    let mut slot = db.keyspace().next_occupied(0);
    while let Some(at) = slot {
        let mut from = Some(0);
        while let Some(hash) = from {
            from = db.walk(at, hash, &mut f);
        }
        slot = db.keyspace().next_occupied(at + 1);
    }
}

fn row_of(args: &[&[u8]]) -> &'static Row<Run> {
    let named = |rows: &'static [Row<Run>], name: &[u8]| {
        rows.iter().find(|row| row.spec.name.as_bytes().eq_ignore_ascii_case(name))
    };
    let row = FAMILIES.iter().find_map(|rows| named(rows, args[0]));
    let row = row.unwrap_or_else(|| panic!("no command {}", String::from_utf8_lossy(args[0])));
    args.get(1).and_then(|sub| named(row.subcommands, sub)).unwrap_or(row)
}

/// A walk to its end, as inside MULTI: everything is held.
fn walk(
    ctx: &mut Ctx<'_>,
    begin: fn(&mut Ctx<'_>) -> Result<Box<dyn Walk>, crate::Error>,
) -> Result<Outcome, crate::Error> {
    let mut walk = begin(ctx)?;
    let (mut at, mut buckets) = (walk.start(), 0);
    let stopped = loop {
        if at.slot >= walk.end() {
            match walk.wrap() {
                Some(again) => at = again,
                None => break None,
            }
        }
        if walk.enough(at, buckets) {
            break Some(at);
        }
        buckets += 1;
        let mut expired = Vec::new();
        let next = ctx.db.walk(at.slot, at.hash, |entry| {
            if entry.expiry().is_none_or(|ms| ms > ctx.now) {
                walk.visit(entry.into());
            } else if walk.visit_expired(entry.into(), false) {
                expired.push(entry.key().to_vec());
            }
        });
        for key in expired {
            ctx.expire_now(&ctx.db.key(&key));
        }
        at = match next {
            Some(hash) => Position { hash, ..at },
            None => Position { slot: ctx.db.keyspace().next_occupied(at.slot + 1).unwrap_or(SLOTS as u16), hash: 0 },
        };
    };
    while !walk.finish(stopped, &mut ctx.out) {}
    Ok(Outcome::Done)
}
