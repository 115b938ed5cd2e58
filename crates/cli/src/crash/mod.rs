//! `phaselink crash`: tests that an application survives power cuts at every point of its writes, with every data state
//! that the drive may leave.

mod check;
mod plain;
mod record;
mod served;
mod text;

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::{ArgGroup, Args};
use phaselink_core::crash::explain::DriveLossRules;
use phaselink_core::crash::format::{self, CAPACITY_BYTES_MAX};
use phaselink_core::crash::recording::{Durability, DurabilityRules, Recording};
use phaselink_core::crash::sample::{self, CrashImageCount};
use phaselink_core::crash::shrink::shrink;
use phaselink_core::crash::{CutTimeline, Image};
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::shipped;
use phaselink_core::number::{length, wide_index};
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::protocol::halves::Attachment;
use phaselink_core::workload;
use phaselink_serve::device;
use phaselink_studies::results::documents::value;

use crate::drive_flags::DriveFlags;
use crate::ending::{CommandEnding, Failure};
use crate::output::claims::{self, Role};
use crate::output::{self, Target, quoted};
use crate::progress::Progress;
use crate::{child, input, interrupt, notes};
use check::{CheckResults, CheckVerdict, CheckedRecording};
use record::RecordingPlan;

const EXAMPLES: &str = include_str!("../../help/crash.txt");

/// Maximum number of runs of the check command in the search for the smallest failing crash image.
const SHRINKING_CHECKS_MAX: usize = 200;
/// Maximum number of bytes that are read of the file of `--replay`. No recording of requests has more.
const FILE_BYTES_MAX: u64 = 2 * record::RECORDING_BYTES_MAX;
/// Default capacity in bytes of the recorded drive, if the drive has no zones.
const SIZE_BYTES: u64 = 64 << 20;
/// Maximum size in bytes of a recorded drive's zone, since a recorded request has a length of 32 bits.
const ZONE_BYTES_MAX: u64 = 2 << 30;
/// Block size in bytes of the recorded drive if the command line names no drive, as of most NVMe drives.
const BLOCK_BYTES: u32 = 512;
/// Minimum block size in bytes of a recorded drive, for memories whose blocks are cache lines.
const BLOCK_BYTES_MIN: u32 = 64;

/// Crash-test an application: record its writes to a drive, then check every image of the drive that a power cut may
/// leave.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("source").args(["run", "replay"]).required(true))]
pub(crate) struct Arguments {
    /// Drive file, or name of a shipped drive, that sets block size and durability of the recorded drive [default:
    /// blocks of 512 bytes and a volatile write cache, as a plain NVMe drive]
    #[arg(value_name = "DRIVE")]
    drive: Option<String>,
    /// Shell command of the application under test, whose writes to the drive at $uri (NBD) are recorded; lines that
    /// the command prints are passed to --check in $printed
    #[arg(long, value_name = "COMMAND")]
    run: Option<String>,
    /// Shell command that runs on the drive before the command of --run, such as mke2fs; all its writes are in every
    /// crash image
    #[arg(long, value_name = "COMMAND", requires = "run")]
    prepare: Option<String>,
    /// Give the commands of --run and --prepare the drive also as a plain file at $file; needs the program nbdfuse
    #[arg(long, requires = "run", conflicts_with = "vfio_user")]
    file: bool,
    /// Give all commands the drive over vfio-user at the socket $socket, in place of NBD; for --check, with the blocks
    /// and zones of the crash image. With --replay, DRIVE must be the recorded drive
    #[arg(long)]
    vfio_user: bool,
    /// Shell command that checks each crash image, a plain file at $image; exit code 0 means that the application has
    /// survived the power cut
    #[arg(long, value_name = "COMMAND")]
    check: String,
    /// Largest number of crash images to check; if the recording allows more, a random sample with images of every kind
    /// is checked
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    images: u64,
    /// Timeout of the command of --check on one image in seconds; a command that takes longer is killed and has failed
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Capacity of the recorded drive in bytes, as in 64m [default: 64m, or all zones of a drive that has some]
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "replay")]
    size: Option<u64>,
    /// Atomic write size in bytes (AWUPF in NVMe): the largest write that a power cut leaves either whole or undone
    /// [default: that of the drive, at least one block; with --replay, as recorded]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    atomic_write: Option<u64>,
    /// File in which the recording of all writes is kept, for --replay [default: in the folder of temporary files, if a
    /// check fails]
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    record: Option<PathBuf>,
    /// File of an earlier recording (--record) whose crash images are checked, without running an application
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Name of the only crash image to check, as the report of an earlier failure prints it, such as cut=120,missing=57
    #[arg(long, value_name = "IMAGE", requires = "replay")]
    image: Option<String>,
    /// Seed of the random sample of crash images, which is drawn if the recording allows more than --images
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print results of the crash test as JSON in place of text; with =FILE, print the text and write the JSON to FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    json: Option<Option<PathBuf>>,
    #[command(flatten)]
    flags: DriveFlags,
}

