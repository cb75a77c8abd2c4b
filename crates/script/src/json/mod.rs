//! `cjson`: JSON as lua-cjson 2.1 reads and writes it.

mod decode;
mod encode;
mod number;

use crate::lua::{Frame, Raised};
use std::ffi::c_int;

/// Most nesting of tables or values, whatever a script configures: as much recursion as a script's stack holds.
const DEPTH_MAX: i64 = 2_000;

/// The configuration of a script. Every script begins with the defaults.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Config {
    sparse_convert: bool,
    sparse_ratio: i64,
    sparse_safe: i64,
    encode_max_depth: i64,
    decode_max_depth: i64,
    encode_invalid: Invalid,
    decode_invalid: bool,
    precision: i64,
    keep_buffer: bool,
    mark_arrays: bool,
}

/// How infinities and NaN are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Invalid {
    Refuse,
    Write,
    Null,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_max_depth: 1000,
            decode_max_depth: 1000,
            encode_invalid: Invalid::Refuse,
            decode_invalid: true,
            precision: 14,
            keep_buffer: true,
            mark_arrays: false,
        }
    }
}

/// The field of a metatable that makes its table an array, however few elements it has.
const ARRAY_MARK: &str = "__is_cjson_array";

/// Pushes the metatable of the arrays that `decode` marks when it is asked to.
pub(crate) fn push_array_metatable(f: &mut Frame<'_>) {
    f.push_table(0, 2);
    f.push_boolean(true);
    f.set_field(-2, ARRAY_MARK);
}

/// Pushes the table `cjson`.
pub(crate) fn push(f: &mut Frame<'_>) {
    f.push_table(0, 16);
    f.push_native(encode::encode);
    f.set_field(-2, "encode");
    f.push_native(decode::decode);
    f.set_field(-2, "decode");
    f.push_native(sparse_array);
    f.set_field(-2, "encode_sparse_array");
    f.push_native(|f: &mut Frame<'_>| integer_option(f, 1, i64::from(i32::MAX), |config| &mut config.encode_max_depth));
    f.set_field(-2, "encode_max_depth");
    f.push_native(|f: &mut Frame<'_>| integer_option(f, 1, i64::from(i32::MAX), |config| &mut config.decode_max_depth));
    f.set_field(-2, "decode_max_depth");
    f.push_native(|f: &mut Frame<'_>| integer_option(f, 1, 14, |config| &mut config.precision));
    f.set_field(-2, "encode_number_precision");
    f.push_native(|f: &mut Frame<'_>| switch_option(f, |config| &mut config.keep_buffer));
    f.set_field(-2, "encode_keep_buffer");
    f.push_native(|f: &mut Frame<'_>| switch_option(f, |config| &mut config.mark_arrays));
    f.set_field(-2, "decode_array_with_array_mt");
    f.push_native(encode_invalid_numbers);
    f.set_field(-2, "encode_invalid_numbers");
    f.push_native(|f: &mut Frame<'_>| switch_option(f, |config| &mut config.decode_invalid));
    f.set_field(-2, "decode_invalid_numbers");
    f.push_native(|f: &mut Frame<'_>| {
        push(f);
        Ok(1)
    });
    f.set_field(-2, "new");
    f.push_null();
    f.set_field(-2, "null");
    f.push_bytes("cjson");
    f.set_field(-2, "_NAME");
    f.push_bytes("2.1.0");
    f.set_field(-2, "_VERSION");
}

fn at_most(f: &mut Frame<'_>, count: c_int) -> Result<(), Raised> {
    if f.args() <= count { Ok(()) } else { Err(f.bad_argument(count + 1, "found too many arguments")) }
}

/// Sets an option from an argument if it is given, and pushes it.
fn integer(f: &mut Frame<'_>, at: c_int, setting: &mut i64, min: i64, max: i64) -> Result<(), Raised> {
    if !f.is_nothing(at) {
        let value = f.check_integer(at)?;
        if !(min..=max).contains(&value) {
            return Err(f.bad_argument(1, &format!("expected integer between {min} and {max}")));
        }
        *setting = value;
    }
    f.push_number(*setting as f64);
    Ok(())
}

/// Like [`integer`], for `true`, `false`, `on` and `off`.
fn switch(f: &mut Frame<'_>, at: c_int, setting: &mut bool) -> Result<(), Raised> {
    if !f.is_nothing(at) {
        *setting = choice(f, at, &["off", "on"])? == 1;
    }
    f.push_boolean(*setting);
    Ok(())
}

/// Which of the names an argument is; booleans are the first two.
fn choice(f: &mut Frame<'_>, at: c_int, names: &[&str]) -> Result<usize, Raised> {
    if f.kind(at) == crate::lua::Kind::Boolean {
        return Ok(usize::from(f.truth(at)));
    }
    let given = f.check_bytes(at)?;
    match names.iter().position(|name| name.as_bytes() == given) {
        Some(index) => Ok(index),
        None => {
            let text = format!("invalid option '{}'", String::from_utf8_lossy(given));
            Err(f.bad_argument(at, &text))
        }
    }
}

/// Changes the configuration.
fn configure(
    f: &mut Frame<'_>,
    change: impl FnOnce(&mut Frame<'_>, &mut Config) -> Result<(), Raised>,
) -> Result<(), Raised> {
    let mut config = *f.shared().json.borrow();
    change(f, &mut config)?;
    f.shared().json.replace(config);
    Ok(())
}

fn integer_option(
    f: &mut Frame<'_>,
    min: i64,
    max: i64,
    setting: impl FnOnce(&mut Config) -> &mut i64,
) -> Result<c_int, Raised> {
    at_most(f, 1)?;
    configure(f, |f, config| integer(f, 1, setting(config), min, max))?;
    Ok(1)
}

fn switch_option(f: &mut Frame<'_>, setting: impl FnOnce(&mut Config) -> &mut bool) -> Result<c_int, Raised> {
    at_most(f, 1)?;
    configure(f, |f, config| switch(f, 1, setting(config)))?;
    Ok(1)
}

fn sparse_array(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    at_most(f, 3)?;
    configure(f, |f, config| {
        switch(f, 1, &mut config.sparse_convert)?;
        integer(f, 2, &mut config.sparse_ratio, 0, i64::from(i32::MAX))?;
        integer(f, 3, &mut config.sparse_safe, 0, i64::from(i32::MAX))
    })?;
    Ok(3)
}

fn encode_invalid_numbers(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    at_most(f, 1)?;
    configure(f, |f, config| {
        if !f.is_nothing(1) {
            config.encode_invalid =
                [Invalid::Refuse, Invalid::Write, Invalid::Null][choice(f, 1, &["off", "on", "null"])?];
        }
        match config.encode_invalid {
            Invalid::Refuse => f.push_boolean(false),
            Invalid::Write => f.push_boolean(true),
            Invalid::Null => f.push_bytes("null"),
        }
        Ok(())
    })?;
    Ok(1)
}
