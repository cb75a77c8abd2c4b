//! The command table: every row of the data plane and of sessions, by name.

use command::{FAMILIES, Reach, Row, Run, Spec, flags};
use resp::Args;

use crate::config::Renames;

/// The handler of a command.
#[derive(Clone, Copy)]
pub enum Handler {
    /// The engine.
    Data(&'static Row<Run>),
    /// The session: the place of its row.
    Session(SessionRow),
}

/// The place of a session command among the rows of `session`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionRow {
    /// The index of its family.
    pub family: u8,
    /// The index of its row there, or of its container's.
    pub row: u8,
    /// The index among the subcommands of that row, if it is one of them.
    pub sub: Option<u8>,
}

/// The declaration of a session command and of its subcommands, and the places of their rows.
pub(crate) struct Specified {
    pub(crate) spec: &'static Spec,
    pub(crate) row: SessionRow,
    pub(crate) subs: Vec<(&'static Spec, SessionRow)>,
}

/// One command or subcommand.
pub struct Command {
    /// Its place in the table.
    pub id: usize,
    /// The command whose statistics count it: itself, or DEBUG.
    pub counted_as: usize,
    /// Lower-case name; a subcommand's is "container|name". Subcommands of DEBUG are all "debug": Redis shows none.
    pub name: String,
    /// The name as a word, if it has at most eight bytes: see [`word_of`].
    word: u64,
    /// Reached through its container only: a client cannot call it by this name.
    pub is_subcommand: bool,
    /// Its declaration.
    pub spec: &'static Spec,
    /// Its handler.
    pub handler: Handler,
    /// Its only key is argument 1, and it works on no others.
    pub has_one_key: bool,
    /// It never takes long with few arguments: it need not be timed by itself.
    pub is_short: bool,
    /// Ids of its subcommands.
    pub subcommands: Vec<usize>,
}

/// All commands. A container may have subcommands of both planes (DEBUG OBJECT looks at a key, DEBUG SLEEP does not).
pub struct Table {
    commands: Vec<Command>,
    /// Open addressing by [`fold`]: id + 1, or 0.
    index: Vec<u16>,
    /// `rename-command`: usually none.
    renames: Renames,
}

/// Longest name, in bytes: names are compared in a buffer of this size.
const NAME_MAX: usize = 32;

/// A hash of a name that does not depend on case.
fn fold(name: &[u8]) -> usize {
    name.chunks(8).fold(name.len(), |h, chunk| fold_word(h, word_of(chunk)))
}

/// The next step of [`fold`].
#[inline]
fn fold_word(before: usize, word: u64) -> usize {
    let h = (before as u64 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (h ^ (h >> 32)) as usize
}

/// The first bytes of a name in lower case, at most eight, as one word: a comparison instead of a loop.
#[inline]
fn word_of(name: &[u8]) -> u64 {
    let len = name.len();
    let word = if let Some(eight) = name.first_chunk::<8>() {
        u64::from_le_bytes(*eight)
    } else if let (Some(low), Some(high)) = (name.first_chunk::<4>(), name.last_chunk::<4>()) {
        u64::from(u32::from_le_bytes(*low)) | u64::from(u32::from_le_bytes(*high)) << (8 * (len - 4))
    } else if let (Some(first), Some(last)) = (name.first(), name.last()) {
        u64::from(*first) | u64::from(name[len / 2]) << (8 * (len / 2)) | u64::from(*last) << (8 * (len - 1))
    } else {
        0
    };
    lower_case(word)
}

/// Eight bytes in lower case, as [`u8::to_ascii_lowercase`] makes each of them.
#[inline]
fn lower_case(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const TOPS: u64 = ONES << 7;
    let low = word & !TOPS;
    // The top bit of a byte is set where it is at least 'A', or above 'Z'; no sum carries to the next byte.
    let (from_a, above_z) = (low + ONES * (0x80 - b'A' as u64), low + ONES * (0x7f - b'Z' as u64));
    word | (from_a & !above_z & !word & TOPS) >> 2
}

impl Table {
    /// The table of the data plane's commands and of these of sessions.
    pub(crate) fn of(sessions: &[Specified]) -> Table {
        let mut commands = Vec::new();
        for row in FAMILIES.iter().copied().flatten() {
            add(
                &mut commands,
                &row.spec,
                Handler::Data(row),
                &row.subcommands.iter().map(|r| (&r.spec, Handler::Data(r))).collect::<Vec<_>>(),
            );
        }
        for Specified { spec, row, subs } in sessions {
            let subs: Vec<_> = subs.iter().map(|(spec, row)| (*spec, Handler::Session(*row))).collect();
            add(&mut commands, spec, Handler::Session(*row), &subs);
        }
        let index = vec![0; (commands.len() * 4).next_power_of_two()];
        let mut table = Table { index, commands, renames: Renames::default() };
        for id in 0..table.commands.len() {
            if table.commands[id].is_hidden() {
                continue;
            }
            let name = table.commands[id].name.clone();
            assert!(name.len() <= NAME_MAX && table.find(name.as_bytes()).is_none(), "two rows are called {name}");
            let mut at = fold(name.as_bytes()) & (table.index.len() - 1);
            while table.index[at] != 0 {
                at = (at + 1) & (table.index.len() - 1);
            }
            table.index[at] = id as u16 + 1;
        }
        table
    }

    /// The same table under the names that `rename-command` gives.
    pub fn renamed(self, renames: Renames) -> Table {
        Table { renames, ..self }
    }

    /// The command of this name, in any case; "container|name" finds a subcommand.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&Command> {
        if self.renames.is_empty() {
            return self.find_own(name);
        }
        self.find_own(self.renames.meant(&name.to_ascii_lowercase())?)
    }

    /// The command that a client calls by this name, in any case: no "container|name".
    #[inline]
    pub fn find_command(&self, name: &[u8]) -> Option<&Command> {
        self.find(name).filter(|command| !command.is_subcommand)
    }

    /// The command of these words, under whichever name.
    pub(crate) fn of_words(&self, words: &[&[u8]]) -> Option<&Command> {
        let name = words.first()?;
        let command = self.find_command(name).or_else(|| self.find_own(name))?;
        self.with_word(command, words.get(1).copied())
    }

    /// The command whose row has this name.
    #[inline]
    pub(crate) fn find_own(&self, name: &[u8]) -> Option<&Command> {
        if name.len() > 8 {
            return self.find_long(name);
        }
        let word = word_of(name);
        let hash = if name.is_empty() { 0 } else { fold_word(name.len(), word) };
        self.look_for(hash, |command| command.word == word && command.name.len() == name.len())
    }

    #[inline(never)]
    fn find_long(&self, name: &[u8]) -> Option<&Command> {
        if name.len() > NAME_MAX {
            return None;
        }
        self.look_for(fold(name), |command| command.name.as_bytes().eq_ignore_ascii_case(name))
    }

    #[inline]
    fn look_for(&self, hash: usize, is_it: impl Fn(&Command) -> bool) -> Option<&Command> {
        let mask = self.index.len() - 1;
        let mut at = hash & mask;
        loop {
            let command = &self.commands[usize::from(self.index[at]).checked_sub(1)?];
            if is_it(command) {
                return Some(command);
            }
            at = (at + 1) & mask;
        }
    }

    /// The subcommand of a container, in any case.
    pub fn find_subcommand(&self, container: &Command, name: &[u8]) -> Option<&Command> {
        let is = |id: &&usize| self.commands[**id].spec.name.as_bytes().eq_ignore_ascii_case(name);
        container.subcommands.iter().find(is).map(|&id| &self.commands[id])
    }

    /// The command with this word behind it: of a container its subcommand, else itself.
    pub fn with_word(&self, command: &Command, word: Option<&[u8]>) -> Option<&Command> {
        match word {
            Some(word) if command.is_container() => self.find_subcommand(command, word),
            _ => Some(self.get(command.id)),
        }
    }

    /// The command with this id.
    pub fn get(&self, id: usize) -> &Command {
        &self.commands[id]
    }

    /// All commands and subcommands, in order of id.
    pub fn all(&self) -> &[Command] {
        &self.commands
    }

    /// The commands that are no subcommands.
    pub fn top_level(&self) -> impl Iterator<Item = &Command> {
        self.commands.iter().filter(|c| !c.is_subcommand)
    }
}

impl Command {
    /// On which keys it works with these arguments.
    pub(crate) fn reach(&self, args: Args<'_>) -> Reach {
        match self.handler {
            Handler::Data(row) => row.run.reach(args),
            Handler::Session(_) => Reach::Keys,
        }
    }