/// Results of checking the crash images that a recording of an application's requests allows.
struct CrashReport<'a> {
    recording: &'a Recording,
    timeline: &'a CutTimeline,
    rules: DriveLossRules,
    possible: CrashImageCount,
    findings: CheckResults,
    elapsed: Duration,
    stopped: bool,
    failure: Option<SmallestFailure>,
}

/// Crash image with the fewest losses on which the check fails, and the command to check it again.
struct SmallestFailure {
    image: Image,
    verdict: CheckVerdict,
    /// Command line (`phaselink crash --replay`) that checks the smallest failing image again.
    command: String,
}

fn size(text: &str) -> Result<u64, String> {
    let bytes = workload::bytes(text).filter(|bytes| (1..=CAPACITY_BYTES_MAX).contains(bytes));
    bytes.ok_or_else(|| format!("a size up to {} GiB, as in 64m", CAPACITY_BYTES_MAX >> 30))
}

/// Runs `phaselink crash`.
pub(crate) fn command(arguments: &Arguments) -> Result<CommandEnding, Failure> {
    let create = |flag, path: Option<&Path>| path.map(|path| Target::create(flag, path)).transpose();
    let replayed = arguments.replay.as_deref().map(read).transpose()?;
    let json = create("--json", arguments.json.as_ref().and_then(Option::as_deref))?;
    let record = create("--record", arguments.record.as_deref())?;
    let folder =
        tempfile::Builder::new().prefix("phaselink-crash-").tempdir().map_err(missing_temporary_folder_problem)?;
    let stopped = interrupt::flag();
    let drive = arguments.drive()?;
    let (recorded, drive) = match replayed {
        Some(recording) => {
            let drive = arguments.replayed_drive(drive, &recording)?;
            (Some(arguments.with_atomic_write(recording)?), drive)
        }
        None => {
            let wanted = arguments.wanted(drive)?;
            let drive = wanted.drive.clone();
            (record::record(wanted, folder.path(), &stopped)?, drive)
        }
    };
    let Some(recording) = recorded else { return Ok(CommandEnding::Interrupted) };
    // If no drive is given, the recording determines the rules.
    let rules = match arguments.drive {
        Some(_) => DriveLossRules::of(&drive),
        None => DriveLossRules::of_recording(&recording),
    };
    if let Some(target) = record {
        keep(target, &recording)?;
    }
    let timeline = CutTimeline::new(&recording);
    let limit = Duration::from_secs(arguments.timeout);
    let served = arguments.vfio_user.then_some(&drive);
    let checks = CheckedRecording::new(&recording, &timeline, &arguments.check, served, limit, &stopped);
    let images = match &arguments.image {
        Some(name) => vec![Image::parse(name, &recording, &timeline)?],
        None => sample::images(&recording, &timeline, wide_index(arguments.images), arguments.seed),
    };
    if arguments.image.is_none() {
        require_check_to_succeed(&checks, folder.path())?;
    }
    let report = arguments.check_crash_images(&checks, rules, &images, folder.path())?;
    notes::tell(&text::rate(&report));
    arguments.print(&report, json)?;
    Ok(match (report.findings.failed.is_empty(), report.stopped) {
        (_, true) => CommandEnding::Interrupted,
        (true, false) => CommandEnding::Fine,
        (false, false) => CommandEnding::Off,
    })
}

fn missing_temporary_folder_problem(error: io::Error) -> Problem {
    let folder = std::env::temp_dir();
    Problem::new(folder.display().to_string(), None, format!("no folder can be made: {error}"), "TMPDIR elsewhere")
}

