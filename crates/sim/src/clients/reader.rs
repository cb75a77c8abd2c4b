//! A client that reads what other clients write, and copies it.

use std::collections::VecDeque;

use redolog::simulated::Chance;
use resp::Value;

use super::{Client, Common, Found, Request, Verdict, block, number, wrong};
use crate::invariants::seen;

/// Requests under way at most.
const WINDOW: usize = 3;

/// See the module's text.
pub struct Reader {
    id: usize,
    /// The registers that each request asks for, and the least value each had when the request was sent.
    pending: VecDeque<Vec<(String, u64)>>,
    is_cut_off: bool,
}

impl Reader {
    /// Client number `id`.
    pub fn new(id: usize) -> Self {
        Self { id, pending: VecDeque::new(), is_cut_off: false }
    }

    fn copy_of(&self, register: &str) -> String {
        format!("y{}|{}", self.id, register.replace(':', "."))
    }
}

impl Client for Reader {
    fn name(&self) -> String {
        format!("reader {}", self.id)
    }

    fn next(&mut self, common: &mut Common, chance: &mut Chance) -> Option<Request> {
        if self.is_cut_off || self.pending.len() >= WINDOW || common.registers.is_empty() {
            return None;
        }
        let any = |chance: &mut Chance| common.registers[chance.below(common.registers.len() as u64) as usize].clone();
        let get = |register: &str| vec!["get".to_owned(), register.to_owned()];
        let (registers, request) = match chance.below(3) {
            0 => {
                let register = any(chance);
                (vec![register.clone()], vec![get(&register)])
            }
            1 => {
                let registers = vec![any(chance), any(chance)];
                let commands: Vec<_> = registers.iter().map(|register| get(register)).collect();
                (registers, block(commands))
            }
            _ => {
                let register = any(chance);
                let copy = self.copy_of(&register);
                let text = format!(
                    "local v = redis.call('get', '{register}'); if v then redis.call('set', '{copy}', v) end; return v"
                );
                (vec![register], vec![vec!["eval".into(), text, "0".into()]])
            }
        };
        let shown = |register: String| {
            let before = common.shown.get(&register).copied().unwrap_or(0);
            (register, before)
        };
        self.pending.push_back(registers.into_iter().map(shown).collect());
        Some(request)
    }

    fn answered(&mut self, common: &mut Common, mut replies: Vec<Value>) -> Verdict {
        let Some(asked) = self.pending.pop_front() else {
            return wrong("replies", &self.name(), "an answer to nothing");
        };
        let values = match replies.pop() {
            Some(Value::Array(values)) => values,
            other => other.into_iter().collect(),
        };
        if values.len() != asked.len() {
            return wrong("replies", &self.name(), format_args!("{values:?} for {asked:?}"));
        }
        for ((register, before), value) in asked.into_iter().zip(values) {
            let shown = if value == Value::Null { Some(0) } else { number(&value) };
            match shown {
                Some(shown) if shown >= before => {
                    let highest = common.shown.entry(register).or_default();
                    *highest = (*highest).max(shown);
                }
                _ => return wrong("seen", &self.name(), format_args!("{register} is {value:?} after {before}")),
            }
        }
        Ok(())
    }

    fn refused(&mut self, _: &mut Common) {
        self.pending.pop_front();
    }

    fn cut_off(&mut self) {
        self.is_cut_off = true;
        self.pending.clear();
    }

    fn look(&mut self, common: &mut Common, found: &Found<'_>) -> Verdict {
        self.is_cut_off = false;
        if found.keeps_promises {
            seen::check(&common.shown, found.contents)?;
        }
        for register in &common.registers {
            seen::check_copy(found.contents, &self.copy_of(register), register)?;
            common.shown.insert(register.clone(), seen::number_in(found.contents, register));
        }
        Ok(())
    }
}
