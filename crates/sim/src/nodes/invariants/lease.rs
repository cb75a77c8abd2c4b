//! No two nodes serve one slot (rule O1), judged by the leases they hold and by what clients saw. A request that begins
//! after a slot got another owner is not served by the earlier one.

use membership::Slot;

use super::Lists;
use crate::invariants::{Verdict, violated};
use crate::nodes::clients::list;
use crate::nodes::history::{Came, Deed, History};
use crate::nodes::metadata;
use crate::nodes::world::World;

/// At any moment.
///
/// # Errors
///
/// The invariant does not hold.
pub fn check(world: &World) -> Verdict {
    if world.plan.clients_only {
        return Ok(());
    }
    for key in 0..world.plan.movable {
        let slot = keyspace::slot_of(list(key).as_bytes());
        let serves = |node: &usize| {
            let member = &world.members[*node];
            let map = member.seat.map();
            let owns = map.owner_of(Slot::of(slot)).is_some_and(|owner| map.node(owner).id == metadata::id(*node));
            owns && !member.is_off && member.boot_ns_at(world.now) < member.seat.until()
        };
        let serving: Vec<usize> = (0..world.members.len()).filter(serves).collect();
        if serving.len() > 1 {
            return violated("lease", format_args!("nodes {serving:?} serve slot {slot} of key {key}"));
        }
    }
    Ok(())
}

/// True if the generation of a list that a deed has seen or made is that of the last owner of the key's slot. `None`:
/// the history does not tell.
pub fn is_of_last_owner(
    history: &History,
    lists: &Lists,
    deed: &Deed,
    key: usize,
    seen: Option<&[u64]>,
) -> Option<bool> {
    let Some(moved) = history.moved.get(&key) else { return Some(true) };
    match seen.and_then(|seen| seen.first()) {
        Some(first) => Some(lists[key].first() == Some(first)),
        None if deed.began > *moved => Some(true),
        None if deed.ended < *moved => Some(false),
        None => None,
    }
}

/// The same, judged by the replies to clients.
///
/// # Errors
///
/// The invariant does not hold.
pub fn check_history(history: &History, lists: &Lists) -> Verdict {
    for (key, moved) in &history.moved {
        for (number, deed) in history.deeds.iter().enumerate().filter(|(_, deed)| deed.came == Came::Done) {
            for (_, seen) in deed.reads.iter().filter(|(of, _)| of == key) {
                let is_last = is_of_last_owner(history, lists, deed, *key, Some(seen));
                if deed.began > *moved && is_last == Some(false) {
                    let what = format_args!(
                        "{number} was shown {seen:?} of list {key} by who owned it before; it is {:?}",
                        lists[*key]
                    );
                    return violated("lease", what);
                }
                if deed.ended < *moved && is_last == Some(true) && !seen.is_empty() {
                    return violated(
                        "lease",
                        format_args!("{number} was shown {seen:?} of list {key} before it moved"),
                    );
                }
            }
        }
    }
    Ok(())
}
