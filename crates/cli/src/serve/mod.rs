//! `phaselink serve`: a drive as a real block device, at the modelled speed or as fast as the machine can.

mod status;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::thread;

use clap::{Args, ValueEnum};
use phaselink_core::drive::Drive;
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::protocol::halves::Attachment;
use phaselink_core::report::{self, units};
use phaselink_core::time::Span;
use phaselink_serve::device::record::Record;
use phaselink_serve::device::store::Store;
use phaselink_serve::device::{self, Device, Stop, metrics, report as served};
use phaselink_serve::front::nbd;
use phaselink_serve::front::nbd::export::Export;
use phaselink_serve::front::nbd::socket::Listener;
use phaselink_serve::front::nbd::uri::Uri;
use phaselink_serve::front::shm::{Served, Share};
use phaselink_serve::front::vfio_user;
use phaselink_serve::model::wall::Wait;
use phaselink_serve::server::{Server, Summary};
use serde_json::Value;

use crate::drive_flags::DriveFlags;
use crate::ending::{Ending, Failure};
use crate::output::{self, Target};
use crate::{input, interrupt, words};

const EXAMPLES: &str = include_str!("../../help/serve.txt");

/// Serve a drive to real hosts.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Drive file, or name of a shipped drive
    #[arg(value_name = "DRIVE")]
    drive: String,
    /// Serve over NBD at nbd+unix:///EXPORT?socket=PATH or nbd://127.0.0.1:PORT/EXPORT; may be given more than once
    #[arg(long, value_name = "URI", required_unless_present_any = ["shm", "vfio_user"])]
    nbd: Vec<String>,
    /// Answer NBD clients with simple replies only, which common clients receive with fewer calls
    #[arg(long, visible_alias = "no-structured-replies", requires = "nbd")]
    no_sr: bool,
    /// Serve in shared memory at the socket PATH[,offset=SIZE][,size=SIZE][,readonly]; may be given more than once
    #[arg(long, value_name = "PATH")]
    shm: Vec<String>,
    /// Serve an NVMe device over vfio-user at the socket PATH, or at PATH/cntrl if PATH is a directory; may be given more
    /// than once
    #[arg(long, value_name = "PATH")]
    vfio_user: Vec<PathBuf>,
    /// Keep the bytes in this file, which is made if it is missing [default: in memory]
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
    /// Answer when the model says, or as soon as possible
    #[arg(long, value_enum, default_value_t = Timing::On)]
    timing: Timing,
    /// Pass idle time looking for work (least delay), or asleep
    #[arg(long, value_enum, default_value_t = Idle::Spin)]
    wait: Idle,
    /// Lag of the 99th percentile beyond which the run is not to be trusted, in microseconds
    #[arg(long, value_name = "US", default_value_t = 10.0, value_parser = positive)]
    lag_tolerance_us: f64,
    /// Record what hosts ask for as a trace that `run --trace` and fio replay
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Answer Prometheus at http://ADDRESS/metrics
    #[arg(long, value_name = "127.0.0.1:PORT")]
    metrics: Option<String>,
    /// Serve while this shell command runs, with the first address in $uri
    #[arg(long, value_name = "COMMAND")]
    run: Option<String>,
    /// Print JSON in the shape of fio's at the end instead of tables; with =FILE, write it there as well
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    json: Option<Option<PathBuf>>,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    flags: DriveFlags,
}

/// Whether the model is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Timing {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Idle {
    Spin,
    Block,
}

fn positive(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|us: &f64| us.is_finite() && *us > 0.0).ok_or(String::from("a number above zero"))
}

/// Run the command.
pub fn command(arguments: &Arguments) -> Result<Ending, Failure> {
    let server = arguments.server()?;
    let target = arguments.json.iter().flatten().next().map(|path| Target::create(path)).transpose()?;
    let stop = Arc::clone(&server.device.stop);
    interrupt::on_first(move || stop.request());
    announce(&server)?;
    let (summary, command) = thread::scope(|scope| {
        let device = &server.device;
        scope.spawn(|| status::show(device));
        let uri = addresses(&server).next().unwrap_or_default();
        let command = arguments.run.as_ref().map(|text| scope.spawn(move || run_command(text, &uri, &device.stop)));
        let summary = server.run();
        (summary, command.map(|command| command.join().unwrap_or(false)))
    });
    let failed = |error: io::Error| Problem::new("serve", None, error.to_string(), "");
    let summary = summary.map_err(failed)?;
    if let Some(record) = &server.device.record {
        record.finish().map_err(failed)?;
    }
    arguments.print(&server, &summary, target)?;
    let trusted = !server.timing || served::is_trusted(&summary.tally.lag, arguments.lag_tolerance());
    Ok(if trusted && command.unwrap_or(true) { Ending::Fine } else { Ending::Off })
}

