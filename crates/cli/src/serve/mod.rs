//! `phaselink serve`: serves a drive as a real block device, at the modelled speed or as fast as possible.

mod files;
mod fronts;
pub mod served;
mod status;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use clap::{Args, ValueEnum};
use phaselink_core::config::Fault;
use phaselink_core::drive::Drive;
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::time::Span;
use phaselink_serve::control::ControlSocket;
use phaselink_serve::device::faults::{FaultRuleScope, Faults};
use phaselink_serve::device::record::Record;
use phaselink_serve::device::report::{
    is_lag_within_tolerance, model_lag_json, request_counts_json, undefined_behaviour_json,
};
use phaselink_serve::device::store::{Store, StoredNamespaceKind};
use phaselink_serve::device::{self, Device, StopRequest, metrics};
use phaselink_serve::model::wall::Wait;
use phaselink_serve::server::{DEVICE_THREADS_MAX, Server, Summary};
use phaselink_studies::report::{self, units};
use serde_json::Value;

use crate::drive_flags::DriveFlags;
use crate::ending::{CommandEnding, Failure};
use crate::output::claims::{self, Role};
use crate::output::{self, Target, UnfinishedOutput};
use crate::{describe, input, interrupt, notes};
use files::{FileFlags, Session};
use fronts::FrontFlags;

const EXAMPLES: &str = include_str!("../../help/serve.txt");

/// Serve a simulated drive as a real block device to programs and virtual machines, at the modelled speed or as fast as
/// possible.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Drive file, or name of a shipped drive (`phaselink check` lists them), to serve
    #[arg(value_name = "DRIVE")]
    drive: String,
    #[command(flatten)]
    fronts: FrontFlags,
    #[command(flatten)]
    files: FileFlags,
    /// File that holds the contents of the served drive, made if it is missing [default: in memory]
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
    /// Completion time of requests to the served drive: the modelled time (on), or as soon as possible (off)
    #[arg(long, value_enum, default_value_t = Timing::On)]
    timing: Timing,
    /// Waiting of the server's threads: poll, and sleep after 200 us without requests (adaptive), poll while a client
    /// is connected (spin), or sleep (block)
    #[arg(long, value_enum, default_value_t = Idle::Adaptive)]
    wait: Idle,
    /// Largest trusted 99th percentile of the lag (real minus modelled completion time) in microseconds; a larger lag
    /// gives exit code 1. No effect with --timing off
    #[arg(long, value_name = "US", default_value_t = 10.0, value_parser = parse_positive_number)]
    lag_tolerance_us: f64,
    /// Record the requests of all hosts as a block trace that `phaselink run --trace` and fio replay; the trace is in
    /// FILE.partial until the server ends
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// TCP address of an HTTP server with metrics of the served drive for Prometheus, at the path /metrics
    #[arg(long, value_name = "127.0.0.1:PORT")]
    metrics: Option<String>,
    /// Path of a Unix socket at which `phaselink fault PATH` adds, lists and clears faults of the served drive
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Shell command that runs while the drive is served, with the first address in $uri; the server stops when the
    /// command ends
    #[arg(long, value_name = "COMMAND")]
    run: Option<String>,
    /// Print results at the server's end as JSON in fio's format in place of tables; with =FILE, print tables and write
    /// the JSON to FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    json: Option<Option<PathBuf>>,
    /// Number of threads that poll the served drive's queues and connections, from 1 to 16; with 2 or more and --timing
    /// on, one further thread runs the model
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=DEVICE_THREADS_MAX as i64))]
    device_threads: u8,
    /// Seed of the random numbers of the served drive's model and of its faults
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    flags: DriveFlags,
}

/// Setting of `--timing`: on if each completion waits for its modelled time, off if each request completes as soon as
/// possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Timing {
    On,
    Off,
}

/// Setting of `--wait`: waiting of the server's threads for requests and modelled events, by polling or by sleeping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Idle {
    Adaptive,
    Spin,
    Block,
}

