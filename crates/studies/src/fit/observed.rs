//! Measurements by fio: jobs and figures, read from its JSON output.

use serde_json::{Map, Value as Json};

use phaselink_core::number::{real, whole};
use phaselink_core::problem::{Problem, Problems, all};
use phaselink_core::workload::{JobPlace, WrittenJobFile, fio};

/// Options of fio that say when a job ends. A fit ignores them and sets an end of its own, because figures do not
/// depend on the length of a run.
const ENDS: [&str; 8] = ["runtime", "timeout", "time_based", "number_ios", "io_size", "io_limit", "ramp_time", "loops"];
/// Options of fio that make a job wait for those above it, so that one file holds several runs.
const BARRIERS: [&str; 2] = ["stonewall", "wait_for_previous"];
/// Relative half width of the classes in which percentiles are stored. fio has 64 classes per doubling (`stat.h`:
/// `FIO_IO_U_PLAT_BITS`), this simulator 1024.
const CLASS_SHARES: [f64; 2] = [1.0 / 64.0, 1.0 / 1024.0];
/// Length of a simulated run's ramp (warm-up) as a fraction of its requests.
const RAMP_SHARE: f64 = 0.1;
/// Least length of a simulated run's ramp, in rounds in which all requests in flight complete once.
const RAMP_ROUNDS: f64 = 4.0;
/// Longest ramp (warm-up) of a simulated run in microseconds.
const RAMP_US_MAX: f64 = 60e6;
/// Value of `io_size` that is larger than any drive, so that only the number of requests ends a job.
const ENDLESS: &str = "1024p";

/// Measured run of fio: jobs that ran at the same time, with their figures.
#[derive(Clone, Debug)]
pub struct ObservedRun {
    /// Jobs of the run, all of which ran at the same time.
    pub(super) jobs: Vec<MeasuredJob>,
    /// Measured figures (latencies and throughputs) of all jobs of the run.
    pub figures: Vec<MeasuredFigure>,
    /// Number of requests that fio measured in the run.
    pub ios: u64,
}

/// Job of a measured run, with its fio options.
#[derive(Clone, Debug)]
pub(super) struct MeasuredJob {
    /// Name of the fio job.
    pub name: String,
    /// Position of the job in fio's result file, for messages.
    pub place: JobPlace,
    /// Options of the job as fio's names and values, without those that end it.
    pub options: Vec<(String, String)>,
    /// Number of requests that fio measured for the job.
    pub ios: u64,
}

/// Kind of a measured figure: mean latency, p99 latency or throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureKind {
    /// Mean of fio's `lat_ns`, or of `clat_ns` if fio did not record `lat_ns`.
    Mean,
    /// 99th percentile of fio's `clat_ns`.
    P99,
    /// Throughput in requests per second.
    Iops,
}

/// Direction of the requests that a measured figure covers: reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestDirection {
    /// Reads, which fio reports in its object `read`.
    Read,
    /// Writes, which fio reports in its object `write`.
    Write,
}

/// Figure of a job that fio measured, such as the mean latency of its reads.
#[derive(Clone, Debug)]
pub struct MeasuredFigure {
    /// Index in the run of the job that the figure belongs to.
    pub job: usize,
    /// Name of the job with its pattern, block size and queue depth, for reports.
    pub name: String,
    /// Requests that the figure covers: reads or writes.
    pub direction: RequestDirection,
    /// Kind of the figure: mean latency, p99 latency or throughput.
    pub kind: FigureKind,
    /// Measured value in nanoseconds, or in requests per second for throughput.
    pub value: f64,
    /// Relative standard deviation due to the resolution with which fio stores the value.
    pub resolution: f64,
}

impl MeasuredFigure {
    /// Returns the heading of the figure, such as `read p99` or `write IOPS`.
    pub fn heading(&self) -> String {
        let direction = match self.direction {
            RequestDirection::Read => "read",
            RequestDirection::Write => "write",
        };
        let kind = match self.kind {
            FigureKind::Mean => "mean",
            FigureKind::P99 => "p99",
            FigureKind::Iops => "IOPS",
        };
        format!("{direction} {kind}")
    }

    /// Returns the share of the figure in the sum of squares. Mean latency and throughput of a job with constant queue
    /// depth carry equal information (Little's law), so that each counts half.
    pub(super) fn share(&self) -> f64 {
        if self.kind == FigureKind::P99 { 1.0 } else { 0.5 }
    }
}

