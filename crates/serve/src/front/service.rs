//! Settings and resources that a server gives to each of its front-ends.

use std::any::Any;
use std::io;
use std::sync::{Arc, Mutex};

use super::model::Model;
use super::poll_group::PollGroup;
use crate::clock::Wait;
use crate::device::Device;
use crate::device::tally::locked;
use crate::model::exchange::EngineExchange;
use crate::model::remote::RemoteEngine;
use crate::model::shared::SharedEngine;

/// Settings, device and engine that a server gives to one of its front-ends.
#[derive(Debug)]
pub struct FrontEndService<'a> {
    /// Device that the front-end serves.
    pub device: &'a Device,
    /// True if requests complete at the modelled time (timing on), false if they complete as soon as they are executed.
    pub timing: bool,
    /// Way in which device threads wait for work: spinning, sleeping, or spinning for a moment first.
    pub wait: Wait,
    /// Seed of all random numbers of the front-end.
    pub seed: u64,
    /// Number of device threads among which the front-end divides its queues or connections.
    pub device_threads: usize,
    /// State that front-ends share, such as the NVM subsystem of the drive.
    shared: &'a FrontEndSharedState,
    /// Channels to the engine of another thread, and wake-ups of device threads.
    exchange: &'a EngineExchange,
    /// Engine that the only device thread of this front-end is to run; none if another thread runs it or has taken it.
    engine: Mutex<Option<SharedEngine<'a>>>,
}

/// State that front-ends of a server share; none until the first of them has made it.
#[derive(Debug, Default)]
pub struct FrontEndSharedState(Mutex<Option<Arc<dyn Any + Send + Sync>>>);

impl<'a> FrontEndService<'a> {
    /// Makes the settings and resources of one front-end, whose first device thread runs `engine` if there is one.
    /// `exchange` must have a free channel for each device thread.
    pub fn new(
        device: &'a Device,
        (timing, wait, seed): (bool, Wait, u64),
        device_threads: usize,
        (shared, exchange): (&'a FrontEndSharedState, &'a EngineExchange),
        engine: Option<SharedEngine<'a>>,
    ) -> FrontEndService<'a> {
        FrontEndService { device, timing, wait, seed, device_threads, shared, exchange, engine: Mutex::new(engine) }
    }

    /// Returns the state that all front-ends of a kind share. The first of them makes it.
    ///
    /// # Errors
    /// If the state cannot be made.
    ///
    /// # Panics
    /// If front-ends share state of another type.
    pub fn shared<T: Send + Sync + 'static>(&self, first: impl FnOnce() -> io::Result<Arc<T>>) -> io::Result<Arc<T>> {
        let mut shared = locked(&self.shared.0);
        let state = match &*shared {
            Some(state) => Arc::clone(state),
            None => Arc::clone(shared.insert(first()?)),
        };
        Ok(state.downcast().expect("all front-ends that share state have one type of it"))
    }

    /// Returns `number` poll groups, each with its model and wake-up: at least one, and at most one for each device
    /// thread.
    ///
    /// # Panics
    /// If the groups of this front-end have been made before.
    pub fn groups(&self, number: usize) -> Vec<PollGroup<'a>> {
        let engine = locked(&self.engine).take();
        self.poll_groups_with_engine(number.clamp(1, self.device_threads), engine)
    }

    /// Returns `number` poll groups beside those of the device threads, as many as the front-end has
    /// [announced](super::kind::Front::spare_threads).
    ///
    /// # Panics
    /// If the groups of the device threads have not been made before.
    pub fn spare_groups(&self, number: usize) -> Vec<PollGroup<'a>> {
        assert!(locked(&self.engine).is_none(), "the engine is on a device thread");
        self.poll_groups_with_engine(number, None)
    }

    fn poll_groups_with_engine(&self, number: usize, mut engine: Option<SharedEngine<'a>>) -> Vec<PollGroup<'a>> {
        let FrontEndService { device, timing, wait, exchange, .. } = *self;
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
