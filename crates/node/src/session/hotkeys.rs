//! HOTKEYS: the keys that cost most, of this node.

use ::membership::{SLOTS, Slot};
use command::{Error, Row, Spec, flags::*};

use super::{Flow, SessionCtx, SessionRun, container};
use crate::figures::hotkeys::{Report, Tracking, Wanted};

const FLAGS: u32 = ADMIN | NOSCRIPT;
const POLICIES: &[&str] = &["request_policy:special"];

const fn sub(
    (name, arity, since): (&'static str, i32, &'static str),
    flags: u32,
    (complexity, syntax): (&'static str, &'static str),
    summary: &'static str,
    tips: &'static [&'static str],
    run: SessionRun,
) -> Row<SessionRun> {
    let spec = Spec { name, arity, flags, group: "server", since, complexity, syntax, summary, tips, ..Spec::NEW };
    Row { spec, run, subcommands: &[] }
}

/// The rows of the family.
pub const ROWS: &[Row<SessionRun>] = &[Row {
    spec: Spec {
        name: "hotkeys",
        arity: -2,
        group: "server",
        since: "8.6.0",
        complexity: "Depends on subcommand.",
        summary: "A container for hotkeys tracking commands.",
        ..Spec::NEW
    },
    run: container,
    subcommands: &[
        sub(
            ("get", 2, "8.6.0"),
            FLAGS,
            ("O(K) where K is the number of hotkeys returned.", ""),
            "Returns lists of top K hotkeys depending on metrics chosen in HOTKEYS START command.",
            &["nondeterministic_output", "request_policy:special", "response_policy:special"],
            get,
        ),
        sub(
            ("help", 2, "8.6.1"),
            LOADING | STALE,
            ("O(1)", ""),
            "Return helpful text about HOTKEYS command parameters.",
            &[],
            help,
        ),
        sub(
            ("reset", 2, "8.6.0"),
            FLAGS,
            ("O(1)", ""),
            "Release the resources used for hotkey tracking.",
            POLICIES,
            reset,
        ),
        sub(
            ("start", -2, "8.6.0"),
            FLAGS,
            (
                "O(1)",
                "<METRICS count [CPU] [NET]> [COUNT k] [DURATION seconds] [SAMPLE ratio] [SLOTS count slot [slot ...]]",
            ),
            "Starts hotkeys tracking.",
            POLICIES,
            start,
        ),
        sub(("stop", 2, "8.6.0"), FLAGS, ("O(1)", ""), "Stops hotkeys tracking.", POLICIES, stop),
    ],
}];

const HELP: [&str; 20] = [
    "HOTKEYS <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "START <METRICS count [CPU] [NET]> [COUNT k] [DURATION duration] [SAMPLE ratio] [SLOTS count slot...]",
    "    Starts hotkeys tracking with specified metrics.",
    "    * METRICS count [CPU] [NET]",
    "        Chooses among CPU (keys by CPU time) and NET (keys by network bytes), and says how many are named.",
    "    * COUNT k",
    "        How many keys GET shows, 1 to 64. Default: 10",
    "    * DURATION duration",
    "        Seconds after which tracking stops by itself. Default: it goes on until STOP",
    "    * SAMPLE ratio",
    "        A command is looked at with a probability of 1/ratio. Default: 1, every command",
    "    * SLOTS count slot...",
    "        The slots whose keys are looked at, in a cluster only. Default: all slots of the node",
    "STOP",
    "    Stop hotkeys tracking. Results are still available via GET",
    "GET",
    "    Get results from hotkeys tracking.",
    "RESET",
    "    Reset memory used for hotkeys tracking. Tracking must have been stopped.",
    "    Results will no longer be available after this command.",
];

fn help(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let mut reply = ctx.reply();
    reply.array(HELP.len() + 2);
    HELP.iter().for_each(|line| reply.simple(line));
    reply.simple("HELP");
    reply.simple("    Print this help.");
    Ok(Flow::Done)
}

/// Argument `i` as an integer of a range, or this error.
fn within(ctx: &SessionCtx<'_>, i: usize, range: std::ops::RangeInclusive<i64>, error: Error) -> Result<i64, Error> {
    ctx.int(i).ok().filter(|number| range.contains(number)).ok_or(error)
}

