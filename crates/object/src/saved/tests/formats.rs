//! Golden bytes, and malformed bytes.

use clocks::UnixMs;

use super::*;

const EPOCH: NonZeroU64 = NonZeroU64::new(0x0102_0304_0506_0708).expect("not 0");

fn frozen_bytes<S: Subject>(mut value: S) -> (Vec<u8>, Vec<(u64, Vec<u8>)>) {
    shown(&value.freeze(EPOCH).expect("large"))
}

fn frozen_string(text: &Arc<Vec<u8>>) -> (Vec<u8>, Vec<(u64, Vec<u8>)>) {
    shown(&Frozen::of_string(text, || EPOCH).expect("large"))
}

/// The header, and the given leaves: label and bytes.
fn shown(frozen: &Frozen) -> (Vec<u8>, Vec<(u64, Vec<u8>)>) {
    let changes = frozen.changes(None);
    let (mut header, mut leaves) = (Vec::new(), Vec::new());
    changes.header(&mut header);
    let put = |label, bytes: &[u8]| {
        leaves.push((label, bytes[..bytes.len().min(24)].to_vec()));
        Ok::<(), ()>(())
    };
    assert_eq!(changes.leaves(put), Ok(()));
    (header, leaves)
}

const IDS: [u8; 16] = [8, 7, 6, 5, 4, 3, 2, 1, 8, 7, 6, 5, 4, 3, 2, 1];

/// The bytes of version 1. If this fails, existing stores cannot be read any more.
#[test]
fn formats_stay() {
    let limits = Limits::default();
    let long = vec![b'x'; 8300];

    let mut list = List::new();
    list.push(End::Back, b"a", &limits);
    list.push(End::Back, b"300", &limits);
    list.push(End::Back, &long, &limits);
    let (header, leaves) = frozen_bytes(list);
    assert_eq!(header, [&[0x19][..], &IDS, &[2, 3, 1]].concat());
    assert_eq!(leaves.len(), 2);
    assert_eq!(leaves[0], (1 << 63, vec![0x19, 0x81, b'a', 2, 0xe2, 0x2c, 0x01, 3]));
    assert_eq!(leaves[1].0, (1 << 63) + (1 << 32));
    assert_eq!(leaves[1].1[..8], [0x19, 0xd0, 0x6c, 0x20, 0, 0, b'x', b'x']);

    let seed = seed_check_bytes();
    let mut set = Set::new();
    set.add(&long, &limits);
    let (header, leaves) = frozen_bytes(set);
    assert_eq!(header, [&[0x1a][..], &IDS, &[1, 1], &seed].concat());
    assert_eq!((leaves[0].0, &leaves[0].1[..5]), (0, &[0x1a, 0xec, 0x40, b'x', b'x'][..]));

    let mut hash = Hash::new();
    hash.set(b"field", &long, Expiry::At(UnixMs(0x0605_0403_0201)), &limits);
    let (header, leaves) = frozen_bytes(hash);
    assert_eq!(header, [&[0x1c][..], &IDS, &[1, 1], &seed].concat());
    let start = [&[0x1c, 0xf8, 0x40, 5 << 1 | 1, 1, 2, 3, 4, 5, 6][..], b"fieldxx"].concat();
    assert_eq!((leaves[0].0, &leaves[0].1[..17]), (0, &start[..]));

    let mut zset = ZSet::new();
    assert!(zset.insert(1.5, b"m", &limits).is_ok() && zset.insert(2.0, &long, &limits).is_ok());
    let (header, leaves) = frozen_bytes(zset);
    assert_eq!(header[..19], [&[0x1b][..], &IDS, &[leaves.len() as u8, 2]].concat());
    assert_eq!(leaves[0].1[..11], [0x1b, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 1, b'm']);

    let mut stream = Stream::new();
    let pairs = [(&b"f"[..], &long[..]), (b"g", b"7")].into_iter();
    assert_eq!(stream.log.append(Id::new(3, 5), 2, pairs, &limits), Ok(()));
    assert!(stream.groups.create(b"group", Group::new(Id::new(3, 4), 1)));
    let group = stream.groups.get_mut(b"group").expect("created");
    let (consumer, _) = group.enroll(b"c", 9);
    group.deliver(Delivery::new(Id::new(3, 5), 300, 2, consumer));
    let (header, leaves) = frozen_bytes(stream);
    assert_eq!(header, [&[0x1d][..], &IDS, &[3, 1, 3, 5, 0, 0, 1]].concat());
    assert_eq!((leaves[0].0, leaves[1].0, leaves[2].0), (0, 1 << 44, (1 << 44) + 1));
    let entry = [0x74, 0x60, 0, 0, 0xd0, 0x6c, 0x20, 0, 0, b'x', b'x', b'x', b'x', b'x', b'x', b'x'];
    assert_eq!(leaves[0].1, [&[0x1d, 3, 5, 2, 0x81, b'f', 0x81, b'g'][..], &entry].concat());
    assert_eq!(leaves[1].1, *b"\x1d\x05group\x03\x04\x02\x01\x01c\x09\x00");
    assert_eq!(leaves[2].1, [0x1d, 3, 5, 0xac, 2, 2, 0]);

    // A pending entry without a consumer: its turn, the number of its deliveries, no consumer.
    let mut stream = Stream::new();
    let pairs = [(&b"f"[..], &long[..])].into_iter();
    assert_eq!(stream.log.append(Id::new(3, 5), 1, pairs, &limits), Ok(()));
    assert!(stream.groups.create(b"g", Group::new(Id::new(3, 5), 1)));
    let group = stream.groups.get_mut(b"g").expect("created");
    [4, 5].into_iter().for_each(|seq| group.deliver(Delivery::released(Id::new(3, seq), 2)));
    let nobody = [0xff, 0xff, 0xff, 0xff, 0x0f];
    let (_, leaves) = frozen_bytes(stream);
    assert_eq!(leaves[2].1, [&[0x1d, 3, 4, 0, 2][..], &nobody, &[0, 1, 1, 2], &nobody].concat());

    let text = Arc::new(vec![b'x'; STRING_LEAF + 2]);
    let (header, leaves) = frozen_string(&text);
    assert_eq!(header, [&[0x1e][..], &IDS, &[2, 0x82, 0x08]].concat());
    assert_eq!(leaves, [(0, [&[0x1e], &[b'x'; 23][..]].concat()), (1, b"\x1exx".to_vec())]);

    let small = |value| {
        let mut record = Vec::new();
        save_small(value, &mut record);
        record
    };
    assert_eq!(small(ValueRef::Int(-2)), [0x10, 3]);
    assert_eq!(small(ValueRef::Short(b"ab")), *b"\x11ab");
    assert_eq!(small(ValueRef::Raw(b"ab")), *b"\x12ab");
    assert_eq!(small(ValueRef::Blob(b"ab")), *b"\x13ab");
    let mut list = List::new();
    list.push(End::Back, b"a", &limits);
    assert_eq!(small(ValueRef::List(&list)), [0x14, 1, 0, 0x81, b'a', 2]);
}

