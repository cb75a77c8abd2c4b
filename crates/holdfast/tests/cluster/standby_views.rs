//! What clients, libraries and exporters see of a standby: a replica of the owner of its shard.

use crate::standbys::Copied;

/// The value of a field of INFO.
pub fn field(copied: &Copied, at: usize, section: &str, name: &str) -> String {
    let text = copied.nodes.client(at).call(&format!("info {section}"));
    let value = text.split_whitespace().find_map(|line| line.strip_prefix(&format!("{name}:")).map(str::to_owned));
    value.unwrap_or_default()
}

fn id(copied: &Copied, at: usize) -> String {
    copied.nodes.client(at).call("cluster myid").split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn clients_see_a_replica() {
    let mut copied = Copied::new();
    let [owner, standby, other] = [0, 1, 2].map(|at| id(&copied, at));
    // Nobody stands by: all nodes are masters, as ever.
    for at in 0..3 {
        assert!(copied.nodes.client(at).call("role").starts_with("*3 $6 master :"), "{at}");
    }
    assert_eq!(copied.nodes.client(0).call(&format!("cluster replicas {owner}")), "*0");
    copied.stands_by();
    let [port, standby_port, other_port] = [0, 1, 2].map(|at| copied.nodes.ports[at]);
    let (smart, smart_standby) = (port + 1000, standby_port + 1000);

    // ROLE: the offsets are the same when nothing is written.
    let role = |at: usize, client: &str| copied.nodes.client(at).call("role").starts_with(client);
    copied.nodes.until(0, "role", |role| {
        let words: Vec<&str> = role.split(' ').collect();
        let offset = words.get(3).and_then(|offset| offset.strip_prefix(':')).map(|offset| offset.to_owned());
        role.contains(&format!(" *1 *3 $9 127.0.0.1 ${} {standby_port} ", standby_port.to_string().len()))
            && offset.is_some_and(|offset| offset != "0" && role.ends_with(&format!(" {offset}")))
    });
    assert!(role(1, &format!("*5 $5 slave $9 127.0.0.1 :{port} $9 connected :")));
    assert!(role(2, "*3 $6 master :0 *0"));
    let master = copied.nodes.client(0).call("role").split(' ').nth(3).unwrap().to_owned();
    copied.nodes.until(1, "role", |role| role.ends_with(&format!(" {master}")));
    // A smart client is told the ports of smart clients.
    let mut at_smart = crate::support::Client::at(smart_standby);
    assert!(at_smart.call("role").starts_with(&format!("*5 $5 slave $9 127.0.0.1 :{smart} ")));

    // INFO replication.
    for (name, value) in [("role", "slave"), ("master_host", "127.0.0.1"), ("master_link_status", "up")] {
        assert_eq!(field(&copied, 1, "replication", name), value, "{name}");
    }
    assert_eq!(field(&copied, 1, "replication", "master_port"), port.to_string());
    assert_eq!(field(&copied, 1, "replication", "slave_repl_offset"), master[1..]);
    assert_eq!(field(&copied, 0, "replication", "connected_slaves"), "1");
    let slave = field(&copied, 0, "replication", "slave0");
    assert!(slave.starts_with(&format!("ip=127.0.0.1,port={standby_port},state=online,offset=")), "{slave}");
    assert_eq!(field(&copied, 0, "replication", "master_repl_offset"), master[1..]);
    let names: Vec<String> = (0..3).map(|at| field(&copied, at, "replication", "master_replid")).collect();
    assert!(names[0] == names[1] && names[0] != names[2] && names[0].len() == 40, "{names:?}");
    assert_eq!(
        (field(&copied, 2, "replication", "role"), field(&copied, 2, "replication", "connected_slaves")),
        ("master".into(), "0".into())
    );
    assert_eq!(field(&copied, 0, "log", "log_standbys"), "1");
    assert!(field(&copied, 0, "log", "log_standby_0").ends_with(&format!("node=127.0.0.1:{standby_port}")));
    assert!(copied.nodes.client(1).call("hello 2").contains("$4 role $7 replica"));

    // CLUSTER NODES, SLOTS, SHARDS, REPLICAS, at every node.
    for at in 0..3 {
        let mut client = copied.nodes.client(at);
        let nodes = client.call("cluster nodes");
        let line = |id: &str| nodes.lines().find(|line| line.contains(id) && !line.contains(&format!("slave {id}")));
        let of_standby = nodes.lines().find(|line| line.contains(&format!("{standby} "))).unwrap();
        assert!(of_standby.contains(&format!("slave {owner} 0 0 1 connected")), "{nodes}");
        assert!(line(&other).unwrap().contains("master - 0 0 0 connected"), "{nodes}");
        assert!(line(&owner).unwrap().ends_with("0-16383"), "{nodes}");
        let slots = client.call("cluster slots");
        let both = [(smart, &owner), (smart_standby, &standby)];
        let both = both.map(|(port, id)| format!("*4 $9 127.0.0.1 :{port} $40 {id} *0")).join(" ");
        assert_eq!(slots, format!("*1 *4 :0 :16383 {both}"));
        let shards = client.call("cluster shards");
        assert!(shards.starts_with("*2 ") && shards.contains("$4 role $7 replica"), "{shards}");
        for command in ["replicas", "slaves"] {
            let replicas = client.call(&format!("cluster {command} {owner}"));
            assert!(replicas.starts_with("*1 $") && replicas.contains(&format!("slave {owner} ")), "{replicas}");
            assert_eq!(client.call(&format!("cluster {command} {other}")), "*0");
            let refused = client.call(&format!("cluster {command} {standby}"));
            assert_eq!(refused, "-ERR The specified node is not a master");
            let refused = client.call(&format!("cluster {command} {}", "f".repeat(40)));
            assert!(refused.starts_with("-ERR Unknown node f"), "{refused}");
        }
    }
    assert_eq!(copied.nodes.client(1).call("cluster myshardid"), format!("$40 {owner}"));
    assert_eq!(copied.nodes.client(2).call("cluster myshardid"), format!("$40 {other}"));

    // Keys count once, whichever node is asked; a block and a script see the same.
    copied.sets(2, 10);
    let count = copied.count;
    for at in 0..3 {
        let mut client = copied.nodes.client(at);
        assert_eq!(client.call("dbsize"), format!(":{count}"), "{at}");
        assert!(client.call("keys key:*").starts_with(&format!("*{count} ")), "{at}");
        assert_eq!(client.call("eval \"return redis.call('dbsize')\" 0"), format!(":{count}"), "{at}");
        client.call("multi");
        client.call("dbsize");
        assert_eq!(client.call("exec"), format!("*1 :{count}"), "{at}");
    }
    // What nobody can do there is told, and what is done already is no error.
    for (at, command, error) in [
        (1, format!("replicaof 127.0.0.1 {other_port}"), "-ERR node "),
        (1, format!("cluster replicate {standby}"), "-ERR Can't replicate myself"),
        // It does already, and its operator may say so again.
        (1, format!("cluster replicate {owner}"), "+OK"),
        (1, format!("replicaof 127.0.0.1 {port}"), "+OK"),
        (2, format!("cluster replicate {standby}"), "-ERR I can only replicate a master, not a replica."),
        (0, "replicaof no one".to_owned(), "-ERR REPLICAOF NO ONE is not allowed in cluster mode"),
        (1, "slaveof no one".to_owned(), "-ERR REPLICAOF NO ONE is not allowed in cluster mode"),
        (1, "replicaof 127.0.0.1 1".to_owned(), "-ERR no node of this cluster is at 127.0.0.1:1"),
        (1, "failover".to_owned(), "-ERR FAILOVER is not valid when server is a replica."),
        (2, "failover".to_owned(), "-ERR FAILOVER requires connected replicas."),
        (0, "failover abort".to_owned(), "-ERR No failover in progress."),
        (0, "failover to 127.0.0.1 1".to_owned(), "-ERR FAILOVER target HOST and PORT is not a replica."),
        (0, "failover timeout 0".to_owned(), "-ERR FAILOVER timeout must be greater than 0"),
        (0, "failover force".to_owned(), "-ERR FAILOVER with force option requires both"),
        (0, "failover to 127.0.0.1 1 timeout 9 force".to_owned(), "-ERR a shard is given away in order only"),
        (0, "failover now".to_owned(), "-ERR syntax error"),
    ] {
        let reply = copied.nodes.client(at).call(&command);
        assert!(reply.starts_with(error), "{command}: {reply}");
    }
    // A change of all keys concerns their owner alone, and the standby follows.
    assert_eq!(copied.nodes.client(1).call("flushall"), "+OK");
    assert_eq!(copied.nodes.client(2).call("dbsize"), ":0");
    // The last node stands by as well: its operator says so as in Redis.
    assert_eq!(copied.nodes.client(2).call(&format!("replicaof 127.0.0.1 {port}")), "+OK");
    copied.nodes.until(0, "cluster status", |status| status.matches("electable").count() == 2);
    copied.nodes.until(0, "info replication", |info| info.contains("slave1:ip=127.0.0.1"));
    for _ in 0..2 {
        assert_eq!(copied.nodes.client(2).call("cluster replicate no one"), "+OK");
    }
    copied.nodes.until(0, "role", |role| role.contains(" *1 *3 "));
}
