//! A set as bytes.
//!
//! ```text
//! version (1): 1
//! form (1): 0 integers, 1 block, 2 table
//! 0: width (1), integers in ascending order; 1: members as in a block; 2: length and bytes of each member
//! ```

use super::ints::Ints;
use super::{Form, Member, Set};
use crate::Corrupt;
use crate::block::{Block, Elem};
use crate::hashed::{RECORD_BYTES_MAX, Table, varint};

const VERSION: u8 = 1;
const INTS: u8 = 0;
const BLOCK: u8 = 1;
const TABLE: u8 = 2;

impl Set {
    /// Appends the set's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        match &self.form {
            Form::Ints(ints) => {
                out.push(INTS);
                ints.encode(out);
            }
            Form::Block(block) => {
                out.push(BLOCK);
                out.extend_from_slice(block.as_bytes());
            }
            Form::Table(table) => {
                out.push(TABLE);
                for member in table.iter() {
                    varint::write(out, member.len() as u64);
                    out.extend_from_slice(member);
                }
            }
        }
    }

    /// Reads what [`Set::encode`] wrote. Never panics; allocates in proportion to `bytes`.
    ///
    /// # Errors
    ///
    /// The bytes are no set.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let [VERSION, form, rest @ ..] = bytes else { return Err(Corrupt("unknown version of a set")) };
        let form = match *form {
            INTS => Form::Ints(Ints::decode(rest)?),
            BLOCK => Form::Block(block(rest)?),
            TABLE => Form::Table(table(rest)?),
            _ => return Err(Corrupt("unknown form of a set")),
        };
        Ok(Set { form })
    }
}

fn block(bytes: &[u8]) -> Result<Block, Corrupt> {
    let block = Block::from_bytes(bytes)?;
    let mut strings: Vec<Vec<u8>> = Vec::with_capacity(block.len());
    for member in &block {
        let string = member.to_vec();
        if Elem::from_bytes(&string) != member {
            return Err(Corrupt("member of a set not in its shortest form"));
        }
        strings.push(string);
    }
    strings.sort_unstable();
    if strings.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Corrupt("member of a set twice"));
    }
    Ok(block)
}

fn table(mut bytes: &[u8]) -> Result<Table<Member>, Corrupt> {
    let mut members = Vec::new();
    while !bytes.is_empty() {
        let member = varint::take(&mut bytes).ok_or(Corrupt("member of a set cut short"))?;
        if member.len() > RECORD_BYTES_MAX {
            return Err(Corrupt("member of a set too long"));
        }
        members.push(member);
    }
    let count = members.len() as u64;
    let table = Table::build(members);
    if table.len() != count {
        return Err(Corrupt("member of a set twice"));
    }
    Ok(table)
}
