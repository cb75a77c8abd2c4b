//! The cost of a script: `cargo run --release -p script --example cost`.
//!
//! The host does nothing but answer, so this is the machine alone.

use resp::Protocol;
use script::{Input, Limits, Machine, Running, Source, Step};

/// Runs a script so often: the machine, and the calls made.
fn repeat(mut machine: Machine, source: &Source, times: usize) -> (Machine, usize) {
    let keys = [&b"key:000001"[..]];
    let argv = [&b"some value"[..]];
    let mut out = Vec::new();
    let mut calls = 0;
    for _ in 0..times {
        let running = Running::eval(machine, source, keys.into_iter(), argv.into_iter(), 0);
        let mut running = running.unwrap_or_else(|refused| panic!("{}", refused.error));
        let mut step = running.step(Input::Start);
        loop {
            step = match step {
                Step::Done => break,
                Step::Call { .. } => {
                    calls += 1;
                    std::hint::black_box(running.args());
                    running.step(Input::Reply(b"$10\r\nsome value\r\n"))
                }
                _ => running.step(Input::Continue),
            };
        }
        out.clear();
        machine = running.finish(Protocol::Resp2, &mut out).machine;
    }
    (machine, calls)
}

/// Processor time of this process so far, in seconds.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

fn main() {
    let mut machine = Machine::new(Limits::default()).expect("memory");
    for (name, body, times) in [
        ("return 1", "return 1", 1_000_000),
        ("one call", "return redis.call('get', KEYS[1])", 1_000_000),
        ("set and get", "redis.call('set', KEYS[1], ARGV[1]) return redis.call('get', KEYS[1])", 500_000),
        ("1000 calls", "for i = 1, 1000 do redis.call('get', KEYS[1]) end", 1_000),
        ("100000 additions", "local n = 0 for i = 1, 100000 do n = n + i end return n", 1_000),
        ("gsub", "return (('the quick brown fox'):rep(20):gsub('%w+', '<%0>'))", 20_000),
        ("cjson", "return cjson.encode(cjson.decode('{\"a\":[1,2,3,{\"b\":\"text\"}],\"c\":1.5}'))", 100_000),
    ] {
        let source = Source::parse(body.as_bytes()).expect("a script");
        let start = cpu();
        let (back, calls) = repeat(machine, &source, times);
        machine = back;
        let each = (cpu() - start) * 1e9 / times as f64;
        println!("{name:>20}: {each:9.0} ns a script, {} calls", calls / times);
    }
}
