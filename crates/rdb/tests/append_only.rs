//! Append-only files: whole, cut short, damaged, and several behind one manifest.

mod support;

use rdb::aof::{Command, File, Files, Manifest, Reader, Step, Tail};
use rdb::{EntryRef, Error, Fault, Item, Target, ValueRef};
use std::io::Cursor;

fn line(words: &[&str]) -> String {
    let mut line = format!("*{}\r\n", words.len());
    for word in words {
        line += &format!("${}\r\n{word}\r\n", word.len());
    }
    line
}

fn steps(file: &[u8]) -> Result<(Vec<Step>, Option<Tail>), Error> {
    let mut reader = Reader::new(file);
    let mut steps = Vec::new();
    while let Some(step) = reader.next_step()? {
        steps.push(step);
    }
    assert!(matches!(reader.next_step(), Ok(None)));
    assert_eq!(reader.offset(), file.len() as u64);
    Ok((steps, reader.tail()))
}

fn command(db: u64, words: &[&str], offset: usize) -> Command {
    let arguments = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    Command { db, arguments, offset: offset as u64 }
}

#[test]
fn commands_blocks_and_databases() {
    let select = line(&["SELECT", "3"]);
    let set = line(&["SET", "k", "a\r\nb"]);
    let block = [line(&["MULTI"]), line(&["INCR", "n"]), line(&["select", "4"]), line(&["INCR", "m"]), line(&["EXEC"])];
    let text = format!("#TS:1700000000\r\n{select}{set}{}{set}", block.concat());
    let (steps, tail) = steps(text.as_bytes()).unwrap();
    let at = |part: &str| text.find(part).unwrap();
    assert_eq!(
        steps,
        [
            Step::Command(command(3, &["SET", "k", "a\r\nb"], at(&set))),
            Step::Block(vec![command(3, &["INCR", "n"], at(&block[1])), command(4, &["INCR", "m"], at(&block[3]))]),
            Step::Command(command(4, &["SET", "k", "a\r\nb"], text.len() - set.len())),
        ]
    );
    assert_eq!(tail, None);
}

#[test]
fn a_file_may_begin_as_rdb() {
    for target in [Target::Redis72, Target::Valkey9] {
        let mut file = support::file_of(target, &[EntryRef::new(0, b"k", ValueRef::String(b"v"))]);
        let rdb = file.len();
        file.extend_from_slice(line(&["DEL", "k"]).as_bytes());
        let (steps, tail) = steps(&file).unwrap();
        assert!(matches!(&steps[2], Step::Item(Item::Entry(entry)) if entry.key == b"k"));
        assert_eq!(steps[3..], [Step::Command(command(0, &["DEL", "k"], rdb))]);
        assert_eq!(tail, None);
        let damaged = steps_of_damaged(&file[..rdb - 1]);
        assert!(damaged.is_cut(), "{damaged}");
    }
    assert_eq!(steps(b"").unwrap(), (Vec::new(), None));
}

fn steps_of_damaged(file: &[u8]) -> Error {
    let mut reader = Reader::new(file);
    loop {
        match reader.next_step() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("no damage was found"),
            Err(error) => {
                assert!(matches!(reader.next_step().unwrap_err().fault, Fault::Failed));
                return error;
            }
        }
    }
}

/// A file may end anywhere: whole commands and blocks are returned, and the rest is reported.
#[test]
fn cut_tails_are_told() {
    let set = line(&["SET", "k", "v"]);
    let block = [line(&["MULTI"]), line(&["INCR", "n"]), line(&["INCR", "n"]), line(&["EXEC"])].concat();
    let text = format!("{set}{block}{set}");
    let ends = [0, set.len(), set.len() + block.len(), text.len()];
    for cut in 0..text.len() {
        let (steps, tail) = steps(&text.as_bytes()[..cut]).unwrap();
        let whole = ends.iter().filter(|&&end| end <= cut).count() - 1;
        assert_eq!(steps.len(), whole, "{cut}");
        let lost = (cut - ends[whole]) as u64;
        let told = tail.map(|tail| (tail.whole, tail.lost));
        assert_eq!(told, (lost > 0).then_some((ends[whole] as u64, lost)), "{cut}");
    }
    let cut = set.len() + block.len() - 1;
    assert_eq!(steps(&text.as_bytes()[..cut]).unwrap().1.unwrap().unfinished, 2);
}

#[test]
fn damage_is_told() {
    for (text, reason) in [
        ("PING\r\n", "a command does not begin with its number of arguments"),
        ("*0\r\n", "a command without a name"),
        ("*x\r\n", "a command does not begin with its number of arguments"),
        ("*-1\r\n", "a command does not begin with its number of arguments"),
        ("*1\r\n:4\r\nPING\r\n", "an argument does not begin with its length"),
        ("*1\r\n$3\r\nPING\r\n", "an argument is longer than it says"),
        ("*1\r\n$4\r\nEXEC\r\n", "EXEC without MULTI"),
        ("*1\r\n$5\r\nMULTI\r\n*1\r\n$5\r\nMULTI\r\n", "MULTI within MULTI"),
        ("*2\r\n$6\r\nSELECT\r\n$1\r\nx\r\n", "the number of a database"),
    ] {
        let error = steps_of_damaged(text.as_bytes()).to_string();
        assert!(error.contains(reason), "{error}");
    }
    let long = format!("#{}\r\n", "x".repeat(5000));
    assert!(steps_of_damaged(long.as_bytes()).to_string().contains("line too long"));
    // A length that the file does not have takes no memory.
    let (steps, tail) = steps(b"*999999999999999999\r\n$999999999999999999\r\nabc").unwrap();
    assert!(steps.is_empty() && tail.is_some());
}

#[test]
fn files_of_a_manifest() {
    let base = support::file_of(Target::Redis72, &[EntryRef::new(0, b"k", ValueRef::String(b"v"))]);
    let (one, two) = (line(&["SELECT", "1"]) + &line(&["INCR", "one"]), line(&["INCR", "two"]));
    let text = b"file base seq 1 type b\nfile one seq 1 type i\nfile two seq 2 type i\n";
    let manifest = Manifest::parse(text).unwrap();
    let read = |one: &[u8], two: &[u8]| {
        let (base, one, two) = (base.clone(), one.to_vec(), two.to_vec());
        let open = move |file: &File| match file.name.as_str() {
            "base" => Ok(Cursor::new(base.clone())),
            "one" => Ok(Cursor::new(one.clone())),
            "two" if two.is_empty() => Err(std::io::ErrorKind::NotFound.into()),
            _ => Ok(Cursor::new(two.clone())),
        };
        let mut files = Files::new(&manifest, open);
        let mut commands = Vec::new();
        loop {
            match files.next_step() {
                Ok(Some(Step::Command(command))) => commands.push((command.db, command.arguments)),
                Ok(Some(_)) => {}
                Ok(None) => {
                    return Ok((commands.len(), files.tail().map(|(file, tail)| (file.name.clone(), tail.lost))));
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    };
    assert_eq!(read(one.as_bytes(), two.as_bytes()), Ok((2, None)));
    // The last may be cut short, any other may not.
    assert_eq!(read(one.as_bytes(), &two.as_bytes()[..5]), Ok((1, Some(("two".to_owned(), 5)))));
    let error = read(&one.as_bytes()[..one.len() - 1], two.as_bytes()).unwrap_err();
    assert!(error.starts_with("one: at byte ") && error.ends_with("the file ends too early"), "{error}");
    assert!(read(one.as_bytes(), b"").unwrap_err().starts_with("two: at byte 0: "), "a missing file");
}
