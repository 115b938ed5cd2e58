//! Sweeps: one plan, many runs.
//!
//! A plan names a drive, a job and the axes along which they vary. The caller reads the files that the
//! plan names, checks all points, runs those of which it has no figures yet, in any order and on as many
//! threads as it likes, and prints the rows in the order of the plan:
//!
//! ```text
//! Plan::parse ── files ── Sweep::new ── Resolver::check (every point) ── Resolver::simulation ── Figures::of ── page
//! ```
//!
//! Nothing here grows with the number of points but what the caller keeps: points are numbers until one is
//! resolved, and of a run only its [`Figures`] are kept, by the [`Hash`] of all that it depends on.

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
pub use refusals::Refusals;
pub use resolve::{Resolver, Sweep};

use crate::config::document::Place;
use crate::drive_file::shipped;
use crate::problem::{Problem, Problems};
use crate::results;
use crate::workload::trace;
use axis::{Axis, AxisTarget, POINTS_MAX};
use plan::{JobText, Text, Word};

/// A plan, read and right in itself; whether its points are is known once they are resolved.
#[derive(Clone, Debug)]
pub struct Plan {
    text: Text,
    points: usize,
    /// Requests of each thread, where nothing else ends the job; none for the usual number.
    ios_default: Option<u64>,
}

/// A file that a plan names.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// As it stands in the plan; paths count from the plan's folder.
    pub name: &'a str,
    place: &'a Place,
}

impl Wanted<'_> {
    /// Returns a problem of the file, located at its place in the plan.
    pub fn problem(&self, found: &str, allowed: &str) -> Problem {
        self.place.problem(found, allowed)
    }
}

impl Plan {
    /// Read the text of a plan.
    ///
    /// # Errors
    /// Everything that is wrong with it: syntax, unknown keys of the plan and of axes, values that no option of
    /// a job has, ranges that are none, more points than anyone waits for.
    pub fn parse(file: &str, text: &str) -> Result<Plan, Problems> {
        let text = plan::read(file, text)?;
        let lengths = text.axes.iter().map(Axis::len).chain([text.seeds.len()]);
        let points = lengths.fold(1usize, usize::saturating_mul);
        if points > POINTS_MAX {
            let found = format!("a sweep of {points} points");
            return Err(Place::whole(file).problem(found, "at most 1,000,000").into());
        }
        Ok(Plan { text, points, ios_default: None })
    }

    /// Show in a column how well mean and p99 are known, and where nothing else ends the job, end it after so many requests of
    /// each thread.
    pub fn until_known(&mut self, ios: u64) {
        self.ios_default = Some(ios);
        self.text.columns.retain(|column| column.name != results::PRECISION);
        self.text.columns.extend(results::find(results::PRECISION));
    }

    /// Points of the sweep, seeds counted; at least one.
    pub fn points(&self) -> usize {
        self.points
    }

    /// The drives that are no shipped ones.
    pub fn wanted_drives(&self) -> Vec<Wanted<'_>> {
        let fixed = self.text.drive.iter().map(|Word { text, place }| Wanted { name: text, place });
        let swept = self.swept().filter(|swept| swept.target() == AxisTarget::Drive);
        let swept = swept.flat_map(|swept| &swept.values).filter_map(|node| match &node.value {
            crate::config::document::Value::String(name) => Some(Wanted { name, place: &node.place }),
            _ => None,
        });
        fixed.chain(swept).filter(|wanted| shipped::find(wanted.name).is_none()).collect()
    }

    /// The fio job file, if the plan names one.
    pub fn wanted_job(&self) -> Option<Wanted<'_>> {
        match &self.text.job {
            JobText::File(Word { text, place }) => Some(Wanted { name: text, place }),
            JobText::Options(..) => None,
        }
    }

    /// The traces that the plan itself names (`read_iolog`); those of a job file are the job file's to tell.
    pub fn wanted_traces(&self) -> Vec<trace::NamedTrace> {
        let or_none = |texts: Vec<String>| match texts.is_empty() {
            true => vec![None],
            false => texts.into_iter().map(Some).collect(),
        };
        let (devices, formats) = (or_none(self.job_texts("trace_device")), or_none(self.job_texts("trace_format")));
        let mut wanted = Vec::new();
        for path in self.job_texts("read_iolog") {
            for (device, format) in devices.iter().flat_map(|device| formats.iter().map(move |format| (device, format)))
            {
                let format = format.as_deref().and_then(trace::Format::named);
                let selection = trace::Selection { device: device.clone(), format };
                wanted.push(trace::NamedTrace { path: path.clone(), selection });
            }
        }
        wanted
    }

    /// All values that the plan gives an option of the job.
    fn job_texts(&self, option: &'static str) -> Vec<String> {
        let given = match &self.text.job {
            JobText::Options(_, given) => given.as_slice(),
            JobText::File(_) => &[],
        };
        let fixed = given.iter().filter(|given| given.name == option).map(|given| given.text.clone());
        let swept = self.swept().filter(|swept| swept.target() == AxisTarget::Job(option));
        fixed.chain(swept.flat_map(|swept| (0..swept.values.len()).map(|place| swept.text(place)))).collect()
    }

    /// True if each point runs with more than one seed.
    pub fn has_several_seeds(&self) -> bool {
        self.text.seeds.len() > 1
    }

    /// The figures that are shown.
    pub fn columns(&self) -> &[&'static Figure] {
        &self.text.columns
    }

    /// Returns notes for readers of the results: columns that have a new name.
    pub fn notes(&self) -> &[String] {
        &self.text.notes
    }

    /// Keep other columns than those that the plan names.
    ///
    /// # Errors
    /// Every name that no column has.
    pub fn set_columns(&mut self, names: &[String]) -> Result<(), Problems> {
        let place = Place::whole("command line");
        self.text.notes = names.iter().filter_map(|name| results::rename_note(name, &place)).collect();
        self.text.columns = results::columns(names.iter().map(|name| (name.as_str(), place.clone())))?;
        Ok(())
    }

    /// The values of all axes at a point, and its seed, in words: `link.lanes = 4, seed 1`.
    ///
    /// # Panics
    /// If there is no such point.
    pub fn describe(&self, point: usize) -> String {
        let (mut words, seed) = (Vec::new(), self.seed(point));
        self.visit(point, |swept, place| words.push(format!("{} = {}", swept.key, swept.text(place))));
        if self.text.seeds.len() > 1 || words.is_empty() {
            words.push(format!("seed {seed}"));
        }
        words.join(", ")
    }

    /// All keys that vary, in the order of their axes.
    fn swept(&self) -> impl Iterator<Item = &axis::Swept> {
        self.text.axes.iter().flat_map(|axis| &axis.swept)
    }

    /// The seed of a point; it varies fastest.
    fn seed(&self, point: usize) -> u64 {
        self.text.seeds[point % self.text.seeds.len()]
    }

    /// Call `visit` with every key and the place of its value at a point.
    fn visit<'a>(&'a self, point: usize, mut visit: impl FnMut(&'a axis::Swept, usize)) {
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
