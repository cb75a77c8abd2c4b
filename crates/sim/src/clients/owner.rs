//! A client with keys that no other client writes. It knows the reply to every command, and the possible contents after
//! a crash.

use std::collections::VecDeque;

use clocks::UnixMs;
use redolog::simulated::Chance;
use resp::Value;

use super::model::{Act, Contents, Name, may_be};
use super::{Client, Common, Found, Request, Verdict, Words, block, script, wrong};
use crate::invariants::{blocks, expiry, seen};
use crate::machine::promise::Promise;

/// The most requests under way: after a crash the check tries every outcome of these.
const WINDOW: usize = 5;

/// How many keys it has of each kind.
const KEYS: u64 = 3;

/// How acts are done together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manner {
    Alone,
    Block,
    Script,
}

/// Acts that are done as one.
struct Op {
    acts: Vec<Act>,
    manner: Manner,
    /// The promise of `appendfsync` at that time.
    promised: Promise,
    /// The replies, if the client knows what they must be.
    wanted: Vec<Option<Value>>,
}

impl Op {
    fn apply(&self, contents: &mut Contents) {
        for act in &self.acts {
            act.apply(contents);
        }
    }

    /// True if it writes its client's register.
    fn sets(&self, register: &str) -> bool {
        self.acts.iter().any(|act| matches!(act, Act::Set(key, _) if key.0 == 0 && key.1 == register))
    }

    /// The keys that its acts may change; `None`: whole databases.
    fn written(&self) -> Option<Vec<&Name>> {
        let keys: Option<Vec<_>> = self.acts.iter().map(Act::written).collect();
        Some(keys?.concat())
    }

    /// The keys of all acts; `None`: whole databases.
    fn keys(&self) -> Option<Vec<&Name>> {
        let keys: Option<Vec<_>> = self.acts.iter().map(Act::keys).collect();
        Some(keys?.concat())
    }
}

impl blocks::Whole for Op {
    fn apply(&self, contents: &mut Contents) {
        Op::apply(self, contents);
    }

    fn stands_on(&self, other: &Op) -> bool {
        match (self.keys(), other.written()) {
            (Some(mine), Some(theirs)) => mine.iter().any(|key| theirs.contains(key)),
            _ => true,
        }
    }
}

/// See the module's text.
pub struct Owner {
    id: usize,
    /// Databases it has for itself; one that it shares if there is only one.
    dbs: Vec<u16>,
    /// After all that was acknowledged.
    base: Contents,
    /// After all that was sent.
    ahead: Contents,
    pending: VecDeque<Op>,
    /// Numbers the values that the client writes.
    count: u64,
    /// Its own register, and the last number written there.
    register: String,
    is_cut_off: bool,
}

impl Owner {
    /// Client number `id`. With several databases these are its own, and it flushes and swaps them.
    pub fn new(id: usize, dbs: &[u16], common: &mut Common) -> Self {
        let register = format!("r:{id}");
        if dbs.len() == 1 {
            common.registers.push(register.clone());
        }
        common.timed.extend(dbs.iter().flat_map(|db| (0..KEYS).map(|n| (*db, format!("e{n}:{id}")))));
        Self {
            id,
            dbs: dbs.into(),
            base: Contents::new(),
            ahead: Contents::new(),
            pending: VecDeque::new(),
            count: 0,
            register,
            is_cut_off: false,
        }
    }

    /// One of its keys of this kind.
    fn key(&self, kind: &str, chance: &mut Chance) -> Name {
        let db = self.dbs[chance.below(self.dbs.len() as u64) as usize];
        (db, format!("{kind}{}:{}", chance.below(KEYS), self.id))
    }

