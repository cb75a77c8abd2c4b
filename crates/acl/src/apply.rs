//! Applies one rule to a user.

use crate::catalogue::{Catalogue, Categories};
use crate::check::Access;
use crate::error::{BadRule, has_blank};
use crate::password::PasswordHash;
use crate::selector::{KeyPattern, Selector};
use crate::user::User;

impl User {
    /// Applies a rule of ACL SETUSER. `all_channels`: the value of `acl-pubsub-default`. After an error the user may be
    /// changed in part.
    pub(crate) fn apply(&mut self, catalogue: &Catalogue, all_channels: bool, rule: &[u8]) -> Result<(), BadRule> {
        match rule {
            [] => {}
            [b'>', password @ ..] => self.add_password(PasswordHash::of(password)),
            [b'#', hex @ ..] => self.add_password(PasswordHash::parse(hex).ok_or(BadRule::BadHash)?),
            [b'<', password @ ..] => self.remove_password(PasswordHash::of(password))?,
            [b'!', hex @ ..] => self.remove_password(PasswordHash::parse(hex).ok_or(BadRule::BadHash)?)?,
            [b'(', inner @ .., b')'] => {
                let apply = |selector: &mut Selector, rule: &[u8]| selector.apply(catalogue, rule);
                self.selectors.push(selector_of(all_channels, inner, apply)?);
            }
            _ => return self.apply_word(catalogue, all_channels, rule),
        }
        Ok(())
    }

    fn apply_word(&mut self, catalogue: &Catalogue, all_channels: bool, rule: &[u8]) -> Result<(), BadRule> {
        match &rule.to_ascii_lowercase()[..] {
            b"on" => self.is_on = true,
            b"off" => self.is_on = false,
            b"skip-sanitize-payload" => self.skips_sanitizing = true,
            b"sanitize-payload" => self.skips_sanitizing = false,
            b"nopass" => {
                self.needs_no_password = true;
                self.passwords.clear();
            }
            b"resetpass" => {
                self.needs_no_password = false;
                self.passwords.clear();
            }
            b"clearselectors" => self.selectors.clear(),
            b"reset" => {
                *self = User { revision: self.revision, ..User::new(&self.name, self.number, all_channels) };
            }
            _ => return self.root.apply(catalogue, rule),
        }
        Ok(())
    }

    fn add_password(&mut self, hash: PasswordHash) {
        self.passwords.push(hash);
        self.needs_no_password = false;
    }

    fn remove_password(&mut self, hash: PasswordHash) -> Result<(), BadRule> {
        if self.passwords.remove(hash.bytes()) { Ok(()) } else { Err(BadRule::NoSuchPassword) }
    }
}

/// The selector that these rules between parentheses make. As in Redis, unbalanced quotes make one without rights.
pub(crate) fn selector_of(
    all_channels: bool,
    inner: &[u8],
    mut apply: impl FnMut(&mut Selector, &[u8]) -> Result<(), BadRule>,
) -> Result<Selector, BadRule> {
    let mut selector = Selector::new(all_channels);
    for rule in resp::split_args(inner).unwrap_or_default() {
        apply(&mut selector, &rule)?;
    }
    Ok(selector)
}

impl Selector {
    /// Applies a rule about commands, keys or channels.
    pub(crate) fn apply(&mut self, catalogue: &Catalogue, rule: &[u8]) -> Result<(), BadRule> {
        match &rule.to_ascii_lowercase()[..] {
            b"allkeys" | b"~*" => self.set_all_keys(true),
            b"resetkeys" => self.set_all_keys(false),
            b"allchannels" | b"&*" => self.set_all_channels(true),
            b"resetchannels" => self.set_all_channels(false),
            b"allcommands" | b"+@all" => self.set_all_commands(catalogue, true),
            b"nocommands" | b"-@all" => self.set_all_commands(catalogue, false),
            _ => return self.apply_named(catalogue, rule),
        }
        Ok(())
    }

