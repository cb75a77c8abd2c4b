//! CLUSTER SLOT-STATS: the work for each slot of this node.

use std::cmp::Reverse;

use ::membership::{SLOTS, Slot};
use command::{Error, Row, Spec, flags::*};
use engine::Busy;

use crate::session::{Flow, SessionCtx, SessionRun, wrong_arguments};

/// Its row.
pub(super) const ROW: Row<SessionRun> = Row {
    spec: Spec {
        name: "slot-stats",
        arity: -4,
        flags: STALE | LOADING | NEEDS_CLUSTER,
        group: "cluster",
        since: "8.2.0",
        complexity: "O(N) where N is the total number of slots based on arguments. O(N*log(N)) with ORDERBY subcommand.",
        syntax: "<SLOTSRANGE start-slot end-slot | ORDERBY metric [LIMIT limit] [ASC | DESC]>",
        summary: "Return an array of slot usage statistics for slots assigned to the current node.",
        tips: &["nondeterministic_output", "request_policy:all_shards"],
        ..Spec::NEW
    },
    run: slot_stats,
    subcommands: &[],
};

/// An order of slots.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Metric {
    Keys,
    Cpu,
    BytesIn,
    BytesOut,
}

/// The figures of a slot.
#[derive(Clone, Copy)]
struct Figures {
    slot: u16,
    keys: u64,
    micros: u64,
    bytes_in: u64,
    bytes_out: u64,
}

/// The slot that an argument names.
pub(crate) fn slot_of_argument(argument: &[u8]) -> Result<Slot, Error> {
    let number = keyspace::canonical_int(argument).and_then(|number| u16::try_from(number).ok());
    number.and_then(Slot::new).ok_or(Error::new("ERR Invalid or out of range slot"))
}

fn slot_stats(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    match () {
        () if ctx.args.len() == 5 && ctx.is(2, "slotsrange") => range(ctx),
        () if ctx.is(2, "orderby") => ordered(ctx),
        () => Err(wrong_arguments("CLUSTER", ctx.arg(1))),
    }
}

fn range(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let (from, to) = (slot_of_argument(ctx.arg(3))?, slot_of_argument(ctx.arg(4))?);
    if from > to {
        return Err(Error::text(format!("ERR Start slot number {from} is greater than end slot number {to}")));
    }
    match figures(ctx, from, to) {
        Ok(figures) => write(ctx, &figures),
        Err(busy) => return Ok(Flow::Busy(busy)),
    }
    Ok(Flow::Done)
}

fn ordered(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let kept = ctx.settings.cluster_slot_stats_enabled;
    let metric = match () {
        () if ctx.is(3, "key-count") => Metric::Keys,
        () if ctx.is(3, "cpu-usec") && kept.cpu => Metric::Cpu,
        () if ctx.is(3, "network-bytes-in") && kept.net => Metric::BytesIn,
        () if ctx.is(3, "network-bytes-out") && kept.net => Metric::BytesOut,
        () => return Err(Error::new("ERR Unrecognized sort metric for ORDERBY.")),
    };
    let (mut limit, mut ascending) = (None, None);
    let mut i = 4;
    while i < ctx.args.len() {
        let repeated = match () {
            () if ctx.is(i, "limit") && i + 1 < ctx.args.len() => {
                i += 1;
                let error = Error::new("ERR Limit has to lie in between 1 and 16384 (maximum number of slots).");
                let wanted = ctx.int(i).ok().and_then(|wanted| usize::try_from(wanted).ok());
                limit.replace(wanted.filter(|wanted| (1..=SLOTS).contains(wanted)).ok_or(error)?).is_some()
            }
            () if ctx.is(i, "asc") => ascending.replace(true).is_some(),
            () if ctx.is(i, "desc") => ascending.replace(false).is_some(),
            () => return Err(Error::SYNTAX),
        };
        if repeated {
            return Err(Error::new("ERR Multiple filters of the same type are disallowed."));
        }
        i += 1;
    }
    let mut figures = match figures(ctx, Slot::FIRST, Slot::LAST) {
        Ok(figures) => figures,
        Err(busy) => return Ok(Flow::Busy(busy)),
    };
    let of = |figures: &Figures| match metric {
        Metric::Keys => figures.keys,
        Metric::Cpu => figures.micros,
        Metric::BytesIn => figures.bytes_in,
        Metric::BytesOut => figures.bytes_out,
    };
    match ascending {
        Some(true) => figures.sort_by_key(|figures| (of(figures), figures.slot)),
        _ => figures.sort_by_key(|figures| (Reverse(of(figures)), figures.slot)),
    }
    figures.truncate(limit.unwrap_or(SLOTS));
    write(ctx, &figures);
    Ok(Flow::Done)
}

/// The figures of this node's slots in a range.
fn figures(ctx: &mut SessionCtx<'_>, from: Slot, to: Slot) -> Result<Vec<Figures>, Busy> {
    let block = ctx.block.as_deref().map(|block| &block.run);
    let own = Slot::all().filter(|slot| (from..=to).contains(slot) && ctx.peers.has(*slot)).map(Slot::get);
    own.map(|slot| {
        let (micros, bytes_in, bytes_out) = ctx.node.slot_figures.of(slot);
        Ok(Figures { slot, keys: ctx.engine.keys_in_slot(slot, block)?, micros, bytes_in, bytes_out })
    })
    .collect()
}

fn write(ctx: &mut SessionCtx<'_>, figures: &[Figures]) {
    let kept = ctx.settings.cluster_slot_stats_enabled;
    let mut reply = ctx.reply();
    reply.array(figures.len());
    for of in figures {
        reply.array(2);
        reply.count(of.slot.into());
        reply.map(1 + usize::from(kept.cpu) + 2 * usize::from(kept.net));
        let mut field = |is: bool, name: &str, value: u64| {
            if is {
                reply.bulk(name);
                reply.count(value);
            }
        };
        field(true, "key-count", of.keys);
        field(kept.cpu, "cpu-usec", of.micros);
        field(kept.net, "network-bytes-in", of.bytes_in);
        field(kept.net, "network-bytes-out", of.bytes_out);
    }
}
