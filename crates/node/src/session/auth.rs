//! The identity of a client: AUTH, HELLO, RESET.

use std::sync::atomic::Ordering::Relaxed;

use ::acl::{Context, Event, Reason, UserNumber};
use clocks::UnixMs;
use command::{Difference, Error, Row, Spec, flags::*};
use resp::Protocol;

use super::client::{check_name, set_name};
use super::{Flow, Replies, Session, SessionCtx, SessionRun};
use crate::REDIS_VERSION;
use crate::admission::rights::{self, User};
use crate::cluster::copied::own_primary;
use crate::figures::stats::add;
use crate::node::{Node, VALKEY_VERSION};
use crate::users::Login;

/// The rows of the family.
pub const ROWS: &[Row<SessionRun>] = &[
    Row {
        spec: Spec {
            name: "auth",
            arity: -2,
            flags: NOSCRIPT | LOADING | STALE | FAST | NO_AUTH | ALLOW_BUSY,
            group: "connection",
            complexity: "O(N) where N is the number of passwords defined for the user",
            summary: "Authenticates the connection.",
            syntax: "[username] password",
            ..Spec::NEW
        },
        run: auth,
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "hello",
            arity: -1,
            flags: NOSCRIPT | LOADING | STALE | FAST | NO_AUTH | ALLOW_BUSY,
            group: "connection",
            since: "6.0.0",
            summary: "Handshakes with the server.",
            syntax: "[protover [AUTH username password] [SETNAME clientname]]",
            ..Spec::NEW
        },
        run: hello,
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "reset",
            arity: 1,
            flags: NOSCRIPT | LOADING | STALE | FAST | NO_AUTH | ALLOW_BUSY | IN_MULTI,
            group: "connection",
            since: "6.2.0",
            summary: "Resets the connection.",
            ..Spec::NEW
        },
        run: reset,
        subcommands: &[],
    },
];

/// The error of a node that waits for the users of its cluster.
const NO_USERS_YET: &str = "CLUSTERDOWN this node has not heard of the cluster's users yet";

const WRONG_PASSWORD: Error = Error::new("WRONGPASS invalid username-password pair or user is disabled.");

/// Lets the client in if user and password are right.
fn log_in(ctx: &mut SessionCtx<'_>, user: &[u8], password: &[u8]) -> Result<(), Error> {
    if user != b"default" && ctx.node.users.awaits_cluster() {
        return Err(Error::new(NO_USERS_YET));
    }
    let Some(login) = ctx.node.users.log_in(ctx.settings.requirepass.as_ref(), user, password) else {
        add(&ctx.stats.denied, 1);
        let context = if ctx.session.multi.is_some() { Context::Multi } else { Context::TopLevel };
        let (object, user) = (ctx.arg(0).to_vec(), user.to_vec());
        super::acl::note(ctx, |client| Some(Event { reason: Reason::Auth, context, object, user, client }));
        // Without a lease it may have been away when users changed.
        return Err(ctx.peers.doubt().map_or(WRONG_PASSWORD, Error::text));
    };
    ctx.session.log_in(login);
    Ok(())
}

/// Lets a client in whose certificate has this common name, if the settings say so (`tls-auth-clients-user`). A name of
/// no user, or of one that is off, is noted in ACL LOG. Then the client stays the default user.
///
/// A node that has not heard of its cluster's users cannot tell: until it has, the client is nobody.
pub fn identify(node: &Node, session: &mut Session, name: &[u8], now: UnixMs) {
    let settings = node.config.settings();
    if !settings.tls_auth_clients_user {
        return;
    }
    if node.users.awaits_cluster() {
        session.authenticated = false;
        session.certificate = Some(name.into());
        return;
    }
    if let Some(login) = node.users.named_by_certificate(settings.requirepass.as_ref(), name) {
        return session.log_in(login);
    }
    let client = super::line_at(node, &session.client, now);
    let (reason, context) = (Reason::Certificate, Context::TopLevel);
    let event = Event { reason, context, object: Vec::new(), user: name.to_vec(), client };
    node.users.log().add(now.0 as i64, settings.acllog_max_len, event);
}

/// Lets a client in that had to wait for the cluster's users, if it may now.
///
/// # Errors
/// The reason why it is still a stranger.
#[cold]
pub(crate) fn identify_late(node: &Node, session: &mut Session, now: UnixMs) -> Result<(), &'static [u8]> {
    if let Some(name) = session.certificate.take() {
        session.authenticated = node.users.lets_in(node.config.settings().requirepass.as_ref());
        identify(node, session, &name, now);
    }
    match session.certificate {
        Some(_) => Err(NO_USERS_YET.as_bytes()),
        None if session.authenticated => Ok(()),
        None => Err(rights::NOAUTH),
    }
}