fn start(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    const UNDER_WAY: Error = Error::new("ERR hotkey tracking session already in progress");
    let now = ctx.node.clock.unix_ms();
    if ctx.node.hot_keys.tracking().is_some_and(|tracking| tracking.is_on(now)) {
        return Err(UNDER_WAY);
    }
    let (cpu, net) = metrics(ctx)?;
    let wanted = options(ctx, Wanted { cpu, net, count: 10, duration: 0, sample: 1, slots: None })?;
    let cpu_before = ctx.node.facts.cpu.map_or((0, 0), |cpu| cpu());
    if !ctx.node.hot_keys.start(wanted, ctx.node.workers(), now, cpu_before) {
        return Err(UNDER_WAY);
    }
    // Commands behind it in the same pipeline are looked at already.
    ctx.meter.look_at_heat(now);
    ctx.reply().ok();
    Ok(Flow::Done)
}

/// The metrics: CPU time, bytes. A word that is neither is for later versions.
fn metrics(ctx: &SessionCtx<'_>) -> Result<(bool, bool), Error> {
    if ctx.args.len() < 4 || !ctx.is(2, "metrics") {
        return Err(Error::new("ERR METRICS parameter is required"));
    }
    let count = within(ctx, 3, 1..=2, Error::new("ERR METRICS count must be > 0 and <= 2"))? as usize;
    let (mut cpu, mut net) = (false, false);
    for i in 4..ctx.args.len().min(4 + count) {
        if ctx.is(i, "cpu") && std::mem::replace(&mut cpu, true) {
            return Err(Error::new("ERR METRICS CPU defined more than once!"));
        }
        if ctx.is(i, "net") && std::mem::replace(&mut net, true) {
            return Err(Error::new("ERR METRICS NET defined more than once!"));
        }
    }
    match () {
        () if ctx.args.len() < 4 + count => {
            Err(Error::new("ERR METRICS count does not match number of metric types provided"))
        }
        () if !cpu && !net => Err(Error::new("ERR METRICS no valid metrics passed. Supported: CPU|NET")),
        () => Ok((cpu, net)),
    }
}

fn options(ctx: &SessionCtx<'_>, mut wanted: Wanted) -> Result<Wanted, Error> {
    // The metrics before them were counted.
    let mut i = 4 + ctx.int(3).unwrap_or(0) as usize;
    while i < ctx.args.len() {
        let has_value = i + 1 < ctx.args.len();
        let mut next = i + 2;
        match () {
            () if has_value && ctx.is(i, "count") => {
                wanted.count = within(ctx, i + 1, 1..=64, Error::new("ERR COUNT must be between 1 and 64"))? as usize;
            }
            () if has_value && ctx.is(i, "duration") => {
                let error = Error::new("ERR DURATION must be between 1 and 1000000");
                wanted.duration = within(ctx, i + 1, 1..=1_000_000, error)? as u64 * 1000;
            }
            () if has_value && ctx.is(i, "sample") => {
                let error = Error::new("ERR SAMPLE ratio must be positive");
                wanted.sample = within(ctx, i + 1, 1..=i64::from(i32::MAX), error)? as u64;
            }
            () if has_value && ctx.is(i, "slots") => {
                if ctx.peers.own_ranges().is_none() {
                    return Err(Error::new("ERR SLOTS parameter cannot be used in non-cluster mode"));
                }
                if wanted.slots.is_some() {
                    return Err(Error::new("ERR SLOTS parameter already specified"));
                }
                let error = Error::new("ERR SLOTS count must be between 1 and 16384");
                let count = within(ctx, i + 1, 1..=SLOTS as i64, error)? as usize;
                wanted.slots = Some(slots(ctx, i + 2, count)?);
                next += count;
            }
            () => return Err(Error::SYNTAX),
        }
        i = next;
    }
    Ok(wanted)
}

/// The slots that arguments name, from argument `from` on, as ranges.
fn slots(ctx: &SessionCtx<'_>, from: usize, count: usize) -> Result<Vec<(u16, u16)>, Error> {
    if from + count > ctx.args.len() {
        return Err(Error::new("ERR not enough slot numbers provided"));
    }
    let mut slots = std::collections::BTreeSet::new();
    for i in from..from + count {
        let slot = super::cluster::slot_of_argument(ctx.arg(i))?;
        if !ctx.peers.has(slot) {
            return Err(Error::text(format!("ERR slot {slot} not handled by this node")));
        }
        if !slots.insert(slot.get()) {
            return Err(Error::new("ERR duplicate slot number"));
        }
    }
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for slot in slots {
        match ranges.last_mut() {
            Some((_, to)) if *to + 1 == slot => *to = slot,
            _ => ranges.push((slot, slot)),
        }
    }
    Ok(ranges)
}

