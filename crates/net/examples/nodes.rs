//! A cluster in one process, to measure the cost of a hop: `nodes COUNT PORT [setting value]...`. It prints its ports
//! and serves until it reads a line.

#[path = "../tests/links/nodes.rs"]
mod nodes;

use net::Driver;
use node::config::IoDriver;

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: u16| args.get(i).and_then(|text| text.parse().ok()).unwrap_or(default);
    let settings: Vec<(&str, &str)> = args
        .iter()
        .skip(2)
        .collect::<Vec<_>>()
        .chunks_exact(2)
        .map(|pair| (pair[0].as_str(), pair[1].as_str()))
        .collect();
    let nodes = nodes::Nodes::start(number(0, 3).into(), Driver::choose(IoDriver::Auto)?, number(1, 7000), &settings)?;
    println!("{:?}", nodes.ports);
    std::io::stdin().read_line(&mut String::new())?;
    nodes.stop()
}
