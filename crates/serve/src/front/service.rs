//! Means that a server gives to each of its front-ends.

use std::sync::Mutex;

use super::model::Model;
use super::poll_group::PollGroup;
use crate::clock::Wait;
use crate::device::Device;
use crate::device::tally::locked;
use crate::model::exchange::Exchange;
use crate::model::remote::RemoteEngine;
use crate::model::shared::SharedEngine;

/// Means that a server gives to each of its front-ends.
#[derive(Debug)]
pub struct Service<'a> {
    /// The served device.
    pub device: &'a Device,
    /// True if requests complete when the model says, false if as soon as possible.
    pub timing: bool,
    /// Way in which threads pass idle time.
    pub wait: Wait,
    /// Seed of everything random.
    pub seed: u64,
    /// Number of device threads among which queues or connections are divided.
    pub device_threads: usize,
    /// Channels to the engine of another thread, and wake-ups of device threads.
    exchange: &'a Exchange,
    /// Engine that the only device thread of this front-end is to run.
    engine: Mutex<Option<SharedEngine<'a>>>,
}

impl<'a> Service<'a> {
    /// Makes the means of a front-end, whose device thread runs `engine` if there is one. `exchange` has a channel for each device
    /// thread.
    pub fn new(
        device: &'a Device,
        (timing, wait, seed): (bool, Wait, u64),
        device_threads: usize,
        exchange: &'a Exchange,
        engine: Option<SharedEngine<'a>>,
    ) -> Service<'a> {
        Service { device, timing, wait, seed, device_threads, exchange, engine: Mutex::new(engine) }
    }

    /// Returns so many poll groups, no more than there are device threads: each with its model and its wake-up.
    ///
    /// # Panics
    /// If the groups of this front-end have been made before.
    pub fn groups(&self, number: usize) -> Vec<PollGroup<'a>> {
        let engine = locked(&self.engine).take();
        self.groups_with(number.clamp(1, self.device_threads), engine)
    }

    /// Returns so many poll groups beside those of the device threads, as many as the front-end has
    /// [announced](super::kind::Front::spare_threads).
    ///
    /// # Panics
    /// If the groups of the device threads have not been made before.
    pub fn spare_groups(&self, number: usize) -> Vec<PollGroup<'a>> {
        assert!(locked(&self.engine).is_none(), "the engine is on a device thread");
        self.groups_with(number, None)
    }

    fn groups_with(&self, number: usize, mut engine: Option<SharedEngine<'a>>) -> Vec<PollGroup<'a>> {
        let Service { device, timing, wait, exchange, .. } = *self;
        let group = |_| {
            let channel = exchange.open();
            let (model, wakeup) = match engine.take() {
                _ if !timing => (Model::None, exchange.caller(channel)),
                Some(engine) => (Model::Here(Box::new(engine)), exchange.engine()),
                None => {
                    let engine = RemoteEngine::new(exchange, channel);
                    (Model::Elsewhere(Box::new(engine)), exchange.caller(channel))
                }
            };
            PollGroup { device, wait, model, wakeup }
        };
        (0..number).map(group).collect()
    }
}
