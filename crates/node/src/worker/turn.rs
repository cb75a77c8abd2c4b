//! One turn of a worker: the bytes that have arrived are parsed, prefetched and executed, in that order and in batches.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use clocks::UnixMs;
use command::flags;
use resp::{Batch, Progress, Reply};

use crate::admission::rights;
use crate::clock::MonoNs;
use crate::config::Settings;
use crate::durability::backlog::backlog_limit;
use crate::figures::stats::add;
use crate::limits::crowd;
use crate::node::Node;
use crate::table::{Command, Handler};
use crate::worker::conn::Conn;
use crate::worker::message::Mailbox;
use crate::worker::next::{Item, Next};
use crate::worker::transfer::output_limit;
use crate::worker::{Token, Worker};

/// Commands parsed and prefetched before they are executed.
/// Milliseconds for which commands that write wait while too many copies for a snapshot wait for the disk.
const CROWDED_MS: u64 = 5;
const WINDOW: usize = 64;
/// Commands of one connection that are executed before others get their turn.
const PER_CONNECTION: usize = 1024;
/// No command begins after a turn has executed commands for so many nanoseconds: sockets and housekeeping are next.
/// Checked where the clock is read anyway: after windows, and around commands that are not always short.
const TURN_NS: u64 = 2_000_000;

/// Bytes of replies to one connection, after which others get their turn and the driver sends.
const OUTPUT_PER_TURN: usize = 256 * 1024;

/// Commands of one connection in a window.
struct Group {
    conn: Box<Conn>,
    /// Range in the batch, and in the items.
    from: usize,
    to: usize,
    progress: Progress,
}

/// The commands that a turn parses and prefetches before it executes them. A worker keeps the buffers from turn to
/// turn: for a lone command their allocation would cost more than its parsing.
///
/// It also holds what a turn borrows beside the worker. So no turn counts references, which all workers share.
pub(super) struct Window {
    batch: Batch,
    /// One for each command of the batch.
    items: Vec<Item>,
    groups: Vec<Group>,
    node: Arc<Node>,
    /// The worker's present settings.
    settings: Arc<Settings>,
}

impl Worker {
    /// Executes the commands that have arrived.
    pub fn turn(&mut self, now: UnixMs) {
        if self.node.measuring.load(Relaxed) {
            self.measure_turn();
        } else {
            self.turn_began = None;
        }
        self.take_turn(now);
    }

    /// Notes the CPU time since the last turn began: that turn, and the driver's work after it.
    #[cold]
    fn measure_turn(&mut self) {
        let now = self.node.clock.thread_cpu_ns();
        if let Some(before) = self.turn_began.replace(now) {
            self.stats.longest_turn.fetch_max(now.saturating_sub(before), Relaxed);
        }
    }

