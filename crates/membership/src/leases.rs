//! Leases (rule O1), as the leader of the metadata remembers them. Pure: the time is handed in.
//!
//! A lease runs from the sending of its renewal, by the clock of the node that has sent it. The leader counts from the
//! arrival, which is later, and adds an eighth for clocks that run at different speeds. So a lease that is over here is
//! over there. It does not know the grants of earlier leaders. So it waits a full lease before it gives slots to
//! another node.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::{BootNs, NodeId};

/// A leader's grants.
#[derive(Debug)]
pub struct Leases {
    lease_ns: u64,
    /// The term for which the pause holds.
    term: u64,
    /// The end of the grants of earlier leaders.
    inherited: BootNs,
    /// The end of each grant.
    granted: BTreeMap<NodeId, BootNs>,
    /// The nodes that get nothing while their slots are given to others, and by how many commands they are.
    fenced: BTreeMap<NodeId, usize>,
}

impl Leases {
    /// Of leases that last `lease_ns` nanoseconds.
    pub fn new(lease_ns: u64) -> Self {
        Self { lease_ns, term: 0, inherited: BootNs::default(), granted: BTreeMap::new(), fenced: BTreeMap::new() }
    }

    fn over(&self, now: BootNs) -> BootNs {
        now.after(self.lease_ns).after(self.lease_ns / 8)
    }

    /// The node leads in `term`, which it may have found out just now.
    pub fn lead(&mut self, term: u64, now: BootNs) {
        if term != self.term {
            let fenced = std::mem::take(&mut self.fenced);
            *self = Self { term, inherited: self.over(now), fenced, ..Self::new(self.lease_ns) };
        }
    }

    /// A renewal has arrived. Returns true if it may be granted, provided that the node still leads when asked after
    /// this.
    pub fn grant(&mut self, term: u64, id: NodeId, now: BootNs) -> bool {
        self.lead(term, now);
        if self.fenced.contains_key(&id) {
            return false;
        }
        let over = self.over(now);
        let until = self.granted.entry(id).or_default();
        *until = over.max(*until);
        true
    }

    /// How long the node may still have a lease, in nanoseconds.
    pub fn left(&mut self, term: u64, id: NodeId, now: BootNs) -> u64 {
        self.lead(term, now);
        self.granted.get(&id).copied().unwrap_or_default().max(self.inherited).left(now)
    }

    /// How long a lease goes on that this leader has granted the node, in nanoseconds.
    pub fn held(&self, id: NodeId, now: BootNs) -> u64 {
        self.granted.get(&id).copied().unwrap_or_default().left(now)
    }

    /// The node's slots are to be given away: it gets no lease any more. Refused while it may have one, with the
    /// remaining time.
    ///
    /// # Errors
    ///
    /// For how many more nanoseconds the node may hold one.
    pub fn fence(&mut self, term: u64, id: NodeId, now: BootNs) -> Result<(), u64> {
        self.lead(term, now);
        match self.left(term, id, now) {
            0 => {
                *self.fenced.entry(id).or_default() += 1;
                Ok(())
            }
            left => Err(left),
        }
    }

    /// A command for which it was fenced has been applied, or has failed.
    pub fn release(&mut self, id: NodeId) {
        if let Entry::Occupied(mut commands) = self.fenced.entry(id) {
            *commands.get_mut() -= 1;
            if *commands.get() == 0 {
                commands.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: NodeId = NodeId([1; 20]);

    #[test]
    fn a_new_leader_waits_a_full_lease_o1() {
        let mut leases = Leases::new(800);
        assert_eq!(leases.fence(1, A, BootNs(100)), Err(900));
        assert_eq!(leases.fence(1, A, BootNs(999)), Err(1));
        assert_eq!(leases.fence(1, A, BootNs(1000)), Ok(()));
        leases.release(A);
        assert!(leases.grant(2, A, BootNs(1100)), "another term");
        assert_eq!(leases.fence(2, A, BootNs(1200)), Err(800));
        assert_eq!(leases.fence(3, A, BootNs(5000)), Err(900), "whatever is known of earlier ones");
        assert_eq!(leases.left(4, A, BootNs(6000)), 900, "also if that is all that it is asked");
    }

    /// Two commands that take slots from the same node may be under way at once.
    #[test]
    fn who_is_fenced_twice_gets_no_lease_before_both_are_over_o1() {
        let mut leases = Leases::new(800);
        leases.lead(1, BootNs(0));
        leases.fence(1, A, BootNs(900)).unwrap();
        leases.fence(1, A, BootNs(901)).unwrap();
        leases.release(A);
        assert!(!leases.grant(1, A, BootNs(902)));
        leases.release(A);
        assert!(leases.grant(1, A, BootNs(903)));
    }

    #[test]
    fn who_is_fenced_gets_no_lease_o1() {
        let mut leases = Leases::new(800);
        leases.lead(1, BootNs(0));
        leases.fence(1, A, BootNs(900)).unwrap();
        assert!(!leases.grant(1, A, BootNs(901)));
        assert!(!leases.grant(2, A, BootNs(902)), "also if the term has changed meanwhile");
        leases.release(A);
        assert!(
            leases.grant(2, A, BootNs(903)) && leases.held(A, BootNs(904)) > 0 && leases.held(A, BootNs(1803)) == 0
        );
    }

    proptest! {
        /// However long messages take, and although the clock of the holder runs up to a tenth slower: no holder of a
        /// lease is fenced (O1).
        #[test]
        fn nobody_is_fenced_who_holds_a_lease(steps in prop::collection::vec((0u64..400, 0u64..900, 0u8..3), 1..40)) {
            let (mut now, mut leases, mut held, mut fences) = (0u64, Leases::new(1000), 0u64, 0u32);
            for (wait, delay, what) in steps {
                now += wait;
                match what {
                    0 => {
                        let sent = now;
                        now += delay;
                        if leases.grant(1, A, BootNs(now)) {
                            // In the time of this test a holder's slow second takes up to 1.1 of ours.
                            held = held.max(sent + 1100);
                        }
                    }
                    1 => fences += u32::from(leases.fence(1, A, BootNs(now)).is_ok()),
                    _ => {
                        leases.release(A);
                        fences = fences.saturating_sub(1);
                    }
                }
                prop_assert!(fences == 0 || held <= now, "fenced at {now}, held until {held}");
            }
        }
    }
}
