//! Loop of a thread that only runs an engine, for device threads that submit their requests to it.

use std::hint;
use std::thread;
use std::time::Duration;

use super::shared::SharedEngine;
use super::wall::Wait;
use crate::device::Device;
use crate::device::pace::{IDLE_ROUNDS_MAX, IdlePollingTimer, SLEEP_MAX};

/// Runs an engine for the threads that submit requests to it, until the device is told to stop.
pub fn run(device: &Device, engine: &mut SharedEngine<'_>, wait: Wait) {
    let (mut patience, mut idle_rounds) = (IdlePollingTimer::default(), 0);
    while !device.stop.is_requested() {
        let now = engine.exchange().clock().now();
        if engine.poll(now, now) {
            (patience, idle_rounds) = (IdlePollingTimer::default(), 0);
            continue;
        }
        idle_rounds += 1;
        if idle_rounds < IDLE_ROUNDS_MAX {
            hint::spin_loop();
            continue;
        }
        idle_rounds = 0;
        yield_or_sleep(engine, wait, &mut patience);
    }
}

/// Yields the processor once, or sleeps until a request arrives or the next event of the model is due.
fn yield_or_sleep(engine: &mut SharedEngine<'_>, wait: Wait, patience: &mut IdlePollingTimer) {
    let is_alone = !engine.has_callers() && engine.is_idle();
    let time = if is_alone { SLEEP_MAX } else { engine.rest_for(wait).min(SLEEP_MAX) };
    let may_sleep = is_alone || patience.is_over(wait);
    if !may_sleep || time.is_zero() {
        return thread::yield_now();
    }
    let exchange = engine.exchange();
    exchange.engine().sleep([].into_iter(), time.max(Duration::from_nanos(1)), || engine.listen());
}
