//! Interleavings that a rule is there for, step by step: with the mistake they break, and without it they do not.

use super::world::{Packet, Plan, Plant, World};
use crate::planted::Mistake;
use crate::{Order, Request, StreamId, Term};

/// The acceptors.
const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

const FIRST: u16 = 0;
const SECOND: u16 = 1;

struct Story {
    plan: Plan,
    world: World,
}

impl Story {
    fn new(plan: Plan) -> Self {
        let plan = Plan { writes: 9, ..plan };
        Self { world: World::led(&plan), plan }
    }

    /// Delivers what is for an acceptor in a stream, or its seal, of the last term.
    fn deliver(&mut self, at: usize, stream: Option<u16>) {
        let term = Term::new(self.world.given).expect("a term");
        let is_it = |packet: &&Packet| match packet {
            Packet::To(to, Request { term: of, order: Order::Append { stream: other, .. }, .. }) => {
                *to == at && *of == term && stream.map(StreamId) == Some(*other)
            }
            Packet::To(to, Request { term: of, order: Order::Seal, .. }) => {
                *to == at && *of == term && stream.is_none()
            }
            _ => false,
        };
        while let Some(packet) = self.world.network.iter().find(is_it).cloned() {
            self.world.network.remove(&packet);
            self.world.deliver(&self.plan, packet);
        }
    }

    fn host(&self) -> usize {
        self.world.hosts.len() - 1
    }

    fn write(&mut self, stream: u16, stands: bool) {
        self.world.write(&self.plan, self.host(), StreamId(stream), stands);
    }

    /// Gives a term. These acceptors answer its seal.
    fn seal(&mut self, answer: [usize; 2]) {
        self.world.network.clear();
        self.world.give(&self.plan, false);
        answer.into_iter().for_each(|at| self.deliver(at, None));
    }

    fn broken(&self) -> Option<&'static str> {
        self.world.ghosts.broken
    }
}

/// Rule G5: a record over two streams is torn if each stream leads by itself.
fn two_streams(plant: Plant) -> Story {
    let mut story = Story::new(Plan { plant, ..Plan::new(9, 2) });
    // X in the second stream reaches A alone, and Y in the first one, which stands on X, reaches C alone.
    story.write(SECOND, false);
    story.deliver(A, Some(SECOND));
    story.write(FIRST, true);
    story.deliver(C, Some(FIRST));
    // The next term does not see X, and cuts Y. Its start reaches a majority in the second stream only.
    story.seal([B, C]);
    story.deliver(B, Some(SECOND));
    story.deliver(C, Some(SECOND));
    story.deliver(B, Some(FIRST));
    // If it leads in that stream, Z goes to a majority there.
    story.write(SECOND, false);
    story.deliver(B, Some(SECOND));
    story.deliver(C, Some(SECOND));
    // The third term sees Y, and a second stream that ends above X.
    story.seal([A, C]);
    for at in [A, C] {
        story.deliver(at, Some(FIRST));
        story.deliver(at, Some(SECOND));
    }
    story
}

#[test]
fn p25_a_stream_leads_alone() {
    let story = two_streams(Plant::Inside(Mistake::StreamLeads));
    assert_eq!(story.broken(), Some("a record is served without what it stands on"));
    let story = two_streams(Plant::None);
    assert_eq!(story.broken(), None);
    assert!(story.world.hosts[2].leads && !story.world.hosts[1].leads);
}

/// Rule G5: figure 8 of the paper on Raft.
fn figure_8(plant: Plant) -> Story {
    let mut story = Story::new(Plan { plant, ..Plan::new(9, 1) });
    // The record of term 1 reaches A alone. Term 2 does not see it, and its start reaches B alone.
    story.write(FIRST, false);
    story.deliver(A, Some(FIRST));
    story.seal([B, C]);
    story.deliver(B, Some(FIRST));
    // Term 3 takes it over from A, and brings it to C. Its own start reaches nobody.
    story.plan.limits.window_blocks = 1;
    story.seal([A, C]);
    let first = story.world.network.iter().find(|packet| matches!(packet, Packet::To(C, _))).cloned();
    let first = first.expect("the old block");
    story.world.network.remove(&first);
    story.world.deliver(&story.plan, first);
    // Term 4 sees the start of term 2, which ranks above.
    story.seal([B, C]);
    story.deliver(B, Some(FIRST));
    story.deliver(C, Some(FIRST));
    story
}

#[test]
fn an_old_block_on_a_majority_may_still_be_replaced() {
    let story = figure_8(Plant::Inside(Mistake::CountsOldTerms));
    assert!(story.broken().is_some());
    let story = figure_8(Plant::None);
    assert_eq!(story.broken(), None);
    assert_eq!(story.world.ghosts.acknowledged.len(), 0, "nobody was told of the record");
    assert!(story.world.hosts[3].leads);
}
