//! XADD and XTRIM, which share their options.

use keyspace::Key;
use object::stream::{ENTRY_BYTES_MAX, Id, References, Refused, Stream, Trim, Trimmed};

use super::effect::{ADD, TRIM, TRIM_BETWEEN, UNREFERENCE};
use super::id::{self, NewId};
use super::references::references;
use super::write_id;
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::notify::class;

const TOO_LARGE: Error = Error::new("ERR Elements are too large to be stored");
const NOT_ABOVE: Error = Error::new("ERR The ID specified in XADD is equal or smaller than the target stream top item");

/// The bound of trimming.
struct Trimming {
    to: Trim,
    /// Only whole nodes (`~`).
    approx: bool,
    /// Most entries; 0: any number.
    limit: u64,
    references: References,
}

impl Trimming {
    fn apply(&self, stream: &mut Stream) -> Trimmed {
        stream.trim(self.to, self.approx, self.limit, self.references)
    }
}

struct Options {
    id: NewId,
    /// Position of the ID (XADD).
    id_at: usize,
    create: bool,
    trimming: Option<Trimming>,
}

fn parse(ctx: &Ctx<'_>, adding: bool) -> Result<Options, Error> {
    const BOTH: Error = Error::new("ERR syntax error, MAXLEN and MINID options at the same time are not compatible");
    let argc = ctx.args.len();
    let (mut id, mut create, mut limit, mut limit_given) = (NewId::Auto, true, 0, false);
    let mut trim: Option<(Trim, bool)> = None;
    let mut kept = None;
    let mut i = 2;
    while i < argc {
        let more = argc - 1 - i;
        let arg = ctx.arg(i);
        if adding && arg == b"*" {
            break;
        }
        let (maxlen, minid) = (ctx.is(i, "maxlen") && more > 0, ctx.is(i, "minid") && more > 0);
        if maxlen || minid {
            if trim.is_some() {
                return Err(BOTH);
            }
            let sign = if more >= 2 { ctx.arg(i + 1) } else { b"" };
            i += 1 + usize::from(matches!(sign, b"~" | b"="));
            let to = if maxlen {
                let len = u64::try_from(ctx.int(i)?);
                Trim::Length(len.map_err(|_| Error::new("ERR The MAXLEN argument must be >= 0."))?)
            } else {
                Trim::Below(id::parse(ctx.arg(i), 0)?)
            };
            trim = Some((to, sign == b"~"));
        } else if ctx.is(i, "limit") && more > 0 {
            i += 1;
            limit = u64::try_from(ctx.int(i)?).map_err(|_| Error::new("ERR The LIMIT argument must be >= 0."))?;
            limit_given = true;
        } else if let Some(said) = references(ctx, i).filter(|_| kept.is_none()) {
            kept = Some(said);
        } else if adding && ctx.is(i, "nomkstream") {
            create = false;
        } else if adding && more > 0 && (ctx.is(i, "idmp") || ctx.is(i, "idmpauto")) {
            return Err(Error::new(
                "ERR idempotent producers (IDMP, IDMPAUTO) are not supported by this version of Holdfast",
            ));
        } else if adding {
            id = id::parse_new(arg)?;
            break;
        } else {
            return Err(Error::SYNTAX);
        }
        i += 1;
    }
    if limit > 0 && trim.is_none() {
        return Err(Error::new("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"));
    }
    if !adding && trim.is_none() {
        return Err(Error::new("ERR syntax error, XTRIM must be called with a trimming strategy"));
    }
    let approx = trim.is_some_and(|(_, approx)| approx);
    if limit_given && !approx {
        return Err(Error::new("ERR syntax error, LIMIT cannot be used without the special ~ option"));
    }
    if !limit_given && approx {
        // A hundred nodes: enough to keep up with what is added.
        limit = match ctx.tunables.limits.stream_node_max_entries.saturating_mul(100) {
            0 => 10_000,
            entries => entries.min(1_000_000),
        };
    }
    let references = kept.unwrap_or(References::Keep);
    let trimming = trim.map(|(to, approx)| Trimming { to, approx, limit, references });
    Ok(Options { id, id_at: i, create, trimming })
}

