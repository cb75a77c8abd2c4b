//! HyperLogLogs: strings that estimate how many different elements were added to them. They are byte for byte those of
//! Redis, so that GET and SET copy a value from one server to the other.
//!
//! ```text
//! hll    := "HYLL", form u8 (0 dense, 1 sparse), 3 bytes of 0, cardinality u64 little-endian, registers
//! dense  := 16384 registers of 6 bits, the low bits of a byte first
//! sparse := opcodes, see `sparse`
//! ```
//!
//! The cardinality is the last estimate; its highest bit says that registers have changed since. A register holds the
//! longest run of zeros (and the one behind it) seen in the hashes of the elements that belong to it.
//!
//! Nothing is believed about the bytes: any client may write them with SET or SETRANGE.

pub mod dense;
mod estimate;
mod murmur;
mod sparse;

#[cfg(test)]
mod tests;

pub use sparse::Opcode;

use std::borrow::Cow;

/// Number of registers; 14 bits of an element's hash choose one.
pub const REGISTERS: usize = 1 << INDEX_BITS;
/// Bytes before the registers.
pub const HEADER: usize = 16;
/// Bytes of every dense HyperLogLog.
pub const DENSE_LEN: usize = HEADER + REGISTERS * 6 / 8;

const INDEX_BITS: u32 = 14;
const MAGIC: &[u8] = b"HYLL";
const FORM_AT: usize = 4;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
/// The offset in bytes of the cached cardinality.
pub const CARDINALITY_AT: usize = 8;
/// The highest byte of the cached cardinality, and its bit that makes it void.
const STALE_AT: usize = 15;
const STALE: u8 = 0x80;

/// The string is no HyperLogLog: too short, without the magic bytes, of an unknown form, or dense with a wrong length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotHll;

/// The opcodes of a sparse HyperLogLog do not cover exactly all registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

/// How the registers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Six bits each.
    Dense,
    /// Runs.
    Sparse,
}

/// The meaning of one element: its register, and the least value that this register has afterwards (1 to 51).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Below [`REGISTERS`].
    pub register: u16,
    /// Position of the first 1 among the hash bits that do not choose the register, counted from 1.
    pub value: u8,
}

impl Trace {
    /// The trace of an element.
    #[inline]
    pub fn of(element: &[u8]) -> Self {
        const SEED: u64 = 0xadc8_3b19;
        let hash = murmur::hash(element, SEED);
        let register = (hash % REGISTERS as u64) as u16;
        // The bit above the hash bounds the run.
        let run = (hash >> INDEX_BITS) | 1 << (u64::BITS - INDEX_BITS);
        Trace { register, value: run.trailing_zeros() as u8 + 1 }
    }
}

/// All registers, a byte each: the target of a merge.
pub type Registers = [u8; REGISTERS];

/// A HyperLogLog, borrowed until it is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hll<'a> {
    bytes: Cow<'a, [u8]>,
    form: Form,
}

