//! Large values, of which loaders read only so much at once.

use super::*;

const SIZE: usize = 1 << 20;
const LARGE: [&str; 4] = ["a", "b", "e", "f"];

/// Four loaders are asked for a large value each, and one of them for a small one as well.
fn asked(cold: &mut Cold) -> Vec<Loader> {
    for (name, size) in LARGE.into_iter().zip([SIZE; 4]).chain([("key:1", 20_000)]) {
        cold.run(false, &[["0", "set", name, &"x".repeat(size)].map(String::from).to_vec()]);
    }
    cold.checkpoint();
    assert_eq!(cold.evict(), 5);
    for name in LARGE.into_iter().chain(["key:1"]) {
        assert!(cold.try_one(&["0", "strlen", name].map(String::from)).is_none(), "{name} is waited for");
    }
    (2..6).map(|index| Loader::new(cold.engine.shared.clone(), index)).collect()
}

/// Large values that loaders have read, while nobody can put any into memory.
fn in_flight(cold: &Cold) -> usize {
    let read = cold.shelf.read.lock().unwrap();
    read.iter().filter_map(Weak::upgrade).filter(|text| text.len() == SIZE).count()
}

fn serve_all(cold: &mut Cold, loaders: &mut [Loader]) {
    let shared = cold.engine.shared.clone();
    for loader in loaders {
        loader.serve(shared.requests.take(1, Duration::ZERO).unwrap(), 0, |_| {});
    }
}

#[test]
fn loaders_read_only_so_much_at_once_of_what_is_large() {
    let mut cold = Cold::new();
    let shared = cold.engine.shared.clone();
    shared.budget.limit_to(5 * SIZE as u64 / 2);
    let mut loaders = asked(&mut cold);
    // Nobody can put anything into memory.
    let Ok(held) = shared.keyspace.try_acquire(&Need::All, |_| {}) else { panic!("nobody else is there") };
    let rounds = (0..20).map(|_| {
        serve_all(&mut cold, &mut loaders);
        in_flight(&cold)
    });
    assert_eq!(rounds.max(), Some(2));
    assert!(shared.requests.is_empty() && loaders.iter().all(Loader::is_busy));
    shared.keyspace.release(held, |_| {});
    for _ in 0..20 {
        serve_all(&mut cold, &mut loaders);
    }
    assert!(!loaders.iter().any(Loader::is_busy) && !shared.budget.is_wanted());
    for name in LARGE.into_iter().chain(["key:1"]) {
        assert!(cold.try_one(&["0", "strlen", name].map(String::from)).is_some(), "{name} is there");
    }
}

#[test]
fn what_a_loader_has_not_done_when_it_ends_others_need_not_wait_for() {
    let mut cold = Cold::new();
    let shared = cold.engine.shared.clone();
    shared.budget.limit_to(1);
    let mut loaders = asked(&mut cold);
    let Ok(held) = shared.keyspace.try_acquire(&Need::All, |_| {}) else { panic!("nobody else is there") };
    serve_all(&mut cold, &mut loaders);
    assert!(in_flight(&cold) == 1 && shared.budget.is_wanted());
    drop(loaders);
    shared.keyspace.release(held, |_| {});
    assert!(in_flight(&cold) == 0 && !shared.budget.is_wanted());
    assert!(shared.budget.take(u64::MAX, u64::MAX), "nothing is taken of it");
}
