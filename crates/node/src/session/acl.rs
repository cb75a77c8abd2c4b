//! ACL: users and their rights.

use std::sync::Arc;

use ::acl::{Change, DryRun, Event, Refused, RuleBook, User, Users};
use command::{Error, Row, Spec, flags::*};

use super::{Flow, SessionCtx, SessionRun};
use crate::cluster::change_users;
use crate::users;
use crate::worker::jobs::{Done, Job};

const OPEN: u32 = NOSCRIPT | LOADING | STALE;
const ADMINS: u32 = ADMIN | OPEN;
const O_USERS: &str = "O(N). Where N is the number of configured users.";
const EVERYWHERE: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

const fn sub(
    name: &'static str,
    arity: i32,
    flags: u32,
    (syntax, complexity): (&'static str, &'static str),
    summary: &'static str,
    run: SessionRun,
) -> Row<SessionRun> {
    let spec = Spec { name, arity, flags, group: "server", since: "6.0.0", syntax, complexity, summary, ..Spec::NEW };
    Row { spec, run, subcommands: &[] }
}

const fn everywhere(mut row: Row<SessionRun>) -> Row<SessionRun> {
    row.spec.tips = EVERYWHERE;
    row
}

const fn since_7(mut row: Row<SessionRun>) -> Row<SessionRun> {
    row.spec.since = "7.0.0";
    row
}

/// The rows of the family.
pub const ROWS: &[Row<SessionRun>] = &[Row {
    spec: Spec {
        name: "acl",
        arity: -2,
        group: "server",
        since: "6.0.0",
        complexity: "Depends on subcommand.",
        summary: "A container for Access List Control commands.",
        ..Spec::NEW
    },
    run: super::container,
    subcommands: &[
        sub(
            "cat",
            -2,
            OPEN,
            ("[category]", "O(1) since the categories and commands are a fixed set."),
            "Lists the ACL categories, or the commands inside a category.",
            cat,
        ),
        everywhere(sub(
            "deluser",
            -3,
            ADMINS,
            ("username [username ...]", "O(1) amortized time considering the typical user."),
            "Deletes ACL users, and terminates their connections.",
            deluser,
        )),
        since_7(sub(
            "dryrun",
            -4,
            ADMINS,
            ("username command [arg [arg ...]]", "O(1)."),
            "Simulates the execution of a command by a user, without executing the command.",
            dryrun,
        )),
        sub(
            "genpass",
            -2,
            OPEN,
            ("[bits]", "O(1)"),
            "Generates a pseudorandom, secure password that can be used to identify ACL users.",
            genpass,
        ),
        sub(
            "getuser",
            3,
            ADMINS,
            ("username", "O(N). Where N is the number of password, command and pattern rules that the user has."),
            "Lists the ACL rules of a user.",
            getuser,
        ),
        sub("help", 2, LOADING | STALE, ("", "O(1)"), "Returns helpful text about the different subcommands.", help),
        sub("list", 2, ADMINS, ("", O_USERS), "Dumps the effective rules in ACL file format.", list),
        sub("load", 2, ADMINS, ("", O_USERS), "Reloads the rules from the configured ACL file.", load),
        sub(
            "log",
            -2,
            ADMINS,
            ("[count | RESET]", "O(N) with N being the number of entries shown."),
            "Lists recent security events generated due to ACL rules.",
            log,
        ),
        everywhere(sub(
            "save",
            2,
            ADMINS,
            ("", O_USERS),
            "Saves the effective ACL rules in the configured ACL file.",
            save,
        )),
        everywhere(sub(
            "setuser",
            -3,
            ADMINS,
            ("username [rule [rule ...]]", "O(N). Where N is the number of rules provided."),
            "Creates and modifies an ACL user and its rules.",
            setuser,
        )),
        sub("users", 2, ADMINS, ("", O_USERS), "Lists all ACL users.", names),
        sub("whoami", 2, OPEN, ("", "O(1)"), "Returns the authenticated username of the current connection.", whoami),
    ],
}];

fn too_many(subcommand: &[u8]) -> Error {
    Error::text(
        [b"ERR unknown subcommand or wrong number of arguments for '", subcommand, b"'. Try ACL HELP."].concat(),
    )
}

fn refused(refused: Refused) -> Error {
    Error::text(refused.reply())
}

