//! A host, its clients, and what happens to them: one event after the other, as a seed decides.

use redolog::simulated::Chance;
use resp::Value;

use crate::clients::bank::Banker;
use crate::clients::chaos::Chaos;
use crate::clients::counter::Counter;
use crate::clients::heedless::Heedless;
use crate::clients::operator::Operator;
use crate::clients::owner::Owner;
use crate::clients::reader::Reader;
use crate::clients::{Client, Common, Found, Request, refusal, survey};
use crate::counts::Counts;
use crate::host::{Host, Mail};
use crate::invariants::{Verdict, Violation, counts, full};
use crate::link::Link;
use crate::machine::Sent;
use crate::note;
use crate::plan::Plan;
use crate::story::Story;
use crate::trace::{Trace, hash};

/// Steps in which whatever is under way comes to its end.
const QUIET_STEPS: usize = 20_000;

/// Steps in which a client that waits for nothing else gets its answer.
const PROBE_STEPS: usize = 400;

/// A client and its connection.
struct Seat {
    client: Box<dyn Client>,
    link: Link,
}

/// See the module's text.
pub struct World {
    plan: Plan,
    /// The events so far.
    pub story: Story,
    host: Host,
    seats: Vec<Seat>,
    common: Common,
    /// Every write that was acknowledged since the clients last looked has survived every stop.
    keeps_promises: bool,
    /// The bytes that were sent to connections without a client.
    to_nobody: Mail,
}

impl World {
    /// A world in which nothing has happened. `keep`: every line of the trace.
    ///
    /// # Errors
    ///
    /// An invariant does not hold.
    pub fn new(seed: u64, plan: Plan, keep: bool) -> Result<World, Violation> {
        let mut story = Story { chance: Chance(seed), trace: Trace::new(keep), counts: Counts::default() };
        note!(story.trace, "{plan:?}");
        let host = Host::new(&plan, &mut story)?;
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
        clients.push(Box::new(Heedless::new(Chaos::new(9, [3, 4]))));
        clients.push(Box::new(Heedless::new(Operator::new(&plan))));
        // Some worlds lack some of them.
        let mut seats = Vec::new();
        for client in clients {
            if seats.is_empty() || !story.once_in(4) {
                seats.push(Seat { client, link: Link::default() });
            }
        }
        story.counts.starts += 1;
        let to_nobody = Mail::new();
        let mut world = World { plan, story, host, seats, common, keeps_promises: true, to_nobody };
        world.connect();
        Ok(world)
    }

    /// Lives all lives.
    ///
    /// # Errors
    ///
    /// An invariant does not hold.
    pub fn run(&mut self) -> Verdict {
        for life in 0..self.plan.lives {
            note!(self.story.trace, "life {life}");
            self.live()?;
            self.end_life()?;
            self.survey()?;
            self.story.counts.disk_steps =
                self.host.hardware.disks.iter().map(redolog::simulated::Simulated::steps).sum();
        }
        Ok(())
    }

    fn connect(&mut self) {
        for (index, seat) in self.seats.iter_mut().enumerate() {
            let worker = self.story.one_of(self.plan.workers);
            seat.link = Link::new(self.host.machine.connect(worker).map(|token| (worker, token)));
            note!(self.story.trace, "{} ({index}) is connected to worker {worker}", seat.client.name());
        }
    }

    // ---- events

    fn live(&mut self) -> Verdict {
        self.host.plan_faults(&mut self.story);
        for _ in 0..20 + self.story.chance.below(self.plan.events) {
            self.event()?;
            if self.host.hardware.is_dead() {
                note!(self.story.trace, "the power fails");
                break;
            }
        }
        Ok(())
    }

    fn tell_time(&mut self) {
        self.common.now = self.host.hardware.clock.unix_ms();
        self.common.latest = self.common.latest.max(self.common.now);
    }

