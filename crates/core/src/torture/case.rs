//! Random test case: a drive, a job and faults, all in the notation of the command line.

use std::fmt;

use super::draw::{self, draw_some_of, one_of};
use crate::config::{Fault, FaultSubject};
use crate::drive::Drive;
use crate::drive_file::{KeyOverride, shipped};
use crate::problem::{Problem, Problems};
use crate::random::Random;
use crate::time::Span;
use crate::workload::{Job, fio};

/// Range of the random number of requests of a test case: 20 plus a number below this, over all threads.
const IOS_MAX: u64 = 500;
/// Largest number of bytes that a test case reads and writes.
const BYTES_MAX: u64 = 16 << 20;
/// Longest time for which one request may keep the memory busy. In the meantime, devices that poll for commands do so
/// millions of times.
const PROGRAM_MAX: Span = Span::from_us(1500);
/// Longest time for which all requests of a test case may keep the memory busy.
const PROGRAMS_MAX: Span = Span::from_ms(60);

/// Random test case: a shipped drive with changed keys, a job and faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Seed from which the test case was drawn.
    pub seed: u64,
    /// Name of the shipped drive that the test case changes.
    pub drive: &'static str,
    /// Changed keys of the drive, as `KEY=VALUE` for `--set`.
    pub set: Vec<String>,
    /// Options of the test case's fio job: names and values.
    pub job: Vec<(&'static str, String)>,
    /// Fault rules of the test case, each a TOML table as in a drive file.
    pub faults: Vec<String>,
}

impl Case {
    /// Draws the test case of this seed. Leaves out changes and faults that the drive refuses.
    pub fn random(seed: u64) -> Case {
        let mut random = Random::stream(seed, "torture");
        let own = draw::drive(&mut random);
        let mut case = Case { seed, drive: &own.name, set: Vec::new(), job: Vec::new(), faults: Vec::new() };
        // Draw power cuts, rarities and data placement from separate random streams, so that changing one does not
        // change the others.
        let (cuts, for_cuts) = draw::power(&mut Random::stream(seed, "torture power"));
        let rarities = draw::rarities(&mut Random::stream(seed, "torture rarities"), own);
        let placement = draw::placement(&mut Random::stream(seed, "torture placement"), own);
        let all = draw_key_changes(&mut random, own).into_iter().chain(rarities).chain(for_cuts).chain(placement);
        let set = all.collect();
        case.keep_valid_items(keep_last_changes(set), |case, set| case.set = set);
        if case.has_narrow_tags() {
            case.set.retain(|set| !set.contains(".queue_pairs=") && !set.contains(".max_transfer_kib="));
            case.set.extend(draw::least_transfer_change(own));
        }
        let bytes_max = if case.has_narrow_tags() { 4 << 10 } else { 1 << 20 };
        case.job = job(&mut random, case.drive().as_ref().ok(), bytes_max);
        let faults = random.bits() % 4;
        let faults = (0..faults).map(|_| draw::fault(&mut random)).chain(cuts);
        let faults = faults.chain(draw::draw_timeline_fault(&mut Random::stream(seed, "torture trouble"))).collect();
        case.keep_valid_items(faults, |case, faults| case.faults = faults);
        case.use_zones_if_valid(&mut Random::stream(seed, "torture zones"), own);
        case.use_flushes_if_valid(&mut Random::stream(seed, "torture flushes"));
        case.use_placement_if_valid(&mut Random::stream(seed, "torture identifiers"));
        case
    }

    /// Divides the drive into zones and gives the job whole zones, if drive and job allow that. Removes faults of
    /// requests except power cuts. If such a fault drops or delays an append, others take its place in the zone. The
    /// simulated host does not check where appends are until the device restarts.
    fn use_zones_if_valid(&mut self, random: &mut Random, own: &Drive) {
        let threads = self.number("numjobs");
        let Some((zone_bytes, set)) = draw::zones(random, own, threads) else { return };
        let zones = one_of(random, &[1, 1, 2, 4]).max(threads);
        let mut zoned = self.with("size", (zones * zone_bytes).to_string());
        zoned.set.retain(|set| !draw::NOT_WITH_ZONES.iter().any(|other| set.contains(other)));
        zoned.set = keep_last_changes(zoned.set.into_iter().chain(set).collect());
        let faults = self.drive().map_or(Vec::new(), |drive| drive.faults);
        let is_kept =
            |fault: &Fault| fault.subject() != FaultSubject::Request || fault.action.does_restart_controller();
        let mut are_kept = faults.iter().map(is_kept);
        zoned.faults.retain(|_| are_kept.next().unwrap_or(true));
        if zoned.drive().is_ok_and(|drive| zoned.jobs(&drive).is_ok()) {
            *self = zoned;
        }
    }

