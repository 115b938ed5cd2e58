//! Sizes of the jobs of a comparison: every combination of the requested block sizes, numbers of threads and queue
//! depths.

use phaselink_core::problem::{Problem, Problems, all};
use phaselink_core::workload::has_end;

/// Number of requests of each line of a comparison whose job has no end of its own.
const IOS_DEFAULT: u64 = 20_000;
const BLOCKS_DEFAULT: [&str; 1] = ["4k"];
/// Numbers of threads that are compared by default: one thread, and one on each core of the hosts of the default
/// drives.
const THREADS_DEFAULT: [&str; 2] = ["1", "8"];
/// Number of threads of jobs at a given load, and requests that each of them keeps in flight at most: enough for drives
/// that serve a million requests a second.
pub const AT_LOAD: (&str, &str) = ("4", "64");
/// Largest number of results (lines times drives) of a comparison; more are taken for a mistake, or work for a script.
const CELLS_MAX: usize = 10_000;

/// Requested sizes of jobs, in fio's notation; an empty list stands for the defaults.
#[derive(Clone, Debug, Default)]
pub struct RequestedSizes {
    /// Block sizes of requests (fio `bs`), such as `4k`.
    pub bs: Vec<String>,
    /// Numbers of requests that each thread keeps in flight (fio `iodepth`).
    pub iodepth: Vec<String>,
    /// Numbers of threads of a job (fio `numjobs`).
    pub numjobs: Vec<String>,
    /// Number of requests of each compared job, summed over its threads, if no option of the job ends it. A job is a
    /// table row of `phaselink compare`.
    pub ios: Option<u64>,
}

/// Sizes of one job, as names and values of fio options.
type Sizes<'a> = Vec<(&'static str, &'a str)>;

impl RequestedSizes {
    /// Returns the sizes of jobs at a given load, with defaults for threads and queue depth that do not limit it. Options
    /// in `given` take the place of the defaults.
    pub fn at_load(mut self, given: &[(&str, &str)]) -> RequestedSizes {
        let (threads, depth) = AT_LOAD;
        for (sizes, name, default) in [(&mut self.numjobs, "numjobs", threads), (&mut self.iodepth, "iodepth", depth)] {
            if sizes.is_empty() && given.iter().all(|(known, _)| *known != name) {
                sizes.push(String::from(default));
            }
        }
        self
    }

    /// Returns the sizes of each compared job, in the order of the printed table rows. Options in `given` take the
    /// place of default sizes.
    ///
    /// # Errors
    /// If there are more combinations of sizes and drives than anyone reads.
    fn combinations(&self, given: &[(&str, &str)], drives: usize) -> Result<Vec<Sizes<'_>>, Problems> {
        let has = |names: &[&str]| given.iter().any(|(name, _)| names.contains(name));
        let replays = has(&["read_iolog"]);
        let (sized, threaded) = (has(&["bs", "blocksize", "bssplit"]), has(&["numjobs"]) || !self.iodepth.is_empty());
        let axes = [
            ("bs", &self.bs, &BLOCKS_DEFAULT[..], replays || sized),
            ("numjobs", &self.numjobs, &THREADS_DEFAULT[..], replays || threaded),
            ("iodepth", &self.iodepth, &[], true),
        ];
        let mut combinations = vec![Vec::new()];
        for (name, typed, defaults, is_settled) in axes {
            let values: Vec<&str> = match typed.is_empty() && !is_settled {
                true => defaults.to_vec(),
                false => typed.iter().map(String::as_str).collect(),
            };
            if !values.is_empty() {
                combinations = extend_combinations(&combinations, name, &values);
            }
        }
        let cells = combinations.len() * drives;
        match cells > CELLS_MAX {
            true => Err(too_many(cells).into()),
            false => Ok(combinations),
        }
    }

    /// Returns what `line` makes of the sizes of each compared job, with the number of requests of each thread if no
    /// option in `given` ends the job.
    ///
    /// # Errors
    /// As [`RequestedSizes::combinations`], and all problems of the lines.
    pub fn lines<T>(
        &self,
        given: &[(&str, &str)],
        drives: usize,
        line: impl Fn(&[(&str, &str)]) -> Result<T, Problems>,
    ) -> Result<Vec<T>, Problems> {
        all(self.combinations(given, drives)?.iter().map(|sizes| {
            let ios = self.requests_per_thread(sizes, given);
            let ios = ios.as_ref().map(|ios| ("number_ios", ios.as_str()));
            line(&sizes.iter().copied().chain(ios).collect::<Vec<_>>())
        }))
    }

    /// Returns the number of requests of each thread of a compared job: the job's requests divided among its threads.
    /// None if an option in `given` ends the job.
    fn requests_per_thread(&self, sizes: &Sizes, given: &[(&str, &str)]) -> Option<String> {
        if has_end(given) {
            return None;
        }
        let threads = sizes.iter().find(|(name, _)| *name == "numjobs").and_then(|(_, value)| value.parse().ok());
        Some(self.ios.unwrap_or(IOS_DEFAULT).div_ceil(threads.unwrap_or(1).max(1)).to_string())
    }
}

fn too_many(cells: usize) -> Problem {
    let found = format!("{cells} combinations of drive, block size, threads and depth");
    Problem::new("command line", None, found, format!("at most {CELLS_MAX}"))
}

/// Returns each combination of sizes extended by each value of the option `name`.
fn extend_combinations<'a>(combinations: &[Sizes<'a>], name: &'static str, values: &[&'a str]) -> Vec<Sizes<'a>> {
    let with = |sizes: &Sizes<'a>, value| sizes.iter().copied().chain([(name, value)]).collect();
    combinations.iter().flat_map(|sizes| values.iter().map(move |value| with(sizes, *value))).collect()
}