    fn event(&mut self) -> Verdict {
        self.tell_time();
        match self.story.chance.below(110) {
            0..30 => self.ask(),
            30..50 => self.deliver(),
            50..74 => {
                let worker = self.story.one_of(self.plan.workers);
                let mail = self.host.turn(worker, &mut self.story);
                return self.hand_out(mail);
            }
            74..86 => return self.host.step_stream(&mut self.story),
            86..89 => self.host.help(&mut self.story),
            89..95 => return self.host.checkpoint(&mut self.story),
            95..100 => self.host.pass_time(&mut self.story),
            100..105 => self.host.fetch(&mut self.story),
            105 | 106 => return self.host.back_up(&mut self.story),
            _ if self.host.is_full() && self.story.once_in(8) => return self.probe(),
            _ => self.host.change_room(&mut self.story),
        }
        Ok(())
    }

    /// A client sends something.
    fn ask(&mut self) {
        let index = self.story.one_of(self.seats.len());
        let seat = &mut self.seats[index];
        if seat.link.to.is_none() {
            return;
        }
        if let Some(request) = seat.client.next(&mut self.common, &mut self.story.chance) {
            note!(self.story.trace, "{index} asks {request:?}");
            seat.link.send(&request);
        }
    }

    /// Bytes arrive.
    fn deliver(&mut self) {
        let index = self.story.one_of(self.seats.len());
        let link = &mut self.seats[index].link;
        let Some((worker, token)) = link.to.filter(|_| !link.under_way.is_empty()) else { return };
        let there = link.under_way.len() as u64;
        let count = if self.story.once_in(2) { there } else { 1 + self.story.chance.below(there) };
        let bytes: Vec<u8> = link.under_way.drain(..count as usize).collect();
        note!(self.story.trace, "{count} bytes of {index} arrive");
        self.host.machine.workers[worker].input(token, &bytes);
    }

    /// A client looks at a machine whose log has no room.
    fn probe(&mut self) -> Verdict {
        note!(self.story.trace, "a look at a full log");
        let mut link = self.visit();
        let replies = self.call_for(PROBE_STEPS, &mut link, &full::probe())?;
        self.leave(&link);
        match replies.filter(|_| self.host.is_full()) {
            Some(replies) => {
                self.story.counts.full += 1;
                full::check(&replies)
            }
            None => Ok(()),
        }
    }

    fn hand_out(&mut self, mail: Mail) -> Verdict {
        self.common.promise = self.host.machine.process.promise();
        for (worker, token, what) in mail {
            match self.seats.iter().position(|seat| seat.link.to == Some((worker, token))) {
                Some(index) => self.hear(index, what)?,
                None => self.to_nobody.push((worker, token, what)),
            }
        }
        Ok(())
    }

    /// Something has left the machine.
    fn hear(&mut self, index: usize, what: Sent) -> Verdict {
        let (seat, story) = (&mut self.seats[index], &mut self.story);
        match what {
            Sent::Closed => {
                note!(story.trace, "{index} is closed");
                seat.link.to = None;
                seat.client.cut_off();
            }
            Sent::Bytes(bytes) => {
                note!(story.trace, "{index} hears {} bytes {:016x}", bytes.len(), hash(0, &bytes));
                let answers = seat.link.receive(&bytes);
                let answers = answers.map_err(|what| Violation { rule: "replies", what })?;
                for replies in answers {
                    if let Some(why) = refusal(&replies) {
                        note!(story.trace, "{index} is refused: {why}");
                        story.counts.refused += 1;
                        seat.client.refused(&mut self.common);
                    } else {
                        story.counts.answered += 1;
                        seat.client.answered(&mut self.common, replies)?;
                    }
                }
            }
        }
        Ok(())
    }

    // ---- ends and beginnings

    /// The machine stops and starts again.
    fn end_life(&mut self) -> Verdict {
        self.tell_time();
        let is_quiet = !self.host.hardware.is_dead() && self.story.once_in(4) && self.come_to_rest()?;
        self.seats.iter_mut().for_each(|seat| seat.client.cut_off());
        self.keeps_promises &= self.host.restart(is_quiet, &mut self.story)?;
        self.common.promise = self.host.machine.process.promise();
        self.connect();
        Ok(())
    }

