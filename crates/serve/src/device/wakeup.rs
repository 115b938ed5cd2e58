//! Wake-up of a thread that sleeps in `poll`: an eventfd, and a flag that says if anybody needs to write to it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};

/// Wake-up of one thread: an eventfd that is readable from its signal until the thread clears it. The structure fills cache
/// lines of its own, so that no writer beside it disturbs those who read the flag for every request.
#[derive(Debug)]
#[repr(align(64))]
pub struct Wakeup {
    fd: OwnedFd,
    is_asleep: AtomicBool,
}

impl Wakeup {
    /// Makes the wake-up of a thread that is awake.
    ///
    /// # Errors
    /// If the process has no file descriptor left.
    pub fn new() -> io::Result<Wakeup> {
        let fd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Wakeup { fd, is_asleep: AtomicBool::new(false) })
    }

    /// Makes the descriptor readable, so that the thread's present or next sleep ends.
    pub fn signal(&self) {
        // A counter that is full is readable already.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Signals the thread if it sleeps. The caller has left work for it before; a thread that is awake finds that by itself.
    #[inline]
    pub fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.is_asleep.load(Ordering::Relaxed) {
            self.signal();
        }
    }

    /// Announces a sleep: whoever leaves work from now on signals. The thread must look for work once more after this call.
    pub fn begin_sleep(&self) {
        self.is_asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Ends an announced sleep and clears the descriptor.
    pub fn end_sleep(&self) {
        self.is_asleep.store(false, Ordering::Relaxed);
        clear(&self.fd);
    }

    /// Lets the calling thread, whose wake-up this is, sleep until a signal, until one of `others` is readable, or for `time`.
    /// Returns at once if `has_work`, which is asked after the sleep has been announced.
    pub fn sleep<'a>(
        &'a self,
        others: impl Iterator<Item = BorrowedFd<'a>>,
        time: Duration,
        has_work: impl FnOnce() -> bool,
    ) {
        self.begin_sleep();
        if !has_work() {
            let mut polled: Vec<PollFd> =
                others.chain([self.as_fd()]).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
            // Interrupted or not, the thread polls its queues again.
            let _ = rustix::event::poll(&mut polled, Some(&time));
        }
        self.end_sleep();
    }
}

/// Sets the counter of an eventfd to zero.
pub fn clear(fd: impl AsFd) {
    // Most often the counter is zero already.
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

    /// Returns true if a sleep of a long time ends early.
    fn wakes(wakeup: &Wakeup, others: &[UnixStream], has_work: bool) -> bool {
        let since = Instant::now();
        wakeup.sleep(others.iter().map(AsFd::as_fd), LONG, || has_work);
        since.elapsed() < LONG
    }

    #[test]
    fn wake_signals_a_thread_that_sleeps_and_not_one_that_is_awake() {
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
    fn work_or_a_signal_from_before_a_sleep_ends_it_at_once() {
        let wakeup = Wakeup::new().unwrap();
        wakeup.signal();
        assert!(wakes(&wakeup, &[], false));
        assert!(wakes(&wakeup, &[], true));
        let (mut here, there) = UnixStream::pair().unwrap();
        io::Write::write_all(&mut here, b"!").unwrap();
        assert!(wakes(&wakeup, &[there], false));
    }
}
