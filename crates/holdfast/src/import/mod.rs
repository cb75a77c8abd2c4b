//! `holdfast import`: keys of an RDB file, or of append-only files of Redis, into a running server or cluster.

mod pipeline;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use object::Limits;
use rdb::aof::{Command, Step};
use rdb::{Entry, Item, Value};

use crate::client::{Connection, Target, explained, is_locked};
use pipeline::{About, Answers, Pipeline};
use source::Source;

/// Refused commands that are printed; the others are counted.
const PRINTED: usize = 10;

/// Imports the keys and functions of a file of Redis or Valkey into a running server, or into a cluster by any of its
/// nodes.
///
/// The file may be a dump.rdb, an append-only file, a manifest, or a folder with one (appendonlydir). An import that
/// ends with an error says how to continue after the imported part.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    target: Target,
    /// The file, or the folder.
    file: PathBuf,
    /// Reads and checks the whole file, says what it holds, and asks no server.
    #[arg(long)]
    dry_run: bool,
    /// Replaces keys and libraries that exist. Without it they stay as they are, and are counted.
    #[arg(long)]
    replace: bool,
    /// Imports only this database of the file.
    #[arg(long, value_name = "NUMBER")]
    db: Option<u64>,
    /// Skips values of modules, and of types that Holdfast lacks, instead of refusing the file.
    #[arg(long)]
    skip_modules: bool,
    /// Uses this many connections for keys. Commands of an append-only file take one.
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..))]
    connections: u8,
    /// Skips this many steps, which an earlier import has done.
    #[arg(long, value_name = "STEPS", default_value_t = 0)]
    skip: u64,
}

/// The contents of a file.
#[derive(Default)]
struct Found {
    steps: u64,
    /// Keys by their type.
    keys: BTreeMap<&'static str, u64>,
    libraries: u64,
    commands: u64,
    /// Keys without elements, which some versions of Redis have written.
    empty: u64,
    /// Values and data that are not there in Holdfast.
    foreign: u64,
}

/// Imports, or only looks.
pub fn run(options: &Options) -> Result<(), String> {
    let source = Source::open(&options.file, options.skip_modules)?;
    if options.dry_run { look(options, source) } else { import(options, source) }
}

fn bar(source: &Source) -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {bytes} of {total_bytes} {eta}");
    ProgressBar::new(source.len()).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

impl Options {
    /// True if a step of this database is wanted.
    fn takes(&self, db: u64) -> bool {
        self.db.is_none_or(|only| only == db)
    }
}

/// Reads and decodes everything.
fn look(options: &Options, mut source: Source) -> Result<(), String> {
    let bar = bar(&source);
    let mut found = Found::default();
    let mut damaged = Vec::new();
    while let Some(step) = source.next_step()? {
        bar.set_position(source.position());
        match step {
            Step::Item(Item::Entry(entry)) if options.takes(entry.db) => match entry.value(&Limits::default()) {
                Ok(value) => *found.keys.entry(type_name(&value)).or_default() += 1,
                Err(error) if error.is_empty_collection() => found.empty += 1,
                Err(error) => damaged.push(error.to_string()),
            },
            Step::Item(Item::Function(_)) => found.libraries += 1,
            Step::Item(Item::Skipped { .. } | Item::SkippedData { .. }) => found.foreign += 1,
            Step::Item(_) => {}
            Step::Command(command) => found.commands += u64::from(options.takes(command.db)),
            Step::Block(commands) => found.commands += u64::from(commands.iter().any(|c| options.takes(c.db))),
        }
    }
    bar.finish_and_clear();
    println!("{} holds {}", options.file.display(), found.told());
    told_tail(&source);
    match damaged.as_slice() {
        [] => Ok(()),
        [first, ..] => Err(format!("{} values are damaged, the first {first}", damaged.len())),
    }
}

