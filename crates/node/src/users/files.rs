//! Users in files: `aclfile`, and `user` lines of the configuration.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use acl::{Change, ConfiguredUsers, RuleBook};

use super::{UserTable, catalogue};
use crate::config::{LoadError, Loaded, Password, Settings, quote_where_needed, remove_successors, replace_file};
use crate::table::Table;

const BOTH: &str = "Configuring Holdfast with users defined in its configuration file and at the same time setting an ACL \
    file path is invalid. This setup is very likely to lead to configuration errors and security holes, please define \
    either an ACL file or declare users directly in the configuration file, but not both.";

/// The users that `user` lines of the configuration declare, beyond what `requirepass` can express.
///
/// # Errors
/// The first line with an error; it names no password.
pub fn configured(table: &Table, loaded: &Loaded) -> Result<ConfiguredUsers, LoadError> {
    let catalogue = catalogue(table);
    let all_channels = Settings::of(&loaded.values).acl_pubsub_default;
    let mut users = ConfiguredUsers::default();
    loaded.users(|name, rules| users.add(RuleBook { catalogue: &catalogue, all_channels }, name, rules)).map(|()| users)
}

/// Gives the node the users that it begins with: those of `aclfile`, or those of the configuration. A node of a cluster
/// has them until it hears of the cluster's.
///
/// # Errors
/// The node must not start: it would let clients in that the operator has shut out. The error names the reason.
pub fn begin(node: &crate::Node, configured: ConfiguredUsers) -> Result<(), String> {
    let settings = node.config.settings();
    node.users.keep_up(settings.requirepass.as_ref());
    let has_users = !settings.aclfile.is_empty() || !configured.is_empty();
    if !settings.aclfile.is_empty() {
        if !configured.is_empty() {
            return Err(BOTH.to_owned());
        }
        remove_successors(path_of(&settings));
        load(&node.users, &settings).map_err(|why| {
            format!("Aborting Holdfast startup because of ACL errors: {}", String::from_utf8_lossy(&why))
        })?;
    }
    if !configured.is_empty() {
        warn_of(configured.without_effect());
        node.users.begin_with(configured, &settings);
    }
    if settings.takes_part_in_cluster() {
        node.users
            .await_cluster(has_users, settings.requirepass.as_ref())
            .map_err(|error| String::from_utf8_lossy(error.as_bytes()).trim_start_matches("ERR ").to_owned())?;
    }
    Ok(())
}

/// Takes the users of `aclfile` instead of all others.
///
/// # Errors
/// The file is wrong, as the error says: no user has changed.
pub(crate) fn load(users: &UserTable, settings: &Settings) -> Result<Vec<Change>, Vec<u8>> {
    let (name, text) = read_file(settings)?;
    let loaded = users.change(settings.acl_pubsub_default, |users, book| users.load(book, &name, &text));
    let loaded = loaded.map_err(|error| error.text().to_vec())?;
    warn_of(&loaded.without_effect);
    Ok(loaded.changes)
}

/// Most rules without an effect that one line of the log names.
const NAMED_MAX: usize = 20;

/// Says which rules have no effect, because only other servers have what they name.
pub(crate) fn warn_of(rules: &[String]) {
    if rules.is_empty() {
        return;
    }
    let named = rules.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    let more = match rules.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    tracing::warn!("rules of users without an effect, because this server lacks what they name: {named}{more}");
}

/// The name and the text of `aclfile`.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn read_file(settings: &Settings) -> Result<(String, Vec<u8>), Vec<u8>> {
    let name = String::from_utf8_lossy(&settings.aclfile).into_owned();
    match std::fs::read(path_of(settings)) {
        Ok(text) => Ok((name, text)),
        Err(error) => Err(format!("Error loading ACLs, opening file '{name}': {error}").into_bytes()),
    }
}

/// Writes all users to `aclfile`.
///
/// # Errors
/// The file cannot be written, as the error says; it is as before.
pub(crate) fn save(users: &UserTable, settings: &Settings) -> std::io::Result<()> {
    let text = users.read(|users| users.file());
    replace_file(path_of(settings), &text)
}

fn path_of(settings: &Settings) -> &Path {
    Path::new(OsStr::from_bytes(&settings.aclfile))
}

impl UserTable {
    /// Takes the users of the configuration instead of the present ones. Where lines say nothing of the user `default`,
    /// `requirepass` holds.
    fn begin_with(&self, configured: ConfiguredUsers, settings: &Settings) {
        let is_about_default = configured.has(b"default");
        let password = settings.requirepass.as_ref().map(super::hash_of);
        self.change(settings.acl_pubsub_default, |users, book| {
            *users = configured.into_users(book);
            if !is_about_default {
                users.set_default_password(password);
            }
        });
    }

    /// The `user` lines that CONFIG REWRITE writes, without their first word. `default` has none if `requirepass`
    /// expresses all of it: otherwise the line would hold at the next start, against later settings.
    pub(crate) fn lines_of_configuration(&self, settings: &Settings) -> Vec<Vec<u8>> {
        if !settings.aclfile.is_empty() {
            return Vec::new();
        }
        self.keep_up(settings.requirepass.as_ref());
        self.read(|users| {
            let all = users.iter().filter(|user| !(user.name() == b"default" && is_as_usual(user, settings)));
            let line = |words: Vec<Vec<u8>>| words.iter().map(|word| quote_where_needed(word)).collect::<Vec<_>>();
            all.map(|user| line(user.configuration_words()).join(&b' ')).collect()
        })
    }
}

