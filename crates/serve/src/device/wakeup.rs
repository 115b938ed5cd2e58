//! Wake-up of a thread that sleeps in `poll`: an eventfd, and a flag that tells other threads if they need to write to
//! it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};

/// Wake-up of one thread: an eventfd, and a flag that the thread sets before it sleeps. Other threads leave work, read
/// the flag, and signal the eventfd only if the flag is set. The structure fills cache lines of its own, so that writes
/// to adjacent memory do not slow these reads, of which there is one for every request.
#[derive(Debug)]
#[repr(align(64))]
pub struct Wakeup {
    fd: OwnedFd,
    is_asleep: AtomicBool,
}

impl Wakeup {
    /// Returns the wake-up of a thread that is awake.
    ///
    /// # Errors
    ///
    /// If the process has no file descriptor left.
    pub fn new() -> io::Result<Wakeup> {
        let fd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Wakeup { fd, is_asleep: AtomicBool::new(false) })
    }

    /// Makes the eventfd readable, so that the thread's current or next sleep ends.
    pub fn signal(&self) {
        // The write fails only if the counter is full, and then the eventfd is readable already.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Signals the thread if it sleeps, after the caller has left work for it. A thread that is awake finds the work by
    /// polling.
    #[inline]
    pub fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.is_asleep.load(Ordering::Relaxed) {
            self.signal();
        }
    }

    /// Announces a sleep of the thread: from now on, threads that leave work signal it. The thread must poll for work
    /// once more after this call.
    pub fn announce_sleep(&self) {
        self.is_asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Ends the announced sleep of the thread and clears the eventfd.
    pub fn end_sleep(&self) {
        self.is_asleep.store(false, Ordering::Relaxed);
        clear(&self.fd);
    }

    /// Puts the calling thread, whose wake-up this is, to sleep until a signal, until one of `others` is readable, or
    /// for `time`. Returns at once if `has_work` is true, which is called after the sleep has been announced.
    pub fn sleep<'a>(
        &'a self,
        others: impl Iterator<Item = BorrowedFd<'a>>,
        time: Duration,
        has_work: impl FnOnce() -> bool,
    ) {
        self.announce_sleep();
        if !has_work() {
            let mut polled: Vec<PollFd> =
                others.chain([self.as_fd()]).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
            // After an error or a signal, the thread polls its queues, as after a wake-up.
            let _ = rustix::event::poll(&mut polled, Some(&time));
        }
        self.end_sleep();
    }
}

/// Resets the counter of an eventfd to zero.
pub fn clear(fd: impl AsFd) {
    // The read fails if the counter is zero, which is the common case.
    let _ = rustix::io::read(fd, &mut [0; 8]);
}

impl AsFd for Wakeup {
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

    /// Returns true if a sleep of ten seconds ends early.
    fn wakes(wakeup: &Wakeup, others: &[UnixStream], has_work: bool) -> bool {
        let since = Instant::now();
        wakeup.sleep(others.iter().map(AsFd::as_fd), LONG, || has_work);
        since.elapsed() < LONG
    }

    #[test]
    fn wake_up_signals_only_a_sleeping_thread() {
        let wakeup = Wakeup::new().unwrap();
        wakeup.wake();
        let since = Instant::now();
        wakeup.sleep([].into_iter(), Duration::from_millis(1), || false);
        assert!(since.elapsed() >= Duration::from_millis(1), "it was awake when it was to be woken");
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| wakes(&wakeup, &[], false));
            while !wakeup.is_asleep.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            wakeup.wake();
            assert!(sleeper.join().unwrap());
        });
    }

    #[test]
    fn work_or_signal_before_a_sleep_ends_the_sleep_at_once() {
        let wakeup = Wakeup::new().unwrap();
        wakeup.signal();
        assert!(wakes(&wakeup, &[], false));
        assert!(wakes(&wakeup, &[], true));
        let (mut here, there) = UnixStream::pair().unwrap();
        io::Write::write_all(&mut here, b"!").unwrap();
        assert!(wakes(&wakeup, &[there], false));
    }
}