    fn take_turn(&mut self, now: UnixMs) {
        if self.halted {
            return;
        }
        self.engine.begin_turn(now);
        self.meter.begin_turn(now);
        let changed = self.follower.refresh();
        if changed {
            self.reconfigure();
        }
        let mut window = self.open_window();
        let Window { batch, items, groups, node, settings } = &mut *window;
        if changed {
            self.weigh_all(settings);
        }
        let tracks = settings.maxmemory_policy.tracks();
        self.engine.clock().set(now, tracks, settings.lfu_log_factor, settings.lfu_decay_time);
        if self.node.pauses.frozen_until() > now {
            self.window = Some(window);
            return self.engine.end_turn();
        }
        self.monitored = self.node.monitors.any();
        if self.engine.shared.keyspace.copies_are_too_many() {
            self.node.pauses.hold_longer(now + CROWDED_MS);
        }
        // Before anything of this turn writes: a cut counts on it.
        if self.paused.is_some() || !self.held_back.is_empty() || self.node.pauses.current(now).is_some() {
            self.look_at_pause(now);
        }
        if self.inherited.is_some() {
            self.settle_inherited(now);
        }
        if self.peers.is_cluster() {
            self.forwarding().begin_turn(now);
        } else if self.node.doubts.may_exist(&self.node.engine.transactions) {
            self.transactions().look_at_doubts();
        }
        self.look_at_pushes();
        self.limit_tracked(settings.tracking_table_max_keys);
        self.answer_committed();
        self.clean_up();
        self.end_waits(now);
        self.look_at_syncs(now);
        self.look_at_leavers(now);
        self.look_at_stall_of_log(now);
        self.look_at_shortage(now, settings);
        self.look_at_tail();
        // Connections that become ready meanwhile wait for the next turn: the driver checks its sockets in between.
        let mut budget = self.ready.len();
        (self.turn_until, self.memory.evict_until) = (MonoNs::default(), MonoNs::default());
        let pipelines = self.stats.pipelines.load(Relaxed);
        while budget > 0 {
            batch.clear();
            items.clear();
            while budget > 0 && batch.len() < WINDOW {
                budget -= 1;
                let Some(token) = self.ready.pop_front() else { break };
                if let Some(group) = self.parse(token, settings, batch, items) {
                    groups.push(group);
                }
            }
            self.prefetch(items);
            self.meter.start();
            let (from, before) = (self.meter.last_reading(), self.stats.processed.load(Relaxed));
            if self.turn_until == MonoNs::default() {
                self.turn_until = from + TURN_NS;
            }
            for group in groups.drain(..) {
                self.execute_group(group, batch, items, node, settings);
            }
            if self.news.has_in_hand() {
                self.tell_the_rest();
            }
            self.send_on();
            self.meter.end_turn(from, before);
            if self.time_is_up() {
                break;
            }
        }
        if self.stats.pipelines.load(Relaxed) > pipelines {
            add(&self.stats.busy_turns, 1);
        }
        self.step_walks();
        self.step_scripts(node, settings);
        self.housekeeping(now, settings);
        self.send_on();
        if self.news.has_in_hand() {
            self.tell_the_rest();
        }
        if node.mailbox(self.index).is_some_and(Mailbox::has_own) {
            self.read_mail();
        }
        self.forwarding().end_turn();
        self.await_log();
        self.stats.dirty.store(self.engine.fx.dirty, Relaxed);
        add(&self.stats.turns, 1);
        self.engine.end_turn();
        self.window = Some(window);
    }

    /// Takes the window out of its place, with the present settings.
    #[inline]
    fn open_window(&mut self) -> Box<Window> {
        let settings = self.follower.settings();
        match self.window.take() {
            Some(window) if Arc::ptr_eq(&window.settings, settings) => window,
            window => self.change_window(window),
        }
    }

    #[cold]
    fn change_window(&self, window: Option<Box<Window>>) -> Box<Window> {
        let settings = self.follower.settings().clone();
        match window {
            Some(window) => Box::new(Window { settings, ..*window }),
            None => Box::new(Window {
                batch: Batch::default(),
                items: Vec::new(),
                groups: Vec::new(),
                node: self.node.clone(),
                settings,
            }),
        }
    }

    /// True if the turn has executed commands for long enough.
    fn time_is_up(&self) -> bool {
        self.meter.last_reading() > self.turn_until
    }

    /// Parses the bytes of a connection, and starts to prefetch the slots of its keys.
    fn parse(&mut self, token: Token, settings: &Settings, batch: &mut Batch, items: &mut Vec<Item>) -> Option<Group> {
        self.conn(token)?.queued = false;
        let mut conn = self.take_conn(token)?;
        if !conn.is_free() || self.is_leaving() {
            self.put_conn(conn);
            return None;
        }
        // A longer argument would have no room.
        let longest = settings.proto_max_bulk_len.min(headroom::largest()) as usize;
        let limits = rights::limits_of_parser(conn.session.authenticated, longest);
        let from = batch.len();
        let most = rights::parsed_at_once(conn.session.authenticated, PER_CONNECTION);
        let progress = conn.decoder.decode(&conn.query[conn.start..], &limits, most, batch);
        let group = Group { from, to: batch.len(), progress, conn };
        self.identify(&group, batch, items);
        // Bytes that arrived while commands were to be executed were let through, but not a single command of any
        // length.
        let limit = settings.client_query_buffer_limit as usize;
        if group.conn.unread() > limit {
            let start = |i: usize| if i == group.from { 0 } else { batch.end(i - 1) };
            if (group.from..group.to).any(|i| batch.end(i) - start(i) > limit) {
                self.put_conn(group.conn);
                self.overrun(token);
                return None;
            }
        }
        Some(group)
    }

