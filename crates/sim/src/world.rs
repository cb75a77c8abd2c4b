//! A machine, its clients, and what happens to them: one event after the other, as a seed decides.

use engine::checkpoint::Step;
use log::Fsync;
use log::simulated::Chance;
use node::Token;
use resp::Value;

use crate::clients::bank::Banker;
use crate::clients::chaos::Chaos;
use crate::clients::counter::Counter;
use crate::clients::owner::Owner;
use crate::clients::reader::Reader;
use crate::clients::{Client, Common, Found, Request, survey};
use crate::hardware::{Hardware, Stop};
use crate::invariants::{Restart, Verdict, Violation, acknowledged, cut, digest, revived, store, truncation, violated};
use crate::ledger::Ledger;
use crate::link::Link;
use crate::machine::{Machine, NoStart, Sent, Start};
use crate::note;
use crate::plan::{Plan, Planted};
use crate::trace::{Trace, hash};

/// Steps in which whatever is under way comes to its end.
const QUIET_STEPS: usize = 20_000;
/// Starts that the power may interrupt.
const STARTS: usize = 6;

/// What a run has seen.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Starts of the machine that were completed.
    pub starts: u64,
    /// Power failures and kills, those during starts included.
    pub crashes: u64,
    /// Requests that were answered.
    pub answered: u64,
    /// Records that were lost, none of them promised.
    pub lost: u64,
    /// Checkpoints that were completed.
    pub checkpoints: u64,
    /// Changes of the log's disks.
    pub disk_steps: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.starts += other.starts;
        self.crashes += other.crashes;
        self.answered += other.answered;
        self.lost += other.lost;
        self.checkpoints += other.checkpoints;
        self.disk_steps += other.disk_steps;
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} starts, {} crashes, {} requests answered, {} checkpoints, {} changes of disks, {} records lost that nobody was promised",
            self.starts, self.crashes, self.answered, self.checkpoints, self.disk_steps, self.lost
        )
    }
}

/// A client and its connection.
struct Seat {
    client: Box<dyn Client>,
    link: Link,
}

/// See the module's text.
pub struct World {
    plan: Plan,
    chance: Chance,
    hardware: Hardware,
    machine: Machine,
    ledger: Ledger,
    seats: Vec<Seat>,
    common: Common,
    /// What was acknowledged since clients looked has been kept by every stop.
    keeps_promises: bool,
    /// What was sent to connections that no client has.
    to_nobody: Vec<(usize, Token, Sent)>,
    /// What happened.
    pub trace: Trace,
    /// What came of it.
    pub counts: Counts,
}

impl World {
    /// A world in which nothing has happened. `keep`: every line of the trace.
    pub fn new(seed: u64, plan: Plan, keep: bool) -> Result<World, Violation> {
        let mut chance = Chance(seed);
        let hardware = Hardware::new(plan.streams);
        let ledger = Ledger::new(plan.streams, hardware.clock.unix_ms());
        let mut trace = Trace::new(keep);
        note!(trace, "{plan:?}");
        let machine = match Machine::start(&hardware, &plan, &mut chance) {
            Ok((machine, _)) => machine,
            Err(why) => {
                return Err(Violation { rule: "start", what: format!("the first start fails: {why:?}") });
            }
        };
        let mut common = Common::default();
        let mut clients: Vec<Box<dyn Client>> = Vec::new();
        for id in 0..3 {
            clients.push(Box::new(Owner::new(id, &[0], &mut common)));
        }
        clients.push(Box::new(Owner::new(3, &[1, 2], &mut common)));
        clients.push(Box::new(Reader::new(4)));
        clients.push(Box::new(Banker::new(5)));
        clients.push(Box::new(Banker::new(6)));
        clients.push(Box::new(Counter::new(7)));
        clients.push(Box::new(Counter::new(8)));
        clients.push(Box::new(Chaos::new(9, [3, 4])));
        // Some worlds lack some of them.
        let mut seats = Vec::new();
        for client in clients {
            if seats.is_empty() || chance.below(4) > 0 {
                seats.push(Seat { client, link: Link::default() });
            }
        }
        let counts = Counts { starts: 1, ..Counts::default() };
        let mut world = World {
            plan,
            chance,
            hardware,
            machine,
            ledger,
            seats,
            common,
            keeps_promises: true,
            to_nobody: Vec::new(),
            trace,
            counts,
        };
        world.plant();
        world.connect();
        Ok(world)
    }

    /// Lives all lives.
    pub fn run(&mut self) -> Verdict {
        for life in 0..self.plan.lives {
            note!(self.trace, "life {life}");
            self.live()?;
            self.end_life()?;
            self.survey()?;
            self.counts.disk_steps = self.hardware.disks.iter().map(log::simulated::Simulated::steps).sum();
        }
        Ok(())
    }

