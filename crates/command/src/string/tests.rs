//! The whole family against a model: random commands, replies compared, and all effects replayed.

use std::collections::BTreeMap;

use clocks::UnixMs;
use keyspace::EntryRef;
use proptest::prelude::*;

use crate::testing::Bench;

/// The model's view of a key: its bytes and its expiry.
type Model = BTreeMap<u8, (Vec<u8>, Option<UnixMs>)>;

#[derive(Clone, Debug)]
enum Step {
    Set(u8, Vec<u8>),
    SetPx(u8, Vec<u8>, u16),
    SetKeepTtl(u8, Vec<u8>),
    SetNx(u8, Vec<u8>),
    SetXxGet(u8, Vec<u8>),
    GetSet(u8, Vec<u8>),
    GetDel(u8),
    GetExPersist(u8),
    Append(u8, Vec<u8>),
    SetRange(u8, u16, Vec<u8>),
    GetRange(u8, i8, i8),
    IncrBy(u8, i32),
    SetBit(u8, u16, bool),
    BitField(u8, u16, i16),
    BitOpXor(u8, u8, u8),
    MSetNx(u8, u8, Vec<u8>),
    Get(u8),
    StrLen(u8),
    Wait(u16),
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => proptest::collection::vec(any::<u8>(), 0..12),
        3 => (-1000i64..1000).prop_map(|n| n.to_string().into_bytes()),
        1 => (any::<u8>(), 0usize..40_000).prop_map(|(byte, len)| vec![byte; len]),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0u8..4;
    let offset = prop_oneof![4 => 0u16..30, 1 => 0u16..20_000];
    prop_oneof![
        (key.clone(), value()).prop_map(|(k, v)| Step::Set(k, v)),
        (key.clone(), value(), 1u16..500).prop_map(|(k, v, ms)| Step::SetPx(k, v, ms)),
        (key.clone(), value()).prop_map(|(k, v)| Step::SetKeepTtl(k, v)),
        (key.clone(), value()).prop_map(|(k, v)| Step::SetNx(k, v)),
        (key.clone(), value()).prop_map(|(k, v)| Step::SetXxGet(k, v)),
        (key.clone(), value()).prop_map(|(k, v)| Step::GetSet(k, v)),
        key.clone().prop_map(Step::GetDel),
        key.clone().prop_map(Step::GetExPersist),
        (key.clone(), value()).prop_map(|(k, v)| Step::Append(k, v)),
        (key.clone(), offset.clone(), value()).prop_map(|(k, o, v)| Step::SetRange(k, o, v)),
        (key.clone(), any::<i8>(), any::<i8>()).prop_map(|(k, s, e)| Step::GetRange(k, s, e)),
        (key.clone(), any::<i32>()).prop_map(|(k, by)| Step::IncrBy(k, by)),
        (key.clone(), offset.clone(), any::<bool>()).prop_map(|(k, o, b)| Step::SetBit(k, o, b)),
        (key.clone(), offset, any::<i16>()).prop_map(|(k, o, v)| Step::BitField(k, o, v)),
        (key.clone(), key.clone(), key.clone()).prop_map(|(t, a, b)| Step::BitOpXor(t, a, b)),
        (key.clone(), key.clone(), value()).prop_map(|(a, b, v)| Step::MSetNx(a, b, v)),
        key.clone().prop_map(Step::Get),
        key.prop_map(Step::StrLen),
        (0u16..300).prop_map(Step::Wait),
    ]
}

