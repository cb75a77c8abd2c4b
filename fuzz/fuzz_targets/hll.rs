//! HyperLogLogs: any string is one or is refused, and neither counting, merging nor changing it reads or writes beyond
//! it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use object::hll::{Hll, REGISTERS, Trace};

// The first byte bounds the sparse form and chooses an element.
fuzz_target!(|data: &[u8]| {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let max_sparse = usize::from(choice) * 16;
    let Ok(hll) = Hll::parse(bytes) else { return };
    let mut registers = Box::new([0; REGISTERS]);
    let merged = hll.merge_into(&mut registers);
    let counted = hll.count();
    // The other way round is not so, as in Redis: behind the last register a merge looks at nothing.
    assert!(merged.is_ok() || counted.is_err(), "what can be counted can be merged");
    assert!(hll.opcodes().count() <= bytes.len());

    let mut changed = hll.clone();
    let trace = Trace::of(&[choice]);
    if let Ok(raised) = changed.raise(trace, max_sparse)
        && counted.is_ok()
    {
        let before = registers[usize::from(trace.register)];
        assert_eq!(raised, before < trace.value);
        let mut after = Box::new([0; REGISTERS]);
        changed.merge_into(&mut after).expect("it was whole before");
        registers[usize::from(trace.register)] = before.max(trace.value);
        assert!(after == registers, "one register has changed, if any");
    }
    let mut dense = hll;
    if dense.make_dense().is_ok() {
        assert!(counted.is_err() || dense.count() == counted, "the form does not matter");
        dense.raise(trace, max_sparse).expect("dense ones are never damaged");
    }
});
