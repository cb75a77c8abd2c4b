//! Carries out changes of `CONFIG SET` outside the node: the log, the working directory, listeners, limits of the
//! process.

use std::sync::Arc;

use node::config::{Host, Row, Settings};

use super::crash;
use super::log::Log;
use super::member::Certificates;
use super::oom;
use super::process;
use super::switch::Switch;
use super::title::Title;

/// This process.
#[derive(Debug)]
pub struct Process {
    /// Its log.
    pub log: Log,
    /// The log of its data.
    pub switch: Arc<Switch>,
    /// Its listeners.
    pub listening: net::Listening,
    /// The certificates that it shows other nodes.
    pub certificates: Certificates,
    /// Its title.
    pub title: Title,
}

impl Process {
    /// Has new connections of clients use the present settings of TLS.
    fn change_tls(&self, settings: &Settings) -> Result<(), String> {
        self.listening.change_tls(settings).map_err(|why| {
            tracing::warn!("{why}");
            "Unable to update TLS configuration. Check server logs.".to_owned()
        })
    }
}

impl Host for Process {
    fn enter_dir(&mut self, path: &[u8]) -> Result<Vec<u8>, String> {
        process::enter_dir(path).map_err(|error| in_words(&error))
    }

    fn apply(&mut self, row: &'static Row, settings: &Settings) -> Result<(), String> {
        match row.name {
            "loglevel" => self.log.set_level(settings.loglevel),
            "maxclients" => {
                let possible = process::reserve_files(settings.maxclients);
                if possible < settings.maxclients {
                    return Err(format!(
                        "The operating system is not able to handle the specified number of clients, try with {possible}"
                    ));
                }
            }
            "port" | "bind" => {
                if let Err(error) = self.listening.change(settings) {
                    tracing::warn!(cause = row.name, "{error}");
                    let refusal = match row.name {
                        "port" => "Unable to listen on this port. Check server logs.",
                        _ => "Failed to bind to specified addresses.",
                    };
                    return Err(refusal.to_owned());
                }
                self.title.show(settings);
            }
            "tls-cluster" => return Err("it is the same on all nodes, and not changed while they run".to_owned()),
            "tls-port" => {
                self.change_tls(settings)?;
                if let Err(error) = self.listening.change(settings) {
                    tracing::warn!(cause = row.name, "{error}");
                    return Err("Unable to listen on this port. Check server logs.".to_owned());
                }
                self.title.show(settings);
            }
            "tls-cert-file" | "tls-key-file" | "tls-key-file-pass" | "tls-ca-cert-file" | "tls-ca-cert-dir" => {
                self.certificates.change(settings)?;
                self.change_tls(settings)?;
            }
            "tls-auth-clients"
            | "tls-protocols"
            | "tls-ciphers"
            | "tls-ciphersuites"
            | "tls-prefer-server-ciphers"
            | "tls-session-caching"
            | "tls-session-cache-size"
            | "tls-session-cache-timeout" => self.change_tls(settings)?,
            "appendfsync" | "maxmemory" => self.switch.follow(settings),
            "oom-score-adj" | "oom-score-adj-values" => oom::follow(settings)?,
            "crash-log-enabled" => crash::follow(settings.crash_log_enabled),
            "proc-title-template" => self.title.show(settings),
            _ => {}
        }
        Ok(())
    }
}

/// The system's words without Rust's "(os error 2)".
fn in_words(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}
