//! `phaselink whatif`: replays a recorded application on other drives and stacks, and ranks them by gain, each with its
//! prediction interval.

mod page;
mod replays;
mod text;

use clap::Args;
use clap::builder::PossibleValuesParser;
use phaselink_core::drive_file::{Described, Override};
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::workload::Trace;
use phaselink_core::workload::trace::{Format, NamedTrace, Selection};
use phaselink_studies::results::documents::Interval;
use phaselink_studies::uncertainty::DRAWS_MIN;
use phaselink_studies::whatif::{self, RecordedWindow};
use serde_json::{Value, json};

use crate::ending::{Ending, Failure};
use crate::output::ReportFlags;
use crate::{describe, input, interrupt, output, traces};

const EXAMPLES: &str = include_str!("../../help/whatif.txt");
/// Drives that are tried if the command line names none.
const DRIVES: [&str; 6] = ["tlc-gen4", "tlc-gen5", "xl-flash", "optane-p5800x", "optane-p4800x", "tlc-gen3"];
/// Software stacks that are tried if the command line names none.
const STACKS: [&str; 2] = ["linux-6", "user-space"];
/// Number of windows (ranges of consecutive requests) that are replayed of a recorded trace with more than `--requests`
/// requests.
const WINDOWS: u64 = 8;
/// Minimum speed-up of the application for which a drive pays. Machines differ by more than a smaller speed-up.
const WORTH: f64 = 1.05;

/// Replay a recorded application, with its pauses, on other drives and software stacks, and rank these by speed-up.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Drives on which the recording is replayed: drive files, or names of shipped drives [default: tlc-gen4 tlc-gen5
    /// xl-flash optane-p5800x optane-p4800x tlc-gen3]
    #[arg(value_name = "DRIVE")]
    drives: Vec<String>,
    /// Block trace that was recorded under the application, in any format that `phaselink run --trace` reads; also .gz
    /// and .zst
    #[arg(long, value_name = "FILE")]
    trace: String,
    /// Device whose requests in the block trace are replayed; required if the trace has several devices
    #[arg(long, value_name = "ID")]
    trace_device: Option<String>,
    /// Format of the block trace that is replayed [default: as its content tells]
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(Format::ALL.map(Format::word)))]
    trace_format: Option<String>,
    /// Software stacks with which each drive is tried, separated by commas; drives whose interface takes no I/O engines
    /// keep their own stack [default: linux-6,user-space]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    stack: Vec<String>,
    /// Drive that the application uses now, under the first stack of --stack; the speed-up of other drives is relative
    /// to this drive [default: the first drive]
    #[arg(long, value_name = "DRIVE")]
    now: Option<String>,
    /// Drive that the application used during the recording, or `instant` for a drive with zero latency [default: that
    /// of --now]
    #[arg(long, value_name = "DRIVE|instant")]
    recorded_on: Option<String>,
    /// Number of random draws of all uncertain constants, from which the 90 % intervals of the speed-ups follow
    #[arg(long, value_name = "N", default_value_t = DRAWS_MIN, value_parser = draws)]
    draws: usize,
    /// Largest number of replayed requests; of a longer recording, eight windows with this number of requests together
    /// are replayed
    #[arg(long, value_name = "N", default_value_t = 4000, value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    requests: u64,
    /// Seed of the choice of windows and of the simulations' random numbers; draws of uncertain constants always use
    /// seed 1
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the ranking of drives as JSON in place of the table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    report: ReportFlags,
}

fn draws(text: &str) -> Result<usize, String> {
    let draws = text.parse().ok().filter(|draws| (DRAWS_MIN..=10_000).contains(draws));
    draws.ok_or_else(|| format!("{DRAWS_MIN} to 10000: fewer draws have no interval in which nine of ten lie"))
}

/// Drive with a software stack, on which the recorded block trace is replayed.
struct Candidate {
    described: Described,
    stack: String,
}

/// Parameters of `phaselink whatif`: candidate drives with stacks, the recorded block trace, and the number of random
/// draws.
struct WhatIf {
    candidates: Vec<Candidate>,
    /// Index of the candidate on which the application runs now.
    now: usize,
    /// Drive of the machine on which the application was recorded.
    recorded_on: RecordedDrive,
    windows: Vec<RecordedWindow>,
    /// Number of requests and flushes in the whole recorded block trace.
    recorded_requests: u64,
    file: String,
    draws: usize,
    seed: u64,
}

