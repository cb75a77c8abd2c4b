//! All records that were ever written to the log and not lost, and the contents they produce: the model that a
//! recovered machine is compared with.
//!
//! The ledger reads the log's disks as a process killed at this moment would leave them: before each truncation and
//! before every crash. So it knows records that the log has given up, and does not know records that a crash has cut.

use std::collections::BTreeMap;

use clocks::UnixMs;
use redolog::simulated::Simulated;
use redolog::{Damage, Lsn, Opened};

use crate::machine::Found;
use crate::machine::memory::{Digests, Memory};

/// By position: records of workers that have seen nothing of each other may share one.
pub type Records = BTreeMap<(Lsn, u16), Vec<Vec<u8>>>;

/// See the module's text.
pub struct Ledger {
    /// Records of this life.
    fresh: Records,
    /// Those of all lives before that were not lost, in their order.
    settled_records: Vec<(Lsn, Vec<u8>)>,
    /// The contents they have produced.
    model: Memory,
    /// The end of each stream when this life began: records at or below it are settled.
    settled: Vec<Lsn>,
    now: UnixMs,
}

impl Ledger {
    /// Of a log of so many streams in which there is nothing. `now`: unix milliseconds.
    pub fn new(streams: usize, now: UnixMs) -> Self {
        Self {
            fresh: Records::new(),
            settled_records: Vec::new(),
            model: Memory::empty(),
            settled: vec![Lsn::ZERO; streams],
            now,
        }
    }

    /// Reads what the disks have so far.
    ///
    /// # Errors
    ///
    /// The log is damaged.
    pub fn read(&mut self, disks: &[Simulated]) -> Result<(), Damage> {
        let mut there: Records = Records::new();
        let mut log = Opened::of(disks.iter().map(Simulated::clone_now).collect(), &[])?;
        log.replay(|record| {
            if record.lsn > self.settled[usize::from(record.stream)] {
                there.entry((record.lsn, record.stream)).or_default().push(record.effects.into());
            }
        })?;
        self.note(there);
        Ok(())
    }

    /// Records of this life that some disk has.
    pub fn note(&mut self, there: Records) {
        for (at, records) in there {
            let known = self.fresh.entry(at).or_default();
            // Where the log was cut between two that share a position, it has only one of them now.
            for record in &records {
                let count = |among: &[Vec<u8>]| among.iter().filter(|other| *other == record).count();
                if count(known) < count(&records) {
                    known.push(record.clone());
                }
            }
        }
    }

    /// Records of this life.
    pub fn fresh(&self) -> &Records {
        &self.fresh
    }

    /// Where each stream ended when this life began.
    pub fn settled(&self) -> &[Lsn] {
        &self.settled
    }

    /// The machine has stopped, and each stream ends here: the rest is lost for good. Returns the contents that the
    /// remaining records produce.
    ///
    /// # Errors
    ///
    /// A record cannot be replayed.
    pub fn settle(&mut self, ends: &[Lsn]) -> Result<Digests, String> {
        let fresh = std::mem::take(&mut self.fresh);
        let survived = fresh.iter().filter(|((lsn, stream), _)| *lsn <= ends[usize::from(*stream)]);
        let records = survived.flat_map(|((lsn, _), records)| records.iter().map(|effects| (*lsn, &effects[..])));
        self.model.replay(records.clone(), self.now).map_err(|error| error.to_string())?;
        self.settled_records.extend(records.map(|(lsn, effects)| (lsn, effects.to_vec())));
        self.settled = ends.into();
        Ok(self.model.digests())
    }

    /// The contents that all records up to these positions produce, one position in each stream of this life.
    ///
    /// # Errors
    ///
    /// A record cannot be replayed.
    pub fn until(&self, ends: &[Lsn]) -> Result<Digests, String> {
        let fresh = self.fresh.iter().filter(|((lsn, stream), _)| *lsn <= ends[usize::from(*stream)]);
        let fresh = fresh.flat_map(|((lsn, _), records)| records.iter().map(|effects| (*lsn, &effects[..])));
        let before = self.settled_records.iter().map(|(lsn, effects)| (*lsn, &effects[..]));
        let memory = Memory::empty();
        memory.replay(before.chain(fresh), self.now).map_err(|error| error.to_string())?;
        Ok(memory.digests())
    }

    /// Of the records that a start has found, those of this life, as the ledger keeps them.
    pub fn of_this_life(&self, found: &[Found]) -> Records {
        let mut records = Records::new();
        for Found { lsn, stream, effects } in found {
            if *lsn > self.settled[usize::from(*stream)] {
                records.entry((*lsn, *stream)).or_default().push(effects.clone());
            }
        }
        records
    }
}