fn parse_positive_number(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|us: &f64| us.is_finite() && *us > 0.0).ok_or(String::from("a number above zero"))
}

/// Runs `phaselink serve`. Ends with `Off` (exit code 1) if the lag exceeds its tolerance, or the command of `--run`
/// fails.
pub(crate) fn command(arguments: &Arguments) -> Result<CommandEnding, Failure> {
    let drive = input::drive(&arguments.drive, &arguments.flags.resolve()?)?.into_drive();
    let targets = arguments.targets()?;
    let session = arguments.files.session(arguments.run.as_deref(), &drive)?;
    let (server, record) = arguments.server(drive, targets.record, session.as_ref())?;
    announce_addresses(&server)?;
    server.fronts.iter().flat_map(|front| front.notes(server.wait)).for_each(|note| notes::tell(&note));
    note_scarce_processors(&server);
    let (summary, command) = serve_during_commands(&server, session.as_ref(), arguments.run.as_deref());
    let failed = |error: io::Error| Problem::new("serve", None, error.to_string(), "");
    let (summary, command) = (summary.map_err(failed)?, command.transpose()?);
    // If the trace cannot be saved, print the result first and report the problem afterwards.
    let recorded = server.device.record.as_ref().zip(record).map(|(record, unfinished)| finish(record, unfinished));
    arguments.print(&server, &summary, targets.json)?;
    recorded.transpose()?;
    let trusted = !server.timing || is_lag_within_tolerance(&summary.tally.lag, arguments.lag_tolerance());
    Ok(if trusted && command.unwrap_or(true) { CommandEnding::Fine } else { CommandEnding::Off })
}

/// Runs the server, and meanwhile the shell commands of `--prepare` and `--run`. Returns the server's summary, and true
/// if `--run` has succeeded; none without commands.
fn serve_during_commands(
    server: &Server,
    session: Option<&Session<'_>>,
    run: Option<&str>,
) -> (io::Result<Summary>, Option<Result<bool, Problems>>) {
    let (device, stopped) = (&server.device, Arc::new(AtomicBool::new(false)));
    let (stop, flag, unmounts) = (Arc::clone(&device.stop), Arc::clone(&stopped), session.is_some());
    interrupt::handle_first_signal(move || match unmounts {
        // Unmount the file system before the server stops.
        true => flag.store(true, Ordering::Relaxed),
        false => stop.request(),
    });
    thread::scope(|scope| {
        scope.spawn(|| status::show(device));
        let (uri, stopped) = (addresses(server).next().unwrap_or_default(), &*stopped);
        let command = match (session, run) {
            (Some(session), _) => Some(scope.spawn(move || session.run(&uri, device, stopped))),
            (None, Some(text)) => Some(scope.spawn(move || Ok(run_command(text, &uri, &device.stop)))),
            (None, None) => None,
        };
        let summary = server.run();
        (summary, command.map(|command| command.join().unwrap_or(Ok(false))))
    })
}

/// Output files of `phaselink serve`: the JSON result (`--json`), and the recorded trace (`--record`).
struct ServeTargets {
    json: Option<Target>,
    record: Option<Target>,
}

impl Arguments {
    /// Claims the store, the sockets and the output files, and checks that they are different files.
    fn targets(&self) -> Result<ServeTargets, Problems> {
        if let Some(path) = &self.store {
            claims::claim(Role::Store, "--store", path)?;
        }
        for path in self.fronts.sockets()?.iter().chain(&self.control) {
            claims::note(Role::Socket, path);
        }
        let create = |flag, path: Option<&Path>| path.map(|path| Target::create(flag, path)).transpose();
        Ok(ServeTargets {
            json: create("--json", self.json.as_ref().and_then(Option::as_deref))?,
            record: create("--record", self.record.as_deref())?,
        })
    }

