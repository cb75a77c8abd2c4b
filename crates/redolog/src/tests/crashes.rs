//! Random histories with crashes: everything synced survives, the surviving records are a consistent prefix, and cut
//! records do not come back.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use crate::disk::{Disk, File};
use crate::flight::Flight;
use crate::intake::{Take, Taken};
use crate::lack::Lack;
use crate::simulated::{Chance, Open, Simulated};
use crate::{Committer, Damage, Format, Gate, Intake, Limits, Lsn, Promise, Record, STREAM_BITS, Watermarks, recover};

/// Most groups are one block.
const LIMITS: Limits = Limits { segment: 16384, spares: 1, reserve: 0, block: 64 << 10 };
/// Many groups are several blocks, and many records are longer than a block.
const SMALL_BLOCKS: Limits = Limits { block: 2000, ..LIMITS };
const SLOTS: u64 = 6;

/// The effects of a record: the slot, and the record of that slot before it.
fn effects(slot: u64, before: Lsn, filler: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&slot.to_le_bytes());
    bytes.extend_from_slice(&before.0.to_le_bytes());
    bytes.resize(16 + filler, slot as u8);
    bytes
}

/// A node of several streams, and the records that it must keep.
struct World {
    disks: Vec<Simulated>,
    chance: Chance,
    committers: Vec<Committer<Simulated>>,
    /// By stream: blocks in flight with the cut of each, and records that wait for them.
    air: Vec<Vec<(Flight<Open>, Lsn)>>,
    held: Vec<Option<Taken>>,
    /// The highest cut of a block that has landed.
    landed: Lsn,
    /// Each stream's gates of two workers.
    gates: Vec<Vec<Gate>>,
    marks: Arc<Watermarks>,
    /// By slot: its last record.
    last: BTreeMap<u64, Lsn>,
    /// Every record written in this life, by LSN: its slot, and the record before it.
    written: BTreeMap<Lsn, (u64, Lsn)>,
    /// By record: the record of another slot that it read, and that slot.
    reads: BTreeMap<Lsn, (Lsn, u64)>,
    /// Streams that have failed.
    dead: Vec<bool>,
    /// The promised positions.
    promised: Vec<Lsn>,
    /// By stream: the position up to which records are durable elsewhere, and may be gone.
    covered: Vec<Lsn>,
    incarnation: u64,
    limits: Limits,
    /// How many more starts write the format before.
    old_starts: u64,
    /// Planted mistakes.
    trusts_the_tail: bool,
    forgets_dependencies: bool,
    forgets_the_order: bool,
    shares_pages: bool,
}

impl World {
    fn new(seed: u64, streams: usize, limits: Limits) -> Self {
        let disks = vec![(); streams].into_iter().map(|()| Simulated::default()).collect();
        let mut world = World {
            disks,
            chance: Chance(seed),
            committers: Vec::new(),
            air: Vec::new(),
            held: Vec::new(),
            landed: Lsn(0),
            gates: Vec::new(),
            marks: Arc::new(Watermarks::new(&[])),
            last: BTreeMap::new(),
            written: BTreeMap::new(),
            reads: BTreeMap::new(),
            dead: Vec::new(),
            promised: Vec::new(),
            covered: vec![Lsn(0); streams],
            incarnation: 0,
            limits,
            old_starts: if seed % 8 < 2 { 4 } else { 0 },
            trusts_the_tail: false,
            forgets_dependencies: false,
            forgets_the_order: false,
            shares_pages: false,
        };
        world.start().expect("an empty log");
        world
    }

    fn stream_of(&self, slot: u64) -> usize {
        slot as usize % self.disks.len()
    }

