//! The sparse form: runs of equal registers, in order, that cover all of them.
//!
//! ```text
//! 00nnnnnn           n + 1 registers of 0         (1 to 64)
//! 01nnnnnn nnnnnnnn  n + 1 registers of 0         (1 to 16384)
//! 1vvvvvnn           n + 1 registers of v + 1     (1 to 4 of 1 to 32)
//! ```
//!
//! Equal sets can have different opcodes, depending on the order of the elements. The choice which runs are split and
//! joined again is Redis's, because the bytes have to be the same.

use smallvec::SmallVec;
use std::borrow::Cow;

use super::estimate::{Histogram, VALUES};
use super::{Damaged, HEADER, REGISTERS, Trace};

/// Greatest value that an opcode can hold.
const VALUE_MAX: u8 = 32;
/// Most registers of one value in an opcode.
const RUN_MAX: usize = 4;
/// Most zeros in an opcode of one byte.
const ZEROS_MAX: usize = 64;

/// A run of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// So many zeros, in one byte.
    Zeros(usize),
    /// So many zeros, in two bytes.
    ManyZeros(usize),
    /// So many registers of this value.
    Value(u8, usize),
}

impl Opcode {
    /// The opcode at `at` and its length. A missing second byte is 0, as in Redis, whose strings end with one.
    #[inline]
    fn at(opcodes: &[u8], at: usize) -> Option<(Opcode, usize)> {
        let &byte = opcodes.get(at)?;
        Some(match byte {
            0x80.. => (Opcode::Value((byte >> 2 & 31) + 1, usize::from(byte & 3) + 1), 1),
            0x40.. => {
                let low = opcodes.get(at + 1).copied().unwrap_or_default();
                (Opcode::ManyZeros(usize::from(u16::from_be_bytes([byte & 63, low])) + 1), 2)
            }
            _ => (Opcode::Zeros(usize::from(byte) + 1), 1),
        })
    }

    /// Number of registers.
    fn registers(self) -> usize {
        match self {
            Opcode::Zeros(count) | Opcode::ManyZeros(count) | Opcode::Value(_, count) => count,
        }
    }

    fn value(self) -> u8 {
        match self {
            Opcode::Value(value, _) => value,
            _ => 0,
        }
    }
}

/// Appends `count` registers of 0 (1 to 16384).
pub(super) fn write_zeros(out: &mut impl Extend<u8>, count: usize) {
    if count > ZEROS_MAX {
        let [high, low] = ((count - 1) as u16).to_be_bytes();
        out.extend([0x40 | high, low]);
    } else {
        out.extend([(count - 1) as u8]);
    }
}

/// The opcode for `count` registers (1 to 4) of a value (1 to 32).
fn value_opcode(value: u8, count: usize) -> u8 {
    0x80 | (value - 1) << 2 | (count - 1) as u8
}

/// All opcodes with their lengths.
pub(super) fn opcodes(opcodes: &[u8]) -> impl Iterator<Item = (Opcode, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let found = Opcode::at(opcodes, at)?;
        at += found.1;
        Some(found)
    })
}

/// Calls `visit` with every register that is not 0 and its value. The registers are below [`REGISTERS`].
///
/// As in Redis, a run of values that begins behind the last register ends the walk; later bytes may be anything. To
/// [`histogram`] that is damage.
pub(super) fn each_register(bytes: &[u8], mut visit: impl FnMut(usize, u8)) -> Result<(), Damaged> {
    let mut first = 0;
    for (opcode, _) in opcodes(bytes) {
        let end = first + opcode.registers();
        if let Opcode::Value(value, _) = opcode {
            if end > REGISTERS {
                break;
            }
            (first..end).for_each(|register| visit(register, value));
        }
        first = end;
    }
    if first == REGISTERS { Ok(()) } else { Err(Damaged) }
}

pub(super) fn histogram(bytes: &[u8]) -> Result<Histogram, Damaged> {
    let mut histogram = [0u32; VALUES];
    let mut registers = 0;
    for (opcode, _) in opcodes(bytes) {
        registers += opcode.registers();
        // Beyond the registers the sums may be as large as the string is long.
        if registers > REGISTERS {
            return Err(Damaged);
        }
        histogram[usize::from(opcode.value())] += opcode.registers() as u32;
    }
    if registers == REGISTERS { Ok(histogram) } else { Err(Damaged) }
}

/// The result of [`raise`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Raised {
    /// The register had this value or more.
    Same,
    /// It has this value now.
    Yes,
    /// The sparse form cannot hold it, or not in so few bytes.
    NoRoom,
}