fn cat(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let node = ctx.node.clone();
    match ctx.args.len() {
        2 => ::acl::write_categories(&mut ctx.reply()),
        3 => {
            let name = ctx.arg(2);
            if !::acl::write_category(&mut ctx.reply(), node.users.catalogue(), name) {
                return Err(Error::text(::acl::unknown_category(name)));
            }
        }
        _ => return Err(too_many(ctx.arg(1))),
    }
    Ok(Flow::Done)
}

/// Asks the cluster for a change of its users.
fn change_cluster(
    ctx: &SessionCtx<'_>,
    change: impl Fn(&mut Users, RuleBook<'_>) -> Result<Done, Error> + Send + 'static,
) -> Result<Flow, Error> {
    if ctx.block.is_some() {
        return Err(Error::new("ERR the users of a cluster cannot be changed in a block"));
    }
    let job = Job::elsewhere();
    change_users(ctx.node, Box::new(change), &job, ctx.session.client.id)?;
    Ok(Flow::Job(job))
}

/// Users follow `requirepass` before anything shows, keeps or replaces them.
fn keep_up(ctx: &SessionCtx<'_>) {
    ctx.node.users.keep_up(ctx.settings.requirepass.as_ref());
}

fn setuser(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let rules: Vec<&[u8]> = ctx.args.iter().skip(3).collect();
    let name = ctx.arg(2);
    if ctx.node.cluster().is_some() {
        let (name, rules) = (name.to_vec(), rules.into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>());
        return change_cluster(ctx, move |users, book| {
            users.set(book, &name, &rules).map(|_| Done::Ok).map_err(refused)
        });
    }
    let table = &ctx.node.users;
    keep_up(ctx);
    let change =
        table.change(ctx.settings.acl_pubsub_default, |users, book| users.set(book, name, &rules)).map_err(refused)?;
    follow(ctx, &[change]);
    ctx.reply().ok();
    Ok(Flow::Done)
}

/// Ends the clients of users that are gone, and those that are subscribed to something that their user has lost.
/// True if this client is one of a user that is gone.
fn follow(ctx: &mut SessionCtx<'_>, changes: &[Change]) -> bool {
    users::follow(ctx.node, changes);
    let gone: Vec<&Arc<User>> =
        changes.iter().filter(|change| change.after.is_none()).filter_map(|change| change.before.as_ref()).collect();
    if gone.is_empty() {
        return false;
    }
    let is_gone = |client: &crate::Client| gone.iter().any(|user| user.name() == &client.texts().user[..]);
    super::client::end_clients(ctx, is_gone).1
}

fn deluser(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    keep_up(ctx);
    let names: Vec<&[u8]> = ctx.args.iter().skip(2).collect();
    if ctx.node.cluster().is_some() {
        let names: Vec<Vec<u8>> = names.into_iter().map(<[u8]>::to_vec).collect();
        return change_cluster(ctx, move |users, _| {
            users.delete(&names).map(|gone| Done::Count(gone.len() as u64)).map_err(refused)
        });
    }
    let gone =
        ctx.node.users.change(ctx.settings.acl_pubsub_default, |users, _| users.delete(&names)).map_err(refused)?;
    let own = follow(ctx, &gone);
    ctx.reply().count(gone.len() as u64);
    Ok(if own { Flow::Close } else { Flow::Done })
}

fn getuser(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    keep_up(ctx);
    let user = ctx.node.users.read(|users| users.find(ctx.arg(2)).cloned());
    match user {
        Some(user) => user.write(&mut ctx.reply()),
        None => ctx.reply().null(),
    }
    Ok(Flow::Done)
}

fn list(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    keep_up(ctx);
    let node = ctx.node.clone();
    node.users.read(|users| users.write_lines(&mut ctx.reply()));
    Ok(Flow::Done)
}

fn names(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let node = ctx.node.clone();
    node.users.read(|users| users.write_names(&mut ctx.reply()));
    Ok(Flow::Done)
}

fn whoami(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let user = ctx.session.client.texts().user.clone();
    ctx.reply().bulk(user);
    Ok(Flow::Done)
}

fn check_file(ctx: &SessionCtx<'_>) -> Result<(), Error> {
    if ctx.settings.aclfile.is_empty() { Err(Error::new(::acl::NO_ACL_FILE)) } else { Ok(()) }
}

fn load(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    keep_up(ctx);
    check_file(ctx)?;
    let failed = |why: Vec<u8>| Error::text([b"ERR ", &why[..]].concat());
    if ctx.node.cluster().is_some() {
        let (name, text) = users::read_file(ctx.settings).map_err(failed)?;
        return change_cluster(ctx, move |users, book| match users.load(book, &name, &text) {
            Ok(loaded) => {
                users::warn_of(&loaded.without_effect);
                Ok(Done::Ok)
            }
            Err(error) => Err(Error::text(error.reply())),
        });
    }
    let changes = users::load(&ctx.node.users, ctx.settings).map_err(failed)?;
    let own = follow(ctx, &changes);
    ctx.reply().ok();
    Ok(if own { Flow::Close } else { Flow::Done })
}

fn save(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    keep_up(ctx);
    check_file(ctx)?;
    if let Err(error) = users::save(&ctx.node.users, ctx.settings) {
        tracing::warn!("the users could not be saved in the ACL file: {error}");
        return Err(Error::new(::acl::NOT_SAVED));
    }
    ctx.reply().ok();
    Ok(Flow::Done)
}

fn genpass(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    if ctx.args.len() > 3 {
        return Err(too_many(ctx.arg(1)));
    }
    let (random, mut is_random) = (ctx.node.facts.random, false);
    let bits = ctx.args.get(2).map(keyspace::canonical_int);
    let fill = |bytes: &mut [u8]| is_random = random.is_some_and(|random| random(bytes));
    let password = ::acl::genpass(bits, fill).map_err(|error| Error::new(error.reply()))?;
    if !is_random {
        return Err(Error::new("ERR this server has no source of random bytes"));
    }
    ctx.reply().bulk(password);
    Ok(Flow::Done)
}

fn log(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let count = match ctx.args.get(2) {
        _ if ctx.args.len() > 3 => return Err(too_many(ctx.arg(1))),
        None => 10,
        Some(_) if ctx.is(2, "RESET") => {
            ctx.node.users.log().reset();
            ctx.reply().ok();
            return Ok(Flow::Done);
        }
        Some(count) => keyspace::canonical_int(count).ok_or(Error::NOT_INTEGER)?,
    };
    let (node, now) = (ctx.node.clone(), ctx.engine.now().0 as i64);
    node.users.log().write(&mut ctx.reply(), usize::try_from(count).unwrap_or(0), now);
    Ok(Flow::Done)
}

fn dryrun(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let request: resp::OwnedArgs = ctx.args.iter().skip(3).collect();
    let args = request.args();
    let table = &ctx.node.table;
    let found = table.find_command(&args[0]).and_then(|command| {
        // DEBUG has no subcommands for rules.
        if command.shown_subcommands().is_empty() { Some(command) } else { table.with_word(command, args.get(1)) }
    });
    let absent = if found.is_none() { ctx.node.users.absent(args) } else { None };
    let outcome = ctx.node.users.read(|users| {
        let find = |keys: &mut ::acl::KeyUses| match (found, absent) {
            (Some(command), _) => users::find_keys(command, args, keys),
            (None, Some(id)) => ctx.node.users.keys_of_absent(id, args, keys),
            (None, None) => {}
        };
        let id = found.map(users::id_of).or(absent);
        ::acl::dry_run(users, ctx.node.users.catalogue(), ctx.arg(2), id, args, find)
    });
    match outcome {
        DryRun::Allowed => ctx.reply().ok(),
        DryRun::Denied(why) => ctx.reply().bulk(why),
        DryRun::Error(why) => return Err(Error::text(why)),
    }
    Ok(Flow::Done)
}

fn help(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    command::write_help(&mut ctx.reply(), "ACL", &::acl::HELP);
    Ok(Flow::Done)
}

/// Notes in ACL LOG what this client, or a script of it, was denied.
pub(crate) fn note(ctx: &SessionCtx<'_>, event: impl FnOnce(Vec<u8>) -> Option<Event>) {
    let Some(event) = event(super::client::own_line(ctx)) else { return };
    ctx.node.users.log().add(ctx.engine.now().0 as i64, ctx.settings.acllog_max_len, event);
}
