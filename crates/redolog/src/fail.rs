//! Places where a test ends the process, as a crash would.
//!
//! `HOLDFAST_FAIL_POINT=NAME:N` aborts when the place of that name is passed for the `N`th time, counted over all
//! threads. It exists only in builds with debug assertions.

/// Passes the place of this name.
#[inline(always)]
pub fn point(name: &str) {
    #[cfg(debug_assertions)]
    armed::pass(name);
    #[cfg(not(debug_assertions))]
    let _ = name;
}

#[cfg(debug_assertions)]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    struct Armed {
        name: String,
        left: AtomicU64,
    }

    static ARMED: OnceLock<Option<Armed>> = OnceLock::new();

    fn armed() -> Option<Armed> {
        let text = std::env::var("HOLDFAST_FAIL_POINT").ok()?;
        let (name, count) = text.split_once(':').unwrap_or((&text, "1"));
        Some(Armed { name: name.into(), left: count.parse::<u64>().ok()?.into() })
    }

    pub fn pass(name: &str) {
        if let Some(armed) = ARMED.get_or_init(armed)
            && armed.name == name
            && armed.left.fetch_sub(1, SeqCst) == 1
        {
            std::process::abort();
        }
    }
}
