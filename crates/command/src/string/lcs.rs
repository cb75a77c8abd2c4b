//! LCS: the longest common subsequence of two strings.

use keyspace::Str;
use object::lcs::{Lcs, length, memory};
use resp::Reply;

use super::{STRING, row};
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::families::Run;
use crate::spec::{KeySpec, Row, Spec, flags::*, key_flags::*};

pub(crate) const ROWS: &[Row<Run>] = &[row(
    Spec {
        name: "lcs",
        arity: -3,
        flags: READONLY,
        keys: &[KeySpec::range(1, 1, 1, RO | ACCESS)],
        since: "7.0.0",
        complexity: "O(N*M) where N and M are the lengths of s1 and s2, respectively",
        summary: "Finds the longest common substring.",
        syntax: "key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]",
        ..STRING
    },
    lcs,
)];

#[derive(Default)]
struct Options {
    len: bool,
    idx: bool,
    with_match_len: bool,
    min_match_len: u64,
}

impl Options {
    fn parse(ctx: &Ctx<'_>) -> Result<Self, Error> {
        let mut options = Options::default();
        let mut i = 3;
        while i < ctx.args.len() {
            if ctx.is(i, "idx") {
                options.idx = true;
            } else if ctx.is(i, "len") {
                options.len = true;
            } else if ctx.is(i, "withmatchlen") {
                options.with_match_len = true;
            } else if ctx.is(i, "minmatchlen") && i + 1 < ctx.args.len() {
                i += 1;
                options.min_match_len = u64::try_from(ctx.int(i)?).unwrap_or(0);
            } else {
                return Err(Error::SYNTAX);
            }
            i += 1;
        }
        if options.len && options.idx {
            return Err(Error::new("ERR If you want both the length and indexes, please just use IDX."));
        }
        Ok(options)
    }
}

fn lcs(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let (a, b) = (text(ctx, 1)?, text(ctx, 2)?);
    let options = Options::parse(ctx)?;
    check_size(a.len() as u64, b.len() as u64, ctx.tunables.max_string)?;
    if options.len {
        ctx.out.count(length(&a, &b) as u64);
        return Ok(Outcome::Done);
    }
    let table = memory(a.len(), b.len());
    if !headroom::has_room(table, table) {
        return Err(Error::OOM);
    }
    let lcs = Lcs::new(&a, &b);
    if options.idx {
        write_matches(&mut ctx.out, &lcs, &options);
    } else {
        ctx.out.bulk(lcs.subsequence());
    }
    Ok(Outcome::Done)
}

fn text(ctx: &Ctx<'_>, i: usize) -> Result<Vec<u8>, Error> {
    let value = ctx.db.read_string(&ctx.key(i));
    let value = value.map_err(|_| Error::new("ERR The specified keys must contain string values"))?;
    Ok(value.unwrap_or(Str::Bytes(b"")).to_vec())
}

/// Redis's bounds, which are those of its table of four bytes per pair of positions. This table needs one bit, but time
/// is bounded by the same product.
fn check_size(a: u64, b: u64, max: u64) -> Result<(), Error> {
    const LONGEST: u64 = u32::MAX as u64 - 1;
    if a >= LONGEST || b >= LONGEST {
        return Err(Error::new("ERR String too long for LCS"));
    }
    let table = u128::from(a + 1) * u128::from(b + 1) * 4;
    if table > u128::from(max) {
        return Err(Error::new("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"));
    }
    Ok(())
}

fn write_matches(out: &mut Reply<'_>, lcs: &Lcs<'_>, options: &Options) {
    let pair = |out: &mut Reply<'_>, (first, last): (usize, usize)| {
        out.array(2);
        out.count(first as u64);
        out.count(last as u64);
    };
    out.map(2);
    out.bulk("matches");
    let matches = out.deferred_array();
    let mut count = 0;
    for found in lcs.matches().filter(|found| found.len() as u64 >= options.min_match_len) {
        out.array(2 + usize::from(options.with_match_len));
        pair(out, found.a);
        pair(out, found.b);
        if options.with_match_len {
            out.count(found.len() as u64);
        }
        count += 1;
    }
    out.finish(matches, count);
    out.bulk("len");
    out.count(lcs.len() as u64);
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use resp::Protocol;

    #[test]
    fn the_example_of_the_documentation() {
        let mut bench = Bench::new();
        bench.words("mset key1 ohmytext key2 mynewtext");
        assert_eq!(bench.words("lcs key1 key2"), "$6\r\nmytext\r\n");
        assert_eq!(bench.words("lcs key1 key2 len"), ":6\r\n");
        assert_eq!(bench.words("lcs key1 none"), "$0\r\n\r\n");
        let both = "*2\r\n*2\r\n:4\r\n:7\r\n*2\r\n:5\r\n:8\r\n*2\r\n*2\r\n:2\r\n:3\r\n*2\r\n:0\r\n:1\r\n";
        let reply = bench.words("lcs key1 key2 idx");
        assert_eq!(reply, format!("*4\r\n$7\r\nmatches\r\n*2\r\n{both}$3\r\nlen\r\n:6\r\n"));
        bench.protocol = Protocol::Resp3;
        let long = "*3\r\n*2\r\n:4\r\n:7\r\n*2\r\n:5\r\n:8\r\n:4\r\n";
        let reply = bench.words("lcs key1 key2 idx minmatchlen 4 withmatchlen");
        assert_eq!(reply, format!("%2\r\n$7\r\nmatches\r\n*1\r\n{long}$3\r\nlen\r\n:6\r\n"));
    }

    #[test]
    fn errors() {
        let mut bench = Bench::new();
        let both = bench.words("lcs a b len idx");
        assert_eq!(both, "-ERR If you want both the length and indexes, please just use IDX.\r\n");
        assert_eq!(bench.words("lcs a b foo"), "-ERR syntax error\r\n");
        assert_eq!(bench.words("lcs a b minmatchlen"), "-ERR syntax error\r\n");
        bench.tunables.max_string = 1000;
        bench.words("mset a aaaaaaaaaaaaaaaaaaaa b bbbbbbbbbbbbbbbbbbbb");
        let reply = bench.words("lcs a b");
        assert_eq!(reply, "-ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len\r\n");
    }
}
