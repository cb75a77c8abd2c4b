//! PFSELFTEST checks that registers keep what is written, that both forms agree, and that the estimates are as good as
//! they should be. Redis's test adds ten million elements, and the server stands still for a second or more. A million
//! elements prove the same.

use object::hll::{DENSE_LEN, Form, HEADER, Hll, REGISTERS, Trace, dense};

use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::rng::Rng;

/// How often all registers are written and read.
const CYCLES: usize = if cfg!(test) { 3 } else { 50 };
/// Number of elements, a power of ten.
const ELEMENTS: u64 = if cfg!(debug_assertions) { 10_000 } else { 1_000_000 };

pub(super) fn pfselftest(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    test_registers(ctx.rng)?;
    test_estimates(ctx.rng, ctx.tunables.limits.hll_sparse_max_bytes)?;
    ctx.out.ok();
    Ok(Outcome::Done)
}

fn test_registers(rng: &mut Rng) -> Result<(), Error> {
    let mut packed = vec![0; DENSE_LEN - HEADER];
    for _ in 0..CYCLES {
        let expected: Vec<u8> = (0..REGISTERS).map(|_| rng.below(64) as u8).collect();
        for (register, value) in expected.iter().enumerate() {
            dense::set(&mut packed, register, *value);
        }
        for (register, value) in expected.iter().enumerate() {
            let found = dense::get(&packed, register);
            if found != *value {
                return Err(Error::text(format!(
                    "ERR TESTFAILED Register {register} should be {value} but is {found}"
                )));
            }
        }
    }
    Ok(())
}

fn test_estimates(rng: &mut Rng, max_sparse: usize) -> Result<(), Error> {
    let seed = rng.next_u64();
    let (mut sparse, mut dense) = (Hll::new(), Hll::new());
    dense.make_dense()?;
    let mut look = 1;
    for n in 1..=ELEMENTS {
        let trace = Trace::of(&(n ^ seed).to_le_bytes());
        sparse.raise(trace, max_sparse)?;
        dense.raise(trace, max_sparse)?;
        if n < look {
            continue;
        }
        if n < max_sparse as u64 / 2 && sparse.form() != Form::Sparse {
            return Err(Error::new("ERR TESTFAILED sparse encoding not used"));
        }
        let estimate = dense.count()?;
        if estimate != sparse.count()? {
            return Err(Error::new("ERR TESTFAILED dense/sparse disagree"));
        }
        let error = (n as i64).abs_diff(estimate);
        // Six standard errors. Among ten elements two that fall into one register are not that rare.
        let allowed = if n == 10 { 1 } else { (1.04 / (REGISTERS as f64).sqrt() * 6.0 * n as f64).ceil() as u64 };
        if error > allowed {
            return Err(Error::text(format!("ERR TESTFAILED Too big error. card:{n} abserr:{error}")));
        }
        look *= 10;
    }
    Ok(())
}
