//! A copy is read while segments of it are given up and used again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::disk::{Disk, File};
use crate::format::{Frame, Kind, Name, SEGMENT_HEADER, SegmentHeader};
use crate::segments::name;
use crate::simulated::Simulated;
use crate::{Holder, Keep, Limits, Lsn, Reader, Replica};

const LIMITS: Limits = Limits { segment: 8192, spares: 1, reserve: 0, block: 16 << 20 };

/// A disk on which the oldest segment is given up and used again while a reader opens it.
struct Racing {
    disk: Simulated,
    /// Counts down at each opening of that segment: at zero it is used again.
    left: AtomicUsize,
    /// True if that happens before it is opened, and not behind.
    before: bool,
}

impl Racing {
    fn use_again(&self) -> io::Result<()> {
        let newest = self.disk.names().into_iter().filter(|name| name.ends_with(".log")).max().expect("a segment");
        let mut header = [0; SEGMENT_HEADER];
        self.disk.open(&newest)?.read(0, &mut header)?;
        let mut header = SegmentHeader::decode(&header).expect("a header");
        header.number = 99;
        self.disk.rename(&name(1), "spare-1")?;
        self.disk.open("spare-1")?.write(0, &header.encode())?;
        self.disk.rename("spare-1", &name(99))
    }
}

impl Disk for Racing {
    type File = <Simulated as Disk>::File;

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn open(&self, of: &str) -> io::Result<Self::File> {
        let is_due = of == name(1) && self.left.fetch_sub(1, Relaxed) == 1;
        if is_due && self.before {
            self.use_again()?;
        }
        let file = self.disk.open(of)?;
        if is_due && !self.before {
            self.use_again()?;
        }
        Ok(file)
    }

    fn create(&self, name: &str, size: u64) -> io::Result<Self::File> {
        self.disk.create(name, size)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.sync()
    }
}

#[test]
fn a_segment_that_is_used_again_while_it_is_read_is_no_damage() {
    for (left, before) in [(1, true), (1, false), (2, true), (2, false)] {
        let disk = Simulated::default();
        let holder = Holder { acceptor: [1; 16], shard: 7, stream: 0, streams: 1 };
        let mut replica = Replica::open(disk.clone(), holder, LIMITS).unwrap_or_else(|damage| panic!("{damage}"));
        replica.begin(1, Keep::UpTo(Name::default())).expect("room");
        for sequence in 1..=20 {
            let (name, cut) = (Name { term: 1, sequence }, Lsn(sequence << 4));
            let before = u32::from(sequence > 1);
            let (kind, body) = if sequence == 1 { (Kind::Start, &[][..]) } else { (Kind::Records, &[7; 900][..]) };
            let frame = Frame { kind, shard: 7, stream: 0, name, before, cut, reach: cut, body, sum: None };
            replica.put(&frame).expect("room");
        }
        assert!(disk.names().len() > 2, "{:?}", disk.names());
        let mut reader = Reader::new(Arc::new(Racing { disk, left: left.into(), before }));
        let mut read = Vec::new();
        let result = reader.read(1, 20, usize::MAX, |frame, _| read.push(frame.name.sequence));
        assert!(result.is_ok(), "{left} {before}: {result:?}");
        assert!(read.iter().copied().eq(1..=read.len() as u64), "{left} {before}: {read:?}");
    }
}
