//! Sessions that change their protocol, database and state in the middle of pipelines, and wait in between.

use resp::Value;

use crate::support::attack::{bulk, request, simple};
use crate::world::{Chance, World};

/// Picks scenes, sends several of them at once, and checks every reply of them.
pub fn turncoat(world: &World<'_>, mut chance: Chance) {
    let mut client = world.client();
    let own = format!("turncoat:{}", world.unique());
    client.call(&["hset", &own, "field", "value"]);
    let (list, other) = (format!("{own}:list"), format!("{own}:other"));
    let mut resp3 = false;
    while !world.is_over() {
        let mut bytes = Vec::new();
        let mut wanted: Vec<Option<Value>> = Vec::new();
        let mut say = |words: &[&str], reply: Option<Value>| {
            bytes.extend(request(words));
            wanted.push(reply);
        };
        for _ in 0..1 + chance.below(12) {
            match chance.below(8) {
                0 => {
                    resp3 = chance.one_in(2);
                    say(&["hello", if resp3 { "3" } else { "2" }], None);
                }
                1 => {
                    let pair = (bulk("field"), bulk("value"));
                    let map = if resp3 { Value::Map(vec![pair]) } else { Value::Array(vec![pair.0, pair.1]) };
                    say(&["hgetall", &own], Some(map));
                }
                2 => say(&["blpop", &list, "0.002"], Some(Value::Null)),
                3 => {
                    say(&["rpush", &list, "a"], Some(Value::Integer(1)));
                    say(&["blmove", &list, &other, "left", "left", "0"], Some(bulk("a")));
                    let both = vec![bulk(&other), bulk("a")];
                    say(&["brpop", &list, &other, "0"], Some(Value::Array(both)));
                }
                4 => {
                    say(&["multi"], Some(simple("OK")));
                    say(&["blpop", &list, "0"], Some(simple("QUEUED")));
                    say(&["hget", &own, "field"], Some(simple("QUEUED")));
                    say(&["exec"], Some(Value::Array(vec![Value::Null, bulk("value")])));
                }
                5 => {
                    say(&["watch", &own], Some(simple("OK")));
                    say(&["hset", &own, "field", "value"], Some(Value::Integer(0)));
                    say(&["multi"], Some(simple("OK")));
                    say(&["ping"], Some(simple("QUEUED")));
                    say(&["exec"], Some(Value::Null));
                }
                6 => {
                    say(&["multi"], Some(simple("OK")));
                    say(&["nonsense"], None);
                    say(&["exec"], None);
                }
                _ => {
                    say(&["multi"], Some(simple("OK")));
                    say(&["select", "3"], Some(simple("QUEUED")));
                    say(&["reset"], Some(simple("RESET")));
                    resp3 = false;
                    say(&["exists", &own], Some(Value::Integer(1)));
                }
            }
        }
        let cut = chance.below(bytes.len() as u64 + 1) as usize;
        client.send(&bytes[..cut]);
        if chance.one_in(2) {
            std::thread::yield_now();
        }
        client.send(&bytes[cut..]);
        for (i, wanted) in wanted.into_iter().enumerate() {
            let reply = client.reply();
            if let Some(wanted) = wanted {
                assert_eq!(reply, wanted, "reply {i} of {}", bytes.escape_ascii());
            }
        }
        world.step("turncoat");
    }
}