/// Golden bytes for the seed that tests have; another would give other bytes in this place.
fn seed_check_bytes() -> [u8; 8] {
    crate::hashed::seed_check().to_le_bytes()
}

#[test]
fn strings_come_back() {
    let mut record = Vec::new();
    for int in [0, 1, -1, i64::MIN, i64::MAX] {
        record.clear();
        save_small(ValueRef::Int(int), &mut record);
        assert!(matches!(load(&record), Ok(Loaded::Int(read)) if read == int));
    }
    for bytes in [&b""[..], b"a", &[0; 100_000]] {
        for value in [ValueRef::Short(bytes), ValueRef::Raw(bytes), ValueRef::Blob(bytes)] {
            record.clear();
            save_small(value, &mut record);
            let same = match (value, load(&record)) {
                (ValueRef::Short(_), Ok(Loaded::Short(read))) => read == bytes,
                (ValueRef::Raw(_), Ok(Loaded::Raw(read))) => read == bytes,
                (ValueRef::Blob(_), Ok(Loaded::Blob(read))) => read == bytes,
                _ => false,
            };
            assert!(same && object_of(&record).is_none());
        }
    }
}

/// A long string is written whole each time, under another object, in leaves. It is read with exactly the room that it
/// needs.
#[test]
fn long_strings_have_leaves() {
    let (mut store, mut epoch) = (Store::default(), 0);
    for len in [STRING_LEAF + 1, 2 * STRING_LEAF, 2 * STRING_LEAF + 1, 10 * STRING_LEAF - 1] {
        epoch += 1;
        let text: Arc<Vec<u8>> = Arc::new((0..len).map(|i| (i * i / 7) as u8).collect());
        let frozen = Frozen::of_string(&text, || NonZeroU64::new(epoch).expect("not 0")).expect("large");
        assert_eq!(store.write(0, &Write::Frozen(frozen)), len.div_ceil(STRING_LEAF));
        assert!(store.leaves.iter().all(|((object, _), leaf)| *object == epoch && leaf.len() <= STRING_LEAF + 1));
        let header = &store.records[&0];
        assert!(matches!(type_of(header), Ok(Type::String)));
        assert!(matches!(load(header), Ok(Loaded::Large(assembler)) if assembler.bytes() == len as u64));
        match store.read_any(0) {
            Some(Assembled::String(read)) => assert!(read == *text && read.capacity() == len),
            _ => panic!("another value"),
        }
    }
    // A short string is a record, and replaces the leaves.
    let short = Arc::new(vec![0; STRING_LEAF]);
    assert!(Frozen::of_string(&short, || panic!("no epoch is needed")).is_none());
    store.write(0, &Write::Record(vec![VERSION | kind::BLOB]));
    assert!(store.leaves.is_empty());
}