fn type_name(value: &Value<'_>) -> &'static str {
    match value {
        Value::String(_) => "strings",
        Value::List(_) => "lists",
        Value::Set(_) => "sets",
        Value::ZSet(_) => "sorted sets",
        Value::Hash(_) => "hashes",
        Value::Stream(_) => "streams",
    }
}

impl Found {
    fn told(&self) -> String {
        let mut parts: Vec<String> = self.keys.iter().map(|(name, count)| format!("{count} {name}")).collect();
        for (count, name) in [
            (self.libraries, "libraries of functions"),
            (self.commands, "commands and blocks of an append-only file"),
            (self.empty, "keys without elements, which are passed over"),
            (self.foreign, "values and data of modules or of unknown types, which are passed over"),
        ] {
            if count > 0 {
                parts.push(format!("{count} {name}"));
            }
        }
        if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
    }
}

fn told_tail(source: &Source) {
    if let Some(tail) = source.tail() {
        println!(
            "the file ends in the middle of a command or a block: {} bytes behind byte {} are left out",
            tail.lost, tail.whole
        );
    }
}

/// As many connections as are wanted, or as many as the server takes.
fn connections(options: &Options) -> Result<Vec<Connection>, String> {
    let mut first = Connection::open(&options.target).map_err(explained)?;
    // A missing password is one refusal, and not one for each key.
    if let Some(why) = first.call(&[b"PING"]).err().filter(|why| is_locked(why)) {
        return Err(explained(why));
    }
    let more = (1..options.connections).map_while(|_| Connection::open(&options.target).ok());
    Ok(std::iter::once(first).chain(more).collect())
}

fn import(options: &Options, mut source: Source) -> Result<(), String> {
    let bar = bar(&source);
    let mut pipeline = Pipeline::new(connections(options)?);
    let mut found = Found::default();
    let sent = send_all(options, &mut source, &mut pipeline, &mut found, &bar);
    // All steps that were sent are answered, so that the report can say which are done.
    let sent = sent.and(pipeline.finish());
    bar.finish_and_clear();
    let answers = pipeline.answers();
    let done = options.skip + answers.steps;
    println!("{}: {}", options.target, imported(answers));
    if answers.existing > 0 {
        println!("{} keys or libraries existed and were left as they are (--replace)", answers.existing);
    }
    if found.empty + found.foreign > 0 {
        println!(
            "{} keys without elements, and {} values or data of modules or unknown types, were passed over",
            found.empty, found.foreign
        );
    }
    for refused in answers.refused.iter().take(PRINTED) {
        println!("refused: {refused}");
    }
    if !answers.refused.is_empty() {
        let (count, first) = (answers.refused.len(), options.skip + answers.before_refused);
        // Keys that were restored behind the first refused step stay. A command would happen twice.
        let again = if answers.commands == 0 { format!("--skip {first} tries them again, ") } else { String::new() };
        return Err(format!(
            "the server refused {count} steps of those up to step {done}; {again}--skip {done} goes on behind them"
        ));
    }
    sent.map_err(|error| format!("{error}; {done} steps are done, and --skip {done} goes on behind them"))?;
    told_tail(&source);
    Ok(())
}

/// The report of the steps that the server has taken.
fn imported(answers: &Answers) -> String {
    let parts: Vec<String> = [
        (answers.keys, "keys"),
        (answers.libraries, "libraries of functions"),
        (answers.commands, "commands and blocks of an append-only file"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, name)| format!("{count} {name}"))
    .collect();
    match parts.as_slice() {
        [] => "nothing is imported".to_owned(),
        parts => format!("{} are imported", parts.join(", ")),
    }
}

fn send_all(
    options: &Options,
    source: &mut Source,
    pipeline: &mut Pipeline,
    found: &mut Found,
    bar: &ProgressBar,
) -> Result<(), String> {
    let mut selected = Selected::default();
    while let Some(step) = source.next_step()? {
        bar.set_position(source.position());
        if !found.is_step(&step, options) {
            continue;
        }
        found.steps += 1;
        if found.steps <= options.skip {
            continue;
        }
        match step {
            Step::Item(Item::Entry(entry)) => {
                selected.select(pipeline, entry.db)?;
                restore(options, pipeline, entry)?;
            }
            Step::Item(Item::Function(code)) => {
                let words: &[&[u8]] = if options.replace {
                    &[b"FUNCTION", b"LOAD", b"REPLACE", &code]
                } else {
                    &[b"FUNCTION", b"LOAD", &code]
                };
                pipeline.push(words, About::Library);
            }
            Step::Item(_) => {}
            Step::Command(command) => {
                pipeline.keep_order()?;
                run_command(pipeline, &mut selected, command)?;
            }
            Step::Block(commands) => {
                pipeline.keep_order()?;
                run_block(pipeline, &mut selected, commands)?;
            }
        }
        pipeline.turn()?;
        if !pipeline.answers().refused.is_empty() {
            return Ok(());
        }
    }
    Ok(())
}

impl Found {
    /// True if a step is sent. Others are counted as passed over.
    fn is_step(&mut self, step: &Step, options: &Options) -> bool {
        /// A collection without elements takes fewer bytes.
        const EMPTY_MAX: usize = 64;
        match step {
            Step::Item(Item::Entry(entry)) => {
                let empty = entry.value_len() < EMPTY_MAX
                    && entry.value(&Limits::default()).is_err_and(|error| error.is_empty_collection());
                self.empty += u64::from(empty);
                !empty && options.takes(entry.db)
            }
            Step::Item(Item::Function(_)) => true,
            Step::Item(Item::Skipped { .. } | Item::SkippedData { .. }) => {
                self.foreign += 1;
                false
            }
            Step::Item(_) => false,
            Step::Command(command) => options.takes(command.db),
            Step::Block(commands) => commands.iter().any(|command| options.takes(command.db)),
        }
    }
}

/// The database that each connection is at, and the ones that the server is known to have.
#[derive(Default)]
struct Selected {
    current: BTreeMap<usize, u64>,
    known: BTreeSet<u64>,
}

impl Selected {
    /// Selects a database. The first time, it waits for the reply: if the server has no such database, what follows
    /// would go to another one.
    fn select(&mut self, pipeline: &mut Pipeline, db: u64) -> Result<(), String> {
        let current = self.current.entry(pipeline.lane()).or_default();
        if *current == db && (db == 0 || self.known.contains(&db)) {
            return Ok(());
        }
        *current = db;
        pipeline.push(&[b"SELECT".as_slice(), db.to_string().as_bytes()], About::Beside);
        if self.known.insert(db) {
            pipeline.finish()?;
            if !pipeline.answers().refused.is_empty() {
                return Err(format!("the server does not select database {db}"));
            }
        }
        Ok(())
    }
}

fn restore(options: &Options, pipeline: &mut Pipeline, entry: Entry) -> Result<(), String> {
    // Zero would mean that the key does not expire.
    let expiry = entry.expiry.map_or(0, |at| at.0.max(1)).to_string();
    let (key, frequency, idle) = (entry.key.clone(), entry.frequency, entry.idle);
    let payload = entry.into_payload(&Limits::default()).map_err(|error| error.to_string())?;
    let mut words = vec![b"RESTORE".to_vec(), key.clone(), expiry.into_bytes(), payload, b"ABSTTL".to_vec()];
    if options.replace {
        words.push(b"REPLACE".to_vec());
    }
    match (frequency, idle) {
        (Some(frequency), _) => words.extend([b"FREQ".to_vec(), frequency.to_string().into_bytes()]),
        (None, Some(idle)) => words.extend([b"IDLETIME".to_vec(), idle.to_string().into_bytes()]),
        (None, None) => {}
    }
    pipeline.push(&words, About::Key(key));
    Ok(())
}

fn name_of(command: &Command) -> Vec<u8> {
    command.arguments.first().cloned().unwrap_or_default()
}

fn run_command(pipeline: &mut Pipeline, selected: &mut Selected, command: Command) -> Result<(), String> {
    selected.select(pipeline, command.db)?;
    let name = name_of(&command);
    pipeline.push(&command.arguments, About::Command(name));
    Ok(())
}

/// Commands that take effect together. They change databases within the block as they did.
fn run_block(pipeline: &mut Pipeline, selected: &mut Selected, commands: Vec<Command>) -> Result<(), String> {
    // Within the block a database that is not there would be noticed too late.
    commands.iter().rev().try_for_each(|command| selected.select(pipeline, command.db))?;
    pipeline.push(&[b"MULTI"], About::Beside);
    let name = commands.first().map(name_of).unwrap_or_default();
    for command in commands {
        selected.select(pipeline, command.db)?;
        pipeline.push(&command.arguments, About::Beside);
    }
    pipeline.push(&[b"EXEC"], About::Command(name));
    Ok(())
}
