//! Server of one device behind several front-ends, which [`front::KINDS`](crate::front::KINDS) lists. Each front-end
//! runs on a thread of its own until [`Device::stop`](crate::device::Device::stop) is requested.

use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use phaselink_core::drive::Drive;
use phaselink_core::ledger::Outcome;
use phaselink_core::problem::{Problem, Problems};

use crate::clock::{Wait, span};
use crate::control::{self, ControlSocket};
use crate::device::faults::{FaultRuleScope, Faults};
use crate::device::report::EmptyExchangeTime;
use crate::device::store::Store;
use crate::device::tally::Tally;
use crate::device::{self, Device, StopRequest, metrics, report};
use crate::front::kind::{Front, FrontKind};
use crate::front::service::{FrontEndService, FrontEndSharedState};
use crate::front::{self, FrontEndArguments, KINDS};
use crate::model::engine_thread;
use crate::model::exchange::EngineExchange;
use crate::model::shared::SharedEngine;

/// Settings and bound addresses of a server that offers one device through several front-ends.
#[derive(Debug)]
pub struct Server {
    /// Device that all front-ends serve.
    pub device: Device,
    /// True if requests complete at the modelled time (timing on), false if they complete as soon as they are executed.
    pub timing: bool,
    /// Way in which the server's threads wait for work: spinning, sleeping, or spinning for a moment first.
    pub wait: Wait,
    /// Seed of all random numbers of the server and its model.
    pub seed: u64,
    /// Front-ends to run, whose sockets are bound already.
    pub fronts: Vec<Box<dyn Front>>,
    /// Listening TCP socket at which Prometheus reads the counters; none if metrics are off.
    pub metrics: Option<TcpListener>,
    /// Number of device threads among which each front-end divides its queues or connections. With more than one and
    /// timing on, the model has a thread of its own.
    pub device_threads: usize,
    /// Control socket at which fault rules are added and cleared while the server runs, if there is one.
    pub control: Option<ControlSocket>,
}

/// Options of a server that a program starts in its own process.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Front-ends by the name of their option of `phaselink serve`, such as `vfio-user`, each with its addresses.
    pub fronts: Vec<(String, Vec<String>)>,
    /// True if requests complete at the modelled time.
    pub timing: bool,
    /// Way in which the server's threads wait for work.
    pub wait: Wait,
    /// File that keeps the bytes of the drive; none keeps them in memory.
    pub store: Option<PathBuf>,
    /// Seed of all random numbers of the server and its model.
    pub seed: u64,
}

/// Maximum number of device threads of each front-end. Clients have few queues, so that more threads would be idle.
pub const DEVICE_THREADS_MAX: usize = 16;

/// Results of a server that has stopped.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Outcome of the simulation with timing on; with timing off, what the server itself measured.
    pub outcome: Outcome,
    /// Counts of requests, summed over all threads.
    pub tally: Tally,
    /// Times of an empty exchange over each front-end's transport, measured before serving: the least overhead that
    /// clients see beyond the modelled time. Empty with timing off.
    pub exchanges: Vec<EmptyExchangeTime>,
}

impl Server {
    /// Opens the store of a drive and binds all addresses, without serving yet.
    ///
    /// # Errors
    /// Every reason why the drive cannot be served at its addresses.
    pub fn bind(drive: &Drive, options: &ServerOptions) -> Result<Server, Problems> {
        let kinds: Vec<&FrontKind> = options.fronts.iter().map(|(flag, _)| kind(flag)).collect::<Result<_, _>>()?;
        let interrupts = kinds.iter().any(|kind| kind.sends_interrupts);
        let connections = kinds.iter().any(|kind| kind.has_connections);
        let faults = Faults::new(FaultRuleScope { model: options.timing, interrupts, connections });
        drive.faults.iter().try_for_each(|fault| faults.add(&drive.name, fault.clone()).map(drop))?;
        front::check(&kinds, drive, options.timing)?;
        let geometry = device::geometry(drive);
        let store = match &options.store {
            Some(path) => Store::open(path, geometry)?,
            None => Store::in_memory(geometry)?,
        };
        let fronts = kinds.iter().zip(&options.fronts).map(|(kind, (_, addresses))| {
            let arguments = FrontEndArguments { addresses: addresses.clone(), ..FrontEndArguments::default() };
            (kind.bind)(&arguments, drive, geometry)
        });
        let fronts = fronts.collect::<Result<Vec<Box<dyn Front>>, Problems>>()?;
        let stop = StopRequest::new().map_err(|error| Problem::new("serve", None, error.to_string(), ""))?;
        let device = Device {
            drive: Arc::new(drive.clone()),
            store: Arc::new(store),
            tallies: Arc::default(),
            record: None,
            history: None,
            faults: Arc::new(faults),
            stop: Arc::new(stop),
        };
        let ServerOptions { timing, wait, seed, .. } = *options;
        Ok(Server { device, timing, wait, device_threads: 1, seed, fronts, metrics: None, control: None })
    }

