//! A device thread: one loop over its sockets' controllers and its queues of others, with the model or without it.

use std::io;
use std::time::Duration;

use super::front::{Posts, Rounds};
use crate::device::Device;
use crate::model::wall::Wait;

/// What becomes of commands: at once, or when the model says.
pub(super) trait Execution<'a> {
    /// Look at all queues, and at whatever else is due; whether anything was there.
    fn round(&mut self) -> bool;

    /// What the thread looks after.
    fn posts(&mut self) -> &mut Posts<'a>;

    /// Nothing has been there for a while: how long a thread that waits like this may sleep, at most.
    fn rest(&mut self, wait: Wait) -> Duration;

    /// What hosts have done is to be counted.
    fn count_undefined(&mut self);

    /// The thread has slept, until just now.
    fn slept(&mut self) {}
}

/// Serve until the device is told to stop.
///
/// # Errors
/// If the system cannot wait for sockets.
#[inline]
pub(super) fn run<'a>(device: &Device, wait: Wait, execution: &mut impl Execution<'a>) -> io::Result<()> {
    let mut rounds = Rounds::new(wait);
    while !device.stop.is_requested() {
        let mut found = execution.round();
        if rounds.is_to_attend() {
            let any = execution.posts().attend(device);
            rounds.attended(any);
            execution.count_undefined();
            found |= any;
        }
        if rounds.is_to_rest(found) {
            let time = execution.rest(wait);
            if execution.posts().rest(device, time, &mut rounds)? {
                execution.slept();
            }
        }
    }
    execution.count_undefined();
    Ok(())
}