    /// True if MONITOR shows it: administrators' business is too dangerous to be shown, says Redis.
    pub fn is_shown_to_monitors(&self) -> bool {
        self.spec.flags & (flags::SKIP_MONITOR | flags::ADMIN) == 0
    }

    /// True if it is a subcommand that COMMAND does not show: those of DEBUG, as in Redis.
    pub fn is_hidden(&self) -> bool {
        self.is_subcommand && self.spec.has(flags::PROTECTED)
    }

    /// Ids of the subcommands that COMMAND shows.
    pub fn shown_subcommands(&self) -> &[usize] {
        if self.spec.has(flags::PROTECTED) { &[] } else { &self.subcommands }
    }
}

/// The patterns of SORT_RO lead to keys that no argument is.
fn has_one_key(spec: &Spec, handler: Handler) -> bool {
    let may_need_all = matches!(handler, Handler::Data(row) if matches!(row.run, Run::KeyedOrWhole(..)));
    spec.has_one_key() && !may_need_all
}

/// Redis's word for it is FAST; SET lacks that because it may free a large value, which is cheap here.
fn is_short(spec: &Spec) -> bool {
    (spec.has(flags::FAST) || spec.name == "set") && !spec.has(flags::BLOCKING)
}

fn add(commands: &mut Vec<Command>, spec: &'static Spec, handler: Handler, subs: &[(&'static Spec, Handler)]) {
    let known = commands.iter().position(|c| c.name == spec.name && !c.subcommands.is_empty() && !subs.is_empty());
    let id = known.unwrap_or(commands.len());
    if known.is_none() {
        commands.push(Command {
            id,
            counted_as: id,
            word: word_of(spec.name.as_bytes()),
            name: spec.name.into(),
            is_subcommand: false,
            spec,
            handler,
            has_one_key: has_one_key(spec, handler),
            is_short: is_short(spec),
            subcommands: Vec::new(),
        });
    }
    for (sub, handler) in subs {
        let sub_id = commands.len();
        let hidden = sub.has(flags::PROTECTED);
        let name = if hidden { spec.name.into() } else { format!("{}|{}", spec.name, sub.name) };
        commands.push(Command {
            id: sub_id,
            counted_as: if hidden { id } else { sub_id },
            word: word_of(name.as_bytes()),
            name,
            is_subcommand: true,
            spec: sub,
            handler: *handler,
            has_one_key: has_one_key(sub, *handler),
            is_short: is_short(sub),
            subcommands: Vec::new(),
        });
        commands[id].subcommands.push(sub_id);
    }
}

