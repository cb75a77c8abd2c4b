//! All deeds are as if they had been done one after the other, and a deed that began after another was answered comes
//! after it. This is strict serializability of lists that are appended to (as Elle has it: Kingsbury and Alvaro, 2020).
//! A list says in which order it was appended to. A deed that has seen it comes after the last deed in it and before
//! the next. Together with the order of time, these must not form a cycle.

use std::collections::BTreeMap;

use super::Lists;
use super::lease::is_of_last_owner;
use crate::invariants::{Verdict, Violation, violated};
use crate::nodes::history::{Came, Deed, History, NEVER};

/// A list in the hands of one owner: the key's number, and whether that is the last owner.
type Place = (usize, bool);

/// See the module's text.
///
/// # Errors
///
/// The invariant does not hold.
pub fn check(history: &History, lists: &Lists) -> Verdict {
    let orders = orders(history, lists)?;
    let mut graph = Graph::new(history.deeds.len());
    for order in orders.values() {
        order.windows(2).for_each(|pair| graph.edge(pair[0] as usize, pair[1] as usize));
    }
    for (number, deed) in done(history) {
        for (key, seen) in &deed.reads {
            let Some(is_last) = is_of_last_owner(history, lists, deed, *key, Some(seen)) else { continue };
            let Some(order) = orders.get(&(*key, is_last)) else { continue };
            // If the deed appended first, its own element is the end of what it has seen.
            let before = seen.iter().rposition(|by| *by != number as u64);
            if let Some(before) = before {
                graph.edge(seen[before] as usize, number);
            }
            if let Some(next) = order.get(seen.len()) {
                graph.edge(number, *next as usize);
            }
        }
    }
    graph.in_time(&history.deeds, |number| {
        history.deeds[number].came == Came::Done || orders.values().any(|order| order.contains(&(number as u64)))
    });
    match graph.circle() {
        None => Ok(()),
        Some(circle) => {
            let deeds = circle.iter().map(|number| format!("{number}: {:?}", history.deeds[*number]));
            violated("serializable", format_args!("no order explains\n  {}", deeds.collect::<Vec<_>>().join("\n  ")))
        }
    }
}

fn done(history: &History) -> impl Iterator<Item = (usize, &Deed)> {
    history.deeds.iter().enumerate().filter(|(_, deed)| deed.came == Came::Done)
}

/// The order in which each list was appended to: its contents at the end or, for an earlier owner, the longest contents
/// that any deed has seen. All contents that a deed has seen are a prefix of that.
fn orders(history: &History, lists: &Lists) -> Result<BTreeMap<Place, Vec<u64>>, Violation> {
    let mut orders: BTreeMap<Place, Vec<u64>> = BTreeMap::new();
    for (key, list) in lists.iter().enumerate() {
        orders.insert((key, true), list.clone());
    }
    let reads = || done(history).flat_map(|(number, deed)| deed.reads.iter().map(move |read| (number, deed, read)));
    for (_, deed, (key, seen)) in reads() {
        if is_of_last_owner(history, lists, deed, *key, Some(seen)) == Some(false) {
            let order = orders.entry((*key, false)).or_default();
            if order.len() < seen.len() {
                *order = seen.clone();
            }
        }
    }
    for (number, deed, (key, seen)) in reads() {
        let Some(is_last) = is_of_last_owner(history, lists, deed, *key, Some(seen)) else { continue };
        let order = orders.get(&(*key, is_last)).map_or(&[][..], |order| order);
        if !order.starts_with(seen) {
            let what = format!("{number} has seen {seen:?} in list {key}, which is {order:?}");
            return Err(Violation { rule: "serializable", what });
        }
    }
    Ok(orders)
}

/// Which deeds and moments come before which.
struct Graph {
    deeds: usize,
    after: Vec<Vec<usize>>,
}

impl Graph {
    fn new(deeds: usize) -> Self {
        Self { deeds, after: vec![Vec::new(); deeds] }
    }

    fn edge(&mut self, from: usize, to: usize) {
        if from != to {
            self.after[from].push(to);
        }
    }

