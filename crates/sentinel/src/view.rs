//! The masters of a cluster, and the processes that answer for them.

/// The channel of a new address.
const SWITCH: &str = "+switch-master";
/// The channels of masters that are lost, and are back.
const DOWN: &str = "+odown";
const BACK: &str = "-odown";

/// Where a process is reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// A name or an address. Empty: the address at which the client has reached this process.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Its name: 40 hexadecimal digits.
    pub id: String,
}

/// A name that clients ask for, and the process behind it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Master {
    /// The name.
    pub name: String,
    /// The process.
    pub place: Place,
    /// True if it serves.
    pub is_up: bool,
    /// Rises with every change of the process.
    pub epoch: u64,
    /// Processes that serve reads of the same keys.
    pub replicas: Vec<Place>,
}

/// A cluster as its Sentinels see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    /// The Redis version whose behaviour the server has.
    pub version: &'static str,
    /// The name of this process: 40 hexadecimal digits.
    pub id: String,
    /// The masters. No two have one name.
    pub masters: Vec<Master>,
    /// The other processes that answer as this one does.
    pub others: Vec<Place>,
    /// How many processes decide on masters, and how many of these answer.
    pub voters: (usize, usize),
}

impl View {
    /// The master of a name, whatever its case.
    #[must_use]
    pub fn master(&self, name: &[u8]) -> Option<&Master> {
        self.masters.iter().find(|master| master.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// True if a majority of those that decide on masters answers.
    #[must_use]
    pub fn has_quorum(&self) -> bool {
        self.voters.1 * 2 > self.voters.0
    }
}

/// A message for subscribers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct News {
    /// Its channel.
    pub channel: &'static str,
    /// The text: a master's name, its old address and its new one, as Redis Sentinel has it.
    pub text: String,
}

/// The messages for subscribers when a view replaces another one.
#[must_use]
pub fn news(before: &View, now: &View) -> Vec<News> {
    let mut news = Vec::new();
    for master in &now.masters {
        let Some(old) = before.master(master.name.as_bytes()) else { continue };
        let (name, from, to) = (&master.name, &old.place, &master.place);
        if (&from.host, from.port) != (&to.host, to.port) {
            let text = format!("{name} {} {} {} {}", from.host, from.port, to.host, to.port);
            news.push(News { channel: SWITCH, text });
        } else if old.is_up != master.is_up {
            let channel = if master.is_up { BACK } else { DOWN };
            news.push(News { channel, text: format!("master {name} {} {}", to.host, to.port) });
        }
    }
    news
}
