//! The settings that are the cluster's: every node has them from here. To the metadata they are names and bytes. Nodes
//! know their meaning, and that a setting without an entry has its default.

use std::collections::BTreeMap;
use std::fmt;

use super::{Refusal, TEXT_MAX};
use crate::codec::{Malformed, Reader, put_bytes, put_count};

/// Most settings.
pub const CONFIGURED_MAX: usize = 128;

/// Bytes of the longest value of one.
pub const VALUE_MAX: usize = 1024;

/// Bytes of all names and values.
pub const CONFIGURATION_MAX: usize = 32 << 10;

/// A name and a value. The value may be a secret: it is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Setting {
    /// At most [`TEXT_MAX`] bytes.
    pub name: String,
    /// At most [`VALUE_MAX`] bytes.
    pub value: Vec<u8>,
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.name, self.value.len())
    }
}

/// Names, for people.
pub(crate) fn names(settings: &[Setting]) -> String {
    settings.iter().map(|setting| setting.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Appends settings.
pub(crate) fn put(out: &mut Vec<u8>, settings: &[Setting]) {
    put_count(out, settings.len());
    for Setting { name, value } in settings {
        put_bytes(out, name.as_bytes());
        put_bytes(out, value);
    }
}

/// The next ones in `from`.
pub(crate) fn read(from: &mut Reader<'_>) -> Result<Vec<Setting>, Malformed> {
    let count = from.count(CONFIGURED_MAX)?;
    let setting = |from: &mut Reader<'_>| {
        Ok(Setting { name: from.text(TEXT_MAX)?.to_owned(), value: from.bytes(VALUE_MAX)?.to_vec() })
    };
    (0..count).map(|_| setting(from)).collect()
}

/// All of them.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Configuration {
    version: u64,
    values: BTreeMap<String, Vec<u8>>,
}

impl fmt::Debug for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Configuration").field("version", &self.version).field("names", &self.values.keys()).finish()
    }
}

impl Configuration {
    /// How often they have changed; 0: the cluster has none yet.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Names and values, in the order of the names.
    pub fn values(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.values.iter().map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    /// The value of one.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.values.get(name).map(Vec::as_slice)
    }

    /// Changes some, or gives the cluster its `first` ones. False: nothing has changed.
    pub(crate) fn change(&mut self, first: bool, settings: &[Setting]) -> Result<bool, Refusal> {
        match (first, self.version) {
            (true, 1..) => return Ok(false),
            (false, 0) => return Err(Refusal::Unconfigured),
            _ => {}
        }
        let is_new = |setting: &Setting| self.get(&setting.name) != Some(&setting.value);
        if !first && !settings.iter().any(is_new) {
            return Ok(false);
        }
        let mut values = self.values.clone();
        values.extend(settings.iter().map(|setting| (setting.name.clone(), setting.value.clone())));
        let bytes: usize = values.iter().map(|(name, value)| name.len() + value.len()).sum();
        if values.len() > CONFIGURED_MAX || bytes > CONFIGURATION_MAX {
            return Err(Refusal::ConfigurationTooLarge { bytes: bytes as u64 });
        }
        *self = Self { version: self.version + 1, values };
        Ok(true)
    }

    /// Appends them.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.version.to_le_bytes());
        put_count(out, self.values.len());
        for (name, value) in &self.values {
            put_bytes(out, name.as_bytes());
            put_bytes(out, value);
        }
    }

    /// The next ones in `from`.
    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let version = from.u64()?;
        let values = read(from)?.into_iter().map(|Setting { name, value }| (name, value)).collect();
        Ok(Self { version, values })
    }
}
