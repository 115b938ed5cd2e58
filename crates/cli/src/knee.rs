//! `phaselink knee`: runs a job at rising loads, and shows latency against load.

use std::sync::atomic::Ordering;

use clap::Args;
use phaselink_studies::knee::{KneeQuestion, parse_offered_rates};

use crate::drive_flags::DriveFlags;
use crate::ending::{CommandEnding, Failure, print_answer};
use crate::output::ReportFlags;
use crate::progress::Progress;
use crate::run::workload::WorkloadFlags;
use crate::{input, interrupt};

const EXAMPLES: &str = include_str!("../help/knee.txt");
/// Number of requests at each load over all threads of the job, if no other option ends it.
const IOS_DEFAULT: u64 = 40_000;
/// Workload options whose defaults are others at a load than in a single run, with their help here.
const HELP_AT_LOAD: [(&str, &str); 3] = [
    ("iodepth", "Largest number of requests that each thread of the job has in flight (fio's iodepth) [default: 64]"),
    ("numjobs", "Number of threads of the job, which share the load (fio's numjobs) [default: 4]"),
    (
        "number_ios",
        "Number of requests after which each thread of the job ends at each load (fio's number_ios) [default: together \
         40000 if nothing else ends the job]",
    ),
];
/// Workload options that give a job a pace of its own, so that no load can be set: not listed in the help.
const WITHOUT_LOAD: [&str; 7] =
    ["rate_iops", "thinktime", "trace", "trace_device", "trace_format", "trace_speed", "trace_closed"];

/// Simulate one workload at rising loads, and print latency against load: percentiles of reads and writes, and the knee
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Drive file, or name of a shipped drive, whose latency is measured at each load
    #[arg(value_name = "DRIVE")]
    drive: String,
    /// Loads in requests a second, reads and writes of all threads together, as in 10k,50k,100k, or the lowest and the
    /// highest of twelve, as in 10k:200k [default: 5 % to 100 % of the throughput at the job's queue depth]
    #[arg(long, value_name = "LIST|LOW:HIGH", value_parser = rates)]
    rates: Option<String>,
    /// Seed of the simulations' random numbers, such as times of arrival, offsets and service times
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print latency at each load as JSON in place of the table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    report: ReportFlags,
    #[command(flatten)]
    workload: WorkloadFlags,
    #[command(flatten)]
    flags: DriveFlags,
}

/// Returns the grammar of `phaselink knee` with the help of workload options as it holds at a load.
pub(crate) fn grammar_with_help_at_load(verb: clap::Command) -> clap::Command {
    let verb = HELP_AT_LOAD.iter().fold(verb, |verb, (name, help)| verb.mut_arg(name, |arg| arg.help(*help)));
    WITHOUT_LOAD.iter().fold(verb, |verb, name| verb.mut_arg(name, |arg| arg.hide(true)))
}

/// Runs `phaselink knee`.
pub(crate) fn command(arguments: &Arguments) -> Result<CommandEnding, Failure> {
    let report = arguments.report.open()?;
    let drive = input::drive(&arguments.drive, &arguments.flags.resolve()?)?.into_drive();
    let workload = arguments.workload.at_load(IOS_DEFAULT).resolve(&drive.limits())?;
    let question = KneeQuestion { rates: arguments.rates.clone().unwrap_or_default(), seed: arguments.seed };
    let study = question.study(&drive, workload.into_written())?;
    let stopped = interrupt::flag();
    let progress = Progress::of(study.simulations());
    let each = |count: usize, run: &(dyn Fn(usize) + Sync)| progress.each(count, run);
    let answer = study.answer(&each, &|| stopped.load(Ordering::Relaxed))?;
    progress.finish();
    let Some(answer) = answer else { return Ok(CommandEnding::Interrupted) };
    print_answer(&answer, arguments.json, report)?;
    Ok(CommandEnding::Fine)
}

/// Checks the loads of `--rates`.
fn rates(text: &str) -> Result<String, String> {
    parse_offered_rates(text).map(|_| String::from(text)).map_err(|problem| problem.allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knee_help_has_at_load_defaults_and_no_pace_option() {
        let help =
            grammar_with_help_at_load(Arguments::augment_args(clap::Command::new("knee"))).render_help().to_string();
        let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let (threads, depth) = phaselink_studies::compare::AT_LOAD;
        for default in
            [format!("in flight (fio's iodepth) [default: {depth}]"), format!("numjobs) [default: {threads}]")]
        {
            assert!(words.contains(&default), "{default}: {words}");
        }
        assert!(words.contains(&format!("[default: together {IOS_DEFAULT} if nothing else")), "{words}");
        assert!(
            !words.contains("[default: 100000") && !words.contains("--rate-iops") && !words.contains("--trace"),
            "{words}"
        );
    }
}
