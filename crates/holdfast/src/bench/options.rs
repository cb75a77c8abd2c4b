//! The command line of `holdfast bench`, and what is refused in it.

use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::nodes::Address;
use crate::client::Target;

/// How long connecting and logging in may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The same with `--reconnect`, where another server may have what is asked for.
const RECONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a connection alone may take then: a kernel that is there answers at once.
const REDIAL_TIMEOUT: Duration = Duration::from_millis(100);
/// Upper bound of `--connections`: beyond it one machine's ports and descriptors run out.
const CONNECTIONS_MAX: usize = 60_000;
/// Upper bound of `--batch`; a batch is encoded whole before it is sent.
const BATCH_MAX: usize = 100_000;
/// Upper bound of a value's size, Redis's own limit for a string.
const VALUE_MAX: usize = 512 << 20;
/// Key numbers stay exact in the arithmetic of the key distributions.
const KEYS_MAX: u64 = 1 << 40;

/// How the commands of a batch are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// One command, one reply
    Single,
    /// The commands of a batch in one write, then all their replies
    Pipeline,
    /// MULTI, the commands of a batch, EXEC in one write: a transaction
    Tx,
}

/// Which keys are drawn how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Distribution {
    /// Every key is as likely as any other
    Uniform,
    /// Few keys are drawn often (see --zipf-theta), spread over the whole key space
    Zipf,
    /// Always the same key
    OneKey,
    /// Uniform, and all keys share one {tag}, hence one slot
    OneTag,
}

/// A value's size in bytes: one size, or a range from which each size is drawn uniformly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueSize {
    /// Smallest size, in bytes.
    pub min: usize,
    /// Largest size, in bytes.
    pub max: usize,
}

impl FromStr for ValueSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| part.parse().map_err(|_| format!("expected BYTES or MIN-MAX, not `{text}`"));
        let (min, max) = match text.split_once('-') {
            Some((min, max)) => (number(min)?, number(max)?),
            None => (number(text)?, number(text)?),
        };
        if min > max || max > VALUE_MAX {
            return Err(format!("accepted are 0 to {VALUE_MAX} bytes, the smaller size first"));
        }
        Ok(Self { min, max })
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| format!("expected seconds, not `{text}`"))?;
    if !(0.0..=1e6).contains(&number) {
        return Err("accepted are 0 to 1000000 seconds".into());
    }
    Ok(Duration::from_secs_f64(number))
}

/// Measures a server: this one, Redis, or any other that speaks its protocol.
#[derive(Args, Clone, Debug)]
#[command(after_help = "EXAMPLES:
  holdfast bench --load --keys 1000000                      fill the keys, then GET and SET, half and half
  holdfast bench --get-ratio 1 --mode pipeline --batch 16   GET in pipelines of 16
  holdfast bench --get-ratio 0 --mode tx --batch 6          MULTI, 6 SET, EXEC
  holdfast bench --command 'HSET __key__ field __data__'    any command
  holdfast bench --server-pid $(pidof redis-server)         also the server's CPU time per operation

