//! Sets against a `BTreeSet`, in all forms.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

type Model = BTreeSet<Vec<u8>>;

/// Thresholds low enough to be met often.
fn limits() -> Limits {
    Limits { set_max_intset_entries: 12, set_max_listpack_entries: 9, set_max_listpack_value: 16, ..Limits::default() }
}

#[derive(Clone, Debug)]
enum Step {
    Add(Vec<u8>),
    Remove(Vec<u8>),
    RemoveNth(u64),
    Expect(usize),
    Freeze,
}

fn member() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => (-30..30i64).prop_map(|n| n.to_string().into_bytes()),
        1 => any::<i64>().prop_map(|n| n.to_string().into_bytes()),
        4 => "[ab]{0,3}".prop_map(String::into_bytes),
        1 => Just(b"007".to_vec()),
        1 => (0..40usize).prop_map(|n| vec![b'x'; n]),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => member().prop_map(Step::Add),
        6 => member().prop_map(Step::Remove),
        1 => (0..16u64).prop_map(Step::RemoveNth),
        1 => (0..14usize).prop_map(Step::Expect),
        1 => Just(Step::Freeze),
    ];
    prop::collection::vec(step, 0..80)
}

fn agree(set: &Set, model: &Model) {
    assert_eq!(set.len(), model.len() as u64);
    let members: Vec<Vec<u8>> = set.iter().map(|member| member.to_vec()).collect();
    assert_eq!(&members.iter().cloned().collect::<Model>(), model);
    for (rank, member) in members.iter().enumerate() {
        assert_eq!(set.nth(rank as u64).map(|elem| elem.to_vec()).as_ref(), Some(member));
        assert!(set.contains(member));
        assert!(set.contains_elem(Elem::Bytes(member)) && set.contains_elem(Elem::from_bytes(member)));
    }
    assert!(set.nth(set.len()).is_none());
    let (mut seen, mut cursor) = (Vec::new(), 0);
    loop {
        cursor = set.scan(cursor, 3, |member| seen.push(member.to_vec()));
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(seen, members);
    let mut bytes = Vec::new();
    set.encode(&mut bytes);
    let again = Set::decode(&bytes).expect("just encoded");
    assert_eq!(again.encoding(), set.encoding());
    assert_eq!(again.iter().map(|member| member.to_vec()).collect::<Model>(), *model);
}

proptest! {
    #[test]
    fn behaves_like_a_set(steps in steps()) {
        let (limits, mut set, mut model) = (limits(), Set::new(), Model::new());
        let mut frozen = Vec::new();
        for step in steps {
            match step {
                Step::Add(member) => prop_assert_eq!(set.add(&member, &limits), model.insert(member)),
                Step::Remove(member) => prop_assert_eq!(set.remove(&member), model.remove(&member)),
                Step::RemoveNth(rank) => match set.remove_nth(rank, |member| member.to_vec()) {
                    Some(member) => prop_assert!(model.remove(&member)),
                    None => prop_assert!(rank >= model.len() as u64),
                },
                Step::Expect(count) => set.expect(count, &limits),
                Step::Freeze => frozen.push((set.clone(), model.clone())),
            }
        }
        agree(&set, &model);
        for (set, model) in &frozen {
            agree(set, model);
        }
        set.fit(&Limits { set_max_intset_entries: 0, set_max_listpack_entries: 0, ..limits });
        agree(&set, &model);
    }

    #[test]
    fn members_collected_make_the_set_that_adding_makes(members in prop::collection::btree_set(member(), 0..16)) {
        let limits = limits();
        let mut set = Set::new();
        members.iter().for_each(|member| assert!(set.add(member, &limits)));
        let collected: Members = members.iter().map(|member| Elem::from_bytes(member)).collect();
        let collected = collected.into_set(&limits);
        prop_assert_eq!(collected.encoding(), set.encoding());
        agree(&collected, &members);
    }

    #[test]
    fn any_bytes_decode_or_fail(form in 0..4u8, rest in prop::collection::vec(any::<u8>(), 0..60)) {
        let bytes = [&[1, form][..], &rest].concat();
        if let Ok(set) = Set::decode(&bytes) {
            agree(&set, &set.iter().map(|member| member.to_vec()).collect());
        }
    }
}

fn encoding_of(members: &[&str], limits: &Limits) -> &'static str {
    let mut set = Set::new();
    members.iter().for_each(|member| assert!(set.add(member.as_bytes(), limits)));
    set.encoding()
}

#[test]
fn forms_change_where_redis_changes_them() {
    let limits = Limits {
        set_max_intset_entries: 3,
        set_max_listpack_entries: 3,
        set_max_listpack_value: 4,
        ..Limits::default()
    };
    assert_eq!(encoding_of(&["1", "2", "3"], &limits), "intset");
    assert_eq!(encoding_of(&["1", "2", "3", "4"], &limits), "hashtable");
    assert_eq!(encoding_of(&["1", "2", "a"], &limits), "listpack");
    assert_eq!(encoding_of(&["1", "2", "3", "a"], &limits), "hashtable");
    assert_eq!(encoding_of(&["a", "b", "c", "d"], &limits), "hashtable");
    assert_eq!(encoding_of(&["a", "bbbb"], &limits), "listpack");
    assert_eq!(encoding_of(&["a", "bbbbb"], &limits), "hashtable");
    assert_eq!(encoding_of(&["10000", "b"], &limits), "hashtable", "an integer too long for a listpack");
    assert_eq!(Set::for_members(b"1", 3, &limits).encoding(), "intset");
    assert_eq!(Set::for_members(b"a", 3, &limits).encoding(), "listpack");
    assert_eq!(Set::for_members(b"1", 4, &limits).encoding(), "hashtable");
}

#[test]
fn encoding_is_fixed_to_the_byte() {
    let limits = limits();
    let mut set = Set::new();
    set.add(b"5", &limits);
    set.add(b"-1", &limits);
    let mut out = Vec::new();
    set.encode(&mut out);
    assert_eq!(out, [1, 0, 2, 0xff, 0xff, 5, 0]);
    set.add(b"ab", &limits);
    out.clear();
    set.encode(&mut out);
    assert_eq!(out, [1, 1, 0xe1, 0xff, 2, 5, 1, 0x82, b'a', b'b', 3]);
    set.expect(100, &limits);
    for member in [&b"5"[..], b"-1"] {
        set.remove(member);
    }
    out.clear();
    set.encode(&mut out);
    assert_eq!(out, [1, 2, 2, b'a', b'b']);
}

#[test]
fn a_large_set_keeps_its_memory_figure() {
    let (limits, mut set) = (Limits::default(), Set::new());
    for n in 0..20_000u32 {
        set.add(format!("member:{n}").as_bytes(), &limits);
    }
    let full = set.memory();
    assert!((20_000 * 12..20_000 * 40).contains(&full), "{full} bytes");
    let clone = set.clone();
    for n in 0..20_000u32 {
        assert!(set.remove(format!("member:{n}").as_bytes()));
    }
    assert!(set.is_empty() && set.memory() < 1000, "{} bytes", set.memory());
    assert_eq!((clone.len(), clone.memory()), (20_000, full));
}
