//! Sessions with the bytes of clients.

use super::{Master, News, Place, Session, View, news};

fn place(host: &str, port: u16, id: char) -> Place {
    Place { host: host.to_owned(), port, id: id.to_string().repeat(40) }
}

fn view() -> View {
    let master =
        |name: &str, place: Place, replicas| Master { name: name.into(), place, is_up: true, epoch: 7, replicas };
    View {
        version: "8.8.0",
        id: "f".repeat(40),
        masters: vec![
            master("mymaster", place("", 6379, 'a'), vec![place("10.0.0.2", 6379, 'b')]),
            master("shard-1", place("10.0.0.2", 6379, 'b'), Vec::new()),
        ],
        others: vec![place("10.0.0.2", 26379, 'b')],
        voters: (3, 2),
    }
}

struct Client(Session, View);

impl Client {
    fn new() -> Self {
        Self(Session::new(9, "10.0.0.1".into()), view())
    }

    /// The bytes that come back, with lines told apart by blanks.
    fn says(&mut self, line: &str) -> String {
        let mut out = Vec::new();
        let goes = self.0.feed(format!("{line}\r\n").as_bytes(), &self.1, &mut out);
        let text = String::from_utf8(out).unwrap().replace("\r\n", " ").trim_end().to_owned();
        if goes { text } else { text + " (ends)" }
    }
}

#[test]
fn a_master_is_found_by_its_name() {
    let mut client = Client::new();
    assert_eq!(client.says("SENTINEL get-master-addr-by-name mymaster"), "*2 $8 10.0.0.1 $4 6379");
    assert_eq!(client.says("sentinel GET-MASTER-ADDR-BY-NAME SHARD-1"), "*2 $8 10.0.0.2 $4 6379");
    assert_eq!(client.says("SENTINEL get-master-addr-by-name other"), "*-1");
    assert_eq!(client.says("SENTINEL master other"), "-ERR No such master with that name");
    let master = client.says("SENTINEL master mymaster");
    assert!(
        master.starts_with("*40 $4 name $8 mymaster $2 ip $8 10.0.0.1 $4 port $4 6379 $5 runid $40 aaaa"),
        "{master}"
    );
    assert!(master.contains("$5 flags $6 master ") && master.contains("$10 num-slaves $1 1 "), "{master}");
    assert!(client.says("SENTINEL masters").starts_with("*2 *40 "));
    let replicas = client.says("SENTINEL replicas mymaster");
    assert!(replicas.starts_with("*1 *42 $4 name $13 10.0.0.2:6379"), "{replicas}");
    assert!(replicas.contains("$18 master-link-status $2 ok") && replicas.contains("$5 flags $5 slave"), "{replicas}");
    assert_eq!(client.says("SENTINEL slaves shard-1"), "*0");
    assert!(client.says("SENTINEL sentinels mymaster").starts_with("*1 *28 $4 name $40 bbbb"));
    assert_eq!(client.says("ROLE"), "*2 $8 sentinel *2 $8 mymaster $7 shard-1");
    assert!(client.says("INFO").contains("master0:name=mymaster,status=ok,address=10.0.0.1:6379,slaves=1,sentinels=2"));
}

#[test]
fn a_quorum_is_a_majority_that_answers() {
    let mut client = Client::new();
    let ok = "+OK 2 usable Sentinels. Quorum and failover authorization can be reached";
    assert_eq!(client.says("SENTINEL ckquorum mymaster"), ok);
    client.1.voters = (4, 2);
    assert!(client.says("SENTINEL ckquorum mymaster").starts_with("-NOQUORUM 2 usable Sentinels of 4."));
}

#[test]
fn what_the_metadata_decide_is_refused() {
    let mut client = Client::new();
    for line in ["SENTINEL set mymaster quorum 2", "SENTINEL monitor m 127.0.0.1 6379 2", "SENTINEL failover mymaster"]
    {
        let said = client.says(line);
        assert!(said.starts_with("-ERR SENTINEL ") && said.contains("the metadata of the cluster decide"), "{said}");
    }
    assert_eq!(client.says("SENTINEL nothing"), "-ERR unknown subcommand 'nothing'. Try SENTINEL HELP.");
    assert_eq!(client.says("SENTINEL master"), "-ERR wrong number of arguments for 'sentinel|master' command");
    assert_eq!(client.says("SENTINEL"), "-ERR wrong number of arguments for 'sentinel' command");
    assert_eq!(client.says("GET k"), "-ERR unknown command 'get', with args beginning with: 'k'");
}

