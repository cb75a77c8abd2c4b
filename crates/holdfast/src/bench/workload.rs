//! The workload: batches of commands, drawn at random or filling the keys in order.

use std::sync::Arc;

use super::keys::{Keys, Rng};
use super::nodes::Slots;
use super::options::{Mode, Options};
use super::template::{self, KeyFormat, Template, Values};

/// A load pipelines about this many bytes, but at most [`LOAD_COMMANDS_MAX`] commands.
const LOAD_BATCH_BYTES: usize = 32 << 10;
const LOAD_COMMANDS_MAX: u64 = 128;

/// Keys that are drawn for a node that has none of them, before it is sent one that it has not.
const TRIES_MAX: u32 = 10_000;

const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

/// The commands to choose from; shared by the threads.
#[derive(Debug)]
pub struct Commands {
    format: KeyFormat,
    values: Values,
    keys: Keys,
    get: Template,
    set: Template,
    /// Of `--command`: sent one after the other, as one batch.
    custom: Vec<Template>,
    /// `--against`.
    against: Option<Template>,
    /// `--load-command`, or SET.
    load: Template,
    get_ratio: f64,
    batch: usize,
    mode: Mode,
    key_count: u64,
    load_batch: u64,
    /// By node, what it has, if it is sent only that.
    slots: Vec<Slots>,
}

impl Commands {
    /// The commands that the options ask for; nodes that have `slots` are sent keys of theirs.
    ///
    /// # Errors
    /// The fault of a `--command`.
    pub fn new(options: &Options, slots: Vec<Slots>) -> Result<Self, String> {
        let format = KeyFormat::new(options);
        let template = |line: &str| Template::new(&template::arguments(line)?, &format, options.value_size);
        let line = options.load_command.as_ref().map_or(40, String::len);
        let average = (options.value_size.min + options.value_size.max) / 2 + format.len() + line;
        Ok(Self {
            get: template("GET __key__")?,
            set: template("SET __key__ __data__")?,
            custom: options.command.iter().map(|line| template(line)).collect::<Result<_, _>>()?,
            against: options.against.as_deref().map(template).transpose()?,
            load: template(options.load_command.as_deref().unwrap_or("SET __key__ __data__"))?,
            values: Values::new(options.value_size, options.seed),
            keys: Keys::new(options),
            get_ratio: options.get_ratio,
            batch: options.batch(),
            mode: options.mode,
            key_count: options.keys,
            load_batch: (LOAD_BATCH_BYTES as u64 / average as u64).clamp(1, LOAD_COMMANDS_MAX),
            format,
            slots,
        })
    }
}

/// A batch that was appended to a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Commands in it, MULTI and EXEC not counted.
    pub commands: u32,
    /// Replies to expect.
    pub replies: u32,
}

/// One thread's source of batches.
#[derive(Debug)]
pub struct Source {
    commands: Arc<Commands>,
    rng: Rng,
    order: Order,
    /// The key before.
    last: u64,
    /// A key whose slot is looked at.
    key: Vec<u8>,
}

#[derive(Debug)]
enum Order {
    Random,
    /// Every key from where its node is below `end` once.
    Fill {
        next: Vec<u64>,
        end: u64,
    },
}

impl Source {
    /// Random commands; `stream` makes threads of one seed differ.
    pub fn random(commands: Arc<Commands>, seed: u64, stream: u64) -> Self {
        Self { commands, rng: Rng::new(seed, stream), order: Order::Random, last: 0, key: Vec::new() }
    }

    /// SETs, or `--load-command`, of this thread's share of all keys.
    pub fn fill(commands: Arc<Commands>, seed: u64, thread: u64, threads: u64) -> Self {
        let share = |thread: u64| (u128::from(commands.key_count) * u128::from(thread) / u128::from(threads)) as u64;
        let nodes = commands.slots.len().max(1);
        let order = Order::Fill { next: vec![share(thread); nodes], end: share(thread + 1) };
        Self { rng: Rng::new(seed, u64::from(u32::MAX) + thread), commands, order, last: 0, key: Vec::new() }
    }

    /// True if batches are transactions, whose last reply is EXEC's.
    pub fn transactions(&self) -> bool {
        self.commands.mode == Mode::Tx && matches!(self.order, Order::Random)
    }

    /// True if every key is filled.
    pub fn is_used_up(&self) -> bool {
        matches!(&self.order, Order::Fill { next, end } if next.iter().all(|next| next == end))
    }

    /// Appends the next batch for a node, or that of a connection that works `against` the others; none if the node's
    /// keys are filled.
    #[inline]
    pub fn next(&mut self, against: bool, node: usize, out: &mut Vec<u8>) -> Option<Batch> {
        let Commands { format, values, .. } = &*self.commands;
        let (slots, key) = (self.commands.slots.get(node), &mut self.key);
        let mut has = |number: u64| {
            slots.is_none_or(|slots| {
                key.clear();
                format.write(number, key);
                slots.have(key)
            })
        };
        if let Order::Fill { next, end } = &mut self.order {
            let (next, mut count) = (&mut next[if slots.is_some() { node } else { 0 }], 0);
            while *next < *end && count < self.commands.load_batch {
                let number = *next;
                *next += 1;
                if has(number) {
                    count += 1;
                    self.commands.load.write(format, values, &mut self.rng, |_| number, &mut self.last, out);
                }
            }
            let count = count as u32;
            return (count > 0).then_some(Batch { commands: count, replies: count });
        }
        let keys = &self.commands.keys;
        let mut draw = |rng: &mut Rng| {
            let drawn = (0..TRIES_MAX).map(|_| keys.draw(rng)).find(|number| has(*number));
            drawn.unwrap_or_else(|| keys.draw(rng))
        };
        if against && let Some(template) = &self.commands.against {
            template.write(format, values, &mut self.rng, &mut draw, &mut self.last, out);
            return Some(Batch { commands: 1, replies: 1 });
        }
        let tx = self.commands.mode == Mode::Tx;
        if tx {
            out.extend_from_slice(MULTI);
        }
        for at in 0..self.commands.batch {
            let custom = &self.commands.custom;
            let template = match custom.get(at % custom.len().max(1)) {
                Some(custom) => custom,
                None if self.rng.unit() < self.commands.get_ratio => &self.commands.get,
                None => &self.commands.set,
            };
            template.write(format, values, &mut self.rng, &mut draw, &mut self.last, out);
        }
        if tx {
            out.extend_from_slice(EXEC);
        }
        let commands = self.commands.batch as u32;
        Some(Batch { commands, replies: commands + if tx { 2 } else { 0 } })
    }
}
