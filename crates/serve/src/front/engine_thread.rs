//! The model on a thread of its own, behind several device threads: one drive for all of them.

use std::thread;
use std::time::Duration;

use phaselink_core::time::Time;

use super::pace::{Patience, ROUNDS_IN_VAIN_MAX, SLEEP_MAX};
use crate::device::Device;
use crate::model::remote::{Callers, Exchange};
use crate::model::wall::{Wait, Wall};

/// Answer those who ask through `exchange`, whose clock is the wall's, until the device is told to stop; `threads` are those of
/// the modelled host, if there is one.
pub(crate) fn run(device: &Device, wall: &mut Wall, threads: Vec<u16>, exchange: &Exchange, wait: Wait) {
    let mut model = Model { wall, callers: Callers::new(exchange), threads, exchange };
    let (mut patience, mut in_vain) = (Patience::default(), 0);
    while !device.stop.is_requested() {
        if model.round() {
            (patience, in_vain) = (Patience::default(), 0);
            continue;
        }
        in_vain += 1;
        if in_vain < ROUNDS_IN_VAIN_MAX {
            std::hint::spin_loop();
            continue;
        }
        in_vain = 0;
        model.rest(wait, &mut patience);
    }
}

struct Model<'a> {
    wall: &'a mut Wall,
    callers: Callers<'a>,
    threads: Vec<u16>,
    exchange: &'a Exchange,
}

impl Model<'_> {
    /// Let in what has been asked and answer what is done; whether there was anything.
    fn round(&mut self) -> bool {
        let mut any = self.callers.listen(self.wall, &self.threads);
        let now = self.wall.now();
        while let Some(done) = self.wall.run_ahead(now) {
            assert!(self.callers.answer(&done, self.wall), "nobody else asks");
            any = true;
        }
        if !any {
            // What is asked just now is to be found in the model's future.
            let way = self.callers.usual_way();
            self.wall.idle_until(Time::ZERO + now.since(Time::ZERO + way + way / 4));
        }
        any
    }

    fn rest(&mut self, wait: Wait, patience: &mut Patience) {
        let time = match self.callers.are_there() || !self.wall.is_idle() {
            true => self.wall.rest_for(wait).min(SLEEP_MAX),
            false => SLEEP_MAX,
        };
        let may_sleep = !self.callers.are_there() && self.wall.is_idle() || patience.is_over(wait);
        if !may_sleep || time.is_zero() {
            return thread::yield_now();
        }
        let Model { callers, wall, threads, exchange } = self;
        let time = time.max(Duration::from_nanos(1));
        exchange.engine().sleep([].into_iter(), time, || callers.listen(wall, threads));
    }
}
