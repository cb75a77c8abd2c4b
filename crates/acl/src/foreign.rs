//! Rules of files that are meant for another server, with commands and categories that this one does not have. They
//! must not stop a start: `-failover` takes nothing away, and `+ft.search` gives nothing.
//!
//! A name that no server has stays an error. It may be a slip, and a denial without effect would leave a right.

use crate::apply::selector_of;
use crate::catalogue::Catalogue;
use crate::error::BadRule;
use crate::selector::Selector;
use crate::user::User;

/// Rules that have no effect, each with the name of its user.
pub(crate) type WithoutEffect = Vec<String>;

impl User {
    /// Applies a rule of a file, in which foreign names are no error.
    pub(crate) fn apply_of_file(
        &mut self,
        catalogue: &Catalogue,
        all_channels: bool,
        rule: &[u8],
        ignored: &mut WithoutEffect,
    ) -> Result<(), BadRule> {
        let mut of_others = Vec::new();
        let applied = if let [b'(', inner @ .., b')'] = rule {
            let apply = |selector: &mut Selector, rule: &[u8]| {
                selector.apply(catalogue, rule).or_else(|bad| selector.keep(catalogue, rule, bad, &mut of_others))
            };
            selector_of(all_channels, inner, apply).map(|selector| self.selectors.push(selector))
        } else {
            let applied = self.apply(catalogue, all_channels, rule);
            applied.or_else(|bad| self.root.keep(catalogue, rule, bad, &mut of_others))
        };
        let name = String::from_utf8_lossy(&self.name);
        ignored.extend(of_others.into_iter().map(|rule| format!("'{rule}' of the user '{name}'")));
        applied
    }
}

impl Selector {
    /// Keeps a rule about a foreign command, for nodes and later versions that know it. One about a foreign category is
    /// dropped: nodes refuse users with an unknown category.
    fn keep(
        &mut self,
        catalogue: &Catalogue,
        rule: &[u8],
        bad: BadRule,
        ignored: &mut Vec<String>,
    ) -> Result<(), BadRule> {
        let [sign @ (b'+' | b'-'), name @ ..] = rule else { return Err(bad) };
        let name = name.to_ascii_lowercase();
        if bad != BadRule::Unknown || !catalogue.is_foreign(&name) {
            return Err(bad);
        }
        if !name.starts_with(b"@") {
            self.note(&name, *sign == b'+');
        }
        ignored.push(String::from_utf8_lossy(rule).into_owned());
        Ok(())
    }
}