#[test]
fn leaves_of_a_string_that_do_not_fit_are_refused() {
    let assembled = |leaves: u8, len: u8, parts: &[&[u8]]| {
        let header = [&[VERSION | kind::LARGE_STRING][..], &IDS, &[leaves, len]].concat();
        let Ok(Loaded::Large(mut assembler)) = load(&header) else { panic!("a header") };
        for (label, part) in (0..).zip(parts) {
            assembler.add(label, &[&[VERSION | kind::LARGE_STRING], *part].concat()).expect("a leaf");
        }
        assembler.finish()
    };
    assert!(matches!(assembled(2, 3, &[b"ab", b"c"]), Ok(Assembled::String(text)) if text == b"abc"));
    for (leaves, len, parts) in
        [(2, 4, &[&b"ab"[..], b"c"][..]), (2, 2, &[b"ab", b"c"]), (3, 3, &[b"ab", b"c"]), (1, 0, &[])]
    {
        assert!(assembled(leaves, len, parts).is_err());
    }
}

#[test]
fn marks_of_another_process_are_made_anew() {
    let limits = Limits::default();
    let mut hash = Hash::new();
    (0..1000).for_each(|i| _ = hash.set(&text(i, 10), b"value", Expiry::At(UnixMs(u64::from(i) + 5)), &limits));
    let mut store = Store::default();
    let frozen = hash.freeze(NonZeroU64::MIN).expect("large");
    store.write(0, &Write::Frozen(frozen));
    let record = store.records.get_mut(&0).expect("written");
    *record.last_mut().expect("not empty") ^= 1;
    let mut read = store.read(0).and_then(<Hash as Subject>::from).expect("a hash");
    assert_eq!(image(read.value()), image(hash.value()));
    // It was never frozen, so it is written whole.
    assert!(read.freeze(NonZeroU64::MAX).expect("large").changes(Some(&store.records[&0])).discarded().is_some());
}

#[test]
fn frozen_values_cross_threads_and_small_ones_take_no_more_room() {
    fn crosses<T: Send>() {}
    crosses::<Frozen>();
    // The memory of large collections must not make small ones larger.
    assert_eq!((size_of::<List>(), size_of::<Set>(), size_of::<Hash>(), size_of::<ZSet>()), SIZES);
}

const SIZES: (usize, usize, usize, usize) = (48, 40, 48, 40);

proptest! {
    #[test]
    fn any_bytes_are_refused_or_read(
        record in prop::collection::vec(any::<u8>(), 0..60),
        kind in 0u8..15,
        leaves in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..3),
    ) {
        let mut record = record;
        record.insert(0, VERSION | kind);
        if let Ok(Loaded::Large(mut assembler)) = load(&record) {
            for (leaf, label) in leaves.iter().zip(0..) {
                let leaf = [&[VERSION | kind][..], leaf].concat();
                if assembler.add(label, &leaf).is_err() {
                    return Ok(());
                }
            }
            _ = assembler.finish();
        }
    }
}
