//! Rule O1 over many histories: leaders of the metadata come and go, messages take long, clocks run at different
//! speeds, and at no moment do two nodes serve one slot. Leases are the real ones. Raft is reduced to its promises: one
//! order of entries, and a leader that confirms itself succeeds only if no other was elected meanwhile. An entry names
//! the owner of the slot from then on.
//!
//! Each part of the rule is also left out on purpose: every such mistake is noticed.

use membership::leases::Leases;
use membership::{BootNs, NodeId};

const LEASE: u64 = 1000;
const NODES: usize = 3;

/// The part of the rule that is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mistake {
    None,
    /// The lease is counted from the arrival of the answer.
    FromArrival,
    /// A new leader does not wait for the leases that its predecessors granted.
    NoWait,
    /// A leader grants without a confirmation that it still leads.
    NoConfirmation,
    /// A node that is to lose slots gets leases meanwhile.
    NoFence,
    /// The lease counts before earlier decisions have been applied.
    BeforeApplied,
    /// A node serves although its lease is over.
    LeaseIgnored,
}

/// Pseudo-random numbers from a seed (xorshift64*).
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    }
}

enum Message {
    Renew { from: usize, to: usize, sent: BootNs },
    Confirm { leader: usize, term: u64, from: usize, sent: BootNs },
    Granted { to: usize, sent: BootNs, index: usize },
}

struct Node {
    /// Thousandths by which its clock is fast.
    rate: u64,
    applied: usize,
    owns: bool,
    lease_until: BootNs,
    /// Granted leases, each with the entry that must be applied first.
    waiting: Vec<(usize, BootNs)>,
    leases: Leases,
    /// The leader, as the node believes.
    asks: usize,
    /// The term in which it believes that it leads.
    leads: Option<u64>,
    /// Its proposal without an outcome: the term, the node that loses the slot, and the node that gets it.
    proposed: Option<(u64, usize, usize)>,
}

struct World {
    mistake: Mistake,
    now: u64,
    dice: Dice,
    nodes: Vec<Node>,
    /// The owner of the slot after each entry of the log.
    log: Vec<usize>,
    /// The node that was elected last, and its term.
    elected: (usize, u64),
    messages: Vec<Message>,
    /// How often the slot has changed hands: a history without that proves nothing.
    moves: usize,
}

fn id(n: usize) -> NodeId {
    NodeId([n as u8 + 1; 20])
}