impl Command {
    /// True if it has subcommands and nothing else.
    pub fn is_container(&self) -> bool {
        !self.subcommands.is_empty()
    }

    /// The row, if it is one of the data plane.
    pub fn data_row(&self) -> Option<&'static Row<Run>> {
        match self.handler {
            Handler::Data(row) => Some(row),
            Handler::Session(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renamed_commands_answer_to_their_new_names_only() {
        let plain = Table::new();
        let pairs = [(b"PING".to_vec(), b"Marco".to_vec()), (b"echo".to_vec(), Vec::new())];
        let renames = Renames::new(&pairs, |name| plain.find(name).is_some(), |_| false).unwrap();
        let table = Table::new().renamed(renames);
        assert_eq!(table.find(b"MARCO").map(|command| command.name.as_str()), Some("ping"));
        assert!(table.find(b"ping").is_none() && table.find(b"ECHO").is_none());
        assert!(table.find(b"SeLeCt").is_some());
    }

    #[test]
    fn a_word_has_the_bytes_of_a_name_in_lower_case() {
        for len in 0..=8usize {
            for byte in 0..=u8::MAX {
                let mut name = *b"aZ-9_zA{";
                name[len.saturating_sub(1) / 2] = byte;
                let name = &name[..len];
                let mut padded = [0; 8];
                padded[..len].copy_from_slice(&name.to_ascii_lowercase());
                assert_eq!(word_of(name), u64::from_le_bytes(padded), "{name:?}");
            }
        }
    }

    #[test]
    fn other_names_are_found_by_no_one() {
        let table = Table::new();
        for name in ["", "get\0", "\0get", "ge", "gett", "g\u{5}t", "\u{7}et", "mset\u{0d}x", "se\u{54}\u{0}"] {
            assert!(table.find(name.as_bytes()).is_none(), "{name:?}");
        }
        for command in table.top_level() {
            let found = table.find(command.name.to_ascii_uppercase().as_bytes());
            assert_eq!(found.map(|found| found.id), Some(command.id), "{}", command.name);
        }
    }
}
