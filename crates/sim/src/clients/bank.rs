//! Clients that move amounts between shared accounts, in blocks and scripts, and keep a journal of it. The sum of all
//! accounts is always zero, and each account is what the journals say.

use std::collections::{BTreeMap, VecDeque};

use redolog::simulated::Chance;
use resp::Value;

use super::{Client, Common, Found, Request, Verdict, Words, block, number, script, wrong};
use crate::clients::model::{Content, Contents};
use crate::invariants::seen::number_in;
use crate::machine::promise::Promise;

/// Requests under way at most.
const WINDOW: usize = 3;
const ACCOUNTS: u64 = 8;

/// A transfer: from, to, how much.
type Transfer = (u64, u64, i64);

/// The clients' knowledge of the accounts.
#[derive(Default)]
pub struct Bank {
    /// Of each account after the last start.
    base: BTreeMap<u64, i64>,
    /// Of each banker.
    journals: BTreeMap<usize, Journal>,
}

#[derive(Default)]
struct Journal {
    /// Transfers before the last start.
    before: u64,
    /// Transfers since, the acknowledged ones first.
    sent: Vec<Transfer>,
    acknowledged: usize,
    /// Of these, when that was a firm promise.
    firm: usize,
}

enum Asked {
    /// A transfer, with the promise of `appendfsync` at that time.
    Transfer(Promise),
    Sum,
}

/// See the module's text.
pub struct Banker {
    id: usize,
    pending: VecDeque<Asked>,
    is_cut_off: bool,
}

impl Banker {
    /// Client number `id`.
    pub fn new(id: usize) -> Self {
        Self { id, pending: VecDeque::new(), is_cut_off: false }
    }
}

fn account(n: u64) -> String {
    format!("a{n}")
}

fn journal(id: usize) -> String {
    format!("j{id}")
}

fn balance(contents: &Contents, n: u64) -> i64 {
    match contents.get(&(0, account(n))).map(|entry| &entry.content) {
        Some(Content::Text(text)) => text.parse().unwrap_or(0),
        _ => 0,
    }
}

impl Bank {
    /// After a start: the journals say which transfers survived, and the accounts must be what comes of these.
    fn look(&mut self, found: &Found<'_>) -> Result<(), String> {
        let mut wanted = std::mem::take(&mut self.base);
        for (id, known) in &mut self.journals {
            let there = number_in(found.contents, &journal(*id));
            let survived = there.checked_sub(known.before).map(|survived| survived as usize);
            let least = if found.keeps_promises { known.acknowledged } else { known.firm };
            // Without promises earlier writes may be lost as well: the check can say nothing then.
            let Some(survived) = survived.filter(|survived| (least..=known.sent.len()).contains(survived)) else {
                return Err(format!(
                    "banker {id} had {} transfers, made {} and heard of {} ({} firmly): its journal says {there}",
                    known.before,
                    known.sent.len(),
                    known.acknowledged,
                    known.firm
                ));
            };
            for (from, to, amount) in &known.sent[..survived] {
                *wanted.entry(*from).or_default() -= amount;
                *wanted.entry(*to).or_default() += amount;
            }
            *known = Journal { before: there, ..Journal::default() };
        }
        for n in 0..ACCOUNTS {
            let (there, wanted) = (balance(found.contents, n), wanted.get(&n).copied().unwrap_or(0));
            if there != wanted {
                return Err(format!("account {n} has {there}, and should have {wanted}"));
            }
            self.base.insert(n, there);
        }
        Ok(())
    }
}

impl Client for Banker {
    fn name(&self) -> String {
        format!("banker {}", self.id)
    }

    fn next(&mut self, common: &mut Common, chance: &mut Chance) -> Option<Request> {
        if self.is_cut_off || self.pending.len() >= WINDOW {
            return None;
        }
        if chance.below(4) == 0 {
            self.pending.push_back(Asked::Sum);
            return Some(vec![["mget".to_owned()].into_iter().chain((0..ACCOUNTS).map(account)).collect()]);
        }
        let (from, to, amount) = (chance.below(ACCOUNTS), chance.below(ACCOUNTS), 1 + chance.below(100) as i64);
        common.bank.journals.entry(self.id).or_default().sent.push((from, to, amount));
        self.pending.push_back(Asked::Transfer(common.promise));
        let words = |words: [&str; 3]| -> Words { words.map(str::to_owned).into() };
        let amount = amount.to_string();
        let commands = [
            words(["decrby", &account(from), &amount]),
            words(["incrby", &account(to), &amount]),
            words(["incrby", &journal(self.id), "1"]),
        ];
        Some(if chance.below(3) == 0 { script(commands) } else { block(commands) })
    }

    fn answered(&mut self, common: &mut Common, mut replies: Vec<Value>) -> Verdict {
        let reply = replies.pop();
        match (self.pending.pop_front(), reply) {
            (Some(Asked::Sum), Some(Value::Array(values))) if values.len() == ACCOUNTS as usize => {
                let sum: i64 = values.iter().map(signed).sum();
                if sum != 0 {
                    return wrong("blocks", &self.name(), format_args!("the sum is {sum}: {values:?}"));
                }
                Ok(())
            }
            (Some(Asked::Transfer(promised)), Some(reply)) => {
                let count = match &reply {
                    Value::Array(values) => values.last().and_then(number),
                    other => number(other),
                };
                let is_firm = common.is_firm(promised);
                let known = common.bank.journals.entry(self.id).or_default();
                known.acknowledged += 1;
                if is_firm {
                    known.firm = known.acknowledged;
                }
                if count != Some(known.before + known.acknowledged as u64) {
                    return wrong(
                        "replies",
                        &self.name(),
                        format_args!("{reply:?} for transfer {}", known.acknowledged),
                    );
                }
                Ok(())
            }
            (_, reply) => wrong("replies", &self.name(), format_args!("{reply:?}")),
        }
    }

    fn refused(&mut self, common: &mut Common) {
        if let Some(Asked::Transfer(_)) = self.pending.pop_front() {
            let known = common.bank.journals.entry(self.id).or_default();
            known.sent.remove(known.acknowledged);
        }
    }

    fn cut_off(&mut self) {
        self.is_cut_off = true;
        self.pending.clear();
    }

    fn look(&mut self, common: &mut Common, found: &Found<'_>) -> Verdict {
        self.is_cut_off = false;
        common.bank.look(found).or_else(|what| wrong("blocks", &self.name(), what))
    }
}

fn signed(value: &Value) -> i64 {
    match value {
        Value::Bulk(digits) => String::from_utf8_lossy(digits).parse().unwrap_or(0),
        _ => 0,
    }
}
