//! Texts of scripts for standbys: the node that has taken a shard over runs them by their digests.
//!
//! SCRIPT LOAD reaches every node. What EVAL has run is known to the owner alone, and a standby that starts again knows
//! nothing. So an owner gives each life of a standby the texts that it knows, and then what is new, on a link of one of
//! its workers. A standby keeps as many as any node does.

use resp::append_request;

use super::copied::standbys_of;
use super::peers::Given;
use super::port::{Forwarding, Port};
use crate::transactions::port::Desk;

/// Most texts that are given at once.
const AT_ONCE: usize = 100;

impl<P: Port> Forwarding<'_, P> {
    /// Gives standbys of this node the texts of scripts that they have not got. One worker calls it now and then.
    pub(crate) fn give_texts(&mut self) {
        let peers = self.peers();
        let (map, me) = (peers.map.clone(), peers.my_place());
        let standbys = me.map_or_else(Vec::new, |me| standbys_of(&map, me));
        peers.texts.retain(|given| standbys.iter().any(|(index, _)| map.node(*index).id == given.node));
        for (index, _) in standbys {
            let member = map.node(index);
            let link = self.peers().link_to(index);
            self.want_link(link);
            let Desk { peers, node, .. } = self.desk();
            let Some(open) = peers.links[link].shown() else { continue };
            let life = (member.incarnation, open.since);
            let at = peers.texts.iter().position(|given| given.node == member.id).unwrap_or_else(|| {
                peers.texts.push(Given { node: member.id, life, upto: 0 });
                peers.texts.len() - 1
            });
            let given = &mut peers.texts[at];
            if given.life != life {
                (given.life, given.upto) = (life, 0);
            }
            let (last, behind) = node.scripts.behind(given.upto, AT_ONCE);
            // Numbers of scripts that were forgotten lead nowhere.
            let all = if behind.len() < AT_ONCE { Some(last) } else { None };
            let mut is_given = true;
            for (number, known) in behind {
                is_given = !peers.links[link].is_full();
                if !is_given {
                    break;
                }
                let words: [&[u8]; 2] = if known.is_loaded() { [b"SCRIPT", b"LOAD"] } else { [b"HOLDFAST", b"TEXT"] };
                let mut command = Vec::new();
                append_request(&mut command, &[words[0], words[1], known.source.body()]);
                peers.links[link].say_by_itself(&command);
                given.upto = number;
            }
            given.upto = all.filter(|_| is_given).unwrap_or(given.upto);
        }
    }
}
