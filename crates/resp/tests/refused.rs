//! A reply that the system has no memory for. It is a process of its own, as the limit holds for the whole process.

use headroom::Asked;
use resp::{Parts, Protocol, Reply};

#[test]
fn a_reply_without_memory_does_not_grow_and_is_to_be_replaced() {
    const ROOM: usize = 1 << 20;
    headroom::limit_to(1 << 30);
    headroom::ask(Asked { left: Box::new(|| 0), has_block: |bytes| bytes <= ROOM });
    let (mut out, mut parts) = (b"+before\r\n".to_vec(), Parts::default());
    let start = out.len();
    let mut reply = Reply::sharing(&mut out, Protocol::Resp2, &mut parts);
    let array = reply.deferred_array();
    for _ in 0..100_000 {
        reply.bulk([b'x'; 1000]);
        reply.integer(123_456);
        reply.bulk_double(0.5);
    }
    reply.finish(array, 300_000);
    assert!(reply.is_refused());
    assert!(out.capacity() < 2 * ROOM, "{}", out.capacity());
    assert!(parts.take_refused() && !parts.take_refused());
    out.truncate(start);
    Reply::sharing(&mut out, Protocol::Resp2, &mut parts).bulk("there is room for this");
    assert_eq!(out, b"+before\r\n$22\r\nthere is room for this\r\n");
}
