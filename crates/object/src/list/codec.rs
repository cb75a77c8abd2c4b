//! A list as bytes.
//!
//! ```text
//! version (1): 1
//! flags (1): bit 0 set for Redis's quicklist encoding
//! elements as in a block, to the end
//! ```

use super::leaf::Run;
use super::{Form, List};
use crate::Corrupt;
use crate::block::Block;
use crate::tree::{LEAF_BYTES_MAX, Tree};

const VERSION: u8 = 1;
const QUICKLIST: u8 = 1;

impl List {
    /// Appends the list's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(2 + self.bytes());
        out.extend([VERSION, if self.quicklist { QUICKLIST } else { 0 }]);
        match &self.form {
            Form::Small(block) => out.extend_from_slice(block.as_bytes()),
            Form::Large(tree) => tree.leaves_from(0).for_each(|(run, _)| out.extend_from_slice(run.0.as_bytes())),
        }
    }

    /// Reads what [`List::encode`] wrote. Never panics; allocates no more than `bytes` holds.
    ///
    /// # Errors
    ///
    /// The bytes are no list.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let [VERSION, flags @ 0..=QUICKLIST, elements @ ..] = bytes else {
            return Err(Corrupt("unknown version or flags of a list"));
        };
        let mut rest = elements;
        let mut blocks = Vec::with_capacity(rest.len() / LEAF_BYTES_MAX + 1);
        while !rest.is_empty() {
            let (block, more) = Block::take_bytes(rest, LEAF_BYTES_MAX)?;
            blocks.push(Run(block));
            rest = more;
        }
        let form = if blocks.len() <= 1 {
            Form::Small(blocks.pop().unwrap_or_default().0)
        } else {
            Form::Large(Tree::from_leaves(blocks))
        };
        Ok(List { form, quicklist: *flags == QUICKLIST })
    }
}
