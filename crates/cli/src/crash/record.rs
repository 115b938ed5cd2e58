//! Records the writes of an application: serves a drive while the user's commands run.

use std::fs;
use std::io::{self, PipeReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use phaselink_core::crash::recording::{DurabilityRules, Recording};
use phaselink_core::drive::Drive;
use phaselink_core::media::zones::ZoneLayout;
use phaselink_core::problem::{Problem, Problems};
use phaselink_serve::device::StopRequest;
use phaselink_serve::device::history::{History, RecordingUnavailable};
use phaselink_serve::device::store::{Geometry, Store};
use phaselink_serve::front::kind::Front;
use phaselink_serve::front::nbd::export::Export;
use phaselink_serve::front::nbd::socket::Listener;
use phaselink_serve::front::nbd::uri::{Address, Uri};
use phaselink_serve::front::nbd::{ExportSocket, Nbd};

use super::served::{self, SocketFolder};
use crate::child::{self, CommandEnd};
use crate::mount::{self, FILE_TOOLS, Mount};

/// Maximum size in bytes of the recording of an application's requests, with their data.
pub(super) const RECORDING_BYTES_MAX: u64 = 2 << 30;

/// Parameters of a recording: the drive, its durability rules, and the commands to run.
#[derive(Debug)]
pub(super) struct RecordingPlan<'a> {
    pub drive: Drive,
    pub capacity_bytes: u64,
    pub rules: DurabilityRules,
    /// Zones of the drive, which only a drive over vfio-user can have.
    pub zones: Option<ZoneLayout>,
    pub prepare: Option<&'a str>,
    pub run: &'a str,
    pub file: bool,
    /// True if commands access the drive over vfio-user, not over NBD.
    pub vfio_user: bool,
}

/// Bound front-end of the recorded drive, and the address that commands get.
#[derive(Debug)]
struct CommandAccess {
    /// Name and value of the environment variable that tells commands the address.
    variable: (&'static str, String),
    /// NBD address of the recorded drive, from which the plain file is mounted; empty over vfio-user.
    uri: String,
    /// Front-end of the recorded drive, bound to the address.
    front: Box<dyn Front>,
}

/// Serves the drive while the commands of `--prepare` and `--run` run, and records their requests to the drive. Returns
/// none if the user has stopped phaselink.
///
/// # Errors
///
/// If the server or a command cannot be started, a command fails, or the recording grows too long.
pub(super) fn record(
    wanted: RecordingPlan<'_>,
    folder: &Path,
    stopped: &AtomicBool,
) -> Result<Option<Recording>, Problems> {
    if wanted.file {
        mount::check("--file", &[FILE_TOOLS])?;
    }
    let failed = |error: io::Error| Problem::new("crash", None, error.to_string(), "");
    let CommandAccess { variable, uri, front } = wanted.bind(folder)?;
    let stop = Arc::new(StopRequest::new().map_err(failed)?);
    let history = History::new(wanted.capacity_bytes, wanted.rules, RECORDING_BYTES_MAX, Arc::clone(&stop));
    let history = Arc::new(history.with_zone_layout(wanted.zones));
    let server = served::server(&wanted.drive, wanted.store()?, Some(Arc::clone(&history)), stop, front);
    let ran = served::serve_during(&server, stopped, |stopped| {
        run_commands(&wanted, variable, &uri, folder, &history, stopped)
    });
    let ran = ran.map_err(failed)?;
    let recording = history.finish().map_err(|reason| match reason {
        RecordingUnavailable::TooLong => {
            let found = format!("the commands write more than {} GiB", RECORDING_BYTES_MAX >> 30);
            Problem::new("--run", None, found, "a shorter run, whose every write is kept")
        }
        RecordingUnavailable::Unsupported(what) => {
            let found = format!("the commands {what}, which is not recorded");
            Problem::new(
                "--run",
                None,
                found,
                "commands that read, write, deallocate and flush blocks, and act on zones",
            )
        }
    })?;
    Ok(ran?.then_some(recording))
}

impl RecordingPlan<'_> {
    fn geometry(&self) -> Geometry {
        Geometry { capacity_bytes: self.capacity_bytes, block_bytes: self.rules.block_bytes }
    }

    fn store(&self) -> Result<Store, Problem> {
        let store = Store::in_memory(self.geometry())?;
        match self.zones {
            Some(zones) => store.with_zones(zones),
            None => Ok(store),
        }
    }

    /// Binds the drive's address to a socket in a folder or below it.
    fn bind(&self, folder: &Path) -> Result<CommandAccess, Problem> {
        let failed = |error: io::Error| Problem::new("crash", None, error.to_string(), "");
        if self.vfio_user {
            let socket = SocketFolder::create(folder).map_err(failed)?;
            let variable = ("socket", socket.path().display().to_string());
            return Ok(CommandAccess {
                variable,
                uri: String::new(),
                front: socket.bind(&self.drive, self.geometry())?,
            });
        }
        let uri = Uri { place: Address::Unix(folder.join("drive.sock")), export: String::new() };
        // Applications write a file at any offset. The server completes partial blocks, as the page cache of a host
        // does.
        let any = Geometry { block_bytes: 1, ..self.geometry() };
        let export = Export { name: String::new(), geometry: any, structured_replies: true };
        let front = Nbd(vec![ExportSocket { listener: Listener::bind(&uri)?, export }]);
        Ok(CommandAccess { variable: ("uri", uri.to_string()), uri: uri.to_string(), front: Box::new(front) })
    }
}

/// Runs the commands of `--prepare` and `--run` on the recorded drive. Returns false if the user has stopped phaselink.
fn run_commands(
    wanted: &RecordingPlan<'_>,
    variable: (&str, String),
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
    let command = |text: &str| {
        let mut command = child::shell(text);
        command.env(variable.0, &variable.1).envs(file.map(|file| ("file", file)));
        command
    };
    if let Some(prepare) = wanted.prepare {
        if !is_done("--prepare", command(prepare), stopped, |_| ())? {
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
    let is_done = is_done("--run", command(wanted.run), stopped, hear)?;
    mounted.map(Mount::finish).transpose()?;
    Ok(is_done)
}

/// Runs a command and passes the command's standard output to `hear`. Returns false if the user has stopped phaselink;
/// fails unless the command exits with 0.
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
