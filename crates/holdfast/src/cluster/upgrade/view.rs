//! A cluster as its status tells it. Nodes of an earlier build have no other words for it, so the text is read.

use std::collections::BTreeMap;

/// The cluster, as one node knows it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct View {
    pub level: u16,
    pub is_well: bool,
    /// The trouble, in the words of the node.
    pub problems: Vec<String>,
    pub members: Vec<Member>,
    /// Those with slots, where logs have groups; otherwise nobody names them.
    pub shards: Vec<Shard>,
}

/// A node or a log-server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    pub id: String,
    /// Where clients reach it.
    pub address: String,
    /// The machine that it runs on; its address where that is not known.
    pub machine: String,
    pub is_log_server: bool,
    pub is_up: bool,
    pub votes: bool,
    pub leads: bool,
    /// How often it has started.
    pub starts: u64,
    pub slots: u32,
}

/// A shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shard {
    pub number: u32,
    pub owner: String,
    /// The addresses of the members that have copies of its log; empty: the log has none.
    pub copies: Vec<String>,
    /// A copy of the log is a megabyte or more behind.
    pub is_behind: bool,
    pub standbys: Vec<Standby>,
}

/// A standby of a shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standby {
    pub address: String,
    /// `electable`, `pinned` or `given up`, and `down` behind it.
    pub state: String,
}

impl Standby {
    pub fn is_electable(&self) -> bool {
        self.state == "electable"
    }
}

impl View {
    /// The view in a status.
    ///
    /// # Errors
    /// The text is no status, or the node that was asked belongs to no cluster.
    pub fn read(text: &str) -> Result<Self, String> {
        let level = text.lines().find_map(|line| line.strip_prefix("level "));
        let level = level.and_then(|level| level.split(':').next()?.trim().parse().ok());
        let level = level.ok_or("the node that was asked does not tell the level of its cluster")?;
        let mut view = View { level, is_well: text.lines().any(|line| line == "health: ok"), ..Self::default() };
        let told = text.lines().filter_map(|line| line.strip_prefix("  ")).map(str::trim);
        view.problems = told.filter(|line| !line.starts_with("note: ")).map(str::to_owned).collect();
        for block in text.split("\n\n") {
            let rows = rows(block);
            let has = |name: &str| rows.first().is_some_and(|row| row.contains_key(name));
            if has("NODE") {
                view.members = rows.iter().filter_map(member).collect();
            } else if has("OWNER") {
                view.shards = rows.iter().filter_map(shard).collect();
            } else if has("STANDBY") {
                for row in &rows {
                    let of = row["SHARD"].parse().ok();
                    if let Some(shard) = view.shards.iter_mut().find(|shard| Some(shard.number) == of) {
                        let (address, state) = (row["STANDBY"].clone(), row["STATE"].clone());
                        shard.standbys.push(Standby { address, state });
                    }
                }
            }
        }
        if view.members.is_empty() {
            return Err("the node that was asked belongs to no cluster yet".to_owned());
        }
        Ok(view)
    }

    pub fn member(&self, address: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.address == address)
    }

    /// The machine of the member at an address.
    pub fn machine(&self, address: &str) -> &str {
        self.member(address).map_or("", |member| &member.machine)
    }

    /// The shards whose owners are on a machine.
    pub fn owned_on<'a>(&'a self, machine: &'a str) -> impl Iterator<Item = &'a Shard> {
        self.shards.iter().filter(move |shard| self.machine(&shard.owner) == machine)
    }
}

/// The rows of a table whose cells stand below their heads, by these.
fn rows(block: &str) -> Vec<BTreeMap<&str, String>> {
    let mut lines = block.lines().skip_while(|line| line.is_empty());
    let Some(heads) = lines.next().filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase())) else {
        return Vec::new();
    };
    let begins: Vec<usize> = (0..heads.len()).filter(|&at| at == 0 || heads[..at].ends_with("  ")).collect();
    let begins: Vec<usize> = begins.into_iter().filter(|&at| !heads[at..].starts_with(' ')).collect();
    let row = |line: &str| {
        let cells: Vec<char> = line.chars().collect();
        let cell = |(number, begin): (usize, &usize)| {
            let end = begins.get(number + 1).copied().unwrap_or(cells.len()).min(cells.len());
            let text: String = cells[(*begin).min(end)..end].iter().collect();
            let head = heads[*begin..].split("  ").next().unwrap_or_default().trim();
            (head, text.trim().to_owned())
        };
        begins.iter().enumerate().map(cell).collect()
    };
    lines.map(row).collect()
}

fn member(row: &BTreeMap<&str, String>) -> Option<Member> {
    let cell = |name: &str| row.get(name).map(String::as_str);
    let address = cell("ADDRESS")?.rsplit_once('@')?.0.to_owned();
    let machine = cell("HOST").filter(|name| !["", "?"].contains(name)).unwrap_or(&address).to_owned();
    let part = cell("METADATA")?;
    // Another one has come in the place of a lost one.
    let state = cell("STATE").filter(|state| *state != "lost")?;
    Some(Member {
        id: cell("NODE")?.to_owned(),
        machine,
        is_log_server: cell("KIND") == Some("log"),
        is_up: state == "up",
        votes: part != "learns",
        leads: part == "leads",
        starts: cell("STARTS")?.parse().ok()?,
        slots: cell("SLOTS")?.parse().ok()?,
        address,
    })
}