impl World {
    fn new(seed: u64, mistake: Mistake) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let nodes = (0..NODES).map(|_| Node {
            // A tenth between the fastest and the slowest: the rule allows for an eighth.
            rate: 950 + dice.below(100),
            applied: 0,
            owns: false,
            lease_until: BootNs::default(),
            waiting: Vec::new(),
            leases: Leases::new(LEASE),
            asks: 0,
            leads: None,
            proposed: None,
        });
        let nodes = nodes.collect();
        Self { mistake, now: 0, dice, nodes, log: vec![0], elected: (0, 0), messages: Vec::new(), moves: 0 }
    }

    fn clock(&self, n: usize) -> BootNs {
        BootNs(self.now * self.nodes[n].rate / 1000)
    }

    fn any(&mut self) -> usize {
        self.dice.below(NODES as u64) as usize
    }

    fn step(&mut self) {
        match self.dice.below(100) {
            0..25 => self.now += self.dice.below(LEASE / 8),
            25..26 => self.elect(),
            26..28 => self.hear(),
            28..45 => self.renew(),
            45..65 => self.deliver(),
            65..72 => self.propose(),
            72..80 => self.commit(),
            _ => self.apply(),
        }
    }

    fn elect(&mut self) {
        // The former leader's proposal may be in the log of the new one, or not.
        let (before, term) = self.elected;
        if let Some((in_term, from, to)) = self.nodes[before].proposed
            && in_term == term
            && self.dice.below(2) == 0
        {
            self.give(from, to);
        }
        let n = self.any();
        self.elected = (n, term + 1);
        self.log.extend(self.log.last().copied());
        let now = if self.mistake == Mistake::NoWait { BootNs::default() } else { self.clock(n) };
        let node = &mut self.nodes[n];
        node.leads = Some(term + 1);
        node.leases.lead(term + 1, now);
        if let Some((_, from, _)) = node.proposed.take() {
            node.leases.release(id(from));
        }
    }

    /// A node hears of the leader, and maybe that it no longer leads itself.
    fn hear(&mut self) {
        let n = self.any();
        let (leader, newest) = self.elected;
        let node = &mut self.nodes[n];
        node.asks = leader;
        if node.leads.is_some_and(|term| term < newest) {
            node.leads = None;
            if let Some((_, from, _)) = node.proposed.take() {
                node.leases.release(id(from));
            }
        }
    }

    fn renew(&mut self) {
        let from = self.any();
        let to = self.nodes[from].asks;
        let sent = self.clock(from);
        self.messages.push(Message::Renew { from, to, sent });
    }

    fn deliver(&mut self) {
        if self.messages.is_empty() {
            return;
        }
        let at = self.dice.below(self.messages.len() as u64) as usize;
        match self.messages.swap_remove(at) {
            Message::Renew { from, to, sent } => {
                let now = self.clock(to);
                let leader = &mut self.nodes[to];
                let Some(term) = leader.leads else { return };
                let fenced = !leader.leases.grant(term, id(from), now);
                if !fenced || self.mistake == Mistake::NoFence {
                    self.messages.push(Message::Confirm { leader: to, term, from, sent });
                }
            }
            Message::Confirm { leader, term, from, sent } => {
                if self.mistake == Mistake::NoConfirmation {
                    let index = self.nodes[leader].applied;
                    self.messages.push(Message::Granted { to: from, sent, index });
                } else if self.elected == (leader, term) {
                    self.messages.push(Message::Granted { to: from, sent, index: self.log.len() });
                }
            }
            Message::Granted { to, sent, index } => {
                let sent = if self.mistake == Mistake::FromArrival { self.clock(to) } else { sent };
                let index = if self.mistake == Mistake::BeforeApplied { 0 } else { index };
                self.nodes[to].waiting.push((index, sent.after(LEASE)));
                self.settle(to);
            }
        }
    }

    /// A leader proposes to give the slot to another node.
    fn propose(&mut self) {
        let (leader, to) = (self.any(), self.any());
        let now = self.clock(leader);
        let node = &mut self.nodes[leader];
        let (Some(term), None) = (node.leads, node.proposed) else { return };
        let Some(from) = node.applied.checked_sub(1).map(|last| self.log[last]) else { return };
        if from != to && node.leases.fence(term, id(from), now).is_ok() {
            node.proposed = Some((term, from, to));
        }
    }

    /// A leader's proposal is decided, if it still leads.
    fn commit(&mut self) {
        let (leader, term) = self.elected;
        if let Some((in_term, from, to)) = self.nodes[leader].proposed.filter(|proposed| proposed.0 == term) {
            debug_assert_eq!(in_term, term);
            self.give(from, to);
            // The leader has applied it when it answers.
            while self.nodes[leader].applied < self.log.len() {
                self.apply_next(leader);
            }
            let node = &mut self.nodes[leader];
            node.proposed = None;
            node.leases.release(id(from));
        }
    }

    /// Gives the slot to another node, if the first one still owns it.
    fn give(&mut self, from: usize, to: usize) {
        let owner = self.log.last().copied().filter(|owner| *owner != from).unwrap_or(to);
        self.log.push(owner);
        self.moves += 1;
    }

    fn apply(&mut self) {
        let n = self.any();
        if self.nodes[n].applied < self.log.len() {
            self.apply_next(n);
        }
    }

    fn apply_next(&mut self, n: usize) {
        let node = &mut self.nodes[n];
        node.owns = self.log[node.applied] == n;
        node.applied += 1;
        self.settle(n);
    }

    fn settle(&mut self, n: usize) {
        let node = &mut self.nodes[n];
        let applied = node.applied;
        let due = node.waiting.iter().filter(|(index, _)| *index <= applied).map(|(_, until)| *until).max();
        node.lease_until = node.lease_until.max(due.unwrap_or_default());
        node.waiting.retain(|(index, _)| *index > applied);
    }

    fn serves(&self, n: usize) -> bool {
        let node = &self.nodes[n];
        node.owns && (node.lease_until > self.clock(n) || self.mistake == Mistake::LeaseIgnored)
    }
}

/// Plays a history. Returns the step after which two nodes served the slot, if any, and how often it changed hands.
fn play(seed: u64, mistake: Mistake) -> (Option<usize>, usize) {
    let mut world = World::new(seed, mistake);
    for step in 0..1500 {
        world.step();
        if (0..NODES).filter(|&n| world.serves(n)).count() > 1 {
            return (Some(step), world.moves);
        }
    }
    (None, world.moves)
}

#[test]
fn no_two_nodes_serve_a_slot_o1() {
    let seeds = std::env::var("HOLDFAST_SEEDS").map_or(300, |seeds| seeds.parse().expect("a number of seeds"));
    let mut moves = 0;
    for seed in 1..=seeds {
        let (two, moved) = play(seed, Mistake::None);
        assert_eq!(two, None, "two nodes served the slot: seed {seed}");
        moves += moved;
    }
    assert!(moves as u64 > seeds, "the slot changes hands: {moves} times");
}

#[test]
fn every_mistake_is_noticed_o1() {
    use Mistake::*;
    for mistake in [FromArrival, NoWait, NoConfirmation, NoFence, BeforeApplied, LeaseIgnored] {
        let noticed = (1..=3000).find(|&seed| play(seed, mistake).0.is_some());
        println!("{mistake:?}: seed {noticed:?}");
        assert!(noticed.is_some(), "{mistake:?}");
    }
}
