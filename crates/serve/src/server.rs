//! A server: one device behind several front-ends, each a function on a thread of its own until
//! [`Device::stop`](crate::device::Device::stop) says so. Which there are is [`front::KINDS`](crate::front::KINDS)'s to say.

use std::io;
use std::net::TcpListener;
use std::thread;
use std::time::Instant;

use phaselink_core::engine::Engine;
use phaselink_core::ledger::Outcome;

use crate::control::{self, ControlSocket};
use crate::device::report::EmptyExchange;
use crate::device::tally::Tally;
use crate::device::{Device, metrics, report};
use crate::front::{Front, Service, engine_thread};
use crate::model::remote::Exchange;
use crate::model::wall::{Wait, Wall, span};

/// What is served, where and how.
#[derive(Debug)]
pub struct Server {
    pub device: Device,
    /// Whether answers come when the model says, or as soon as possible.
    pub timing: bool,
    pub wait: Wait,
    pub seed: u64,
    pub fronts: Vec<Box<dyn Front>>,
    pub metrics: Option<TcpListener>,
    /// Threads among which each front-end divides its queues or connections, if it can. With more than one and timing on,
    /// the model has another thread.
    pub device_threads: usize,
    /// Where faults are added and cleared meanwhile.
    pub control: Option<ControlSocket>,
}

/// Most device threads: more than that have nothing to do, since clients have few queues.
pub const DEVICE_THREADS_MAX: usize = 16;

/// What has been served in the end.
#[derive(Clone, Debug)]
pub struct Summary {
    /// With timing on, the model's account; with timing off, what was measured at the server.
    pub outcome: Outcome,
    pub tally: Tally,
    /// With timing on, what clients see of their own ways at least.
    pub exchanges: Vec<EmptyExchange>,
}

impl Server {
    /// Serve until the device is told to stop; everything acknowledged is on the disk when this returns.
    ///
    /// # Errors
    /// The first of a front-end that cannot go on, or of the disk. All of them have stopped by then.
    pub fn run(&self) -> io::Result<Summary> {
        let exchanges = self.exchanges()?;
        let started = Instant::now();
        // Front-ends whose host is modelled have one host, and so one model.
        let exchange = Exchange::new(self.wait, self.lanes())?;
        let modelled = thread::scope(|scope| {
            let metrics = self.metrics.as_ref();
            let metrics =
                metrics.map(|listener| scope.spawn(|| self.until_stopped(|| metrics::serve(listener, &self.device))));
            let control = self.control.as_ref();
            let control =
                control.map(|socket| scope.spawn(|| self.until_stopped(|| control::serve(socket, &self.device))));
            let own =
                self.has_engine_thread().then(|| scope.spawn(|| self.until_stopped(|| self.run_engine(&exchange))));
            let (mut has_engine, mut serving) = (own.is_some(), Vec::new());
            serving.extend(own);
            for front in self.lenders_first() {
                let service = self.service(&exchange, has_engine);
                let thread = scope.spawn(move || self.until_stopped(|| front.serve(&service)));
                has_engine |= self.timing && self.device_threads == 1 && front.lends_engine();
                serving.push(thread);
            }
            [metrics, control].into_iter().flatten().try_for_each(joined)?;
            let modelled = serving.into_iter().map(joined).collect::<io::Result<Vec<_>>>()?;
            Ok::<_, io::Error>(modelled.into_iter().flatten().next())
        })?;
        self.device.store.flush()?;
        let tally = self.device.tallies.sum();
        let measured = || report::outcome(&self.device.drive.name, &tally, span(started.elapsed()));
        Ok(Summary { outcome: modelled.unwrap_or_else(measured), tally, exchanges })
    }

    /// Measured before anything else takes the machine's time.
    fn exchanges(&self) -> io::Result<Vec<EmptyExchange>> {
        self.fronts.iter().filter(|_| self.timing).map(|front| front.empty_exchange()).collect()
    }

    /// The front-ends: those that lend their engine are there before those that ask for it.
    fn lenders_first(&self) -> impl Iterator<Item = &dyn Front> {
        let fronts = |lends| self.fronts.iter().map(Box::as_ref).filter(move |front| front.lends_engine() == lends);
        fronts(true).chain(fronts(false))
    }

    /// Whether the model has a thread of its own, since several ask it. Hosts that bring their own software have their own
    /// model.
    fn has_engine_thread(&self) -> bool {
        self.timing && self.device_threads > 1 && self.fronts.iter().any(|front| !front.brings_software())
    }

    fn run_engine(&self, exchange: &Exchange) -> io::Result<Option<Outcome>> {
        let drive = &self.device.drive;
        let mut wall = Wall::new(Engine::new(drive, self.seed), exchange.clock().clone());
        let threads = wall.add_threads(drive);
        engine_thread::run(&self.device, &mut wall, threads, exchange, self.wait);
        Ok(Some(wall.engine().outcome(drive, self.seed)))
    }

    /// Threads that may ask the model of another thread.
    fn lanes(&self) -> usize {
        if self.timing { self.fronts.len() * self.device_threads } else { 0 }
    }

    fn service<'a>(&'a self, exchange: &'a Exchange, has_engine: bool) -> Service<'a> {
        let Server { ref device, timing, wait, seed, device_threads, .. } = *self;
        Service { device, timing, wait, seed, exchange, has_engine, device_threads }
    }

    /// Whatever ends a front-end, the others end with it.
    fn until_stopped<T>(&self, front: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let _stop = self.device.stop.at_the_end();
        front()
    }
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    thread.join().unwrap_or_else(|_| Err(io::Error::other("a front-end has failed")))
}
