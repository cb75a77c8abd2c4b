//! LATENCY DOCTOR: slow events, in words, and possible remedies.

use command::Error;

use super::super::{Flow, SessionCtx};
use crate::config::Settings;
use crate::figures::latency::Event;

pub fn doctor(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let text = report(ctx);
    ctx.reply().verbatim(*b"txt", text);
    Ok(Flow::Done)
}

fn report(ctx: &SessionCtx<'_>) -> String {
    let events = ctx.node.latencies.all();
    if events.is_empty() {
        return match ctx.settings.latency_monitor_threshold {
            0 => "Latency is not monitored. CONFIG SET latency-monitor-threshold MILLISECONDS makes this server keep \
                  what takes so long or longer.\n"
                .into(),
            least => format!("Nothing has taken {least} ms or longer since the last reset.\n"),
        };
    }
    let mut text = String::from("What took long:\n\n");
    let now = ctx.engine.now().seconds();
    for (i, (event, series)) in events.iter().enumerate() {
        text.push_str(&format!("{}. {}: {}\n", i + 1, event.name(), series.summary(now)));
    }
    text.push_str("\nWhat may help:\n\n");
    for advice in events.iter().flat_map(|(event, _)| advice(*event, ctx.settings)) {
        text.push_str(&format!("- {advice}\n"));
    }
    text
}

fn advice(event: Event, settings: &Settings) -> Vec<String> {
    let threshold = settings.latency_monitor_threshold.saturating_mul(1000);
    match event {
        Event::Command => {
            let slower_than = u64::try_from(settings.slowlog_log_slower_than).ok();
            let logged = settings.slowlog_max_len > 0 && slower_than.is_some_and(|micros| micros <= threshold);
            let first = if logged {
                "SLOWLOG GET says which commands these were.".into()
            } else {
                format!("CONFIG SET slowlog-log-slower-than {threshold} makes SLOWLOG GET say which commands these are.")
            };
            let second = "Commands over whole large values (SORT, SUNIONSTORE, LRANGE of everything) take as long as their \
                          results are large: ask for parts, or scan.";
            vec![first, second.into()]
        }
        Event::FastCommand => vec![
            "Commands that cannot be slow were: the system gave this process no time. See what else runs on the machine, \
             and whether there are more `workers` than processors for them."
                .into(),
        ],
        Event::ExpireCycle => vec![
            "Expired keys are deleted in bounded steps: if one took this long, the system held it up. A lower \
             `active-expire-effort` makes the steps shorter."
                .into(),
        ],
        Event::LogCopies => vec![
            "The log has waited for its copies on other machines. INFO log and `holdfast cluster status` say which of \
             them are slow or away: see to their disks and the network between, or replace them."
                .into(),
        ],
        Event::EvictionCycle => vec![
            "Keys are evicted in bounded steps before commands: a lower `maxmemory-eviction-tenacity` makes them shorter. Large \
             values written while memory is full, or a `maxmemory` that was lowered, cause many of them."
                .into(),
        ],
        Event::DefragCycle => {
            vec!["Moving entries takes its time in steps: a lower `active-defrag-cycle-max` makes them rarer.".into()]
        }
    }
}
