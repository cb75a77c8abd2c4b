//! A hash as bytes.
//!
//! ```text
//! version (1): 1
//! form (1): 0 pairs, 1 triples, 2 table
//! 0, 1: name, value (and expiry, 0 for none) of each field as elements of a block; 2: length and bytes of each record
//! ```

use super::field::{EXPIRY_MAX, Stored, is_expiry, split};
use super::{Form, Hash, Triples};
use crate::Corrupt;
use crate::block::{Block, Elem};
use crate::hashed::{RECORD_BYTES_MAX, Table, varint};

const VERSION: u8 = 1;
const PAIRS: u8 = 0;
const TRIPLES: u8 = 1;
const TABLE: u8 = 2;

impl Hash {
    /// Appends the hash's bytes. Fields that have expired are written like the others.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        match &self.form {
            Form::Pairs(block) => {
                out.push(PAIRS);
                out.extend_from_slice(block.as_bytes());
            }
            Form::Triples(triples) => {
                out.push(TRIPLES);
                out.extend_from_slice(triples.as_bytes());
            }
            Form::Table(table) => {
                out.push(TABLE);
                for record in table.iter() {
                    varint::write(out, record.len() as u64);
                    out.extend_from_slice(record);
                }
            }
        }
    }

    /// Reads what [`Hash::encode`] wrote. Never panics; allocates in proportion to `bytes`.
    ///
    /// # Errors
    ///
    /// The bytes are no hash.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let [VERSION, form, rest @ ..] = bytes else { return Err(Corrupt("unknown version of a hash")) };
        let form = match *form {
            PAIRS => Form::Pairs(block(rest, 2)?),
            TRIPLES => Form::Triples(Triples::of_block(block(rest, 3)?)),
            TABLE => Form::Table(table(rest)?),
            _ => return Err(Corrupt("unknown form of a hash")),
        };
        Ok(Hash { form })
    }
}

fn block(bytes: &[u8], stride: usize) -> Result<Block, Corrupt> {
    let block = Block::from_bytes(bytes)?;
    if block.len() % stride != 0 {
        return Err(Corrupt("hash ends within a field"));
    }
    let mut names: Vec<Vec<u8>> = Vec::with_capacity(block.len() / stride);
    for (i, elem) in block.iter().enumerate() {
        match i % stride {
            0 => {
                let name = elem.to_vec();
                if Elem::from_bytes(&name) != elem {
                    return Err(Corrupt("name of a field not in its shortest form"));
                }
                names.push(name);
            }
            2 if !matches!(elem, Elem::Int(at) if (0..=EXPIRY_MAX.0 as i64).contains(&at)) => {
                return Err(Corrupt("impossible expiry of a field"));
            }
            _ => {}
        }
    }
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Corrupt("field of a hash twice"));
    }
    Ok(block)
}

fn table(mut bytes: &[u8]) -> Result<Table<Stored>, Corrupt> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let record = varint::take(&mut bytes).ok_or(Corrupt("field of a hash cut short"))?;
        let (expiry, ..) = split(record).ok_or(Corrupt("field of a hash cut short"))?;
        if expiry.is_some_and(|at| !is_expiry(at)) {
            return Err(Corrupt("impossible expiry of a field"));
        }
        if record.len() > RECORD_BYTES_MAX {
            return Err(Corrupt("field of a hash too long"));
        }
        records.push(record);
    }
    let count = records.len() as u64;
    let table = Table::build(records);
    if table.len() != count {
        return Err(Corrupt("field of a hash twice"));
    }
    Ok(table)
}
