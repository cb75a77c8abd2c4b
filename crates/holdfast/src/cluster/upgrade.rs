//! `holdfast cluster upgrade`: all machines of a cluster are restarted, one after the other, and clients notice nothing.
//!
//! Nothing is remembered anywhere: what is to be done next follows from what the cluster says now. So the command may be
//! interrupted at any moment, and goes on when it is run again.

pub mod plan;
pub mod view;

use std::collections::BTreeMap;
use std::process::Command;
use std::thread;
use std::time::Duration;

use clap::Args;
use membership::level;

use self::plan::{Machine, Move};
use self::view::{Member, View};
use crate::client::{Connection, Target, explained};

/// The time between two looks at the cluster.
const LOOK: Duration = Duration::from_millis(200);

/// The longest time that a node may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// Looks until the owner of a shard is asked again to give it away: it gives up if a script does not end.
const ASK_AGAIN: u32 = 50;

/// Restarts all machines with the build of this command, one after the other, without an error to any client.
///
/// Run the new build's command, when that build is installed on all machines. Before each restart it waits until the
/// cluster is whole, gives the machine's shards to standbys elsewhere, and says which machine to restart. It goes on when
/// that is back. Interrupt it at any time, and run it again. To go back, run the earlier build's command: that works until
/// `holdfast cluster finalize`.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    target: Target,
    /// Only say the order of the machines, and whether it is safe now: if not, this command fails
    #[arg(long)]
    check: bool,
    /// Restart machines that run this build already, too
    #[arg(long)]
    restart: bool,
    /// Restart machines although clients have to wait meanwhile, or get errors, as for shards without standbys
    #[arg(long)]
    with_pauses: bool,
    /// Run this command for each machine instead of asking you to restart it. HOLDFAST_HOST is the name of the machine,
    /// and HOLDFAST_NODES has the addresses of its nodes
    #[arg(long, value_name = "COMMAND")]
    run: Option<String>,
}

/// The build that a process runs: its release, and the highest level that it speaks.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Build {
    version: String,
    level: u16,
}

impl Build {
    fn own() -> Self {
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), level: level::HIGHEST }
    }

    /// As INFO tells it. A build without a level there is an earlier one.
    fn read(info: &str) -> Self {
        let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let version = field("holdfast_version").unwrap_or("an earlier version").trim().to_owned();
        Self { version, level: field("holdfast_level").and_then(|level| level.trim().parse().ok()).unwrap_or(0) }
    }
}

impl std::fmt::Display for Build {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.level {
            0 => write!(f, "{} of an earlier level", self.version),
            level => write!(f, "{}, level {level}", self.version),
        }
    }
}

/// Restarts what is to be restarted.
///
/// # Errors
/// The cluster cannot be asked, does not take this build, or is not safe to restart now (`--check`); or the command of
/// `--run` has failed.
pub fn run(options: &Options) -> Result<(), String> {
    let mut rolling = Rolling::of(options);
    let view = rolling.look().map_err(explained)?;
    plan::fits(&view)?;
    rolling.began = view.members.iter().map(|member| (member.id.clone(), member.starts)).collect();
    rolling.tell(&view);
    if options.check {
        return rolling.check(&view);
    }
    rolling.restart_all()?;
    println!("all machines run {}", Build::own());
    if view.level < level::HIGHEST {
        println!(
            "the cluster is at level {}, and each node can go back to the build before: \
             `holdfast cluster finalize` ends that, when all is well",
            view.level
        );
    }
    Ok(())
}

/// The members of a cluster, and what is known of them.
struct Rolling<'a> {
    options: &'a Options,
    /// Nodes that may be asked: the one that the operator has named, and all others.
    nodes: Vec<Target>,
    /// How often each member had started when the command began, by its name.
    began: BTreeMap<String, u64>,
    /// The builds of lives of members, by name and number of starts.
    builds: BTreeMap<(String, u64), Build>,
    /// Ports for TLS, by the names of nodes.
    ports: BTreeMap<String, u16>,
    /// The last line that was printed.
    said: String,
}

impl<'a> Rolling<'a> {
    fn of(options: &'a Options) -> Self {
        let nodes = vec![options.target.clone()];
        let (began, builds, ports, said) = Default::default();
        Self { options, nodes, began, builds, ports, said }
    }

    /// Prints a line, once.
    fn say(&mut self, text: String) {
        if text != self.said {
            println!("{text}");
            self.said = text;
        }
    }

