//! `phaselink whatif`: replays a recorded application on other drives and stacks, and ranks them by gain, each with its
//! prediction interval.

use clap::Args;
use phaselink_core::drive_file::{Described, KeyOverride};
use phaselink_core::problem::Problems;
use phaselink_core::workload::trace::{Format, NamedJobTrace, TraceSelection};
use phaselink_studies::uncertainty::DRAWS_MIN;
use phaselink_studies::whatif::{RecordedDrive, Recording, WhatIfQuestion, WhatIfStudy};
use rayon::prelude::*;

use crate::ending::{CommandEnding, Failure, print_answer};
use crate::output::ReportFlags;
use crate::progress::Progress;
use crate::{input, interrupt, traces};

const EXAMPLES: &str = include_str!("../help/whatif.txt");
/// Drives that are tried if the command line names none.
const DRIVES: [&str; 6] = ["tlc-gen4", "tlc-gen5", "xl-flash", "optane-p5800x", "optane-p4800x", "tlc-gen3"];

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
    #[arg(long, value_name = "FORMAT", value_parser = input::choice(Format::ALL, Format::word))]
    trace_format: Option<Format>,
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
    #[arg(long, value_name = "N", default_value_t = DRAWS_MIN)]
    draws: usize,
    /// Largest number of replayed requests; of a longer recording, eight windows with this number of requests together
    /// are replayed
    #[arg(long, value_name = "N", default_value_t = 4000)]
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

/// Runs `phaselink whatif`.
pub(crate) fn command(arguments: &Arguments) -> Result<CommandEnding, Failure> {
    let report = arguments.report.open()?;
    let study = arguments.study()?;
    interrupt::handle_first_signal(|| std::process::exit(interrupt::INTERRUPTED.into()));
    let progress = Progress::of(study.simulations());
    let answer = study.answer(&|count, replay| {
        (0..count).into_par_iter().for_each(|place| {
            replay(place);
            progress.one();
        });
    });
    progress.finish();
    let Some(answer) = answer else { return Ok(CommandEnding::Interrupted) };
    print_answer(&answer, arguments.json, report)?;
    Ok(CommandEnding::Fine)
}

impl Arguments {
    fn study(&self) -> Result<WhatIfStudy, Problems> {
        let selection = TraceSelection { device: self.trace_device.clone(), format: self.trace_format };
        let trace = traces::read(&NamedJobTrace { path: self.trace.clone(), selection })?;
        let mut question =
            WhatIfQuestion { draws: self.draws, requests: self.requests, seed: self.seed, ..Default::default() };
        if !self.stack.is_empty() {
            question.stack.clone_from(&self.stack);
        }
        let drive = match self.recorded_on.as_deref() {
            None => RecordedDrive::Now,
            Some("instant") => RecordedDrive::Instant,
            Some(name) => {
                RecordedDrive::Other(Box::new(drives_on_stack(&[name.into()], &question.stack[0])?.remove(0)))
            }
        };
        let names = self.names();
        let recording = Recording { file: &self.trace, trace: &trace, drive };
        let study = question.study(recording, |stack| drives_on_stack(&names, stack))?;
        traces::failures().or(study)
    }

    /// Returns the names of all drives, first the one that the application uses now.
    fn names(&self) -> Vec<String> {
        let mut names = input::drive_names_or_default(&self.drives, &DRIVES);
        let now = self.now.clone().unwrap_or_else(|| names[0].clone());
        names.retain(|name| *name != now);
        names.insert(0, now);
        names
    }
}

/// Returns the drives with a software stack, which drives without I/O engines may keep from taking.
fn drives_on_stack(names: &[String], stack: &str) -> Result<Vec<Described>, Problems> {
    let given = format!("--stack {stack}");
    let overrides = [KeyOverride::parse_override_given_as(&given, &format!("stack.preset={stack}"))?];
    input::drives_to_compare(names, &overrides)
}