impl<'a> Hll<'a> {
    /// An empty one: sparse, its cardinality known to be 0.
    pub fn new() -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[..MAGIC.len()].copy_from_slice(MAGIC);
        bytes[FORM_AT] = SPARSE;
        sparse::write_zeros(&mut bytes, REGISTERS);
        Hll { bytes: bytes.into(), form: Form::Sparse }
    }

    /// The HyperLogLog in a string. Opcodes of the sparse form are not checked yet.
    ///
    /// # Errors
    ///
    /// The string is no HyperLogLog.
    pub fn parse(bytes: impl Into<Cow<'a, [u8]>>) -> Result<Self, NotHll> {
        let bytes = bytes.into();
        if bytes.len() < HEADER || !bytes.starts_with(MAGIC) {
            return Err(NotHll);
        }
        let form = match bytes[FORM_AT] {
            DENSE if bytes.len() == DENSE_LEN => Form::Dense,
            SPARSE => Form::Sparse,
            _ => return Err(NotHll),
        };
        Ok(Hll { bytes, form })
    }

    /// How the registers are stored.
    pub fn form(&self) -> Form {
        self.form
    }

    /// The string.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The string.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes.into_owned()
    }

    /// The same, borrowing nothing.
    pub fn into_owned(self) -> Hll<'static> {
        Hll { bytes: self.bytes.into_owned().into(), form: self.form }
    }

    /// A register, if this one is dense; else 0.
    pub fn get_dense(&self, register: u16) -> u8 {
        match self.form {
            Form::Dense => dense::get(self.registers(), usize::from(register)),
            Form::Sparse => 0,
        }
    }

    fn registers(&self) -> &[u8] {
        self.bytes.get(HEADER..).unwrap_or_default()
    }

    /// The last estimate, if no register has changed since. Any client can have written it: it may be anything below
    /// 2^63.
    pub fn cached(&self) -> Option<i64> {
        let bytes = self.bytes.get(CARDINALITY_AT..)?.first_chunk::<8>()?;
        Some(i64::from_le_bytes(*bytes)).filter(|count| *count >= 0)
    }

    /// Keeps an estimate.
    pub fn remember(&mut self, cardinality: i64) {
        if let Some(bytes) = self.bytes.to_mut().get_mut(CARDINALITY_AT..HEADER) {
            bytes.copy_from_slice(&cardinality.to_le_bytes());
        }
    }

    /// Marks the cached cardinality as void.
    pub fn forget(&mut self) {
        if let Some(byte) = self.bytes.get(STALE_AT)
            && byte & STALE == 0
        {
            self.bytes.to_mut()[STALE_AT] |= STALE;
        }
    }

    /// Raises a register; returns whether it was lower. A sparse HyperLogLog becomes dense if it cannot hold the value
    /// or would be longer than `max_sparse` bytes. The cardinality is void after a change of a sparse one; for a dense
    /// one the caller declares it void ([`Self::forget`]).
    ///
    /// # Errors
    ///
    /// The sparse form is damaged.
    pub fn raise(&mut self, trace: Trace, max_sparse: usize) -> Result<bool, Damaged> {
        if self.form == Form::Sparse {
            match sparse::raise(&mut self.bytes, trace, max_sparse)? {
                sparse::Raised::Same => return Ok(false),
                sparse::Raised::Yes => {
                    self.forget();
                    return Ok(true);
                }
                sparse::Raised::NoRoom => self.make_dense()?,
            }
        }
        if trace.value <= dense::get(self.registers(), usize::from(trace.register)) {
            return Ok(false);
        }
        dense::set(&mut self.bytes.to_mut()[HEADER..], usize::from(trace.register), trace.value);
        Ok(true)
    }

    /// Raises every register to that of `registers`, the result of a merge with this one. None of them is lower, and
    /// none is above 63. The cached cardinality is void afterwards. `max_sparse`: most bytes of the sparse form.
    ///
    /// # Errors
    ///
    /// The sparse form is damaged.
    pub fn raise_all(&mut self, registers: &Registers, max_sparse: usize) -> Result<(), Damaged> {
        if self.form == Form::Dense {
            dense::set_all(&mut self.bytes.to_mut()[HEADER..], registers);
            self.forget();
            return Ok(());
        }
        for (register, &value) in registers.iter().enumerate().filter(|(_, value)| **value > 0) {
            self.raise(Trace { register: register as u16, value }, max_sparse)?;
        }
        self.forget();
        Ok(())
    }

    /// Takes the dense form; the cached cardinality stays as it is.
    ///
    /// # Errors
    ///
    /// The sparse form is damaged.
    pub fn make_dense(&mut self) -> Result<(), Damaged> {
        if self.form == Form::Dense {
            return Ok(());
        }
        let mut dense = vec![0; DENSE_LEN];
        dense[..HEADER].copy_from_slice(&self.bytes[..HEADER]);
        dense[FORM_AT] = DENSE;
        sparse::each_register(self.registers(), |register, value| dense::set(&mut dense[HEADER..], register, value))?;
        *self = Hll { bytes: dense.into(), form: Form::Dense };
        Ok(())
    }

    /// Raises `registers` to what this one has. After an error they have changed in part.
    ///
    /// # Errors
    ///
    /// The sparse form is damaged.
    pub fn merge_into(&self, registers: &mut Registers) -> Result<(), Damaged> {
        match self.form {
            Form::Dense => {
                dense::merge_into(self.registers(), registers);
                Ok(())
            }
            Form::Sparse => sparse::each_register(self.registers(), |register, value| {
                registers[register] = value.max(registers[register]);
            }),
        }
    }

    /// Estimates the number of different elements that were added, within 0.81 % (one standard error). As in Redis, it
    /// is negative only for bytes that did not come from adding elements.
    ///
    /// # Errors
    ///
    /// The sparse form is damaged.
    pub fn count(&self) -> Result<i64, Damaged> {
        let histogram = match self.form {
            Form::Dense => dense::histogram(self.registers()),
            Form::Sparse => sparse::histogram(self.registers())?,
        };
        Ok(estimate::cardinality(&histogram))
    }

    /// Every register, as far as they go in a damaged one.
    pub fn opcodes(&self) -> impl Iterator<Item = Opcode> {
        sparse::opcodes(if self.form == Form::Sparse { self.registers() } else { &[] }).map(|(opcode, _)| opcode)
    }
}

impl Default for Hll<'_> {
    fn default() -> Self {
        Hll::new()
    }
}

/// Estimates from registers that several HyperLogLogs were merged into.
pub fn count(registers: &Registers) -> i64 {
    estimate::cardinality(&dense::histogram_of(registers))
}

/// Marks the cached cardinality of a dense HyperLogLog as void and raises one of its registers. Returns true if the
/// register was lower. `bytes` was parsed as a dense one.
pub fn raise_dense(bytes: &mut [u8], trace: Trace) -> bool {
    let Some((header, registers)) = bytes.split_at_mut_checked(HEADER) else { return false };
    let register = usize::from(trace.register);
    let lower = dense::get(registers, register) < trace.value;
    if lower {
        header[STALE_AT] |= STALE;
        dense::set(registers, register, trace.value);
    }
    lower
}
