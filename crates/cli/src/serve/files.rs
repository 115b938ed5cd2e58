//! Serves a drive as a plain file, or as a folder of files, for applications that speak none of the server's protocols.
//!
//! ```text
//! application ── --folder: fuse2fs ── --file: nbdfuse ── NBD, at a socket of its own ── device
//! ```

use std::fs::{self, File};
use std::io::{self, PipeReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;
use phaselink_core::drive::Drive;
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::workload;
use phaselink_serve::device::Device;
use phaselink_serve::device::store::Geometry;
use phaselink_serve::front::nbd::export::Export;
use phaselink_serve::front::nbd::socket::Listener;
use phaselink_serve::front::nbd::uri::{Address, Uri};
use phaselink_serve::front::nbd::{ExportSocket, Nbd};
use tempfile::TempDir;

use crate::child::{self, CommandEnd};
use crate::mount::{self, FILE_TOOLS, FOLDER_TOOLS, Mount};

/// Time between two checks whether the server should stop.
const LOOK: Duration = Duration::from_millis(50);
/// Minimum value of `--folder-size` in bytes: a file system that mke2fs makes and an application can use.
const FOLDER_BYTES_MIN: u64 = 1 << 20;

/// Options of `phaselink serve` that present the drive as a plain file or as a folder of files.
#[derive(Args, Debug)]
pub(super) struct FileFlags {
    /// Serve the drive as a plain file at PATH, which nbdfuse makes and the server removes; commands of --prepare and
    /// --run get PATH in $file
    #[arg(long, value_name = "PATH", group = "front-ends", value_parser = absolute)]
    file: Option<PathBuf>,
    /// Serve the drive as a folder at PATH: an ext2 file system by mke2fs and fuse2fs; commands of --prepare and --run
    /// get PATH in $folder
    #[arg(long, value_name = "PATH", group = "front-ends", conflicts_with = "file", value_parser = absolute)]
    folder: Option<PathBuf>,
    /// Size of the ext2 file system in bytes, at least 1m, that --folder makes on a drive without one
    #[arg(long, value_name = "SIZE", default_value = "64m", value_parser = size, requires = "folder")]
    folder_size: u64,
    /// Shell command that runs before the command of --run, on the served drive; its requests are not recorded by
    /// --record
    #[arg(long, value_name = "COMMAND", requires = "run")]
    prepare: Option<String>,
}

/// Converts a path to an absolute one, which commands find from any folder.
fn absolute(text: &str) -> io::Result<PathBuf> {
    std::path::absolute(text)
}

fn size(text: &str) -> Result<u64, String> {
    let bytes = workload::bytes(text).filter(|bytes| *bytes >= FOLDER_BYTES_MIN);
    bytes.ok_or_else(|| String::from("a size of 1m or more"))
}

impl FileFlags {
    /// Returns true if the drive is to be served as a file or a folder.
    pub(super) fn is_mounted(&self) -> bool {
        self.file.is_some() || self.folder.is_some()
    }

    /// Returns true if requests precede the recording: those that make a file system, or those of `--prepare`.
    pub(super) fn has_requests_before_recording(&self) -> bool {
        self.folder.is_some() || self.prepare.is_some()
    }

    /// Checks that the drive can be mounted at these paths on this machine, and returns the mounts and commands of the
    /// server. None if neither a mount nor `--prepare` is asked for.
    ///
    /// # Errors
    ///
    /// If programs are missing, a path is occupied, or the drive is smaller than the file system.
    pub(super) fn session<'a>(&'a self, run: Option<&'a str>, drive: &Drive) -> Result<Option<Session<'a>>, Problem> {
        if !self.is_mounted() && self.prepare.is_none() {
            return Ok(None);
        }
        let capacity_bytes = phaselink_serve::device::geometry(drive).capacity_bytes;
        if let Some(folder) = &self.folder {
            mount::check("--folder", &[FILE_TOOLS, FOLDER_TOOLS])?;
            check_path_is_free("--folder", folder)?;
            if self.folder_size > capacity_bytes {
                let found = format!("{} bytes for a drive of {capacity_bytes}", self.folder_size);
                return Err(Problem::new("--folder-size", None, found, format!("up to {capacity_bytes}")));
            }
        }
        if let Some(file) = &self.file {
            mount::check("--file", &[FILE_TOOLS])?;
            check_path_is_free("--file", file)?;
        }
        let own = tempfile::Builder::new().prefix("phaselink-serve-").tempdir();
        let own = own.map_err(|error| failed(&std::env::temp_dir(), &error))?;
        Ok(Some(Session { flags: self, run, own, capacity_bytes }))
    }
}

/// Checks that no file or folder exists at a path, since a mount would hide it.
fn check_path_is_free(flag: &str, path: &Path) -> Result<(), Problem> {
    match fs::symlink_metadata(path) {
        Ok(_) => {
            let found = format!("{} exists, and would be hidden", path.display());
            Err(Problem::new(flag, None, found, "a path where nothing is"))
        }
        Err(_) => Ok(()),
    }
}

fn failed(path: &Path, error: &io::Error) -> Problem {
    Problem::new(path.display().to_string(), None, format!("cannot be made: {error}"), "a folder that can be written")
}

/// Mounts and shell commands of `phaselink serve` with `--file`, `--folder` or `--prepare`, from the server's start to
/// its end.
#[derive(Debug)]
pub(super) struct Session<'a> {
    flags: &'a FileFlags,
    run: Option<&'a str>,
    /// Temporary folder with the server's socket, and with the drive's file if that is below a file system.
    own: TempDir,
    capacity_bytes: u64,
}

