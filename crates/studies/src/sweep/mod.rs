//! Sweeps: many runs from one plan.
//!
//! A plan names a drive, a job and the axes along which they vary. The caller reads the files that the plan names and
//! checks all points. It runs the points without known figures, in any order and on any number of threads, and prints
//! the rows in the order of the plan:
//!
//! ```text
//! Plan::parse ── files ── Sweep::new ── Resolver::check (every point) ── Resolver::simulation ── Figures::of ── page
//! ```
//!
//! Memory use does not grow with the number of points, except for what the caller keeps. A point is a number until it
//! is resolved, and only the [`Figures`] of a run are kept, by the [`Hash`] of all its inputs.

mod axis;
mod files;
pub mod findings;
mod hash;
pub mod page;
mod plan;
mod refusals;
mod resolve;
pub mod schema;
pub mod search;
pub mod state;
pub mod text;

pub use crate::results::{Figure, Figures};
pub use files::Files;
pub use hash::Hash;
pub use refusals::PointProblems;
pub use resolve::{PointResolver, Sweep};

use crate::results;
use axis::{POINTS_MAX, SweepAxis, SweptPlanPart};
use phaselink_core::config::document::Place;
use phaselink_core::drive_file::shipped;
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::workload::trace;
use plan::{PlanJobText, Text, Word};

/// Sweep plan that is valid in itself. Resolving its points shows whether each of them can run.
#[derive(Clone, Debug)]
pub struct Plan {
    text: Text,
    points: usize,
    /// Requests per thread for jobs that nothing else ends. `None` for the general default.
    ios_default: Option<u64>,
}

/// File that a sweep plan names, with its position in the plan.
#[derive(Clone, Copy, Debug)]
pub struct NamedFile<'a> {
    /// Name or path of the file as in the plan; relative paths start at the plan's folder.
    pub name: &'a str,
    place: &'a Place,
}

impl NamedFile<'_> {
    /// Returns a problem with this file, located where the plan names the file.
    pub fn problem(&self, found: &str, allowed: &str) -> Problem {
        self.place.problem(found, allowed)
    }
}

impl Plan {
    /// Parses the TOML text of a sweep plan. `file` is its name in messages.
    ///
    /// # Errors
    /// All problems of the plan: syntax, unknown keys, values that an option of the job does not have, invalid ranges,
    /// and too many points.
    pub fn parse(file: &str, text: &str) -> Result<Plan, Problems> {
        let text = plan::read(file, text)?;
        let lengths = text.axes.iter().map(SweepAxis::len).chain([text.seeds.len()]);
        let points = lengths.fold(1usize, usize::saturating_mul);
        if points > POINTS_MAX {
            let found = format!("a sweep of {points} points");
            return Err(Place::whole(file).problem(found, "at most 1,000,000").into());
        }
        Ok(Plan { text, points, ios_default: None })
    }

    /// Adds a column with the precision of mean and p99 latency. Jobs that nothing else ends now end after `ios`
    /// requests per thread.
    pub fn add_precision_column(&mut self, ios: u64) {
        self.ios_default = Some(ios);
        self.text.columns.retain(|column| column.name != results::PRECISION);
        self.text.columns.extend(results::find(results::PRECISION));
    }

    /// Returns the number of points of the sweep, at least one. Each seed makes points of its own.
    pub fn points(&self) -> usize {
        self.points
    }