/// Runs the check command on the crash image with all recorded writes, where it must succeed. Otherwise the check would
/// fail on all images.
///
/// # Errors
///
/// If the check command fails on the crash image with all recorded writes.
fn require_check_to_succeed(checks: &CheckedRecording<'_>, folder: &Path) -> Result<(), Problem> {
    let whole = Image::whole(checks.recording.events.len());
    let verdict = checks.worker(&folder.join("first"))?.check(&whole)?;
    if verdict.has_passed() || verdict.end == child::CommandEnd::Stopped {
        return Ok(());
    }
    let said = verdict.said.trim_end();
    let said = if said.is_empty() { String::new() } else { format!(", and says: {said}") };
    let found = format!("the command {} on the image where nothing is missing{said}", verdict.end.words());
    Err(Problem::new("--check", None, found, "a command that ends with 0 where power did not fail"))
}

/// Reads and decodes the recording of an application's requests from a file.
fn read(path: &Path) -> Result<Recording, Problem> {
    claims::note(Role::Input, path);
    let wrong = |found: String| Problem::new(path.display().to_string(), None, found, "");
    let bytes = bytes(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    format::decode(&bytes).map_err(|found| wrong(String::from(found)))
}

/// Reads the file of a recording. If the first bytes are not those of a recording, reads nothing more, since the file
/// may be a device without an end.
fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let (mut file, mut bytes) = (File::open(path)?, Vec::new());
    (&mut file).take(length(format::MAGIC_BYTES)).read_to_end(&mut bytes)?;
    if format::has_recording_magic(&bytes) {
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Writes the recording of the application's requests to the file of `--record`.
fn keep(target: Target, recording: &Recording) -> Result<(), Problem> {
    let (mut file, unfinished) = target.begin()?;
    match file.write_all(&format::encode(recording)) {
        Ok(()) => unfinished.finish(&file),
        Err(error) => Err(claims::unwritable(unfinished.path(), &error)),
    }
}

/// Writes a recording to a new file in the folder of temporary files, and returns the file's path.
fn save_recording_to_temp(recording: &Recording) -> Result<PathBuf, Problem> {
    let file = tempfile::Builder::new()
        .prefix("crash-")
        .suffix(".recording")
        .tempfile()
        .map_err(missing_temporary_folder_problem)?;
    let unwritable = |error: io::Error| claims::unwritable(file.path(), &error);
    file.as_file().write_all(&format::encode(recording)).map_err(unwritable)?;
    file.keep().map(|(_, path)| path).map_err(|error| missing_temporary_folder_problem(error.error))
}

impl Arguments {
    /// Returns the drive that the command line names, with overrides, or the default drive.
    fn drive(&self) -> Result<Drive, Problems> {
        match &self.drive {
            Some(word) => Ok(input::drive(word, &self.flags.resolve()?)?.into_drive()),
            None => Ok(self.default_recording_drive()?),
        }
    }

    /// Checks that shell commands can use the drive: the drive stores blocks, and has zones only with `--vfio-user`.
    fn check_drive(&self, drive: &Drive) -> Result<(), Problem> {
        let (found, allowed) = match (drive.zones.is_there() && !self.vfio_user, drive.key_value.is_there()) {
            (_, true) => (
                "stores values by their keys, and the commands would write blocks",
                "a drive with logical blocks, or --set key_value.value_max_kib=0",
            ),
            (true, false) => (
                "has zones, and the commands would write anywhere",
                "--vfio-user, a drive without zones, or --set zones.size_mib=0",
            ),
            (false, false) => return Ok(()),
        };
        Err(Problem::new("crash", None, format!("{} {found}", drive.name), allowed))
    }

    fn wanted(&self, drive: Drive) -> Result<RecordingPlan<'_>, Problems> {
        self.check_drive(&drive)?;
        let (block_bytes, durability) = match self.drive {
            Some(_) => (device::geometry(&drive).block_bytes.max(BLOCK_BYTES_MIN), Durability::of(&drive)),
            None => (BLOCK_BYTES, Durability::OnFlush),
        };
        let of_drive = drive.protocol().atomic_bytes(&drive).max(block_bytes);
        let atomic_bytes = self.atomic_bytes(block_bytes)?.unwrap_or(of_drive);
        let capacity_bytes = self.capacity_bytes(&drive, block_bytes)?;
        let drive = limit_zoned_capacity(drive, capacity_bytes);
        Ok(RecordingPlan {
            zones: drive.zone_layout(),
            drive,
            capacity_bytes,
            rules: DurabilityRules { block_bytes, atomic_bytes, durability },
            prepare: self.prepare.as_deref(),
            run: self.run.as_deref().unwrap_or_default(),
            file: self.file,
            vfio_user: self.vfio_user,
        })
    }

    /// Returns the capacity of the recorded drive in bytes, from `--size` or by default: a whole number of blocks or
    /// zones.
    fn capacity_bytes(&self, drive: &Drive, block_bytes: u32) -> Result<u64, Problem> {
        let wrong = |found: String, allowed: String| Err(Problem::new("--size", None, found, allowed));
        let zone_bytes = drive.zones.is_there().then_some(drive.zones.zone_bytes());
        let unit_bytes = zone_bytes.unwrap_or(block_bytes.into());
        let whole = zone_bytes.map_or(SIZE_BYTES, |_| drive.media.capacity_bytes());
        let bytes = self.size.unwrap_or(whole);
        match zone_bytes {
            Some(zone) if zone > ZONE_BYTES_MAX => {
                wrong(format!("zones of {zone} bytes"), format!("zones of at most {ZONE_BYTES_MAX} bytes"))
            }
            Some(zone) if bytes > CAPACITY_BYTES_MAX => {
                let most = CAPACITY_BYTES_MAX / zone * zone;
                wrong(format!("{} has {bytes} bytes", drive.name), format!("--size up to {most}"))
            }
            _ if !bytes.is_multiple_of(unit_bytes) => {
                let unit = if zone_bytes.is_some() { "zones" } else { "blocks" };
                wrong(format!("{bytes} bytes, which are no whole {unit}"), format!("multiples of {unit_bytes}"))
            }
            _ => Ok(bytes),
        }
    }

    /// Returns the drive with which the crash images of a recording are served over vfio-user.
    ///
    /// # Errors
    ///
    /// If a drive is named without `--vfio-user`, or the drive differs from the recorded one.
    fn replayed_drive(&self, drive: Drive, recording: &Recording) -> Result<Drive, Problem> {
        if self.drive.is_some() && !self.vfio_user {
            let allowed = "no DRIVE, or --vfio-user with the drive that was recorded";
            return Err(Problem::new("--replay", None, format!("{} is named beside a recording", drive.name), allowed));
        }
        let drive = limit_zoned_capacity(drive, recording.capacity_bytes);
        let has_blocks = self.drive.is_none() || device::geometry(&drive).block_bytes == recording.rules.block_bytes;
        if self.vfio_user && !(has_blocks && drive.zone_layout() == recording.zones) {
            let found = format!("the recorded drive has other blocks or zones than {}", drive.name);
            return Err(Problem::new("--replay", None, found, "DRIVE and its --set as they were recorded"));
        }
        Ok(drive)
    }

    /// Returns the atomic write size of `--atomic-write` in bytes, if given: a multiple of the block size.
    fn atomic_bytes(&self, block_bytes: u32) -> Result<Option<u32>, Problem> {
        let Some(bytes) = self.atomic_write else { return Ok(None) };
        match u32::try_from(bytes) {
            Ok(bytes) if bytes.is_multiple_of(block_bytes) => Ok(Some(bytes)),
            _ => {
                let found = format!("{bytes} bytes, which are no whole blocks");
                Err(Problem::new("--atomic-write", None, found, format!("multiples of {block_bytes}")))
            }
        }
    }

    /// Replaces the atomic write size of a recording by the value of `--atomic-write`, if given.
    fn with_atomic_write(&self, mut recording: Recording) -> Result<Recording, Problem> {
        let DurabilityRules { block_bytes, atomic_bytes, .. } = recording.rules;
        recording.rules.atomic_bytes = self.atomic_bytes(block_bytes)?.unwrap_or(atomic_bytes);
        Ok(recording)
    }

    /// Returns the default drive, for which no overrides are allowed.
    fn default_recording_drive(&self) -> Result<Drive, Problem> {
        if let Some(text) = self.flags.texts().first() {
            return Err(Problem::new(
                "--set",
                None,
                format!("{text} without a drive"),
                "a drive before it, by its name or file",
            ));
        }
        // A host over vfio-user sees a whole PCI controller, so the drive's protocol must be one that vfio-user can
        // attach.
        let is_meant = |drive: &Drive| !self.vfio_user || drive.protocol().attaches(Attachment::PciFunction);
        let drive = shipped::names().filter_map(Drive::shipped).find(is_meant);
        drive.ok_or_else(|| Problem::new("crash", None, "no drive is shipped", ""))
    }

    fn check_crash_images<'a>(
        &self,
        checks: &'a CheckedRecording<'a>,
        rules: DriveLossRules,
        images: &[Image],
        folder: &Path,
    ) -> Result<CrashReport<'a>, Problem> {
        let (progress, started) = (Progress::of(images.len()), Instant::now());
        let findings = checks.all(images, folder, &progress)?;
        let elapsed = started.elapsed();
        progress.finish();
        let failure = findings.smallest().map(|image| self.smallest(checks, image, folder)).transpose()?;
        Ok(CrashReport {
            recording: checks.recording,
            timeline: checks.timeline,
            rules,
            possible: sample::possible(checks.timeline),
            findings,
            elapsed,
            stopped: checks.stopped.load(Ordering::Relaxed),
            failure,
        })
    }

    /// Searches for the smallest failing crash image, beginning with `image`. Returns that image, with a command line
    /// that checks the image again.
    fn smallest(
        &self,
        checks: &CheckedRecording<'_>,
        image: &Image,
        folder: &Path,
    ) -> Result<SmallestFailure, Problem> {
        let mut worker = checks.worker(&folder.join("smallest"))?;
        let (mut verdict, mut problem) = (None, None);
        let mut fails = |image: &Image| match worker.check(image) {
            Ok(found) => {
                let is_bad = !found.has_passed() && found.end != child::CommandEnd::Stopped;
                if is_bad {
                    verdict = Some(found);
                }
                is_bad
            }
            Err(found) => {
                problem.get_or_insert(found);
                false
            }
        };
        let image = match &self.image {
            Some(_) => image.clone(),
            None => shrink(checks.recording, checks.timeline, image.clone(), SHRINKING_CHECKS_MAX, &mut fails),
        };
        // Check the smallest image once more, because it is worth reporting if the verdict changes.
        let verdict_again = worker.check(&image)?;
        if let Some(problem) = problem {
            return Err(problem);
        }
        let file = match self.record.as_ref().or(self.replay.as_ref()) {
            Some(path) => path.clone(),
            None => save_recording_to_temp(checks.recording)?,
        };
        let name = image.name(checks.recording, checks.timeline);
        let again = self.repeat_command(&file, &name, checks.recording.rules);
        Ok(SmallestFailure { image, verdict: verdict_again, command: again })
    }

    /// Returns the command line that checks a crash image of the recording in `file` again.
    fn repeat_command(&self, file: &Path, image: &str, rules: DurabilityRules) -> String {
        let file = quoted(&file.display().to_string());
        // A recording includes the atomic write size of its drive, so repeat the option only if it overrides that.
        let is_other = self.replay.is_some() && self.atomic_write.is_some();
        let atomic = if is_other { format!(" --atomic-write {}", rules.atomic_bytes) } else { String::new() };
        let drive = if self.vfio_user { self.served_drive_words() } else { String::new() };
        format!("phaselink crash{drive} --replay {file}{atomic} --image {image} --check {}", quoted(&self.check))
    }

    /// Returns the words of the command line that name the served drive, with its overrides and `--vfio-user`.
    fn served_drive_words(&self) -> String {
        let set = self.flags.texts().into_iter().map(|text| format!(" --set {}", quoted(&text)));
        let named = self.drive.iter().map(|drive| format!(" {}", quoted(drive)));
        named.chain(set).chain([String::from(" --vfio-user")]).collect()
    }

    fn print(&self, report: &CrashReport<'_>, target: Option<Target>) -> Result<(), Failure> {
        let document = || output::headed("crash", value(&text::document(self.seed, report)));
        if let Some(target) = target {
            target.write(&output::json_text(&document()))?;
        }
        match self.json {
            Some(None) => output::print_json(&document())?,
            _ => output::print(&text::text(report))?,
        }
        Ok(())
    }
}

/// Reduces the capacity of a drive with zones to `capacity_bytes`. A drive without zones is unchanged.
fn limit_zoned_capacity(mut drive: Drive, capacity_bytes: u64) -> Drive {
    if drive.zones.is_there() {
        drive.media.capacity_mib = capacity_bytes >> 20;
    }
    drive
}
