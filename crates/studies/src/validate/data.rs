//! Measurements with the plans that say how the model answers them: those that come with the project, or a user's own.

use super::{Calibration, MeasuredValue, SourcePlan, read};
use crate::report::Table;
use phaselink_core::problem::{Problem, Problems, all};

/// Name and content of a text file.
pub type NamedText = (String, String);

/// Name of the table of measurements that comes with the project.
const TABLE: &str = "measurements.csv";
/// Name of the file with the parameters and folds of the cross-validation.
const FOLDS: &str = "folds.toml";

/// Table of measurements that comes with the project, packed by gzip.
pub static PACKED_MEASUREMENTS: &[u8] = include_bytes!("../../validation/measurements.csv.gz");

macro_rules! plans {
    ($($name:literal)+) => {
        /// Plans of measurement sources that come with the project, each with its file name.
        const PLANS: &[(&str, &str)] = &[$((concat!($name, ".toml"), include_str!(concat!("../../validation/", $name, ".toml")))),+];
    };
}

plans! {
    "aisio" "axboe" "bam" "bdev" "cetofs" "cheops" "cpu" "drives" "icpe" "idle" "interrupts" "iommu" "kernel" "melody"
    "mitigations" "network" "opencapi" "pcie-bench" "reported-drives" "spdk-blog" "translation" "vldb" "xrp"
}

/// Measurements, with the plans that say how the model answers them.
#[derive(Clone, Debug)]
pub struct MeasurementSet {
    /// Measured values of all sources.
    pub measurements: Vec<MeasuredValue>,
    /// Plans of the sources, one for each.
    pub plans: Vec<SourcePlan>,
    /// Parameters and folds of the cross-validation, which a user's own set may lack.
    pub calibration: Option<Calibration>,
}

impl MeasurementSet {
    /// Parses the set that comes with the project. `table` is the unpacked text of [`PACKED_MEASUREMENTS`].
    ///
    /// # Errors
    /// A text that is not that of the packed table.
    pub fn shipped(table: &str) -> Result<MeasurementSet, Problems> {
        let plans = PLANS.iter().map(|(name, text)| SourcePlan::read(&format!("validation/{name}"), text));
        let folds = include_str!("../../validation/folds.toml");
        Ok(MeasurementSet {
            measurements: read(TABLE, table)?,
            plans: all(plans)?,
            calibration: Some(Calibration::read(&format!("validation/{FOLDS}"), folds)?),
        })
    }

    /// Parses a user's own set from the texts of a folder: a table of measurements, a plan for each source, and
    /// parameters and folds if there are any.
    ///
    /// # Errors
    /// Texts that are no table or no plans, and measurements of a source without a plan.
    pub fn parse(
        folder: &str,
        (table_name, table): &NamedText,
        plans: &[NamedText],
        folds: Option<&NamedText>,
    ) -> Result<MeasurementSet, Problems> {
        let measurements = read(table_name, table)?;
        let plans = all(plans.iter().map(|(name, text)| SourcePlan::read(name, text)))?;
        let calibration = folds.map(|(name, text)| Calibration::read(name, text)).transpose()?;
        if plans.is_empty() {
            let allowed = "a file NAME.toml for each source (docs/validation.md)";
            return Err(Problem::new(folder, None, "no plan", allowed).into());
        }
        let set = MeasurementSet { measurements, plans, calibration };
        let is_planned = |it: &&MeasuredValue| set.plans.iter().any(|plan| plan.source == it.source());
        if let Some(lost) = set.measurements.iter().find(|it| !is_planned(it)) {
            let found = format!("no plan has source = \"{}\", to which {} belongs", lost.source(), lost.id());
            return Err(Problem::new(table_name, None, found, set.sources().join(", ")).into());
        }
        Ok(set)
    }

    /// Returns the short names of all sources that have a plan.
    pub fn sources(&self) -> Vec<&str> {
        self.plans.iter().map(|plan| plan.source.as_str()).collect()
    }

    /// Returns a table of sources with titles and numbers of measurements.
    pub fn list(&self, plans: &[SourcePlan]) -> Table {
        let mut table = Table::new().left("source").right("rows").left("title");
        for plan in plans {
            let rows = self.measurements.iter().filter(|measurement| measurement.source() == plan.source).count();
            table.row([plan.source.clone(), rows.to_string(), plan.title.clone()]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_of_measurements_without_a_plan_is_reported() {
        let columns = super::super::COLUMNS.join(",");
        let table = (String::from("t.csv"), format!("{columns}\nLAB-1,,,,,,,latency,5,ns,result,\n"));
        let plan = (String::from("lab.toml"), String::from("source = \"LAP\"\ntitle = \"a bench\"\n"));
        let told = |plans: &[NamedText]| MeasurementSet::parse("lab", &table, plans, None).unwrap_err().to_string();
        assert!(told(&[plan]).contains("no plan has source = \"LAB\", to which LAB-1 belongs"));
        assert!(told(&[]).starts_with("lab: no plan"));
    }
}
