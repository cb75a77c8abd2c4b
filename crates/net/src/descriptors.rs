//! The shares of the process's descriptors. Most are for connections, but the log and the store must never run out of
//! them: that could end both.
//!
//! The system gives the lowest free number, so a high number means that all below are in use. The last numbers are not
//! for connections: the store and the rest of the process may still ask for as many. Files that the store opened
//! earlier may have low numbers, so its share is left out twice.

/// Descriptors beyond those of clients and of the store: listeners, files, event queues (as in Redis).
const RESERVED: u64 = 32;

/// Of these, so many are opened now and then, while connections arrive.
const NOW_AND_THEN: u64 = 12;

/// The most descriptors that the store can use.
const STORE_MAX: u64 = 256;

/// The least descriptors that the store can work with.
const STORE_MIN: u64 = 8;

/// The number of tables that the store may keep open if the process may have `most` descriptors.
pub fn of_store(most: u64) -> u64 {
    (most / 16).clamp(STORE_MIN, STORE_MAX)
}

/// The number of clients that can be served if the process may have `most` descriptors.
pub fn of_clients(most: u64) -> u64 {
    most.saturating_sub(RESERVED + 2 * of_store(most))
}

/// The number of descriptors with which `clients` can be served.
pub fn enough_for(clients: u64) -> u64 {
    clients + RESERVED + 2 * STORE_MAX
}

/// The first descriptor number that is not for connections.
pub(crate) fn first_spare(most: u64) -> u64 {
    most.saturating_sub(NOW_AND_THEN + of_store(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_and_all_clients_have_theirs_whoever_comes_first() {
        for most in (0..20_000).chain([u64::MAX]) {
            let (store, clients) = (of_store(most), of_clients(most));
            assert!(first_spare(most) + store + NOW_AND_THEN <= most || most < 20, "{most}");
            // Everything else and the tables first, then the clients.
            assert!(RESERVED - NOW_AND_THEN + store + clients <= first_spare(most) || clients == 0, "{most}");
        }
        assert_eq!([of_store(100), of_clients(100), of_clients(1024)], [8, 52, 864]);
        for clients in [1, 100, 10_000, 1_000_000] {
            assert!(of_clients(enough_for(clients)) >= clients);
        }
    }
}
