//! CLIENT KILL in its old form (an address) and its new one (filters).

use std::sync::Arc;

use clocks::UnixMs;
use command::Error;

use super::{Flow, Kind, SessionCtx, kind};
use crate::client::Client;

/// Which connections to end: those that pass every filter.
struct Filter<'a> {
    address: Option<&'a [u8]>,
    local: Option<&'a [u8]>,
    kind: Option<Kind>,
    id: Option<u64>,
    user: Option<&'a [u8]>,
    /// Seconds a connection must have lasted at least.
    age: u64,
    skip_me: bool,
}

impl Filter<'_> {
    fn admits(&self, client: &Client, now: UnixMs) -> bool {
        self.address.is_none_or(|a| client.peer.address.as_bytes() == a)
            && self.local.is_none_or(|a| client.peer.local.as_bytes() == a)
            && self.kind.is_none_or(|kind| kind == Kind::of(client))
            && self.id.is_none_or(|id| client.id == id)
            && self.user.is_none_or(|user| client.texts().user == user)
            && now.since(client.since) / 1000 >= self.age
    }
}

pub fn kill(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let old_form = ctx.args.len() == 3;
    let filter = if old_form { by_address(ctx.arg(2)) } else { filter(ctx)? };
    let now = ctx.engine.now();
    let me = ctx.session.client.id;
    let (killed, close_me) = end(ctx, |client| !(filter.skip_me && client.id == me) && filter.admits(client, now));
    match (old_form, killed) {
        (true, 0) => return Err(Error::new("ERR No such client")),
        (true, _) => ctx.reply().ok(),
        (false, killed) => ctx.reply().count(killed as u64),
    }
    Ok(if close_me { Flow::Close } else { Flow::Done })
}

/// Ends the clients that `chosen` says: how many, and whether the one that asks is among them, which the caller closes.
pub(crate) fn end(ctx: &SessionCtx<'_>, chosen: impl Fn(&Client) -> bool) -> (usize, bool) {
    let all: Vec<Arc<Client>> = ctx.node.clients().values().filter(|client| chosen(client)).cloned().collect();
    let mut close_me = false;
    for client in &all {
        if client.id == ctx.session.client.id {
            close_me = true;
            continue;
        }
        ctx.node.end_client(client);
    }
    (all.len(), close_me)
}

/// The old form may end the connection that asks.
fn by_address(address: &[u8]) -> Filter<'_> {
    Filter { address: Some(address), local: None, kind: None, id: None, user: None, age: 0, skip_me: false }
}

fn filter<'a>(ctx: &SessionCtx<'a>) -> Result<Filter<'a>, Error> {
    let mut filter = Filter { address: None, ..by_address(b"") };
    filter.skip_me = true;
    for i in (2..ctx.args.len()).step_by(2) {
        let Some(value) = ctx.args.get(i + 1) else { return Err(Error::SYNTAX) };
        let is = |word: &str| value.eq_ignore_ascii_case(word.as_bytes());
        if ctx.is(i, "ID") {
            let id = keyspace::canonical_int(value).and_then(|id| u64::try_from(id).ok()).filter(|&id| id > 0);
            filter.id = Some(id.ok_or(Error::new("ERR client-id should be greater than 0"))?);
        } else if ctx.is(i, "MAXAGE") {
            let age =
                keyspace::canonical_int(value).ok_or(Error::new("ERR maxage is not an integer or out of range"))?;
            let age = u64::try_from(age).ok().filter(|&age| age > 0);
            filter.age = age.ok_or(Error::new("ERR maxage should be greater than 0"))?;
        } else if ctx.is(i, "TYPE") {
            filter.kind = Some(kind(value)?);
        } else if ctx.is(i, "ADDR") {
            filter.address = Some(value);
        } else if ctx.is(i, "LADDR") {
            filter.local = Some(value);
        } else if ctx.is(i, "USER") {
            if ctx.node.users.read(|users| users.find(value).is_none()) {
                return Err(Error::text([b"ERR No such user '", value, b"'"].concat()));
            }
            filter.user = Some(value);
        } else if ctx.is(i, "SKIPME") {
            filter.skip_me = match (is("yes"), is("no")) {
                (true, _) => true,
                (_, true) => false,
                _ => return Err(Error::SYNTAX),
            };
        } else {
            return Err(Error::SYNTAX);
        }
    }
    Ok(filter)
}