    /// Everything that was sent arrives and is done. False: the power fails before.
    fn come_to_rest(&mut self) -> Result<bool, Violation> {
        self.host.make_room(&mut self.story);
        for _ in 0..QUIET_STEPS {
            for seat in &mut self.seats {
                if let Some((worker, token)) = seat.link.to {
                    let bytes: Vec<u8> = seat.link.under_way.drain(..).collect();
                    self.host.machine.workers[worker].input(token, &bytes);
                }
            }
            if self.everybody_works()? {
                return Ok(false);
            }
            let is_answered = self.seats.iter().all(|seat| seat.link.to.is_none() || seat.link.is_quiet());
            // A log that has failed commits nothing more; clients that wait for it are cut off.
            if is_answered && (self.host.is_committed() || self.host.has_failed()) {
                return Ok(true);
            }
        }
        let waiting: Vec<_> =
            self.seats.iter().filter(|seat| !seat.link.is_quiet()).map(|seat| seat.client.name()).collect();
        let (left, marks, state) = (self.host.left(), self.host.machine.marks(), self.host.machine.log.state());
        let what = format!("no rest: {waiting:?} are not answered, {left:?} is left, {marks:?} committed, {state:?}");
        Err(Violation { rule: "rest", what })
    }

    /// Lets all threads work. Returns true if the power has failed.
    fn everybody_works(&mut self) -> Result<bool, Violation> {
        let mail = self.host.everybody_works(&mut self.story)?;
        self.tell_time();
        self.hand_out(mail)?;
        Ok(self.host.hardware.is_dead())
    }

    /// Clients look at the present contents, and go on; unless the power fails meanwhile.
    fn survey(&mut self) -> Verdict {
        let from = self.host.hardware.clock.unix_ms();
        let mut link = self.visit();
        let Some(names) = self.call(&mut link, &survey::names())? else { return Ok(()) };
        let mut names = survey::read_names(&names);
        names.extend(self.common.timed.iter().cloned());
        let Some(values) = self.call(&mut link, &survey::values(&names))? else { return Ok(()) };
        let contents = survey::read_values(&names, &values)?;
        let Some(counted) = self.call(&mut link, &survey::counts())? else { return Ok(()) };
        counts::check(&contents, &counted, self.host.hardware.clock.unix_ms())?;
        note!(self.story.trace, "survey: {contents:?}");
        self.leave(&link);
        self.tell_time();
        let keeps_promises = std::mem::replace(&mut self.keeps_promises, true);
        let found = Found { contents: &contents, from, to: self.common.now, keeps_promises };
        for seat in &mut self.seats {
            seat.client.look(&mut self.common, &found)?;
        }
        Ok(())
    }

    /// A connection for a while.
    fn visit(&mut self) -> Link {
        let worker = self.story.one_of(self.plan.workers);
        Link::new(self.host.machine.connect(worker).map(|token| (worker, token)))
    }

    fn leave(&mut self, link: &Link) {
        if let Some((worker, token)) = link.to {
            self.host.machine.workers[worker].closed(token);
        }
    }

    /// Asks and waits for the answer; `None`: the power fails before.
    fn call(&mut self, link: &mut Link, request: &Request) -> Result<Option<Vec<Value>>, Violation> {
        self.call_for(QUIET_STEPS, link, request)
    }

    /// Sends a request and waits this long for the reply. `None`: the power fails before, or the reply waits for a
    /// record that the log has no room for.
    fn call_for(&mut self, steps: usize, link: &mut Link, request: &Request) -> Result<Option<Vec<Value>>, Violation> {
        let Some((worker, token)) = link.to.filter(|_| !request.is_empty()) else { return Ok(Some(Vec::new())) };
        self.to_nobody.clear();
        link.send(request);
        for _ in 0..steps {
            let bytes: Vec<u8> = link.under_way.drain(..).collect();
            self.host.machine.workers[worker].input(token, &bytes);
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
                    // Its log has failed, and the reply was to wait for a record that is not committed.
                    Sent::Closed if of == token => return Ok(None),
                    _ => {}
                }
            }
        }
        if self.host.is_full() && !self.host.is_committed() {
            return Ok(None);
        }
        Err(Violation { rule: "rest", what: "the survey is not answered".into() })
    }
}
