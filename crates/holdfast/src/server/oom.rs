//! `oom-score-adj`: how readily the kernel ends this process when memory runs out.

use std::sync::Mutex;
use std::sync::PoisonError;

use node::config::{OomScore, Settings};

const FILE: &str = "/proc/self/oom_score_adj";
const FAILED: &str = "Failed to set current oom_score_adj. Check server logs.";

/// The score before it was changed here, while it is.
static BEFORE: Mutex<Option<i64>> = Mutex::new(None);

/// Sets the score that the settings ask for, or the one that was there before.
///
/// # Errors
/// In Redis's words; the log says more.
pub fn follow(settings: &Settings) -> Result<(), String> {
    adjust(settings).map_err(|error| {
        tracing::warn!("{FILE}: {error}");
        FAILED.to_owned()
    })
}

fn adjust(settings: &Settings) -> std::io::Result<()> {
    let mut before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
    // There are no replicas, and no child processes.
    let [own, ..] = settings.oom_score_adj_values;
    let score = match settings.oom_score_adj {
        OomScore::Leave => match before.take() {
            Some(score) => score,
            None => return Ok(()),
        },
        how => {
            let base = match *before {
                Some(score) => score,
                None => std::fs::read_to_string(FILE)?.trim().parse().unwrap_or(0),
            };
            *before = Some(base);
            if how == OomScore::Relative { base + own } else { own }
        }
    };
    std::fs::write(FILE, format!("{}\n", score.clamp(-1000, 1000)))
}
