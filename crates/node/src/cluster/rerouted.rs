//! Commands for a node that has lost its slots while no link to it was open: they have never left this node, and go where
//! their keys are by now.

use resp::{Limits, Protocol, Reply};

use super::blocks::{EXEC, MULTI};
use super::elsewhere::ELSEWHERE;
use super::link::take_line;
use super::peers::HOME;
use super::port::{Forwarding, Port};
use super::remote::Expect;
use super::returned::decoded_within;
use crate::worker::token::Token;
use crate::worker::write_error;

impl<P: Port> Forwarding<'_, P> {
    /// The map has changed. Links that are not open have commands for nodes which own nothing by now.
    pub(super) fn reroute_held(&mut self) {
        for link in HOME + 1..self.peers().links.len() {
            let peers = self.peers();
            let out = &mut peers.links[link];
            let owns = |index: u16| peers.map.slots_of(index) > 0;
            let is_held = out.open_end().is_none() && !out.stage.is_empty();
            if !is_held || out.node.and_then(|node| peers.map.index_of(node)).is_some_and(owns) {
                continue;
            }
            let staged = out.stage.staged().into_iter();
            let staged: Vec<(Token, Vec<u8>)> =
                staged.filter_map(|(vc, bytes)| Some((out.client(vc).ok()??, bytes))).collect();
            for (token, commands) in staged {
                self.return_line(token, link, &commands);
            }
            // Whatever else waits there hears that the node is not reached.
            self.tell_of_end(link, false);
        }
    }

    /// The commands of a connection are as if their owner had sent them back, by this node's map.
    fn return_line(&mut self, token: Token, link: usize, mut commands: &[u8]) {
        let version = self.peers().map.version();
        let Some(mut conn) = self.take_conn(token) else { return };
        let Some(mut line) = take_line(&mut conn, link) else { return self.put_conn(conn) };
        self.port.ensure_out(&mut conn);
        let (mut block, limits) = (Vec::new(), Limits { proto_max_bulk_len: usize::MAX, authenticated: true });
        while let Some((consumed, _)) = decoded_within(commands, &limits) {
            let (command, rest) = commands.split_at(consumed);
            commands = rest;
            match line.expected.pop_front() {
                Some(Expect::Nothing) if command == MULTI => block.clear(),
                Some(Expect::Nothing) => block.extend_from_slice(command),
                Some(expect) => {
                    let is_block = matches!(expect, Expect::Block(..)) && command == EXEC;
                    let mut reply = Vec::new();
                    let mut push = Reply::new(&mut reply, Protocol::Resp3);
                    push.push(3);
                    push.simple(ELSEWHERE);
                    push.integer(version as i64);
                    push.bulk(if is_block { &block } else { command });
                    self.take_back(&mut conn, link, expect, &reply);
                }
                None => break,
            }
        }
        // No reply is owed for ever, whatever was staged.
        let why = self.unreached(link).into_bytes();
        while let Some(expect) = line.expected.pop_front() {
            let mut error = Vec::new();
            write_error(&mut error, conn.session.protocol, &why);
            self.answer(&mut conn, expect, &error, true);
        }
        if line.tracking.is_on() {
            self.lose_news(&mut conn, link, false);
        }
        self.look_at_answers(&mut conn, link);
        self.put_conn(conn);
        self.mark_dirty(token);
    }
}