fn stop(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let now = ctx.node.clock.unix_ms();
    let stopped = ctx.node.hot_keys.stop(now);
    ctx.meter.look_at_heat(now);
    match stopped {
        true => ctx.reply().ok(),
        false => ctx.reply().null(),
    }
    Ok(Flow::Done)
}

fn reset(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    if !ctx.node.hot_keys.reset(ctx.node.clock.unix_ms()) {
        return Err(Error::new("ERR hotkey tracking session in progress, stop tracking first"));
    }
    ctx.reply().ok();
    Ok(Flow::Done)
}

/// A field of HOTKEYS GET.
enum Field {
    Count(u64),
    Ranges(Vec<(u16, u16)>),
    Keys(Vec<(Vec<u8>, u64)>),
}

fn get(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let Some(tracking) = ctx.node.hot_keys.tracking() else {
        ctx.reply().null();
        return Ok(Flow::Done);
    };
    let fields = fields(ctx, &tracking, tracking.report());
    let mut reply = ctx.reply();
    // A list with one map: proxies join those of several nodes.
    reply.array(1);
    reply.map(fields.len());
    for (name, field) in fields {
        reply.bulk(name);
        match field {
            Field::Count(number) => reply.count(number),
            Field::Ranges(ranges) => {
                reply.array(ranges.len());
                for (from, to) in ranges {
                    reply.array(if from == to { 1 } else { 2 });
                    reply.count(from.into());
                    if from != to {
                        reply.count(to.into());
                    }
                }
            }
            Field::Keys(keys) => {
                reply.array(2 * keys.len());
                for (name, weight) in keys {
                    reply.bulk(name);
                    reply.count(weight);
                }
            }
        }
    }
    Ok(Flow::Done)
}

/// The slots of this node, as ranges.
fn own_slots(ctx: &SessionCtx<'_>) -> Vec<(u16, u16)> {
    ctx.peers.own_ranges().unwrap_or_else(|| vec![(Slot::FIRST.get(), Slot::LAST.get())])
}

fn fields(ctx: &SessionCtx<'_>, tracking: &Tracking, found: Report) -> Vec<(&'static str, Field)> {
    use Field::{Count, Keys, Ranges};

    let now = ctx.node.clock.unix_ms();
    let wanted = &tracking.wanted;
    let (selects, samples) = (wanted.slots.is_some(), wanted.sample > 1);
    // A command that ran has taken some time.
    let micros = |nanos: u64| nanos.div_ceil(1000);
    let mut fields = vec![
        ("tracking-active", Count(tracking.is_on(now).into())),
        ("sample-ratio", Count(wanted.sample)),
        ("selected-slots", Ranges(wanted.slots.clone().unwrap_or_else(|| own_slots(ctx)))),
    ];
    let mut field = |is: bool, name: &'static str, value: Field| {
        if is {
            fields.push((name, value));
        }
    };
    field(selects && samples, "sampled-commands-selected-slots-us", Count(micros(found.sampled.nanos)));
    field(selects, "all-commands-selected-slots-us", Count(micros(found.selected.nanos)));
    field(true, "all-commands-all-slots-us", Count(micros(found.all.nanos)));
    field(selects && samples, "net-bytes-sampled-commands-selected-slots", Count(found.sampled.bytes));
    field(selects, "net-bytes-all-commands-selected-slots", Count(found.selected.bytes));
    field(true, "net-bytes-all-commands-all-slots", Count(found.all.bytes));
    field(true, "collection-start-time-unix-ms", Count(tracking.started.0));
    field(true, "collection-duration-ms", Count(tracking.lasted(now)));
    let (user, system) = ctx.node.facts.cpu.map_or((0, 0), |cpu| cpu());
    let (user_before, system_before) = tracking.cpu_before;
    field(wanted.cpu, "total-cpu-time-user-ms", Count(user.saturating_sub(user_before) / 1000));
    field(wanted.cpu, "total-cpu-time-sys-ms", Count(system.saturating_sub(system_before) / 1000));
    field(wanted.net, "total-net-bytes", Count(found.net_total));
    let by_cpu = found.by_cpu.into_iter().map(|(name, nanos)| (name, micros(nanos))).collect();
    field(wanted.cpu, "by-cpu-time-us", Keys(by_cpu));
    field(wanted.net, "by-net-bytes", Keys(found.by_net));
    fields
}
