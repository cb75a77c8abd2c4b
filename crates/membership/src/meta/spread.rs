//! The spreading of slots over nodes: evenly, and in few ranges.

use crate::{SLOTS, Slot};

/// By slot, which of `nodes` nodes owns it: one range each, no two of which differ by more than one slot.
pub fn evenly(nodes: usize) -> impl Iterator<Item = usize> {
    (0..SLOTS).map(move |slot| slot * nodes / SLOTS)
}

/// Runs of equal values: first and last index, and the value.
pub fn runs(owners: &[u32]) -> Vec<(Slot, Slot, u32)> {
    let mut runs: Vec<(Slot, Slot, u32)> = Vec::new();
    for (slot, &owner) in Slot::all().zip(owners) {
        match runs.last_mut() {
            Some(last) if last.2 == owner => last.1 = slot,
            _ => runs.push((slot, slot, owner)),
        }
    }
    runs
}

/// For the present slots of each heir (with its number), how many more of `more` each gets, so that the one with the
/// fewest gets first: in the order of the numbers.
pub fn level(mut heirs: Vec<(usize, u32)>, more: usize) -> Vec<(u32, usize)> {
    heirs.sort_unstable();
    let (mut level, mut among) = (0, 0);
    let total = |among: usize, heirs: &[(usize, u32)]| more + heirs[..among].iter().map(|heir| heir.0).sum::<usize>();
    // The heirs below the level are the first ones: as many as would not have to give anything away.
    for count in 1..=heirs.len() {
        let height = total(count, &heirs) / count;
        if heirs[count - 1].0 > height {
            break;
        }
        (level, among) = (height, count);
    }
    let mut left = more;
    let mut shares: Vec<(u32, usize)> = Vec::new();
    for (index, (has, heir)) in heirs.iter().enumerate() {
        let share = if index < among { (level - has).min(left) } else { 0 };
        left -= share;
        shares.push((*heir, share));
    }
    // The rest is less than one for each of those below the level.
    shares.iter_mut().take(left).for_each(|share| share.1 += 1);
    shares.sort_unstable();
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_spread_evenly_in_one_range_each() {
        for nodes in [1, 2, 3, 5, 7, 1000] {
            let owners: Vec<u32> = evenly(nodes).map(|node| node as u32).collect();
            let runs = runs(&owners);
            assert_eq!(runs.len(), nodes);
            let sizes: Vec<u16> = runs.iter().map(|(start, end, _)| end.get() - start.get()).collect();
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{nodes}");
        }
    }

    #[test]
    fn who_has_least_gets_first() {
        assert_eq!(level(vec![(5461, 1), (5462, 2), (0, 4)], 5461), [(1, 0), (2, 0), (4, 5461)]);
        assert_eq!(level(vec![(4, 1), (4, 2)], 5), [(1, 3), (2, 2)]);
        assert_eq!(level(vec![(1, 1), (9, 2), (3, 3)], 3), [(1, 3), (2, 0), (3, 0)]);
        assert_eq!(level(vec![(1, 1), (9, 2), (3, 3)], 30), [(1, 14), (2, 5), (3, 11)]);
        assert_eq!(level(vec![(7, 3)], 0), [(3, 0)]);
    }
}
