//! Power loss: a file system of its own, shut down by `EXT4_IOC_SHUTDOWN`, so that unsynced data are never written.
//! Needs root; skipped with a message otherwise.
//!
//! `unsafe`: one ioctl that takes a pointer to a number that outlives the call.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use store::conformance::noise;

use super::after_a_crash;
use super::child::{Flaw, Told, kill, start};
use super::support::Scratch;

/// `_IOR('X', 125, u32)`.
const EXT4_IOC_SHUTDOWN: libc::c_ulong = 0x8004_587d;
/// The journal is not written out.
const NO_LOG_FLUSH: u32 = 2;

fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(args).output().map_err(|e| format!("{program}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path that is text")
}

/// A mount that lasts as long as this value.
pub struct Mounted(PathBuf);

impl Mounted {
    /// Memory of some MiB. `None`, with a message, if that is not permitted.
    pub fn memory(at: &Path, mib: u32) -> Option<Self> {
        std::fs::create_dir_all(at).expect("a folder");
        let size = format!("size={mib}m");
        match run("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", text(at)]) {
            Ok(()) => Some(Self(at.into())),
            Err(why) => {
                eprintln!("skipped: {why}");
                None
            }
        }
    }

    pub fn grow(&self, mib: u32) {
        let size = format!("remount,size={mib}m");
        run("mount", &["-o", &size, text(&self.0)]).expect("remounted");
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if run("umount", &[text(&self.0)]).is_err() {
            let _ = run("umount", &["-l", text(&self.0)]);
        }
    }
}

/// A file with an ext4 in it, and its mount point.
pub struct Disk {
    image: PathBuf,
    at: PathBuf,
}

impl Disk {
    /// `None`, with a message, if that is not permitted.
    pub fn new(scratch: &Scratch) -> Option<Self> {
        let disk = Self { image: scratch.join("image"), at: scratch.join("mounted") };
        let made = File::create(&disk.image).and_then(|f| f.set_len(256 << 20)).map_err(|e| e.to_string());
        let made = made.and_then(|()| std::fs::create_dir_all(&disk.at).map_err(|e| e.to_string()));
        let made = made.and_then(|()| run("mkfs.ext4", &["-q", "-F", text(&disk.image)]));
        match made.and_then(|()| disk.mount()) {
            Ok(_) => Some(disk),
            Err(why) => {
                eprintln!("skipped: {why}");
                None
            }
        }
    }

    fn mount(&self) -> Result<Mounted, String> {
        run("mount", &["-o", "loop", text(&self.image), text(&self.at)])?;
        Ok(Mounted(self.at.clone()))
    }

    /// From now on nothing is written.
    fn shut_down(&self) -> Result<(), String> {
        let root = File::open(&self.at).map_err(|e| e.to_string())?;
        let flags = NO_LOG_FLUSH;
        // SAFETY: the descriptor is open, and the call reads one u32 that lives as long as it.
        let code = unsafe { libc::ioctl(root.as_raw_fd(), EXT4_IOC_SHUTDOWN, &raw const flags) };
        if code == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().to_string()) }
    }
}

/// Takes the power away from a child again and again, each time after some flushes and a bit.
pub fn lose_often(disk: &Disk, seed: u64, through: &[&str], times: u64) -> Result<(), String> {
    let mut acknowledged = 0;
    let mut dice = noise(seed);
    for time in 0..times {
        let mounted = disk.mount()?;
        let folder = mounted.path().join("store");
        let mut child = start(&folder, seed, Flaw::Nothing, through);
        let mut told = Told::by(&mut child);
        let mut ended = None;
        for _ in 0..dice.next().unwrap_or(0) % 60 {
            match told.next() {
                Some(Ok(number)) => acknowledged = number,
                other => {
                    ended = Some(format!("time {time}: the child ended: {other:?}"));
                    break;
                }
            }
        }
        for _ in 0..u32::from(dice.next().unwrap_or(0)) * 400 {
            std::hint::spin_loop();
        }
        let shut = disk.shut_down();
        kill(&child);
        // Its reports from before the power failed count. Later reports come from a dead machine, but were true as
        // well: a sync that returns success has happened.
        while let Some(Ok(number)) = told.next() {
            acknowledged = number;
        }
        let _ = child.wait();
        drop(mounted);
        shut?;
        if let Some(why) = ended {
            return Err(why);
        }
        let mounted = disk.mount()?;
        let judged = after_a_crash(&mounted.path().join("store"), seed, acknowledged);
        drop(mounted);
        acknowledged = judged.map_err(|why| format!("seed {seed}, time {time}: {why}"))?;
    }
    Ok(())
}