/// Drive of the machine on which the application was recorded.
enum RecordedDrive {
    /// Recorded on the drive that the application uses now (`--now`).
    Now,
    /// Recorded on a drive with zero latency (`--recorded-on instant`).
    Instant,
    /// Recorded on this drive, which `--recorded-on` names.
    Other(Box<Described>),
}

/// Results of replaying the recorded block trace on one candidate drive: speed-up and latencies of requests.
struct RankedCandidate {
    /// Index of this result's drive and stack in `WhatIf::candidates`.
    place: usize,
    /// Prediction interval of the speed-up: the replayed time on the present drive divided by the time on this
    /// candidate.
    gain: Interval,
    central: f64,
    /// Duration in seconds of the replayed windows (parts of the recorded trace). `waited_s` is the part of it in which
    /// requests were in flight.
    elapsed_s: f64,
    waited_s: f64,
    /// Mean latencies in seconds of reads, writes and flushes.
    means_s: [Option<f64>; 3],
}

/// Verdict on a candidate drive: in use now, pays, does not pay, or unsure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Now,
    Pays,
    Unsure,
    No,
}

impl RankedCandidate {
    fn verdict(&self, now: usize) -> Verdict {
        match (self.gain.low, self.gain.high) {
            _ if self.place == now => Verdict::Now,
            // Too few draws were valid for an interval.
            _ if self.gain.draws == 0 => Verdict::Unsure,
            (low, _) if low >= WORTH => Verdict::Pays,
            (_, high) if high < WORTH => Verdict::No,
            _ => Verdict::Unsure,
        }
    }
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Verdict::Now => "now",
            Verdict::Pays => "yes",
            Verdict::Unsure => "unsure",
            Verdict::No => "no",
        }
    }
}

/// Runs `phaselink whatif`.
pub(crate) fn command(arguments: &Arguments) -> Result<Ending, Failure> {
    let report = arguments.report.open()?;
    let (asked, unfit) = arguments.resolve()?;
    interrupt::on_first(|| std::process::exit(interrupt::INTERRUPTED.into()));
    let ranked = replays::ranked(&asked);
    let document = || output::headed("whatif", document(&asked, &ranked, &unfit));
    if let Some(report) = report {
        report.write(&page::page(&asked, &ranked, &unfit), &document())?;
    }
    match arguments.json {
        true => output::print_json(&document())?,
        false => output::print(&text::text(&asked, &ranked, &unfit))?,
    }
    Ok(Ending::Fine)
}

impl Arguments {
    /// Returns the parameters of `phaselink whatif`, and for each drive that cannot replay the recording the reason.
    fn resolve(&self) -> Result<(WhatIf, Vec<String>), Problems> {
        let format = self.trace_format.as_deref().and_then(Format::named);
        let selection = Selection { device: self.trace_device.clone(), format };
        let trace = traces::read(&NamedTrace { path: self.trace.clone(), selection })?;
        let (mut candidates, mut unfit, mut now) = (Vec::new(), Vec::new(), None);
        let name_now = self.now.clone().or_else(|| self.drives.first().cloned()).unwrap_or(DRIVES[0].into());
        for (first, candidate) in self.candidates(&name_now)? {
            match reason_against(&candidate.described, &trace) {
                Some(reason) if first => {
                    let allowed = "a drive that it fits, with --now";
                    return Err(Problem::new(&self.trace, None, reason, allowed).into());
                }
                Some(reason) => unfit.push(reason),
                None => {
                    now = now.or(first.then_some(candidates.len()));
                    candidates.push(candidate);
                }
            }
        }
        unfit.dedup();
        let recorded_on = match self.recorded_on.as_deref() {
            None => RecordedDrive::Now,
            Some("instant") => RecordedDrive::Instant,
            Some(name) => RecordedDrive::Other(Box::new(self.on_stack(&[name.into()], &self.stacks()[0])?.remove(0))),
        };
        let asked = WhatIf {
            candidates,
            now: now.unwrap_or(0),
            recorded_on,
            windows: whatif::windows(&trace.requests, self.requests, WINDOWS, self.seed),
            recorded_requests: trace.requests.summary().with_flushes(),
            file: self.trace.clone(),
            draws: self.draws,
            seed: self.seed,
        };
        traces::failures().or((asked, unfit))
    }

