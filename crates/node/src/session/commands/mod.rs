//! COMMAND: the rows, for clients and tools.

mod docs;
mod info;
mod keys;
mod syntax;

use command::{Error, Row, Spec, flags::*};

use super::{Flow, SessionCtx, SessionRun, help};
use crate::table::Command;

const PLAIN: u32 = LOADING | STALE;
const PER_COMMAND: &str = "O(N) where N is the number of commands to look up";

const fn sub(
    name: &'static str,
    arity: i32,
    since: &'static str,
    complexity: &'static str,
    syntax: &'static str,
    summary: &'static str,
    run: SessionRun,
) -> Row<SessionRun> {
    let spec = Spec {
        name,
        arity,
        flags: PLAIN,
        group: "server",
        categories: &["connection"],
        since,
        complexity,
        summary,
        syntax,
        ..Spec::NEW
    };
    Row { spec, run, subcommands: &[] }
}

const fn any_order(mut row: Row<SessionRun>) -> Row<SessionRun> {
    row.spec.tips = &["nondeterministic_output_order"];
    row
}

/// The rows of the family.
pub const ROWS: &[Row<SessionRun>] = &[Row {
    spec: Spec {
        name: "command",
        arity: -1,
        flags: PLAIN,
        group: "server",
        categories: &["connection"],
        since: "2.8.13",
        complexity: "O(N) where N is the total number of commands",
        summary: "Returns detailed information about all commands.",
        tips: &["nondeterministic_output_order"],
        ..Spec::NEW
    },
    run: all,
    subcommands: &[
        sub("count", 2, "2.8.13", "O(1)", "", "Returns a count of commands.", count),
        any_order(sub(
            "docs",
            -2,
            "7.0.0",
            PER_COMMAND,
            "[command-name [command-name ...]]",
            "Returns documentary information about one, multiple or all commands.",
            docs::docs,
        )),
        sub(
            "getkeys",
            -3,
            "2.8.13",
            "O(N) where N is the number of arguments to the command",
            "command [arg [arg ...]]",
            "Extracts the key names from an arbitrary command.",
            keys::getkeys,
        ),
        sub(
            "getkeysandflags",
            -3,
            "7.0.0",
            "O(N) where N is the number of arguments to the command",
            "command [arg [arg ...]]",
            "Extracts the key names and access flags for an arbitrary command.",
            keys::getkeysandflags,
        ),
        sub("help", 2, "5.0.0", "O(1)", "", "Returns helpful text about the different subcommands.", help),
        any_order(sub(
            "info",
            -2,
            "2.8.13",
            PER_COMMAND,
            "[command-name [command-name ...]]",
            "Returns information about one, multiple or all commands.",
            some,
        )),
        any_order(sub(
            "list",
            -2,
            "7.0.0",
            "O(N) where N is the total number of commands",
            "[FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]",
            "Returns a list of command names.",
            list,
        )),
    ],
}];

fn all(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let node = ctx.node.clone();
    let mut reply = ctx.reply();
    reply.array(node.table.top_level().count());
    for command in node.table.top_level() {
        info::write(&mut reply, &node.table, command);
    }
    Ok(Flow::Done)
}

fn some(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    if ctx.args.len() == 2 {
        return all(ctx);
    }
    let node = ctx.node.clone();
    let args = ctx.args;
    let mut reply = ctx.reply();
    reply.array(args.len() - 2);
    for name in args.iter().skip(2) {
        match node.table.find(name) {
            Some(command) => info::write(&mut reply, &node.table, command),
            None => reply.null(),
        }
    }
    Ok(Flow::Done)
}

fn count(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let count = ctx.node.table.top_level().count();
    ctx.reply().count(count as u64);
    Ok(Flow::Done)
}

fn list(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let admits: Box<dyn Fn(&Command) -> bool> = if ctx.args.len() == 2 {
        Box::new(|_| true)
    } else {
        if ctx.args.len() != 5 || !ctx.is(2, "FILTERBY") {
            return Err(Error::SYNTAX);
        }
        let value = ctx.arg(4).to_vec();
        if ctx.is(3, "MODULE") {
            // Everything is built in.
            Box::new(|_| false)
        } else if ctx.is(3, "ACLCAT") {
            Box::new(move |command| {
                command.categories().iter().any(|category| value.eq_ignore_ascii_case(category.as_bytes()))
            })
        } else if ctx.is(3, "PATTERN") {
            Box::new(move |command| object::glob::matches_nocase(&value, command.name.as_bytes()))
        } else {
            return Err(Error::SYNTAX);
        }
    };
    let node = ctx.node.clone();
    let names: Vec<&str> =
        node.table.all().iter().filter(|c| !c.is_hidden() && admits(c)).map(|c| c.name.as_str()).collect();
    let mut reply = ctx.reply();
    reply.array(names.len());
    names.into_iter().for_each(|name| reply.bulk(name));
    Ok(Flow::Done)
}