    /// The cluster now, as the first node tells it that answers.
    fn look(&mut self) -> Result<View, String> {
        let mut failed = String::new();
        for at in 0..self.nodes.len() {
            match asked(&self.nodes[at], &[b"CLUSTER", b"STATUS"]).and_then(|text| View::read(&text)) {
                Ok(view) => {
                    self.nodes.swap(0, at);
                    self.know(&view);
                    return Ok(view);
                }
                Err(why) if failed.is_empty() => failed = why,
                Err(_) => {}
            }
        }
        Err(failed)
    }

    /// Remembers which other nodes may be asked.
    fn know(&mut self, view: &View) {
        let first = self.nodes[0].clone();
        if first.tls.tls
            && let Ok(nodes) = asked(&first, &[b"CLUSTER", b"NODES"])
        {
            let port = |line: &str| {
                let mut words = line.split(' ');
                let (id, address) = (words.next()?, words.next()?.split_once('@')?.0);
                Some((id.to_owned(), address.rsplit_once(':')?.1.parse().ok()?))
            };
            self.ports = nodes.lines().filter_map(port).collect();
        }
        let others =
            view.members.iter().filter(|member| !member.is_log_server).filter_map(|member| self.target(member));
        self.nodes = [first].into_iter().chain(others).collect();
    }

    /// Where a member answers.
    fn target(&self, member: &Member) -> Option<Target> {
        let (host, port) = member.address.rsplit_once(':')?;
        let port = self.ports.get(&member.id).copied().map_or_else(|| port.parse().ok(), Some)?;
        let mut target = self.options.target.at(host.to_owned(), port);
        // A log-server has no port with TLS.
        target.tls.tls &= !member.is_log_server;
        Some(target)
    }

    /// The build of a member.
    fn build(&mut self, member: &Member) -> Result<Build, String> {
        let life = (member.id.clone(), member.starts);
        if let Some(build) = self.builds.get(&life) {
            return Ok(build.clone());
        }
        let target = self.target(member).ok_or_else(|| format!("{} is no address", member.address))?;
        let build = match asked(&target, &[b"INFO", b"server"]) {
            Ok(info) => Build::read(&info),
            // A log-server of an earlier build.
            Err(why) if member.is_log_server && why.contains("a log-server has no keys") => Build::read(""),
            Err(why) => return Err(why),
        };
        self.builds.insert(life, build.clone());
        Ok(build)
    }

    /// Why a member is still to be restarted, in words; none: it is done.
    fn lacks(&mut self, member: &Member) -> Option<String> {
        let place = &member.address;
        if !member.is_up {
            return Some(format!("{place} is not up"));
        }
        if member.is_log_server && place.ends_with(":0") {
            // It answers nobody. The agent of its machine, which has only ports with TLS, restarts it with the nodes.
            return None;
        }
        match self.build(member) {
            Err(why) => Some(format!("{place} does not answer: {why}")),
            Ok(build) if build != Build::own() => Some(format!("{place} runs {build}")),
            Ok(_) if !self.options.restart => None,
            Ok(_) => {
                let began = self.began.get(&member.id).is_some_and(|began| member.starts <= *began);
                began.then(|| format!("{place} has not started again"))
            }
        }
    }

    /// The troubles of a machine.
    fn lack(&mut self, view: &View, name: &str) -> Vec<String> {
        let members: Vec<Member> = view.members.iter().filter(|member| member.machine == name).cloned().collect();
        members.iter().filter_map(|member| self.lacks(member)).collect()
    }

    /// The machines that are still to be restarted, in order.
    fn left(&mut self, view: &View) -> Vec<Machine> {
        let machines = plan::machines(view).into_iter();
        machines.filter(|machine| !self.lack(view, &machine.name).is_empty()).collect()
    }

    /// Prints the order.
    fn tell(&mut self, view: &View) {
        println!("the cluster is at level {}; this build is {}", view.level, Build::own());
        let left = self.left(view);
        if left.is_empty() {
            return println!("no machine is to be restarted (`--restart` does so all the same)");
        }
        println!("machines are restarted in this order:");
        for (number, machine) in left.iter().enumerate() {
            let part = match (machine.owns, machine.leads) {
                (0, false) => String::new(),
                (0, true) => ", leads the metadata".to_owned(),
                (owns, leads) => format!(", owns shards: {owns}{}", if leads { ", leads the metadata" } else { "" }),
            };
            println!("  {}. {} ({}){part}", number + 1, machine.name, machine.members.join(" "));
        }
    }

    /// Says whether the first restart could begin now.
    fn check(&mut self, view: &View) -> Result<(), String> {
        let mut reasons = plan::troubles(view);
        if !self.options.with_pauses {
            let pauses = |machine: &Machine| {
                let of = plan::pauses(view, machine).into_iter();
                of.map(|why| format!("without {}: {why}", machine.name)).collect::<Vec<_>>()
            };
            reasons.extend(self.left(view).iter().flat_map(pauses));
        }
        if reasons.is_empty() {
            println!("it is safe now");
            return Ok(());
        }
        Err(format!("it is not safe now:\n  {}", reasons.join("\n  ")))
    }

