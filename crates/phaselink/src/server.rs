//! Drives served to real hosts.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use phaselink_core::problem::{Problem, Problems};
use phaselink_serve::device::StopRequest;
use phaselink_serve::model::wall::Wait;
use phaselink_serve::server::{self, ServerOptions, Summary};
use phaselink_studies::report;

use crate::drive::Drive;
use crate::run::SEED;

/// Drive to be served with real bytes: its front-ends, its store, and whether it takes the modelled time.
///
/// ```no_run
/// use phaselink::{Drive, Server};
///
/// let drive = Drive::shipped("nvme")?;
/// let served = Server::of(&drive).at("vfio-user", "/run/user/1000/nvme.sock").start()?;
/// println!("{}", served.addresses().join("\n"));
/// println!("{}", served.stop()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Server {
    drive: Drive,
    options: ServerOptions,
}

/// Drive that is being served, from threads of its own. Dropping it stops them.
#[derive(Debug)]
pub struct Served {
    addresses: Vec<String>,
    stop: Arc<StopRequest>,
    thread: Option<JoinHandle<io::Result<Summary>>>,
}

impl Server {
    /// Returns a server of this drive, in memory, with the modelled time of each request, without a front-end yet.
    pub fn of(drive: &Drive) -> Server {
        let (wait, seed) = (Wait::Adaptive, SEED);
        let options = ServerOptions { fronts: Vec::new(), timing: true, wait, store: None, seed };
        Server { drive: drive.clone(), options }
    }

    /// Adds a front-end by the name of its option of `phaselink serve`, such as `vfio-user` or `nbd`, at an address: the
    /// path of a unix socket, or what else the option takes. The front-end is looked up by [`Server::start`].
    #[must_use]
    pub fn at(mut self, front: &str, address: &str) -> Server {
        self.options.fronts.push((String::from(front), vec![String::from(address)]));
        self
    }

    /// Keeps the bytes of the drive in this file, which is created if it does not exist.
    #[must_use]
    pub fn stored_in(mut self, path: impl AsRef<Path>) -> Server {
        self.options.store = Some(path.as_ref().to_path_buf());
        self
    }

    /// Completes requests as fast as this machine can, without the modelled time.
    #[must_use]
    pub fn without_timing(mut self) -> Server {
        self.options.timing = false;
        self
    }

    /// Opens the store, binds all addresses and starts to serve. Hosts find the drive when this returns.
    ///
    /// # Errors
    /// Every reason why the drive cannot be served at its addresses.
    pub fn start(&self) -> Result<Served, Problems> {
        let server = server::Server::bind(self.drive.model(), &self.options)?;
        let addresses = server.fronts.iter().flat_map(|front| front.addresses()).collect();
        let stop = Arc::clone(&server.device.stop);
        let thread = thread::Builder::new().name(String::from("phaselink-serve")).spawn(move || server.run());
        Ok(Served {
            addresses,
            stop,
            thread: Some(thread.map_err(|error| Problem::new("serve", None, error.to_string(), ""))?),
        })
    }
}

impl Served {
    /// Returns the addresses at which hosts find the drive.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Stops, and waits until everything acknowledged is in the store. Returns the table of the requests of all hosts.
    ///
    /// # Errors
    /// If a front-end or the store has failed.
    pub fn stop(mut self) -> io::Result<String> {
        self.stop.request();
        let thread = self.thread.take().expect("only this function takes it, and it consumes the drive");
        let summary = thread.join().map_err(|_| io::Error::other("the server has failed"))??;
        Ok(report::requests(&summary.outcome).to_string())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.request();
    }
}