    fn plant(&mut self) {
        if self.plan.planted == Planted::SkippedSync {
            self.hardware.disks.iter().for_each(log::simulated::Simulated::forget_to_sync);
        }
    }

    fn connect(&mut self) {
        for (index, seat) in self.seats.iter_mut().enumerate() {
            let worker = self.chance.below(self.plan.workers as u64) as usize;
            seat.link = Link::new(self.machine.connect(worker).map(|token| (worker, token)));
            note!(self.trace, "{} ({index}) is connected to worker {worker}", seat.client.name());
        }
    }

    // ---- events

    fn live(&mut self) -> Verdict {
        match self.chance.below(3) {
            0 => self.hardware.plan_power_failure(&mut self.chance, 200),
            1 if self.chance.below(3) == 0 => self.hardware.plan_failed_flush(&mut self.chance),
            _ => {}
        }
        for _ in 0..20 + self.chance.below(self.plan.events) {
            self.event()?;
            if self.hardware.is_dead() {
                note!(self.trace, "the power fails");
                break;
            }
        }
        Ok(())
    }

    fn tell_time(&mut self) {
        self.common.now = self.hardware.clock.unix_ms();
        self.common.latest = self.common.latest.max(self.common.now);
    }

    fn event(&mut self) -> Verdict {
        self.tell_time();
        match self.chance.below(100) {
            0..30 => self.ask(),
            30..50 => self.deliver(),
            50..74 => {
                let worker = self.chance.below(self.plan.workers as u64) as usize;
                return self.turn(worker);
            }
            74..86 => self.step_stream(),
            86..89 => self.help(),
            89..95 => return self.checkpoint(),
            _ => self.pass_time(),
        }
        Ok(())
    }

    /// A client sends something.
    fn ask(&mut self) {
        let index = self.chance.below(self.seats.len() as u64) as usize;
        let seat = &mut self.seats[index];
        if seat.link.to.is_none() {
            return;
        }
        if let Some(request) = seat.client.next(&mut self.common, &mut self.chance) {
            note!(self.trace, "{index} asks {request:?}");
            seat.link.send(&request);
        }
    }

    /// Bytes arrive.
    fn deliver(&mut self) {
        let index = self.chance.below(self.seats.len() as u64) as usize;
        let link = &mut self.seats[index].link;
        let Some((worker, token)) = link.to.filter(|_| !link.under_way.is_empty()) else { return };
        let there = link.under_way.len() as u64;
        let count = if self.chance.below(2) == 0 { there } else { 1 + self.chance.below(there) };
        let bytes: Vec<u8> = link.under_way.drain(..count as usize).collect();
        note!(self.trace, "{count} bytes of {index} arrive");
        self.machine.workers[worker].input(token, &bytes);
    }

    fn turn(&mut self, worker: usize) -> Verdict {
        let mut sent: Vec<(Token, Sent)> = Vec::new();
        self.machine.turn(worker, |token, what| sent.push((token, what)));
        note!(self.trace, "worker {worker} has sent to {} connections", sent.len());
        for (token, what) in sent {
            match self.seats.iter().position(|seat| seat.link.to == Some((worker, token))) {
                Some(index) => self.hear(index, what)?,
                None => self.to_nobody.push((worker, token, what)),
            }
        }
        Ok(())
    }

    /// Something has left the machine.
    fn hear(&mut self, index: usize, what: Sent) -> Verdict {
        let seat = &mut self.seats[index];
        match what {
            Sent::Closed => {
                note!(self.trace, "{index} is closed");
                seat.link.to = None;
                seat.client.cut_off();
            }
            Sent::Bytes(bytes) => {
                note!(self.trace, "{index} hears {} bytes {:016x}", bytes.len(), hash(0, &bytes));

                let answers = seat.link.receive(&bytes);
                let answers = answers.map_err(|what| Violation { rule: "replies", what })?;
                for replies in answers {
                    self.counts.answered += 1;
                    seat.client.answered(&mut self.common, replies)?;
                }
            }
        }
        Ok(())
    }

    fn step_stream(&mut self) {
        let (stream, late) = (self.chance.below(self.plan.streams as u64) as usize, self.chance.below(4) == 0);
        let flights = self.machine.in_flight(stream);
        if flights > 0 && self.chance.below(2) == 0 {
            let which = self.chance.below(flights as u64) as usize;
            self.machine.land(stream, which);
            note!(self.trace, "block {which} of {flights} of stream {stream} is written");
        }
        let apart = self.chance.below(2) == 0;
        let after = self.machine.step_stream(stream, late, apart);
        note!(self.trace, "stream {stream} (late: {late}, apart: {apart}) {after:?} {:?}", self.machine.marks());
    }

