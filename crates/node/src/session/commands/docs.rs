//! COMMAND DOCS: the documentation of a command.

use command::Error;
use resp::Reply;

use super::syntax::{Argument, Shape, parse};
use crate::session::{Flow, SessionCtx};
use crate::table::{Command, Table};

pub fn docs(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let node = ctx.node.clone();
    let chosen: Vec<&Command> = if ctx.args.len() == 2 {
        node.table.top_level().collect()
    } else {
        ctx.args.iter().skip(2).filter_map(|name| node.table.find(name)).collect()
    };
    let mut reply = ctx.reply();
    reply.map(chosen.len());
    for command in chosen {
        reply.bulk(&command.name);
        write(&mut reply, &node.table, command);
    }
    Ok(Flow::Done)
}

fn write(reply: &mut Reply<'_>, table: &Table, command: &Command) {
    let spec = command.spec;
    let arguments = parse(spec.syntax);
    let subcommands = command.shown_subcommands();
    reply.map(4 + usize::from(!arguments.is_empty()) + usize::from(!subcommands.is_empty()));
    for (name, text) in
        [("summary", spec.summary), ("since", spec.since), ("group", spec.group), ("complexity", spec.complexity)]
    {
        reply.bulk(name);
        reply.bulk(text);
    }
    if !arguments.is_empty() {
        reply.bulk("arguments");
        let mut keys = 0..spec.keys.len();
        self::arguments(reply, &arguments, &mut keys);
    }
    if !subcommands.is_empty() {
        reply.bulk("subcommands");
        reply.map(subcommands.len());
        for &id in subcommands {
            let sub = table.get(id);
            reply.bulk(&sub.name);
            write(reply, table, sub);
        }
    }
}

/// Writes arguments as a list of maps. `keys` counts the key specifications that arguments are matched to, in order.
fn arguments(reply: &mut Reply<'_>, list: &[Argument], keys: &mut std::ops::Range<usize>) {
    reply.array(list.len());
    for argument in list {
        let key_spec = if argument.is_key() { keys.next() } else { None };
        let (kind, children) = match &argument.shape {
            Shape::Value(kind) => (*kind, None),
            Shape::OneOf(children) => ("oneof", Some(children)),
            Shape::Block(children) => ("block", Some(children)),
        };
        let flags = argument.flags();
        let optional =
            [argument.token.is_some(), key_spec.is_some(), !flags.is_empty()].iter().filter(|on| **on).count();
        reply.map(3 + optional);
        reply.bulk("name");
        reply.bulk(&argument.name);
        reply.bulk("type");
        reply.bulk(kind);
        if children.is_none() {
            reply.bulk("display_text");
            reply.bulk(&argument.name);
        }
        if let Some(index) = key_spec {
            reply.bulk("key_spec_index");
            reply.count(index as u64);
        }
        if let Some(token) = &argument.token {
            reply.bulk("token");
            reply.bulk(token);
        }
        if !flags.is_empty() {
            reply.bulk("flags");
            reply.set(flags.len());
            flags.iter().for_each(|flag| reply.simple(flag));
        }
        if let Some(children) = children {
            reply.bulk("arguments");
            arguments(reply, children, keys);
        }
    }
}
