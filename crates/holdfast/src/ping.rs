//! `holdfast ping`: whether a server answers, for health checks where there is no redis-cli.

use std::time::Duration;

use clap::Args;
use resp::Value;

use crate::client::{Connection, Target, explained, is_locked};

/// The longest time that the server may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// Asks a server whether it answers. A server that asks for a password answers, too. Fails if none does within 5 s
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    target: Target,
}

/// Asks, and prints the answer.
///
/// # Errors
/// There is no answer, or it is an error such as -LOADING.
pub fn run(options: &Options) -> Result<(), String> {
    let answer = Connection::open_within(&options.target, ANSWER).and_then(|mut server| server.call(&[b"PING"]));
    match answer {
        Ok(Value::Simple(text)) => println!("{}", String::from_utf8_lossy(&text)),
        Ok(_) => return Err(format!("{} has not answered as a server does", options.target)),
        Err(why) if is_locked(&why) => println!("{}", explained(why)),
        Err(why) => return Err(why),
    }
    Ok(())
}
