//! CLIENT TRACKING, CACHING, TRACKINGINFO and GETREDIR.

use std::sync::atomic::Ordering::Relaxed;

use command::Error;

use super::caching::Choice;
use super::{Flow, Session, SessionCtx};
use crate::push::tracker::{BROADCAST, BROKEN, NO_LOOP, ON};

/// Bytes that a prefix costs beside its own, roughly.
const PREFIX: u64 = 128;

/// The options of CLIENT TRACKING.
#[derive(Default)]
struct Options<'a> {
    redirect: u64,
    broadcast: bool,
    opt_in: bool,
    opt_out: bool,
    no_loop: bool,
    prefixes: Vec<&'a [u8]>,
}

fn options<'a>(ctx: &SessionCtx<'a>) -> Result<Options<'a>, Error> {
    let mut options = Options::default();
    let mut i = 3;
    while i < ctx.args.len() {
        let more = i + 1 < ctx.args.len();
        if ctx.is(i, "REDIRECT") && more {
            i += 1;
            if options.redirect != 0 {
                return Err(Error::new("ERR A client can only redirect to a single other client"));
            }
            let id = u64::try_from(ctx.int(i)?).ok().filter(|id| ctx.node.clients().contains_key(id));
            options.redirect = id.ok_or(Error::new("ERR The client ID you want redirect to does not exist"))?;
        } else if ctx.is(i, "PREFIX") && more {
            i += 1;
            options.prefixes.push(ctx.arg(i));
        } else if ctx.is(i, "BCAST") {
            options.broadcast = true;
        } else if ctx.is(i, "OPTIN") {
            options.opt_in = true;
        } else if ctx.is(i, "OPTOUT") {
            options.opt_out = true;
        } else if ctx.is(i, "NOLOOP") {
            options.no_loop = true;
        } else {
            return Err(Error::SYNTAX);
        }
        i += 1;
    }
    Ok(options)
}

/// Checks that the options fit together, and fit the present tracking of the session.
fn check(ctx: &SessionCtx<'_>, options: &Options<'_>) -> Result<(), Error> {
    if !options.broadcast && !options.prefixes.is_empty() {
        return Err(Error::new("ERR PREFIX option requires BCAST mode to be enabled"));
    }
    let present = ctx.session.tracking.as_deref();
    if present.is_some() && ctx.session.client.tracker.is(BROADCAST) != options.broadcast {
        return Err(Error::new(
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it \
             with a different mode.",
        ));
    }
    if options.broadcast && (options.opt_in || options.opt_out) {
        return Err(Error::new("ERR OPTIN and OPTOUT are not compatible with BCAST"));
    }
    if options.opt_in && options.opt_out {
        return Err(Error::new("ERR You can't specify both OPTIN mode and OPTOUT mode"));
    }
    let choice = present.map_or(Choice::All, |tracking| tracking.choice);
    if (options.opt_in && choice == Choice::OptOut) || (options.opt_out && choice == Choice::OptIn) {
        return Err(Error::new(
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it \
             with a different mode.",
        ));
    }
    let overlap = |a: &[u8], b: &[u8]| a.starts_with(b) || b.starts_with(a);
    for (i, &prefix) in options.prefixes.iter().enumerate() {
        let old = present.and_then(|tracking| tracking.prefixes.iter().find(|old| overlap(old, prefix)));
        let own = options.prefixes.iter().skip(i + 1).find(|other| overlap(other, prefix));
        let (which, other): (&str, &[u8]) = match (old, own) {
            (Some(old), _) => ("an existing", old),
            (None, Some(own)) => ("another provided", own),
            (None, None) => continue,
        };
        let text = [b"ERR Prefix '", prefix, b"' overlaps with ", which.as_bytes(), b" prefix '", other];
        return Err(Error::text([&text.concat()[..], b"'. Prefixes for a single client must not overlap."].concat()));
    }
    Ok(())
}

