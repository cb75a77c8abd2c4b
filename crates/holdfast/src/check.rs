//! `holdfast check DIR` verifies every checksum of the data of a stopped server, of its part in a cluster, of copies of
//! logs, or of a backup. It prints its findings and changes nothing.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use loggroup::{Checked, Unusable, check_copy, own_promise};
use membership::control::Control;
use membership::handshake::Party;
use membership::{AcceptorId, ShardId};
use redolog::counted;

use crate::backup::{is_backup, verify};
use crate::server::rehearsal::{Found, rehearse};

/// Verifies the log and the store of a stopped server, copies of logs, or a backup. Fails if a file is damaged.
///
/// Copies of other nodes' logs are verified, too, in a server's `dir`, in a directory of a log-server, or by themselves.
#[derive(Args)]
pub struct Options {
    /// The server's `dir`, the directory of a backup, a directory of a log-server, or a folder `shard-N`.
    dir: PathBuf,
    /// The server's `log-dirs`, if they are not in `dir`; the other directories of a log-server.
    #[arg(long, value_name = "DIR", num_args = 1..)]
    log_dirs: Vec<PathBuf>,
    /// The server's `store-dir`, if it is not in `dir`.
    #[arg(long, value_name = "DIR")]
    store_dir: Option<PathBuf>,
}

/// Prints the findings.
pub fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let (dir, data) = (&options.dir, options.dir.join("holdfast"));
    if is_backup(dir) {
        if options.log_dirs.is_empty() && options.store_dir.is_none() {
            return verify(dir);
        }
        return Err(format!(
            "{} is a backup, which holds log and store itself: it needs no --log-dirs and --store-dir",
            dir.display()
        )
        .into());
    }
    if !data.is_dir() && options.store_dir.is_none() {
        let directories: Vec<PathBuf> = [dir.clone()].into_iter().chain(options.log_dirs.clone()).collect();
        if let Some(Copies { directories, shards }) = copies(&directories)? {
            check_copies(&directories, &shards)?;
            match shards.len() {
                0 => println!("{}: a directory of a log-server, which has no copies yet", dir.display()),
                1 => println!("everything is as it was written: the copy votes"),
                count => println!("everything is as it was written: all {count} copies vote"),
            }
            return Ok(());
        }
    }
    let mut folders = options.log_dirs.clone();
    if folders.is_empty() {
        folders.push(data.join("log"));
    }
    let store = options.store_dir.clone().unwrap_or_else(|| data.join("store"));
    for folder in &folders {
        if !folder.is_dir() {
            return Err(format!("{}: no such directory; {}", folder.display(), hint(dir)).into());
        }
    }
    let cluster = dir.join("cluster");
    let Some(Found { keys, records, .. }) = check_data(&folders, &store, Some(&cluster), "a server with this data")?
    else {
        return Err(
            "there is damage: a server starts with this data, and answers errors where it cannot read it".into()
        );
    };
    // Copies of the logs of others: beside the own log, where that is in several directories.
    let beside = || folders.iter().map(|log| log.join("copies")).collect();
    let kept = if folders.len() > 1 { beside() } else { vec![data.join("copies")] };
    check_copies(&kept, &shards_in(&kept)?)?;
    println!(
        "everything is as it was written: a server that starts with it has {}, and applies {} of the log",
        counted(keys, "key"),
        counted(records, "record")
    );
    Ok(())
}

/// Verifies a log and a store, prints their contents, and tries whether a server starts with them. A node of a cluster
/// starts with its folder `cluster`, too. `server` names it in messages. `None`: it starts, although there is damage.
pub fn check_data(
    logs: &[PathBuf],
    store: &Path,
    cluster: Option<&Path>,
    server: &str,
) -> Result<Option<Found>, Box<dyn Error>> {
    let log = redolog::check(logs)?;
    print!("{log}");
    let copies = own_promise(logs).map_err(|why| format!("{server} does not start: {why}"))?;
    if let Some((shard, acceptor, promised)) = copies {
        println!(
            "the log of shard {}, which has copies: acceptor {}, which has promised term {}",
            shard.0,
            hex(acceptor),
            promised.get()
        );
    }
    let is_whole = check_store(store)? && log.is_sound();
    let found = rehearse(logs, store).map_err(|why| format!("{server} does not start: {why}"))?;
    if let Some(folder) = cluster {
        let party = Control::look(folder, found.id).map_err(|why| format!("{server} does not start: {why}"))?;
        if let Some(Party { node, .. }) = party {
            println!("{}: node {node} of a cluster", folder.display());
        }
    }
    Ok(is_whole.then_some(found))
}