#[test]
fn connections_are_greeted_as_by_redis() {
    let mut client = Client::new();
    assert_eq!(client.says("PING"), "+PONG");
    assert_eq!(client.says("PING hello"), "$5 hello");
    assert!(client.says("AUTH secret").starts_with("-ERR AUTH <password> called without any password configured"));
    assert!(client.says("HELLO 4").starts_with("-NOPROTO"));
    let hello = client.says("HELLO 3 AUTH default x SETNAME me");
    assert_eq!(
        hello,
        "%6 $6 server $5 redis $7 version $5 8.8.0 $5 proto :3 $2 id :9 $4 mode $8 sentinel $7 modules *0"
    );
    assert_eq!(client.says("CLIENT GETNAME"), "$2 me");
    assert_eq!(client.says("CLIENT SETINFO lib-name x"), "+OK");
    assert_eq!(client.says("RESET"), "+RESET");
    assert_eq!(client.says("CLIENT GETNAME"), "$-1");
    assert_eq!(client.says("QUIT"), "+OK (ends)");
    let mut out = Vec::new();
    let mut other = Client::new();
    assert!(!other.0.feed(b"*1\r\n:5\r\n", &other.1, &mut out));
    assert!(out.starts_with(b"-ERR Protocol error: expected '$'"));
    let long = format!("PING {}", "x".repeat(70_000));
    assert!(Client::new().says(&long).ends_with("(ends)"), "a line has its bound");
}

#[test]
fn pieces_of_requests_are_put_together() {
    let mut client = Client::new();
    let mut out = Vec::new();
    for byte in b"*2\r\n$4\r\nPING\r\n$2\r\nhi\r\nPING\r\n" {
        assert!(client.0.feed(&[*byte], &client.1, &mut out));
    }
    assert_eq!(out, b"$2\r\nhi\r\n+PONG\r\n");
}

#[test]
fn subscribers_hear_of_another_master() {
    let mut client = Client::new();
    assert_eq!(client.says("SUBSCRIBE +switch-master"), "*3 $9 subscribe $14 +switch-master :1");
    assert_eq!(client.says("PSUBSCRIBE *odown"), "*3 $10 psubscribe $6 *odown :2");
    assert_eq!(client.says("PING"), "*2 $4 pong $0");
    assert!(client.says("ROLE").starts_with("-ERR Can't execute 'role': only (P|S)SUBSCRIBE"));
    let (mut before, mut now) = (view(), view());
    before.masters[0].place.host = "10.0.0.1".into();
    now.masters[0].place = place("10.0.0.2", 6380, 'b');
    now.masters[1].is_up = false;
    let all = news(&before, &now);
    let switch = News { channel: "+switch-master", text: "mymaster 10.0.0.1 6379 10.0.0.2 6380".into() };
    assert_eq!(all, [switch, News { channel: "+odown", text: "master shard-1 10.0.0.2 6379".into() }]);
    let mut out = Vec::new();
    client.0.hear(&all, &mut out);
    let heard = String::from_utf8(out).unwrap().replace("\r\n", " ");
    assert!(heard.starts_with("*3 $7 message $14 +switch-master $36 mymaster"), "{heard}");
    assert!(heard.contains("*4 $8 pmessage $6 *odown $6 +odown $28 master shard-1"), "{heard}");
    assert_eq!(news(&now, &now), []);
    assert_eq!(client.says("UNSUBSCRIBE"), "*3 $11 unsubscribe $14 +switch-master :1");
    assert_eq!(client.says("PUNSUBSCRIBE *odown"), "*3 $12 punsubscribe $6 *odown :0");
    assert_eq!(client.says("UNSUBSCRIBE"), "*3 $11 unsubscribe $-1 :0");
    assert!(!client.0.is_subscribed());
}

/// A request that a client announces takes no memory, and its subscriptions have a bound.
#[test]
fn a_client_has_bounds() {
    let mut client = Client::new();
    for number in 0..1000 {
        client.says(&format!("SUBSCRIBE c{number}"));
    }
    assert_eq!(client.says("SUBSCRIBE more"), "-ERR too many subscriptions");
    let mut out = Vec::new();
    let mut other = Client::new();
    assert!(!other.0.feed(b"*2\r\n$4\r\nPING\r\n$16385\r\n", &other.1, &mut out));
    assert!(!Client::new().0.feed(b"*11\r\n", &view(), &mut out));
}