    fn restart_all(&mut self) -> Result<(), String> {
        loop {
            let view = self.whole();
            let Some(machine) = self.left(&view).into_iter().next() else { break };
            let pauses = plan::pauses(&view, &machine);
            if !pauses.is_empty() && !self.options.with_pauses {
                let why = pauses.join("; ");
                self.say(format!(
                    "waits: without {} clients would have to wait ({why}). --with-pauses restarts it all the same",
                    machine.name
                ));
                thread::park_timeout(LOOK);
                continue;
            }
            match plan::moves(&view, &machine).first() {
                // Then the cluster has to be whole again: the standby is counted anew.
                Some(of) => self.give(of),
                None => self.restart(&view, &machine)?,
            }
        }
        while let Some(of) = plan::balance(&self.whole()) {
            self.give(&of);
        }
        Ok(())
    }

    /// Waits until nothing is amiss and nothing changes hands.
    fn whole(&mut self) -> View {
        let owners = |view: &View| view.shards.iter().map(|shard| shard.owner.clone()).collect::<Vec<_>>();
        let mut before: Option<View> = None;
        loop {
            match self.look() {
                Ok(view) => {
                    let troubles = plan::troubles(&view);
                    if !troubles.is_empty() {
                        self.say(format!("waits: {}", troubles.join("; ")));
                    } else if before.as_ref().is_some_and(|before| owners(before) == owners(&view)) {
                        return view;
                    }
                    before = troubles.is_empty().then_some(view);
                }
                Err(why) => {
                    self.say(format!("waits: no node answers ({why})"));
                    before = None;
                }
            }
            thread::park_timeout(LOOK);
        }
    }

    /// Has a shard change hands, if its standby can take it now.
    fn give(&mut self, of: &Move) {
        let Move { shard, from, to } = of;
        self.say(format!("shard {shard} goes from {from} to {to}"));
        let number = shard.to_string();
        let words: [&[u8]; 5] = [b"CLUSTER", b"SWITCHOVER", number.as_bytes(), b"TO", to.as_bytes()];
        let answer = Connection::open_within(&self.nodes[0], ANSWER).and_then(|mut node| node.call(&words));
        if let Err(why) = answer {
            self.say(format!("shard {shard} stays at {from} for now: {}", why.strip_prefix("ERR ").unwrap_or(&why)));
        }
        // If it does not come to be, the plan is made anew.
        for _ in 0..ASK_AGAIN {
            let owner = self.look().ok().and_then(|view| view.shards.into_iter().find(|known| known.number == *shard));
            if owner.is_some_and(|known| known.owner != *from) {
                return;
            }
            thread::park_timeout(LOOK);
        }
    }

    /// Has a machine restarted, and waits until it is back.
    fn restart(&mut self, view: &View, machine: &Machine) -> Result<(), String> {
        let (name, nodes) = (&machine.name, machine.members.join(" "));
        match &self.options.run {
            None => self.say(format!("restart {name} now, with {} ({nodes})", Build::own())),
            Some(command) => {
                self.say(format!("{name} is restarted ({nodes})"));
                let mut shell = Command::new("sh");
                shell.arg("-c").arg(command).env("HOLDFAST_HOST", name).env("HOLDFAST_NODES", &nodes);
                let status = shell.status().map_err(|why| format!("sh cannot be run: {why}"))?;
                if !status.success() {
                    return Err(format!("the command for {name} has failed ({status}): run this again when it can be"));
                }
            }
        }
        let began = self.lack(view, name);
        loop {
            if let Ok(view) = self.look() {
                let lack = self.lack(&view, name);
                if lack.is_empty() {
                    self.say(format!("{name} is back"));
                    return Ok(());
                }
                if lack != began {
                    self.say(format!("waits for {name}: {}", lack.join("; ")));
                }
            }
            thread::park_timeout(LOOK);
        }
    }
}

/// The text that a node answers.
fn asked(target: &Target, words: &[&[u8]]) -> Result<String, String> {
    super::text(Connection::open_within(target, ANSWER)?.call(words)?, target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_is_known_by_its_release_and_its_level() {
        let own = Build::own();
        let info = format!("# Server\r\nholdfast_version:{}\r\nholdfast_level:{}\r\n", own.version, own.level);
        assert_eq!(Build::read(&info), own);
        let earlier = Build::read("redis_version:8.0.0\r\nholdfast_version:0.1.0\r\n");
        assert_ne!(earlier, own);
        assert_eq!(earlier.to_string(), "0.1.0 of an earlier level");
    }
}
