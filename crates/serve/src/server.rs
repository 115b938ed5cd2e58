//! A server: one device behind several front-ends, each a function on a thread of its own until
//! [`Device::stop`](crate::device::Device::stop) says so. Which there are is [`front::KINDS`](crate::front::KINDS)'s to say.

use std::io;
use std::net::TcpListener;
use std::thread;
use std::time::Instant;

use phaselink_core::ledger::Outcome;

use crate::clock::{Wait, span};
use crate::control::{self, ControlSocket};
use crate::device::report::EmptyExchange;
use crate::device::tally::Tally;
use crate::device::{Device, metrics, report};
use crate::front::kind::Front;
use crate::front::service::Service;
use crate::model::engine_thread;
use crate::model::exchange::Exchange;
use crate::model::shared::SharedEngine;

/// Server of one device, behind several front-ends.
#[derive(Debug)]
pub struct Server {
    /// Served device.
    pub device: Device,
    /// True if requests complete when the model says, false if as soon as possible.
    pub timing: bool,
    /// Way in which threads pass idle time.
    pub wait: Wait,
    /// Seed of everything random.
    pub seed: u64,
    /// Front-ends with their addresses bound.
    pub fronts: Vec<Box<dyn Front>>,
    /// Socket at which Prometheus finds the counts.
    pub metrics: Option<TcpListener>,
    /// Number of device threads among which each front-end divides its queues or connections. With more than one and timing on,
    /// the model has a thread of its own.
    pub device_threads: usize,
    /// Socket at which faults are added and cleared meanwhile.
    pub control: Option<ControlSocket>,
}

/// Most device threads: more have nothing to do, since clients have few queues.
pub const DEVICE_THREADS_MAX: usize = 16;

/// Account of a server that has stopped.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Account of the model with timing on; with timing off, what was measured at the server.
    pub outcome: Outcome,
    /// Counts.
    pub tally: Tally,
    /// Exchanges in which nothing is done, with timing on: the least that clients see of their own ways.
    pub exchanges: Vec<EmptyExchange>,
}

impl Server {
    /// Serves until the device is told to stop. Everything acknowledged is on the disk when this returns.
    ///
    /// # Errors
    /// The first of a front-end that cannot go on, or of the disk. All of them have stopped by then.
    pub fn run(&self) -> io::Result<Summary> {
        let exchanges = self.exchanges()?;
        let started = Instant::now();
        let spare: usize = self.fronts.iter().map(|front| front.spare_threads()).sum();
        let exchange = Exchange::new(self.wait, self.fronts.len() * self.device_threads + spare)?;
        // Front-ends whose host is modelled have one host, and so one engine.
        let mut engine = self.engine(&exchange)?;
        let modelled = thread::scope(|scope| {
            let metrics = self.metrics.as_ref();
            let metrics =
                metrics.map(|listener| scope.spawn(|| self.until_stopped(|| metrics::serve(listener, &self.device))));
            let control = self.control.as_ref();
            let control =
                control.map(|socket| scope.spawn(|| self.until_stopped(|| control::serve(socket, &self.device))));
            let mut serving = Vec::new();
            if self.device_threads > 1 {
                let engine = engine.take().map(|engine| scope.spawn(|| self.until_stopped(|| self.run_engine(engine))));
                serving.extend(engine);
            }
            for front in self.engine_owner_first() {
                let settings = (self.timing, self.wait, self.seed);
                let service = Service::new(&self.device, settings, self.device_threads, &exchange, engine.take());
                serving.push(scope.spawn(move || self.until_stopped(|| front.serve(&service))));
            }
            [metrics, control].into_iter().flatten().try_for_each(joined)?;
            let modelled = serving.into_iter().map(joined).collect::<io::Result<Vec<_>>>()?;
            Ok::<_, io::Error>(modelled.into_iter().flatten().next())
        })?;
        self.device.store.flush()?;
        let tally = self.device.tallies.sum();
        let measured = || report::outcome(&self.device.drive.name, &tally, span(started.elapsed()));
        let mut outcome = modelled.unwrap_or_else(measured);
        let taken = tally.taken.counters().into_iter().filter(|(_, count)| *count > 0);
        for (name, count) in self.device.faults.counters().into_iter().chain(taken) {
            match outcome.counters.iter_mut().find(|(known, _)| *known == name) {
                Some((_, counted)) => *counted += count,
                None => outcome.counters.push((name, count)),
            }
        }
        Ok(Summary { outcome, tally, exchanges })
    }

    /// Measures exchanges before anything else takes the machine's time.
    fn exchanges(&self) -> io::Result<Vec<EmptyExchange>> {
        self.fronts.iter().filter(|_| self.timing).map(|front| front.empty_exchange()).collect()
    }

    /// Returns the front-ends; the first of them runs the engine, if one device thread serves.
    fn engine_owner_first(&self) -> impl Iterator<Item = &dyn Front> {
        let fronts =
            |first| self.fronts.iter().map(Box::as_ref).filter(move |front| front.prefers_own_engine() == first);
        fronts(true).chain(fronts(false))
    }

    /// Makes the engine of all front-ends, if timing is on.
    fn engine<'a>(&self, exchange: &'a Exchange) -> io::Result<Option<SharedEngine<'a>>> {
        let Some(front) = self.engine_owner_first().next().filter(|_| self.timing) else { return Ok(None) };
        let drive = front.modelled_drive(&self.device.drive);
        SharedEngine::new(&self.device, drive, front.brings_software(), self.seed, exchange).map(Some)
    }

    fn run_engine(&self, mut engine: SharedEngine<'_>) -> io::Result<Option<Outcome>> {
        engine_thread::run(&self.device, &mut engine, self.wait);
        Ok(Some(engine.outcome()))
    }

    /// Runs a front-end; whatever ends it, the others end with it.
    fn until_stopped<T>(&self, front: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let _stop = self.device.stop.at_the_end();
        front()
    }
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    thread.join().unwrap_or_else(|_| Err(io::Error::other("a front-end has failed")))
}
