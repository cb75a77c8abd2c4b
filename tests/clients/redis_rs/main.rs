//! What redis-rs needs, alone and as a client of clusters. Usage: redis_rs [smart] PORT [cluster]; prints a line per
//! failure, then totals.

use redis::cluster::{ClusterClient, ClusterConnection};
use redis::{Commands, ConnectionLike, FromRedisValue, RedisResult, Script};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn same<T: PartialEq + std::fmt::Debug>(got: T, expected: T) -> Outcome {
    if got == expected { Ok(()) } else { Err(format!("{got:?}, expected {expected:?}").into()) }
}

fn strings(r: &mut impl Commands) -> Outcome {
    let _: () = r.set("a", 1)?;
    same(r.incr::<_, _, i64>("a", 4)?, 5)?;
    same(r.get::<_, Option<String>>("none")?, None)
}

fn collections(r: &mut impl Commands) -> Outcome {
    let _: () = r.hset_multiple("h", &[("a", 1), ("b", 2)])?;
    same(r.hget::<_, _, i64>("h", "b")?, 2)?;
    let _: () = r.zadd("z", "m", 1.5)?;
    same(r.zscore::<_, _, f64>("z", "m")?, 1.5)?;
    let _: () = r.rpush("l", &[1, 2, 3][..])?;
    same(r.lrange::<_, Vec<i64>>("l", 0, -1)?, vec![1, 2, 3])
}

fn scripts(r: &mut impl ConnectionLike) -> Outcome {
    let script = Script::new("return redis.call('incrby', KEYS[1], ARGV[1])");
    same(script.key("n").arg(3).invoke::<i64>(r)?, 3)
}

fn pipelines(r: &mut impl ConnectionLike) -> Outcome {
    let replies: (i64, i64) = redis::pipe().atomic().incr("{t}n", 1).incr("{t}n", 1).query(r)?;
    same(replies, (1, 2))
}

fn fill(r: &mut impl Commands) -> RedisResult<Vec<String>> {
    let mut keys: Vec<String> = (0..500).map(|number| format!("key:{number}")).collect();
    for key in &keys {
        let _: () = r.set(key, "v")?;
    }
    keys.sort();
    Ok(keys)
}

fn scans(r: &mut redis::Connection) -> Outcome {
    let keys = fill(r)?;
    let mut found = r.scan_options::<String>(redis::ScanOptions::default().with_count(7))?.collect::<Result<Vec<_>, _>>()?;
    found.sort();
    same(found, keys)
}

fn cluster_keys(r: &mut ClusterConnection) -> Outcome {
    for key in fill(r)? {
        same(r.get::<_, String>(key)?, "v".to_owned())?;
    }
    Ok(())
}

fn count_of_all_nodes(r: &mut ClusterConnection) -> Outcome {
    let keys = fill(r)?;
    let reply = r.req_command(&redis::cmd("DBSIZE"))?;
    same(i64::from_redis_value(reply)?, keys.len() as i64)
}

fn report(totals: &mut (u32, u32), name: &str, outcome: Outcome) {
    match outcome {
        Ok(()) => totals.0 += 1,
        Err(error) => {
            totals.1 += 1;
            println!("redis-rs: {name}: {error}");
        }
    }
}

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let smart = words[0] == "smart";
    let url = format!("redis://127.0.0.1:{}", words[usize::from(smart)]);
    let mut totals = (0, 0);
    let mut alone = redis::Client::open(url.clone())?.get_connection()?;
    let _: () = redis::cmd("FLUSHALL").query(&mut alone)?;
    if smart {
        let mut r = ClusterClient::new(vec![url])?.get_connection()?;
        let _: () = redis::cmd("FLUSHALL").query(&mut r)?;
        report(&mut totals, "strings", strings(&mut r));
        report(&mut totals, "collections", collections(&mut r));
        report(&mut totals, "scripts", scripts(&mut r));
        let _: () = redis::cmd("FLUSHALL").query(&mut r)?;
        report(&mut totals, "keys", cluster_keys(&mut r));
        report(&mut totals, "count", count_of_all_nodes(&mut r));
    } else {
        report(&mut totals, "strings", strings(&mut alone));
        report(&mut totals, "collections", collections(&mut alone));
        report(&mut totals, "scripts", scripts(&mut alone));
        report(&mut totals, "pipelines", pipelines(&mut alone));
        let _: () = redis::cmd("FLUSHALL").query(&mut alone)?;
        report(&mut totals, "scans", scans(&mut alone));
    }
    println!("redis-rs: {} passed, {} failed", totals.0, totals.1);
    Ok(())
}
