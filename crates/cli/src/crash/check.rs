//! Runs the user's check command on a series of crash images, with one worker per processor.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use phaselink_core::crash::recording::Recording;
use phaselink_core::crash::view::{ImageView, footprint};
use phaselink_core::crash::{CutTimeline, Image, zones};
use phaselink_core::drive::Drive;
use phaselink_core::problem::Problem;
use phaselink_serve::device::StopRequest;
use phaselink_serve::device::tally::locked;

use super::plain::CrashImageFile;
use super::served::{self, SocketFolder};
use crate::child::{self, CommandEnd};
use crate::progress::Progress;

/// Number of adjacent crash images that a worker takes at once. Adjacent images differ by few blocks, so that few are
/// rewritten.
const IMAGES: usize = 8;
/// Maximum number of bytes that are kept of a check's output.
const SAID_BYTES_MAX: usize = 4096;

/// Recording whose crash images are checked, with the user's check command and the command's time limit.
#[derive(Debug)]
pub(super) struct CheckedRecording<'a> {
    pub recording: &'a Recording,
    pub timeline: &'a CutTimeline,
    footprint: Vec<Range<usize>>,
    command: &'a str,
    /// Drive that serves each crash image to the check command over vfio-user, beside the image file; none without
    /// vfio-user.
    drive: Option<&'a Drive>,
    limit: Duration,
    pub stopped: &'a AtomicBool,
}

/// Outcome of a check command, with the beginning of its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CheckVerdict {
    pub end: CommandEnd,
    pub said: String,
}

/// Number of checked crash images, with the images on which the check command failed.
#[derive(Debug, Default)]
pub(super) struct CheckResults {
    pub tested: usize,
    pub timed_out: usize,
    /// Crash images on which the check command failed, in ascending order.
    pub failed: Vec<Image>,
}

/// Worker that runs the check command, with a file of its own for crash images.
#[derive(Debug)]
pub(super) struct CheckWorker<'a> {
    checks: &'a CheckedRecording<'a>,
    view: ImageView<'a>,
    image: CrashImageFile,
    printed: std::path::PathBuf,
    /// Folder of the socket at which the drive with a crash image is served over vfio-user.
    socket: SocketFolder,
}

impl CheckVerdict {
    /// Returns true if the check command exited with 0: the application has survived the power cut.
    pub(super) fn has_passed(&self) -> bool {
        self.end == CommandEnd::Exited(0)
    }
}

impl<'a> CheckedRecording<'a> {
    /// Returns the checks of a recording's crash images by a shell command, which has the time `limit` for each image.
    /// If `drive` is given, which must be the recorded drive, images are also served over vfio-user.
    pub(super) fn new(
        recording: &'a Recording,
        timeline: &'a CutTimeline,
        command: &'a str,
        drive: Option<&'a Drive>,
        limit: Duration,
        stopped: &'a AtomicBool,
    ) -> CheckedRecording<'a> {
        CheckedRecording { recording, timeline, footprint: footprint(recording), command, drive, limit, stopped }
    }

    /// Returns a worker for crash images, whose image file and socket are in a new folder.
    ///
    /// # Errors
    ///
    /// If the files cannot be made.
    pub(super) fn worker(&'a self, folder: &Path) -> Result<CheckWorker<'a>, Problem> {
        let made = std::fs::create_dir(folder).and_then(|()| {
            let blocks = self.recording.blocks();
            let image = CrashImageFile::create(&folder.join("image"), blocks, self.recording.rules.block_bytes)?;
            Ok((image, SocketFolder::create(folder)?))
        });
        let (image, socket) = made.map_err(unwritable_image_problem)?;
        let view = ImageView::new(self.recording, self.timeline);
        Ok(CheckWorker { checks: self, view, image, printed: folder.join("printed"), socket })
    }

    /// Runs the check command on all crash images in parallel, until the user stops phaselink. `images` must be in the
    /// order of their cuts.
    ///
    /// # Errors
    ///
    /// If a crash image cannot be written to its file, or the check command cannot be run.
    pub(super) fn all(&'a self, images: &[Image], folder: &Path, progress: &Progress) -> Result<CheckResults, Problem> {
        let workers = thread::available_parallelism().map_or(1, |number| number.get()).min(images.len());
        let (next, findings) = (AtomicUsize::new(0), Mutex::new(CheckResults::default()));
        let work = |number: usize| {
            let mut worker = self.worker(&folder.join(format!("worker-{number}")))?;
            loop {
                let first = next.fetch_add(IMAGES, Ordering::Relaxed);
                let Some(taken) = images.get(first..).filter(|rest| !rest.is_empty()) else { return Ok(()) };
                for image in &taken[..IMAGES.min(taken.len())] {
                    let verdict = worker.check(image)?;
                    if verdict.end == CommandEnd::Stopped {
                        return Ok(());
                    }
                    locked(&findings).count_check_verdict(image, &verdict);
                    progress.one();
                }
            }
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..workers).map(|number| scope.spawn(move || work(number))).collect();
            let ended =
                workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| Err(failed_worker_problem())));
            ended.collect::<Result<Vec<()>, Problem>>()
        })?;
        let mut findings = findings.into_inner().unwrap_or_default();
        findings.failed.sort();
        Ok(findings)
    }
}