impl Session {
    fn log_in(&mut self, login: Login) {
        self.authenticated = true;
        self.certificate = None;
        self.user = login.user;
        self.client.texts().user = login.name;
    }
}

fn auth(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    match ctx.args.len() {
        2 => {
            ctx.node.users.keep_up(ctx.settings.requirepass.as_ref());
            let default = ctx.node.users.read(|users| users.get(UserNumber::DEFAULT).cloned());
            if default.is_some_and(|user| user.needs_no_password()) {
                return Err(Error::new(
                    "ERR AUTH <password> called without any password configured for the default user. Are you sure \
                     your configuration is correct?",
                ));
            }
            log_in(ctx, b"default", ctx.arg(1))?;
        }
        3 => log_in(ctx, ctx.arg(1), ctx.arg(2))?,
        _ => return Err(Error::SYNTAX),
    }
    ctx.reply().ok();
    Ok(Flow::Done)
}

fn hello(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let protocol = match ctx.args.get(1).map(keyspace::canonical_int) {
        None => None,
        Some(Some(2)) => Some(Protocol::Resp2),
        Some(Some(3)) => Some(Protocol::Resp3),
        Some(Some(_)) => return Err(Error::new("NOPROTO unsupported protocol version")),
        Some(None) => return Err(Error::new("ERR Protocol version is not an integer or out of range")),
    };
    let mut login = None;
    let mut name = None;
    let mut i = 2;
    while i < ctx.args.len() {
        if ctx.is(i, "AUTH") && i + 2 < ctx.args.len() {
            login = Some((ctx.arg(i + 1), ctx.arg(i + 2)));
            i += 3;
        } else if ctx.is(i, "SETNAME") && i + 1 < ctx.args.len() {
            name = Some(check_name(ctx.arg(i + 1))?);
            i += 2;
        } else {
            return Err(Error::text([b"ERR Syntax error in HELLO option '", ctx.arg(i), b"'"].concat()));
        }
    }
    if let Some((user, password)) = login {
        log_in(ctx, user, password)?;
    }
    match identify_late(ctx.node, ctx.session, ctx.engine.now()) {
        Ok(()) => {}
        Err(why) if ctx.session.certificate.is_some() => return Err(Error::text(why)),
        Err(_) => {
            return Err(Error::new(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
                 <user> <pass> option can be used to authenticate the client and select the RESP protocol version at \
                 the same time",
            ));
        }
    }
    if let Some(name) = name {
        set_name(&ctx.session.client, name);
    }
    if let Some(protocol) = protocol {
        ctx.session.set_protocol(protocol);
    }
    let mode = if ctx.node.cluster().is_some() { "cluster" } else { "standalone" };
    let (server, version) = match ctx.settings.compatibility.is_valkey(Difference::ServerName) {
        true => ("valkey", VALKEY_VERSION),
        false => ("redis", REDIS_VERSION),
    };
    let (number, id) = (ctx.session.protocol.number(), ctx.session.client.id);
    let role = if own_primary(ctx.node).is_some() { "replica" } else { "master" };
    let mut reply = ctx.reply();
    reply.map(7);
    reply.bulk("server");
    reply.bulk(server);
    reply.bulk("version");
    reply.bulk(version);
    reply.bulk("proto");
    reply.integer(number);
    reply.bulk("id");
    reply.count(id);
    reply.bulk("mode");
    reply.bulk(mode);
    reply.bulk("role");
    reply.bulk(role);
    reply.bulk("modules");
    reply.array(0);
    Ok(Flow::Done)
}

/// Puts the connection into the state of a new one, except for its identity and its library's name.
fn reset(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    ctx.session.transaction = None;
    ctx.leave_multi();
    super::monitor::stop(ctx.node, ctx.session);
    super::stop_subscriptions(ctx.node, ctx.session);
    ctx.session.stop_tracking(ctx.node);
    let session = &mut *ctx.session;
    session.set_protocol(Protocol::Resp2);
    session.set_db(0);
    session.certificate = None;
    session.authenticated = ctx.node.users.lets_in(ctx.settings.requirepass.as_ref());
    session.user = User::DEFAULT;
    session.replies = Replies::On;
    session.redirect = None;
    session.reads_copies = false;
    session.exporter = None;
    session.client.no_evict.store(false, Relaxed);
    session.no_touch = false;
    session.client.no_touch.store(false, Relaxed);
    let mut texts = session.client.texts();
    texts.name.clear();
    texts.user = b"default".to_vec();
    drop(texts);
    ctx.reply().simple("RESET");
    Ok(Flow::Done)
}
