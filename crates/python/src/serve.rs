//! Drive served by the Python process, from threads that do not hold the interpreter's lock.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use phaselink_cli::served;
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::time::Span;
use phaselink_serve::device::StopRequest;
use phaselink_serve::device::report::model_lag_json;
use phaselink_serve::model::wall::Wait;
use phaselink_serve::server::{self, ServerOptions, Summary};
use phaselink_studies::report;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::drive::Drive;
use crate::input;

/// Waiting methods of serving threads, by the words that the program accepts.
const WAITS: [(&str, Wait); 3] = [("adaptive", Wait::Adaptive), ("spin", Wait::Spin), ("block", Wait::Block)];

/// Served drive.
#[pyclass(frozen, module = "phaselink._native")]
#[derive(Debug)]
pub struct Server {
    drive: Py<Drive>,
    addresses: Vec<String>,
    stop: Arc<StopRequest>,
    /// Server that is running, or none after it has been stopped.
    running: Mutex<Option<Running>>,
}

/// Server and the thread that runs it. Dropping it closes the store and the sockets.
#[derive(Debug)]
struct Running {
    server: Arc<server::Server>,
    thread: JoinHandle<io::Result<Summary>>,
}

/// Options of a server, as Python passes them.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
struct Options {
    /// Addresses of each front-end, by its command line flag.
    fronts: Vec<(String, Vec<String>)>,
    timing: bool,
    wait: String,
    store: Option<PathBuf>,
    seed: u64,
}

#[pymethods]
impl Server {
    /// Binds the addresses and starts to serve; clients find the drive when this returns.
    ///
    /// # Errors
    /// Every reason why the drive cannot be served at its addresses.
    #[new]
    fn new(py: Python<'_>, drive: Py<Drive>, options: Options) -> PyResult<Server> {
        let described = drive.get();
        let server = py.detach(|| bound(described, &options)).map_err(|problems| input::error(py, &problems))?;
        let server = Arc::new(server);
        let thread = thread::Builder::new().name(String::from("phaselink-serve"));
        let thread = thread.spawn({
            let server = Arc::clone(&server);
            move || server.run()
        })?;
        Ok(Server {
            drive,
            addresses: server.fronts.iter().flat_map(|front| front.addresses()).collect(),
            stop: Arc::clone(&server.device.stop),
            running: Mutex::new(Some(Running { server, thread })),
        })
    }

    /// Returns the addresses at which clients find the drive.
    fn addresses(&self) -> Vec<String> {
        self.addresses.clone()
    }

    /// True if clients are served; false after [`Server::stop`], and once a front-end has failed.
    fn is_running(&self) -> bool {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_ref().is_some_and(|running| !running.thread.is_finished())
    }

    /// Stops, waits until everything acknowledged is in the store, and returns the document that `phaselink serve
    /// --json` prints, without its time of day, and the tables. A lag beyond `tolerance_us` at the 99th percentile
    /// invalidates the result.
    ///
    /// # Errors
    /// If a front-end or the disk has failed, or the server has been stopped before.
    fn stop(&self, py: Python<'_>, tolerance_us: f64) -> PyResult<(String, String)> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Running { server, thread } =
            running.ok_or_else(|| PyRuntimeError::new_err("this server has been stopped"))?;
        self.stop.request();
        let summary = py.detach(|| thread.join());
        let summary = summary.map_err(|_| PyRuntimeError::new_err("the server has failed"))??;
        let tolerance = Span::from_ns_f64(tolerance_us * 1e3);
        Ok((self.document(&summary, server.timing, tolerance), text(&summary, server.timing, tolerance)))
    }
}

impl Server {
    fn document(&self, summary: &Summary, timing: bool, tolerance: Span) -> String {
        let document = report::json(&summary.outcome, self.drive.get().resolved());
        let mut document = report::headed("serve", document);
        let own = &mut document["phaselink"];
        own["timing"] = timing.into();
        own["errors"] = summary.tally.errors.into();
        if timing {
            own["lag"] = model_lag_json(&summary.tally, tolerance, &summary.exchanges);
        }
        document.to_string()
    }
}

fn text(summary: &Summary, timing: bool, tolerance: Span) -> String {
    let counts = served::counts(&summary.tally);
    match timing {
        true => {
            let lag = served::lag_behind_model_text(&summary.tally, tolerance, &summary.exchanges);
            format!("{}\n{counts}\n{lag}", report::summary(&summary.outcome))
        }
        false => format!("{}\n{counts}", report::requests(&summary.outcome)),
    }
}

impl Drop for Server {
    /// Stops the server, since no reference to it is left.
    fn drop(&mut self) {
        self.stop.request();
    }
}

/// Opens the store and binds all addresses, without serving yet.
fn bound(drive: &Drive, options: &Options) -> Result<server::Server, Problems> {
    let wait = WAITS.iter().find(|(word, _)| *word == options.wait).map(|(_, wait)| *wait);
    let wait = wait.ok_or_else(|| refused(format!("wait is {}", options.wait), "adaptive, spin, block"))?;
    let Options { fronts, timing, store, seed, .. } = options;
    let (fronts, store) = (fronts.clone(), store.clone());
    server::Server::bind(drive.0.drive(), &ServerOptions { fronts, timing: *timing, wait, store, seed: *seed })
}

fn refused(found: String, allowed: &str) -> Problem {
    Problem::new("serve", None, found, allowed)
}
