//! MEMORY: how the node uses memory. MEMORY USAGE is about a key and is a row of the data plane.

use command::{Error, Row, Spec, flags::*};
use keyspace::Counts;

use super::{Flow, SessionCtx, SessionRun, container, help};

const TIPS: &[&str] = &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"];
const SLOW: &str = "Depends on how much memory is allocated, could be slow";

const fn sub(
    name: &'static str,
    flags: u32,
    complexity: &'static str,
    summary: &'static str,
    tips: &'static [&'static str],
    run: SessionRun,
) -> Row<SessionRun> {
    let spec = Spec { name, arity: 2, flags, group: "server", since: "4.0.0", complexity, summary, tips, ..Spec::NEW };
    Row { spec, run, subcommands: &[] }
}

/// The rows of the family.
pub const ROWS: &[Row<SessionRun>] = &[Row {
    spec: Spec {
        name: "memory",
        arity: -2,
        group: "server",
        since: "4.0.0",
        complexity: "Depends on subcommand.",
        summary: "A container for memory diagnostics commands.",
        ..Spec::NEW
    },
    run: container,
    subcommands: &[
        sub("doctor", 0, "O(1)", "Outputs a memory problems report.", TIPS, doctor),
        sub("help", LOADING | STALE, "O(1)", "Returns helpful text about the different subcommands.", &[], help),
        sub("malloc-stats", 0, SLOW, "Returns the allocator statistics.", TIPS, malloc_stats),
        sub(
            "purge",
            0,
            SLOW,
            "Asks the allocator to release memory.",
            &["request_policy:all_shards", "response_policy:all_succeeded"],
            purge,
        ),
        sub("stats", 0, "O(1)", "Returns details about memory usage.", TIPS, stats),
    ],
}];

/// The figures of INFO memory and of these commands, in bytes.
struct Memory {
    used: u64,
    peak: u64,
    startup: u64,
    resident: u64,
    /// Entries and values.
    dataset: u64,
    /// Pages that the heap of entries holds, and the bytes of them in use.
    held: u64,
    live: u64,
}

impl Memory {
    fn of(ctx: &SessionCtx<'_>) -> Self {
        let used = ctx.node.used_memory();
        let heap = ctx.node.engine.keyspace.heap().stats();
        Memory {
            used,
            peak: ctx.node.peak_memory().max(used),
            startup: ctx.node.startup_memory(),
            resident: ctx.node.facts.resident.map_or(used, |resident| resident()),
            dataset: used.saturating_sub(ctx.node.memory_overhead()),
            held: heap.held.max(heap.live) as u64,
            live: heap.live as u64,
        }
    }
}

fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 1.0 } else { a as f64 / b as f64 }
}

/// With less than this a report is not worth it.
const EMPTY: u64 = 5 << 20;

fn doctor(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let memory = Memory::of(ctx);
    let mut text = String::new();
    let mut finding = |is: bool, what: &str| {
        if is {
            text.push_str(&format!("* {what}\n"));
        }
    };
    let shrunk = ratio(memory.peak, memory.used) > 1.5;
    finding(
        shrunk,
        "Peak memory: more than 150% of the memory in use now has been in use before. The process uses the memory that it keeps again before it takes more from the system.",
    );
    finding(
        ratio(memory.held, memory.live) > 1.1 && memory.held - memory.live > 10 << 20,
        "Fragmentation: more than 10% of the heap's pages are unused. They are filled again, or freed as entries move together.",
    );
    finding(
        !shrunk && ratio(memory.resident, memory.used) > 1.4,
        "Resident memory: the process holds more than 140% of the memory that it uses.",
    );
    let text = match () {
        () if memory.used < memory.startup + EMPTY => "There is too little data to say anything about.\n".into(),
        () if text.is_empty() => "No problems found.\n".into(),
        () => text,
    };
    ctx.reply().verbatim(*b"txt", text);
    Ok(Flow::Done)
}

/// The heap of keys, tables and small values, in bytes; other memory is in the global allocator, which keeps no
/// figures.
fn malloc_stats(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let heap = ctx.node.engine.keyspace.heap().stats();
    let (tables, free_in_tables) = ctx.node.engine.keyspace.table_memory();
    let rows = [
        ("asked for", heap.requested),
        ("in blocks in use", heap.live),
        ("in blocks of the sizes of tables", tables),
        ("outside pages", heap.large),
        ("held", heap.held),
        ("held in empty pages", heap.ready),
        ("in free blocks of pages in use", heap.free_in_pages),
        ("in free blocks of the sizes of tables", free_in_tables),
        ("given back or never used", heap.returned),
    ];
    let mut text = String::from("heap of keys, bytes\n");
    for (name, bytes) in rows {
        text.push_str(&format!("  {name}: {bytes}\n"));
    }
    text.push_str(&format!("pages full: {}\npages partly full: {}\n", heap.pages_full, heap.pages_partial));
    ctx.reply().verbatim(*b"txt", text);
    Ok(Flow::Done)
}

