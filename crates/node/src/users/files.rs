//! Users in files: `aclfile`, and `user` lines of the configuration.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use acl::{Change, ConfiguredUsers, RuleBook};

use super::{UserTable, catalogue};
use crate::config::{LoadError, Loaded, Password, Settings, replace_file};
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
        load(&node.users, &settings).map_err(|why| {
            format!("Aborting Holdfast startup because of ACL errors: {}", String::from_utf8_lossy(&why))
        })?;
    }
    if !configured.is_empty() {
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
    users
        .change(settings.acl_pubsub_default, |users, book| users.load(book, &name, &text))
        .map_err(|error| error.text().to_vec())
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
            all.map(|user| user.file_line().split_off(b"user ".len())).collect()
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