/// The folder in the first directory of a log-server with its part of the metadata.
const LOG_SERVER: &str = "log-server";

fn hex(acceptor: AcceptorId) -> String {
    acceptor.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The shard of a folder `shard-N`.
fn shard_of(folder: &Path) -> Option<ShardId> {
    folder.file_name()?.to_str()?.strip_prefix("shard-")?.parse().ok().map(ShardId)
}

/// The shards of which there are copies in these directories.
fn shards_in(directories: &[PathBuf]) -> Result<BTreeSet<ShardId>, Box<dyn Error>> {
    let mut shards = BTreeSet::new();
    for directory in directories.iter().filter(|directory| directory.is_dir()) {
        for entry in fs::read_dir(directory).map_err(|why| format!("{}: {why}", directory.display()))? {
            shards.extend(shard_of(&entry?.path()));
        }
    }
    Ok(shards)
}

/// Copies of logs, and the directories that they are in.
struct Copies {
    directories: Vec<PathBuf>,
    shards: BTreeSet<ShardId>,
}

/// The copies of a log-server, or one copy. None: the directories are something else's.
fn copies(directories: &[PathBuf]) -> Result<Option<Copies>, Box<dyn Error>> {
    if let [folder] = directories
        && let Some(shard) = shard_of(folder)
        && let Some(directory) = std::path::absolute(folder)?.parent()
    {
        return Ok(Some(Copies { directories: vec![directory.to_owned()], shards: [shard].into() }));
    }
    let shards = shards_in(directories)?;
    let is_one = !shards.is_empty() || directories.iter().any(|directory| directory.join(LOG_SERVER).is_dir());
    Ok(is_one.then(|| Copies { directories: directories.to_vec(), shards }))
}

/// Verifies the copies of these shards' logs, and prints their contents.
fn check_copies(directories: &[PathBuf], shards: &BTreeSet<ShardId>) -> Result<(), Box<dyn Error>> {
    let mut lost = Vec::new();
    let names: Vec<String> = directories.iter().map(|directory| directory.display().to_string()).collect();
    for shard in shards {
        let name = format!("the copy of the log of shard {} in {}", shard.0, names.join(" "));
        match check_copy(directories, *shard) {
            Ok(Checked { acceptor, promised, log, lost: why }) => {
                println!("{name}: acceptor {}, which has promised term {}", hex(acceptor), promised.get());
                log.streams.iter().for_each(|stream| println!("{stream}"));
                let why = why.or_else(|| log.damage.clone());
                if let Some(why) = &why {
                    println!("{name}: DAMAGED: {why}");
                }
                if why.is_some() || !log.is_sound() {
                    lost.push(shard.0.to_string());
                }
            }
            // A process that uses it is no damage.
            Err(Unusable::Io(why)) => return Err(format!("{name}: {why}").into()),
            Err(why) => {
                println!("{name}: DAMAGED: {why}");
                lost.push(shard.0.to_string());
            }
        }
    }
    if lost.is_empty() {
        return Ok(());
    }
    Err(format!(
        "there is damage: the copy of shard {} does not vote, and `holdfast cluster group replace` gives its place a new folder; if a log-server has more directories, name all with --log-dirs",
        lost.join(", ")
    )
    .into())
}

/// Guesses which directory the user meant instead of this one.
fn hint(dir: &Path) -> String {
    let is_there = |name: &str| dir.join(name).is_dir();
    if is_there("store") && is_there("log") {
        return format!("{} has log and store of a server itself: the directory above it is meant", dir.display());
    }
    if is_there("store") && is_there("log-0") {
        return format!("{} looks like a backup that was never completed: it lacks the file BACKUP", dir.display());
    }
    format!(
        "is {} the `dir` of a server, a directory of a log-server, or a backup? --log-dirs and --store-dir name folders elsewhere",
        dir.display()
    )
}

/// Prints the contents of the store. Returns whether all of it is intact.
fn check_store(store: &Path) -> Result<bool, Box<dyn Error>> {
    let is_empty = !store.is_dir() || fs::read_dir(store)?.next().is_none();
    if is_empty {
        println!("{}: no store yet", store.display());
        return Ok(true);
    }
    let found = store::check(store)?;
    let (files, bytes) = (counted(found.files, "file"), counted(found.bytes, "byte"));
    println!("{}: {files}, {bytes} verified", store.display());
    for finding in &found.findings {
        let at = finding.offset.map(|offset| format!(" at byte {offset}")).unwrap_or_default();
        let word = if finding.damage { "DAMAGED" } else { "left over" };
        println!("{}{at}: {word}: {}", finding.file.display(), finding.what);
    }
    Ok(found.is_whole())
}
