//! Work without the latch, and things that several readers may hold at once. Mainly for Miri (CONTRIBUTING.md says how
//! to run it).

use object::list::End;
use object::{Limits, List};

use super::name;
use crate::access::AccessClock;
use crate::{Db, Keyspace, Version};

/// Miri is slow.
const TURNS: u16 = if cfg!(miri) { 24 } else { 100 };

#[test]
fn unlatched_and_twice_read() {
    let ks = Keyspace::new(2, 3, 7);
    let (mut one, mut other) = (ks.local(0), ks.local(1));
    let clock = AccessClock::new(1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..2 * TURNS {
                other.begin_turn();
                let key = ks.hasher().key(b"{tag}a");
                ks.prefetch_slot(key.slot);
                ks.prefetch_bucket(&other, key.slot, key.hash.wrapping_mul(n.into()));
                ks.prefetch_entry(&other, key.slot, key.hash);
                other.end_turn();
                std::thread::yield_now();
            }
        });
        let slot = ks.hasher().key(b"{tag}").slot;
        for n in 0..TURNS {
            one.begin_turn();
            let Some(held) = ks.try_one(slot) else { panic!("nobody else takes latches") };
            let mut db = Db::new(&ks, &held, &mut one, &clock, n % 3, Version(n.into()));
            let name = [b"{tag}".as_slice(), &name(n / 3)].concat();
            let key = db.key(&name);
            let Ok(mut list) = db.get_or_create::<List>(&key) else { panic!("a list") };
            list.push(End::Back, b"element", &Limits::default());
            drop(list);
            let (Ok(Some(first)), Ok(Some(second))) = (db.read_as::<List>(&key), db.read_as::<List>(&key)) else {
                panic!("it is there");
            };
            assert_eq!(first.len() + second.len(), 2);
            ks.attach(&held, slot, Some(Box::new(n)));
            assert_eq!(ks.with_attachment(&held, slot, |a| a.downcast_ref().copied()), Some(Some(n)));
            assert!(ks.interest(&held, slot));
            ks.attach(&held, slot, None);
            one.publish_counts();
            ks.release(held, |_| {});
            one.end_turn();
        }
    });
    assert_eq!(
        (ks.len(0), ks.len(1), ks.len(2)),
        (u64::from(TURNS.div_ceil(3)), u64::from(TURNS / 3), u64::from(TURNS / 3))
    );
}
