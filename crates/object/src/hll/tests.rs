use super::*;
use proptest::prelude::*;

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

fn add(hll: &mut Hll<'_>, element: &[u8], max: usize) -> bool {
    let raised = hll.raise(Trace::of(element), max).unwrap();
    if raised {
        hll.forget();
    }
    raised
}

fn of(prefix: &str, count: usize) -> Hll<'static> {
    let mut hll = Hll::new();
    for i in 0..count {
        add(&mut hll, format!("{prefix}{i}").as_bytes(), 3000);
    }
    hll
}

/// The replies of Redis 7.9 to GET and PFCOUNT after `element-0`, `element-1`, ... were added: `hll-sparse-max-bytes`,
/// number of elements, length, FNV-1a of the string, estimate (which is then kept).
const GOLDEN: &[(usize, usize, usize, u64, i64)] = &[
    (3000, 1, 21, 0x301d_e892_4104_c45d, 1),
    (3000, 3, 27, 0x313a_d695_0664_3ada, 3),
    (3000, 10, 48, 0x4c21_8268_c081_e84e, 10),
    (3000, 30, 107, 0x2fab_4448_45b5_fda1, 30),
    (3000, 100, 287, 0x5404_6583_0f98_1f67, 100),
    (3000, 300, 692, 0xdcd3_f87e_592c_2476, 299),
    (3000, 1000, 1870, 0xc2a6_febb_a954_82f7, 994),
    (3000, 1500, 2685, 0xc987_eb75_3263_df20, 1495),
    (3000, 2000, 12304, 0x7a8e_a55c_c093_c637, 2002),
    (3000, 5000, 12304, 0xb12b_cda3_d2c0_6f93, 4972),
    (3000, 100_000, 12304, 0xac96_2f04_ed0f_a4d4, 100_917),
    (100, 10, 48, 0x4c21_8268_c081_e84e, 10),
    (100, 30, 12304, 0xb588_38c2_6786_10f7, 30),
    (100, 100, 12304, 0xecb8_208f_2bd5_e0ed, 100),
    (100, 300, 12304, 0xcff0_d828_69e3_1a4f, 299),
    (12000, 2000, 3466, 0xada0_beae_afde_91fb, 2002),
    (12000, 5000, 7093, 0x0062_2f20_ad9f_6163, 4972),
    (12000, 100_000, 12304, 0xac96_2f04_ed0f_a4d4, 100_917),
];

/// The counts at which `GOLDEN` was taken. Each PFCOUNT keeps an estimate, which the next changes make void but leave
/// in place.
const LOOKS: [usize; 11] = [1, 3, 10, 30, 100, 300, 1000, 1500, 2000, 5000, 100_000];

