//! WAIT. There are no replicas, so it never waits: the count is 0 at once. Redis would answer the same after the
//! timeout.

use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::families::Run;
use crate::spec::{Row, Spec, flags::*};

/// The rows of this file.
pub const ROWS: &[Row<Run>] = &[Row {
    spec: Spec {
        name: "wait",
        arity: 3,
        flags: BLOCKING,
        categories: &["connection"],
        since: "3.0.0",
        summary: "Blocks until the asynchronous replication of all preceding write commands sent by the connection is \
                      completed.",
        tips: &["request_policy:all_shards", "response_policy:agg_min"],
        syntax: "numreplicas timeout",
        ..Spec::NEW
    },
    run: Run::Keyed(wait),
    subcommands: &[],
}];

/// Argument `i` as a timeout in milliseconds, only to be checked.
fn check_timeout(ctx: &Ctx<'_>, i: usize) -> Result<(), Error> {
    let ms = ctx.int(i).map_err(|_| Error::new("ERR timeout is not an integer or out of range"))?;
    if ms < 0 {
        return Err(Error::new("ERR timeout is negative"));
    }
    match ms.checked_add_unsigned(ctx.now.0) {
        Some(_) => Ok(()),
        None => Err(Error::new("ERR timeout is out of range")),
    }
}

fn wait(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    ctx.int(1)?;
    check_timeout(ctx, 2)?;
    ctx.out.integer(0);
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn nobody_to_wait_for() {
        let mut bench = Bench::new();
        assert_eq!(bench.words("wait 1 100"), ":0\r\n");
        assert_eq!(bench.words("wait x 100"), "-ERR value is not an integer or out of range\r\n");
        assert_eq!(bench.words("wait 1 -1"), "-ERR timeout is negative\r\n");
        assert_eq!(bench.words("wait 1 9223372036854775807"), "-ERR timeout is out of range\r\n");
    }
}