    /// Makes writes name placement identifiers, if the drive supports data placement and the job then still runs.
    fn use_placement_if_valid(&mut self, random: &mut Random) {
        if !self.drive().is_ok_and(|drive| drive.placement.is_there()) {
            return;
        }
        let before = self.job.len();
        self.job.push(("fdp", String::from("1")));
        self.job.push(("plid_select", String::from(one_of(random, &["roundrobin", "random"]))));
        if !self.drive().is_ok_and(|drive| self.jobs(&drive).is_ok()) {
            self.job.truncate(before);
        }
    }

    /// Adds flushes after writes, if the drive and its stack allow that. Chosen more often for drives that may lose
    /// acknowledged writes in a power cut.
    fn use_flushes_if_valid(&mut self, random: &mut Random) {
        let loses = self.drive().is_ok_and(|drive| drive.loses_power() && !drive.keeps_acknowledged());
        let every = one_of(random, if loses { &["0", "1", "1", "2", "8"] } else { &["0", "0", "1", "2", "8"] });
        let option = one_of(random, &["fsync", "fdatasync"]);
        if every == "0" {
            return;
        }
        self.job.push((option, String::from(every)));
        if !self.drive().is_ok_and(|drive| self.jobs(&drive).is_ok()) {
            self.job.pop();
        }
    }

    /// True if the test case has tags of eight bits. Nearly every large read then finds its tag in the data, and waits
    /// for its time-out repeatedly. That time-out is the largest command's, and the device polls all its queues
    /// meanwhile.
    fn has_narrow_tags(&self) -> bool {
        self.set.iter().any(|set| set.ends_with("_bits=8"))
    }

    /// Adds the items of a list one by one, and keeps those with which the drive is still valid. `take` sets the list
    /// in the test case.
    fn keep_valid_items(&mut self, all: Vec<String>, take: impl Fn(&mut Case, Vec<String>)) {
        take(self, all.clone());
        if self.drive().is_ok() {
            return;
        }
        let mut taken = Vec::new();
        for one in all {
            taken.push(one);
            take(self, taken.clone());
            if self.drive().is_err() {
                taken.pop();
            }
        }
        take(self, taken);
    }

    /// Returns the drive of the test case, with its changes and faults.
    ///
    /// # Errors
    /// If the drive refuses the changes or faults.
    pub fn drive(&self) -> Result<Drive, Problems> {
        let unknown = || Problems::from(Problem::new(self.drive, None, "there is no such drive", ""));
        let shipped = shipped::find(self.drive).ok_or_else(unknown)?;
        let faults = (!self.faults.is_empty()).then(|| self.fault_list());
        let set = self.set.iter().chain(&faults).map(|text| KeyOverride::parse(text));
        let set = set.collect::<Result<Vec<_>, Problem>>()?;
        Drive::from_toml(shipped.file, shipped.text, &set)
    }

    /// Returns the jobs of the test case for this drive.
    ///
    /// # Errors
    /// If the drive cannot run them.
    pub fn jobs(&self, drive: &Drive) -> Result<Vec<Job>, Problems> {
        let options: Vec<(&str, &str)> = self.job.iter().map(|(name, value)| (*name, value.as_str())).collect();
        fio::job_from_flags(&options)?.resolve(&drive.limits(), &Default::default())
    }

    /// Returns the value of a numeric option of the job, or 1 if it is missing.
    pub fn number(&self, option: &str) -> u64 {
        let value = self.job.iter().find(|(name, _)| *name == option).map(|(_, value)| value);
        value.and_then(|value| value.parse().ok()).unwrap_or(1)
    }

    /// Returns the test case with a new value of an option that the job has.
    pub(super) fn with(&self, option: &str, value: String) -> Case {
        let mut case = self.clone();
        case.job.iter_mut().filter(|(name, _)| *name == option).for_each(|(_, old)| *old = value.clone());
        case
    }

    /// Returns the number of requests that the job submits, over all threads.
    pub fn ios(&self) -> u64 {
        self.number("number_ios") * self.number("numjobs")
    }

    fn fault_list(&self) -> String {
        format!("faults=[{}]", self.faults.join(", "))
    }
}

