//! Keys of the software above the driver.

use crate::config::section::{any, names, section};
use crate::config::spans::{LONGEST, ZERO};
use crate::time::Span;

section! {
    /// The software between the application's call and the protocol driver.
    pub struct Stack ("stack") {
        /// Stages in the order in which a request meets them, application first
        stages => stages: Vec<Stage> = Vec::new(), any();
        /// Rate of the memory-to-memory copy of the data, or 0 for none
        copy_bytes_per_ns => copy_bytes_per_ns: f64 = 0.0, 0.0..=1000.0;
        /// Whether data of writes is copied too, into a buffer of the driver
        copy_writes => copy_writes: bool = false, any();
    }
}

section! {
    /// One named stage of the software stack.
    pub struct Stage ("stack.stages") {
        /// Name, in the terms of the operating system
        name => name: String = String::from("stage"), any();
        /// Processor time on the way down
        submit_ns => submit: Span = ZERO, ZERO..=LONGEST;
        /// What a write takes more than a read on the way down
        write_extra_ns => write_extra: Span = ZERO, ZERO..=LONGEST;
        /// Processor time on the way back
        complete_ns => complete: Span = ZERO, ZERO..=LONGEST;
        /// Lock that the stage takes; stages that name the same lock exclude each other
        lock => lock: String = String::new(), any();
        /// How the lock is held: for parts of the `stage` (a spinlock), or until the `request` is back (a mutex, whose waiters sleep)
        lock_held => lock_held: LockHeld = LockHeld::Stage, any();
        /// Part of `submit_ns` under the spinlock, at its end, or 0 for all of it
        submit_held_ns => submit_held: Span = ZERO, ZERO..=LONGEST;
        /// Part of `complete_ns` under the spinlock, at its end
        complete_held_ns => complete_held: Span = ZERO, ZERO..=LONGEST;
        /// Cache lines that the spinlock guards and its holder writes: each travels with the lock, and makes it be held longer
        lock_lines => lock_lines: u8 = 0, 0..=255;
        /// Cache lines that the stage writes on the way down and other cores write too
        submit_lines => submit_lines: u8 = 0, 0..=64;
        /// The same on the way back; the first ones are those of the way down
        complete_lines => complete_lines: u8 = 0, 0..=64;
        /// Whether the stage ends in waking a kernel thread, which takes the request on while its own thread sleeps
        hand_over => hand_over: bool = false, any();
    }
}

/// For how long a stage's lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockHeld {
    Stage,
    Request,
}

names! { LockHeld { "stage" => Stage, "request" => Request } }
