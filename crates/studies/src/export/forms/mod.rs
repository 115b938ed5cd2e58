//! Forms of a table that other programs read: CSV, a C header, and a Python module with a drive for SimPy.

mod c;
mod csv;
mod python;

use super::ExportAnswer;
use super::checks::{check_load_plans, mixes};
use super::table::Level;
use crate::report::Answer;

impl ExportAnswer {
    /// Names of the files of all forms.
    pub const FILES: [&str; 4] = ["latency.json", "latency.csv", "phaselink_latency.h", "phaselink_latency.py"];

    /// Returns names and contents of the files of all forms: JSON, CSV, C header, Python module.
    pub fn files(&self) -> [(&'static str, String); 4] {
        let [json, csv, header, python] = Self::FILES;
        let document = format!("{:#}\n", self.document());
        [(json, document), (csv, csv::text(self)), (header, c::text(self)), (python, python::text(self))]
    }

    /// Returns the text of a template with drive, errors and numbers in place of their marks.
    fn filled(&self, template: &str, data: &str) -> String {
        let percents = |level| {
            let errors = self.median_check_errors(level);
            errors.map_or(String::from("not checked"), |[p50, p99]| format!("p50 {p50:.1} %, p99 {p99:.1} %"))
        };
        template
            .replace("@DRIVE@", &self.drive)
            .replace("@BY_LOAD@", &percents(Level::Load))
            .replace("@BY_IN_FLIGHT@", &percents(Level::InFlight))
            .replace("@DATA@\n", data)
    }

    /// Returns the values of each axis of the tables.
    fn axes(&self) -> TableAxisValues {
        let sizes = self.conditions.iter().map(|condition| f64::from(condition.bytes));
        let in_flight = self.conditions.iter().map(|condition| f64::from(condition.in_flight));
        TableAxisValues {
            read_percents: mixes(self).collect(),
            bytes: rising_values(sizes),
            in_flight: rising_values(in_flight),
            load_percents: rising_values(self.loads.iter().map(|load| load.load_percent)),
        }
    }

    /// Returns the largest throughput in requests a second of each mix and size, in their order.
    fn iops_max(&self) -> Vec<f64> {
        check_load_plans(self, &[100.0]).into_iter().map(|plan| plan.offered_iops).collect()
    }

    /// Returns the quantiles of all rows of a table for `read` or `write`, in the order of sizes and levels; none if the mix
    /// lacks such requests.
    fn quantiles(&self, level: Level, read_percent: f64, direction: &str) -> impl Iterator<Item = &[f64]> {
        self.rows(level, read_percent, direction).into_iter().map(|(_, _, quantiles)| quantiles.ns.as_slice())
    }
}

/// Values of each axis of the tables, in rising order; shares of reads in the order of the question.
struct TableAxisValues {
    read_percents: Vec<f64>,
    bytes: Vec<f64>,
    in_flight: Vec<f64>,
    load_percents: Vec<f64>,
}

fn rising_values(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

/// Returns numbers as a list with commas.
fn listed(values: &[f64]) -> String {
    values.iter().map(f64::to_string).collect::<Vec<_>>().join(", ")
}
