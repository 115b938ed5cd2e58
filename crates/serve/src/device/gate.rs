//! Gate that lets a thread wait until no other thread is still within a piece of work that began under old rules.
//!
//! Device threads execute commands without a lock. Each says when it is within a command. A thread that has changed what
//! commands may do waits until every other thread has been outside once; all later commands find the change. Entering
//! and leaving are plain stores, and the waiting thread has the kernel order them ([`call_membarrier`]), because it waits
//! seldom and the others enter all the time.
//!
//! ```text
//!    executing thread   enter ── is the command still allowed? ── bytes ── leave
//!    changing thread            change ── barrier in all threads ── wait while another is within ── report the change
//! ```
//!
//! Either the executing thread has entered before the barrier, so that it is waited for, or it finds the change.

use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};
use std::sync::{Arc, Mutex, Weak};

use crate::device::tally::locked;

/// True if the kernel cannot order the stores of other threads, so that each of them has to do it.
static ORDERS_ITSELF: AtomicBool = AtomicBool::new(false);

/// Gate of a drive, with a pass for each set of queues.
#[derive(Debug, Default)]
pub(crate) struct CommandGate {
    passes: Mutex<Vec<Weak<AtomicBool>>>,
}

/// Pass of one thread at a time, which says whether the thread is within a command.
#[derive(Debug)]
pub(crate) struct GatePass {
    is_within: Arc<AtomicBool>,
}

impl CommandGate {
    /// Returns a new pass.
    pub(crate) fn pass(&self) -> GatePass {
        register_process_barrier();
        let is_within = Arc::new(AtomicBool::new(false));
        let mut passes = locked(&self.passes);
        passes.retain(|pass| pass.strong_count() > 0);
        passes.push(Arc::downgrade(&is_within));
        GatePass { is_within }
    }

    /// Waits until every thread has been outside once. The caller must be outside.
    pub(crate) fn wait(&self) {
        issue_process_barrier();
        let passes: Vec<Arc<AtomicBool>> = locked(&self.passes).iter().filter_map(Weak::upgrade).collect();
        for pass in passes {
            while pass.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        }
    }
}

impl GatePass {
    /// Says that the thread is within a command, whose rules it reads after this.
    #[inline]
    pub(crate) fn enter(&self) {
        self.is_within.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        if ORDERS_ITSELF.load(Ordering::Relaxed) {
            fence(Ordering::SeqCst);
        }
    }

    /// Says that the thread is outside of any command.
    #[inline]
    pub(crate) fn leave(&self) {
        self.is_within.store(false, Ordering::Release);
    }
}

/// Commands of the system call `call_membarrier`.
const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

/// Registers the process for barriers in all of its threads; threads order their own stores if there are none.
fn register_process_barrier() {
    if !call_membarrier(REGISTER_PRIVATE_EXPEDITED) {
        ORDERS_ITSELF.store(true, Ordering::SeqCst);
    }
}

/// Orders the memory accesses of all threads of the process before those after the call.
fn issue_process_barrier() {
    fence(Ordering::SeqCst);
    if !ORDERS_ITSELF.load(Ordering::SeqCst) {
        let is_done = call_membarrier(PRIVATE_EXPEDITED);
        assert!(is_done, "a kernel that has registered the process has the barrier");
    }
    fence(Ordering::SeqCst);
}

fn call_membarrier(command: libc::c_int) -> bool {
    // SAFETY: the system call takes two integers, reads and writes no memory of the process, and ignores the third
    // argument for these commands.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::thread;

    use super::*;

    /// A thread adds to a number as long as it is allowed to. Once the change is reported, the number stays.
    #[test]
    fn commands_begun_before_a_change_have_ended_when_the_wait_returns() {
        let (gate, is_allowed) = (CommandGate::default(), AtomicBool::new(true));
        let (number, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let (worker, own) = (gate.pass(), gate.pass());
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    worker.enter();
                    if is_allowed.load(Ordering::Acquire) {
                        let before = number.load(Ordering::Relaxed);
                        std::hint::spin_loop();
                        number.store(before + 1, Ordering::Relaxed);
                    }
                    worker.leave();
                }
            });
            while number.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            for _ in 0..2000 {
                own.enter();
                is_allowed.store(false, Ordering::Release);
                own.leave();
                gate.wait();
                let stopped_at = number.load(Ordering::Acquire);
                for _ in 0..50 {
                    std::hint::spin_loop();
                }
                assert_eq!(number.load(Ordering::Acquire), stopped_at);
                is_allowed.store(true, Ordering::Release);
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn gate_does_not_wait_for_dropped_passes() {
        let gate = CommandGate::default();
        let pass = gate.pass();
        pass.enter();
        drop(pass);
        gate.wait();
    }
}