fn turn_on(ctx: &mut SessionCtx<'_>, options: &Options<'_>) {
    let (node, session) = (ctx.node, &mut *ctx.session);
    session.tracks_anew = true;
    let client = session.client.clone();
    let tracking = session.tracking.get_or_insert_default();
    tracking.choice = match (options.opt_in, options.opt_out) {
        (true, _) => Choice::OptIn,
        (_, true) => Choice::OptOut,
        _ => Choice::All,
    };
    let broadcast = if options.broadcast { BROADCAST } else { 0 };
    let no_loop = if options.no_loop { NO_LOOP } else { 0 };
    if options.broadcast && !client.tracker.is(BROADCAST) {
        node.engine.tracking.begin_broadcast();
    }
    client.tracker.set(ON | broadcast | no_loop, options.redirect);
    node.trackers.add(&client);
    let all: &[&[u8]] = &[b""];
    let prefixes = match (options.broadcast, options.prefixes.is_empty()) {
        (true, true) => all,
        _ => &options.prefixes,
    };
    for &prefix in prefixes {
        node.trackers.add_prefix(prefix, &client);
        if tracking.prefixes.insert(prefix.into()) {
            client.tracker.prefix_bytes.fetch_add(PREFIX + prefix.len() as u64, Relaxed);
        }
    }
}

pub(super) fn tracking(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let options = options(ctx)?;
    if ctx.is(2, "ON") {
        if !ctx.forwarded {
            // The node of a forwarded client has checked its options.
            check(ctx, &options)?;
        }
        turn_on(ctx, &options);
    } else if ctx.is(2, "OFF") {
        ctx.session.stop_tracking(ctx.node);
    } else {
        return Err(Error::SYNTAX);
    }
    ctx.reply().ok();
    Ok(Flow::Done)
}

pub(super) fn caching(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let (yes, no) = (ctx.is(2, "YES"), ctx.is(2, "NO"));
    let Some(tracking) = &mut ctx.session.tracking else {
        return Err(Error::new(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
        ));
    };
    match tracking.choice {
        _ if !yes && !no => return Err(Error::SYNTAX),
        Choice::OptIn if yes => tracking.caching = true,
        Choice::OptOut if no => tracking.caching = true,
        _ if yes => {
            return Err(Error::new("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."));
        }
        _ => return Err(Error::new("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")),
    }
    ctx.reply().ok();
    Ok(Flow::Done)
}

/// The id of the client that hears invalidations in place of this one; 0: itself, -1: it does not track.
fn redirect(session: &Session) -> i64 {
    if session.tracking.is_some() { session.client.tracker.redirect.load(Relaxed) as i64 } else { -1 }
}

pub(super) fn getredir(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let redirect = redirect(ctx.session);
    ctx.reply().integer(redirect);
    Ok(Flow::Done)
}

pub(super) fn trackinginfo(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let session = &*ctx.session;
    let tracking = session.tracking.as_deref();
    let tracker = &session.client.tracker;
    let choice = tracking.map_or(Choice::All, |tracking| tracking.choice);
    let caching = tracking.is_some_and(|tracking| tracking.caching);
    let flags = [
        (tracking.is_some(), "on"),
        (tracking.is_none(), "off"),
        (tracker.is(BROADCAST), "bcast"),
        (choice == Choice::OptIn, "optin"),
        (choice == Choice::OptIn && caching, "caching-yes"),
        (choice == Choice::OptOut, "optout"),
        (choice == Choice::OptOut && caching, "caching-no"),
        (tracker.is(NO_LOOP), "noloop"),
        (tracker.is(BROKEN), "broken_redirect"),
    ];
    let flags: Vec<&str> = flags.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect();
    let prefixes: Vec<_> = tracking.iter().flat_map(|tracking| tracking.prefixes.iter().cloned()).collect();
    let redirect = redirect(session);
    let mut reply = ctx.reply();
    reply.map(3);
    reply.bulk("flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag));
    reply.bulk("redirect");
    reply.integer(redirect);
    reply.bulk("prefixes");
    reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| reply.bulk(prefix));
    Ok(Flow::Done)
}
