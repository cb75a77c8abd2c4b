//! Arguments as a tree, read from the syntax of a row: `key [NX | XX] [EX seconds | PX milliseconds] [GET]`.
//!
//! ```text
//! sequence := item*
//! item     := WORD | word | [ choice ] | < choice > | ...
//! choice   := sequence ( | sequence )*
//! ```
//! A word in capitals is a token and owns the values behind it, up to the next token or bracket. `key [key ...]` is one
//! argument that may be repeated.

/// One argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Name: the word itself, or the first word of a choice or block.
    pub name: String,
    /// The word before it, or the only word that it consists of.
    pub token: Option<String>,
    /// Its parts.
    pub shape: Shape,
    /// It may be left out.
    pub optional: bool,
    /// It may be repeated.
    pub multiple: bool,
    /// Its token is repeated with it.
    pub multiple_token: bool,
}

/// The parts of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One value, by Redis's name of its type.
    Value(&'static str),
    /// One of these.
    OneOf(Vec<Argument>),
    /// All of these.
    Block(Vec<Argument>),
}

impl Argument {
    fn new(name: &str, shape: Shape) -> Argument {
        let name = name.trim_matches('"').to_lowercase();
        Argument { name, token: None, shape, optional: false, multiple: false, multiple_token: false }
    }

    fn value(word: &str) -> Argument {
        Argument::new(word, Shape::Value(type_of(word)))
    }

    fn token(word: &str) -> Argument {
        let word = word.trim_matches('"');
        Argument { token: Some(word.into()), ..Argument::new(word, Shape::Value("pure-token")) }
    }

    /// True if it is the name of a key.
    pub fn is_key(&self) -> bool {
        self.shape == Shape::Value("key")
    }

    /// Redis's names of its flags.
    pub fn flags(&self) -> Vec<&'static str> {
        let flags = [(self.optional, "optional"), (self.multiple, "multiple"), (self.multiple_token, "multiple_token")];
        flags.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect()
    }

    /// True if `other` is this argument again, with or without optionality.
    fn repeats(&self, other: &Argument) -> bool {
        self.name == other.name && self.token == other.token
    }
}

/// Type of a value by its name.
fn type_of(word: &str) -> &'static str {
    const KEYS: &[&str] = &["key", "key1", "key2", "source", "destination", "destkey", "newkey"];
    const INTEGERS: &[&str] = &[
        "count",
        "numkeys",
        "seconds",
        "milliseconds",
        "offset",
        "start",
        "stop",
        "end",
        "bit",
        "index",
        "db",
        "index1",
        "index2",
        "decrement",
        "rank",
        "num-matches",
        "len",
        "client-id",
        "cursor",
        "numfields",
        "min-match-len",
        "maxage",
        "destination-db",
        "protover",
        "numreplicas",
        "numlocal",
        "num-elements",
        "frequency",
        "port",
    ];
    match word {
        _ if KEYS.contains(&word) => "key",
        _ if INTEGERS.contains(&word) => "integer",
        "pattern" => "pattern",
        _ if word.starts_with("unix-time") => "unix-time",
        "score" | "timeout" | "weight" | "longitude" | "latitude" | "radius" => "double",
        _ => "string",
    }
}

/// The arguments that a syntax describes. Text that does not parse is left out: a test reads every row.
pub fn parse(syntax: &str) -> Vec<Argument> {
    let words = words(syntax);
    let mut parser = Parser { words: &words, at: 0 };
    parser.sequence()
}

fn words(syntax: &str) -> Vec<String> {
    let spaced: String = syntax
        .chars()
        .flat_map(|c| match c {
            '[' | ']' | '<' | '>' | '|' => vec![' ', c, ' '],
            c => vec![c],
        })
        .collect();
    spaced.split_whitespace().map(String::from).collect()
}

struct Parser<'a> {
    words: &'a [String],
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&str> {
        self.words.get(self.at).map(String::as_str)
    }

    fn take(&mut self) -> Option<String> {
        let word = self.words.get(self.at).cloned();
        self.at += 1;
        word
    }

    fn sequence(&mut self) -> Vec<Argument> {
        let mut list: Vec<Argument> = Vec::new();
        while let Some(word) = self.peek() {
            match word {
                "]" | ">" | "|" => break,
                "[" | "<" => {
                    let optional = word == "[";
                    self.at += 1;
                    let (choices, repeated) = self.choice();
                    add_group(&mut list, choices, optional, repeated);
                }
                "..." => break,
                _ if is_token(word) => {
                    let token = self.take().unwrap_or_default();
                    list.push(self.owned_by(token));
                }
                _ => {
                    let word = self.take().unwrap_or_default();
                    list.push(Argument::value(&word));
                }
            }
        }
        list
    }

    /// A token with the values behind it.
    fn owned_by(&mut self, token: String) -> Argument {
        let mut values = Vec::new();
        while let Some(word) = self.peek() {
            if matches!(word, "[" | "<" | "]" | ">" | "|" | "...") || is_token(word) {
                break;
            }
            values.push(Argument::value(word));
            self.at += 1;
        }
        // A bracket right behind a lone token belongs to it: FILTERBY <...>.
        if values.is_empty() && self.peek() == Some("<") {
            self.at += 1;
            let (choices, _) = self.choice();
            let name = token.to_lowercase();
            let shape = Shape::OneOf(choices.into_iter().map(one).collect());
            return Argument { token: Some(token), ..Argument::new(&name, shape) };
        }
        match values.len() {
            0 => Argument::token(&token),
            1 => Argument { token: Some(token), ..values.remove(0) },
            _ => Argument { token: Some(token.clone()), ..Argument::new(&token, Shape::Block(values)) },
        }
    }

    /// The alternatives up to the closing bracket, and whether they end with "...".
    fn choice(&mut self) -> (Vec<Vec<Argument>>, bool) {
        let mut choices = vec![self.sequence()];
        let mut repeated = false;
        while let Some(word) = self.take() {
            match word.as_str() {
                "|" => choices.push(self.sequence()),
                "..." => repeated = true,
                _ => break,
            }
        }
        (choices, repeated)
    }
}

