//! Workload of a simulation or benchmark: fio job files, a block trace, or one job from options named as in fio.

use clap::Args;
use clap::builder::PossibleValuesParser;
use phaselink_core::drive::Drive;
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::workload::trace::{Format, NamedJobTrace};
use phaselink_core::workload::{
    Job, Limits, Trace, UnresolvedJobs, add_default_options, fio, has_end, ineffective_io_engine, option_words,
};

use crate::{describe, input, notes as told, traces};
use phaselink_studies::compare::AT_LOAD;

const HEADING: &str = "Workload, in the terms of fio";

/// Options that describe the one job without a job file, by their names in clap.
pub(crate) const ONE_JOB: [&str; 13] = [
    "rw",
    "bs",
    "iodepth",
    "numjobs",
    "size",
    "runtime",
    "number_ios",
    "rate_iops",
    "rwmixread",
    "thinktime",
    "random_distribution",
    "options",
    "trace",
];

/// Options of one fio job: a single block size, queue depth and number of threads, and the options of `JobFlags`.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = HEADING)]
pub(crate) struct WorkloadFlags {
    /// Block size of requests in bytes, as in 4k, or 4k,8k for reads and writes (fio's bs) [default: 4k]
    #[arg(long, value_name = "BYTES")]
    bs: Option<String>,
    /// Number of requests that each thread of the job keeps in flight (fio's iodepth) [default: 1; 32 for a replay]
    #[arg(long, value_name = "N")]
    iodepth: Option<String>,
    /// Number of threads that run the job at once (fio's numjobs) [default: 1]
    #[arg(long, value_name = "N")]
    numjobs: Option<String>,
    /// Number of requests of the job over all its threads, which get equal shares; --number-ios limits each thread
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with_all = ["number_ios", "size", "runtime", "fio", "trace"])]
    ios: Option<u64>,
    #[command(flatten)]
    job: JobFlags,
}

/// Options of a fio job other than block size, queue depth and number of threads.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = HEADING)]
pub(crate) struct JobFlags {
    /// Access pattern of the job (fio's rw): read, write, rw, randread, randwrite or randrw [default: randread]
    #[arg(long)]
    rw: Option<String>,
    /// Length of the region that the job accesses, and bytes after which each thread ends, as in 4m or 10% (fio's size)
    /// [default: the drive's capacity, and no limit]
    #[arg(long, value_name = "BYTES|%")]
    size: Option<String>,
    /// Time after which the job submits no more requests, in seconds or with a unit, as in 10ms (fio's runtime);
    /// simulated time, or real time in `phaselink bench`
    #[arg(long, value_name = "TIME")]
    runtime: Option<String>,
    /// Number of requests after which each thread of the job ends (fio's number_ios) [default: 100000 if nothing else
    /// ends the job]
    #[arg(long, value_name = "N")]
    number_ios: Option<String>,
    /// Planned arrivals of requests a second in each thread, as in 5k, or 5k,1k for reads and writes (fio's rate_iops);
    /// latency counts from the planned arrival
    #[arg(long, value_name = "N")]
    rate_iops: Option<String>,
    /// Share of reads in a job with --rw rw or randrw, in per cent (fio's rwmixread) [default: 50]
    #[arg(long, value_name = "PERCENT")]
    rwmixread: Option<String>,
    /// Pause of each thread between completion and next request, in microseconds or with a unit (fio's thinktime);
    /// limits --iodepth to 1 unless thinktime_blocks is set
    #[arg(long, value_name = "TIME")]
    thinktime: Option<String>,
    /// Distribution of a random job's requests over blocks (fio's random_distribution): random (uniform), zipf:THETA,
    /// pareto:H or normal:PERCENT [default: random]
    #[arg(long, value_name = "KIND")]
    random_distribution: Option<String>,
    /// Count requests from the first one on, with an empty write buffer and all burst credits of a volume. Without
    /// --burst, writes of a drive with a buffer count from its steady state on
    #[arg(long)]
    burst: bool,
    /// Set another fio option of the job, as in -O bssplit=4k/90:16k/10 (docs/fio.md lists them); may be given more
    /// than once
    #[arg(short = 'O', long = "option", value_name = "NAME=VALUE")]
    options: Vec<String>,
    /// Run the jobs of a fio job file, in place of one job from the other workload options; may be given more than once
    #[arg(long, value_name = "FILE", conflicts_with_all = ONE_JOB)]
    fio: Vec<String>,
    /// Replay a block trace at its recorded times (fio's read_iolog): blktrace, blkparse, fio iolog, CSV of several
    /// archives; also .gz, .zst
    #[arg(long, value_name = "FILE")]
    trace: Option<String>,
    /// Device whose requests in the block trace are replayed; required if the trace has several devices
    #[arg(long, value_name = "ID", requires = "trace")]
    trace_device: Option<String>,
    /// Format of the block trace that is replayed [default: as its content tells]
    #[arg(long, value_name = "FORMAT", requires = "trace", value_parser = PossibleValuesParser::new(Format::ALL.map(Format::word)))]
    trace_format: Option<String>,
    /// Replay the block trace at a multiple of its recorded rate, as in 2 or 0.5 (1 % of fio's replay_time_scale)
    #[arg(long, value_name = "N", requires = "trace", conflicts_with = "trace_closed", value_parser = replay_rate_percent)]
    trace_speed: Option<String>,
    /// Replay the block trace without its recorded times: each completion lets the next request start (fio's
    /// replay_no_stall)
    #[arg(long, requires = "trace")]
    trace_closed: bool,
}