/// Reads the measured runs of one fio result file. Options named in `without` are ignored.
///
/// # Errors
/// All problems of the file, and everything in it that cannot be modelled.
pub fn read(file: &str, text: &str, without: &[String]) -> Result<Vec<ObservedRun>, Problems> {
    // fio may print warnings before its JSON document, so skip them.
    let start = text.find('{').unwrap_or(0);
    let document: Json = serde_json::from_str(&text[start..]).map_err(|error| {
        let line = text[..start].lines().count() + error.line();
        Problem::new(file, line, format!("not JSON: {error}"), "the output of fio --output-format=json")
    })?;
    let Some(jobs) = document["jobs"].as_array().filter(|jobs| !jobs.is_empty()) else {
        let found = "no `jobs`, or none in it";
        return Err(Problem::new(file, None, found, "the output of fio --output-format=json").into());
    };
    let is_ours = document["fio version"].as_str().is_some_and(|version| version.starts_with("phaselink-"));
    let reader = FioReader { file, global: options(&document["global options"]), without, is_ours };
    let jobs = all(jobs.iter().map(|job| reader.job(job)))?;
    reader.check_distinct_names(&jobs)?;
    Ok(group_into_runs(jobs))
}

/// Job as read from fio's output: the job, its figures, and true if it waits for the jobs above it.
type ReadJob = (MeasuredJob, Vec<MeasuredFigure>, bool);

/// Reader of the jobs in fio's JSON output.
struct FioReader<'a> {
    file: &'a str,
    global: Vec<(String, String)>,
    without: &'a [String],
    is_ours: bool,
}

impl FioReader<'_> {
    fn job(&self, job: &Json) -> Result<ReadJob, Problems> {
        let name = job["jobname"].as_str().unwrap_or("job").to_string();
        let place = JobPlace::new(format!("{}, job {name}", self.file), None);
        let problem = |found: String, allowed: &str| Problem::new(place.file.clone(), None, found, allowed);
        if let Some(error) = job["error"].as_i64().filter(|error| *error != 0) {
            return Err(problem(format!("the job ended with error {error}"), "jobs that ended without an error").into());
        }
        if job["trim"]["total_ios"].as_u64().unwrap_or(0) > 0 {
            return Err(problem(String::from("the job trims"), "reads and writes").into());
        }
        let all_options = || self.global.iter().cloned().chain(options(&job["job options"]));
        let waits = all_options().any(|(name, value)| BARRIERS.contains(&name.as_str()) && value != "0");
        let is_kept = |name: &str| {
            let left_out = [&ENDS[..], &BARRIERS].concat();
            !left_out.contains(&name) && name != "name" && !self.without.iter().any(|without| without == name)
        };
        let options: Vec<_> = all_options().filter(|(name, _)| is_kept(name)).collect();
        let ios = ["read", "write"].iter().filter_map(|key| job[key]["total_ios"].as_u64()).sum();
        let measured = MeasuredJob { name, place, options, ios };
        let figures: Vec<MeasuredFigure> = [("read", RequestDirection::Read), ("write", RequestDirection::Write)]
            .into_iter()
            .flat_map(|(key, direction)| self.figures(&measured.job_label(), &job[key], direction))
            .collect();
        if figures.is_empty() {
            let found = "no request was counted";
            return Err(measured.place.problem("rw", found, "jobs that read or write").into());
        }
        let file = measured.file(1, 0)?;
        if file.wanted_traces().next().is_some() {
            let found = "a replay, by `read_iolog`";
            return Err(measured.place.problem("read_iolog", found, "jobs that make their own requests").into());
        }
        Ok((measured, figures, waits))
    }

    fn figures(&self, name: &str, direction: &Json, which: RequestDirection) -> Vec<MeasuredFigure> {
        if direction["total_ios"].as_u64().unwrap_or(0) == 0 {
            return Vec::new();
        }
        let latency = |key: &str| Some(&direction[key]).filter(|it| it["N"].as_u64().unwrap_or(0) > 0);
        let mean = latency("lat_ns").or(latency("clat_ns")).and_then(|it| it["mean"].as_f64());
        let p99 = latency("clat_ns").and_then(|it| it["percentile"]["99.000000"].as_f64());
        // Values are assumed to be uniform within a histogram class, so their deviation is the width / sqrt(12).
        let class = CLASS_SHARES[usize::from(self.is_ours)] / libm::sqrt(12.0);
        let figures = [
            (FigureKind::Mean, mean, 0.0),
            (FigureKind::P99, p99, class),
            (FigureKind::Iops, direction["iops"].as_f64(), 0.0),
        ];
        let known = figures.into_iter().filter_map(|(kind, value, resolution)| {
            let value = value.filter(|value| value.is_finite() && *value > 0.0)?;
            Some(MeasuredFigure { job: 0, name: String::from(name), direction: which, kind, value, resolution })
        });
        known.collect()
    }

    /// Fails if fio reports several jobs of one name (threads without `group_reporting`): their percentiles cannot be
    /// merged.
    fn check_distinct_names(&self, jobs: &[ReadJob]) -> Result<(), Problem> {
        let is_second = |place: usize| jobs[..place].iter().any(|(other, _, _)| other.name == jobs[place].0.name);
        match (0..jobs.len()).find(|place| is_second(*place)) {
            None => Ok(()),
            Some(place) => {
                let found = format!("a second job `{}`", jobs[place].0.name);
                let allowed = "a name of its own for each job, and group_reporting=1 where numjobs is above 1";
                Err(Problem::new(self.file, None, found, allowed))
            }
        }
    }
}

