//! Commands and their replies.

use resp::{Args, Protocol, Reply};

use crate::fields::{self, Fields, host};
use crate::session::{Flow, Session};
use crate::view::{Master, View};

/// What others than Redis Sentinel decide by commands, and the metadata decide here.
const DECIDED: &[&str] = &["set", "monitor", "remove", "reset", "failover", "flushconfig", "config", "debug"];

/// What Sentinels say to each other.
const AMONG: &[&str] = &["is-master-down-by-addr", "simulate-failure", "pending-scripts", "info-cache"];

/// Answers a command.
pub fn answer(session: &mut Session, args: Args<'_>, view: &View, out: &mut Vec<u8>) -> Flow {
    let name = lower(args.get(0));
    let (many, mut reply) = (args.len(), Reply::new(out, session.protocol));
    let is_free = session.protocol == Protocol::Resp3 || !session.is_subscribed();
    if !is_free && !matches!(&*name, "ping" | "quit" | "reset") && !name.ends_with("subscribe") {
        reply.error(format!("ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"));
        return Flow::Goes;
    }
    match (&*name, many) {
        ("ping", 1 | 2) => ping(args, is_free, &mut reply),
        ("sentinel", 2..) => sentinel(session, args, view, &mut reply),
        ("subscribe", 2..) => session.subscribe(args, false, out),
        ("psubscribe", 2..) => session.subscribe(args, true, out),
        ("unsubscribe", _) => session.unsubscribe(args, false, out),
        ("punsubscribe", _) => session.unsubscribe(args, true, out),
        ("hello", _) => hello(session, args, view, out),
        ("auth", 2 | 3) => reply.error(NO_PASSWORD),
        ("client", 2..) => client(session, args, &mut reply),
        ("info", _) => info(session, view, &mut reply),
        ("role", 1) => {
            reply.array(2);
            reply.bulk("sentinel");
            reply.array(view.masters.len());
            view.masters.iter().for_each(|master| reply.bulk(&master.name));
        }
        ("command", _) => reply.array(0),
        ("reset", 1) => {
            session.reset();
            Reply::new(out, session.protocol).simple("RESET");
        }
        ("quit", _) => {
            reply.ok();
            return Flow::Ends;
        }
        ("ping" | "sentinel" | "subscribe" | "psubscribe" | "auth" | "client" | "role" | "reset", _) => {
            wrong_number(&name, &mut reply);
        }
        _ => reply.error(format!("ERR unknown command '{name}', with args beginning with: {}", beginning(args))),
    }
    Flow::Goes
}

const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?";

fn lower(arg: Option<&[u8]>) -> String {
    let shown = arg.unwrap_or_default();
    let shown = shown.get(..shown.len().min(128)).unwrap_or_default();
    String::from_utf8_lossy(shown).to_ascii_lowercase().replace(['\r', '\n'], " ")
}

fn beginning(args: Args<'_>) -> String {
    args.iter().skip(1).take(20).map(|arg| format!("'{}' ", lower(Some(arg)))).collect()
}

fn wrong_number(name: &str, reply: &mut Reply<'_>) {
    reply.error(format!("ERR wrong number of arguments for '{name}' command"));
}

fn ping(args: Args<'_>, is_free: bool, reply: &mut Reply<'_>) {
    match (args.get(1), is_free) {
        (text, false) => {
            reply.array(2);
            reply.bulk("pong");
            reply.bulk(text.unwrap_or_default());
        }
        (Some(text), true) => reply.bulk(text),
        (None, true) => reply.pong(),
    }
}

fn sentinel(session: &Session, args: Args<'_>, view: &View, reply: &mut Reply<'_>) {
    let (what, here) = (lower(args.get(1)), session.here.as_str());
    let named = |reply: &mut Reply<'_>| -> Option<&Master> {
        let master = view.master(args.get(2)?);
        if master.is_none() {
            reply.error("ERR No such master with that name");
        }
        master
    };
    match (&*what, args.len()) {
        ("get-master-addr-by-name", 3) => match args.get(2).and_then(|name| view.master(name)) {
            None => reply.null_array(),
            Some(master) => {
                reply.array(2);
                reply.bulk(host(&master.place, here));
                reply.bulk(master.place.port.to_string());
            }
        },
        ("masters", 2) => list(view.masters.iter().map(|master| fields::of_master(master, view, here)), reply),
        ("master", 3) => {
            if let Some(master) = named(reply) {
                put(&fields::of_master(master, view, here), reply);
            }
        }
        ("replicas" | "slaves", 3) => {
            if let Some(master) = named(reply) {
                list(master.replicas.iter().map(|replica| fields::of_replica(replica, master, here)), reply);
            }
        }
        ("sentinels", 3) => {
            if named(reply).is_some() {
                list(view.others.iter().map(|other| fields::of_sentinel(other, here)), reply);
            }
        }
        ("ckquorum", 3) => {
            if named(reply).is_some() {
                let (all, up) = view.voters;
                match view.has_quorum() {
                    true => reply.simple(format!(
                        "OK {up} usable Sentinels. Quorum and failover authorization can be reached"
                    )),
                    false => reply.error(format!(
                        "NOQUORUM {up} usable Sentinels of {all}. Not enough available Sentinels to reach the majority and authorize a failover"
                    )),
                }
            }
        }
        ("myid", 2) => reply.bulk(&view.id),
        ("help", 2) => {
            let lines = ["CKQUORUM", "GET-MASTER-ADDR-BY-NAME", "MASTER", "MASTERS", "MYID", "REPLICAS", "SENTINELS"];
            reply.array(lines.len());
            lines.iter().for_each(|line| reply.simple(line));
        }
        (what, _) if DECIDED.contains(&what) => {
            reply.error(format!(
                "ERR SENTINEL {} is not supported: the metadata of the cluster decide on masters",
                what.to_ascii_uppercase()
            ));
        }
        (what, _) if AMONG.contains(&what) => {
            reply.error(format!("ERR SENTINEL {} is not supported", what.to_ascii_uppercase()));
        }
        (
            "get-master-addr-by-name"
            | "masters"
            | "master"
            | "replicas"
            | "slaves"
            | "sentinels"
            | "ckquorum"
            | "myid"
            | "help",
            _,
        ) => {
            wrong_number(&format!("sentinel|{what}"), reply);
        }
        (what, _) => reply.error(format!("ERR unknown subcommand '{what}'. Try SENTINEL HELP.")),
    }
}