    fn identify(&self, group: &Group, batch: &Batch, items: &mut Vec<Item>) {
        let unread = &group.conn.query[group.conn.start..];
        // A pipeline mostly repeats one command.
        let (mut name, mut found): (&[u8], Option<&Command>) = (&[], None);
        for i in group.from..group.to {
            let args = batch.args(i, unread);
            let mut item = Item::default();
            let called = args.get(0).unwrap_or_default();
            if called != name {
                (name, found) = (called, self.node.table.find_command(called));
                if found.is_none() && group.conn.is_virtual() {
                    // Commands that only nodes send cannot be renamed.
                    found = self.node.table.find_own(called);
                }
            }
            if let Some(command) = found {
                item.command = command.id as u32 + 1;
                item.looks = matches!(command.handler, Handler::Session(_));
                if command.has_one_key
                    && let Some(bytes) = args.get(1)
                {
                    let key = self.node.engine.keyspace.hasher().key(bytes);
                    (item.slot, item.hash, item.has_key) = (key.slot, key.hash, true);
                    item.is_ahead = self.bring_slot(key.slot);
                } else if command.spec.has(flags::RUNS_SCRIPT)
                    && args.get(2) != Some(b"0")
                    && let Some(bytes) = args.get(3)
                {
                    let key = self.node.engine.keyspace.hasher().key(bytes);
                    (item.slot, item.hash) = (key.slot, key.hash);
                    item.is_ahead = self.bring_slot(key.slot);
                }
            }
            items.push(item);
        }
    }

    /// Starts to prefetch a key's slot, unless another node has the key.
    #[inline]
    fn bring_slot(&self, slot: u16) -> bool {
        if self.peers.is_cluster() && !self.peers.has(::membership::Slot::of(slot)) {
            return false;
        }
        self.node.engine.keyspace.prefetch_slot(slot);
        true
    }

    /// Prefetches buckets, then entries. A single command has nothing to overlap with.
    fn prefetch(&self, items: &[Item]) {
        if items.len() < 2 {
            return;
        }
        for (slot, hash) in items.iter().filter_map(Item::ahead) {
            self.engine.prefetch_bucket(slot, hash);
        }
        for (slot, hash) in items.iter().filter_map(Item::ahead) {
            self.engine.prefetch_entry(slot, hash);
        }
    }