impl MeasuredJob {
    /// Returns a job file of this job that ends after `ios` requests of each thread, counted after a ramp of `ramp_us`
    /// microseconds.
    fn file(&self, ios: u64, ramp_us: u64) -> Result<WrittenJobFile, Problems> {
        let (ios, ramp) = (ios.to_string(), format!("{ramp_us}us"));
        let own = self.options.iter().map(|(name, value)| (name.as_str(), value.as_str(), None));
        let end = [("name", self.name.as_str()), ("number_ios", &ios), ("ramp_time", &ramp), ("io_size", ENDLESS)];
        let end = end.map(|(name, value)| (name, value, None));
        fio::job_from_lines(self.place.clone(), &own.chain(end).collect::<Vec<_>>())
    }

    /// Returns the number of threads of the job (fio's `numjobs`).
    fn job_thread_count(&self) -> u64 {
        self.number("numjobs")
    }

    /// Returns the value of a numeric option of the job, or 1 if it is missing.
    fn number(&self, name: &str) -> u64 {
        let given = self.options.iter().rfind(|(given, _)| given == name);
        given.and_then(|(_, value)| value.parse().ok()).filter(|number| *number > 0).unwrap_or(1)
    }

    /// Returns the name of the job with its pattern, block size, queue depth and number of threads.
    fn job_label(&self) -> String {
        let shown =
            |name: &&str| self.options.iter().rfind(|(given, _)| given == name).map(|(_, value)| value.as_str());
        let sizes: Vec<&str> = ["rw", "bs"].iter().filter_map(shown).collect();
        let counts = [("iodepth", "depth"), ("numjobs", "threads")];
        let counts = counts.map(|(option, noun)| (self.number(option), noun));
        let counts = counts.iter().filter(|(count, noun)| *count > 1 || *noun == "depth");
        let counts: Vec<String> = counts.map(|(count, noun)| format!("{noun} {count}")).collect();
        format!("{}: {}", self.name, [sizes.join(" "), counts.join(" ")].join(" "))
    }
}

impl ObservedRun {
    /// Returns the run's jobs for a simulation, and their number of requests: at most about `ios_max`. All jobs end at
    /// about the same time. Requests of the ramp do not count: measured runs are so long that their start does not
    /// matter.
    pub(super) fn jobs(&self, ios_max: u64) -> Result<(Vec<WrittenJobFile>, u64), Problems> {
        let part = (real(ios_max) / real(self.ios)).min(1.0);
        let of_thread = |job: &MeasuredJob| (whole(real(job.ios) * part) / job.job_thread_count()).max(1);
        let ios: u64 = self.jobs.iter().map(|job| of_thread(job) * job.job_thread_count()).sum();
        let iops: f64 =
            self.figures.iter().filter(|figure| figure.kind == FigureKind::Iops).map(|figure| figure.value).sum();
        let outstanding: u64 = self.jobs.iter().map(|job| job.job_thread_count() * job.number("iodepth")).sum();
        let ramp_ios = (real(ios) * RAMP_SHARE).max(RAMP_ROUNDS * real(outstanding));
        let ramp_us = if iops > 0.0 { libm::ceil(ramp_ios / iops * 1e6).min(RAMP_US_MAX) } else { 0.0 };
        Ok((all(self.jobs.iter().map(|job| job.file(of_thread(job), whole(ramp_us))))?, ios))
    }
}

/// Returns the options of a fio JSON object with their values as text; an option without a value has an empty one.
fn options(object: &Json) -> Vec<(String, String)> {
    let text = |value: &Json| value.as_str().map_or_else(|| value.to_string(), String::from);
    let options = object.as_object().map(Map::iter).into_iter().flatten();
    options.map(|(name, value)| (name.clone(), if value.is_null() { String::new() } else { text(value) })).collect()
}

/// Groups jobs into runs: jobs run at the same time, but a job with `stonewall` or the like begins a new run.
fn group_into_runs(jobs: Vec<ReadJob>) -> Vec<ObservedRun> {
    let mut runs: Vec<ObservedRun> = Vec::new();
    for (job, mut figures, waits) in jobs {
        if waits || runs.is_empty() {
            runs.push(ObservedRun { jobs: Vec::new(), figures: Vec::new(), ios: 0 });
        }
        let Some(run) = runs.last_mut() else { break };
        figures.iter_mut().for_each(|figure| figure.job = run.jobs.len());
        run.ios += job.ios;
        run.jobs.push(job);
        run.figures.extend(figures);
    }
    runs
}
