//! A damaged folder makes room for a new one, and is not removed: a set of acceptors may still name it.

use std::fs;
use std::io;
use std::path::PathBuf;

use quorum::ShardId;

use super::identity::{Cluster, Identity};
use super::{Unusable, folder_of, of_another_cluster};

/// Puts what lies in these directories of a copy of a shard's log aside. Returns where it is now.
///
/// # Errors
/// It is another cluster's, a process uses it, or a directory cannot be changed: some parts may be aside by then.
pub fn put_aside(directories: &[PathBuf], shard: ShardId, cluster: Option<Cluster>) -> Result<Vec<PathBuf>, Unusable> {
    let there = || directories.iter().map(|directory| (directory, folder_of(directory, shard)));
    let mut locks = Vec::new();
    for (_, folder) in there().filter(|(_, folder)| folder.exists()) {
        // A name that cannot be read says nothing.
        let named = Identity::read(&redolog::Folder::to_read(&folder)).unwrap_or_default();
        if let (Some(of), Some(cluster)) = (named.and_then(|named| named.cluster), cluster)
            && of != cluster
        {
            return Err(of_another_cluster());
        }
        locks.push(redolog::lock_folder(&folder)?);
        for part in fs::read_dir(&folder)? {
            let part = part?.path();
            if part.is_dir() {
                locks.push(redolog::lock_folder(&part)?);
            }
        }
    }
    let mut aside = Vec::new();
    for (directory, folder) in there().filter(|(_, folder)| folder.exists()) {
        let mut names = (1..u32::MAX).map(|count| directory.join(format!("shard-{}.aside-{count}", shard.0)));
        let to = names.find(|path| !path.exists()).ok_or_else(|| io::Error::other("no name is free"))?;
        fs::rename(&folder, &to)?;
        fs::File::open(directory)?.sync_all()?;
        aside.push(to);
    }
    Ok(aside)
}

#[cfg(test)]
mod tests {
    use quorum::AcceptorId;

    use super::*;
    use crate::Acceptors;

    const LIMITS: redolog::Limits = redolog::Limits { segment: 16384, spares: 0, reserve: 0, block: 4000 };

    #[test]
    fn a_damaged_copy_is_put_aside_and_another_is_made() {
        let root = std::env::temp_dir().join(format!("holdfast-aside-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let (shard, ours) = (ShardId(0), Some([1; 20]));
        let all: Vec<PathBuf> = ["a", "b"].map(|name| root.join(name)).to_vec();
        let make = |id| Acceptors::new(LIMITS, None).make(&all, shard, 2, ours, AcceptorId([id; 16]));
        make(1).unwrap_or_else(|why| panic!("{why}"));
        let running = Acceptors::new(LIMITS, None);
        running.open(&all, shard, 2, ours).unwrap_or_else(|why| panic!("{why}"));
        assert!(put_aside(&all, shard, ours).is_err(), "it is used");
        running.stop().unwrap();
        for turn in 1..=2 {
            fs::write(root.join("a/shard-0/promise"), "damaged").unwrap();
            let opened = Acceptors::new(LIMITS, None).open(&all, shard, 2, ours);
            assert!(matches!(opened, Err(Unusable::Lost(_))));
            assert!(put_aside(&all, shard, Some([2; 20])).is_err(), "another cluster's");
            let aside = put_aside(&all, shard, ours).unwrap_or_else(|why| panic!("{why}"));
            let name = format!("shard-0.aside-{turn}");
            assert_eq!(aside, [root.join("a").join(&name), root.join("b").join(&name)]);
            assert!(aside[0].join("acceptor").exists() && aside[1].join("stream-1").exists());
            assert_eq!(make(7).unwrap_or_else(|why| panic!("{why}")), AcceptorId([7; 16]));
        }
        fs::remove_dir_all(&root).unwrap();
    }
}
