//! The copies of a log as an operator sees them: INFO, metrics, the cluster's status, LATENCY and log lines.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::copies::Copied;
use crate::metrics::scrape;
use crate::support::free_port;

/// The longest wait for a line, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The directories of a log, and of a log-server.
const LOGS: &[&str] = &["holdfast/log"];
const DIRS: &[&str] = &["one"];

/// A field of INFO.
fn field<'a>(info: &'a str, name: &str) -> &'a str {
    let value = info.split(['\r', '\n', ' ']).find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("no {name}: {info}"))
}

impl Copied {
    fn info(&self) -> String {
        self.nodes.client(0).call("info log")
    }

    /// The line of INFO about the copy at a place.
    pub fn copy(&self, place: &str) -> String {
        let info = self.info();
        let end = format!("place={place}");
        let line = info.split(['\r', '\n', ' ']).find(|line| line.ends_with(&end));
        line.unwrap_or_else(|| panic!("no copy at {place}: {info}")).to_owned()
    }

    pub fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_so(self) {
            assert!(Instant::now() < end, "never: {what}: {}", self.info());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The node's log.
    pub fn logged(&self) -> String {
        self.nodes.log(0)
    }

    pub fn says(&self, line: &str) {
        self.until(line, |copied| copied.logged().contains(line));
    }
}

#[test]
fn an_operator_sees_the_copies_of_a_log() {
    let metrics = free_port();
    let mut copied = Copied::of(&format!("metrics-port {metrics}\n"), LOGS, DIRS);
    let [own, one, two] = copied.places();
    let info = copied.info();
    for (name, value) in [("copies", "3"), ("copies_counting", "3"), ("copies_answering", "3"), ("leads", "1")] {
        assert_eq!(field(&info, &format!("log_{name}")), value, "{info}");
    }
    assert!(copied.copy(&own).contains("state=own,counts=1,"), "{info}");
    copied.until("all have everything", |copied| copied.copy(&two).contains("state=up,counts=1,blocks_behind=0,"));

    // A copy is lost. Writes go on, and what it lacks grows.
    copied.servers[0] = None;
    copied.until("it is silent", |copied| copied.copy(&one).contains("state=silent,counts=1,"));
    copied.sets(40);
    let lost = copied.copy(&one);
    assert!(!lost.contains("blocks_behind=0,") && !lost.contains("bytes_behind=0,"), "{lost}");
    assert_eq!(field(&copied.info(), "log_copies_answering"), "2");
    let scraped = scrape(metrics);
    let has = |line: String| scraped.lines().any(|other| other == line);
    let board = include_str!("../../../../docs/operating/grafana.json");
    let words = board.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    for word in words.filter(|word| word.starts_with("holdfast_log_cop") || word.starts_with("holdfast_log_unc")) {
        assert!(scraped.contains(&format!("\n{word}")), "the dashboard asks for {word}");
    }
    assert!(has("holdfast_log_copies 3".to_owned()) && has("holdfast_log_copies_answering 2".to_owned()), "{scraped}");
    for (place, is_up) in [(&own, 1), (&one, 0), (&two, 1)] {
        assert!(has(format!("holdfast_log_copy_up{{place=\"{place}\"}} {is_up}")), "{place}: {scraped}");
    }
    assert!(!has(format!("holdfast_log_copy_lag_bytes{{place=\"{one}\"}} 0")), "{scraped}");
    copied.status(|status| {
        status.contains(&format!("{one} (does not answer)"))
            && status.contains("health: not ok")
            && status.contains("2 of 3 copies of shard 1 are up: if one more fails, nothing can be written")
    });
    copied.says(&format!("A copy of the log of shard 1 is lost: {one} does not answer"));
    let lines = copied.logged();
    let about = lines.lines().filter(|line| line.contains("is lost")).count();
    assert_eq!(about, 1, "one line: {lines}");

    // It is back, and is brought up.
    copied.start(0);
    copied.until("it has everything", |copied| copied.copy(&one).contains("state=up,counts=1,blocks_behind=0,"));
    copied.says(&format!("The copy of the log of shard 1 at {one} answers again"));
    copied.is_whole();
}

#[test]
fn a_log_that_waits_says_what_it_waits_for() {
    // The metadata have a majority without the log-servers.
    let mut copied = Copied::with("", LOGS, DIRS, 2);
    let [_, one, two] = copied.places();
    let mut client = copied.nodes.client(0);
    assert_eq!(client.call("config set latency-monitor-threshold 1"), "+OK");
    assert_eq!(client.call("config set log-stall-timeout 1"), "+OK");
    copied.servers = [None, None];
    let mut writer = copied.nodes.client(0);
    writer.send("set unheard 1");
    copied.says("The log has waited for its copies for");
    let refused = "MISCONF Errors writing to the AOF file: no majority of the log's copies has it for";
    copied.until("writes are refused", |copied| {
        let mut other = copied.nodes.client(0);
        other.send("set other 1");
        other.reply_within(PATIENCE).is_some_and(|reply| reply.contains(refused) && reply.contains(&one))
    });
    assert!(copied.info().contains("log_uncommitted_bytes:"));
    assert_ne!(field(&copied.info(), "log_uncommitted_bytes"), "0");
    assert!(client.call("latency latest").contains("log-copies"), "{}", client.call("latency latest"));
    copied.status(|status| status.contains("nothing can be written") && status.contains(&two));
    (0..2).for_each(|server| copied.start(server));
    copied.says("A majority of the copies has the log again: commands that write are accepted");
    copied.is_whole();
    copied.sets(10);
}

/// The own disk confirms what is written with `everysec`, but no longer than the log is waited for.
#[test]
fn with_everysec_writes_are_refused_while_no_majority_answers() {
    let mut copied = Copied::with("", LOGS, DIRS, 2);
    let mut client = copied.nodes.client(0);
    for settings in ["appendfsync everysec", "log-stall-timeout 1"] {
        assert_eq!(client.call(&format!("config set {settings}")), "+OK");
    }
    copied.sets(10);
    copied.servers = [None, None];
    // It never rests, and is far from `log-backlog`.
    let (end, mut written) = (Instant::now() + PATIENCE, 0);
    let refused = loop {
        assert!(Instant::now() < end, "{written} writes were confirmed: {}", copied.info());
        match client.try_call("set key:0 0") {
            Some(reply) if reply != "+OK" && !reply.starts_with("-CLUSTERDOWN") => break reply,
            Some(_) => written += 1,
            // A client whose write has begun to wait is closed.
            None => client = copied.nodes.client(0),
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    assert!(
        refused.starts_with("-MISCONF") && refused.contains("no majority of the log's copies has it for"),
        "{refused}"
    );
    copied.has_all();
    (0..2).for_each(|server| copied.start(server));
    copied.says("A majority of the copies has the log again: commands that write are accepted");
    copied.is_whole();
    copied.sets(10);
}

/// The place is given to a new folder: until that has everything, the copies are not three of three.
#[test]
fn a_folder_that_replaces_another_one_is_not_counted_too_early() {
    let mut copied = Copied::new();
    copied.sets(200);
    let [_, one, _] = copied.places();
    copied.servers[0] = None;
    fs::remove_dir_all(copied.scratches[0].path().join("one/shard-1")).unwrap();
    let said = copied.group(&["replace", &one, &one]);
    assert!(said.contains("takes the place of"), "{said}");
    // Nothing is there yet.
    copied.status(|status| status.contains("2 of 3") && status.contains("health: not ok"));
    copied.start(0);
    let is_early = |status: &str| {
        let whole = status.contains("3 of 3") || status.contains("health: ok");
        whole && ["(no folder yet", "(catches up", "(waits"].iter().any(|mark| status.contains(mark))
    };
    copied.status(|status| {
        assert!(!is_early(status), "{status}");
        status.contains("3 of 3") && status.contains("health: ok")
    });
    copied.says(&format!("The copy of the log of shard 1 at {one} counts now"));
}

/// Runs `holdfast check`. Returns true if it succeeded, and its output.
fn check(dir: &Path) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_holdfast")).arg("check").arg(dir).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text.into_owned())
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(&path, &to).unwrap();
        }
    }
}