    fn act(&mut self, now: UnixMs, chance: &mut Chance) -> Act {
        self.count += 1;
        let text = format!("{}", self.count);
        let few = format!("m{}", chance.below(6));
        match chance.below(27) {
            0 | 1 => Act::Set((self.dbs[0], self.register.clone()), text),
            2 | 3 => Act::Set(self.key("t", chance), text),
            4 => Act::Get(self.key(["t", "e"][chance.below(2) as usize], chance)),
            5 => Act::Append(self.key("t", chance), format!(",{text}")),
            6 | 7 => Act::Add(self.key("n", chance), self.count as i64),
            8 => {
                let kind = ["t", "n", "l", "h", "s", "z", "e"][chance.below(7) as usize];
                Act::Delete(self.key(kind, chance))
            }
            9 | 10 => Act::Push(self.key("l", chance), text),
            11 => Act::Pop(self.key("l", chance)),
            12 => {
                let from = self.key("l", chance);
                Act::Carry(from.clone(), (from.0, self.key("l", chance).1))
            }
            13 => Act::Put(self.key("h", chance), few, text),
            14 => Act::Drop(self.key("h", chance), few),
            15 => Act::Join(self.key("s", chance), few),
            16 => Act::Leave(self.key("s", chance), few),
            17 => Act::Rank(self.key("z", chance), few, self.count as i64),
            18 => Act::Rise(self.key("z", chance), few, self.count as i64),
            19 => {
                let kind = ["t", "l", "h", "s", "z"][chance.below(5) as usize];
                let from = self.key(kind, chance);
                Act::Rename(from.clone(), (from.0, self.key(kind, chance).1))
            }
            20 => {
                let kind = ["t", "l", "h", "s", "z"][chance.below(5) as usize];
                let from = self.key(kind, chance);
                let to = (from.0, self.key(kind, chance).1);
                if from == to { Act::Get(self.key("t", chance)) } else { Act::Copy(from, to) }
            }
            // Expiry is far away or very near. With times in between the client could not predict the reply.
            24 | 25 => Act::Sink(self.key("z", chance), few),
            26 => Act::Rise(self.key("z", chance), few, 0),
            21 | 22 => Act::SetUntil(self.key("e", chance), text, now + [30, 100_000_000][chance.below(2) as usize]),
            _ if self.dbs.len() > 1 => match chance.below(3) {
                0 => Act::Swap(self.dbs[0], self.dbs[1]),
                _ => Act::Flush(self.dbs[chance.below(2) as usize]),
            },
            _ => Act::Expire(self.key("h", chance), now + 100_000_000),
        }
    }

    fn say(&self, acts: &[Act], manner: Manner) -> Request {
        let mut commands: Vec<Words> = Vec::new();
        let select = |db: u16| vec!["select".to_owned(), db.to_string()];
        let (first, mut selected) = (acts[0].db(), acts[0].db());
        for act in acts {
            if act.db() != selected {
                selected = act.db();
                commands.push(select(selected));
            }
            commands.push(act.words());
        }
        let commands = match manner {
            Manner::Alone => commands,
            Manner::Block => block(commands),
            Manner::Script => script(commands),
        };
        // Whatever the outcome of earlier requests.
        if self.dbs.len() > 1 { [select(first)].into_iter().chain(commands).collect() } else { commands }
    }
}

impl Client for Owner {
    fn name(&self) -> String {
        format!("owner {}", self.id)
    }

    fn next(&mut self, common: &mut Common, chance: &mut Chance) -> Option<Request> {
        if self.is_cut_off || self.pending.len() >= WINDOW {
            return None;
        }
        let manner = match chance.below(6) {
            0 | 1 => Manner::Block,
            2 if self.dbs.len() == 1 => Manner::Script,
            _ => Manner::Alone,
        };
        let count = if manner == Manner::Alone { 1 } else { 1 + chance.below(4) };
        let mut acts: Vec<Act> = (0..count).map(|_| self.act(common.now, chance)).collect();
        if manner == Manner::Script {
            // One that fails would end it in the middle.
            acts.retain(|act| !matches!(act, Act::Rename(..)));
            acts.push(Act::Get(self.key("t", chance)));
        }
        let request = self.say(&acts, manner);
        let wanted = acts.iter().map(|act| act.apply(&mut self.ahead)).collect();
        self.pending.push_back(Op { acts, manner, promised: common.promise, wanted });
        Some(request)
    }

