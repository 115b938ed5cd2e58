//! Workload of a run: job files, a trace, or one job from options named as in fio.

use clap::Args;
use clap::builder::PossibleValuesParser;
use phaselink_core::drive::Drive;
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::workload::trace::{Format, NamedTrace};
use phaselink_core::workload::{
    Job, Limits, Trace, UnresolvedJobs, engine_without_effect, fio, has_end, in_words, with_defaults,
};

use crate::{describe, input, notes as told, traces};

const HEADING: &str = "Workload, in the terms of fio";

/// Sizes of a job, one of each, and what else it is.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = HEADING)]
pub(crate) struct WorkloadFlags {
    /// Block size [default: 4k]
    #[arg(long, value_name = "BYTES")]
    bs: Option<String>,
    /// Requests that a thread keeps outstanding [default: 1; 32 for a replay]
    #[arg(long, value_name = "N")]
    iodepth: Option<String>,
    /// Threads [default: 1]
    #[arg(long, value_name = "N")]
    numjobs: Option<String>,
    #[command(flatten)]
    job: JobFlags,
}

/// All of a job but its sizes.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = HEADING)]
pub(crate) struct JobFlags {
    /// Kind of requests: read, write, rw, randread, randwrite or randrw [default: randread]
    #[arg(long)]
    rw: Option<String>,
    /// Length of the region, and bytes that a thread does [default: the drive's capacity, and no limit]
    #[arg(long, value_name = "BYTES|%")]
    size: Option<String>,
    /// Simulated time after which no request is issued, in seconds or with a unit, as in 10ms
    #[arg(long, value_name = "TIME")]
    runtime: Option<String>,
    /// Requests that a thread does [default: 100000 if nothing else ends the job]
    #[arg(long, value_name = "N")]
    number_ios: Option<String>,
    /// Requests that a thread starts each second, whether or not the drive keeps up
    #[arg(long, value_name = "N")]
    rate_iops: Option<String>,
    /// Reads in a mixed workload, in per cent [default: 50]
    #[arg(long, value_name = "PERCENT")]
    rwmixread: Option<String>,
    /// Pause between requests, in microseconds or with a unit
    #[arg(long, value_name = "TIME")]
    thinktime: Option<String>,
    /// random, zipf:THETA, pareto:H or normal:PERCENT [default: random]
    #[arg(long, value_name = "KIND")]
    random_distribution: Option<String>,
    /// Measure from the first request on, with the write buffer empty and all credits of a volume, and not in the steady state
    #[arg(long)]
    burst: bool,
    /// Any other option of a fio job, as in -O bssplit=4k/90:16k/10; docs/fio.md lists them
    #[arg(short = 'O', long = "option", value_name = "NAME=VALUE")]
    options: Vec<String>,
    /// Run a fio job file instead; may be given more than once
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "rw", "bs", "iodepth", "numjobs", "size", "runtime", "number_ios", "rate_iops", "rwmixread", "thinktime",
        "random_distribution", "options", "trace",
    ])]
    fio: Vec<String>,
    /// Replay a block trace at its own times: blktrace, blkparse, fio iolog, CSV of several archives; also .gz, .zst
    #[arg(long, value_name = "FILE")]
    trace: Option<String>,
    /// Device of the trace that is replayed, if it has several
    #[arg(long, value_name = "ID", requires = "trace")]
    trace_device: Option<String>,
    /// Format of the trace [default: as its content tells]
    #[arg(long, value_name = "FORMAT", requires = "trace", value_parser = PossibleValuesParser::new(Format::ALL.map(Format::word)))]
    trace_format: Option<String>,
    /// Replay at a multiple of the recorded rate, as in 2 or 0.5
    #[arg(long, value_name = "N", requires = "trace", conflicts_with = "trace_closed", value_parser = percent_of_rate)]
    trace_speed: Option<String>,
    /// Replay as fast as requests come back, whatever the recorded times
    #[arg(long, requires = "trace")]
    trace_closed: bool,
}

/// Jobs for a drive, with a description of them in words.
pub(crate) struct Workload {
    pub jobs: Vec<Job>,
    pub summary: String,
    written: UnresolvedJobs,
}

/// Jobs as they are written in options or files, with a description of them in words.
pub(crate) struct Told {
    pub written: UnresolvedJobs,
    /// Lines of text that describe the workload.
    pub summary: String,
}

impl WorkloadFlags {
    /// Adds job files to those of the options.
    pub(crate) fn with_files(mut self, files: Vec<String>) -> WorkloadFlags {
        self.job.fio.extend(files);
        self
    }

    /// Reads the jobs of the options, for a drive with these limits.
    ///
    /// # Errors
    ///
    /// If options, job files or traces are invalid, or the drive cannot run a job; all problems are listed.
    pub(crate) fn resolve(&self, limits: &Limits) -> Result<Workload, Problems> {
        let sizes = [("bs", &self.bs), ("iodepth", &self.iodepth), ("numjobs", &self.numjobs)];
        let sizes: Vec<_> = sizes.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect();
        let Told { written, summary } = self.job.written(&sizes)?;
        Ok(Workload { jobs: written.on(limits)?, summary, written })
    }

    /// Returns the options with a limit of `ios` requests for each thread, unless something else ends the job.
    pub(crate) fn ending_after(&self, ios: u64) -> WorkloadFlags {
        let mut flags = self.clone();
        flags.job.end_after(ios);
        flags
    }
}

impl Workload {
    /// Returns the jobs for a drive with other limits, or none if it cannot run them.
    pub(crate) fn on(&self, limits: &Limits) -> Option<Vec<Job>> {
        self.written.on(limits).ok()
    }
}

