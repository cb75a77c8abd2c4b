//! What Redis Sentinel says of a process: names of fields and texts.
//!
//! Clients read some of them (`ip`, `port`, `flags`, `num-slaves`, `master-link-status`, ...) and show the others. Times
//! since messages have no meaning here: the metadata are heard of all the time, so they are 0.

use crate::view::{Master, Place, View};

/// Milliseconds without a lease after which a process counts as down.
const DOWN_AFTER_MS: u32 = 2000;

pub type Fields = Vec<(&'static str, String)>;

/// The host of a place, as a client is told.
pub fn host<'a>(place: &'a Place, here: &'a str) -> &'a str {
    if place.host.is_empty() { here } else { &place.host }
}

fn common(name: String, place: &Place, here: &str, flags: String) -> Fields {
    let zero = || "0".to_owned();
    vec![
        ("name", name),
        ("ip", host(place, here).to_owned()),
        ("port", place.port.to_string()),
        ("runid", place.id.clone()),
        ("flags", flags),
        ("link-pending-commands", zero()),
        ("link-refcount", "1".to_owned()),
        ("last-ping-sent", zero()),
        ("last-ok-ping-reply", zero()),
        ("last-ping-reply", zero()),
        ("down-after-milliseconds", DOWN_AFTER_MS.to_string()),
    ]
}

fn role(role: &str) -> Fields {
    vec![("info-refresh", "0".to_owned()), ("role-reported", role.to_owned()), ("role-reported-time", "0".to_owned())]
}

/// The fields of a master.
pub fn of_master(master: &Master, view: &View, here: &str) -> Fields {
    let flags = if master.is_up { "master" } else { "master,s_down,o_down" };
    let mut fields = common(master.name.clone(), &master.place, here, flags.to_owned());
    fields.extend(role("master"));
    fields.extend([
        ("config-epoch", master.epoch.to_string()),
        ("num-slaves", master.replicas.len().to_string()),
        ("num-other-sentinels", view.others.len().to_string()),
        ("quorum", (view.voters.0 / 2 + 1).to_string()),
        ("failover-timeout", "180000".to_owned()),
        ("parallel-syncs", "1".to_owned()),
    ]);
    fields
}

/// The fields of a process that serves reads beside a master.
pub fn of_replica(replica: &Place, master: &Master, here: &str) -> Fields {
    let name = format!("{}:{}", host(replica, here), replica.port);
    let mut fields = common(name, replica, here, "slave".to_owned());
    fields.extend(role("slave"));
    fields.extend([
        ("master-link-down-time", "0".to_owned()),
        ("master-link-status", if master.is_up { "ok" } else { "err" }.to_owned()),
        ("master-host", host(&master.place, here).to_owned()),
        ("master-port", master.place.port.to_string()),
        ("slave-priority", "100".to_owned()),
        ("slave-repl-offset", "0".to_owned()),
        ("replica-announced", "1".to_owned()),
    ]);
    fields
}

/// The fields of a process that answers as this one does.
pub fn of_sentinel(place: &Place, here: &str) -> Fields {
    let mut fields = common(place.id.clone(), place, here, "sentinel".to_owned());
    fields.extend([
        ("last-hello-message", "0".to_owned()),
        ("voted-leader", "?".to_owned()),
        ("voted-leader-epoch", "0".to_owned()),
    ]);
    fields
}
