//! MEMORY USAGE. The other subcommands of MEMORY are about no key: they are the session's (crate `node`).

use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::families::Run;
use crate::spec::{KeySpec, Row, Spec, flags::*, key_flags::*};

/// The rows of this file.
pub const ROWS: &[Row<Run>] = &[Row {
    spec: Spec {
        name: "memory",
        arity: -2,
        group: "server",
        since: "4.0.0",
        complexity: "Depends on subcommand.",
        summary: "A container for memory diagnostics commands.",
        ..Spec::NEW
    },
    run: Run::Container,
    subcommands: &[Row {
        spec: Spec {
            name: "usage",
            arity: -3,
            flags: READONLY,
            keys: &[KeySpec::one(2, RO)],
            group: "server",
            since: "4.0.0",
            complexity: "O(N) where N is the number of samples.",
            summary: "Estimates the memory usage of a key.",
            syntax: "key [SAMPLES count]",
            ..Spec::NEW
        },
        run: Run::Keyed(usage),
        subcommands: &[],
    }],
}];

/// Values keep count of their memory, so that nothing needs to be sampled: SAMPLES is only checked.
fn usage(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    for i in (3..ctx.args.len()).step_by(2) {
        if !ctx.is(i, "samples") || i + 1 == ctx.args.len() || ctx.int(i + 1)? < 0 {
            return Err(Error::SYNTAX);
        }
    }
    let key = ctx.key(2);
    match ctx.db.peek(&key) {
        Some(entry) => ctx.out.count(entry.memory() as u64),
        None => ctx.out.null(),
    }
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn usage_grows_with_the_value() {
        let mut bench = Bench::new();
        let mut usage = |command: &str| -> usize {
            bench.words("del k");
            bench.words(command);
            let reply = bench.words("memory usage k samples 0");
            reply.trim().trim_start_matches(':').parse().expect("a number")
        };
        let short = usage("set k abc");
        assert!((3..80).contains(&short), "{short}");
        let long = usage(&format!("set k {}", "x".repeat(1000)));
        assert!((1000..2100).contains(&long), "{long}");
        let list = usage(&format!("rpush k {}", "element ".repeat(5000)));
        assert!((40_000..60_000).contains(&list), "{list}");
    }

    #[test]
    fn usage_checks_its_options() {
        let mut bench = Bench::new();
        bench.words("set k abc");
        for (command, reply) in [
            ("memory usage none", "$-1\r\n"),
            ("memory usage k samples", "-ERR syntax error\r\n"),
            ("memory usage k samples -1", "-ERR syntax error\r\n"),
            ("memory usage k samples x", "-ERR value is not an integer or out of range\r\n"),
            ("memory usage k fast 1", "-ERR syntax error\r\n"),
        ] {
            assert_eq!(bench.words(command), reply, "{command}");
        }
    }
}