fn bulk(text: Option<&[u8]>) -> Vec<u8> {
    match text {
        None => b"$-1\r\n".to_vec(),
        Some(text) => [format!("${}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat(),
    }
}

fn integer(n: i64) -> Vec<u8> {
    format!(":{n}\r\n").into_bytes()
}

/// Runs the step on the model. Returns the arguments and the reply.
fn apply(model: &mut Model, now: UnixMs, step: &Step) -> (Vec<Vec<u8>>, Vec<u8>) {
    model.retain(|_, (_, expiry)| expiry.is_none_or(|ms| ms >= now));
    let args = |name: &str, key: &u8, rest: &[&[u8]]| {
        let mut args = vec![name.as_bytes().to_vec(), vec![b'a' + key]];
        args.extend(rest.iter().map(|arg| arg.to_vec()));
        args
    };
    let text = |n: &dyn ToString| n.to_string().into_bytes();
    let get = |model: &Model, k: &u8| model.get(k).map(|(text, _)| text.clone());
    let ok = b"+OK\r\n".to_vec();
    // A change in place keeps the expiry.
    fn bytes<'m>(model: &'m mut Model, k: &u8, len: usize) -> &'m mut Vec<u8> {
        let text = &mut model.entry(*k).or_default().0;
        if text.len() < len {
            text.resize(len, 0);
        }
        text
    }
    match step {
        Step::Set(k, v) => {
            model.insert(*k, (v.clone(), None));
            (args("set", k, &[v]), ok)
        }
        Step::SetPx(k, v, ms) => {
            model.insert(*k, (v.clone(), Some(now + u64::from(*ms))));
            (args("set", k, &[v, b"px", &text(ms)]), ok)
        }
        Step::SetKeepTtl(k, v) => {
            model.entry(*k).or_default().0.clone_from(v);
            (args("set", k, &[v, b"keepttl"]), ok)
        }
        Step::SetNx(k, v) => {
            let free = !model.contains_key(k);
            if free {
                model.insert(*k, (v.clone(), None));
            }
            (args("setnx", k, &[v]), integer(free.into()))
        }
        Step::SetXxGet(k, v) => {
            let before = get(model, k);
            if before.is_some() {
                model.insert(*k, (v.clone(), None));
            }
            (args("set", k, &[v, b"xx", b"get"]), bulk(before.as_deref()))
        }
        Step::GetSet(k, v) => {
            let before = model.insert(*k, (v.clone(), None));
            (args("getset", k, &[v]), bulk(before.as_ref().map(|(text, _)| text.as_slice())))
        }
        Step::GetDel(k) => {
            let before = model.remove(k);
            (args("getdel", k, &[]), bulk(before.as_ref().map(|(text, _)| text.as_slice())))
        }
        Step::GetExPersist(k) => {
            if let Some((_, expiry)) = model.get_mut(k) {
                *expiry = None;
            }
            (args("getex", k, &[b"persist"]), bulk(get(model, k).as_deref()))
        }
        Step::Append(k, v) => {
            let present = bytes(model, k, 0);
            present.extend_from_slice(v);
            (args("append", k, &[v]), integer(present.len() as i64))
        }
        Step::SetRange(k, offset, v) => {
            let len = if v.is_empty() {
                get(model, k).unwrap_or_default().len()
            } else {
                let start = usize::from(*offset);
                let present = bytes(model, k, start + v.len());
                present[start..start + v.len()].copy_from_slice(v);
                present.len()
            };
            (args("setrange", k, &[&text(offset), v]), integer(len as i64))
        }
        Step::GetRange(k, start, end) => {
            let present = get(model, k).unwrap_or_default();
            let part: Vec<u8> = (0..present.len() as i64)
                .filter(|i| {
                    let len = present.len() as i64;
                    let absolute =
                        |index: i8| if index < 0 { (i64::from(index) + len).max(0) } else { i64::from(index) };
                    let crossed = *start < 0 && *end < 0 && start > end;
                    !crossed && (absolute(*start)..=absolute(*end)).contains(i)
                })
                .map(|i| present[i as usize])
                .collect();
            (args("getrange", k, &[&text(start), &text(end)]), bulk(Some(&part)))
        }
        Step::IncrBy(k, by) => {
            let present = get(model, k).unwrap_or(b"0".to_vec());
            let number = String::from_utf8(present.clone()).ok().and_then(|text| text.parse::<i64>().ok());
            let number = number.filter(|n| n.to_string().as_bytes() == present);
            let reply = match number.map(|n| n.checked_add(i64::from(*by))) {
                None => b"-ERR value is not an integer or out of range\r\n".to_vec(),
                Some(None) => b"-ERR increment or decrement would overflow\r\n".to_vec(),
                Some(Some(sum)) => {
                    *bytes(model, k, 0) = text(&sum);
                    integer(sum)
                }
            };
            (args("incrby", k, &[&text(by)]), reply)
        }
        Step::SetBit(k, offset, bit) => {
            let present = bytes(model, k, usize::from(*offset) / 8 + 1);
            let (byte, mask) = (&mut present[usize::from(*offset) / 8], 0x80 >> (offset % 8));
            let was = *byte & mask != 0;
            *byte = *byte & !mask | if *bit { mask } else { 0 };
            (args("setbit", k, &[&text(offset), &text(&u8::from(*bit))]), integer(was.into()))
        }
        Step::BitField(k, offset, by) => {
            let start = usize::from(*offset);
            let present = bytes(model, k, start + 2);
            let before = i16::from_be_bytes([present[start], present[start + 1]]);
            let sum = before.wrapping_add(*by);
            present[start..start + 2].copy_from_slice(&sum.to_be_bytes());
            let rest: [&[u8]; 4] = [b"incrby", b"i16", &text(&(8 * start)), &text(by)];
            (args("bitfield", k, &rest), [b"*1\r\n", integer(sum.into()).as_slice()].concat())
        }
        Step::BitOpXor(target, a, b) => {
            let (mut left, mut right) = (get(model, a).unwrap_or_default(), get(model, b).unwrap_or_default());
            let len = left.len().max(right.len());
            left.resize(len, 0);
            right.resize(len, 0);
            left.iter_mut().zip(&right).for_each(|(left, right)| *left ^= right);
            match len {
                0 => model.remove(target),
                _ => model.insert(*target, (left, None)),
            };
            let args = vec![b"bitop".to_vec(), b"xor".to_vec(), vec![b'a' + target], vec![b'a' + a], vec![b'a' + b]];
            (args, integer(len as i64))
        }
        Step::MSetNx(a, b, v) => {
            let free = !model.contains_key(a) && !model.contains_key(b);
            if free {
                model.insert(*a, (v.clone(), None));
                model.insert(*b, (b"other".to_vec(), None));
            }
            (args("msetnx", a, &[v, &[b'a' + b], b"other"]), integer(free.into()))
        }
        Step::Get(k) => (args("get", k, &[]), bulk(get(model, k).as_deref())),
        Step::StrLen(k) => (args("strlen", k, &[]), integer(get(model, k).unwrap_or_default().len() as i64)),
        Step::Wait(_) => (args("get", &9, &[]), bulk(None)),
    }
}

