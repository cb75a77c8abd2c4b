//! Requests in one piece, in any pieces, and malformed requests.

use super::*;
use proptest::prelude::*;

type Command = Vec<Vec<u8>>;

/// The result of a stream: its commands, the error that ended it, and the bytes not consumed.
#[derive(Debug, PartialEq)]
struct Outcome {
    commands: Vec<Command>,
    error: Option<ProtocolError>,
    unread: usize,
}

/// Decodes a stream that arrives in `pieces` (the last one repeats), as a worker does: bytes that are not consumed move
/// to the front.
fn decode_in(stream: &[u8], pieces: &[usize], limits: &Limits, max_commands: usize) -> Outcome {
    let (mut decoder, mut batch) = (Decoder::new(), Batch::new());
    let (mut buffer, mut commands) = (Vec::new(), Vec::new());
    let mut arrived = 0;
    let mut pieces = pieces.iter().chain(pieces.last().into_iter().cycle());
    loop {
        batch.clear();
        let progress = decoder.decode(&buffer, limits, max_commands, &mut batch);
        assert!(progress.consumed <= buffer.len());
        assert!(batch.len() <= max_commands);
        let mut last_end = 0;
        for index in 0..batch.len() {
            let args = batch.args(index, &buffer);
            assert!(args.len() >= 1);
            assert!(last_end < batch.end(index) && batch.end(index) <= progress.consumed);
            last_end = batch.end(index);
            assert_eq!(args.bytes(), args.iter().map(<[u8]>::len).sum::<usize>());
            commands.push(args.iter().map(<[u8]>::to_vec).collect());
        }
        buffer.drain(..progress.consumed);
        if progress.error.is_some() {
            return Outcome { commands, error: progress.error, unread: 0 };
        }
        if batch.len() == max_commands {
            continue;
        }
        if arrived == stream.len() {
            return Outcome { commands, error: None, unread: buffer.len() };
        }
        let piece = (*pieces.next().unwrap_or(&1)).clamp(1, stream.len() - arrived);
        assert!(progress.reserve_hint(buffer.len()) <= 3 * buffer.len().max(16 * 1024));
        buffer.extend_from_slice(&stream[arrived..arrived + piece]);
        arrived += piece;
    }
}

fn decode(stream: &[u8]) -> Outcome {
    decode_in(stream, &[stream.len()], &Limits::default(), 1000)
}

fn words(commands: &[&[&str]]) -> Vec<Command> {
    commands.iter().map(|args| args.iter().map(|arg| arg.as_bytes().to_vec()).collect()).collect()
}