    /// Opens the store and binds the addresses of all front-ends, without serving yet. Returns the server, with the
    /// handle of the recorded trace if `--record` is given.
    fn server(
        &self,
        drive: Drive,
        record: Option<Target>,
        session: Option<&Session<'_>>,
    ) -> Result<(Server, Option<UnfinishedOutput>), Problems> {
        let geometry = device::geometry(&drive);
        self.fronts.check(&drive, self.timing == Timing::On, self.files.is_mounted())?;
        let faults = self.faults(&drive)?;
        let store = open_drive_store(self.store.as_deref(), &drive)?;
        let mut fronts = self.fronts.bind(&drive, geometry)?;
        if let Some(front) = session.map(|session| session.front(geometry)).transpose()?.flatten() {
            fronts.push(Box::new(front));
        }
        let metrics = self.metrics.as_deref().map(metrics::bind).transpose()?;
        let control = self.control.as_deref().map(ControlSocket::bind).transpose()?;
        let stop = StopRequest::new().map_err(|error| Problem::new("serve", None, error.to_string(), ""))?;
        let (record, unfinished) =
            record.map(|target| begin(target, self.files.has_requests_before_recording())).transpose()?.unzip();
        let server = Server {
            fronts,
            metrics,
            control,
            device: Device {
                drive: Arc::new(drive),
                store: Arc::new(store),
                tallies: Arc::default(),
                record,
                history: None,
                faults: Arc::new(faults),
                stop: Arc::new(stop),
            },
            timing: self.timing == Timing::On,
            wait: match self.wait {
                Idle::Adaptive => Wait::Adaptive,
                Idle::Spin => Wait::Spin,
                Idle::Block => Wait::Block,
            },
            seed: self.seed,
            device_threads: self.device_threads.into(),
        };
        Ok((server, unfinished))
    }

    /// Returns the drive file's fault rules for the server. A rule that the timing or the front-ends chosen (NBD,
    /// vfio-user and so on) cannot apply is a problem.
    fn faults(&self, drive: &Drive) -> Result<Faults, Problems> {
        let reach = FaultRuleScope {
            model: self.timing == Timing::On,
            interrupts: self.fronts.send_interrupts(),
            connections: self.fronts.have_faultable_connections(),
        };
        let faults = Faults::new(reach);
        let add = |fault: &Fault| faults.add(&self.drive, fault.clone()).map_err(Problems::from);
        input::all(drive.faults.iter().map(add))?;
        Ok(faults)
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
        let document = report::json(&summary.outcome, server.device.drive.resolved());
        let mut document = output::stamped(output::headed("serve", document));
        document["phaselink"]["timing"] = server.timing.into();
        document["phaselink"]["errors"] = summary.tally.errors.into();
        document["phaselink"]["served"] = request_counts_json(&summary.tally);
        if self.fronts.is_strict() {
            document["phaselink"]["undefined"] = undefined_behaviour_json(&summary.tally);
        }
        document["phaselink"]["faults"] = server.device.faults.list();
        if server.timing {
            document["phaselink"]["lag"] = model_lag_json(&summary.tally, self.lag_tolerance(), &summary.exchanges);
        }
        document
    }

    fn text(&self, server: &Server, summary: &Summary) -> String {
        let Summary { outcome, tally, exchanges } = summary;
        let mut counts = served::counts(tally);
        // With timing on, the model's outcome lists these counters too, so print them here only with timing off.
        for (name, count) in outcome.counters.iter().filter(|_| !server.timing) {
            counts.row([name.to_string(), units::grouped(*count)]);
        }
        let mut counts = counts.to_string();
        if self.fronts.is_strict() {
            counts += &format!("\n{}", served::undefined_behaviour_table(tally));
        }
        if server.timing {
            let lag = served::lag_behind_model_text(tally, self.lag_tolerance(), exchanges);
            return format!("{}\n{counts}\n{lag}", report::summary_for_width(outcome, output::width::columns()));
        }
        let (ios, elapsed) = (units::grouped(outcome.ios()), units::span(outcome.elapsed));
        let requests = report::requests(outcome);
        format!("{}, timing off: {ios} requests in {elapsed}\n\n{requests}\n{counts}", outcome.drive)
    }
}