impl Session<'_> {
    fn uri(&self) -> Uri {
        Uri { place: Address::Unix(self.own.path().join("drive.sock")), export: String::new() }
    }

    /// Binds the front-end whose client is the mount, or returns none if nothing is mounted. Its block size is 1 byte,
    /// since a file may be written anywhere. Partial blocks become whole ones, as in the page cache of a host.
    pub(super) fn front(&self, geometry: Geometry) -> Result<Option<Nbd>, Problem> {
        if !self.flags.is_mounted() {
            return Ok(None);
        }
        let geometry = Geometry { block_bytes: 1, ..geometry };
        let export = Export { name: String::new(), geometry, structured_replies: true };
        Ok(Some(Nbd(vec![ExportSocket { listener: Listener::bind(&self.uri())?, export }])))
    }

    /// Mounts the drive, runs the commands, and unmounts. Without `--run`, waits until `stopped` is set. Returns true
    /// if `--run` has succeeded, or there was none.
    ///
    /// # Errors
    ///
    /// If something cannot be mounted or unmounted, or `--prepare` fails.
    pub(super) fn run(&self, uri: &str, device: &Device, stopped: &AtomicBool) -> Result<bool, Problems> {
        let _stop = device.stop.stop_when_dropped();
        let environment = SessionEnvironment { uri, device, stopped };
        let path = match &self.flags.file {
            Some(file) => file.clone(),
            None => self.own.path().join("drive"),
        };
        let mounted = self.flags.is_mounted().then(|| self.mount_plain_file(&path)).transpose()?;
        let done = self.run_session_commands(&path, &environment);
        let unmounted = mounted.map(Mount::finish).transpose();
        let removed = self.flags.file.as_ref().map(fs::remove_file).transpose();
        let done = done?;
        unmounted?;
        removed.map_err(|error| failed(&path, &error))?;
        Ok(done)
    }

    fn mount_plain_file(&self, path: &Path) -> Result<Mount, Problem> {
        File::create_new(path).map_err(|error| failed(path, &error))?;
        let flag = if self.flags.file.is_some() { "--file" } else { "--folder" };
        let mounted = Mount::file(flag, path, &self.uri().to_string(), self.capacity_bytes);
        if mounted.is_err() {
            // Report the failed mount. The file is still empty, so ignore errors of its removal.
            let _ = fs::remove_file(path);
        }
        mounted
    }

    fn run_session_commands(&self, file: &Path, environment: &SessionEnvironment<'_>) -> Result<bool, Problems> {
        if let Some(text) = &self.flags.prepare {
            match self.with_mounted_folder(file, |folder| environment.run(text, file, folder))? {
                CommandEnd::Exited(0) => {}
                CommandEnd::Stopped => return Ok(true),
                end => {
                    let found = format!("the command {}", end.words());
                    return Err(Problem::new("--prepare", None, found, "a command that ends with 0").into());
                }
            }
        } else if self.flags.folder.is_some() {
            // Create the file system before the recording begins.
            self.with_mounted_folder(file, |_| Ok(()))?;
        }
        if let Some(record) = &environment.device.record {
            record.begin();
        }
        self.with_mounted_folder(file, |folder| match self.run {
            Some(text) => environment.run(text, file, folder).map(|end| end == CommandEnd::Exited(0)),
            None => {
                eprintln!("serving {}", folder.unwrap_or(file).display());
                environment.wait();
                Ok(true)
            }
        })
    }

    /// Calls `work` while the folder of `--folder` is mounted, or at once without that option.
    fn with_mounted_folder<T>(
        &self,
        file: &Path,
        work: impl FnOnce(Option<&Path>) -> Result<T, Problem>,
    ) -> Result<T, Problems> {
        let Some(folder) = &self.flags.folder else { return Ok(work(None)?) };
        fs::create_dir(folder).map_err(|error| failed(folder, &error))?;
        let done = Mount::folder("--folder", file, folder, self.flags.folder_size).and_then(|mounted| {
            let done = work(Some(folder));
            mounted.finish().and(done)
        });
        fs::remove_dir(folder).map_err(|error| failed(folder, &error))?;
        Ok(done?)
    }
}

/// Address, device and stop flag for the commands that run while the drive is served.
#[derive(Debug)]
struct SessionEnvironment<'a> {
    uri: &'a str,
    device: &'a Device,
    stopped: &'a AtomicBool,
}

impl SessionEnvironment<'_> {
    fn has_been_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || self.device.stop.is_requested()
    }

    /// Runs a shell command with its output on standard output, until it ends or the server stops.
    fn run(&self, text: &str, file: &Path, folder: Option<&Path>) -> Result<CommandEnd, Problem> {
        let failed = |error: io::Error| Problem::new("--run", None, format!("the command cannot be run: {error}"), "");
        let (output, writer): (PipeReader, _) = io::pipe().map_err(failed)?;
        let mut command: Command = child::shell(text);
        command.env("uri", self.uri).envs(folder.map(|folder| ("folder", folder)));
        command.envs(file.exists().then_some(("file", file)));
        command.stdout(Stdio::from(writer));
        let show = |piece: &[u8]| drop(io::stdout().write_all(piece));
        child::run(&mut command, output, None, || self.has_been_stopped(), show).map_err(failed)
    }

    /// Sleeps until the server should stop.
    fn wait(&self) {
        while !self.has_been_stopped() {
            thread::sleep(LOOK);
        }
    }
}
