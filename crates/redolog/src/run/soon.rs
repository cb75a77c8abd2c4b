//! Writes past the cache by a thread that must not wait for a hanging disk: a worker's (`crew.rs`). The kernel carries
//! them out. A worker that has waited for a moment leaves the rest of the wait to a thread of the stream.
//!
//! The bytes of such a write belong to the kernel until it completes. So the object that knows the write keeps them,
//! and they are never freed before.

use std::io;
use std::mem::ManuallyDrop;
use std::time::Duration;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};

use crate::disk::{Direct, File};
use crate::flight::Flight;
use crate::segments::finally;

/// The pause after an error before it waits again.
const PAUSE: Duration = Duration::from_millis(1);

/// The ring of a thread, for one write at a time.
pub(crate) struct Ring(IoUring);

/// The outcome of a write.
pub(crate) enum Soon<F: File> {
    /// It ended.
    Written(Ring, Flight<F>, io::Result<()>),
    /// It has not ended in time.
    Late(Late<F>),
}

/// A write that has not ended. If it is dropped, its bytes are kept for ever, because the kernel may still read them.
pub(crate) struct Late<F: File>(ManuallyDrop<(Ring, Flight<F>)>);

impl Ring {
    /// `None`: this system has no io_uring, or does not permit it.
    pub(crate) fn new() -> Option<Self> {
        let ring = IoUring::new(2).ok()?;
        ring.params().is_feature_ext_arg().then_some(Self(ring))
    }

    /// Writes a block, and waits for so long. The block's file must be writable in this way, see [`File::direct`].
    pub(crate) fn write<F: File>(mut self, flight: Flight<F>, most: Duration) -> Soon<F> {
        let (Direct::Descriptor(fd), (at, bytes)) = (flight.file().direct(), flight.place()) else {
            let written = flight.write();
            return Soon::Written(self, flight, written);
        };
        let Ok(length) = u32::try_from(bytes.len()) else {
            let written = flight.write();
            return Soon::Written(self, flight, written);
        };
        let entry = opcode::Write::new(Fd(fd), bytes.as_ptr(), length).offset(at).build();
        // SAFETY: the bytes and the file are the flight's, on the heap, and the flight is kept until the write has
        // completed.
        if unsafe { self.0.submission().push(&entry) }.is_err() {
            let written = flight.write();
            return Soon::Written(self, flight, written);
        }
        let late = Late(ManuallyDrop::new((self, flight)));
        late.wait_for(Some(most))
    }

    /// The completion, if there is one.
    fn result(&mut self) -> Option<i32> {
        self.0.completion().next().map(|completion| completion.result())
    }
}

impl<F: File> Late<F> {
    /// Waits for the end of the write.
    pub(crate) fn wait(self) -> (Ring, Flight<F>, io::Result<()>) {
        let mut late = self;
        loop {
            match late.wait_for(None) {
                Soon::Written(ring, flight, written) => return (ring, flight, written),
                Soon::Late(again) => late = again,
            }
            // A signal, or the system lacks a resource for the moment.
            std::thread::park_timeout(PAUSE);
        }
    }

    fn wait_for(mut self, most: Option<Duration>) -> Soon<F> {
        let (ring, _) = &mut *self.0;
        let entered = match most {
            Some(most) => {
                let time = Timespec::from(most);
                ring.0.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time))
            }
            None => ring.0.submitter().submit_and_wait(1),
        };
        match (ring.result(), entered) {
            (Some(result), _) => {
                // SAFETY: it is taken once, and `self` is forgotten: its drop does nothing.
                let (ring, flight) = unsafe { ManuallyDrop::take(&mut self.0) };
                let written = written(&flight, result);
                Soon::Written(ring, flight, written)
            }
            (None, _) => Soon::Late(self),
        }
    }
}

/// The result of a completion. A write that was refused or has ended early is done once more in the usual way.
fn written<F: File>(flight: &Flight<F>, result: i32) -> io::Result<()> {
    match usize::try_from(result) {
        Ok(length) if length == flight.place().1.len() => Ok(()),
        Ok(_) => flight.write(),
        Err(_) if matches!(-result, libc::EINVAL | libc::EAGAIN | libc::EINTR | libc::EOPNOTSUPP) => flight.write(),
        Err(_) => finally(Err(io::Error::from_raw_os_error(-result))),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, PipeWriter, Read, Write};
    use std::os::fd::AsRawFd;
    use std::sync::Arc;

    use super::*;
    use crate::aligned::Aligned;
    use crate::disk::PAGE;

    /// Bytes that a pipe takes before its writer waits.
    const CAPACITY: usize = 1 << 16;

    /// A file that hangs until it is read.
    struct Pipe(PipeWriter);

    impl File for Pipe {
        fn size(&self) -> io::Result<u64> {
            Ok(0)
        }
        fn read(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn write(&self, _: u64, _: &[u8]) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn sync(&self) -> io::Result<()> {
            Ok(())
        }
        fn direct(&self) -> Direct {
            Direct::Descriptor(self.0.as_raw_fd())
        }
    }

    fn flight(taken: usize) -> (PipeReader, Flight<Pipe>) {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        writer.write_all(&vec![1; taken]).expect("it has room for that");
        let mut bytes = Aligned::default();
        bytes.clear(PAGE);
        bytes.append(|bytes| bytes.extend([2; PAGE]));
        (reader, Flight::new(Arc::new(crate::own::GuardedFile::alone(Pipe(writer))), 0, bytes, 1))
    }

    #[test]
    fn what_hangs_is_left_to_others() {
        let Some(ring) = Ring::new() else { return eprintln!("skipped: no io_uring") };
        let (_reader, quick) = flight(0);
        let Soon::Written(ring, _, Ok(())) = ring.write(quick, Duration::from_secs(60)) else {
            panic!("there is room")
        };
        let (mut reader, slow) = flight(CAPACITY);
        let Soon::Late(late) = ring.write(slow, Duration::from_millis(1)) else { panic!("there is no room") };
        let waiting = std::thread::spawn(move || late.wait());
        let mut read = vec![0; CAPACITY + PAGE];
        reader.read_exact(&mut read).expect("both");
        assert!(read[..CAPACITY].iter().all(|byte| *byte == 1) && read[CAPACITY..].iter().all(|byte| *byte == 2));
        let (ring, _, written) = waiting.join().expect("it ends");
        written.expect("it was written");
        // It is used again.
        let (_reader, quick) = flight(0);
        assert!(matches!(ring.write(quick, Duration::from_secs(60)), Soon::Written(_, _, Ok(()))));
    }

    #[test]
    fn what_cannot_be_written_is_said() {
        let Some(ring) = Ring::new() else { return eprintln!("skipped: no io_uring") };
        let (reader, flight) = flight(0);
        drop(reader);
        let Soon::Written(_, _, Err(error)) = ring.write(flight, Duration::from_secs(60)) else {
            panic!("nobody reads")
        };
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