/// The newest segment of a copy's only stream.
fn segment(shard: &Path) -> PathBuf {
    let names = fs::read_dir(shard.join("stream-0")).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.extension().is_some_and(|extension| extension == "log")).max().unwrap()
}

#[test]
fn a_check_reads_copies_of_logs() {
    let mut copied = Copied::new();
    copied.sets(50);
    let directory = copied.scratches[0].path().join("one");
    let shard = directory.join("shard-1");
    let (is_well, text) = check(&directory);
    assert!(!is_well && text.contains("is used by another server") && !text.contains("DAMAGED"), "{text}");
    for server in copied.servers.iter_mut().flatten() {
        assert!(server.ends_well());
    }
    copied.servers = [None, None];
    copied.nodes.kill(0);
    for dir in [&directory, &shard] {
        let (is_well, text) = check(dir);
        assert!(is_well && text.contains("everything is as it was written: the copy votes"), "{text}");
        assert!(text.contains("the copy of the log of shard 1 in ") && text.contains("/stream-0/: "), "{text}");
    }

    // A node: its own log is one of the copies, and it may have those of others.
    let of_node = copied.nodes.dirs[0].path();
    let (is_well, text) = check(of_node);
    assert!(is_well && text.contains("the log of shard 1, which has copies: acceptor "), "{text}");
    let other = of_node.join("holdfast/copies/shard-1");
    copy(&shard, &other);
    let (is_well, text) = check(of_node);
    assert!(is_well && text.contains("the copy of the log of shard 1 in "), "{text}");
    fs::remove_file(other.join("promise")).unwrap();
    let (is_well, text) = check(of_node);
    assert!(!is_well && text.contains("promise is gone") && text.contains("does not vote"), "{text}");

    // Whatever is lost or damaged is told.
    let newest = segment(&shard);
    let whole = fs::read(&newest).unwrap();
    let damaged = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&newest, bytes).unwrap();
        check(&directory)
    };
    let (is_well, text) = damaged(4096 + 20);
    assert!(!is_well && text.contains("DAMAGED") && text.contains("does not vote"), "{text}");
    fs::write(&newest, &whole).unwrap();
    assert!(check(&directory).0);
    for file in ["acceptor", "promise"] {
        let path = shard.join(file);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..20]).unwrap();
        let (is_well, text) = check(&directory);
        assert!(!is_well && text.contains("DAMAGED") && text.contains("does not vote"), "{file}: {text}");
        fs::write(&path, &whole).unwrap();
    }
    fs::remove_dir_all(shard.join("stream-0")).unwrap();
    let (is_well, text) = check(&directory);
    assert!(!is_well && text.contains("stream-0 is gone"), "{text}");
}