    fn start(&mut self) -> Result<(), Damage> {
        self.committers.clear();
        self.air.clear();
        self.held.clear();
        self.landed = Lsn(0);
        let durable = if self.forgets_dependencies { vec![Lsn::MAX; 3] } else { self.covered.clone() };
        let mut recovery = recover(self.disks.clone(), &durable)?;
        for (base, covered) in recovery.bases().iter().zip(&self.covered) {
            assert!(base <= covered, "what follows {covered} must be there, and the stream begins at {base}");
        }
        let mut found = BTreeMap::new();
        let mut order = Lsn::ZERO;
        recovery.replay(|record| {
            assert!(record.lsn > order, "rule L2: in the order of LSNs");
            order = record.lsn;
            let number = |at: usize| u64::from_le_bytes(record.effects[at..at + 8].try_into().unwrap());
            found.insert(record.lsn, (number(0), Lsn(number(8))));
        })?;
        for lsn in &self.promised {
            assert!(found.contains_key(lsn) || self.is_covered(*lsn), "record {lsn} was promised and is lost");
        }
        // Records that are durable elsewhere exist, in the log or not.
        let elsewhere = self.written.iter().filter(|(lsn, _)| self.is_covered(**lsn));
        found.extend(elsewhere.map(|(lsn, record)| (*lsn, *record)));
        let mut last = BTreeMap::new();
        for (lsn, record) in &found {
            assert_eq!(self.written.get(lsn), Some(record), "record {lsn} was cut, or never there");
            let before = last.insert(record.0, *lsn).unwrap_or_default();
            assert_eq!(before, record.1, "record {lsn} without the one before it in its slot");
            let (read, _) = self.reads.get(lsn).copied().unwrap_or_default();
            assert!(read == Lsn(0) || found.contains_key(&read), "record {lsn} without {read}, which it read");
        }
        if self.trusts_the_tail {
            recovery.trust_the_tail();
        }
        if self.old_starts > 0 {
            self.old_starts -= 1;
            recovery.write_in(Format::Three);
        }
        let highest = recovery.highest();
        self.incarnation = recovery.incarnation() + 1;
        self.marks = Arc::new(Watermarks::new(&recovery.ends()?));
        let writers = recovery.open_with_lacks([9; 16], self.incarnation, self.limits)?;
        // The node serves them from now on. Missing records must never come back, and the others must stay.
        self.last = last;
        self.written = found;
        self.promised = self.written.keys().copied().collect();
        self.gates.clear();
        self.dead.clear();
        for (mut writer, stream) in writers.into_iter().zip(0..) {
            writer.placer().shares_pages = self.shares_pages;
            self.air.push(Vec::new());
            self.held.push(None);
            let (intake, gates) = Intake::new(2, highest);
            self.gates.push(gates);
            self.dead.push(false);
            self.committers.push(Committer::new(stream, intake, writer, self.marks.clone(), Promise::Synced));
        }
        Ok(())
    }

    fn is_covered(&self, lsn: Lsn) -> bool {
        self.covered.get(usize::from(lsn.stream())).is_some_and(|end| lsn <= *end)
    }

    /// Promised records may become durable elsewhere: the log gives them up, at once or later.
    fn cover(&mut self) {
        let stream = self.chance.below(self.disks.len() as u64) as usize;
        let end = self.chance.below(3).min(1) * self.marks.of(stream as u16).0.saturating_sub(self.chance.below(200));
        self.covered[stream] = self.covered[stream].max(Lsn(end));
        if !self.dead[stream] && self.air[stream].is_empty() {
            self.dead[stream] = self.committers[stream].writer().truncate(self.covered[stream]).is_err();
        }
    }

    fn write(&mut self) {
        let slot = self.chance.below(SLOTS);
        // Some records read another slot, too, and stand on its last record.
        let other = self.chance.below(SLOTS);
        let stream = self.stream_of(slot);
        let worker = self.chance.below(2) as usize;
        let before = self.last.get(&slot).copied().unwrap_or_default();
        let read = self.last.get(&other).copied().unwrap_or_default();
        let gate = &mut self.gates[stream][worker];
        // The low bits name stream and worker: no two choose the same.
        let own = (worker << STREAM_BITS | stream) as u64;
        let above = gate.enter().max(before).max(read).0 >> (STREAM_BITS + 1);
        let lsn = Lsn((above + 1 + self.chance.below(3)) << (STREAM_BITS + 1) | own);
        let mut dependencies = Vec::new();
        let (streams, of_other) = (self.disks.len(), other as usize % self.disks.len());
        if streams > 1 && of_other != stream && read > Lsn(0) {
            dependencies.push(read);
        }
        let filler = if self.chance.below(20) == 0 { 10_000 } else { self.chance.below(600) as usize };
        let effects = effects(slot, before, filler);
        match self.chance.below(4) {
            0 => {
                // Its length is not known exactly.
                let about = self.chance.below(2 * effects.len() as u64 + 1);
                let write = move |out: &mut Vec<u8>| out.extend_from_slice(&effects);
                gate.leave_late(lsn, about, Box::new(move |out| Record::encode_with(lsn, &dependencies, write, out)));
            }
            _ => gate.leave(lsn, |bytes| Record::encode(lsn, &dependencies, &effects, bytes)),
        }
        gate.exit();
        if self.written.insert(lsn, (slot, before)).is_some() {
            panic!("two records have the LSN {lsn}");
        }
        self.reads.insert(lsn, (read, other));
        self.last.insert(slot, lsn);
    }