/// Resolved jobs for a drive, with lines of text that describe the jobs.
pub(crate) struct Workload {
    pub jobs: Vec<Job>,
    pub summary: String,
    written: UnresolvedJobs,
}

/// Jobs as written in options or files, before a drive is known, with lines of text that describe the jobs.
pub(crate) struct DescribedJobs {
    pub written: UnresolvedJobs,
    /// Lines of text that describe the workload.
    pub summary: String,
}

impl WorkloadFlags {
    /// Adds fio job files to the files of `--fio`.
    pub(crate) fn with_files(mut self, files: Vec<String>) -> WorkloadFlags {
        self.job.fio.extend(files);
        self
    }

    /// Returns the jobs that the workload options or fio job files describe, for a drive with these limits.
    ///
    /// # Errors
    ///
    /// If options, job files or traces are invalid, or the drive cannot run a job; all problems are listed.
    pub(crate) fn resolve(&self, limits: &Limits) -> Result<Workload, Problems> {
        let sizes = [("bs", &self.bs), ("iodepth", &self.iodepth), ("numjobs", &self.numjobs)];
        let mut sizes: Vec<_> = sizes.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect();
        let of_thread = self.ios.map(|ios| ios.div_ceil(self.threads()).to_string());
        sizes.extend(of_thread.as_deref().map(|ios| ("number_ios", ios)));
        let DescribedJobs { written, summary } = self.job.written(&sizes)?;
        Ok(Workload { jobs: written.on(limits)?, summary, written })
    }

    /// Returns the workload options for runs at a given load: threads and queue depth that do not limit it, and `ios`
    /// requests over all threads, unless other options say so.
    pub(crate) fn at_load(&self, ios: u64) -> WorkloadFlags {
        let mut flags = self.clone();
        let has = |name: &str| self.job.options.iter().any(|text| text.split('=').next() == Some(name));
        if !flags.job.has_files() {
            flags.numjobs = flags.numjobs.or_else(|| (!has("numjobs")).then(|| AT_LOAD.0.into()));
            flags.iodepth = flags.iodepth.or_else(|| (!has("iodepth")).then(|| AT_LOAD.1.into()));
            let is_ended = self.job.given().map_or(true, |given| has_end(&given));
            flags.ios = flags.ios.or((!is_ended).then_some(ios));
        }
        flags
    }

    /// Returns the number of threads that the options give the job.
    fn threads(&self) -> u64 {
        let of_options = self.job.options.iter().rev().find_map(|text| text.strip_prefix("numjobs="));
        let threads = of_options.or(self.numjobs.as_deref()).and_then(|threads| threads.parse().ok());
        threads.unwrap_or(1).max(1)
    }

    /// True if requests are to be counted from the first one on.
    pub(crate) fn is_counted_from_start(&self) -> bool {
        self.job.burst
    }

    /// Returns the workload options with a limit of `ios` requests for each thread, unless another option ends the job.
    pub(crate) fn ending_after(&self, ios: u64) -> WorkloadFlags {
        let mut flags = self.clone();
        if flags.ios.is_none() {
            flags.job.limit_requests_per_thread(ios);
        }
        flags
    }
}

impl Workload {
    /// Returns the jobs as written, before they were resolved for a drive.
    pub(crate) fn into_written(self) -> UnresolvedJobs {
        self.written
    }

    /// Returns the workload's jobs for a drive with other limits, or none if that drive cannot run the jobs.
    pub(crate) fn on(&self, limits: &Limits) -> Option<Vec<Job>> {
        self.written.on(limits).ok()
    }
}