/// A word in capitals, or a literal in quotes.
fn is_token(word: &str) -> bool {
    word.starts_with('"') || (word.chars().any(char::is_alphabetic) && !word.chars().any(char::is_lowercase))
}

/// A sequence as one argument.
fn one(mut sequence: Vec<Argument>) -> Argument {
    if sequence.len() == 1 {
        return sequence.remove(0);
    }
    let name = sequence.first().map_or("", |first| &first.name).to_owned();
    Argument::new(&name, Shape::Block(sequence))
}

/// Adds a bracket to the list. If it repeats the argument before it, that is only marked as repeatable.
fn add_group(list: &mut Vec<Argument>, mut choices: Vec<Vec<Argument>>, optional: bool, repeated: bool) {
    if choices.len() > 1 {
        let children: Vec<Argument> = choices.into_iter().map(one).collect();
        let name = children.first().map_or("", |first| &first.name).to_owned();
        list.push(Argument { optional, multiple: repeated, ..Argument::new(&name, Shape::OneOf(children)) });
        return;
    }
    let sequence = choices.pop().unwrap_or_default();
    if sequence.is_empty() {
        return;
    }
    let n = sequence.len();
    if repeated && list.len() >= n && list[list.len() - n..].iter().zip(&sequence).all(|(a, b)| a.repeats(b)) {
        let first = list.split_off(list.len() - n);
        let multiple_token = n == 1 && first[0].token.is_some();
        list.push(Argument { multiple: true, multiple_token, ..one(first) });
        return;
    }
    // [GET pattern [GET pattern ...]]: the argument that the repetition has marked is itself optional.
    let argument = one(sequence);
    list.push(Argument { optional, multiple: argument.multiple || repeated, ..argument });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A short form to compare with: name, type, then `?` optional, `*` multiple.
    fn shown(list: &[Argument]) -> String {
        let texts: Vec<String> = list
            .iter()
            .map(|a| {
                let token = a.token.as_ref().map(|t| format!("{t}=")).unwrap_or_default();
                let body = match &a.shape {
                    Shape::Value(kind) => format!("{}:{kind}", a.name),
                    Shape::OneOf(children) => format!("({})", shown(children).replace(' ', "|")),
                    Shape::Block(children) => format!("{{{}}}", shown(children)),
                };
                let mark = |on, mark| if on { mark } else { "" };
                format!("{token}{body}{}{}", mark(a.optional, "?"), mark(a.multiple, "*"))
            })
            .collect();
        texts.join(" ")
    }

    #[test]
    fn syntaxes_become_trees() {
        let tree = |syntax| shown(&parse(syntax));
        assert_eq!(tree(""), "");
        assert_eq!(tree("key value"), "key:key value:string");
        assert_eq!(tree("key [key ...]"), "key:key*");
        assert_eq!(tree("key value [key value ...]"), "{key:key value:string}*");
        assert_eq!(
            tree("key [NX | XX] [GET] [EX seconds | KEEPTTL]"),
            "key:key (NX=nx:pure-token|XX=xx:pure-token)? GET=get:pure-token? (EX=seconds:integer|KEEPTTL=keepttl:pure-token)?"
        );
        assert_eq!(tree("[GET pattern [GET pattern ...]]"), "GET=pattern:pattern?*");
        assert_eq!(tree("[LIMIT offset count]"), "LIMIT={offset:integer count:integer}?");
        assert_eq!(tree("[name [name ...]]"), "name:string?*");
        assert_eq!(tree("<LEFT | RIGHT>"), "(LEFT=left:pure-token|RIGHT=right:pure-token)");
    }

    #[test]
    fn every_syntax_is_read_to_its_end() {
        for command in crate::table::Table::new().all() {
            let words = words(command.spec.syntax);
            let mut parser = Parser { words: &words, at: 0 };
            parser.sequence();
            assert_eq!(parser.at, words.len(), "{}: {}", command.name, command.spec.syntax);
        }
    }
}