    /// Some streams commit, or go on with that. Everything at or below the watermarks is promised. After an error a
    /// stream is not used again (rule L9).
    fn commit(&mut self) {
        for stream in 0..self.disks.len() {
            if self.dead[stream] {
                continue;
            }
            let is_idle = self.air[stream].is_empty() && self.held[stream].is_none();
            let done = match self.chance.below(6) {
                0 => Ok(()),
                1 if is_idle => self.committers[stream].round().map(drop),
                2 if is_idle => self.begin_late(stream),
                2 | 3 => self.land(stream),
                _ => self.depart(stream),
            };
            self.dead[stream] = done.is_err();
        }
        let of = |slot: u64| slot as usize % self.disks.len();
        let landed = if self.forgets_the_order { self.landed } else { Lsn(0) };
        let is_committed = |lsn: Lsn, slot: u64| lsn <= self.marks.of(of(slot) as u16).max(landed);
        let committed = self.written.iter().filter(|(lsn, (slot, _))| is_committed(**lsn, *slot));
        self.promised = committed.map(|(lsn, _)| *lsn).collect();
    }

    /// A block departs, if there is one and few are in flight.
    fn depart(&mut self, stream: usize) -> io::Result<()> {
        let committer = &mut self.committers[stream];
        if self.held[stream].is_none()
            && let Take::Taken(taken) = committer.take()
        {
            self.held[stream] = Some(taken);
        }
        let Some(taken) = &self.held[stream] else { return Ok(()) };
        if !committer.is_one_block() {
            if self.air[stream].is_empty() {
                committer.write(taken)?;
                committer.advance();
                self.held[stream] = None;
            }
            return Ok(());
        }
        if self.air[stream].len() < 4
            && let Some(flight) = unless_lacking(committer.depart(taken, 0))?.flatten()
        {
            self.air[stream].push((flight, taken.cut));
            self.held[stream] = None;
        }
        Ok(())
    }

    /// A stream that found no room when it started may have some now.
    fn begin_late(&mut self, stream: usize) -> io::Result<()> {
        let writer = self.committers[stream].writer();
        if writer.placer().waits().is_some() { unless_lacking(writer.begin_late(0)).map(drop) } else { Ok(()) }
    }

    /// One of the blocks in flight lands.
    fn land(&mut self, stream: usize) -> io::Result<()> {
        let air = &mut self.air[stream];
        if !air.is_empty() {
            let (flight, cut) = air.swap_remove(self.chance.below(air.len() as u64) as usize);
            flight.write()?;
            self.committers[stream].land(flight);
            self.committers[stream].advance();
            self.landed = self.landed.max(cut);
        }
        Ok(())
    }

    /// The power fails, or only the process ends.
    fn crash(&mut self) {
        let chance = &mut self.chance;
        // Of a block in flight there is nothing, a part, or all.
        for (flight, _) in self.air.iter().flatten() {
            let _ = match chance.below(3) {
                0 => Ok(()),
                1 => flight.begin(),
                _ => flight.write(),
            };
        }
        if chance.below(3) > 0 {
            self.disks.iter().for_each(|disk| disk.crash(chance));
        } else {
            self.disks.iter().for_each(Simulated::kill);
        }
    }

    /// Plans the next fault of a disk, if any.
    fn plan(&mut self) {
        let disk = &self.disks[self.chance.below(self.disks.len() as u64) as usize];
        match self.chance.below(6) {
            0 => disk.fail_power_after(self.chance.below(40)),
            1 => disk.fail_sync_after(self.chance.below(8)),
            2 => disk.set_room(Some(self.chance.below(3) * 10_000)),
            3 => disk.set_room(None),
            _ => {}
        }
    }

    /// Starts, again and again if the power fails on the way. A stream whose records are cut needs room.
    fn restart(&mut self) {
        while let Err(damage) = self.start() {
            let lacks = damage.to_string().contains("cannot be made: ");
            assert!(matches!(damage, Damage::Io(_)) || lacks, "{damage}");
            if lacks {
                self.disks.iter().for_each(|disk| disk.set_room(None));
            }
            self.crash();
        }
    }
}

/// `None`: a resource lacks, and nothing has happened.
fn unless_lacking<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(error) if Lack::of(&error).is_some() => Ok(None),
        done => done.map(Some),
    }
}

