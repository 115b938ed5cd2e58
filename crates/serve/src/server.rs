//! A server: one device behind several front-ends.
//!
//! A front-end is a function that runs on a thread of its own until [`Device::stop`](crate::device::Device::stop) says
//! so. To add one is to add a field to [`Server`] and a line to [`Server::run`].

use std::io;
use std::net::TcpListener;
use std::thread;
use std::time::Instant;

use phaselink_core::drive::Drive;
use phaselink_core::engine::Engine;
use phaselink_core::ledger::Outcome;

use crate::device::Device;
use crate::device::tally::Tally;
use crate::device::{metrics, report};
use crate::front::nbd::model::Model;
use crate::front::nbd::{self, Served};
use crate::front::shm;
use crate::front::vfio_user;
use crate::model::remote::{Exchange, Remote};
use crate::model::wall::{Clock, Wait, Wall, span};

/// What is served, where and how.
#[derive(Debug)]
pub struct Server {
    pub device: Device,
    /// Whether answers come when the model says, or as soon as possible.
    pub timing: bool,
    pub wait: Wait,
    pub seed: u64,
    /// Addresses of NBD; none if there are none.
    pub nbd: Vec<Served>,
    /// Sockets of shared memory; none if there are none.
    pub shm: Vec<shm::Served>,
    /// Sockets of NVMe over vfio-user; none if there are none.
    pub vfio_user: Vec<vfio_user::Served>,
    pub metrics: Option<TcpListener>,
}

/// What has been served in the end.
#[derive(Clone, Debug)]
pub struct Summary {
    /// With timing on, the model's account; with timing off, what was measured at the server.
    pub outcome: Outcome,
    pub tally: Tally,
}

impl Server {
    /// Serve until the device is told to stop; everything acknowledged is on the disk when this returns.
    ///
    /// # Errors
    /// The first of a front-end that cannot go on, or of the disk. All of them have stopped by then.
    pub fn run(&self) -> io::Result<Summary> {
        let started = Instant::now();
        // Shared memory and NBD have one host, and so one model.
        let exchange = &Exchange::new(self.wait)?;
        let modelled = thread::scope(|scope| {
            let metrics = self.metrics.as_ref();
            let metrics =
                metrics.map(|listener| scope.spawn(|| self.until_stopped(|| metrics::serve(listener, &self.device))));
            let shm = !self.shm.is_empty();
            let shm = shm.then(|| scope.spawn(|| self.until_stopped(|| self.serve_shm(exchange))));
            let remote = shm.as_ref().map(|shm| Remote::new(exchange, shm.thread().clone()));
            let nbd = !self.nbd.is_empty();
            let nbd = nbd.then(|| scope.spawn(|| self.until_stopped(|| self.serve_nbd(remote))));
            let vfio_user = !self.vfio_user.is_empty();
            let vfio_user = vfio_user.then(|| scope.spawn(|| self.until_stopped(|| self.serve_vfio_user())));
            if let Some(metrics) = metrics {
                joined(metrics)?;
            }
            let modelled = [nbd.map(joined), shm.map(joined), vfio_user.map(joined)];
            let modelled = modelled.into_iter().flatten().collect::<io::Result<Vec<_>>>()?;
            Ok::<_, io::Error>(modelled.into_iter().flatten().next())
        })?;
        self.device.store.flush()?;
        let tally = self.device.tallies.sum();
        let measured = || report::outcome(&self.device.drive.name, &tally, span(started.elapsed()));
        Ok(Summary { outcome: modelled.unwrap_or_else(measured), tally })
    }

    /// The model's account of what has been served over NBD, if there is a model of its own: the `remote` one of another
    /// front-end is asked where there is one.
    fn serve_nbd(&self, remote: Option<Remote>) -> io::Result<Option<Outcome>> {
        if !self.timing {
            return nbd::lean::serve(&self.device, &self.nbd, self.wait).map(|()| None);
        }
        if let Some(remote) = remote {
            return nbd::timed::serve(&self.device, &self.nbd, Model::Remote(remote), self.wait).map(|()| None);
        }
        let mut wall = self.wall(&self.device.drive, Clock::start());
        nbd::timed::serve(&self.device, &self.nbd, Model::own(&mut wall, &self.device.drive), self.wait)?;
        Ok(Some(wall.engine().outcome(&self.device.drive, self.seed)))
    }

    /// The same for shared memory, and whoever else asks for its model through `exchange`.
    fn serve_shm(&self, exchange: &Exchange) -> io::Result<Option<Outcome>> {
        if !self.timing {
            return shm::lean::serve(&self.device, &self.shm, self.wait).map(|()| None);
        }
        let mut wall = self.wall(&self.device.drive, exchange.clock().clone());
        shm::timed::serve(&self.device, &self.shm, &mut wall, exchange, self.wait)?;
        Ok(Some(wall.engine().outcome(&self.device.drive, self.seed)))
    }

    /// The same for NVMe, whose hosts bring their own software, and so have a model of their own.
    fn serve_vfio_user(&self) -> io::Result<Option<Outcome>> {
        if !self.timing {
            return vfio_user::lean::serve(&self.device, &self.vfio_user, self.wait).map(|()| None);
        }
        let drive = vfio_user::timed::behind_the_doorbell(&self.device.drive);
        let mut wall = self.wall(&drive, Clock::start());
        vfio_user::timed::serve(&self.device, &self.vfio_user, &mut wall, self.wait)?;
        Ok(Some(wall.engine().outcome(&drive, self.seed)))
    }

    fn wall(&self, drive: &Drive, clock: Clock) -> Wall {
        Wall::new(Engine::new(drive, self.seed), clock)
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
