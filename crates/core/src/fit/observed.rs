//! Measurements of fio: jobs and figures, read from its JSON output.

use serde_json::{Map, Value as Json};

use crate::problem::{Problem, Problems, all};
use crate::workload::{JobFile, JobPlace, fio};

/// Options that say when a job ends. A simulated job has an end of its own, because figures do not depend on the length
/// of a run.
const ENDS: [&str; 8] = ["runtime", "timeout", "time_based", "number_ios", "io_size", "io_limit", "ramp_time", "loops"];
/// Options that make a job wait for those above it, by which fio puts several runs into one file.
const BARRIERS: [&str; 2] = ["stonewall", "wait_for_previous"];
/// Relative half width of a class of fio's percentiles, of which there are 64 a doubling (fio, `stat.h`:
/// `FIO_IO_U_PLAT_BITS`), and of this simulator's, of which there are 1024.
const CLASS_SHARES: [f64; 2] = [1.0 / 64.0, 1.0 / 1024.0];
/// Ramp of a simulated run as a share of its requests.
const RAMP_SHARE: f64 = 0.1;
/// Least length of the ramp, in rounds in which all outstanding requests complete.
const RAMP_ROUNDS: f64 = 4.0;
/// Longest ramp in microseconds.
const RAMP_US_MAX: f64 = 60e6;
/// Size larger than any drive, so that the number of requests ends a job.
const ENDLESS: &str = "1024p";

/// Jobs that ran at the same time, with their measured figures.
#[derive(Clone, Debug)]
pub struct ObservedRun {
    /// The jobs.
    pub(super) jobs: Vec<MeasuredJob>,
    /// Measured figures.
    pub figures: Vec<MeasuredFigure>,
    /// Number of requests that were measured.
    pub ios: u64,
}

/// A measured job of a run.
#[derive(Clone, Debug)]
pub(super) struct MeasuredJob {
    /// Name of the job.
    pub name: String,
    /// Place of the job in the result file.
    pub place: JobPlace,
    /// fio options of the job.
    pub options: Vec<(String, String)>,
    /// Number of requests that were measured.
    pub ios: u64,
}

/// Kind of figure of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureKind {
    /// Mean of `lat_ns`, or of `clat_ns` if fio was told not to record `lat_ns`.
    Mean,
    /// 99th percentile of `clat_ns`.
    P99,
    /// Requests per second.
    Iops,
}

/// Requests of a job that a figure covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestDirection {
    /// Reads: fio's object `read`.
    Read,
    /// Writes: fio's object `write`.
    Write,
}

/// A measured figure of a job.
#[derive(Clone, Debug)]
pub struct MeasuredFigure {
    /// Index of its job in the run.
    pub job: usize,
    /// Name of the job with its sizes.
    pub name: String,
    /// Requests that it covers.
    pub direction: RequestDirection,
    /// Kind of figure.
    pub kind: FigureKind,
    /// Value in nanoseconds, or in requests per second.
    pub value: f64,
    /// Relative deviation due to the resolution with which fio stores the value.
    pub resolution: f64,
}

impl MeasuredFigure {
    /// Heading: `mean`, `p99` or `IOPS`, and the requests it covers.
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

    /// Weight in the sum of squares. Mean latency and throughput of a job with constant queue depth carry the same
    /// information (Little's law), so that each counts half.
    pub(super) fn share(&self) -> f64 {
        if self.kind == FigureKind::P99 { 1.0 } else { 0.5 }
    }
}

/// Reads the runs of one result file. Options named in `without` are ignored.
///
/// # Errors
/// All problems of the file, and everything in it that cannot be modelled.
pub fn read(file: &str, text: &str, without: &[String]) -> Result<Vec<ObservedRun>, Problems> {
    // fio's own warnings come before its document.
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
    reader.distinct(&jobs)?;
    Ok(in_runs(jobs))
}

/// A job with its figures, and true if it waits for the jobs above it.
type ReadJob = (MeasuredJob, Vec<MeasuredFigure>, bool);

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
            .flat_map(|(key, direction)| self.figures(&measured.label(), &job[key], direction))
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
        // Values lie evenly within a class.
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

    /// Refuses threads with a common name that fio reports separately: their percentiles cannot be joined.
    fn distinct(&self, jobs: &[ReadJob]) -> Result<(), Problem> {
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
    /// Job file of this job that ends after `ios` requests of each thread, counted after a ramp.
    fn file(&self, ios: u64, ramp_us: u64) -> Result<JobFile, Problems> {
        let (ios, ramp) = (ios.to_string(), format!("{ramp_us}us"));
        let own = self.options.iter().map(|(name, value)| (name.as_str(), value.as_str(), None));
        let end = [("name", self.name.as_str()), ("number_ios", &ios), ("ramp_time", &ramp), ("io_size", ENDLESS)];
        let end = end.map(|(name, value)| (name, value, None));
        fio::from_lines(self.place.clone(), &own.chain(end).collect::<Vec<_>>())
    }

    /// Number of threads of the job.
    fn threads(&self) -> u64 {
        self.number("numjobs")
    }

    /// Value of an option that is a number; 1 if it is not given.
    fn number(&self, name: &str) -> u64 {
        let given = self.options.iter().rfind(|(given, _)| given == name);
        given.and_then(|(_, value)| value.parse().ok()).filter(|number| *number > 0).unwrap_or(1)
    }

    /// Name of the job with those options by which jobs differ most.
    fn label(&self) -> String {
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
    /// Job files of the run for a simulation of at most about `ios_max` requests, which all end at about the same time,
    /// and their number of requests. Requests of a ramp are not counted: measured runs are so long that their start
    /// does not matter.
    pub(super) fn jobs(&self, ios_max: u64) -> Result<(Vec<JobFile>, u64), Problems> {
        let part = (ios_max as f64 / self.ios as f64).min(1.0);
        let of_thread = |job: &MeasuredJob| ((job.ios as f64 * part) as u64 / job.threads()).max(1);
        let ios: u64 = self.jobs.iter().map(|job| of_thread(job) * job.threads()).sum();
        let iops: f64 =
            self.figures.iter().filter(|figure| figure.kind == FigureKind::Iops).map(|figure| figure.value).sum();
        let outstanding: u64 = self.jobs.iter().map(|job| job.threads() * job.number("iodepth")).sum();
        let ramp_ios = (ios as f64 * RAMP_SHARE).max(RAMP_ROUNDS * outstanding as f64);
        let ramp_us = if iops > 0.0 { libm::ceil(ramp_ios / iops * 1e6).min(RAMP_US_MAX) } else { 0.0 };
        Ok((all(self.jobs.iter().map(|job| job.file(of_thread(job), ramp_us as u64)))?, ios))
    }
}

/// Options with their values as texts; an option without a value has an empty one.
fn options(object: &Json) -> Vec<(String, String)> {
    let text = |value: &Json| value.as_str().map_or_else(|| value.to_string(), String::from);
    let options = object.as_object().map(Map::iter).into_iter().flatten();
    options.map(|(name, value)| (name.clone(), if value.is_null() { String::new() } else { text(value) })).collect()
}

/// Groups jobs into runs: jobs run at the same time unless one waits for those above it.
fn in_runs(jobs: Vec<ReadJob>) -> Vec<ObservedRun> {
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