impl CheckResults {
    fn count_check_verdict(&mut self, image: &Image, verdict: &CheckVerdict) {
        self.tested += 1;
        self.timed_out += usize::from(verdict.end == CommandEnd::TimedOut);
        if !verdict.has_passed() {
            self.failed.push(image.clone());
        }
    }

    /// Returns the crash image with the fewest lost or torn writes among those on which the check command failed.
    pub(super) fn smallest(&self) -> Option<&Image> {
        self.failed.iter().min_by_key(|image| (image.lost.len(), image.cut))
    }
}

impl CheckWorker<'_> {
    /// Runs the check command on one crash image, and returns its outcome.
    ///
    /// # Errors
    ///
    /// If the crash image cannot be written to its file, or the check command cannot be run.
    pub(super) fn check(&mut self, image: &Image) -> Result<CheckVerdict, Problem> {
        let CheckedRecording { recording, footprint, drive, .. } = self.checks;
        self.image.hold(self.view.show(image), footprint).map_err(unwritable_image_problem)?;
        let printed: Vec<u8> = recording.printed(image.cut).collect::<Vec<_>>().concat();
        std::fs::write(&self.printed, printed).map_err(unwritable_image_problem)?;
        let ran = match drive {
            None => self.run(None, &|| self.checks.stopped.load(Ordering::Relaxed)),
            Some(drive) => self.run_check_on_served_drive(drive, image)?,
        };
        ran.map_err(|error| Problem::new("--check", None, format!("the command cannot be run: {error}"), ""))
    }

    /// Runs the check command while a drive with the crash image is also served over vfio-user.
    fn run_check_on_served_drive(&mut self, drive: &Drive, image: &Image) -> Result<io::Result<CheckVerdict>, Problem> {
        let CheckedRecording { recording, timeline, footprint, stopped, .. } = self.checks;
        let failed = |found: String| Problem::new("crash", None, found, "");
        let zones = zones::zones(recording, timeline, image).map_err(failed)?;
        let store = served::store_of(self.view.show(image), footprint, zones.as_ref())?;
        let front = self.socket.bind(drive, store.geometry())?;
        let stop = Arc::new(StopRequest::new().map_err(|error| failed(error.to_string()))?);
        let server = served::server(drive, store, None, stop, front);
        let socket = self.socket.path();
        let ran = served::serve_during(&server, stopped, |stopped| self.run(Some(&socket), stopped));
        ran.map_err(|error| failed(format!("an image cannot be served: {error}")))
    }

    fn run(&self, socket: Option<&Path>, stopped: &dyn Fn() -> bool) -> io::Result<CheckVerdict> {
        let CheckedRecording { command, limit, .. } = self.checks;
        let (output, writer) = io::pipe()?;
        let mut command = child::shell(command);
        command.env("image", &self.image.path).env("file", &self.image.path).env("printed", &self.printed);
        command.envs(socket.map(|socket| ("socket", socket)));
        command.stdout(Stdio::from(writer.try_clone()?)).stderr(Stdio::from(writer));
        let mut said = Vec::new();
        let hear = |piece: &[u8]| {
            let room = SAID_BYTES_MAX - said.len();
            said.extend_from_slice(&piece[..room.min(piece.len())]);
        };
        let end = child::run(&mut command, output, Some(*limit), stopped, hear)?;
        Ok(CheckVerdict { end, said: String::from_utf8_lossy(&said).into() })
    }
}

fn unwritable_image_problem(error: io::Error) -> Problem {
    let folder = std::env::temp_dir();
    Problem::new(folder.display().to_string(), None, format!("an image cannot be written: {error}"), "TMPDIR elsewhere")
}

fn failed_worker_problem() -> Problem {
    Problem::new("crash", None, "a worker has failed", "")
}