#[test]
fn bytes_are_those_of_redis() {
    for max in [3000, 100, 12000] {
        let mut hll = Hll::new();
        hll.forget();
        assert_eq!(hll.as_bytes(), b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80\x7f\xff");
        let mut added = 0;
        for look in LOOKS {
            for i in added..look {
                add(&mut hll, format!("element-{i}").as_bytes(), max);
            }
            added = look;
            assert_eq!(hll.cached(), None);
            let bytes = hll.as_bytes();
            let seen = (max, look, bytes.len(), fnv(bytes), hll.count().unwrap());
            if let Some(golden) = GOLDEN.iter().find(|golden| (golden.0, golden.1) == (max, look)) {
                assert_eq!(seen, *golden);
            }
            hll.remember(seen.4);
            assert_eq!(hll.cached(), Some(seen.4));
        }
    }
}

#[test]
fn runs_are_redis_s() {
    let mut hll = Hll::new();
    for element in ["a", "b", "c"] {
        assert!(add(&mut hll, element.as_bytes(), 3000));
        assert!(!add(&mut hll, element.as_bytes(), 3000));
    }
    let runs: Vec<_> = hll.opcodes().collect();
    use Opcode::*;
    let expected =
        [ManyZeros(8436), Value(1, 1), ManyZeros(4274), Value(2, 1), ManyZeros(3068), Value(1, 1), ManyZeros(603)];
    assert_eq!(runs, expected);
    assert_eq!(hll.count(), Ok(3));
}

#[test]
fn merged_bytes_are_those_of_redis() {
    let mut b = of("b-", 400);
    for (more, len, digest, estimate) in
        [(0, 1398, 0xd04d_fe8b_4692_a0a5, 703), (4000, 12304, 0xdd9e_71b0_92dd_c256, 4283)]
    {
        for i in 0..more {
            add(&mut b, format!("b-{i}").as_bytes(), 3000);
        }
        let mut registers = [0; REGISTERS];
        of("a-", 300).merge_into(&mut registers).unwrap();
        b.merge_into(&mut registers).unwrap();
        assert_eq!(count(&registers), estimate);
        let mut merged = Hll::new();
        if b.form() == Form::Dense {
            merged.make_dense().unwrap();
        }
        merged.raise_all(&registers, 3000).unwrap();
        assert_eq!((merged.as_bytes().len(), fnv(merged.as_bytes())), (len, digest));
        assert_eq!(merged.count(), Ok(estimate));
    }
}

/// Registers that no hash gives: the estimate is infinite, and Redis's answer the least integer.
#[test]
fn impossible_registers() {
    for fill in [[0xf3, 0x3c, 0xcf], [0xff; 3]] {
        let mut bytes = b"HYLL\0\0\0\0\0\0\0\0\0\0\0\x80".to_vec();
        bytes.extend(fill.repeat(REGISTERS / 4));
        assert_eq!(Hll::parse(&bytes).unwrap().count(), Ok(i64::MIN));
    }
}

#[test]
fn what_is_no_hyperloglog() {
    let dense = {
        let mut hll = Hll::new();
        hll.make_dense().unwrap();
        hll.into_bytes()
    };
    assert!(Hll::parse(&dense).is_ok());
    let empty = Hll::new().into_bytes();
    for bytes in
        [&dense[..DENSE_LEN - 1], &empty[..15], b"", b"HYLK\x01\0\0\0\0\0\0\0\0\0\0\0", &[&empty[..], b"x"].concat()]
    {
        let counted = Hll::parse(bytes).map(|hll| hll.count());
        assert!(counted.is_err() || counted == Ok(Err(Damaged)), "{counted:?}");
    }
    let mut unknown = empty;
    unknown[4] = 2;
    assert_eq!(Hll::parse(&unknown), Err(NotHll));
}

fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let noise = proptest::collection::vec(any::<u8>(), 0..400);
    let sparse = noise.clone().prop_map(|tail| [&b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80"[..], &tail].concat());
    let broken = (0..300usize, proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)).prop_map(
        |(count, changes)| {
            let mut bytes = of("", count).into_bytes();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes
        },
    );
    prop_oneof![noise, sparse, broken]
}

proptest! {
    #[test]
    fn damage_is_found_or_harmless(bytes in damaged(), elements in proptest::collection::vec(any::<u16>(), 0..8)) {
        if let Ok(hll) = Hll::parse(&bytes) {
            let counted = hll.count();
            let mut registers = [0; REGISTERS];
            let merged = hll.merge_into(&mut registers);
            prop_assert!(counted.is_err() || (merged.is_ok() && counted == Ok(count(&registers))));
            let _ = hll.opcodes().count();
            let mut changed = hll.clone();
            for element in elements {
                if changed.raise(Trace::of(&element.to_le_bytes()), 3000).is_err() {
                    break;
                }
            }
            prop_assert!(Hll::parse(changed.as_bytes()).is_ok());
            prop_assert!(counted.is_err() || changed.count().is_ok());
            let sound = changed.count().is_ok();
            prop_assert!(changed.make_dense().is_ok() || !sound);
        }
    }

    /// Operations on many registers at once agree with those on single registers, with any values.
    #[test]
    fn groups_agree_with_single_registers(values in proptest::collection::vec((0..64u8, 0..64u8), REGISTERS)) {
        let (mut packed, mut raised) = (vec![0; DENSE_LEN - HEADER], vec![0xff; DENSE_LEN - HEADER]);
        let (mut merged, mut greatest) = ([0; REGISTERS], [0; REGISTERS]);
        for (register, (value, other)) in values.iter().enumerate() {
            dense::set(&mut packed, register, *value);
            merged[register] = *other;
            greatest[register] = *value.max(other);
        }
        dense::merge_into(&packed, &mut merged);
        prop_assert!(merged == greatest);
        dense::set_all(&mut raised, &greatest);
        prop_assert!((0..REGISTERS).all(|register| dense::get(&raised, register) == greatest[register]));
        let histogram: [u32; 64] =
            std::array::from_fn(|value| greatest.iter().filter(|register| usize::from(**register) == value).count() as u32);
        prop_assert_eq!(dense::histogram(&raised), histogram);
        prop_assert_eq!(dense::histogram_of(&greatest), histogram);
    }

    /// Both forms have the registers of a plain array, with any limits.
    #[test]
    fn forms_agree(traces in proptest::collection::vec((0..REGISTERS as u16, 1..=51u8), 0..300), max in 0..2000usize) {
        let mut model = [0u8; REGISTERS];
        let (mut hll, mut dense) = (Hll::new(), Hll::new());
        dense.make_dense().unwrap();
        for (register, value) in traces {
            // Many in few registers, so that runs are split and joined.
            let (register, value) = (register % 64, if register % 5 == 0 { value } else { value % 3 + 1 });
            let trace = Trace { register, value };
            let lower = model[usize::from(register)] < value;
            model[usize::from(register)] = value.max(model[usize::from(register)]);
            prop_assert_eq!(hll.raise(trace, max), Ok(lower));
            prop_assert_eq!(dense.raise(trace, max), Ok(lower));
            prop_assert!(hll.form() == Form::Dense || hll.as_bytes().len() <= max.max(18));
        }
        for hll in [&hll, &dense] {
            let mut registers = [0; REGISTERS];
            hll.merge_into(&mut registers).unwrap();
            prop_assert!(registers == model);
            prop_assert_eq!(hll.count(), Ok(count(&model)));
        }
        hll.make_dense().unwrap();
        dense.forget();
        hll.forget();
        prop_assert!(hll.as_bytes() == dense.as_bytes());
    }
}
