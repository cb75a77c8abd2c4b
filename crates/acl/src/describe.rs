//! Describes users by the rules that make them: ACL LIST shows these, and ACL SAVE writes them.

use crate::check::Access;
use crate::selector::{CommandRule, KeyPattern, Selector};
use crate::user::User;

impl User {
    /// Redis's words for its flags, in its order.
    pub(crate) fn flags(&self) -> impl Iterator<Item = &'static str> {
        let state = if self.is_on { "on" } else { "off" };
        let sanitizing = if self.skips_sanitizing { "skip-sanitize-payload" } else { "sanitize-payload" };
        [Some(state), self.needs_no_password.then_some("nopass"), Some(sanitizing)].into_iter().flatten()
    }

    /// `user NAME RULES`: a line of ACL LIST.
    pub fn line(&self) -> Vec<u8> {
        [b"user ", &self.name[..], b" ", &self.rules()].concat()
    }

    /// The rules that make this user from a new one, in the words of Redis.
    pub fn rules(&self) -> Vec<u8> {
        self.described(Form::Shown)
    }

    /// The line of a file of users: that of [`User::line`], or, where Redis could not read it again, an equivalent
    /// one.
    pub fn file_line(&self) -> Vec<u8> {
        [b"user ", &self.name[..], b" ", &self.described(Form::Filed)].concat()
    }

    /// The words of a line of a configuration file behind `user`: the name, then rules. A selector is one word, unless
    /// all of its words are plain.
    pub fn configuration_words(&self) -> Vec<Vec<u8>> {
        let mut words = vec![self.name.clone()];
        words.extend(self.words(Form::Filed));
        for selector in &self.selectors {
            let text = selector.text(Form::Filed);
            // Quotes of the selector must be quoted again, as a whole.
            let is_plain = text.iter().all(|byte| byte.is_ascii_graphic() && !b"\"'\\".contains(byte) || *byte == b' ');
            match is_plain {
                true => words.extend(text.split(|byte| *byte == b' ').map(<[u8]>::to_vec)),
                false => words.push(text),
            }
        }
        words
    }

    fn described(&self, form: Form) -> Vec<u8> {
        let mut words = self.words(form);
        words.extend(self.selectors.iter().map(|selector| selector.text(form)));
        words.join(&b' ')
    }

    /// The rules outside parentheses.
    fn words(&self, form: Form) -> Vec<Vec<u8>> {
        let mut words: Vec<Vec<u8>> = self.flags().map(|flag| flag.as_bytes().to_vec()).collect();
        words.extend(self.passwords.iter().map(|password| format!("#{}", password.hex()).into_bytes()));
        words.extend(self.root.words(form));
        words
    }
}

/// The reader of a description.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Clients: the text is Redis's to the letter.
    Shown,
    /// A reader of files.
    Filed,
}

impl Form {
    /// A word between parentheses, where quotes have a meaning and a word may look like the end of the selector.
    fn inside(self, word: Vec<u8>) -> Vec<u8> {
        let needs_quotes = word.ends_with(b")") || word.iter().any(|byte| matches!(byte, b'"' | b'\''));
        if self == Form::Shown || !needs_quotes {
            return word;
        }
        let mut quoted = vec![b'"'];
        for byte in word {
            if matches!(byte, b'"' | b'\\') {
                quoted.push(b'\\');
            }
            quoted.push(byte);
        }
        quoted.push(b'"');
        quoted
    }
}

impl Selector {
    /// The rules in parentheses.
    fn text(&self, form: Form) -> Vec<u8> {
        let inner: Vec<Vec<u8>> = self.words(form).into_iter().map(|word| form.inside(word)).collect();
        [b"(", &inner.join(&b' ')[..], b")"].concat()
    }

    fn words(&self, form: Form) -> Vec<Vec<u8>> {
        let mut words = match self.all_keys {
            true => vec![b"~*".to_vec()],
            false => self.keys.iter().map(|pattern| pattern.text(form)).collect(),
        };
        match self.all_channels {
            true => words.push(b"&*".to_vec()),
            false => {
                words.push(b"resetchannels".to_vec());
                words.extend(self.channels.iter().map(|glob| [b"&", &glob[..]].concat()));
            }
        }
        words.extend(self.command_words());
        words
    }

    /// "~a %R~b"; of all keys "~*".
    pub(crate) fn key_text(&self) -> Vec<u8> {
        if self.all_keys { b"~*".to_vec() } else { joined(self.keys.iter().map(|pattern| pattern.text(Form::Shown))) }
    }

    /// "&a &b"; of all channels "&*".
    pub(crate) fn channel_text(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        joined(self.channels.iter().map(|glob| [b"&", &glob[..]].concat()))
    }

    /// "-@all +get": the rules about commands, in the order in which they hold.
    pub(crate) fn command_text(&self) -> Vec<u8> {
        joined(self.command_words())
    }

    fn command_words(&self) -> impl Iterator<Item = Vec<u8>> {
        let base = if self.future_commands { "+@all" } else { "-@all" };
        std::iter::once(base.into()).chain(self.rules.iter().map(CommandRule::text))
    }
}

impl KeyPattern {
    fn text(&self, form: Form) -> Vec<u8> {
        let sign: &[u8] = match self.access {
            Access::READ => b"%R~",
            Access::WRITE => b"%W~",
            // "~*" would mean all keys, and no other pattern may follow it.
            _ if form == Form::Filed && self.glob == b"*" => b"%RW~",
            _ => b"~",
        };
        [sign, &self.glob].concat()
    }
}

impl CommandRule {
    pub(crate) fn text(&self) -> Vec<u8> {
        [if self.allow { b"+" } else { b"-" }, &self.name[..]].concat()
    }
}

fn joined(words: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    words.collect::<Vec<_>>().join(&b' ')
}