    fn answered(&mut self, common: &mut Common, mut replies: Vec<Value>) -> Verdict {
        let name = self.name();
        let Some(op) = self.pending.pop_front() else { return wrong("replies", &name, "an answer to nothing") };
        // Of a block only the last reply counts, of commands with a change of the database that of the command.
        let last = replies.pop();
        let got: Vec<Option<Value>> = match (op.manner, last) {
            (Manner::Block, Some(Value::Array(values))) => {
                let skipped = values.len().saturating_sub(op.acts.len());
                // Changes of the database are answered, too.
                if skipped > 0 { vec![None; op.acts.len()] } else { values.into_iter().map(Some).collect() }
            }
            (Manner::Script, value) => {
                let mut got = vec![None; op.acts.len()];
                got[op.acts.len() - 1] = value;
                got
            }
            (_, value) => vec![value],
        };
        if got.len() != op.wanted.len() {
            return wrong("replies", &name, format_args!("{:?} was answered {got:?}", op.acts));
        }
        for ((act, got), wanted) in op.acts.iter().zip(&got).zip(&op.wanted) {
            let same = match (wanted, got) {
                (Some(Value::Error(_)), Some(Value::Error(_))) => true,
                (Some(wanted), Some(got)) => wanted == got,
                _ => true,
            };
            if !same {
                return wrong("replies", &name, format_args!("{act:?} was answered {got:?}, not {wanted:?}"));
            }
            if let (Manner::Alone, Act::Get(key), Some(got)) = (op.manner, act, got)
                && expiry::has_expired(&name, self.base.get(key), got, common.latest)?
            {
                // It is gone, and does not come back.
                if self.ahead.get(key) == self.base.get(key) {
                    self.ahead.remove(key);
                }
                self.base.remove(key);
            }
        }
        op.apply(&mut self.base);
        if common.is_firm(op.promised) && op.sets(&self.register) {
            common.firm.insert(self.register.clone(), seen::number_in(&self.base, &self.register));
        }
        Ok(())
    }

    fn refused(&mut self, _: &mut Common) {
        self.pending.pop_front();
        // Later requests have removed some of it.
        self.ahead.clone_from(&self.base);
        for op in &mut self.pending {
            op.wanted = op.acts.iter().map(|act| act.apply(&mut self.ahead)).collect();
        }
    }

    fn cut_off(&mut self) {
        self.is_cut_off = true;
    }

    fn look(&mut self, common: &mut Common, found: &Found<'_>) -> Verdict {
        self.is_cut_off = false;
        let suffix = format!(":{}", self.id);
        let mine = |key: &Name| match self.dbs[..] {
            [db] => key.0 == db && key.1.ends_with(&suffix),
            _ => self.dbs.contains(&key.0),
        };
        let there = found.contents.iter().filter(|(key, _)| mine(key));
        let there: Contents = there.map(|(key, entry)| (key.clone(), entry.clone())).collect();
        // A request that changed nothing when it ran left nothing for later requests to depend on.
        let mut done = self.base.clone();
        let changes = |op: &Op| {
            let before = done.clone();
            op.apply(&mut done);
            done != before
        };
        let pending: Vec<Op> = std::mem::take(&mut self.pending).into_iter().filter(changes).collect();
        if found.keeps_promises {
            let fits = |wanted: &Contents| may_be(wanted, &there, found.from, found.to.max(common.latest));
            if !blocks::can_be(&self.base, &pending, &fits) {
                let maybe: Vec<_> = pending.iter().map(|op| &op.acts).collect();
                let what = format_args!("after {:?} and perhaps {maybe:?} there is {there:?}", self.base);
                return wrong("acknowledged", &self.name(), what);
            }
        }
        seen::check_firm(&common.firm, &self.register, &there)?;
        common.firm.insert(self.register.clone(), seen::number_in(&there, &self.register));
        self.ahead.clone_from(&there);
        self.base = there;
        Ok(())
    }
}
