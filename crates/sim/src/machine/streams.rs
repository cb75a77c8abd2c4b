//! The streams of the log, a step at a time.

use redolog::simulated::{Chance, Open, Simulated};
use redolog::{After, Flight, Stepped};

use super::Machine;

/// A stream of the log.
pub struct Stream {
    stepped: Stepped<Simulated>,
    /// Blocks on their way to the disk.
    flights: Vec<Flight<Open>>,
    /// It was stopped, or has failed.
    pub has_ended: bool,
}

impl Stream {
    /// One that begins.
    pub(super) fn new(stepped: Stepped<Simulated>) -> Self {
        Self { stepped, flights: Vec::new(), has_ended: false }
    }
}

impl Machine {
    /// A step of one of a stream's threads. `apart`: a block that the step hands out is written later, by
    /// [`Self::land`]. Returns the result of the step, or nothing if it handed out a block.
    pub fn step_stream(&mut self, stream: usize, late: bool, apart: bool) -> Option<After> {
        let stream = &mut self.streams[stream];
        if stream.has_ended {
            return None;
        }
        let step = if apart || !stream.flights.is_empty() {
            stream.stepped.step_apart(late)
        } else {
            redolog::Step::Then(stream.stepped.step(late))
        };
        match step {
            redolog::Step::Write(flight) => {
                stream.flights.push(flight);
                None
            }
            redolog::Step::Then(after) => {
                stream.has_ended = after == After::End;
                Some(after)
            }
        }
    }

    /// How many blocks of a stream are on their way to the disk.
    pub fn in_flight(&self, stream: usize) -> usize {
        self.streams[stream].flights.len()
    }

    /// One of a stream's blocks is written. A step of the stream follows.
    pub fn land(&mut self, stream: usize, which: usize) {
        let stream = &mut self.streams[stream];
        let flight = stream.flights.remove(which);
        let written = flight.write();
        stream.stepped.land(flight, written);
    }

    /// The machine stops. Of the blocks on their way some are written, as a whole or in part, though no thread was
    /// told.
    pub fn interrupt_flights(&mut self, disks: &[Simulated], chance: &mut Chance) {
        for (stream, disk) in self.streams.iter_mut().zip(disks).filter(|(_, disk)| !disk.is_dead()) {
            for flight in stream.flights.drain(..) {
                match chance.below(3) {
                    0 => {}
                    1 => drop(flight.write()),
                    _ => {
                        disk.fail_power_after(0);
                        let _ = flight.write();
                        disk.kill();
                    }
                }
            }
        }
    }

    /// A job of a stream's helper. False: it has none.
    pub fn help_stream(&mut self, stream: usize, helper: usize) -> bool {
        self.streams[stream].stepped.help(helper)
    }
}
