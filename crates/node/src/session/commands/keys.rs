//! COMMAND GETKEYS and GETKEYSANDFLAGS: the keys in a command, found as the server itself finds them.

use command::{Error, flags};
use resp::OwnedArgs;

use super::info::key_flags;
use crate::session::{Flow, SessionCtx};

pub fn getkeys(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    find(ctx, false)
}

pub fn getkeysandflags(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    find(ctx, true)
}

fn find(ctx: &mut SessionCtx<'_>, with_flags: bool) -> Result<Flow, Error> {
    let owned: OwnedArgs = ctx.args.iter().skip(2).collect();
    let args = owned.args();
    let table = &ctx.node.table;
    let command = table.find(&args[0]).and_then(|command| table.with_word(command, args.get(1)));
    let spec = command.ok_or(Error::new("ERR Invalid command specified"))?.spec;
    // A shard channel has the place of a key, but is none.
    if spec.keys.iter().all(|keys| keys.flags & command::key_flags::NOT_KEY != 0) && spec.find_keys.is_none() {
        return Err(Error::new("ERR The command has no key arguments"));
    }
    if !spec.accepts(args.len()) {
        return Err(Error::new("ERR Invalid number of arguments specified for command"));
    }
    let mut found = Vec::new();
    let sound = spec.keys_of(args, &mut found);
    if (!sound || found.is_empty()) && !spec.has(flags::NO_MANDATORY_KEYS) {
        return Err(Error::new("ERR Invalid arguments specified for command"));
    }
    let mut reply = ctx.reply();
    reply.array(found.len());
    for at in found {
        if with_flags {
            reply.array(2);
        }
        reply.bulk(args.get(at.index).unwrap_or_default());
        if with_flags {
            key_flags(&mut reply, at.flags);
        }
    }
    Ok(Flow::Done)
}