/// Prints a note that names the drives on which the jobs' I/O engine has no effect, and the option that gives these
/// drives engines.
pub(crate) fn tell_engine_without_effect<'a>(jobs: impl Iterator<Item = (&'a Drive, &'a [Job])>) {
    let (mut names, mut engine) = (Vec::new(), "");
    for (drive, jobs) in jobs {
        if let Some(named) = ineffective_io_engine(jobs, &drive.limits()) {
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
    /// Returns the jobs of the fio job files, or one job of the workload options. `sizes` are further options of this
    /// one job.
    ///
    /// # Errors
    ///
    /// If options, job files or traces are invalid; all problems are listed.
    pub(crate) fn written(&self, sizes: &[(&str, &str)]) -> Result<DescribedJobs, Problems> {
        match self.fio.is_empty() {
            true => self.job_of_workload_options(sizes),
            false => self.jobs_of_fio_files(),
        }
    }

    /// Limits the job of the workload options to `ios` requests of each thread, unless another option ends the job.
    /// Jobs in files stay unchanged.
    pub(crate) fn limit_requests_per_thread(&mut self, ios: u64) {
        let is_ended = self.given().map_or(true, |given| has_end(&given));
        if !self.has_files() && !is_ended {
            self.number_ios = Some(ios.to_string());
        }
    }

    /// True if the jobs come from job files.
    pub(crate) fn has_files(&self) -> bool {
        !self.fio.is_empty()
    }

    fn jobs_of_fio_files(&self) -> Result<DescribedJobs, Problems> {
        let files = input::all(self.fio.iter().map(|path| input::job_file(path)))?;
        let written = UnresolvedJobs::new(files, traces::read)?.with_bursts(self.burst);
        let names: Vec<String> = written.names().map(String::from).collect();
        let notes = notes(&written);
        let summary = format!("Jobs: {} of {}\n{notes}", describe::listed(&names), describe::listed(&self.fio));
        Ok(DescribedJobs { written, summary })
    }

    fn job_of_workload_options(&self, sizes: &[(&str, &str)]) -> Result<DescribedJobs, Problems> {
        let mut given = self.given()?;
        // Insert the sizes after `rw`, in the order of the help text.
        let place = usize::from(self.rw.is_some());
        given.splice(place..place, sizes.iter().copied());
        let options = add_default_options(&given);
        let written = UnresolvedJobs::new([fio::job_from_flags(&options)?], traces::read)?.with_bursts(self.burst);
        let spelt = option_words(options.iter().copied());
        let hint = match given.is_empty() {
            true => " (the default; see phaselink run --help)",
            false => "",
        };
        let summary = format!("Job: {spelt}{hint}\n{}", notes(&written));
        Ok(DescribedJobs { written, summary })
    }

    /// Returns the names and values of all given workload options, in the order of `--help`. Options of `--option` come
    /// last, so that they take precedence.
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
        input::all(named.chain(closed).chain(self.options.iter().map(|text| split_option_text(text))))
    }
}

/// Splits the text `NAME=VALUE` of `--option` into name and value.
fn split_option_text(text: &str) -> Result<(&str, &str), Problems> {
    let pair = text.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
    pair.filter(|(name, value)| !name.is_empty() && !value.is_empty()).ok_or_else(|| {
        Problem::new("command line", None, format!("--option {text}"), "NAME=VALUE, as in thinktime=20us").into()
    })
}

/// Converts a multiple of the recorded rate to per cent, the unit of fio's `replay_time_scale`.
fn replay_rate_percent(text: &str) -> Result<String, String> {
    let percent = text.parse::<f64>().ok().map(|speed| speed * 100.0);
    let whole = percent.filter(|percent| (1.0..=1e6).contains(percent) && (percent - percent.round()).abs() < 1e-6);
    whole.map(|percent| percent.round().to_string()).ok_or_else(|| String::from("0.01 to 10000, with two decimals"))
}

fn notes(written: &UnresolvedJobs) -> String {
    let note = |(wanted, trace): (&NamedJobTrace, &Trace)| {
        let left_out: Vec<String> = trace.left_out.iter().map(|(kind, number)| format!("{number} {kind}")).collect();
        let left_out = if left_out.is_empty() { String::new() } else { format!("; left out: {}", left_out.join(", ")) };
        let of_device = wanted.selection.device.as_ref().map_or(String::new(), |device| format!(" to device {device}"));
        let requests = describe::counted(trace.requests.count(), "request");
        format!("{}: {}, {requests}{of_device}{left_out}\n", wanted.path, trace.format)
    };
    written.traces().map(note).collect()
}
