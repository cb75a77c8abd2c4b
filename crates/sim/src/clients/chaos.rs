//! A client that runs commands of every kind on data, in databases that no other client uses. The contents are compared
//! by digest.

use redolog::simulated::Chance;

use super::heedless::Deeds;
use super::{Request, Words, block};

/// `K` is a key, `D` a database, `N` a small number, `V` a value, `L` a key of large values, `W` a long element, `T` a
/// time in the near future.
const LINES: &[&str] = &[
    "set K V",
    "set K N",
    "set K V px 40",
    "mset K V K V K V",
    "del K K",
    "append K V",
    "incr K",
    "setrange K N V",
    "getdel K",
    "getex K px 20",
    "rename K K",
    "copy K K replace",
    "copy K K db D replace",
    "move K D",
    "pexpire K 30",
    "pexpire K 100000",
    "persist K",
    "get K",
    "rpush K V V V",
    "lpush K V",
    "lset K 0 V",
    "linsert K before N V",
    "lpop K",
    "ltrim K 1 -2",
    "lmove K K left right",
    "sort K by nosort store K",
    "sadd K N N V",
    "srem K N",
    "spop K",
    "smove K K N",
    "sunionstore K K K",
    "zadd K N a N b N V",
    "zincrby K N a",
    "zpopmin K",
    "zunionstore K 2 K K",
    "hset K a N b V N V",
    "hincrby K a N",
    "hdel K a",
    "hpexpire K 30 fields 1 a",
    "hpexpire K 100000 fields 1 b",
    "xadd K * a V",
    "xtrim K maxlen N",
    "xgroup create K g 0 mkstream",
    "xreadgroup group g c count 1 streams K >",
    "bitop xor K K K",
    "pfadd K V N",
    "exists K K",
    "rpush Ll W W W W W W W W",
    "lpop Ll",
    "ltrim Ll 0 5",
    "sadd Ls W W W W W W W W",
    "srem Ls W W",
    "zadd Lz N W N W N W N W N W N W",
    "zincrby Lz N W",
    "hset Lh W W W W W W W W",
    "hset Lh a W",
    "hpexpire Lh 30 fields 1 a",
    "del Ll Ls",
    "del Lz Lh",
    "select D",
    "flushdb",
    "swapdb D D",
    "flushdb async",
];

/// See the module's text.
pub struct Chaos {
    id: usize,
    dbs: [u16; 2],
}

impl Chaos {
    /// Client number `id`, in these databases.
    pub fn new(id: usize, dbs: [u16; 2]) -> Self {
        Self { id, dbs }
    }

    fn words(&self, chance: &mut Chance) -> Words {
        // Commands that empty databases are rare.
        let count = LINES.len() as u64 - if chance.below(15) == 0 { 0 } else { 3 };
        let line = LINES[chance.below(count) as usize];
        let word = |word: &str| match word {
            "K" => match chance.below(24) {
                n if n % 4 == 0 => format!("k{n}"),
                n => format!("{{t}}{n}"),
            },
            "D" => self.dbs[chance.below(2) as usize].to_string(),
            "N" => (1 + chance.below(9)).to_string(),
            "V" => "v".repeat(1 + chance.below(60) as usize),
            "W" => chance.below(30).to_string().repeat(400),
            large if large.starts_with('L') => format!("{{t}}{}", &large[1..]),
            word => word.into(),
        };
        line.split(' ').map(word).collect()
    }
}

impl Deeds for Chaos {
    const WINDOW: u64 = 4;

    fn name(&self) -> String {
        format!("chaos {}", self.id)
    }

    fn request(&mut self, chance: &mut Chance) -> Request {
        // A new connection begins in a database that is not its own.
        let select = vec!["select".to_owned(), self.dbs[chance.below(2) as usize].to_string()];
        let commands = (0..1 + chance.below(4)).map(|_| self.words(chance));
        let commands: Vec<Words> = [select].into_iter().chain(commands).collect();
        if chance.below(3) == 0 { block(commands) } else { commands }
    }
}