impl Arguments {
    /// Everything opened and bound, nothing served yet.
    fn server(&self) -> Result<Server, Problems> {
        let drive = input::drive(&self.drive, &self.flags.resolve()?)?;
        let geometry = device::geometry(&drive);
        self.check_fronts(&drive)?;
        let uris = input::all(self.nbd.iter().map(|text| Uri::parse(text).map_err(Problems::from)))?;
        let store = match &self.store {
            Some(path) => Store::open(path, geometry)?,
            None => Store::in_memory(geometry)?,
        };
        let listening = uris.iter().map(|uri| {
            let export = Export { name: uri.export.clone(), geometry, structured_replies: !self.no_sr };
            Ok(nbd::Served { listener: Listener::bind(uri)?, export })
        });
        let nbd = input::all(listening)?;
        let shm = input::all(self.shm.iter().map(|text| {
            let share = Share::parse(text).map_err(Problems::from)?;
            Served::bind(&share, geometry).map_err(Problems::from)
        }))?;
        let vfio_user =
            self.vfio_user.iter().enumerate().map(|(number, path)| {
                vfio_user::Served::bind(path, &drive.name, geometry, number).map_err(Problems::from)
            });
        let vfio_user = input::all(vfio_user)?;
        Ok(Server {
            nbd,
            shm,
            vfio_user,
            metrics: self.metrics.as_deref().map(metrics::bind).transpose()?,
            device: Device {
                drive: Arc::new(drive),
                store: Arc::new(store),
                tallies: Arc::default(),
                record: self.record.as_deref().map(record).transpose()?,
                stop: Arc::new(Stop::new().map_err(|error| Problem::new("serve", None, error.to_string(), ""))?),
            },
            timing: self.timing == Timing::On,
            wait: if self.wait == Idle::Spin { Wait::Spin } else { Wait::Block },
            seed: self.seed,
        })
    }

    /// With timing on, hosts over vfio-user bring the software that the model of the others has, and speak NVMe.
    fn check_fronts(&self, drive: &Drive) -> Result<(), Problem> {
        if self.timing == Timing::Off || self.vfio_user.is_empty() {
            return Ok(());
        }
        let others = [("--nbd", !self.nbd.is_empty()), ("--shm", !self.shm.is_empty())];
        let others: Vec<&str> = others.iter().filter(|(_, is_given)| *is_given).map(|(flag, _)| *flag).collect();
        if !others.is_empty() {
            let others = others.join(" and ");
            let found = format!(
                "{others} and --vfio-user together: hosts over vfio-user bring their own software, which is part of the \
                 model for the others"
            );
            return Err(Problem::new("serve", None, found, "one or the other, or --timing off"));
        }
        if !drive.protocol().attaches(Attachment::PciFunction) {
            let found = format!("--vfio-user: {} is no PCI Express function that hosts have a driver for", drive.name);
            return Err(Problem::new("serve", None, found, "a drive that hosts have a driver for, or --timing off"));
        }
        Ok(())
    }

    fn lag_tolerance(&self) -> Span {
        Span::from_ns_f64(self.lag_tolerance_us * 1e3)
    }

    fn print(&self, server: &Server, summary: &Summary, target: Option<Target>) -> Result<(), Failure> {
        let document = self.document(server, summary);
        if let Some(target) = target {
            target.write(&output::json_text(&document))?;
        }
        match self.json {
            Some(None) => output::print_json(&document)?,
            _ => output::print(&self.text(server, summary))?,
        }
        Ok(())
    }

    fn document(&self, server: &Server, summary: &Summary) -> Value {
        let mut document = report::json(&summary.outcome, server.device.drive.resolved());
        document["phaselink"]["timing"] = server.timing.into();
        document["phaselink"]["errors"] = summary.tally.errors.into();
        if server.timing {
            document["phaselink"]["lag"] = served::lag_json(&summary.tally.lag, self.lag_tolerance());
        }
        document
    }

    fn text(&self, server: &Server, summary: &Summary) -> String {
        let Summary { outcome, tally } = summary;
        let counts = served::counts(tally);
        if server.timing {
            let lag = served::lag_text(&tally.lag, self.lag_tolerance());
            return format!("{}\n{counts}\n{lag}", report::summary(outcome));
        }
        let (ios, elapsed) = (units::grouped(outcome.ios()), units::span(outcome.elapsed));
        let requests = report::requests(outcome);
        format!("{}, timing off: {ios} requests in {elapsed}\n\n{requests}\n{counts}", outcome.drive)
    }
}

fn record(path: &Path) -> Result<Arc<Record>, Problem> {
    let created = File::create(path).and_then(Record::new);
    created
        .map(Arc::new)
        .map_err(|error| Problem::new(path.display().to_string(), None, format!("cannot be written: {error}"), ""))
}

/// Where clients find the drive.
fn addresses(server: &Server) -> impl Iterator<Item = String> {
    let nbd = server.nbd.iter().map(|one| one.listener.uri().to_string());
    let shm = server.shm.iter().map(|one| one.share.to_string());
    nbd.chain(shm).chain(server.vfio_user.iter().map(vfio_user::Served::address))
}

/// Say on standard error what is served, once connections are taken.
fn announce(server: &Server) -> io::Result<()> {
    let Device { drive, store, .. } = &server.device;
    let timing = if server.timing { "on" } else { "off" };
    let mut stderr = io::stderr().lock();
    writeln!(stderr, "{}, {}, timing {timing}", drive.name, words::size(store.geometry().capacity_bytes))?;
    for address in addresses(server) {
        writeln!(stderr, "serving {address}")?;
    }
    if let Some(address) = server.metrics.as_ref().and_then(|listener| listener.local_addr().ok()) {
        writeln!(stderr, "metrics http://{address}/metrics")?;
    }
    Ok(())
}

/// Run a shell command, and stop the server when it is done; whether it has worked.
fn run_command(text: &str, uri: &str, stop: &Stop) -> bool {
    let ran = process::Command::new("sh").args(["-c", text]).env("uri", uri).status();
    stop.request();
    match ran {
        Ok(status) => status.success(),
        Err(error) => {
            output::errors([format!("the command cannot be run: {error}")]);
            false
        }
    }
}