fn text(entry: &EntryRef<'_>) -> Vec<u8> {
    entry.string().expect("only strings here").to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn replies_as_the_model_and_effects_replay(steps in proptest::collection::vec(step(), 1..60)) {
        let mut bench = Bench::new();
        let mut model = Model::new();
        for step in &steps {
            if let Step::Wait(ms) = step {
                bench.now += u64::from(*ms);
            }
            let (args, reply) = apply(&mut model, bench.now, step);
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(bench.run(&args), reply, "{:?}", step);
        }
        let expected: Vec<_> = model.into_iter().map(|(key, (text, expiry))| (vec![b'a' + key], expiry, text)).collect();
        // Expired keys stay until a command finds them.
        let now = bench.now;
        let live = |image: Vec<(Vec<u8>, Option<UnixMs>, Vec<u8>)>| -> Vec<_> {
            image.into_iter().filter(|(_, expiry, _)| expiry.is_none_or(|ms| ms >= now)).collect()
        };
        prop_assert_eq!(live(bench.image(text)), expected);
        prop_assert_eq!(bench.replayed().image(text), bench.image(text));
    }
}

#[test]
fn what_counters_say_of_what_was_there() {
    use crate::effects::{Before, Writer, op};
    for n in [0, 1, -1, 63, 64, -65, 1 << 20, i64::MAX, i64::MIN] {
        for (flags, before) in [(None, Before::Unknown), (Some(8), Before::Nothing), (Some(16), Before::Plain)] {
            let mut payload = Vec::new();
            Writer(&mut payload).int(n);
            payload.extend(flags);
            assert_eq!(super::before(op::STRINGS + 1, &payload), before, "{n}");
            assert_eq!(super::before(op::STRINGS + 2, &payload), Before::Unknown);
        }
    }
    assert_eq!(super::before(op::STRINGS + 1, &[]), Before::Unknown);
}