/// True if `requirepass` expresses all of the user `default`.
fn is_as_usual(user: &acl::User, settings: &Settings) -> bool {
    let password = match &settings.requirepass {
        None => "nopass sanitize-payload".to_owned(),
        Some(password @ Password::Plain(_)) => format!("sanitize-payload #{}", super::hash_of(password).hex()),
        Some(Password::Hash(_)) => return false,
    };
    user.rules() == format!("on {password} ~* &* +@all").as_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::{Arguments, Files, Live, Values, load as read_configuration, rewrite};

    /// One configuration file, under any name.
    struct One(Vec<u8>);

    impl Files for One {
        fn read(&self, _: &Path) -> std::io::Result<Vec<u8>> {
            Ok(self.0.clone())
        }

        fn matching(&self, _: &Path) -> std::io::Result<Vec<std::path::PathBuf>> {
            Ok(Vec::new())
        }
    }

    fn list(users: &UserTable) -> Vec<String> {
        users.read(|users| users.iter().map(|user| user.line().escape_ascii().to_string()).collect())
    }

    /// The users after a start with this configuration.
    fn begun(table: &Table, text: &[u8]) -> Vec<String> {
        let arguments = Arguments { file: Some("x".into()), ..Arguments::default() };
        let loaded = read_configuration(&arguments, &One(text.to_vec()), &mut || Ok(Vec::new())).unwrap();
        let configured = configured(table, &loaded).unwrap();
        let live = Live::new(loaded.values, None, Default::default()).with_hash(loaded.hash);
        let users = UserTable::new(table);
        users.keep_up(live.settings().requirepass.as_ref());
        if !configured.is_empty() {
            users.begin_with(configured, &live.settings());
        }
        list(&users)
    }

    /// Names without blanks, but with all that quoting and parentheses may break.
    fn name() -> impl Strategy<Value = Vec<u8>> {
        let odd = b"ab*#\"'\\()><&~%@+-|$\x01\x1b\x7f\xc3\xff".to_vec();
        prop::collection::vec(prop::sample::select(odd), 0..5)
    }

    fn rule() -> impl Strategy<Value = Vec<u8>> {
        let fixed = [
            "on",
            "off",
            "nopass",
            "resetpass",
            ">a",
            ">b",
            "<a",
            "allkeys",
            "resetkeys",
            "%RW~*",
            "allchannels",
            "resetchannels",
            "+@all",
            "-@all",
            "+get",
            "-get",
            "+config|set",
            "-@dangerous",
            "+migrate",
            "reset",
            "skip-sanitize-payload",
            "sanitize-payload",
            "clearselectors",
        ];
        let signs = ["~", "%R~", "%W~", "&", "+select|", ">"];
        let named =
            (prop::sample::select(signs.to_vec()), name()).prop_map(|(sign, name)| [sign.as_bytes(), &name].concat());
        prop_oneof![prop::sample::select(fixed.to_vec()).prop_map(|rule| rule.as_bytes().to_vec()), named]
    }

    /// A rule, or several in a selector, each quoted.
    fn piece() -> impl Strategy<Value = Vec<u8>> {
        let selector = prop::collection::vec(rule(), 0..4).prop_map(|rules| {
            let quoted: Vec<_> = rules.iter().map(|rule| quote_where_needed(rule)).collect();
            [b"(", &quoted.join(&b' ')[..], b")"].concat()
        });
        prop_oneof![4 => rule(), 1 => selector]
    }

    proptest! {
        /// What CONFIG REWRITE and ACL SAVE write makes the same users at the next start.
        #[test]
        fn what_is_written_is_read(
            users in prop::collection::vec((prop_oneof![Just(b"default".to_vec()), name()], prop::collection::vec(piece(), 0..6)), 0..5),
            requirepass in prop_oneof![Just(""), Just("a"), Just("o \"d'd\\")],
        ) {
            let table = Table::new();
            let mut values = Values::default();
            values.set("requirepass", requirepass.as_bytes()).unwrap();
            let settings = Settings::of(&values);
            let known = UserTable::new(&table);
            known.keep_up(settings.requirepass.as_ref());
            for (name, rules) in &users {
                for rule in rules {
                    // Wrong ones change nothing.
                    let _ = known.change(false, |users, book| users.set(book, name, std::slice::from_ref(rule)));
                }
            }
            let lines = known.lines_of_configuration(&settings);
            let text = rewrite(b"", &values, Some(&lines), false, false);
            prop_assert_eq!(begun(&table, &text), list(&known), "{}", text.escape_ascii());
            let again = rewrite(&text, &values, Some(&lines), false, false);
            prop_assert_eq!(begun(&table, &again), list(&known), "a second time");
            let (file, loaded) = (known.read(|users| users.file()), UserTable::new(&table));
            loaded.change(false, |users, book| users.load(book, "", &file)).unwrap();
            prop_assert_eq!(list(&loaded), list(&known), "{}", file.escape_ascii());
        }
    }
}