    fn apply_named(&mut self, catalogue: &Catalogue, rule: &[u8]) -> Result<(), BadRule> {
        match rule {
            [b'~', glob @ ..] => self.add_keys(Access::ALL, glob),
            [b'%', rest @ ..] => {
                // A rule that names rights without a pattern has the empty pattern, as in Redis.
                if self.all_keys {
                    return Err(BadRule::AfterAllKeys);
                }
                let (access, glob) = access(rest)?;
                self.add_keys(access, glob)
            }
            [b'&', glob @ ..] => self.add_channel(glob),
            [b'+', b'@', ..] | [b'-', b'@', ..] => self.apply_category(catalogue, rule),
            [b'+', name @ ..] => self.allow(catalogue, name),
            [b'-', name @ ..] => {
                let id = catalogue.find(name).ok_or(BadRule::Unknown)?;
                self.set_command(catalogue, id, false);
                self.note(catalogue.name(id).as_bytes(), false);
                Ok(())
            }
            _ => Err(BadRule::Syntax),
        }
    }

    fn set_all_keys(&mut self, all: bool) {
        self.all_keys = all;
        self.keys.clear();
    }

    fn set_all_channels(&mut self, all: bool) {
        self.all_channels = all;
        self.channels.clear();
    }

    fn add_keys(&mut self, access: Access, glob: &[u8]) -> Result<(), BadRule> {
        if self.all_keys {
            return Err(BadRule::AfterAllKeys);
        }
        if has_blank(glob) {
            return Err(BadRule::Syntax);
        }
        match self.keys.get_mut(glob) {
            Some(known) => known.access |= access,
            None => {
                self.keys.push(KeyPattern { glob: glob.to_vec(), access });
            }
        }
        Ok(())
    }

    fn add_channel(&mut self, glob: &[u8]) -> Result<(), BadRule> {
        if self.all_channels {
            return Err(BadRule::AfterAllChannels);
        }
        if has_blank(glob) {
            return Err(BadRule::Syntax);
        }
        self.channels.push(glob.to_vec());
        Ok(())
    }

    fn apply_category(&mut self, catalogue: &Catalogue, rule: &[u8]) -> Result<(), BadRule> {
        let (sign, name) = rule.split_at(1);
        let category = Categories::of_name(name.get(1..).unwrap_or_default()).ok_or(BadRule::Unknown)?;
        let allow = sign == b"+";
        self.note(name, allow);
        self.set_category(catalogue, category, allow);
        Ok(())
    }

    /// `+command`, `+container|subcommand`, `+command|first-argument`.
    fn allow(&mut self, catalogue: &Catalogue, name: &[u8]) -> Result<(), BadRule> {
        let Some(bar) = name.iter().rposition(|byte| *byte == b'|') else {
            let id = catalogue.find(name).ok_or(BadRule::Unknown)?;
            self.set_command(catalogue, id, true);
            self.note(catalogue.name(id).as_bytes(), true);
            return Ok(());
        };
        let (command, argument) = (&name[..bar], &name[bar + 1..]);
        let id = catalogue.find(command).ok_or(BadRule::Unknown)?;
        if catalogue.is_subcommand(id) {
            return Err(BadRule::OfSubcommand);
        }
        if argument.is_empty() {
            return Err(BadRule::Syntax);
        }
        if catalogue.is_container(id) {
            let sub = catalogue.find(name).ok_or(BadRule::Unknown)?;
            self.set_command(catalogue, sub, true);
        } else {
            // Redis keeps rules as one text, and a blank in it makes Redis crash.
            if has_blank(argument) {
                return Err(BadRule::Syntax);
            }
            self.add_first_argument(id, argument);
        }
        self.note(name, true);
        Ok(())
    }
}

/// The access that `%R~`, `%W~`, `%RW~` allow, and the pattern behind them.
fn access(rest: &[u8]) -> Result<(Access, &[u8]), BadRule> {
    let mut access = Access::NONE;
    let mut glob = rest;
    while let [letter, behind @ ..] = glob {
        glob = behind;
        let more = match letter.to_ascii_uppercase() {
            b'R' if !access.contains(Access::READ) => Access::READ,
            b'W' if !access.contains(Access::WRITE) => Access::WRITE,
            b'~' => break,
            _ => return Err(BadRule::Syntax),
        };
        access |= more;
    }
    if access == Access::NONE { Err(BadRule::Syntax) } else { Ok((access, glob)) }
}
