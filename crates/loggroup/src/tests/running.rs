//! Acceptors with threads, on disks that lack room or fail.