/// Where a register is.
struct Found {
    /// Its opcode, from the beginning of the opcodes.
    at: usize,
    /// The opcode before, or this one if it is the first.
    before: usize,
    /// The first register of the opcode.
    first: usize,
}

/// Registers of each one-byte opcode; 0 for those of two bytes.
const RUNS: [u8; 256] = {
    let mut runs = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        runs[byte] = match byte {
            0x80.. => (byte & 3) as u8 + 1,
            0x40.. => 0,
            _ => byte as u8 + 1,
        };
        byte += 1;
    }
    runs
};

/// Registers of eight one-byte opcodes together; `None` if one of them has two bytes.
fn eight_runs(opcodes: [u8; 8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const PAIRS: u64 = 0x00ff_00ff_00ff_00ff;
    let opcodes = u64::from_le_bytes(opcodes);
    let values = opcodes >> 7 & ONES;
    if opcodes >> 6 & ONES & !values != 0 {
        return None;
    }
    // Two bits of those with a value are the run, six bits of zeros.
    let runs = opcodes & ((ONES * 63) ^ (values * 60));
    let pairs = (runs & PAIRS) + (runs >> 8 & PAIRS);
    Some((pairs.wrapping_mul(0x0001_0001_0001_0001) >> 48) as usize + 8)
}

/// Finds a register: a walk over the opcodes before it, the costly part of the sparse form.
fn find(bytes: &[u8], register: usize) -> Option<Found> {
    let (mut at, mut before, mut first) = (0, 0, 0);
    loop {
        while let Some(eight) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>())
            && let Some(run) = eight_runs(*eight)
            && first + run <= register
        {
            at += 8;
            before = at - 1;
            first += run;
        }
        let &byte = bytes.get(at)?;
        let (run, len) = match RUNS[usize::from(byte)] {
            0 => (usize::from(u16::from_be_bytes([byte & 63, *bytes.get(at + 1)?])) + 1, 2),
            run => (usize::from(run), 1),
        };
        if register < first + run {
            return Some(Found { at, before, first });
        }
        before = at;
        at += len;
        first += run;
    }
}

/// Raises a register of a sparse HyperLogLog, header included, that may become `max` bytes long. It is copied when it
/// changes.
pub(super) fn raise(hll: &mut Cow<'_, [u8]>, trace: Trace, max: usize) -> Result<Raised, Damaged> {
    if trace.value > VALUE_MAX {
        return Ok(Raised::NoRoom);
    }
    let (register, value) = (usize::from(trace.register), trace.value);
    let opcodes = hll.get(HEADER..).unwrap_or_default();
    let Found { at, before, first } = find(opcodes, register).ok_or(Damaged)?;
    let (opcode, len) = Opcode::at(opcodes, at).ok_or(Damaged)?;
    if opcode.value() >= value {
        return Ok(Raised::Same);
    }

    // The run falls into three: before the register, the register, and behind it: at most five bytes.
    let mut runs = SmallVec::<[u8; 8]>::new();
    write_run(&mut runs, opcode, register - first);
    runs.push(value_opcode(value, 1));
    write_run(&mut runs, opcode, first + opcode.registers() - register - 1);
    if runs.len() > len && hll.len() + runs.len() - len > max {
        return Ok(Raised::NoRoom);
    }
    let bytes = hll.to_mut();
    let at = HEADER + at;
    bytes.splice(at..at + len, runs);
    join(bytes, HEADER + before);
    Ok(Raised::Yes)
}

/// Appends a part of a run that was split, which may be none.
fn write_run(out: &mut SmallVec<[u8; 8]>, opcode: Opcode, count: usize) {
    match opcode {
        _ if count == 0 => {}
        Opcode::Value(value, _) => out.push(value_opcode(value, count)),
        Opcode::Zeros(_) | Opcode::ManyZeros(_) => write_zeros(out, count),
    }
}

/// Joins neighbouring runs of one value, in five looks from the opcode before the changed one on.
fn join(bytes: &mut Vec<u8>, mut at: usize) {
    for _ in 0..5 {
        let Some((opcode, len)) = Opcode::at(bytes, at) else { return };
        if let Opcode::Value(value, count) = opcode
            && let Some((Opcode::Value(next, more), _)) = Opcode::at(bytes, at + 1)
            && value == next
            && count + more <= RUN_MAX
        {
            bytes[at] = value_opcode(value, count + more);
            bytes.remove(at + 1);
        } else {
            at += len;
        }
    }
}
