//! A standby knows the scripts of its shard's owner, and runs them by their digests when it has taken the shard over.

use crate::standbys::Copied;

const SET: &str = "return redis.call('set', KEYS[1], ARGV[1])";
const GET: &str = "return redis.call('get', KEYS[1])";

#[test]
fn scripts_are_known_after_a_takeover() {
    let mut copied = Copied::new();
    // One is known before there is a standby, the other one comes later; EVAL has run both, at the owner alone.
    assert_eq!(copied.nodes.client(2).call(&format!("eval \"{SET}\" 1 key 1")), "+OK");
    copied.stands_by();
    assert_eq!(copied.nodes.client(0).call(&format!("eval \"{GET}\" 1 key")), "$1 1");
    let digests = [SET, GET].map(|text| {
        let found = copied.nodes.client(0).call(&format!("eval \"return redis.sha1hex(ARGV[1])\" 0 \"{text}\""));
        found.split(' ').nth(1).unwrap().to_owned()
    });
    for digest in &digests {
        assert!(copied.nodes.client(2).call(&format!("script show {digest}")).starts_with("-NOSCRIPT"));
        copied.nodes.until(1, &format!("script show {digest}"), |reply| reply.contains("return redis.call("));
    }
    // Texts that the owner forgets the standby forgets, too.
    assert_eq!(copied.nodes.client(0).call("script flush"), "+OK");
    assert!(copied.nodes.client(1).call(&format!("script show {}", digests[0])).starts_with("-NOSCRIPT"));
    assert_eq!(copied.nodes.client(0).call(&format!("eval \"{SET}\" 1 key 2")), "+OK");
    assert_eq!(copied.nodes.client(0).call(&format!("eval \"{GET}\" 1 key")), "$1 2");
    for digest in &digests {
        copied.nodes.until(1, &format!("script show {digest}"), |reply| reply.contains("return redis.call("));
    }
    copied.nodes.kill(0);
    copied.nodes.serves(1);
    let mut client = copied.nodes.client(1);
    assert_eq!(copied.served(&mut client, 1, &format!("evalsha {} 1 key 3", digests[0])), "+OK");
    assert_eq!(copied.served(&mut client, 1, &format!("evalsha {} 1 key", digests[1])), "$1 3");
}