    /// Returns the drives of the plan that are not shipped ones, and so have to be read from files.
    pub fn unshipped_drives(&self) -> Vec<NamedFile<'_>> {
        let fixed = self.text.drive.iter().map(|Word { text, place }| NamedFile { name: text, place });
        let swept = self.swept_keys().filter(|swept| swept.target() == SweptPlanPart::Drive);
        let swept = swept.flat_map(|swept| &swept.values).filter_map(|node| match &node.value {
            phaselink_core::config::document::Value::String(name) => Some(NamedFile { name, place: &node.place }),
            _ => None,
        });
        fixed.chain(swept).filter(|wanted| shipped::find(wanted.name).is_none()).collect()
    }

    /// Returns the fio job file that the plan names. `None` if it gives options instead.
    pub fn job_file_of_plan(&self) -> Option<NamedFile<'_>> {
        match &self.text.job {
            PlanJobText::File(Word { text, place }) => Some(NamedFile { name: text, place }),
            PlanJobText::Options(..) => None,
        }
    }

    /// Returns the traces that the plan itself names (`read_iolog`), without those that its job file names.
    pub fn wanted_traces(&self) -> Vec<trace::NamedJobTrace> {
        let or_none = |texts: Vec<String>| match texts.is_empty() {
            true => vec![None],
            false => texts.into_iter().map(Some).collect(),
        };
        let (devices, formats) =
            (or_none(self.option_values_as_text("trace_device")), or_none(self.option_values_as_text("trace_format")));
        let mut wanted = Vec::new();
        for path in self.option_values_as_text("read_iolog") {
            for (device, format) in devices.iter().flat_map(|device| formats.iter().map(move |format| (device, format)))
            {
                let format = format.as_deref().and_then(trace::Format::named);
                let selection = trace::TraceSelection { device: device.clone(), format };
                wanted.push(trace::NamedJobTrace { path: path.clone(), selection });
            }
        }
        wanted
    }

    /// Returns all values that the plan gives to an option of the job, fixed or swept, as text.
    fn option_values_as_text(&self, option: &'static str) -> Vec<String> {
        let given = match &self.text.job {
            PlanJobText::Options(_, given) => given.as_slice(),
            PlanJobText::File(_) => &[],
        };
        let fixed = given.iter().filter(|given| given.name == option).map(|given| given.text.clone());
        let swept = self.swept_keys().filter(|swept| swept.target() == SweptPlanPart::Job(option));
        fixed.chain(swept.flat_map(|swept| (0..swept.values.len()).map(|place| swept.text(place)))).collect()
    }

    /// True if each point of the sweep runs with more than one seed.
    pub fn has_several_seeds(&self) -> bool {
        self.text.seeds.len() > 1
    }

    /// Returns the figures, such as p99 latency, that are the columns of the sweep's results.
    pub fn columns(&self) -> &[&'static Figure] {
        &self.text.columns
    }

    /// Returns remarks on the plan for readers of the results, about columns that have a new name.
    pub fn notes(&self) -> &[String] {
        &self.text.notes
    }

    /// Replaces the columns of the results that the plan names.
    ///
    /// # Errors
    /// Every name that is not a figure.
    pub fn set_columns(&mut self, names: &[String]) -> Result<(), Problems> {
        let place = Place::whole("command line");
        self.text.notes = names.iter().filter_map(|name| results::renamed_column_note(name, &place)).collect();
        self.text.columns = results::columns(names.iter().map(|name| (name.as_str(), place.clone())))?;
        Ok(())
    }

    /// Returns the keys and values of a sweep's point as text, with its seed if there are several: `link.lanes = 4,
    /// seed 1`.
    ///
    /// # Panics
    /// If the sweep has no point of this number.
    pub fn describe(&self, point: usize) -> String {
        let (mut words, seed) = (Vec::new(), self.seed(point));
        self.visit(point, |swept, place| words.push(format!("{} = {}", swept.key, swept.text(place))));
        if self.text.seeds.len() > 1 || words.is_empty() {
            words.push(format!("seed {seed}"));
        }
        words.join(", ")
    }

    /// Returns all keys that the sweep varies, in the order of the axes.
    fn swept_keys(&self) -> impl Iterator<Item = &axis::SweptKey> {
        self.text.axes.iter().flat_map(|axis| &axis.swept)
    }

    /// Returns the seed of a sweep's point. The seed varies fastest from point to point.
    fn seed(&self, point: usize) -> u64 {
        self.text.seeds[point % self.text.seeds.len()]
    }

    /// Calls `visit` with each key of all axes and the index of its value at this point.
    fn visit<'a>(&'a self, point: usize, mut visit: impl FnMut(&'a axis::SweptKey, usize)) {
        assert!(point < self.points, "point {point} of {}", self.points);
        let mut stride = self.points;
        let mut rest = point;
        for axis in &self.text.axes {
            stride /= axis.len();
            let place = rest / stride;
            rest %= stride;
            axis.swept.iter().for_each(|swept| visit(swept, place));
        }
    }
}

#[cfg(test)]
mod tests;