impl fmt::Display for Case {
    /// Writes the command line that runs the test case and verifies its data.
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        write!(to, "phaselink run {} --verify --seed {}", self.drive, self.seed)?;
        self.set.iter().try_for_each(|set| write!(to, " --set '{set}'"))?;
        if !self.faults.is_empty() {
            write!(to, " --set '{}'", self.fault_list())?;
        }
        self.job.iter().try_for_each(|(name, value)| write!(to, " -O {name}={value}"))
    }
}

/// Draws changed keys for a drive, some of which it may refuse.
fn draw_key_changes(random: &mut Random, own: &Drive) -> Vec<String> {
    let sections = ["link", "media", "host", "stack", "root_complex"];
    let presets: Vec<String> = sections.iter().filter_map(|section| draw::preset(random, section)).collect();
    let mut set: Vec<&str> = Vec::new();
    for (most, details) in [(3, draw::LINK_DETAILS), (3, draw::MEDIA_DETAILS), (2, draw::HOST_DETAILS)] {
        set.extend(draw_some_of(random, most, details));
    }
    if own.is_flash() && random.bits().is_multiple_of(2) {
        set.extend(draw::SMALL_FLASH);
    }
    let protocol = random.bits() % 9;
    let details: Vec<String> = (0..protocol).filter_map(|_| draw::draw_protocol_change(random, own)).collect();
    presets.into_iter().chain(set.into_iter().map(String::from)).chain(details).collect()
}

/// Keeps only the last of several changes to one key, in order.
fn keep_last_changes(set: Vec<String>) -> Vec<String> {
    let key = |text: &String| text.split('=').next().map(String::from);
    let is_last = |place: usize| set[place + 1..].iter().all(|later| key(later) != key(&set[place]));
    (0..set.len()).filter(|place| is_last(*place)).map(|place| set[place].clone()).collect()
}

/// Draws a job. If the drive cannot run it, reduces depth, threads and block size until it can.
fn job(random: &mut Random, drive: Option<&Drive>, bytes_max: u64) -> Vec<(&'static str, String)> {
    let rw = one_of(random, &["randrw", "randrw", "randrw", "rw", "randwrite", "randread", "read", "write"]);
    let mut bytes: u64 =
        one_of(random, &[512, 512, 4096, 4096, 4096, 8192, 16_384, 65_536, 262_144, 1_048_576]).min(bytes_max);
    let mut depth = one_of(random, &[1, 1, 2, 4, 8, 16, 32, 64]);
    let mut threads = one_of(random, &[1, 1, 1, 2, 3, 8]);
    let size = one_of(random, &[1u64, 2, 2, 4, 16, 256]);
    let read_percent = one_of(random, &[10, 30, 50, 50, 70, 90]);
    let think = one_of(random, &["0", "0", "0", "5us", "100us"]);
    let ios = 20 + random.bits() % IOS_MAX;
    let program = |bytes: u64| drive.map_or(Span::ZERO, |drive| program(drive, bytes));
    while program(bytes) > PROGRAM_MAX && bytes > 4096 {
        bytes /= 2;
    }
    loop {
        let programs = PROGRAMS_MAX.as_ps() / program(bytes).as_ps().max(1);
        let ios = ios.min(BYTES_MAX / bytes).min(programs).max(10).div_ceil(threads);
        let number = |number: u64| number.to_string();
        let mut options = vec![
            ("rw", String::from(rw)),
            ("bs", number(bytes)),
            ("iodepth", number(depth)),
            ("numjobs", number(threads)),
            ("number_ios", number(ios)),
            ("size", number(size * bytes.max(4096))),
            ("io_size", String::from("1024p")),
        ];
        options.extend(rw.ends_with("rw").then(|| ("rwmixread", number(read_percent))));
        options.extend((think != "0").then(|| ("thinktime", String::from(think))));
        let case = Case { seed: 0, drive: "", set: Vec::new(), job: options, faults: Vec::new() };
        let runs = drive.is_none_or(|drive| case.jobs(drive).is_ok());
        match (runs, bytes, depth, threads) {
            (true, ..) | (_, 4096, 1, 1) => return case.job,
            (_, _, 2.., _) => depth /= 2,
            (_, _, _, 2..) => threads = 1,
            _ => bytes = 4096,
        }
    }
}

/// Returns the time for which a write of `bytes` bytes programs the memory, if all of it goes to one bank.
fn program(drive: &Drive, bytes: u64) -> Span {
    drive.media.program * bytes.div_ceil(drive.media.program_bytes.into())
}
