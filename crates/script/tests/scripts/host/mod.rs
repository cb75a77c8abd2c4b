//! A host with a handful of commands.
#![allow(dead_code, missing_docs)]

use resp::{Protocol, Reply};
use script::{Checked, Input, Limits, Machine, Running, Source, Step};
use std::collections::BTreeMap;

pub struct Host {
    pub machine: Option<Machine>,
    pub keys: BTreeMap<Vec<u8>, Vec<u8>>,
    pub log: Vec<String>,
    pub slices: usize,
    /// Slices after which a script is killed.
    pub patience: usize,
    pub protocol: Protocol,
}

impl Host {
    pub fn new() -> Self {
        Self::with(Limits::default())
    }

    /// With functions that Redis has removed (`lua-enable-deprecated-api`).
    pub fn deprecated() -> Self {
        Self::with(Limits { deprecated: true, ..Limits::default() })
    }

    pub fn with(limits: Limits) -> Self {
        Self {
            machine: Some(Machine::new(limits).unwrap()),
            keys: BTreeMap::new(),
            log: Vec::new(),
            slices: 0,
            patience: 1_000_000,
            protocol: Protocol::Resp2,
        }
    }

    pub fn execute(&mut self, args: &[Vec<u8>], protocol: Protocol) -> Vec<u8> {
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, protocol);
        let parts: Vec<&[u8]> = args.iter().map(|arg| &arg[..]).collect();
        match &parts[..] {
            [b"get", key] => reply.bulk_or_null(self.keys.get(*key)),
            [b"set", key, value] => {
                self.keys.insert(key.to_vec(), value.to_vec());
                reply.ok();
            }
            [b"incr", key] => {
                let entry = self.keys.entry(key.to_vec()).or_insert_with(|| b"0".into());
                match std::str::from_utf8(entry).ok().and_then(|text| text.parse::<i64>().ok()) {
                    Some(number) => {
                        *entry = (number + 1).to_string().into();
                        reply.integer(number + 1);
                    }
                    None => reply.error("ERR value is not an integer or out of range"),
                }
            }
            [b"echo", rest @ ..] => {
                reply.array(rest.len());
                rest.iter().for_each(|part| reply.bulk(part));
            }
            [b"raw", bytes] => reply.raw(bytes),
            [b"ping"] => reply.pong(),
            _ => reply.error("ERR Unknown Redis command called from script"),
        }
        out
    }

    /// Runs to the end. Returns the reply.
    pub fn run(&mut self, mut running: Running) -> Vec<u8> {
        self.slices = 0;
        let mut step = running.step(Input::Start);
        loop {
            step = match step {
                Step::Call { protocol } => {
                    let args: Vec<Vec<u8>> = running.args().iter().map(<[u8]>::to_vec).collect();
                    let reply = self.execute(&args, protocol);
                    running.step(Input::Reply(&reply))
                }
                Step::CheckCommand => {
                    let checked = match running.args().iter().next() {
                        Some(b"get") => Checked::Allowed,
                        Some(b"set") => Checked::Denied,
                        _ => Checked::Unknown,
                    };
                    running.step(Input::Checked(checked))
                }
                Step::Log { level, text } => {
                    self.log.push(format!("{level:?} {}", String::from_utf8_lossy(&text)));
                    running.step(Input::Continue)
                }
                Step::SliceOver => {
                    self.slices += 1;
                    let stop = self.slices > self.patience;
                    running.step(if stop {
                        Input::Stop("Script killed by user with SCRIPT KILL...")
                    } else {
                        Input::Continue
                    })
                }
                Step::Done => break,
            };
        }
        let mut out = Vec::new();
        self.machine = Some(running.finish(self.protocol, &mut out).machine);
        out
    }

    pub fn eval_with(&mut self, body: &[u8], keys: &[&[u8]], argv: &[&[u8]]) -> Vec<u8> {
        let source = match Source::parse(body) {
            Ok(source) => source,
            Err(error) => return format!("-{error}\r\n").into(),
        };
        let machine = self.machine.take().unwrap();
        match Running::eval(machine, &source, keys.iter().copied(), argv.iter().copied(), 0) {
            Ok(running) => self.run(running),
            Err(refused) => {
                self.machine = Some(refused.machine);
                format!("-{}\r\n", refused.error).into()
            }
        }
    }

    /// The reply as text.
    pub fn eval(&mut self, body: &str) -> String {
        String::from_utf8_lossy(&self.eval_with(body.as_bytes(), &[], &[])).into_owned()
    }
}

/// `SHA` in errors.
pub fn sha(body: &str) -> String {
    String::from_utf8(Source::sha_of(body.as_bytes()).to_vec()).unwrap()
}
