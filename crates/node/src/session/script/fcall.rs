//! FCALL: functions of libraries.

use command::Error;
use script::Running;

use super::super::{Flow, SessionCtx};
use super::eval::text;
use super::start::{numkeys, rules, start};

pub(super) fn fcall(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let libraries = ctx.node.scripts.libraries();
    let name = std::str::from_utf8(ctx.arg(1)).unwrap_or_default();
    let (library, function) = libraries.function(name).ok_or_else(|| match ctx.peers.lacks_lease() {
        // The node may not have all functions.
        true => Error::text(ctx.peers.no_lease()),
        false => Error::new("ERR Function not found"),
    })?;
    let numkeys = numkeys(ctx, Error::new("ERR Bad number of keys provided"))?;
    let rules = rules(ctx, Some(function.flags))?;
    let name = &*function.name;
    start(ctx, numkeys, rules, Some(name), |ctx| {
        let machine = ctx.machines.take(ctx.settings.lua_enable_deprecated_api).map_err(text)?;
        let seed = ctx.engine.rng().next_u64() as i32;
        let (keys, argv) = (ctx.args.iter().skip(3).take(numkeys), ctx.args.iter().skip(3 + numkeys));
        Running::fcall(machine, library, name, keys, argv, seed).map_err(|refused| {
            ctx.machines.put_back(refused.machine);
            text(refused.error)
        })
    })
}
