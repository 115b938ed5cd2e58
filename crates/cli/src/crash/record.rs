//! Records the writes of an application: serves a drive while the user's command runs.

use std::fs;
use std::io::{self, PipeReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use phaselink_core::crash::recording::{DurabilityRules, Recording};
use phaselink_core::drive::Drive;
use phaselink_core::problem::{Problem, Problems};
use phaselink_serve::device::history::History;
use phaselink_serve::device::store::{Geometry, Store};
use phaselink_serve::device::{Device, Stop};
use phaselink_serve::front::nbd::export::Export;
use phaselink_serve::front::nbd::socket::Listener;
use phaselink_serve::front::nbd::uri::{Address, Uri};
use phaselink_serve::front::nbd::{ExportSocket, Nbd};
use phaselink_serve::model::wall::Wait;
use phaselink_serve::server::Server;

use crate::child::{self, CommandEnd};
use crate::mount::{self, FILE_TOOLS, Mount};

/// Largest size of a recording.
pub(super) const RECORDING_BYTES_MAX: u64 = 2 << 30;

/// Parameters of a recording.
#[derive(Debug)]
pub(super) struct NamedTrace<'a> {
    pub drive: Drive,
    pub capacity_bytes: u64,
    pub rules: DurabilityRules,
    pub prepare: Option<&'a str>,
    pub run: &'a str,
    pub file: bool,
}

/// Serves the drive while its commands run, and records their requests.
///
/// # Errors
/// If something cannot be started, a command fails, or too much is written.
pub(super) fn record(
    wanted: NamedTrace<'_>,
    folder: &Path,
    stopped: &AtomicBool,
) -> Result<Option<Recording>, Problems> {
    if wanted.file {
        mount::check("--file", &[FILE_TOOLS])?;
    }
    let failed = |error: io::Error| Problem::new("crash", None, error.to_string(), "");
    let uri = Uri { place: Address::Unix(folder.join("drive.sock")), export: String::new() };
    let stop = Arc::new(Stop::new().map_err(failed)?);
    let history = History::new(wanted.capacity_bytes, wanted.rules, RECORDING_BYTES_MAX, Arc::clone(&stop));
    let history = Arc::new(history);
    let server = server(&wanted, &uri, Arc::clone(&history), stop)?;
    let ran = thread::scope(|scope| {
        let serving = scope.spawn(|| server.run());
        let _stop = server.device.stop.at_the_end();
        // Clients of a server that has stopped by itself would wait for ever.
        let stopped = || stopped.load(Ordering::Relaxed) || server.device.stop.is_requested();
        let ran = commands(&wanted, &uri.to_string(), folder, &history, &stopped);
        server.device.stop.request();
        let served = serving.join().unwrap_or_else(|_| Err(io::Error::other("the server has failed")));
        served.map_err(failed)?;
        ran
    });
    let Some(recording) = history.finish() else {
        let found = format!("the commands write more than {} GiB", RECORDING_BYTES_MAX >> 30);
        return Err(Problem::new("--run", None, found, "a shorter run, whose every write is kept").into());
    };
    Ok(ran?.then_some(recording))
}

fn server(wanted: &NamedTrace<'_>, uri: &Uri, history: Arc<History>, stop: Arc<Stop>) -> Result<Server, Problems> {
    let NamedTrace { drive, capacity_bytes, rules, .. } = wanted;
    let geometry = Geometry { capacity_bytes: *capacity_bytes, block_bytes: rules.block_bytes };
    // A file may be written anywhere: partial blocks become whole ones, as in the page cache of a host.
    let any = Geometry { block_bytes: 1, ..geometry };
    let export = Export { name: String::new(), geometry: any, structured_replies: true };
    let front = Nbd(vec![ExportSocket { listener: Listener::bind(uri)?, export }]);
    let device = Device {
        drive: Arc::new(drive.clone()),
        store: Arc::new(Store::in_memory(geometry)?),
        tallies: Arc::default(),
        record: None,
        history: Some(history),
        faults: Arc::default(),
        stop,
    };
    Ok(Server {
        device,
        timing: false,
        wait: Wait::Adaptive,
        seed: 1,
        fronts: vec![Box::new(front)],
        metrics: None,
        device_threads: 1,
        control: None,
    })
}

/// Runs both commands; returns false if the user has stopped them.
fn commands(
    wanted: &NamedTrace<'_>,
    uri: &str,
    folder: &Path,
    history: &History,
    stopped: &dyn Fn() -> bool,
) -> Result<bool, Problems> {
    let (mount, path) = (folder.join("mount"), folder.join("mount/disk"));
    let mounted = wanted.file.then(|| {
        fs::create_dir(&mount)
            .map_err(|error| Problem::new("--file", None, format!("no folder can be made: {error}"), ""))?;
        Mount::file("--file", &path, uri, wanted.capacity_bytes)
    });
    let mounted = mounted.transpose()?;
    let file = mounted.as_ref().map(|_| path.as_path());
    if let Some(prepare) = wanted.prepare {
        if !is_done("--prepare", command(prepare, uri, file), stopped, |_| ())? {
            return Ok(false);
        }
        history.prepared();
    }
    let mut line = Vec::new();
    let hear = |piece: &[u8]| {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                history.printed(std::mem::take(&mut line));
            }
        }
    };
    let is_done = is_done("--run", command(wanted.run, uri, file), stopped, hear)?;
    mounted.map(Mount::finish).transpose()?;
    Ok(is_done)
}

fn command(text: &str, uri: &str, file: Option<&Path>) -> Command {
    let mut command = child::shell(text);
    command.env("uri", uri).envs(file.map(|file| ("file", file)));
    command
}

/// Runs a command and reads its standard output; returns false if the user has stopped it.
fn is_done(
    flag: &str,
    mut command: Command,
    stopped: &dyn Fn() -> bool,
    hear: impl FnMut(&[u8]),
) -> Result<bool, Problem> {
    let failed = |error: io::Error| Problem::new(flag, None, format!("the command cannot be run: {error}"), "");
    let (output, writer): (PipeReader, _) = io::pipe().map_err(failed)?;
    command.stdout(Stdio::from(writer));
    match child::run(&mut command, output, None, stopped, hear).map_err(failed)? {
        CommandEnd::Exited(0) => Ok(true),
        CommandEnd::Stopped => Ok(false),
        end => Err(Problem::new(flag, None, format!("the command {}", end.words()), "a command that ends with 0")),
    }
}
