//! The line of a client in CLIENT LIST and CLIENT INFO.

use std::io::Write;
use std::sync::atomic::Ordering::Relaxed;

use clocks::UnixMs;

use super::SessionCtx;
use crate::client::Client;
use crate::node::Node;
use crate::push::tracker::{BROADCAST, BROKEN, ON};

/// The line of the client that asks. Its own figures are as of now: the query buffer holds the command that runs.
pub fn own_line(ctx: &SessionCtx<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    append(&mut text, ctx.node, &ctx.session.client, ctx.engine.now(), Some(ctx));
    text
}

/// The lines of the clients for which `wanted` is true, by id.
pub fn lines_of(ctx: &SessionCtx<'_>, wanted: impl Fn(&Client) -> bool, out: &mut Vec<u8>) {
    let clients: Vec<_> = ctx.node.clients().values().cloned().collect();
    for client in clients.into_iter().filter(|client| wanted(client)) {
        append_any(ctx, &client, out);
    }
}

/// The lines of all clients, for a report that no client has asked for.
pub fn lines_of_all(node: &Node) -> Vec<u8> {
    let clients: Vec<_> = node.clients().values().cloned().collect();
    let mut out = Vec::new();
    for client in clients {
        append(&mut out, node, &client, node.clock.unix_ms(), None);
        out.push(b'\n');
    }
    out
}

/// The line of a client that asks nothing: its command did not run.
pub(crate) fn line_at(node: &Node, client: &Client, now: UnixMs) -> Vec<u8> {
    let mut text = Vec::new();
    append(&mut text, node, client, now, None);
    text
}

/// The line of one client, if there is one of this id.
pub fn line_of(ctx: &SessionCtx<'_>, id: i64, out: &mut Vec<u8>) {
    let client = u64::try_from(id).ok().and_then(|id| ctx.node.clients().get(&id).cloned());
    if let Some(client) = client {
        append_any(ctx, &client, out);
    }
}

fn append_any(ctx: &SessionCtx<'_>, client: &Client, out: &mut Vec<u8>) {
    let own = client.id == ctx.session.client.id;
    append(out, ctx.node, client, ctx.engine.now(), own.then_some(ctx));
    out.push(b'\n');
}

fn flags(client: &Client) -> String {
    let flags = [
        (client.monitor.load(Relaxed), 'O'),
        (client.subscriptions() > 0, 'P'),
        (client.queued.load(Relaxed) >= 0, 'x'),
        (client.blocked.load(Relaxed), 'b'),
        (client.tracker.is(ON), 't'),
        (client.tracker.is(BROKEN), 'R'),
        (client.tracker.is(BROADCAST), 'B'),
        (client.peer.unix, 'U'),
        (client.no_evict.load(Relaxed), 'e'),
        (client.no_touch.load(Relaxed), 'T'),
    ];
    let text: String = flags.iter().filter(|(on, _)| *on).map(|(_, flag)| *flag).collect();
    if text.is_empty() { "N".into() } else { text }
}

fn append(out: &mut Vec<u8>, node: &Node, client: &Client, now: UnixMs, own: Option<&SessionCtx<'_>>) {
    let name_of = |id: u32| (id as usize).checked_sub(1).map_or("NULL", |id| node.table.get(id).name.as_str());
    let command = own.map_or_else(|| name_of(client.last_command.load(Relaxed)), |ctx| ctx.command.name.as_str());
    let texts = client.texts().clone();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (query, query_free) = (client.query_len.load(Relaxed), client.query_free.load(Relaxed));
    let output = client.output_len.load(Relaxed);
    let buffer = client.output_buffer.load(Relaxed);
    let running = own.map_or(0, |ctx| ctx.args.bytes() as u64);
    let arguments = running + client.arguments.load(Relaxed);
    let block = client.queued_bytes.load(Relaxed);
    // Writing to a vector cannot fail.
    let _ = write!(
        out,
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} ssub={} multi={} watch={} \
         qbuf={query} qbuf-free={query_free} argv-mem={arguments} multi-mem={block} rbs={buffer} rbp={buffer} obl=0 oll=0 \
         omem={output} omem-shared=0 omem-unshared={output} tot-mem={} events=r cmd={command} user={} redir={} resp={} lib-name={} lib-ver={} io-thread={} tot-net-in={} tot-net-out={} tot-cmds={} \
         read-events={} avg-pipeline-len-sum={} avg-pipeline-len-cnt={}",
        client.id,
        client.peer.address,
        client.peer.local,
        client.peer.fd,
        text(&texts.name),
        now.since(client.since) / 1000,
        now.since(UnixMs(client.last_active.load(Relaxed))) / 1000,
        flags(client),
        client.db.load(Relaxed),
        client.channels.load(Relaxed),
        client.patterns.load(Relaxed),
        client.shard_channels.load(Relaxed),
        client.queued.load(Relaxed),
        client.watching.load(Relaxed),
        client.memory() + running,
        text(&texts.user),
        if client.tracker.is(ON) { client.tracker.redirect.load(Relaxed) as i64 } else { -1 },
        client.protocol.load(Relaxed),
        text(&texts.lib_name),
        text(&texts.lib_version),
        client.worker.load(Relaxed),
        client.bytes_in.load(Relaxed),
        client.bytes_out.load(Relaxed),
        client.ended(),
        client.reads.load(Relaxed),
        client.commands.load(Relaxed),
        client.pipelines.load(Relaxed),
    );
}