    fn help(&mut self) {
        let (stream, helper) = (self.chance.below(self.plan.streams as u64) as usize, self.chance.below(2) as usize);
        if self.machine.help_stream(stream, helper) {
            note!(self.trace, "helper {helper} of stream {stream}");
        }
    }

    fn checkpoint(&mut self) -> Verdict {
        if !self.machine.checkpointer.is_running() {
            if self.chance.below(4) == 0 {
                let Machine { checkpointer, outside, .. } = &mut self.machine;
                note!(self.trace, "a checkpoint begins: {:?}", checkpointer.begin(outside));
            }
            return Ok(());
        }
        // Most slots are empty.
        for _ in 0..1 + self.chance.below(120) {
            match self.machine.step_checkpointer() {
                Ok(Step::Done) => self.counts.checkpoints += 1,
                Ok(Step::More) => {}
                Ok(Step::Waiting | Step::Busy | Step::Idle) => break,
                Err(error) => {
                    // What the platter was told to do: the machine ends here.
                    note!(self.trace, "the store has failed: {error}");
                    self.hardware.disks[0].fail_power_after(0);
                    break;
                }
            }
            if !self.plan.clients_only {
                truncation::check_cut(&self.machine)?;
            }
            if std::mem::take(&mut self.machine.outside.has_cut) {
                note!(self.trace, "the log may be cut");
                self.read_ledger()?;
            }
        }
        note!(self.trace, "checkpoint {}", self.machine.checkpointer.figures().progress);
        Ok(())
    }

    fn pass_time(&mut self) {
        let us = match self.chance.below(8) {
            0 => self.chance.below(2_000_000),
            1 | 2 => self.chance.below(50_000),
            _ => self.chance.below(2_000),
        };
        self.hardware.clock.advance_us(us);
        note!(self.trace, "{us} us pass");
    }

    fn read_ledger(&mut self) -> Verdict {
        self.ledger.read(&self.hardware.disks).or_else(|damage| violated("log", damage))
    }

    // ---- ends and beginnings

    /// The machine stops and starts again, perhaps after some attempts.
    fn end_life(&mut self) -> Verdict {
        self.tell_time();
        let is_quiet = !self.hardware.is_dead() && self.chance.below(4) == 0 && self.come_to_rest()?;
        let stop = match self.chance.below(3) {
            0 if !self.hardware.is_dead() => Stop::Kill,
            _ => Stop::Power,
        };
        self.machine.interrupt_flights(&self.hardware.disks, &mut self.chance);
        self.read_ledger()?;
        let marks = self.machine.marks();
        note!(self.trace, "{stop:?}, quiet: {is_quiet}, {marks:?}");
        self.seats.iter_mut().for_each(|seat| seat.client.cut_off());
        self.hardware.stop(stop, &mut self.chance);
        self.counts.crashes += 1;
        let (machine, start, has_failed) = self.restart()?;
        let keeps_promises = self.plan.fsync == Fsync::Always || stop == Stop::Kill && !has_failed;
        let before = std::mem::replace(&mut self.machine, machine);
        let before = (is_quiet && keeps_promises).then(|| before.into_digests());
        let found = self.ledger.of_this_life(&start.found);
        let restart =
            Restart { marks: &marks, keeps_promises, written: self.ledger.fresh(), found: &found, start: &start };
        if !self.plan.clients_only {
            acknowledged::check(&restart)?;
            revived::check(&restart)?;
            cut::check(&restart)?;
            store::check(&restart)?;
            truncation::check(&restart)?;
        }
        self.counts.lost += restart.lost();
        let model = self.ledger.settle(&start.ends).map_err(|what| Violation { rule: "digest", what })?;
        if !self.plan.clients_only {
            digest::check(&start, &model, before.as_ref())?;
        }
        note!(self.trace, "started: {:?} {:?} {model:?}", start.bases, start.ends);
        self.counts.starts += 1;
        self.keeps_promises &= keeps_promises;
        self.plant();
        self.connect();
        Ok(())
    }