fn shard(row: &BTreeMap<&str, String>) -> Option<Shard> {
    let places = row.get("PLACES")?;
    // Marks are in parentheses: what is not is a place.
    let (mut copies, mut is_behind) = (Vec::new(), false);
    for part in places.split('(') {
        let (mark, rest) = part.split_once(')').unwrap_or(("", part));
        let behind = mark.split(", ").find_map(|mark| mark.strip_suffix(" behind"));
        is_behind |= behind.is_some_and(|amount| !amount.ends_with(['B', 'K']));
        let place = |word: &str| word.split_once('/').map(|(address, _)| address.to_owned());
        copies.extend(rest.split_whitespace().filter_map(place));
    }
    let number = row.get("SHARD")?.parse().ok()?;
    Some(Shard { number, owner: row.get("OWNER")?.clone(), copies, is_behind, standbys: Vec::new() })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Three machines of two nodes each, and a log-server on a fourth one.
    pub const STATUS: &str = "\
cluster 0909: map version 44, epoch 3
metadata led by 10.0.0.3:6380, term 2
level 13: all nodes speak a higher one, and `holdfast cluster finalize` raises it
health: ok

  note: shards differ in appendfsync: 1 (always), 2 (everysec)

NODE  ADDRESS              HOST  KIND  STATE  LEASE  METADATA  EPOCH  STARTS  SLOTS  RANGES
aa    10.0.0.1:6379@16379  a     node  up     1.9 s  votes     1      3       5461   0-5460
ab    10.0.0.1:6380@16380  a     node  up     1.9 s  learns    0      2       0      -
ba    10.0.0.2:6379@16379  b     node  up     1.9 s  votes     2      3       5461   5461-10921
bb    10.0.0.2:6380@16380  b     node  up     1.9 s  learns    0      2       0      -
ca    10.0.0.3:6379@16379  c     node  up     1.9 s  learns    3      3       5462   10922-16383
cb    10.0.0.3:6380@16380  c     node  up     1.9 s  leads     0      2       0      -
da    10.0.0.4:6379@16379  ?     log   up     1.9 s  votes     0      1       0      -

SHARD  OWNER          TERM  FSYNC     GROUP    COPIES  PLACES
1      10.0.0.1:6379  4     always    shard-1  3 of 3  10.0.0.1:6379/- 10.0.0.2:6380/- (4.00K behind) 10.0.0.4:6379/mnt/a
2      10.0.0.2:6379  4     everysec  shard-2  3 of 3  10.0.0.2:6379/- 10.0.0.3:6380/- 10.0.0.1:6379/- (catches up, 3.00M behind)
3      10.0.0.3:6379  4     always    shard-3  3 of 3  10.0.0.3:6379/- 10.0.0.1:6380/- 10.0.0.2:6379/-

SHARD  STANDBY        STATE            BEHIND        PRIORITY
1      10.0.0.2:6380  electable        3.00K, 12 ms  100
2      10.0.0.3:6380  electable, down  ?             ?
3      10.0.0.1:6380  electable        0B, 0 ms      100
";

    #[test]
    fn a_status_is_read() {
        let view = View::read(STATUS).unwrap();
        assert_eq!((view.level, view.is_well, &view.problems[..]), (13, true, &[][..]));
        let member = |at: usize| {
            let Member { id, address, machine, is_log_server, is_up, votes, leads, starts, slots } = &view.members[at];
            format!("{id} {address} {machine} {is_log_server} {is_up} {votes} {leads} {starts} {slots}")
        };
        assert_eq!(member(0), "aa 10.0.0.1:6379 a false true true false 3 5461");
        assert_eq!(member(5), "cb 10.0.0.3:6380 c false true true true 2 0");
        assert_eq!(member(6), "da 10.0.0.4:6379 10.0.0.4:6379 true true true false 1 0");
        assert_eq!(view.members.len(), 7);
        let copies: Vec<String> = view.shards.iter().map(|shard| shard.copies.join(" ")).collect();
        assert_eq!(copies[0], "10.0.0.1:6379 10.0.0.2:6380 10.0.0.4:6379");
        assert_eq!(copies[1], "10.0.0.2:6379 10.0.0.3:6380 10.0.0.1:6379");
        let behind: Vec<bool> = view.shards.iter().map(|shard| shard.is_behind).collect();
        assert_eq!(behind, [false, true, false], "some blocks are always under way");
        let standbys: Vec<bool> = view.shards.iter().map(|shard| shard.standbys[0].is_electable()).collect();
        assert_eq!(standbys, [true, false, true]);
        assert_eq!(view.owned_on("c").map(|shard| shard.number).collect::<Vec<_>>(), [3]);
    }

    /// A build without groups of logs, or a cluster that has none, names no shards.
    #[test]
    fn a_status_without_copies_is_read() {
        let text = STATUS.split("\n\nSHARD").next().unwrap();
        let text = text.replace("health: ok\n", "health: not ok\n\n  node ab at 10.0.0.1:6380 is down\n");
        let view = View::read(&text).unwrap();
        assert_eq!((view.members.len(), view.shards.len(), view.is_well), (7, 0, false));
        assert_eq!(view.problems, ["node ab at 10.0.0.1:6380 is down"]);
        assert!(View::read("cluster none yet: map version 0, epoch 0\nhealth: not ok\n").is_err());
    }
}