Latency is that of a batch: from its write to its last reply. A retried transaction counts from its first try.")]
pub struct Options {
    #[command(flatten)]
    pub target: Target,
    /// Spread the connections over these servers, as clients do that do not know of the cluster
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',', conflicts_with_all = ["host", "port", "unix_socket"])]
    pub nodes: Vec<Address>,
    /// Ask for CLUSTER SLOTS and send each command to the owner of its key, as clients of Redis Cluster do. GET and SET
    /// only
    #[arg(long, conflicts_with_all = ["command", "load_command", "against", "subscribers"])]
    pub cluster: bool,
    /// Give each of --nodes an equal share of the slots and send each command to the owner of its key. Clients that
    /// shard keys over independent servers do so. GET and SET only
    #[arg(long, requires = "nodes", conflicts_with_all = ["cluster", "command", "load_command", "against", "subscribers"])]
    pub shard: bool,
    /// Number of the database to use
    #[arg(long, default_value_t = 0)]
    pub db: u32,
    /// Speak RESP3 (HELLO 3) instead of RESP2
    #[arg(long)]
    pub resp3: bool,

    /// Number of different keys
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=KEYS_MAX))]
    pub keys: u64,
    /// Prefix of every key. The key's number follows, padded with zeros
    #[arg(long, default_value = "kv_")]
    pub key_prefix: String,
    /// Pad keys to this many bytes (default: as short as fits the largest number)
    #[arg(long, value_name = "BYTES")]
    pub key_size: Option<usize>,
    /// Size of values: BYTES, or MIN-MAX to draw each size uniformly
    #[arg(long, default_value = "128", value_name = "BYTES")]
    pub value_size: ValueSize,
    /// How keys are drawn
    #[arg(long, value_enum, default_value_t = Distribution::Uniform)]
    pub distribution: Distribution,
    /// Skew of --distribution zipf: 0 is uniform; 0.99 is YCSB's
    #[arg(long, default_value_t = 0.99)]
    pub zipf_theta: f64,
    /// Seed of keys and values: the same seed sends the same commands
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// Share of GET among GET and SET, 0 to 1
    #[arg(long, default_value_t = 0.5)]
    pub get_ratio: f64,
    /// Send this command instead: a line, or one of get, set, incr, msetN, mgetN, delN (N keys, such as mset10). In a
    /// line __key__ stands for a key, __data__ for a value, and __same__ for the key before. Given several times, the
    /// commands follow one another, and the mode `single` sends each of them once as one batch
    #[arg(long, value_name = "LINE", conflicts_with = "get_ratio")]
    pub command: Vec<String>,
    /// Have every other connection send this command instead, such as a BRPOP beside LPUSH
    #[arg(long, value_name = "LINE", conflicts_with = "load_only")]
    pub against: Option<String>,
    /// Open so many additional connections that subscribe to the channel `bench` and read its messages
    #[arg(long, default_value_t = 0, value_name = "COUNT")]
    pub subscribers: usize,
    /// How commands are sent
    #[arg(long, value_enum, default_value_t = Mode::Single)]
    pub mode: Mode,
    /// Commands per batch in the modes pipeline and tx (1 to 100000)
    #[arg(long, default_value_t = 16)]
    pub batch: usize,
    /// Send a transaction again up to this many times when EXEC answers nil or an error
    #[arg(long, default_value_t = 10)]
    pub retries: u32,

    /// Connections, over all threads (1 to 60000)
    #[arg(long, default_value_t = 50)]
    pub connections: usize,
    /// Threads; one saturates most servers
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Seconds to measure
    #[arg(long, default_value = "10", value_name = "SECONDS", value_parser = seconds, conflicts_with = "operations")]
    pub duration: Duration,
    /// Commands to send, instead of a duration
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub operations: Option<u64>,
    /// Seconds to run before measuring
    #[arg(long, default_value = "0", value_name = "SECONDS", value_parser = seconds)]
    pub warmup: Duration,
    /// Send this many commands a second at most, on schedule; latency then counts from the scheduled time
    #[arg(long, value_name = "PER_SECOND")]
    pub rate: Option<f64>,

    /// Connect again when a server closes a connection, with --cluster to whoever has the slots then. Without --cluster the
    /// next one of --nodes is tried
    #[arg(long)]
    pub reconnect: bool,
    /// Give a connection up whose batch has no reply for so long. With --reconnect it counts as lost and is made again, else
    /// the run fails
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<Duration>,
    /// Add to the JSON what happened in each interval of so many milliseconds: answers, errors, mean and longest latency
    #[arg(long, value_name = "MS", requires = "json", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub timeline: Option<u64>,

    /// First SET every key once
    #[arg(long)]
    pub load: bool,
    /// Load each key with this command instead of SET: a line as in --command
    #[arg(long, value_name = "LINE")]
    pub load_command: Option<String>,
    /// Only load, measure nothing
    #[arg(long, conflicts_with_all = ["operations", "warmup", "command"])]
    pub load_only: bool,
    /// Process ID of a server on this machine: report its CPU time per operation and its memory. With several, report
    /// the sums
    #[arg(long, value_name = "PID,...", value_delimiter = ',')]
    pub server_pid: Vec<u32>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// No progress bar
    #[arg(long)]
    pub quiet: bool,
}

