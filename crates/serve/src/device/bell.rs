//! Wakes a thread that waits for descriptors.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};

/// Readable once it has been rung, until its thread has heard it. On lines of its own, so that nobody disturbs whoever asks
/// whether the thread is awake.
#[derive(Debug)]
#[repr(align(64))]
pub struct Bell {
    fd: OwnedFd,
    is_asleep: AtomicBool,
}

impl Bell {
    /// That of a thread which is awake.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn new() -> io::Result<Bell> {
        let fd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Bell { fd, is_asleep: AtomicBool::new(false) })
    }

    /// Ring it.
    pub fn ring(&self) {
        // A counter that is full is readable already.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Something has been left for the thread: it is woken, if it may not look any more.
    #[inline]
    pub fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.is_asleep.load(Ordering::Relaxed) {
            self.ring();
        }
    }

    /// From now on, whoever leaves something rings; the thread looks once more after this.
    pub fn fall_asleep(&self) {
        self.is_asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The thread is awake, and the bell can be rung again.
    pub fn wake_up(&self) {
        self.is_asleep.store(false, Ordering::Relaxed);
        self.silence();
    }

    /// It has been heard, and can be rung again.
    pub fn silence(&self) {
        silence(&self.fd);
    }

    /// Let the calling thread, whose bell this is, sleep until it rings, something comes to one of `others`, or for so long; not
    /// if there is `anything` already.
    pub fn sleep<'a>(
        &'a self,
        others: impl Iterator<Item = BorrowedFd<'a>>,
        time: Duration,
        anything: impl FnOnce() -> bool,
    ) {
        self.fall_asleep();
        if !anything() {
            let mut polled: Vec<PollFd> =
                others.chain([self.as_fd()]).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
            // Interrupted or not, the thread looks again.
            let _ = rustix::event::poll(&mut polled, Some(&time));
        }
        self.wake_up();
    }
}

/// Take what an eventfd has counted.
pub fn silence(fd: impl AsFd) {
    // Most often there is nothing.
    let _ = rustix::io::read(fd, &mut [0; 8]);
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::thread;
    use std::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    /// Whether a sleep of a long time ends soon.
    fn wakes(bell: &Bell, others: &[UnixStream], anything: bool) -> bool {
        let since = Instant::now();
        bell.sleep(others.iter().map(AsFd::as_fd), LONG, || anything);
        since.elapsed() < LONG
    }

    #[test]
    fn a_thread_that_sleeps_is_woken_and_one_that_looks_is_not_disturbed() {
        let bell = Bell::new().unwrap();
        bell.wake();
        let since = Instant::now();
        bell.sleep([].into_iter(), Duration::from_millis(1), || false);
        assert!(since.elapsed() >= Duration::from_millis(1), "it was awake when it was to be woken");
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| wakes(&bell, &[], false));
            while !bell.is_asleep.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            bell.wake();
            assert!(sleeper.join().unwrap());
        });
    }

    #[test]
    fn what_has_come_before_a_sleep_ends_it_at_once() {
        let bell = Bell::new().unwrap();
        bell.ring();
        assert!(wakes(&bell, &[], false));
        assert!(wakes(&bell, &[], true));
        let (mut here, there) = UnixStream::pair().unwrap();
        io::Write::write_all(&mut here, b"!").unwrap();
        assert!(wakes(&bell, &[there], false));
    }
}