    /// Starts until a start comes to its end. Whether the power has failed meanwhile.
    fn restart(&mut self) -> Result<(Machine, Start, bool), Violation> {
        if self.chance.below(6) == 0 {
            let ms = self.chance.below(5_000);
            note!(self.trace, "the clock is set back by {ms} ms");
            self.hardware.clock.set_back_ms(ms);
        }
        for attempt in 0.. {
            if attempt < STARTS && self.chance.below(3) == 0 {
                self.hardware.plan_power_failure(&mut self.chance, 30);
            }
            match Machine::start(&self.hardware, &self.plan, &mut self.chance) {
                Ok((machine, start)) => return Ok((machine, start, attempt > 0)),
                Err(NoStart::Refused(why)) => {
                    return Err(Violation { rule: "start", what: format!("the server does not start: {why}") });
                }
                Err(NoStart::Power) => {
                    note!(self.trace, "the power fails during the start");
                    self.hardware.stop(Stop::Power, &mut self.chance);
                    self.counts.crashes += 1;
                }
            }
        }
        Err(Violation { rule: "start", what: "no end of it".into() })
    }

    /// Everything that was sent arrives and is done. False: the power fails before.
    fn come_to_rest(&mut self) -> Result<bool, Violation> {
        for _ in 0..QUIET_STEPS {
            for index in 0..self.seats.len() {
                let link = &mut self.seats[index].link;
                if let Some((worker, token)) = link.to {
                    let bytes: Vec<u8> = link.under_way.drain(..).collect();
                    self.machine.workers[worker].input(token, &bytes);
                }
            }
            if self.everybody_works()? {
                return Ok(false);
            }
            let left = engine::checkpoint::World::left(&self.machine.outside);
            let is_committed = self.machine.marks().iter().zip(&left).all(|(mark, left)| mark >= left);
            if is_committed && self.seats.iter().all(|seat| seat.link.to.is_none() || seat.link.is_quiet()) {
                return Ok(true);
            }
        }
        let waiting: Vec<_> =
            self.seats.iter().filter(|seat| !seat.link.is_quiet()).map(|seat| seat.client.name()).collect();
        let left = engine::checkpoint::World::left(&self.machine.outside);
        let (marks, state) = (self.machine.marks(), self.machine.log.state());
        let what = format!("no rest: {waiting:?} are not answered, {left:?} is left, {marks:?} committed, {state:?}");
        Err(Violation { rule: "rest", what })
    }

    /// Each worker takes a turn, each stream a step. Whether the power has failed.
    fn everybody_works(&mut self) -> Result<bool, Violation> {
        for worker in 0..self.plan.workers {
            self.turn(worker)?;
        }
        for stream in 0..self.plan.streams {
            while self.machine.in_flight(stream) > 0 {
                self.machine.land(stream, 0);
            }
            self.machine.step_stream(stream, true, false);
            for helper in 0..2 {
                while self.machine.help_stream(stream, helper) {}
            }
        }
        self.hardware.clock.advance_us(1000);
        Ok(self.hardware.is_dead())
    }

    /// Clients look at what there is now, and go on; unless the power fails meanwhile.
    fn survey(&mut self) -> Verdict {
        let from = self.hardware.clock.unix_ms();
        let worker = self.chance.below(self.plan.workers as u64) as usize;
        let mut link = Link::new(self.machine.connect(worker).map(|token| (worker, token)));
        let Some(names) = self.call(&mut link, &survey::names())? else { return Ok(()) };
        let names = survey::read_names(&names);
        let Some(values) = self.call(&mut link, &survey::values(&names))? else { return Ok(()) };
        let contents = survey::read_values(&names, &values)?;
        note!(self.trace, "survey: {contents:?}");
        if let Some((worker, token)) = link.to {
            self.machine.workers[worker].closed(token);
        }
        self.tell_time();
        let keeps_promises = std::mem::replace(&mut self.keeps_promises, true);
        let found = Found { contents: &contents, from, to: self.common.now, keeps_promises };
        for seat in &mut self.seats {
            seat.client.look(&mut self.common, &found)?;
        }
        Ok(())
    }

    /// Asks and waits for the answer; `None`: the power fails before.
    fn call(&mut self, link: &mut Link, request: &Request) -> Result<Option<Vec<Value>>, Violation> {
        let Some((worker, token)) = link.to.filter(|_| !request.is_empty()) else { return Ok(Some(Vec::new())) };
        self.to_nobody.clear();
        link.send(request);
        for _ in 0..QUIET_STEPS {
            let bytes: Vec<u8> = link.under_way.drain(..).collect();
            self.machine.workers[worker].input(token, &bytes);
            if self.everybody_works()? {
                return Ok(None);
            }
            for (_, of, what) in std::mem::take(&mut self.to_nobody) {
                match what {
                    Sent::Bytes(bytes) if of == token => {
                        let answers = link.receive(&bytes);
                        let mut answers = answers.map_err(|what| Violation { rule: "replies", what })?;
                        if let Some(replies) = answers.pop() {
                            return Ok(Some(replies));
                        }
                    }
                    _ => {}
                }
            }
        }
        Err(Violation { rule: "rest", what: "the survey is not answered".into() })
    }
}
