//! Users of a cluster of real servers: a change that one node has answered holds at all, also at one that was away.

use crate::support::{Client, Nodes, Server};

const NO_KEY: &str = "-NOPERM No permissions to access a key";

/// Has a node change users, perhaps not at once where the machine is busy.
fn changes(nodes: &Nodes, node: usize, command: &str) {
    let is_unknown = |reply: &str| reply.starts_with("-CLUSTERDOWN") || reply.contains("nobody knows");
    nodes.until_or(node, command, |reply| reply == "+OK", is_unknown);
}

/// A client of a node that is this user.
fn login(nodes: &Nodes, node: usize, login: &str) -> Client {
    nodes.until_or(node, login, |reply| reply == "+OK", |reply| reply.starts_with("-CLUSTERDOWN"));
    let mut client = nodes.client(node);
    assert_eq!(client.call(login), "+OK");
    client
}

/// A node refuses a login. It cannot tell as long as it has no lease, which it may lose on a busy machine.
fn refuses(nodes: &Nodes, node: usize, login: &str) {
    let cannot_tell = |reply: &str| reply.starts_with("-CLUSTERDOWN");
    nodes.until_or(node, login, |reply| reply.starts_with("-WRONGPASS"), cannot_tell);
}

/// A client that may do everything, of a node that serves. Only such a node has every function.
fn serving(nodes: &Nodes, node: usize, root: &str) -> Client {
    let mut client = login(nodes, node, root);
    says(&mut client, "fcall none 0", "-ERR Function not found");
    client
}