impl Options {
    /// How long connecting and logging in may take, each.
    pub fn patience(&self) -> Duration {
        if self.reconnect { RECONNECT_TIMEOUT } else { CONNECT_TIMEOUT }
    }

    /// How long a connection alone may take.
    pub fn dial_patience(&self) -> Duration {
        if self.reconnect { REDIAL_TIMEOUT } else { CONNECT_TIMEOUT }
    }

    /// Refuses combinations of options that the check of a single option cannot see.
    ///
    /// # Errors
    /// Names the option, its value and the accepted values.
    pub fn check(&self) -> Result<(), String> {
        let refuse = |option: &str, value: &dyn std::fmt::Display, accepted: &str| {
            Err(format!("--{option} {value}: accepted are {accepted}"))
        };
        if !(0.0..=1.0).contains(&self.get_ratio) {
            return refuse("get-ratio", &self.get_ratio, "0 (only SET) to 1 (only GET)");
        }
        if self.subscribers > CONNECTIONS_MAX {
            return refuse("subscribers", &self.subscribers, &format!("0 to {CONNECTIONS_MAX}"));
        }
        if !(1..=CONNECTIONS_MAX).contains(&self.connections) {
            return refuse("connections", &self.connections, &format!("1 to {CONNECTIONS_MAX}"));
        }
        if self.threads == 0 || self.threads > self.connections {
            return refuse("threads", &self.threads, "1 to the number of connections");
        }
        if !(1..=BATCH_MAX).contains(&self.batch) {
            return refuse("batch", &self.batch, &format!("1 to {BATCH_MAX}"));
        }
        let by_key = self.cluster || self.shard;
        if by_key && self.mode == Mode::Tx {
            return refuse("mode", &"tx", "single and pipeline with --cluster and --shard");
        }
        if by_key && matches!(self.distribution, Distribution::OneKey | Distribution::OneTag) {
            return refuse("distribution", &"one-key or one-tag", "uniform and zipf with --cluster and --shard");
        }
        if !(0.0..10.0).contains(&self.zipf_theta) {
            return refuse("zipf-theta", &self.zipf_theta, "0 (uniform) to below 10");
        }
        if self.rate.is_some_and(|rate| !(rate > 0.0 && rate <= 1e9)) {
            return refuse("rate", &self.rate.unwrap_or_default(), "above 0 to 1000000000 commands a second");
        }
        let shortest = self.prefix().len() + self.digits();
        if self.key_size.is_some_and(|size| size < shortest || size > 1 << 20) {
            let accepted = format!("{shortest} (prefix and largest number) to {}", 1 << 20);
            return refuse("key-size", &self.key_size.unwrap_or_default(), &accepted);
        }
        Ok(())
    }

    /// Commands in one batch.
    pub fn batch(&self) -> usize {
        if self.mode == Mode::Single { self.command.len().max(1) } else { self.batch }
    }

    /// The prefix of every key, the hash tag included.
    pub fn prefix(&self) -> String {
        match self.distribution {
            Distribution::OneTag => format!("{{tag}}{}", self.key_prefix),
            _ => self.key_prefix.clone(),
        }
    }

    /// Decimal digits of a key's number as it is written, padding included.
    pub fn key_digits(&self) -> usize {
        match self.key_size {
            Some(size) => size.saturating_sub(self.prefix().len()),
            None => self.digits(),
        }
    }

    fn digits(&self) -> usize {
        (self.keys - 1).checked_ilog10().unwrap_or(0) as usize + 1
    }
}
