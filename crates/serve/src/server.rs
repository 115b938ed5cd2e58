//! A server: one device behind several front-ends.
//!
//! A front-end is a function that runs on a thread of its own until [`Device::stop`](crate::device::Device::stop) says
//! so. To add one is to add a field to [`Server`] and a line to [`Server::run`].

use std::io;
use std::net::TcpListener;
use std::thread;
use std::time::Instant;

use phaselink_core::engine::Engine;
use phaselink_core::report::Outcome;

use crate::device::Device;
use crate::nbd::{self, Served};
use crate::shm;
use crate::tally::Tally;
use crate::wall::{Clock, Wait, Wall, span};
use crate::{metrics, report, vfio_user};

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
        let modelled = thread::scope(|scope| {
            let metrics = self.metrics.as_ref();
            let metrics = metrics.map(|listener| scope.spawn(|| self.stopping(metrics::serve(listener, &self.device))));
            let nbd = (!self.nbd.is_empty()).then(|| scope.spawn(|| self.stopping(self.serve_nbd())));
            let shm = (!self.shm.is_empty()).then(|| scope.spawn(|| self.stopping(self.serve_shm())));
            let vfio_user = (!self.vfio_user.is_empty()).then(|| scope.spawn(|| self.stopping(self.serve_vfio_user())));
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

    /// The model's account of what has been served over NBD, if there is a model.
    fn serve_nbd(&self) -> io::Result<Option<Outcome>> {
        if !self.timing {
            return nbd::lean::serve(&self.device, &self.nbd, self.wait).map(|()| None);
        }
        let mut wall = Wall::new(Engine::new(&self.device.drive, self.seed), Clock::start());
        nbd::timed::serve(&self.device, &self.nbd, &mut wall, self.wait)?;
        Ok(Some(wall.engine().outcome(&self.device.drive, self.seed)))
    }

    /// The same for shared memory.
    fn serve_shm(&self) -> io::Result<Option<Outcome>> {
        if !self.timing {
            return shm::lean::serve(&self.device, &self.shm, self.wait).map(|()| None);
        }
        let mut wall = Wall::new(Engine::new(&self.device.drive, self.seed), Clock::start());
        shm::timed::serve(&self.device, &self.shm, &mut wall, self.wait)?;
        Ok(Some(wall.engine().outcome(&self.device.drive, self.seed)))
    }

    /// The same for NVMe, whose hosts bring their own software.
    fn serve_vfio_user(&self) -> io::Result<Option<Outcome>> {
        if !self.timing {
            return vfio_user::lean::serve(&self.device, &self.vfio_user, self.wait).map(|()| None);
        }
        let drive = vfio_user::timed::behind_the_doorbell(&self.device.drive);
        let mut wall = Wall::new(Engine::new(&drive, self.seed), Clock::start());
        vfio_user::timed::serve(&self.device, &self.vfio_user, &mut wall, self.wait)?;
        Ok(Some(wall.engine().outcome(&drive, self.seed)))
    }

    /// Whatever has ended a front-end, the others end with it.
    fn stopping<T>(&self, ended: io::Result<T>) -> io::Result<T> {
        self.device.stop.request();
        ended
    }
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    thread.join().unwrap_or_else(|_| Err(io::Error::other("a front-end has failed")))
}
