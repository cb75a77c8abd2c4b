//! Requests for commands that are absent, judged by the rules of their users.

use ::membership::items::Principal;
use acl::{CommandId, KeyUses, Standing, UserNumber};
use resp::Args;

use super::absent::find_keys;
use super::{Denial, UserTable};
use crate::admission::rights::User;

impl UserTable {
    /// Adds the keys of a request for an absent command.
    pub(crate) fn keys_of_absent(&self, id: CommandId, args: Args<'_>, keys: &mut KeyUses) {
        find_keys(self.catalogue.name(id), args, keys);
    }

    /// The absent command that a request names.
    pub(crate) fn absent(&self, args: Args<'_>) -> Option<CommandId> {
        let id = self.catalogue.called(args.get(0)?, args.get(1))?;
        (usize::from(id.0) >= self.commands).then_some(id)
    }

    /// The reason why a user may not run this absent command. `None`: it may, or the command is of another kind.
    pub(crate) fn refusal_of_absent(&self, user: &User, args: Args<'_>) -> Option<Denial> {
        let id = self.absent(args)?;
        let Principal { user: number, revision } = user.principal;
        let state = self.read_state();
        let Standing::Known(known) = state.users.standing(UserNumber(number.into()), revision) else { return None };
        let find = |keys: &mut KeyUses| find_keys(self.catalogue.name(id), args, keys);
        let denied = known.check(&self.catalogue, id, args, find).err()?;
        Some(Denial::OfRights {
            denied,
            user: known.name().to_vec(),
            object: denied.object(&self.catalogue, id, args),
            brief: denied.brief(known, &self.catalogue, id),
        })
    }
}
