//! The check, on image after image, by as many workers as there are processors.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use phaselink_core::problem::Problem;
use phaselink_serve::crash::view::{ImageView, footprint};
use phaselink_serve::crash::{Image, Timeline};
use phaselink_serve::device::recording::Recording;
use phaselink_serve::device::tally::locked;

use super::child::{self, End};
use super::plain::PlainFile;
use crate::progress::Progress;

/// Images that a worker takes at once: neighbours, which differ by little.
const IMAGES: usize = 8;
/// What is kept of what a check says.
const SAID_BYTES_MAX: usize = 4096;

/// A recording, and the check of its images.
#[derive(Debug)]
pub(super) struct Checks<'a> {
    pub recording: &'a Recording,
    pub timeline: &'a Timeline,
    footprint: Vec<Range<usize>>,
    command: &'a str,
    limit: Duration,
    stopped: &'a AtomicBool,
}

/// How a check has ended, and what it has said first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub end: End,
    pub said: String,
}

/// What a number of checks has found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub tested: usize,
    pub timed_out: usize,
    /// Images that the check does not like, in their order.
    pub failed: Vec<Image>,
}

/// One checker, with a file of its own.
#[derive(Debug)]
pub(super) struct Worker<'a> {
    checks: &'a Checks<'a>,
    view: ImageView<'a>,
    image: PlainFile,
    printed: std::path::PathBuf,
}

impl Verdict {
    /// Whether the application has survived.
    pub(super) fn is_good(&self) -> bool {
        self.end == End::Exited(0)
    }
}

impl<'a> Checks<'a> {
    /// Checks of a recording by this shell command, each within `limit`.
    pub(super) fn new(
        recording: &'a Recording,
        timeline: &'a Timeline,
        command: &'a str,
        limit: Duration,
        stopped: &'a AtomicBool,
    ) -> Checks<'a> {
        Checks { recording, timeline, footprint: footprint(recording), command, limit, stopped }
    }

    /// A worker with its files in a new folder.
    ///
    /// # Errors
    /// If they cannot be made.
    pub(super) fn worker(&'a self, folder: &Path) -> Result<Worker<'a>, Problem> {
        let made = std::fs::create_dir(folder).and_then(|()| {
            PlainFile::create(&folder.join("image"), self.recording.blocks(), self.recording.rules.block_bytes)
        });
        let image = made.map_err(unwritable)?;
        let view = ImageView::new(self.recording, self.timeline);
        Ok(Worker { checks: self, view, image, printed: folder.join("printed") })
    }

    /// Check all images, which are in the order of their cuts, until the user stops it.
    ///
    /// # Errors
    /// If an image cannot be written, or the check not run.
    pub(super) fn all(&'a self, images: &[Image], folder: &Path, progress: &Progress) -> Result<Findings, Problem> {
        let workers = thread::available_parallelism().map_or(1, |number| number.get()).min(images.len());
        let (next, findings) = (AtomicUsize::new(0), Mutex::new(Findings::default()));
        let work = |number: usize| {
            let mut worker = self.worker(&folder.join(format!("worker-{number}")))?;
            loop {
                let first = next.fetch_add(IMAGES, Ordering::Relaxed);
                let Some(taken) = images.get(first..).filter(|rest| !rest.is_empty()) else { return Ok(()) };
                for image in &taken[..IMAGES.min(taken.len())] {
                    let verdict = worker.check(image)?;
                    if verdict.end == End::Stopped {
                        return Ok(());
                    }
                    locked(&findings).count(image, &verdict);
                    progress.one();
                }
            }
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..workers).map(|number| scope.spawn(move || work(number))).collect();
            let ended = workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| Err(unexpected())));
            ended.collect::<Result<Vec<()>, Problem>>()
        })?;
        let mut findings = findings.into_inner().unwrap_or_default();
        findings.failed.sort();
        Ok(findings)
    }
}

impl Findings {
    fn count(&mut self, image: &Image, verdict: &Verdict) {
        self.tested += 1;
        self.timed_out += usize::from(verdict.end == End::TimedOut);
        if !verdict.is_good() {
            self.failed.push(image.clone());
        }
    }

    /// The failure of which the least is missing.
    pub(super) fn smallest(&self) -> Option<&Image> {
        self.failed.iter().min_by_key(|image| (image.lost.len(), image.cut))
    }
}

impl Worker<'_> {
    /// Run the check on an image.
    ///
    /// # Errors
    /// If the image cannot be written, or the check not run.
    pub(super) fn check(&mut self, image: &Image) -> Result<Verdict, Problem> {
        let Checks { recording, footprint, command, limit, stopped, .. } = self.checks;
        self.image.hold(self.view.show(image), footprint).map_err(unwritable)?;
        let printed: Vec<u8> = recording.printed(image.cut).collect::<Vec<_>>().concat();
        std::fs::write(&self.printed, printed).map_err(unwritable)?;
        self.run(command, *limit, stopped)
            .map_err(|error| Problem::new("--check", None, format!("the command cannot be run: {error}"), ""))
    }

    fn run(&self, command: &str, limit: Duration, stopped: &AtomicBool) -> io::Result<Verdict> {
        let (output, writer) = io::pipe()?;
        let mut command = child::shell(command);
        command.env("image", &self.image.path).env("file", &self.image.path).env("printed", &self.printed);
        command.stdout(Stdio::from(writer.try_clone()?)).stderr(Stdio::from(writer));
        let mut said = Vec::new();
        let hear = |piece: &[u8]| {
            let room = SAID_BYTES_MAX - said.len();
            said.extend_from_slice(&piece[..room.min(piece.len())]);
        };
        let stopped = || stopped.load(Ordering::Relaxed);
        let end = child::run(&mut command, output, Some(limit), stopped, hear)?;
        Ok(Verdict { end, said: String::from_utf8_lossy(&said).into() })
    }
}

fn unwritable(error: io::Error) -> Problem {
    let folder = std::env::temp_dir();
    Problem::new(folder.display().to_string(), None, format!("an image cannot be written: {error}"), "TMPDIR elsewhere")
}

fn unexpected() -> Problem {
    Problem::new("crash", None, "a worker has failed", "")
}
