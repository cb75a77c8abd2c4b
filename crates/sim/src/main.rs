//! `sim --seeds A..B`: runs simulations, and says which seed shows something wrong.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use sim::plan::{Plan, Planted};
use sim::{Outcome, nodes};

const USAGE: &str = "\
usage: sim [--cluster | --copies] [--seeds A..B | --seed N] [--jobs N] [--trace] [--planted NAME] [--clients-only] [--keep-going]

Runs the simulation of every seed from A up to B, B excluded (0..1000 by default). --seed N --trace prints everything that happens.
--cluster simulates many nodes instead of one, --copies a cluster whose logs have copies.
--planted makes a mistake on purpose; its names: --planted help.
--clients-only looks at nothing but what clients are told.";

struct Options {
    seeds: std::ops::Range<u64>,
    jobs: u64,
    trace: bool,
    cluster: bool,
    copies: bool,
    planted: Option<String>,
    clients_only: bool,
    keep_going: bool,
}

fn options() -> Option<Options> {
    let jobs = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let mut options = Options {
        seeds: 0..1000,
        jobs,
        trace: false,
        cluster: false,
        copies: false,
        planted: None,
        clients_only: false,
        keep_going: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--seeds" => {
                let range = args.next()?;
                let (from, to) = range.split_once("..")?;
                options.seeds = from.parse().ok()?..to.parse().ok()?;
            }
            "--seed" => {
                let seed: u64 = args.next()?.parse().ok()?;
                options.seeds = seed..seed.checked_add(1)?;
            }
            "--jobs" => options.jobs = args.next()?.parse().ok().filter(|jobs| *jobs > 0)?,
            "--trace" => options.trace = true,
            "--clients-only" => options.clients_only = true,
            "--keep-going" => options.keep_going = true,
            "--cluster" => options.cluster = true,
            "--copies" => (options.cluster, options.copies) = (true, true),
            "--planted" => options.planted = Some(args.next()?),
            _ => return None,
        }
    }
    let of_nodes = |all: &[(&'static str, nodes::plan::Planted)]| all.iter().map(|(name, _)| *name).collect();
    let names: Vec<&str> = match (options.cluster, options.copies) {
        (_, true) => of_nodes(&nodes::plan::Planted::OF_COPIES),
        (true, false) => of_nodes(&nodes::plan::Planted::ALL),
        (false, false) => Planted::ALL.iter().map(|(name, _)| *name).collect(),
    };
    match options.planted.as_deref() {
        Some("help") => {
            names.iter().for_each(|name| println!("{name}"));
            std::process::exit(0);
        }
        Some(name) if !names.contains(&name) => None,
        _ => Some(options),
    }
}

fn run(seed: u64, options: &Options) -> Outcome {
    fn of<P: Copy + Default>(all: &[(&'static str, P)], name: Option<&str>) -> P {
        all.iter().find(|(known, _)| Some(*known) == name).map_or(P::default(), |(_, planted)| *planted)
    }
    let (name, clients_only) = (options.planted.as_deref(), options.clients_only);
    if options.cluster {
        let plan = match options.copies {
            true => nodes::plan::Plan::with_copies(seed, of(&nodes::plan::Planted::OF_COPIES, name)),
            false => nodes::plan::Plan::of(seed, of(&nodes::plan::Planted::ALL, name)),
        };
        let node = Plan { clients_only, ..plan.node };
        return nodes::run_plan(seed, nodes::plan::Plan { node, clients_only, ..plan }, options.trace);
    }
    let plan = Plan { clients_only, ..Plan::of(seed, of(&Planted::ALL, name)) };
    sim::run_plan(seed, plan, options.trace)
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let next = AtomicU64::new(options.seeds.start);
    let stop = AtomicBool::new(false);
    let sums = Mutex::new((0u64, sim::counts::Counts::default(), Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= options.seeds.end {
                        break;
                    }
                    let outcome = run(seed, &options);
                    print!("{}", outcome.trace);
                    let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
                    sums.0 += 1;
                    sums.1 += outcome.counts;
                    if let Some(violation) = outcome.violation {
                        println!("seed {seed}: {violation}");
                        println!("  again: cargo run -p sim --release --{} --seed {seed} --trace", chosen(&options));
                        sums.2.push(seed);
                        stop.store(!options.keep_going, Relaxed);
                    }
                }
            });
        }
    });
    let (runs, counts, failed) = sums.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("{runs} seeds, {} violated something; {counts}", failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The rest of the command line.
fn chosen(options: &Options) -> String {
    let mut chosen = String::new();
    match (options.cluster, options.copies) {
        (_, true) => chosen.push_str(" --copies"),
        (true, false) => chosen.push_str(" --cluster"),
        (false, false) => {}
    }
    if options.clients_only {
        chosen.push_str(" --clients-only");
    }
    if let Some(name) = &options.planted {
        chosen.push_str(&format!(" --planted {name}"));
    }
    chosen
}