/// A client gets this reply as soon as its node serves.
fn says(client: &mut Client, command: &str, expected: &str) {
    for _ in 0..2000 {
        let reply = client.call(command);
        if !reply.starts_with("-CLUSTERDOWN") {
            return assert_eq!(reply, expected, "{command}");
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("{command}: the node does not serve");
}

#[test]
fn a_change_holds_at_all_nodes_at_once_and_at_one_that_was_away() {
    let mut nodes = Nodes::new(3, 3);
    changes(&nodes, 0, "acl setuser bob on >pw +@all ~*");
    let mut bobs: Vec<Client> = (0..3).map(|node| login(&nodes, node, "auth bob pw")).collect();
    let keys = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for bob in &mut bobs {
        keys.iter().for_each(|key| says(bob, &format!("set {key} 1"), "+OK"));
    }
    changes(&nodes, 0, "acl setuser bob resetkeys ~a");
    for bob in &mut bobs {
        keys[1..].iter().for_each(|key| says(bob, &format!("get {key}"), NO_KEY));
        says(bob, "get a", "$1 1");
        says(bob, "mget a b", NO_KEY);
    }
    // Users change while a node is away: one is gone, one is new, `default` needs a password.
    changes(&nodes, 0, "acl setuser gone on >pw +@all ~*");
    nodes.kill(2);
    let deluser = |reply: &str| reply == ":1" || reply == ":0";
    nodes.until_or(1, "acl deluser gone", deluser, |reply| reply.contains("nobody knows") || reply.contains("CLUSTER"));
    changes(&nodes, 0, "acl setuser bob -get ~b >pw2 <pw");
    changes(&nodes, 1, "acl setuser eve on >pw +@all ~c");
    changes(&nodes, 0, "acl setuser default resetpass >root");
    nodes.start(2);
    let mut bob = login(&nodes, 2, "auth bob pw2");
    says(&mut bob, "get a", "-NOPERM User bob has no permissions to run the 'get' command");
    says(&mut bob, "set b 2", "+OK");
    let mut eve = login(&nodes, 2, "auth eve pw");
    says(&mut eve, "get c", "$1 1");
    says(&mut eve, "get d", NO_KEY);
    assert!(nodes.client(2).call("get a").starts_with("-NOAUTH"));
    ["auth gone pw", "auth bob pw"].iter().for_each(|wrong| refuses(&nodes, 2, wrong));
    // All of them start again: nobody forgets, also before they have heard of each other.
    (0..3).for_each(|node| nodes.kill(node));
    nodes.start(1);
    for wrong in ["auth gone pw", "auth bob pw"] {
        let reply = nodes.client(1).call(wrong);
        assert!(reply.starts_with("-CLUSTERDOWN "), "{wrong}: {reply}");
    }
    assert!(nodes.client(1).call("ping").starts_with("-NOAUTH"));
    [0, 2].into_iter().for_each(|node| nodes.start(node));
    for node in 0..3 {
        let mut eve = login(&nodes, node, "auth eve pw");
        says(&mut eve, "get d", NO_KEY);
        let mut root = serving(&nodes, node, "auth root");
        says(&mut root, "acl users", "*3 $3 bob $7 default $3 eve");
    }
}

#[test]
fn users_in_files_are_those_of_the_cluster_that_they_form() {
    let mut nodes = Nodes::new(4, 0);
    let seeds = |nodes: &Nodes| nodes.ports[..3].iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>();
    nodes.seeds = seeds(&nodes).join(",");
    let lines = "user bob on >pw +@all ~a\nuser root on >root +@all ~* &*\nuser default off\n";
    for node in 0..3 {
        std::fs::write(nodes.dirs[node].path().join("users.acl"), lines).unwrap();
        let file = nodes.dirs[node].path().join("users.acl").display().to_string();
        std::fs::write(nodes.file(node), format!("aclfile {file}\n")).unwrap();
        nodes.start(node);
        // Nobody comes in before the cluster's users are there, though some of them are in the file.
        assert!(nodes.client(node).call("ping").starts_with("-NOAUTH"));
    }
    for node in 0..3 {
        let mut root = login(&nodes, node, "auth root root");
        says(&mut root, "set a 1", "+OK");
        assert_eq!(root.call("acl users"), "*3 $3 bob $7 default $4 root");
        let mut bob = login(&nodes, node, "auth bob pw");
        says(&mut bob, "get a", "$1 1");
        says(&mut bob, "get b", NO_KEY);
    }
    // ACL LOAD makes the file of one node the cluster's; ACL SAVE writes the file of a node.
    let file = |nodes: &Nodes, node: usize| nodes.dirs[node].path().join("users.acl");
    std::fs::write(file(&nodes, 1), format!("{lines}user eve on >pw ~e\n")).unwrap();
    (0..3).for_each(|node| drop(serving(&nodes, node, "auth root root")));
    let mut root = login(&nodes, 1, "auth root root");
    says(&mut root, "acl load", "+OK");
    let mut root = login(&nodes, 2, "auth root root");
    says(&mut root, "acl users", "*4 $3 bob $7 default $3 eve $4 root");
    says(&mut root, "acl save", "+OK");
    assert!(std::fs::read_to_string(file(&nodes, 2)).unwrap().contains("user eve on"));
    assert!(!std::fs::read_to_string(file(&nodes, 0)).unwrap().contains("user eve on"));
    // A node that starts with another file, and one that is new, have the cluster's users, and say so.
    nodes.kill(0);
    nodes.start(0);
    std::fs::write(nodes.file(3), "user bob on nopass +@all ~*\nuser mallory on nopass +@all ~*\n").unwrap();
    nodes.start(3);
    for node in [0, 3] {
        let mut root = serving(&nodes, node, "auth root root");
        says(&mut root, "acl users", "*4 $3 bob $7 default $3 eve $4 root");
        refuses(&nodes, node, "auth bob other");
    }
    let said = "this node's files have other users than the cluster, whose users hold: ";
    assert!(nodes.log(0).contains(&format!("{said}eve")), "{}", nodes.log(0));
    assert!(nodes.log(3).contains(&format!("{said}bob, default, ")), "{}", nodes.log(3));
    assert!(nodes.log(3).contains(", mallory, root. "), "{}", nodes.log(3));
    assert!(!nodes.log(2).contains(said), "{}", nodes.log(2));
}

#[test]
fn a_server_with_users_forms_a_cluster_with_them() {
    let mut nodes = Nodes::new(2, 0);
    let dir = nodes.dirs[0].path().display().to_string();
    std::fs::write(nodes.file(0), "user bob on >pw +@all ~*\n").unwrap();
    let alone = ["--bind", "127.0.0.1", "--dir", &dir, "--appendonly", "yes", "--log-segment-size", "1mb"];
    let settings = [&alone[..], &["--cluster-enabled", "yes"]].concat();
    nodes.servers[0] = Some(Server::with_file_on_port(nodes.ports[0], &nodes.file(0), &settings));
    let mut bob = login(&nodes, 0, "auth bob pw");
    says(&mut bob, "set a 1", "+OK");
    nodes.seeds = format!("127.0.0.1:{}", nodes.ports[0]);
    nodes.start(1);
    let mut bob = login(&nodes, 1, "auth bob pw");
    says(&mut bob, "get a", "$1 1");
}

/// A cluster that has lived without users gets those of the first node whose file has some.
#[test]
fn a_cluster_without_users_takes_those_of_a_file() {
    let mut nodes = Nodes::new(3, 3);
    let code = "#!lua name=l\\nredis.register_function('f', function() return 1 end)";
    nodes.until(0, &format!("function load replace \"{code}\""), |reply| reply == "$1 l");
    nodes.kill(1);
    std::fs::write(nodes.file(1), "user bob on >pw +@all ~a\n").unwrap();
    nodes.start(1);
    for node in [1, 0, 2] {
        nodes.until(node, "auth bob pw", |reply| reply == "+OK");
        let mut bob = login(&nodes, node, "auth bob pw");
        says(&mut bob, "get b", NO_KEY);
        says(&mut bob, "fcall f 0", ":1");
    }
}