pub(super) fn xadd(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let options = parse(ctx, true)?;
    let (args, argc) = (ctx.args, ctx.args.len());
    let first = options.id_at + 1;
    if argc < first + 2 || (argc - first) % 2 == 1 {
        return Err(Error::arity("xadd"));
    }
    if options.id == NewId::Exact(Id::MIN) {
        return Err(Error::new("ERR The ID specified in XADD must be greater than 0-0"));
    }
    let key = ctx.key(1);
    let fields = (argc - first) / 2;
    let pairs = (0..fields).map(|i| {
        let at = first + 2 * i;
        (args.get(at).unwrap_or_default(), args.get(at + 1).unwrap_or_default())
    });
    let stream = match ctx.db.stream_mut(&key)? {
        Some(stream) => stream,
        None if !options.create => {
            ctx.out.null();
            return Ok(Outcome::Done);
        }
        None => {
            // The steps that can fail on a new stream, before there is one.
            if pairs.clone().map(|(name, value)| name.len() + value.len()).sum::<usize>() > ENTRY_BYTES_MAX {
                return Err(TOO_LARGE);
            }
            ctx.db.stream_or_create(&key)?
        }
    };
    let last = stream.log.marks().last;
    if last == Id::MAX {
        return Err(Error::new("ERR The stream has exhausted the last possible ID, unable to add more items"));
    }
    let id = match options.id {
        NewId::Exact(id) => id,
        NewId::Within(ms) if ms == last.ms => Id::new(ms, last.seq.checked_add(1).ok_or(NOT_ABOVE)?),
        NewId::Within(ms) => Id::new(ms, 0),
        NewId::Auto => stream.log.next_id(ctx.now).ok_or(NOT_ABOVE)?,
    };
    stream.log.append(id, fields, pairs.clone(), &ctx.tunables.limits).map_err(|refused| match refused {
        Refused::NotAbove => NOT_ABOVE,
        Refused::TooLarge => TOO_LARGE,
    })?;
    let trimmed = options.trimming.map_or_else(Trimmed::default, |trimming| trimming.apply(stream));
    write_id(&mut ctx.out, id);
    ctx.effect(ADD, &key, |w| {
        w.id(id);
        w.varint(trimmed.front);
        w.varint(fields as u64);
        pairs.for_each(|(name, value)| {
            w.bytes(name);
            w.bytes(value);
        });
    });
    let dirty = ctx.fx.dirty;
    log_references(ctx, &key, &trimmed);
    ctx.fx.dirty = dirty;
    ctx.notify(class::STREAM, "xadd", &key);
    if !trimmed.is_empty() {
        ctx.notify(class::STREAM, "xtrim", &key);
    }
    Ok(Outcome::Done)
}

pub(super) fn xtrim(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let options = parse(ctx, false)?;
    let key = ctx.key(1);
    let trim = |stream: &mut Stream| {
        let trimmed = options.trimming.as_ref().map_or_else(Trimmed::default, |trimming| trimming.apply(stream));
        (!trimmed.is_empty(), trimmed)
    };
    let trimmed = ctx.db.edit::<Stream, _>(&key, trim)?.unwrap_or_default();
    ctx.out.count(trimmed.len());
    if !trimmed.is_empty() {
        let dirty = ctx.fx.dirty + trimmed.len();
        if trimmed.front > 0 {
            ctx.quiet_effect(TRIM, &key, |w| w.varint(trimmed.front));
        }
        log_references(ctx, &key, &trimmed);
        ctx.fx.dirty = dirty;
        ctx.notify(class::STREAM, "xtrim", &key);
    }
    Ok(Outcome::Done)
}

/// Logs the effects of trimming that considers groups, beside removing entries in front.
fn log_references(ctx: &mut Ctx<'_>, key: &Key<'_>, trimmed: &Trimmed) {
    if !trimmed.others.is_empty() {
        ctx.quiet_effect(TRIM_BETWEEN, key, |w| w.ids(&trimmed.others));
    }
    if !trimmed.unreferenced.is_empty() {
        ctx.quiet_effect(UNREFERENCE, key, |w| w.ids(&trimmed.unreferenced));
    }
}