/// The first directory of a log-server has its part of the metadata. Without that it joins as another member, at the same
/// address, and has what is in its other directories.
#[test]
fn a_log_server_that_lost_its_metadata_is_given_its_places_again() {
    let mut copied = Copied::new();
    let status = copied.nodes.until(0, "cluster status", |status| status.contains("3 of 3"));
    let at = format!("127.0.0.1:{}@", copied.ports[0]);
    let row = |status: &str| -> Vec<String> {
        status.split(['\r', '\n']).filter(|line| line.contains(&at)).map(str::to_owned).collect()
    };
    let before = row(&status)[0].split(' ').next().unwrap().to_owned();
    copied.servers[0] = None;
    fs::remove_dir_all(copied.scratches[0].path().join("one")).unwrap();
    copied.start(0);
    copied.status(|status| row(status).len() == 2 && row(status).iter().any(|line| line.contains("  lost  ")));
    copied.sets(20);
    let [_, one, _] = copied.places();
    let said = copied.group(&["replace", &one, &one]);
    assert!(said.contains("takes the place of"), "{said}");
    copied.status(|status| status.contains("3 of 3"));
    let mut client = copied.nodes.client(0);
    assert_eq!(client.call(&format!("cluster forget {before}")), "+OK");
    copied.is_whole();
    // It counts.
    copied.servers[1] = None;
    copied.sets(20);
}