    /// An answered deed comes before a deed that begins later, by way of a chain of the moments at which deeds were
    /// answered.
    fn in_time(&mut self, deeds: &[Deed], counts: impl Fn(usize) -> bool) {
        let counted: Vec<usize> = (0..deeds.len()).filter(|number| counts(*number)).collect();
        let mut ends: Vec<(u64, usize)> =
            counted.iter().map(|number| (deeds[*number].ended, *number)).filter(|(ended, _)| *ended < NEVER).collect();
        ends.sort_unstable();
        let first = self.after.len();
        for (place, (_, number)) in ends.iter().enumerate() {
            self.after.push(Vec::new());
            self.edge(*number, first + place);
            if place > 0 {
                self.edge(first + place - 1, first + place);
            }
        }
        for number in counted {
            let before = ends.partition_point(|(ended, _)| *ended < deeds[number].began);
            if before > 0 {
                self.edge(first + before - 1, number);
            }
        }
    }

    /// Deeds that come before each other in a circle, if there are any.
    fn circle(&self) -> Option<Vec<usize>> {
        let mut before = vec![0usize; self.after.len()];
        self.after.iter().flatten().for_each(|to| before[*to] += 1);
        let mut free: Vec<usize> = (0..before.len()).filter(|at| before[*at] == 0).collect();
        let mut left = before.len();
        while let Some(at) = free.pop() {
            left -= 1;
            for to in &self.after[at] {
                before[*to] -= 1;
                if before[*to] == 0 {
                    free.push(*to);
                }
            }
        }
        if left == 0 {
            return None;
        }
        // Each deed that is left has a predecessor that is left, so going back leads into a cycle.
        let mut earlier = vec![None; before.len()];
        for (from, after) in self.after.iter().enumerate().filter(|(from, _)| before[*from] > 0) {
            after.iter().filter(|to| before[**to] > 0).for_each(|to| earlier[*to] = Some(from));
        }
        let mut at = (0..before.len()).find(|at| before[*at] > 0)?;
        let mut path = Vec::new();
        while !path.contains(&at) {
            path.push(at);
            at = earlier[at]?;
        }
        let begins = path.iter().position(|on| *on == at)?;
        let mut circle: Vec<usize> = path[begins..].iter().copied().filter(|at| *at < self.deeds).collect();
        circle.reverse();
        Some(circle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deed(began: u64, ended: u64, reads: &[(usize, &[u64])], appends: &[usize]) -> Deed {
        Deed {
            client: 0,
            began,
            ended,
            came: if ended == NEVER { Came::Unknown } else { Came::Done },
            reads: reads.iter().map(|(key, seen)| (*key, seen.to_vec())).collect(),
            appends: appends.iter().map(|key| (*key, None)).collect(),
            wrote: None,
            saw: None,
        }
    }

    fn verdict(deeds: Vec<Deed>, lists: &[&[u64]]) -> Result<(), String> {
        let lists: Vec<Vec<u64>> = lists.iter().map(|list| list.to_vec()).collect();
        check(&History::of(deeds), &lists).map_err(|violation| violation.what)
    }

    #[test]
    fn what_has_an_order_is_right() {
        let deeds = vec![
            deed(1, 5, &[], &[0, 1]),
            deed(2, 6, &[(0, &[0]), (1, &[0])], &[0]),
            deed(3, NEVER, &[], &[1]),
            deed(7, 8, &[(0, &[0, 1]), (1, &[0, 2])], &[]),
        ];
        assert_eq!(verdict(deeds, &[&[0, 1], &[0, 2]]), Ok(()));
    }

    #[test]
    fn who_comes_later_sees_what_was_answered() {
        let deeds = vec![deed(1, 2, &[], &[0]), deed(3, 4, &[(0, &[])], &[])];
        assert!(verdict(deeds, &[&[0]]).is_err());
    }

    #[test]
    fn two_that_have_not_seen_each_other_have_no_order() {
        let deeds = vec![deed(1, 9, &[(0, &[])], &[1]), deed(2, 8, &[(1, &[])], &[0])];
        assert!(verdict(deeds, &[&[1], &[0]]).is_err());
    }

    #[test]
    fn half_of_another_is_not_seen() {
        let deeds = vec![deed(1, 9, &[], &[0, 1]), deed(2, 8, &[(0, &[0]), (1, &[])], &[])];
        assert!(verdict(deeds, &[&[0], &[0]]).is_err());
    }

    #[test]
    fn what_never_was_is_not_seen() {
        let deeds = vec![deed(1, 9, &[], &[0]), deed(2, 8, &[(0, &[7])], &[])];
        assert!(verdict(deeds, &[&[0]]).is_err());
    }
}