fn error_of(stream: &[u8], limits: &Limits) -> Option<String> {
    let whole = decode_in(stream, &[stream.len()], limits, 1000);
    if stream.len() < 1000 {
        assert_eq!(whole, decode_in(stream, &[1], limits, 1000), "in single bytes");
    }
    let mut text = Vec::new();
    whole.error?.append_to(&mut text);
    Some(String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn requests_of_both_kinds() {
    let stream =
        b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n\r\n*0\r\n*-1\r\n*-10\r\n\n  \r\nset a \"x\\ty\"\n*1\r\n$0\r\n\r\n*1";
    let expected = words(&[&["GET", "k"], &["PING"], &["set", "a", "x\ty"], &[""]]);
    assert_eq!(decode(stream), Outcome { commands: expected, error: None, unread: 2 });
}

#[test]
fn lengths_of_any_number_of_digits() {
    for len in [0, 1, 9, 10, 99, 100, 999, 1000, 12345, 100_000] {
        let mut stream = Vec::new();
        append_request(&mut stream, &[vec![b'x'; len]]);
        append_request(&mut stream, &vec!["a"; len.clamp(1, 1001)]);
        let outcome = decode(&stream);
        assert_eq!((outcome.commands.len(), outcome.unread, outcome.error), (2, 0, None), "{len}");
        assert_eq!((outcome.commands[0][0].len(), outcome.commands[1].len()), (len, len.clamp(1, 1001)));
    }
}

/// Redis takes any byte behind a CR and any two behind an argument. Some clients may rely on that, so Holdfast does the
/// same.
#[test]
fn line_breaks_are_not_checked() {
    assert_eq!(decode(b"*1\rx$1\ryazz").commands, words(&[&["a"]]));
}

#[test]
fn error_texts() {
    let limits = Limits::default();
    for (stream, expected) in [
        (&b"*3000000000\r\n"[..], "invalid multibulk length"),
        (b"*\r\n", "invalid multibulk length"),
        (b"*x\r\n", "invalid multibulk length"),
        (b"*+1\r\n", "invalid multibulk length"),
        (b"*01\r\n", "invalid multibulk length"),
        (b"*1 \r\n", "invalid multibulk length"),
        (b"*99999999999999999999\r\n", "invalid multibulk length"),
        (b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\nfooz\r\n", "expected '$', got 'f'"),
        (b"*1\r\nfoo\r\n", "expected '$', got 'f'"),
        (b"*1\r\n\r\nfoo\r\n", "expected '$', got ' '"),
        (b"*1\r\n*1\r\n", "expected '$', got '*'"),
        (b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$-10\r\n", "invalid bulk length"),
        (b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$2000000000\r\n", "invalid bulk length"),
        (b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$blabla\r\n", "invalid bulk length"),
        (b"*1\r\n$536870913\r\n", "invalid bulk length"),
        (b"*1\r\n$-0\r\n", "invalid bulk length"),
        (b"*1\r\n$\r\n", "invalid bulk length"),
        (b"set \"\"\"test-key\"\"\" test-value\r\n", "unbalanced quotes in request"),
        (b"a 'b\r\n", "unbalanced quotes in request"),
    ] {
        let text = format!("Protocol error: {expected}");
        assert_eq!(error_of(stream, &limits), Some(text), "{}", stream.escape_ascii());
    }
    assert_eq!(ProtocolError::ExpectedDollar(b'f').to_string(), "Protocol error: expected '$', got 'f'");
}

#[test]
fn lines_too_long() {
    let limits = Limits::default();
    for (start, end, expected) in [
        ("", "\n", "too big inline request"),
        ("*1\r\n", "\r\n", "too big bulk count string"),
        ("", "\r\n", "too big inline request"),
    ] {
        let line = |len| [start, &"x".repeat(len)].concat().into_bytes();
        // The outcome is the same with and without the line's end, as it must not depend on how the bytes are cut.
        for complete in [true, false] {
            let mut long = line(LINE_MAX + 1);
            long.extend_from_slice(if complete { end.as_bytes() } else { b"" });
            assert_eq!(error_of(&long, &limits), Some(format!("Protocol error: {expected}")));
        }
        assert_eq!(error_of(&line(LINE_MAX), &limits), None);
    }
    let count = [b"*".to_vec(), vec![b'1'; LINE_MAX]].concat();
    assert_eq!(error_of(&count, &limits).unwrap(), "Protocol error: too big mbulk count string");
    assert_eq!(error_of(&count[..LINE_MAX], &limits), None);
    // As in Redis's test of desynchronised streams: no line ever ends.
    for start in ["\0", "*\0", "$\0"] {
        let stream = [start.as_bytes(), &[b'A'; LINE_MAX]].concat();
        assert!(error_of(&stream, &limits).unwrap().starts_with("Protocol error: too big"));
    }
}

#[test]
fn limits_before_authentication() {
    let limits = Limits { authenticated: false, ..Limits::default() };
    let unauthenticated = |stream: &[u8]| error_of(stream, &limits);
    assert_eq!(unauthenticated(b"*11\r\n").unwrap(), "Protocol error: unauthenticated multibulk length");
    assert_eq!(unauthenticated(b"*10\r\n$16385\r\n").unwrap(), "Protocol error: unauthenticated bulk length");
    assert_eq!(unauthenticated(b"*10\r\n$536870913\r\n").unwrap(), "Protocol error: invalid bulk length");
    assert_eq!(unauthenticated(b"*10\r\n$16384\r\n"), None);
    let limits = Limits { proto_max_bulk_len: 1 << 20, ..Limits::default() };
    assert_eq!(error_of(b"*11\r\n$1048576\r\n", &limits), None);
    assert!(error_of(b"*11\r\n$1048577\r\n", &limits).is_some());
}

#[test]
fn commands_before_an_error_are_decoded() {
    let outcome = decode(b"*1\r\n$4\r\nPING\r\nPING\r\n*2\r\n$1\r\na\r\nx\r\n");
    assert_eq!(outcome.commands, words(&[&["PING"], &["PING"]]));
    assert_eq!(outcome.error, Some(ProtocolError::ExpectedDollar(b'x')));
}

#[test]
fn at_most_so_many_commands() {
    let (mut decoder, mut batch) = (Decoder::new(), Batch::new());
    let stream = b"PING\r\n*1\r\n$4\r\nPING\r\nPING\r\n";
    let progress = decoder.decode(stream, &Limits::default(), 2, &mut batch);
    assert_eq!((batch.len(), progress), (2, Progress { consumed: 20, missing: 0, error: None }));
    assert_eq!((batch.end(0), batch.end(1)), (6, 20));
    // A second connection's commands are appended, each with its own buffer.
    let second = b"ECHO hi\r\n";
    let progress = Decoder::new().decode(second, &Limits::default(), 2, &mut batch);
    assert_eq!((batch.len(), progress.consumed), (3, second.len()));
    assert_eq!((&batch.args(1, stream)[0], &batch.args(2, second)[1]), (&b"PING"[..], &b"hi"[..]));
    assert_eq!(batch.args(2, second).get(2), None);
    assert_eq!(decoder.decode(stream, &Limits::default(), 0, &mut batch).consumed, 0);
}

#[test]
fn execution_that_stops_within_a_batch() {
    let (mut decoder, mut batch) = (Decoder::new(), Batch::new());
    let stream = b"PING\r\nPING\r\n*2\r\n$4\r\nECHO\r\n$5\r\nhe";
    let limits = Limits::default();
    let progress = decoder.decode(stream, &limits, 9, &mut batch);
    assert_eq!((batch.len(), progress.missing, decoder.is_incomplete()), (2, 5, true));
    // Only the first is executed: the rest is decoded again.
    let rest = [&stream[batch.end(0)..], b"llo\r\n"].concat();
    decoder.forget();
    batch.clear();
    let progress = decoder.decode(&rest, &limits, 9, &mut batch);
    assert_eq!((batch.len(), progress.consumed), (2, rest.len()));
    assert_eq!(&batch.args(1, &rest)[1], b"hello");
}

#[test]
fn a_giant_argument_is_announced_and_waited_for() {
    let (mut decoder, mut batch) = (Decoder::new(), Batch::new());
    let mut buffer = b"PING\r\n*2\r\n$4\r\nECHO\r\n$500000000\r\nabc".to_vec();
    let limits = Limits::default();
    let progress = decoder.decode(&buffer, &limits, 9, &mut batch);
    assert_eq!((progress.consumed, progress.missing), (6, 499_999_999));
    assert_eq!(progress.reserve_hint(buffer.len()), 16 * 1024);
    assert_eq!(progress.reserve_hint(1 << 20), 3 << 20);
    assert_eq!(progress.reserve_hint(1 << 30), 499_999_999);
    buffer.drain(..6);
    for missing in (499_000_000..499_999_999).rev().take(1000) {
        buffer.push(b'x');
        assert_eq!(decoder.decode(&buffer, &limits, 9, &mut batch).missing, missing);
    }
}

/// Bytes of a request are not read twice: otherwise half a million reads would each look at megabytes.
#[test]
fn a_million_arguments_in_many_reads() {
    const ARGS: usize = 1_000_000;
    let mut stream = Vec::new();
    append_request(&mut stream, &vec!["x"; ARGS]);
    let (mut decoder, mut batch) = (Decoder::new(), Batch::new());
    let limits = Limits::default();
    for end in (0..stream.len()).step_by(13) {
        assert_eq!(decoder.decode(&stream[..end], &limits, 9, &mut batch).consumed, 0);
        assert!(decoder.memory() <= end * 4 + 64, "memory follows what has arrived");
    }
    assert_eq!(decoder.decode(&stream, &limits, 9, &mut batch).consumed, stream.len());
    assert_eq!(batch.args(0, &stream).len(), ARGS);
    assert!(decoder.memory() <= 64 && !decoder.is_incomplete());
    batch.clear();
    assert!(batch.ranges.capacity() < ARGS);
}

#[test]
fn integers_in_their_only_form() {
    for number in [0, 1, -1, 10, i64::MAX, i64::MIN] {
        assert_eq!(parse_integer(number.to_string().as_bytes()), Some(number));
    }
    for text in ["", "-", "-0", "00", "01", "+1", " 1", "1 ", "9223372036854775808", "-9223372036854775809", "1e3"] {
        assert_eq!(parse_integer(text.as_bytes()), None, "{text}");
    }
}

fn any_command() -> impl Strategy<Value = Command> {
    let arg = prop_oneof![8 => 0usize..20, 2 => 90usize..140, 1 => 990usize..1100]
        .prop_flat_map(|len| proptest::collection::vec(any::<u8>(), len));
    proptest::collection::vec(arg, 1..14)
}

/// Bytes that are nearly requests.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        proptest::sample::select(vec![
            "*1\r\n", "*2\r\n", "*0\r\n", "*-1\r\n", "*11\r\n", "$0\r\n", "$1\r\n", "$3\r\n", "$10\r\n", "\r\n", "\n",
            "\r", "abc", "\"", "'", "\\x4", " ", "*", "$", "0", "1", "9", "-",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        proptest::collection::vec(any::<u8>(), 0..4),
    ];
    proptest::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat())
}

fn pieces() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(prop_oneof![Just(1usize), 1usize..10, 1usize..400], 1..12)
}

/// Quotes an argument so that it is what `split_args` reads back.
fn quoted(arg: &[u8]) -> Vec<u8> {
    let mut out = vec![b'"'];
    for byte in arg {
        out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
    }
    out.push(b'"');
    out
}

proptest! {
    #[test]
    fn commands_come_out_as_they_went_in(
        commands in proptest::collection::vec((any_command(), any::<bool>()), 0..12),
        pieces in pieces(),
        max_commands in 1usize..5,
    ) {
        let mut stream = Vec::new();
        for (command, inline) in &commands {
            if *inline {
                let line = command.iter().map(|arg| quoted(arg)).collect::<Vec<_>>().join(&b' ');
                stream.extend_from_slice(&line);
                stream.extend_from_slice(b"\r\n");
            } else {
                append_request(&mut stream, command);
            }
        }
        let commands: Vec<Command> = commands.into_iter().map(|(command, _)| command).collect();
        let outcome = decode_in(&stream, &pieces, &Limits::default(), max_commands);
        prop_assert_eq!(outcome, Outcome { commands, error: None, unread: 0 });
    }

    #[test]
    fn arbitrary_bytes_give_the_same_however_they_are_cut(
        stream in nearly(),
        pieces in pieces(),
        max_commands in 1usize..5,
        authenticated: bool,
    ) {
        let limits = Limits { proto_max_bulk_len: 100, authenticated };
        let whole = decode_in(&stream, &[stream.len()], &limits, 1000);
        prop_assert_eq!(decode_in(&stream, &pieces, &limits, max_commands), whole);
    }
}