/// The allocator gives pages back by itself only when others ask it for pages.
fn purge(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    if let Some(give_back) = ctx.node.facts.give_back {
        give_back();
    }
    ctx.reply().ok();
    Ok(Flow::Done)
}

/// A figure of MEMORY STATS.
enum Figure {
    Count(u64),
    Difference(i64),
    Share(f64),
}

fn stats(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    use Figure::{Count, Difference, Share};
    /// Bytes per key of the tables, and of an expiry in its entry.
    const TABLE_BYTES: u64 = 11;
    const EXPIRY_BYTES: u64 = 8;

    let memory = Memory::of(ctx);
    let clients = ctx.node.client_memory();
    let (selected, databases) = (ctx.session.db, ctx.settings.databases);
    let shown: Vec<(u16, u64, u64)> = (0..databases)
        .map(|db| (db, ctx.counts(db)))
        .map(|(db, Counts { keys, expires, .. })| (db, keys as u64, expires as u64))
        .filter(|&(db, keys, _)| keys > 0 || db == selected)
        .collect();
    let keys: u64 = shown.iter().map(|&(_, keys, _)| keys).sum();
    let scripts = ctx.node.scripts.size().1 as u64;
    let functions = ctx.node.scripts.libraries().all().map(|library| library.code().len() as u64).sum();
    let grown = memory.used.saturating_sub(memory.startup);
    let signed = |a: u64, b: u64| Difference(a as i64 - b as i64);
    let before = [
        ("peak.allocated", Count(memory.peak)),
        ("total.allocated", Count(memory.used)),
        ("startup.allocated", Count(memory.startup)),
        ("replication.backlog", Count(0)),
        ("clients.slaves", Count(0)),
        ("clients.normal", Count(clients)),
        ("cluster.links", Count(0)),
        ("aof.buffer", Count(0)),
        ("lua.caches", Count(scripts)),
        ("functions.caches", Count(functions)),
    ];
    let after = [
        ("overhead.db.hashtable.lut", Count(0)),
        ("overhead.db.hashtable.rehashing", Count(0)),
        ("overhead.total", Count(memory.used.saturating_sub(memory.dataset))),
        ("db.dict.rehashing.count", Count(0)),
        ("keys.count", Count(keys)),
        ("keys.bytes-per-key", Count(grown.checked_div(keys).unwrap_or(0))),
        ("dataset.bytes", Count(memory.dataset)),
        ("dataset.percentage", Share(ratio(memory.dataset, grown.max(memory.dataset)) * 100.0)),
        ("peak.percentage", Share(ratio(memory.used, memory.peak) * 100.0)),
        ("allocator.allocated", Count(memory.used)),
        ("allocator.active", Count(memory.used + memory.held - memory.live)),
        ("allocator.resident", Count(memory.resident)),
        ("allocator.muzzy", Count(0)),
        ("allocator-fragmentation.ratio", Share(ratio(memory.held, memory.live))),
        ("allocator-fragmentation.bytes", Count(memory.held - memory.live)),
        ("allocator-rss.ratio", Share(ratio(memory.resident, memory.used))),
        ("allocator-rss.bytes", signed(memory.resident, memory.used)),
        ("rss-overhead.ratio", Share(1.0)),
        ("rss-overhead.bytes", Count(0)),
        ("fragmentation", Share(ratio(memory.resident, memory.used))),
        ("fragmentation.bytes", signed(memory.resident, memory.used)),
    ];
    let mut reply = ctx.reply();
    reply.map(before.len() + shown.len() + after.len());
    let figures = |figures: &[(&str, Figure)], reply: &mut resp::Reply<'_>| {
        for (name, figure) in figures {
            reply.bulk(name);
            match figure {
                Count(n) => reply.count(*n),
                Difference(n) => reply.integer(*n),
                Share(share) => reply.double(*share),
            }
        }
    };
    figures(&before, &mut reply);
    for (db, keys, expires) in shown {
        reply.bulk(format!("db.{db}"));
        reply.map(2);
        reply.bulk("overhead.hashtable.main");
        reply.count(keys * TABLE_BYTES);
        reply.bulk("overhead.hashtable.expires");
        reply.count(expires * EXPIRY_BYTES);
    }
    figures(&after, &mut reply);
    Ok(Flow::Done)
}