/// Opens the store of a drive in the file at `path`, or in memory, with the zones or the keys of the drive.
fn open_drive_store(path: Option<&Path>, drive: &Drive) -> Result<Store, Problem> {
    let geometry = device::geometry(drive);
    let (kind, in_file) = match drive.key_layout() {
        Some(layout) => (StoredNamespaceKind::KeyValue, geometry.with_key_index(&layout)),
        None if drive.zones.is_there() => (StoredNamespaceKind::Zoned, geometry),
        None => (StoredNamespaceKind::Conventional, geometry),
    };
    let store = match path {
        Some(path) => Store::open_with_kind(kind, path, in_file)?,
        None => Store::in_memory(geometry)?,
    };
    match (drive.zone_layout(), drive.key_layout()) {
        (Some(layout), _) => store.with_zones(layout),
        (None, Some(layout)) => store.with_keys(layout),
        (None, None) => Ok(store),
    }
}

/// Creates the recording of a block trace. Recording begins now, or later if `waits` is true. Until the recording ends,
/// the trace is in `FILE.partial`.
fn begin(target: Target, waits: bool) -> Result<(Arc<Record>, UnfinishedOutput), Problem> {
    let (file, unfinished) = target.begin()?;
    let record = if waits { Record::create_paused_trace(file) } else { Record::new(file) };
    let record = record.map_err(|error| claims::unwritable(unfinished.path(), &error))?;
    Ok((Arc::new(record), unfinished))
}

/// Ends the recording of a block trace, and renames the trace to its destination. An incomplete trace stays in
/// `FILE.partial`.
fn finish(record: &Record, unfinished: UnfinishedOutput) -> Result<(), Problem> {
    match record.finish() {
        Ok(file) => unfinished.finish(&file),
        Err(error) => Err(claims::unwritable(unfinished.path(), &error)),
    }
}

/// Returns the addresses of all front-ends, to which clients of the served drive connect.
fn addresses(server: &Server) -> impl Iterator<Item = String> {
    server.fronts.iter().flat_map(|front| front.addresses())
}

/// Prints the drive, its timing and all addresses to standard error, once connections are accepted.
fn announce_addresses(server: &Server) -> io::Result<()> {
    let Device { drive, .. } = &server.device;
    let timing = if server.timing { "on" } else { "off" };
    let mut stderr = io::stderr().lock();
    writeln!(
        stderr,
        "{}, {}, timing {timing}",
        drive.name,
        describe::capacity(device::geometry(drive).capacity_bytes)
    )?;
    for address in addresses(server) {
        writeln!(stderr, "serving {address}")?;
    }
    if let Some(control) = &server.control {
        writeln!(stderr, "control {}", control.path().display())?;
    }
    if let Some(address) = server.metrics.as_ref().and_then(|listener| listener.local_addr().ok()) {
        writeln!(stderr, "metrics http://{address}/metrics")?;
    }
    Ok(())
}

/// Prints a note if a server with several device threads has more polling threads than the machine has processors.
fn note_scarce_processors(server: &Server) {
    let wanted = server.device_threads + usize::from(server.timing && server.device_threads > 1);
    let processors = thread::available_parallelism().map_or(1, usize::from);
    if server.device_threads > 1 && wanted > processors {
        let model = if server.timing { ", and the model's" } else { "" };
        notes::tell(&format!(
            "note: {} device threads{model} share {processors} processors: one for each, and some for the clients, is quicker",
            server.device_threads
        ));
    }
}

/// Runs the shell command of `--run`, and stops the server when the command ends. Returns true if the command exited
/// with 0.
fn run_command(text: &str, uri: &str, stop: &StopRequest) -> bool {
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