/// Reports on standard error the drives on which the jobs' I/O engine has no effect, and what to do about that.
pub(crate) fn tell_engine_without_effect<'a>(jobs: impl Iterator<Item = (&'a Drive, &'a [Job])>) {
    let (mut names, mut engine) = (Vec::new(), "");
    for (drive, jobs) in jobs {
        if let Some(named) = engine_without_effect(jobs, &drive.limits()) {
            engine = named;
            names.push(drive.name.clone());
        }
    }
    if !names.is_empty() {
        let names = describe::listed(&names);
        told::tell(&format!(
            "note: ioengine={engine} changes nothing on {names}, whose host has no stack with engines; add --stack linux-6"
        ));
    }
}

impl JobFlags {
    /// Reads the jobs of the options. `sizes` are further options of a job that is not in a file.
    ///
    /// # Errors
    ///
    /// If options, job files or traces are invalid; all problems are listed.
    pub(crate) fn written(&self, sizes: &[(&str, &str)]) -> Result<Told, Problems> {
        match self.fio.is_empty() {
            true => self.one_job(sizes),
            false => self.job_files(),
        }
    }

    /// Limits the job to `ios` requests of each thread, unless something else ends it or it is in a file.
    pub(crate) fn end_after(&mut self, ios: u64) {
        let is_ended = self.given().map_or(true, |given| has_end(&given));
        if !self.has_files() && !is_ended {
            self.number_ios = Some(ios.to_string());
        }
    }

    /// True if the jobs come from job files.
    pub(crate) fn has_files(&self) -> bool {
        !self.fio.is_empty()
    }

    fn job_files(&self) -> Result<Told, Problems> {
        let files = input::all(self.fio.iter().map(|path| input::job_file(path)))?;
        let written = UnresolvedJobs::new(files, traces::read)?.as_bursts(self.burst);
        let names: Vec<String> = written.names().map(String::from).collect();
        let notes = notes(&written);
        let summary = format!("Jobs: {} of {}\n{notes}", describe::listed(&names), describe::listed(&self.fio));
        Ok(Told { written, summary })
    }

    fn one_job(&self, sizes: &[(&str, &str)]) -> Result<Told, Problems> {
        let mut given = self.given()?;
        // In the order of the help.
        let place = usize::from(self.rw.is_some());
        given.splice(place..place, sizes.iter().copied());
        let options = with_defaults(&given);
        let written = UnresolvedJobs::new([fio::from_flags(&options)?], traces::read)?.as_bursts(self.burst);
        let spelt = in_words(options.iter().copied());
        let hint = match given.is_empty() {
            true => " (the default; see phaselink run --help)",
            false => "",
        };
        let summary = format!("Job: {spelt}{hint}\n{}", notes(&written));
        Ok(Told { written, summary })
    }

    /// Returns all given options with their values, in the order of `--help`. Those of `--option` come last, so that
    /// they take precedence.
    ///
    /// # Errors
    ///
    /// If an `--option` is not of the form `NAME=VALUE`; all problems are listed.
    pub(crate) fn given(&self) -> Result<Vec<(&str, &str)>, Problems> {
        let named = [
            ("rw", &self.rw),
            ("size", &self.size),
            ("runtime", &self.runtime),
            ("number_ios", &self.number_ios),
            ("rate_iops", &self.rate_iops),
            ("rwmixread", &self.rwmixread),
            ("thinktime", &self.thinktime),
            ("random_distribution", &self.random_distribution),
            ("read_iolog", &self.trace),
            ("trace_device", &self.trace_device),
            ("trace_format", &self.trace_format),
            ("replay_time_scale", &self.trace_speed),
        ];
        let named = named.into_iter().filter_map(|(name, value)| Some(Ok((name, value.as_deref()?))));
        let closed = self.trace_closed.then_some(Ok(("replay_no_stall", "1")));
        input::all(named.chain(closed).chain(self.options.iter().map(|text| option(text))))
    }
}

/// Splits an option of the form `NAME=VALUE`.
fn option(text: &str) -> Result<(&str, &str), Problems> {
    let pair = text.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
    pair.filter(|(name, value)| !name.is_empty() && !value.is_empty()).ok_or_else(|| {
        Problem::new("command line", None, format!("--option {text}"), "NAME=VALUE, as in thinktime=20us").into()
    })
}

/// Converts a multiple of the recorded rate to per cent, the unit of fio's `replay_time_scale`.
fn percent_of_rate(text: &str) -> Result<String, String> {
    let percent = text.parse::<f64>().ok().map(|speed| speed * 100.0);
    let whole = percent.filter(|percent| (1.0..=1e6).contains(percent) && (percent - percent.round()).abs() < 1e-6);
    whole.map(|percent| percent.round().to_string()).ok_or_else(|| String::from("0.01 to 10000, with two decimals"))
}

fn notes(written: &UnresolvedJobs) -> String {
    let note = |(wanted, trace): (&NamedTrace, &Trace)| {
        let left_out: Vec<String> = trace.left_out.iter().map(|(kind, number)| format!("{number} {kind}")).collect();
        let left_out = if left_out.is_empty() { String::new() } else { format!("; left out: {}", left_out.join(", ")) };
        let of_device = wanted.selection.device.as_ref().map_or(String::new(), |device| format!(" to device {device}"));
        let requests = describe::counted(trace.requests.count(), "request");
        format!("{}: {}, {requests}{of_device}{left_out}\n", wanted.path, trace.format)
    };
    written.traces().map(note).collect()
}