fn live(seed: u64, streams: usize, forget: bool) {
    let limits = if seed.is_multiple_of(2) { LIMITS } else { SMALL_BLOCKS };
    let mut world = World::new(seed, streams, limits);
    for _ in 0..12 {
        world.plan();
        for _ in 0..world.chance.below(40) {
            match world.chance.below(8) {
                0 => world.commit(),
                1 if world.chance.below(4) == 0 => world.cover(),
                _ => world.write(),
            }
        }
        if forget {
            world.disks.iter().for_each(Simulated::forget_to_sync);
        }
        world.crash();
        world.plan();
        world.restart();
    }
}

/// The number of lives that a test tries: `HOLDFAST_LIVES` sets more.
fn lives() -> u64 {
    std::env::var("HOLDFAST_LIVES").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

#[test]
fn what_was_promised_survives() {
    for seed in 0..lives() {
        live(seed, 1, false);
    }
}

#[test]
fn streams_are_cut_to_what_stands() {
    for seed in 0..lives() {
        live(seed, 3, false);
    }
}

#[test]
fn a_skipped_sync_is_caught() {
    let caught = (0..50).filter(|&seed| std::panic::catch_unwind(|| live(seed, 1, true)).is_err()).count();
    assert!(caught > 10, "only {caught} of 50 lives noticed that nothing was synced");
}

/// Rule L9: after a failed sync the tail is in memory and may not be on the disk, even if the next sync succeeds. A
/// start writes it again: into a segment of its own, or, without room for one, in place.
#[test]
fn a_tail_that_is_not_written_again_is_caught() {
    let life = |seed, trusts_the_tail, is_full: bool| {
        let mut world = World::new(seed, 1, LIMITS);
        world.trusts_the_tail = trusts_the_tail;
        for _ in 0..20 {
            world.disks[0].fail_sync_after(world.chance.below(3));
            for _ in 0..10 {
                world.write();
                world.commit();
            }
            world.disks[0].kill();
            world.disks[0].set_room(is_full.then_some(0));
            world.restart();
            world.disks[0].crash(&mut world.chance);
            world.disks[0].set_room(None);
            world.restart();
        }
    };
    for is_full in [false, true] {
        let fails = |&seed: &u64| std::panic::catch_unwind(|| life(seed, true, is_full)).is_err();
        let caught = (0..20).filter(fails).count();
        assert!(caught > 10, "only {caught} of 20 lives noticed that the tail was gone");
        (0..20).for_each(|seed| life(seed, false, is_full));
    }
}

/// Rule L5.
#[test]
fn a_cut_that_forgets_dependencies_is_caught() {
    let unsafe_life = |seed| {
        let mut world = World::new(seed, 3, LIMITS);
        world.forgets_dependencies = true;
        for _ in 0..12 {
            for _ in 0..30 {
                world.write();
                if world.chance.below(8) == 0 {
                    world.commit();
                }
            }
            world.crash();
            world.restart();
        }
    };
    let caught = (0..20).filter(|&seed| std::panic::catch_unwind(|| unsafe_life(seed)).is_err()).count();
    assert!(caught > 10, "only {caught} of 20 lives noticed that something stands on what is gone");
}

/// The watermark passes only blocks that have landed in order.
#[test]
fn a_watermark_that_passes_a_hole_is_caught() {
    let unsafe_life = |seed| {
        let mut world = World::new(seed, 1, LIMITS);
        world.forgets_the_order = true;
        many_crashes(&mut world);
    };
    let caught = (0..40).filter(|&seed| std::panic::catch_unwind(|| unsafe_life(seed)).is_err()).count();
    assert!(caught > 10, "only {caught} of 40 lives noticed that a block was not there");
}

/// Blocks in flight together share no page.
#[test]
fn pages_in_common_are_caught() {
    let unsafe_life = |seed| {
        let mut world = World::new(seed, 1, LIMITS);
        world.shares_pages = true;
        world.start().unwrap();
        many_crashes(&mut world);
    };
    let caught = (0..20).filter(|&seed| std::panic::catch_unwind(|| unsafe_life(seed)).is_err()).count();
    assert!(caught > 10, "only {caught} of 20 lives noticed that a block was written over");
}

fn many_crashes(world: &mut World) {
    for _ in 0..12 {
        for _ in 0..40 {
            world.write();
            world.commit();
        }
        world.crash();
        world.restart();
    }
}

/// Rule L5: records behind a lost block do not come back, with any later writes.
#[test]
fn what_lies_behind_a_hole_is_gone() {
    for lost in 0..3 {
        let mut world = World::new(lost, 1, LIMITS);
        world.write();
        world.committers[0].round().unwrap();
        let (kept, sequence) = (world.marks.of(0), world.written.len());
        for _ in 0..3 {
            world.write();
            world.depart(0).unwrap();
        }
        for (index, (flight, _)) in world.air[0].iter().enumerate() {
            if index as u64 != lost {
                flight.write().unwrap();
            }
        }
        world.air.clear();
        world.disks[0].crash(&mut Chance(lost));
        let torn: Vec<_> = recover(world.disks.clone(), &[]).unwrap().torn().cloned().collect();
        assert_eq!(torn.len(), usize::from(lost < 2), "{torn:?}");
        for _ in 0..3 {
            world.start().unwrap();
            assert_eq!(world.written.len(), sequence + lost as usize);
            assert!(world.last.values().max() >= Some(&kept));
            for _ in 0..3 {
                world.write();
            }
            // This one is lost as well.
            let written = world.written.len() - 3;
            world.disks[0].crash(&mut Chance(lost));
            world.start().unwrap();
            assert_eq!(world.written.len(), written);
        }
    }
}

/// Rule L10: records that a block knew to be synced when it departed must be there, with anything in flight beside it.
#[test]
fn damage_below_what_a_block_in_flight_knew_stops_the_start() {
    let mut world = World::new(5, 1, LIMITS);
    for _ in 0..3 {
        world.write();
        world.depart(0).unwrap();
    }
    let name = world.disks[0].names().into_iter().filter(|name| name.ends_with(".log")).max().unwrap();
    while !world.air[0].is_empty() {
        world.land(0).unwrap();
    }
    // No block says that these are synced, though they are: damage looks like a torn end.
    let is_torn = |disk: &Simulated| recover(vec![disk.clone()], &[]).unwrap().torn().count();
    assert_eq!(is_torn(&world.disks[0]), 0);
    world.disks[0].damage(&name, 4096 + 50);
    assert_eq!(is_torn(&world.disks[0]), 1);
    world.write();
    world.depart(0).unwrap();
    world.land(0).unwrap();
    let error = recover(world.disks.clone(), &[]).err().map(|damage| damage.to_string());
    assert!(error.as_ref().is_some_and(|text| text.starts_with(name.as_str())), "{error:?}");
    world.disks[0].damage(&name, 4096 + 50);
    assert_eq!(is_torn(&world.disks[0]), 0);
}

#[test]
fn damage_below_the_watermark_stops_the_start() {
    let mut world = World::new(1, 1, LIMITS);
    for _ in 0..80 {
        world.write();
        world.committers[0].round().unwrap();
    }
    world.committers.clear();
    let names: Vec<String> = world.disks[0].names().into_iter().filter(|name| name.ends_with(".log")).collect();
    assert!(names.len() > 1, "{names:?}");
    // The first block of all is no exception, nor is that of a segment.
    for (name, at) in [(&names[0], 600), (&names[0], 40), (&names[0], 520), (&names[1], 530), (&names[1], 700)] {
        world.disks[0].damage(name, at);
        let error = recover(world.disks.clone(), &[]).err().map(|damage| damage.to_string());
        assert!(error.as_ref().is_some_and(|text| text.starts_with(name.as_str())), "{name} at {at}: {error:?}");
        world.disks[0].damage(name, at);
    }
    assert!(recover(world.disks.clone(), &[]).is_ok());
}

#[test]
fn a_torn_end_is_told_of() {
    let mut world = World::new(3, 1, LIMITS);
    for _ in 0..30 {
        world.write();
        world.committers[0].round().unwrap();
    }
    world.committers.clear();
    let name = world.disks[0].names().into_iter().filter(|name| name.ends_with(".log")).max().unwrap();
    let report = |disk: &Simulated| recover(vec![disk.clone()], &[]).unwrap().torn().cloned().collect::<Vec<_>>();
    assert_eq!(report(&world.disks[0]), []);
    let file = world.disks[0].open(&name).unwrap();
    let mut bytes = vec![0; file.size().unwrap() as usize];
    file.read(0, &mut bytes).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    for at in end - 40..=end {
        world.disks[0].damage(&name, at);
        assert!(matches!(&report(&world.disks[0])[..], [(file, _)] if file.contains(&name)), "{name} at {at}");
        world.disks[0].damage(&name, at);
    }
}

#[test]
fn segments_are_given_up_and_used_again() {
    let mut world = World::new(2, 1, LIMITS);
    for round in 0..200 {
        world.write();
        world.committers[0].round().unwrap();
        if round % 10 == 9 {
            let end = world.marks.of(0);
            world.committers[0].writer().truncate(end.before()).unwrap();
            assert!(world.disks[0].names().len() <= 12, "{:?}", world.disks[0].names());
        }
    }
    assert!(world.committers[0].placer().size() < 200_000);
}