fn list(all: impl ExactSizeIterator<Item = Fields>, reply: &mut Reply<'_>) {
    reply.array(all.len());
    all.for_each(|fields| put(&fields, reply));
}

fn put(fields: &Fields, reply: &mut Reply<'_>) {
    reply.map(fields.len());
    for (name, value) in fields {
        reply.bulk(name);
        reply.bulk(value);
    }
}

/// HELLO [protocol [AUTH user password] [SETNAME name]].
fn hello(session: &mut Session, args: Args<'_>, view: &View, out: &mut Vec<u8>) {
    let (mut protocol, mut name, mut at) = (session.protocol, None, 2);
    let mut refuse = |text: &str| Reply::new(out, session.protocol).error(text);
    match args.get(1) {
        None => {}
        Some(b"2") => protocol = Protocol::Resp2,
        Some(b"3") => protocol = Protocol::Resp3,
        Some(_) => return refuse("NOPROTO unsupported protocol version"),
    }
    while let Some(option) = args.get(at) {
        let rest = args.len() - at - 1;
        match (&*lower(Some(option)), rest) {
            ("setname", 1..) => (name, at) = (args.get(at + 1), at + 2),
            // There is no password to compare with: whoever has one is welcome, too.
            ("auth", 2..) => at += 3,
            _ => return refuse("ERR Syntax error in HELLO option"),
        }
    }
    session.protocol = protocol;
    if let Some(name) = name {
        session.name = name.to_vec();
    }
    let mut reply = Reply::new(out, session.protocol);
    reply.map(6);
    reply.bulk("server");
    reply.bulk("redis");
    reply.bulk("version");
    reply.bulk(view.version);
    reply.bulk("proto");
    reply.integer(if protocol == Protocol::Resp3 { 3 } else { 2 });
    reply.bulk("id");
    reply.count(session.id);
    reply.bulk("mode");
    reply.bulk("sentinel");
    reply.bulk("modules");
    reply.array(0);
}

fn client(session: &mut Session, args: Args<'_>, reply: &mut Reply<'_>) {
    match (&*lower(args.get(1)), args.len()) {
        ("setname", 3) => {
            session.name = args.get(2).unwrap_or_default().to_vec();
            reply.ok();
        }
        ("getname", 2) => reply.bulk_or_null(Some(&session.name).filter(|name| !name.is_empty())),
        ("setinfo", 4) => reply.ok(),
        ("id", 2) => reply.count(session.id),
        (what, _) => reply.error(format!("ERR unknown subcommand or wrong number of arguments for '{what}'")),
    }
}

fn info(session: &Session, view: &View, reply: &mut Reply<'_>) {
    let mut text = format!(
        "# Server\r\nredis_version:{}\r\nredis_mode:sentinel\r\nrun_id:{}\r\n\r\n# Sentinel\r\nsentinel_masters:{}\r\nsentinel_tilt:0\r\nsentinel_tilt_since_seconds:-1\r\nsentinel_running_scripts:0\r\nsentinel_scripts_queue_length:0\r\nsentinel_simulate_failure_flags:0\r\n",
        view.version,
        view.id,
        view.masters.len()
    );
    for (number, master) in view.masters.iter().enumerate() {
        let status = if master.is_up { "ok" } else { "odown" };
        text += &format!(
            "master{number}:name={},status={status},address={}:{},slaves={},sentinels={}\r\n",
            master.name,
            host(&master.place, &session.here),
            master.place.port,
            master.replicas.len(),
            view.others.len() + 1
        );
    }
    reply.verbatim(*b"txt", text);
}