    /// Runs all front-ends until the device is told to stop, and returns their results. Every acknowledged write is on
    /// the disk when this returns.
    ///
    /// # Errors
    /// Returns the first error of a front-end that cannot go on, or of the disk. All front-ends have stopped by then.
    pub fn run(&self) -> io::Result<Summary> {
        let exchanges = self.measure_empty_exchanges()?;
        let started = Instant::now();
        let shared = FrontEndSharedState::default();
        let spare: usize = self.fronts.iter().map(|front| front.spare_threads()).sum();
        let exchange = EngineExchange::new(self.wait, self.fronts.len() * self.device_threads + spare)?;
        // All front-ends that share one modelled host share one engine.
        let mut engine = self.engine(&exchange)?;
        let modelled = thread::scope(|scope| {
            let metrics = self.metrics.as_ref();
            let metrics = metrics
                .map(|listener| scope.spawn(|| self.run_part_until_stopped(|| metrics::serve(listener, &self.device))));
            let control = self.control.as_ref();
            let control = control
                .map(|socket| scope.spawn(|| self.run_part_until_stopped(|| control::serve(socket, &self.device))));
            let mut serving = Vec::new();
            if self.device_threads > 1 {
                let engine =
                    engine.take().map(|engine| scope.spawn(|| self.run_part_until_stopped(|| self.run_engine(engine))));
                serving.extend(engine);
            }
            for front in self.front_ends_engine_owner_first() {
                let settings = (self.timing, self.wait, self.seed);
                let service = {
                    let shared = (&shared, &exchange);
                    FrontEndService::new(&self.device, settings, self.device_threads, shared, engine.take())
                };
                serving.push(scope.spawn(move || self.run_part_until_stopped(|| front.serve(&service))));
            }
            [metrics, control].into_iter().flatten().try_for_each(join)?;
            let modelled = serving.into_iter().map(join).collect::<io::Result<Vec<_>>>()?;
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

    /// Measures one empty exchange per front-end, before the server's threads compete for the processors. Returns an
    /// empty list with timing off.
    fn measure_empty_exchanges(&self) -> io::Result<Vec<EmptyExchangeTime>> {
        self.fronts.iter().filter(|_| self.timing).map(|front| front.empty_exchange()).collect()
    }

    /// Returns all front-ends, those that prefer to run the engine on their own thread first. With one device thread,
    /// the first of the list runs the engine.
    fn front_ends_engine_owner_first(&self) -> impl Iterator<Item = &dyn Front> {
        let fronts =
            |first| self.fronts.iter().map(Box::as_ref).filter(move |front| front.prefers_own_engine() == first);
        fronts(true).chain(fronts(false))
    }

    /// Makes the engine that all front-ends share; none with timing off.
    fn engine<'a>(&self, exchange: &'a EngineExchange) -> io::Result<Option<SharedEngine<'a>>> {
        let Some(front) = self.front_ends_engine_owner_first().next().filter(|_| self.timing) else { return Ok(None) };
        let drive = front.modelled_drive(&self.device.drive);
        SharedEngine::new(&self.device, drive, front.brings_software(), self.seed, exchange).map(Some)
    }

    fn run_engine(&self, mut engine: SharedEngine<'_>) -> io::Result<Option<Outcome>> {
        engine_thread::run(&self.device, &mut engine, self.wait);
        Ok(Some(engine.outcome()))
    }

    /// Runs a part of the server, such as a front-end (NBD, vfio-user), on the calling thread. When it ends, even by an
    /// error or a panic, all other threads of the server are told to stop.
    fn run_part_until_stopped<T>(&self, front: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let _stop = self.device.stop.stop_when_dropped();
        front()
    }
}

/// Waits for a thread of the server, and returns its result; an error if the thread has panicked.
fn join<T>(thread: thread::ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    thread.join().unwrap_or_else(|_| Err(io::Error::other("a front-end has failed")))
}

/// Returns the kind of front-end whose option of `phaselink serve` has this name.
fn kind(flag: &str) -> Result<&'static FrontKind, Problem> {
    let flags = || KINDS.iter().map(|kind| kind.flag).collect::<Vec<_>>().join(", ");
    let kind = KINDS.iter().find(|kind| kind.flag == flag);
    kind.ok_or_else(|| Problem::new("serve", None, format!("no front-end {flag}"), flags()))
}
