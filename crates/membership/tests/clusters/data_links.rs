use std::io::{Read, Write};
use std::net::TcpStream;

use membership::handshake::Role;

use crate::harness::{Nodes, stream, wait};

#[test]
fn data_links_come_to_who_carries_commands_at_both_ends() {
    let mut nodes = Nodes::formed(60, 2);
    let [a, b] = &nodes.nodes[..] else { panic!("two nodes") };
    a.control().dial(b.id(), 77);
    let (dialed, taken) = (a.data_link(), b.data_link());
    assert_eq!((dialed.dialed, dialed.peer.party.node, dialed.peer.role), (Some(77), b.id(), Role::Data));
    assert_eq!((taken.dialed, taken.peer.party.node, taken.peer.party.incarnation), (None, a.id(), 1));
    let (mut dialed, mut taken) = (stream(dialed), stream(taken));
    dialed.write_all(b"ping").unwrap();
    let mut heard = [0; 4];
    taken.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"ping");
    taken.write_all(b"pong").unwrap();
    dialed.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"pong");

    // One node is gone, the other is not known.
    let gone = b.id();
    nodes.nodes[1].stop();
    nodes.nodes[0].control().dial(gone, 78);
    assert_eq!(nodes.nodes[0].no_link().0, 78);
    nodes.nodes[0].control().dial(membership::NodeId([9; 20]), 79);
    assert!(nodes.nodes[0].no_link().1.contains("has no node"));
}

#[test]
fn who_says_nothing_keeps_no_node_out() {
    let nodes = Nodes::formed(61, 2);
    let [a, b] = &nodes.nodes[..] else { panic!("two nodes") };
    let mut silent = Vec::new();
    for tag in 0..5 {
        silent.extend((0..100).map(|_| TcpStream::connect(b.settings.bind).unwrap()));
        a.control().dial(b.id(), tag);
        // The port would be free again once the silent connections have timed out: a node need not wait for that.
        let link = wait("a link or none", || a.try_data_link().map(Ok).or_else(|| a.try_no_link().map(Err)));
        assert_eq!(link.map(|link| link.dialed).map_err(|(_, why)| why), Ok(Some(tag)));
        b.data_link();
    }
    // The first ones have been closed.
    assert_eq!(silent[0].read_to_end(&mut Vec::new()).unwrap(), 0);
}
