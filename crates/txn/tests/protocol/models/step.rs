//! The steps of the model, and how they are shown.

use txn::{Message, NodeId, TxnId};

use super::world::COORDINATORS;

#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Step {
    Deliver(Message, NodeId),
    Lose(Message, NodeId),
    Repeat(Message, NodeId),
    /// The log of a server is committed.
    Flush(usize),
    /// A server crashes and starts again: with everything that it has appended, or with the committed records.
    Crash(usize, bool),
    End(usize),
    /// A server hears that a coordinator has started again.
    Hear(usize, usize),
    /// A server is removed for good, and others hear of that.
    Forget(usize),
    ServerHears(usize, usize),
    /// Another node takes over the shard of a server: with all that it has appended, or with the committed records. Others
    /// hear of that.
    TakeOver(usize, bool),
    ServerHearsOfOwner(usize, usize),
    HostHearsOfOwner(usize, usize),
    /// A server gets another name, at another node: with all that it has appended, or with the committed records. Others
    /// learn of that.
    Recover(usize, bool),
    ServerLearns(usize, usize),
    HostLearns(usize, usize),
    HostHears(usize, usize),
    TickServer(usize),
    TickHost(usize),
    /// A part that a server has held back asks for its locks.
    Ask(usize, TxnId),
    /// A server does not let a part wait for its locks any longer.
    Doubt(usize, TxnId),
    Plain(usize),
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut message = |what: &str, message: &Message, to: &NodeId| {
            let text = format!("{message:?}");
            let kind = text.split([' ', '(']).next().unwrap_or("");
            let status =
                if let Message::Status { status, .. } = message { format!(" {status:?}") } else { String::new() };
            let tx = message.tx().map(|tx| format!("{}:{}:{}", tx.origin.life.node.0, tx.sequence, tx.attempt));
            write!(f, "{what} {kind}{status} {} to {}", tx.unwrap_or_default(), to.0)
        };
        match self {
            Step::Deliver(m, to) => message("deliver", m, to),
            Step::Lose(m, to) => message("lose", m, to),
            Step::Repeat(m, to) => message("repeat", m, to),
            Step::Flush(at) => write!(f, "flush {}", at + 1),
            Step::Crash(at, kept) => write!(f, "crash {}, kept {kept}", at + 1),
            Step::End(host) => write!(f, "end {}", COORDINATORS as usize + host),
            Step::Hear(at, host) => write!(f, "{} hears that {} ended", at + 1, COORDINATORS as usize + host),
            Step::Forget(at) => write!(f, "forget {}", at + 1),
            Step::ServerHears(at, lost) => write!(f, "{} hears that {} is lost", at + 1, lost + 1),
            Step::Recover(at, kept) => write!(f, "recover {}, kept {kept}", at + 1),
            Step::ServerLearns(at, lost) => write!(f, "{} learns that {} is recovered", at + 1, lost + 1),
            Step::HostLearns(host, lost) => {
                write!(f, "{} learns that {} is recovered", COORDINATORS as usize + host, lost + 1)
            }
            Step::TakeOver(at, kept) => write!(f, "take over {}, kept {kept}", at + 1),
            Step::ServerHearsOfOwner(at, taken) => write!(f, "{} hears that {} is taken over", at + 1, taken + 1),
            Step::HostHearsOfOwner(host, taken) => {
                write!(f, "{} hears that {} is taken over", COORDINATORS as usize + host, taken + 1)
            }
            Step::HostHears(host, lost) => {
                write!(f, "{} hears that {} is lost", COORDINATORS as usize + host, lost + 1)
            }
            Step::TickServer(at) => write!(f, "tick {}", at + 1),
            Step::TickHost(host) => write!(f, "tick {}", COORDINATORS as usize + host),
            Step::Ask(at, tx) => write!(f, "{} asks for the locks of {tx:?}", at + 1),
            Step::Doubt(at, tx) => write!(f, "{} does not wait for the locks of {tx:?}", at + 1),
            Step::Plain(at) => write!(f, "plain {at}"),
        }
    }
}
