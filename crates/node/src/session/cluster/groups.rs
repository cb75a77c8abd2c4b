//! Log groups: CLUSTER GROUP, and CLUSTER RECOVER.

use std::sync::Arc;

use ::membership::meta::{Command, DEFAULT_GROUP, GROUP_NAME_MAX, Group, GroupCommand, PLACES_MAX, Place, Recover};
use ::membership::{Map, ShardId};
use command::Error;

use super::super::{Flow, SessionCtx};
use super::admin::{administration, change};
use super::map::map;
use crate::cluster::copies::{first_machines, member_of, place_in_group, place_of, place_text};
use crate::cluster::status::groups_text;
use crate::worker::jobs::{Done, Job};

/// CLUSTER GROUP ADD, SHOW, USE, REPLACE.
pub(super) fn group(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let (map, _) = map(ctx)?;
    let changed = match ctx.args.len() {
        3 if ctx.is(2, "show") => return show(ctx),
        4.. if ctx.is(2, "add") => add(ctx, &map)?,
        4.. if ctx.is(2, "use") => uses(ctx, &map)?,
        5 | 6 if ctx.is(2, "replace") => replace(ctx, &map)?,
        _ => return Err(Error::SYNTAX),
    };
    change(ctx, Command::Group(changed))
}

/// CLUSTER RECOVER shard ON node: a node without slots takes over the shard of a lost owner.
pub(super) fn recover(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let (map, _) = map(ctx)?;
    if !ctx.is(3, "on") {
        return Err(Error::SYNTAX);
    }
    let (shard, to) = (shard(ctx, 2)?, member_of(&map, &text(ctx, 4)?).map_err(error)?);
    change(ctx, Command::Group(GroupCommand::Recover(Recover { shard, to })))
}

pub(super) fn error(why: String) -> Error {
    Error::text(format!("ERR {why}"))
}

pub(super) fn text(ctx: &SessionCtx<'_>, at: usize) -> Result<String, Error> {
    let text = std::str::from_utf8(ctx.arg(at)).map_err(|_| Error::SYNTAX)?;
    Ok(text.to_owned())
}

fn name(ctx: &SessionCtx<'_>, at: usize) -> Result<String, Error> {
    let name = text(ctx, at)?;
    match name.len() {
        ..=GROUP_NAME_MAX => Ok(name),
        _ => Err(error(format!("the name of a group has at most {GROUP_NAME_MAX} bytes"))),
    }
}

pub(super) fn shard(ctx: &SessionCtx<'_>, at: usize) -> Result<ShardId, Error> {
    let number = text(ctx, at)?.parse().map_err(|_| error("a shard is named by its number".to_owned()))?;
    Ok(ShardId(number))
}

fn place(ctx: &SessionCtx<'_>, map: &Map, at: usize) -> Result<Place, Error> {
    place_of(map, &text(ctx, at)?).map_err(error)
}

fn show(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let job = Job::elsewhere();
    let asked = Arc::clone(&job);
    administration(ctx)?.status(Box::new(move |status| asked.end(Ok(Done::Text(groups_text(&status))))));
    Ok(Flow::Job(job))
}

/// The default group may be made without places: then it has the first three machines.
fn add(ctx: &SessionCtx<'_>, map: &Map) -> Result<GroupCommand, Error> {
    let name = name(ctx, 3)?;
    let places = match ctx.args.len() {
        4 if name == DEFAULT_GROUP => first_machines(map).map_err(error)?,
        4 => return Err(error("a group needs places: HOST:PORT/DIR, or HOST:PORT/-".to_owned())),
        count if count - 4 > PLACES_MAX => return Err(error(format!("a group has at most {PLACES_MAX} places"))),
        count => (4..count).map(|at| place(ctx, map, at)).collect::<Result<_, _>>()?,
    };
    Ok(GroupCommand::Add(Group { name, places }))
}

fn uses(ctx: &SessionCtx<'_>, map: &Map) -> Result<GroupCommand, Error> {
    let name = if ctx.arg(3) == b"-" { String::new() } else { name(ctx, 3)? };
    let shards: Vec<ShardId> = (4..ctx.args.len()).map(|at| shard(ctx, at)).collect::<Result<_, _>>()?;
    let has_default = map.groups().iter().any(|group| group.name == DEFAULT_GROUP);
    let mut chosen = map.shards().iter().filter(|shard| shards.is_empty() || shards.contains(&shard.id)).peekable();
    let is_known = chosen.peek().is_some();
    if name.is_empty() && has_default && is_known && chosen.all(|shard| shard.group.is_empty()) {
        return Err(error(format!(
            "shards that have no group of their own use the group {DEFAULT_GROUP}, and these have none: for a shard without copies make a group of one place, and have the shard use that"
        )));
    }
    Ok(GroupCommand::Use { name, shards })
}

fn replace(ctx: &SessionCtx<'_>, map: &Map) -> Result<GroupCommand, Error> {
    let named = if ctx.args.len() == 6 { Some(name(ctx, 5)?) } else { None };
    let old = place_in_group(map, &text(ctx, 3)?, named.as_deref()).map_err(error)?;
    let new = place(ctx, map, 4)?;
    let mut with = map.groups().iter().filter(|group| group.places.contains(&old)).map(|group| group.name.clone());
    let name = match (named, with.next(), with.next()) {
        (Some(name), ..) => name,
        (None, Some(name), None) => name,
        (None, None, _) => {
            // It may be asked for again: then the new place is there.
            let is_done = |group: &&Group| group.places.contains(&new);
            let known = map.groups().iter().find(is_done).map(|group| group.name.clone());
            known.ok_or_else(|| error(format!("no group has the place {}", place_text(map, &old))))?
        }
        (None, Some(one), Some(other)) => {
            return Err(error(format!("the groups {one} and {other} have this place: name one behind it")));
        }
    };
    Ok(GroupCommand::Replace { name, old, new })
}
