//! The commands that rules name.

use std::collections::BTreeMap;

/// Redis's categories, in its order. A category's place is its bit.
pub const CATEGORIES: [&str; 22] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "array",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// A set of [`CATEGORIES`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Categories(u32);

impl Categories {
    /// The set of these names, in any case; `None` if one of them is no category.
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<Categories> {
        names.into_iter().try_fold(Categories::default(), |all, name| {
            Some(Categories(all.0 | Categories::of_name(name.as_bytes())?.0))
        })
    }

    /// The category of this name, in any case and without the `@`.
    pub(crate) fn of_name(name: &[u8]) -> Option<Categories> {
        let bit = CATEGORIES.iter().position(|known| known.as_bytes().eq_ignore_ascii_case(name))?;
        Some(Categories(1 << bit))
    }

    fn meets(self, other: Categories) -> bool {
        self.0 & other.0 != 0
    }
}

/// A command's place in the catalogue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CommandId(pub u16);

/// The arguments of a command that are channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Channels {
    /// None, or those of UNSUBSCRIBE, which every user may use.
    #[default]
    None,
    /// The first one: PUBLISH, SPUBLISH.
    First,
    /// All: SUBSCRIBE, SSUBSCRIBE.
    All,
    /// All, and each is a pattern: PSUBSCRIBE.
    Patterns,
}

/// A command as the node declares it to the catalogue.
#[derive(Clone, Debug, Default)]
pub struct Declared {
    /// Lower-case name; a subcommand's is "container|name".
    pub name: String,
    /// Number of arguments, including the name; negative: at least that many.
    pub arity: i32,
    /// Its categories.
    pub categories: Categories,
    /// True if every user may run it: AUTH, HELLO, QUIT, RESET.
    pub is_free: bool,
    /// Its channels.
    pub channels: Channels,
    /// True if no rule can name it, and no rights are needed: DEBUG's subcommands, which are arguments to Redis.
    pub is_hidden: bool,
}

/// All commands, by id and by name.
#[derive(Debug, Default)]
pub struct Catalogue {
    commands: Vec<Known>,
    ids: BTreeMap<String, CommandId>,
    is_foreign: Option<fn(&[u8]) -> bool>,
}

#[derive(Debug)]
struct Known {
    declared: Declared,
    /// The subcommands; none if it is no container.
    subcommands: Vec<CommandId>,
    is_subcommand: bool,
}

impl Catalogue {
    /// The commands in the order of their ids. A subcommand follows its container.
    pub fn new(declared: impl IntoIterator<Item = Declared>) -> Catalogue {
        let mut all = Catalogue::default();
        for (id, declared) in (0..=u16::MAX).map(CommandId).zip(declared) {
            let container = match declared.name.split_once('|') {
                Some((container, _)) if !declared.is_hidden => all.ids.get(container).copied(),
                _ => None,
            };
            if let Some(known) = container.and_then(|id| all.commands.get_mut(usize::from(id.0))) {
                known.subcommands.push(id);
            }
            if !declared.is_hidden {
                all.ids.insert(declared.name.clone(), id);
            }
            all.commands.push(Known { declared, subcommands: Vec::new(), is_subcommand: container.is_some() });
        }
        all
    }

    /// The same, and files of users may name what other servers have: commands, and categories with their `@`.
    pub fn with_foreign(self, is_foreign: fn(&[u8]) -> bool) -> Catalogue {
        Catalogue { is_foreign: Some(is_foreign), ..self }
    }

    /// True if another server has a command or category of this name, in lower case.
    pub(crate) fn is_foreign(&self, name: &[u8]) -> bool {
        self.is_foreign.is_some_and(|is_foreign| is_foreign(name))
    }

    /// The number of ids.
    pub(crate) fn len(&self) -> usize {
        self.commands.len()
    }

    fn known(&self, id: CommandId) -> Option<&Known> {
        self.commands.get(usize::from(id.0))
    }

    /// The declaration of the command `id`; `None` where the id comes from another catalogue.
    pub fn declared(&self, id: CommandId) -> Option<&Declared> {
        self.known(id).map(|known| &known.declared)
    }

    /// Full name, as errors show it.
    pub fn name(&self, id: CommandId) -> &str {
        self.declared(id).map_or("", |declared| &declared.name)
    }

    /// The command that a rule names so, in any case: "get", "config", "config|get".
    pub fn find(&self, name: &[u8]) -> Option<CommandId> {
        let name = std::str::from_utf8(name).ok()?;
        self.ids.get(&*name.to_ascii_lowercase()).copied()
    }

    /// True if the command has subcommands.
    pub(crate) fn is_container(&self, id: CommandId) -> bool {
        self.known(id).is_some_and(|known| !known.subcommands.is_empty())
    }

    /// True if the command is a subcommand of another.
    pub(crate) fn is_subcommand(&self, id: CommandId) -> bool {
        self.known(id).is_some_and(|known| known.is_subcommand)
    }

    /// Ids of its subcommands.
    pub(crate) fn subcommands(&self, id: CommandId) -> &[CommandId] {
        self.known(id).map_or(&[], |known| &known.subcommands)
    }

    /// The command that these first two words of a request name: a container's subcommand, where they name one.
    pub fn called(&self, name: &[u8], word: Option<&[u8]>) -> Option<CommandId> {
        let id = self.find(name).filter(|id| !self.is_subcommand(*id))?;
        match word {
            Some(word) if self.is_container(id) => {
                let is = |sub: &&CommandId| {
                    self.name(**sub).split_once('|').is_some_and(|(_, own)| own.as_bytes().eq_ignore_ascii_case(word))
                };
                self.subcommands(id).iter().find(is).copied()
            }
            _ => Some(id),
        }
    }

    /// Commands and subcommands of a category, in order of id.
    pub(crate) fn of_category(&self, category: Categories) -> impl Iterator<Item = CommandId> + '_ {
        let ids = (0..=u16::MAX).map(CommandId).zip(&self.commands);
        ids.filter(move |(_, known)| !known.declared.is_hidden && known.declared.categories.meets(category))
            .map(|(id, _)| id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::catalogue;

    #[test]
    fn finds_commands_by_the_words_of_rules_and_of_clients() {
        let all = catalogue();
        let names = |id: Option<CommandId>| id.map(|id| all.name(id).to_owned());
        assert_eq!(names(all.find(b"GeT")).as_deref(), Some("get"));
        assert_eq!(names(all.find(b"config|GET")).as_deref(), Some("config|get"));
        assert_eq!(names(all.find(b"config|nosuch")), None);
        assert_eq!(names(all.called(b"CONFIG", Some(b"Get"))).as_deref(), Some("config|get"));
        assert_eq!(names(all.called(b"config|get", None)), None, "a client cannot call it so");
        assert_eq!(names(all.called(b"config", Some(b"nosuch"))), None);
        assert_eq!(names(all.called(b"debug", Some(b"sleep"))).as_deref(), Some("debug"), "DEBUG has no subcommands");
    }

    #[test]
    fn categories_have_the_names_of_redis() {
        assert_eq!(Categories::of_name(b"SortedSet"), Some(Categories(1 << 4)));
        assert_eq!(Categories::of_name(b"all"), None);
        assert_eq!(Categories::named(["read", "nosuch"]), None);
    }
}