    fn stacks(&self) -> Vec<String> {
        if self.stack.is_empty() { STACKS.map(String::from).to_vec() } else { self.stack.clone() }
    }

    /// Returns each drive with each stack. The pair of the present drive and the first stack comes first, and is marked
    /// true. A drive that keeps its own stack occurs once.
    fn candidates(&self, now: &String) -> Result<Vec<(bool, Candidate)>, Problems> {
        let mut names = input::names_or(&self.drives, &DRIVES);
        names.retain(|name| name != now);
        names.insert(0, now.clone());
        let mut candidates: Vec<(bool, Candidate)> = Vec::new();
        for (place, stack) in self.stacks().iter().enumerate() {
            for (drive, described) in self.on_stack(&names, stack)?.into_iter().enumerate() {
                let own = !described.drive().protocol().takes_engines();
                let stack = if own { String::from("its own") } else { stack.clone() };
                let is_known = |other: &(bool, Candidate)| *other.1.described.drive() == *described.drive();
                if !candidates.iter().any(is_known) {
                    candidates.push((place == 0 && drive == 0, Candidate { described, stack }));
                }
            }
        }
        Ok(candidates)
    }

    fn on_stack(&self, names: &[String], stack: &str) -> Result<Vec<Described>, Problems> {
        let given = format!("--stack {stack}");
        let overrides = [Override::parse_given_as(&given, &format!("stack.preset={stack}"))?];
        input::drives_side_by_side(names, &overrides)
    }
}

/// Returns the reason why a drive cannot replay a recorded block trace, such as too small a capacity; none if it can.
fn reason_against(described: &Described, trace: &Trace) -> Option<String> {
    let (drive, limits, summary) = (described.drive(), described.drive().limits(), trace.requests.summary());
    let name = &drive.name;
    if summary.end_bytes > limits.capacity_bytes {
        let (needed, has) = (describe::capacity(summary.end_bytes), describe::capacity(limits.capacity_bytes));
        return Some(format!("{name} is too small: the recording goes up to {needed}, the drive has {has}"));
    }
    let fits = |granule: u64, block: u32| granule == 0 || granule.is_multiple_of(block.into());
    let is_aligned =
        fits(summary.granule_bytes, limits.block_bytes) && fits(summary.write_granule_bytes, limits.write_block_bytes);
    if !is_aligned {
        let block = describe::size(limits.write_block_bytes.max(limits.block_bytes).into());
        return Some(format!("{name} takes blocks of {block}, of which the recording's requests are no multiples"));
    }
    (drive.drives > 1).then(|| format!("{name} stands for {} drives, and a recording is of one", drive.drives))
}

fn document(asked: &WhatIf, ranked: &[RankedCandidate], unfit: &[String]) -> Value {
    let entry = |one: &RankedCandidate| {
        let candidate = &asked.candidates[one.place];
        json!({
            "drive": candidate.described.drive().name,
            "stack": candidate.stack,
            "gain": one.central,
            "gain_low": one.gain.low,
            "gain_high": one.gain.high,
            "most_of_it_from": one.gain.contributions.iter().map(|part| &part.key).collect::<Vec<_>>(),
            "pays": one.verdict(asked.now).word(),
            "elapsed_s": one.elapsed_s,
            "waited_s": one.waited_s,
            "read_mean_s": one.means_s[0],
            "write_mean_s": one.means_s[1],
            "flush_mean_s": one.means_s[2],
        })
    };
    json!({
        "file": asked.file,
        "recorded_requests": asked.recorded_requests,
        "replayed_requests": whatif::requests_of(&asked.windows),
        "windows": asked.windows.len(),
        "draws": asked.draws,
        "seed": asked.seed,
        "ranked": ranked.iter().map(entry).collect::<Vec<_>>(),
        "cannot": unfit,
    })
}