    fn execute_group(
        &mut self,
        group: Group,
        batch: &Batch,
        items: &[Item],
        node: &Arc<Node>,
        settings: &Arc<Settings>,
    ) {
        let Group { mut conn, from, to, progress } = group;
        self.stats.serves.store(conn.session.client.id, Relaxed);
        self.ensure_out(&mut conn);
        if self.news.has_in_hand() {
            self.tell_in_hand(&mut conn);
        }
        // Others see them as they are after the commands.
        if crowd::limit(settings).is_some() || items[from..to].iter().any(|item| item.looks) {
            conn.show_buffers(if from == to { progress.missing } else { 0 });
        }
        // The arguments point into the query buffer, which is kept apart while the connection changes.
        let query = std::mem::take(&mut conn.query);
        // The last bytes may have been too many: then they are not executed.
        if let Some(limit) = crowd::limit(settings).filter(|_| conn.weigh(&self.stats)) {
            self.close_largest(limit);
        }
        let unsent_before = conn.unsent();
        let mut consumed = 0;
        let mut next = Next::Continue;
        let mut i = from;
        let unread = &query[conn.start..];
        while i < to && (matches!(next, Next::Continue) || conn.goes_on_over_nodes(&mut next)) && !self.time_is_up() {
            let raw = &unread[if i == from { 0 } else { batch.end(i - 1) }..batch.end(i)];
            next = self.execute(&mut conn, node, settings, batch.args(i, unread), items[i], raw);
            if conn.wait.is_in_script() {
                conn.suspended = batch.end(i) - consumed;
            }
            if !matches!(next, Next::Retry) {
                if conn.note_command() && !conn.pushes.is_empty() {
                    self.flush_pushes(&mut conn);
                }
                self.promises.watch_backlog(batch.end(i) - consumed, backlog_limit(settings), &self.node);
                consumed = batch.end(i);
                i += 1;
            }
            if conn.unsent() > unsent_before + OUTPUT_PER_TURN {
                break;
            }
        }
        conn.query = query;
        if i > from {
            add(&self.stats.pipelines, 1);
            add(&conn.session.client.pipelines, 1);
            add(&conn.session.client.commands, (i - from) as u64);
        }
        self.stats.serves.store(0, Relaxed);
        let interrupted = i < to && matches!(next, Next::Continue);
        if i == to && matches!(next, Next::Continue) {
            consumed = progress.consumed;
            if let Some(error) = &progress.error {
                self.stats.count_error(b"ERR Protocol error");
                Reply::new(&mut conn.out.bytes, conn.session.protocol).protocol_error(error);
                conn.closing = true;
            }
        } else {
            conn.decoder.forget();
        }
        conn.start += consumed;
        // Nothing is known yet of a command behind others.
        conn.expect(if i == to { progress.missing } else { 0 });
        conn.lacking = if i == to { progress.missing } else { 0 };
        conn.missing = if i == to { progress.reserve_hint(conn.unread()) } else { 0 };
        self.trim(&mut conn);
        self.finish(conn, interrupted || i > from, settings);
    }

    /// Gives an emptied query buffer back.
    fn trim(&mut self, conn: &mut Conn) {
        if conn.unread() == 0 {
            conn.start = 0;
            let buffer = std::mem::take(&mut conn.query);
            self.spare(buffer);
        }
    }

    /// Puts a connection back after its commands, and does what follows. `eager`: it may have more commands to execute.
    pub(crate) fn finish(&mut self, mut conn: Box<Conn>, eager: bool, settings: &Settings) {
        let now = self.engine.now();
        conn.show_buffers(conn.lacking);
        if conn.unsent() > 0 && conn.may_owe_much() {
            let limit = output_limit(&conn, settings);
            self.check_output_limit(&mut conn, limit, now);
        } else if conn.unsent() == 0 && !conn.closing && !conn.out.has_holes() {
            let out = conn.out.take();
            self.recycle(out);
        }
        let limit = crowd::limit(settings).filter(|_| conn.weigh(&self.stats));
        // More commands may be there than one turn's share, or than were parsed before AUTH.
        let again = eager && conn.is_free() && conn.unread() > 0 && !conn.queued && !conn.decoder.is_incomplete();
        if again {
            conn.queued = true;
            self.ready.push_back(conn.token);
        } else {
            self.snuggle(&mut conn);
        }
        self.look_at_thirst(&mut conn);
        if conn.ended && !again && !conn.queued {
            let is_idle = conn.wait.is_over() || conn.wait.blocked().is_some();
            if is_idle && conn.busy == 0 {
                self.end_session(&mut conn);
            } else if let Some(link) = conn.wait.link_to_answer()
                && conn.session.client.waits_elsewhere.load(Relaxed)
            {
                // Its end may have come before the connection was known to wait.
                self.forwarding().leave_wait_elsewhere(&mut conn, link);
            }
            self.watch_leaver(&mut conn);
        }
        if conn.out.is_due() || conn.closing {
            self.note_output(&mut conn);
        }
        self.put_conn(conn);
        if let Some(limit) = limit {
            self.close_largest(limit);
        }
    }
}
