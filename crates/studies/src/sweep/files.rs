//! Files that the plan of a sweep names: drive files, a job file and traces.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{MAIN_SEPARATOR, Path};

use super::Plan;
use phaselink_core::drive_file::{DescriptionReader, refuse_files, shipped};
use phaselink_core::problem::Problems;
use phaselink_core::workload::trace::NamedJobTrace;
use phaselink_core::workload::{Trace, WrittenJobFile, fio};

/// Contents of all files that the plan of a sweep names.
#[derive(Clone, Debug)]
pub struct Files {
    /// Drive files by their name in the plan: path for messages, and text.
    pub drives: BTreeMap<String, (String, String)>,
    /// Job file of the plan. `None` if the plan does not name one.
    pub job: Option<WrittenJobFile>,
    /// Traces that the job replays, by their path, device and format.
    pub traces: BTreeMap<NamedJobTrace, Trace>,
    /// Function that reads further files on which drive files are based, by path.
    pub others: DescriptionReader,
}

impl Default for Files {
    fn default() -> Files {
        let (drives, traces) = Default::default();
        Files { drives, job: None, traces, others: refuse_files }
    }
}

impl Files {
    /// Reads all files that a plan names. `text` reads drive and job files, `trace` reads traces; relative paths start
    /// at `folder`. Drives in `at_hand` are already read.
    ///
    /// # Errors
    /// All problems of the files, and drives that are neither files nor shipped.
    pub fn read(
        plan: &Plan,
        folder: &Path,
        at_hand: BTreeMap<String, (String, String)>,
        text: DescriptionReader,
        trace: impl Fn(&NamedJobTrace) -> Result<Trace, Problems>,
    ) -> Result<Files, Problems> {
        let path = |name: &str| folder.join(name).display().to_string();
        let mut files = Files { drives: at_hand, others: text, ..Files::default() };
        let mut problems = Problems::default();
        for wanted in plan.unshipped_drives() {
            if files.drives.contains_key(wanted.name) {
                continue;
            }
            let is_path = wanted.name.ends_with(".toml") || wanted.name.contains(['/', MAIN_SEPARATOR]);
            let text = match is_path {
                true => text(&path(wanted.name)),
                false => Err(shipped::unknown(wanted.name)),
            };
            match text {
                Ok(text) => drop(files.drives.insert(wanted.name.into(), (path(wanted.name), text))),
                Err(problem) if is_path => problems.0.push(problem),
                Err(problem) => problems.0.push(wanted.problem(&problem.found, &problem.allowed)),
            }
        }
        let mut traces: BTreeSet<(String, NamedJobTrace)> =
            plan.wanted_traces().into_iter().map(|wanted| (path(&wanted.path), wanted)).collect();
        if let Some(wanted) = plan.job_file_of_plan() {
            let path = path(wanted.name);
            match text(&path).map_err(Problems::from).and_then(|text| fio::parse(&path, &text)) {
                Ok(job) => {
                    // As in fio, paths of traces in a job file are relative to the working directory.
                    traces.extend(job.wanted_traces().map(|wanted| (wanted.path.clone(), wanted)));
                    files.job = Some(job);
                }
                Err(found) => problems.0.extend(found.0),
            }
        }
        for (path, wanted) in traces {
            match trace(&NamedJobTrace { path, selection: wanted.selection.clone() }) {
                Ok(trace) => drop(files.traces.insert(wanted, trace)),
                Err(found) => problems.0.extend(found.0),
            }
        }
        problems.or(files)
    }
}
