use super::*;
use proptest::prelude::*;

fn add(a: &str, b: &str) -> Option<String> {
    let sum = LongDouble::parse(a.as_bytes())?.checked_add(LongDouble::parse(b.as_bytes())?);
    Some(sum.map_or("not finite".into(), text))
}

fn text(number: LongDouble) -> String {
    let mut out = Vec::new();
    number.write(&mut out);
    String::from_utf8(out).unwrap()
}

fn echo(a: &str) -> Option<String> {
    LongDouble::parse(a.as_bytes()).map(text)
}

#[test]
fn sums_print_as_on_x87() {
    // From glibc's strtold, an x87 addition and printf("%.17Lf").
    for (a, b, sum) in [
        ("1.5", "1", "2.5"),
        ("1.5", "1.5", "3"),
        ("17", "1.23", "18.23"),
        ("3.0e3", "200", "3200"),
        ("1", "1.1", "2.1"),
        ("1.23", "-1.1", "0.13"),
        ("0.1", "0.2", "0.3"),
        ("1", "-1.1", "-0.1"),
        ("17179869184", "1.5", "17179869185.5"),
        ("17179869184", "17179869184", "34359738368"),
        ("0x1.8p3", ".1", "12.1"),
        ("0.024390243902439025", "-0.024390243902439025", "0"),
        ("-0", "-0", "0"),
        ("-1e-30", "0", "0"),
        ("5e-18", "0", "0"),
        ("6e-18", "0", "0.00000000000000001"),
        ("0.99999999999999999", "0.00000000000000001", "1"),
        ("9223372036854775807", "1", "9223372036854775808"),
        ("18446744073709551615", "1", "18446744073709551616"),
        ("1e20", "0.5", "100000000000000000000"),
        ("1e30", "0", "1000000000000000000024696061952"),
        ("inf", "1", "not finite"),
        ("-inf", "inf", "not finite"),
        ("1.189731495357231765e4932", "1.189731495357231765e4932", "not finite"),
    ] {
        assert_eq!(add(a, b).as_deref(), Some(sum), "{a} + {b}");
        assert_eq!(add(b, a).as_deref(), Some(sum), "{b} + {a}");
    }
}

#[test]
fn texts_are_refused_like_strtold_under_redis() {
    for bad in [
        "",
        "-",
        "+",
        ".",
        "v",
        " 11",
        "11 ",
        " 11 ",
        "1\0",
        "1e",
        "1e+",
        "1.2.3",
        "--1",
        "0x",
        "0x.",
        "0xg",
        "1p3",
        "nan",
        "-nan",
        "nan(1)",
        "infinit",
        "1e5000",
        "-1e5000",
        "1e-5000",
        "1e999999999999999999999",
        "1,5",
        "e5",
    ] {
        assert_eq!(LongDouble::parse(bad.as_bytes()), None, "{bad:?}");
    }
    for (good, text) in [
        ("+1", "1"),
        (".5", "0.5"),
        ("5.", "5"),
        ("00012.500", "12.5"),
        ("0e999999999999999999999", "0"),
        ("0x10", "16"),
        ("0X.8P1", "1"),
        ("0x1p-1", "0.5"),
        ("1E2", "100"),
        ("100e-2", "1"),
        ("1200", "1200"),
        ("0.00012", "0.00012"),
        ("3.6e-4951", "0"),
    ] {
        assert_eq!(echo(good).as_deref(), Some(text), "{good:?}");
    }
    assert!(LongDouble::parse("1".repeat(TEXT_MAX).as_bytes()).is_none(), "out of range");
    assert!(LongDouble::parse(format!("0.{}", "1".repeat(TEXT_MAX - 2)).as_bytes()).is_some());
    assert!(LongDouble::parse(format!("0.{}", "1".repeat(TEXT_MAX - 1)).as_bytes()).is_none(), "too long");
    assert!(!LongDouble::parse(b"-Infinity").unwrap().is_finite());
}

proptest! {
    /// Up to 17 decimals of a number of ordinary size survive, which is why Redis prints 17.
    #[test]
    fn decimals_come_back(integer in -99i64..100, decimals in 1u64..10u64.pow(16)) {
        let fraction = format!("{decimals:016}");
        let fraction = fraction.trim_end_matches('0');
        let number = format!("{integer}.{fraction}");
        prop_assert_eq!(echo(&number), Some(number));
    }

    #[test]
    fn integers_of_64_bits_are_exact(a: i64, b: i64) {
        prop_assert_eq!(echo(&a.to_string()), Some(a.to_string()));
        let sum = i128::from(a) + i128::from(b);
        if i64::try_from(sum).is_ok() {
            prop_assert_eq!(add(&a.to_string(), &b.to_string()), Some(sum.to_string()));
        }
    }

    /// The quick path for few digits and the path for many agree.
    #[test]
    fn trailing_zeros_change_nothing(digits in 1u64.., scale in -40i32..40) {
        let short = format!("{digits}e{scale}");
        let long = format!("{digits}{}e{}", "0".repeat(30), scale - 30);
        prop_assert_eq!(LongDouble::parse(short.as_bytes()), LongDouble::parse(long.as_bytes()));
    }

    /// Hexadecimal is exact: the parts of a number read back as the same number.
    #[test]
    fn hexadecimal_is_exact(significand: u64, exponent in EXPONENT_MIN..=EXPONENT_MAX, negative: bool) {
        let sign = if negative { "-" } else { "" };
        let number = format!("{sign}0x{significand:x}p{exponent}");
        let read = LongDouble::parse(number.as_bytes());
        let made = LongDouble::round(negative, significand.into(), exponent, false);
        prop_assert_eq!(read, made.is_finite().then_some(made));
    }

    #[test]
    fn sums_commute_and_cancel(a in number(), b in number()) {
        prop_assert_eq!(a.checked_add(b), b.checked_add(a));
        let negated = LongDouble { negative: !a.negative, ..a };
        prop_assert_eq!(a.checked_add(negated), Ok(LongDouble::ZERO));
        prop_assert_eq!(a.checked_add(LongDouble::ZERO).map(text), Ok(text(a)));
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = LongDouble::parse(&bytes);
    }

    #[test]
    fn number_like_texts_are_read_without_panic(bytes in "[-+]?(0x)?[0-9a-f.]{0,40}([ep][-+]?[0-9]{0,6})?") {
        if let Some(number) = LongDouble::parse(bytes.as_bytes()) {
            text(number);
        }
    }
}

fn number() -> impl Strategy<Value = LongDouble> {
    let exponent = prop_oneof![-130..64i32, EXPONENT_MIN..EXPONENT_MAX];
    (any::<bool>(), any::<u64>(), exponent)
        .prop_map(|(negative, significand, exponent)| LongDouble::round(negative, significand.into(), exponent, false))
}
