//! Description of prices, rates and hosts for the break-even time: a file of the user's, or a shipped one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use phaselink_core::problem::{Problem, Problems};

/// Name and text of each shipped description.
const SHIPPED: [(&str, &str); 6] = [
    ("slc-cpu", include_str!("slc-cpu.breakeven.toml")),
    ("slc-gpu", include_str!("slc-gpu.breakeven.toml")),
    ("pslc-cpu", include_str!("pslc-cpu.breakeven.toml")),
    ("tlc-cpu", include_str!("tlc-cpu.breakeven.toml")),
    ("slc-small-cpu", include_str!("slc-small-cpu.breakeven.toml")),
    ("slc-large-cpu", include_str!("slc-large-cpu.breakeven.toml")),
];

/// Prices, rates and a host: all inputs of a break-even time.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// Summary of drive and host in one line.
    #[serde(default)]
    pub summary: String,
    /// Share of the drive's rate that is used, above 0 and at most 1.
    #[serde(default = "all")]
    pub utilisation: f64,
    /// Share of all reads that are no slower than the tail latency, above 0 and below 1.
    #[serde(default = "ninety_nine")]
    pub percentile: f64,
    /// Flash cells and channels of the drive, from which its rate and cost follow.
    pub cells: Option<FlashCellGroup>,
    /// Drive whose rate and price are known, instead of its cells.
    pub rated: Option<PricedDrive>,
    /// Prices of host and drive components.
    pub costs: ComponentPrices,
    /// Host, and the drives that share it.
    #[serde(default)]
    pub host: Host,
}

/// Flash cells of a drive, with the channels, mapping table and link in front of them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashCellGroup {
    /// Time in which a die reads a page from its cells, in ns.
    pub sense_ns: f64,
    /// Time in which a die programs a page, in ns.
    pub program_ns: f64,
    /// Size of a flash page in bytes.
    pub page_bytes: u32,
    /// Number of planes of a die, which work at the same time.
    pub planes: u32,
    /// Capacity of a flash die in bytes.
    pub die_bytes: f64,
    /// Number of flash channels of the drive.
    pub channels: u32,
    /// Number of flash dies at each channel.
    pub dies_per_channel: u32,
    /// Time that a command takes on the channel, in ns.
    pub command_ns: f64,
    /// Bandwidth of a channel in bytes per ns.
    pub channel_bytes_per_ns: f64,
    /// Number of reads of the host for each of its writes.
    pub reads_per_write: f64,
    /// Write amplification: bytes that are programmed for each byte that the host writes.
    pub write_amplification: f64,
    /// Size of an entry of the mapping table in bytes.
    #[serde(default = "entry_bytes")]
    pub mapping_entry_bytes: u32,
    /// Number of bytes of the drive that an entry of the mapping table maps.
    #[serde(default = "unit_bytes")]
    pub mapping_unit_bytes: u32,
    /// Bandwidth of the memory that holds the mapping table, in bytes per ns.
    #[serde(default = "mapping_rate")]
    pub mapping_bytes_per_ns: f64,
    /// Bandwidth of the link to the host in bytes per ns; without it, the link does not limit.
    pub link_bytes_per_ns: Option<f64>,
}

/// Drive whose rate and price are known, in place of a description of its cells.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PricedDrive {
    /// Price of the drive, in the unit of all prices.
    pub cost: f64,
    /// Operations a second by block size: pairs of block size in bytes and rate, by rising size.
    pub iops: Vec<(u32, f64)>,
}

/// Prices of the components of host and drive, all in one unit.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComponentPrices {
    /// Currency or other unit of the prices, such as `USD`.
    #[serde(default)]
    pub unit: String,
    /// Price of the drive's controller, in the unit of all prices.
    #[serde(default)]
    pub controller: f64,
    /// Price of a flash die, in the unit of all prices.
    #[serde(default)]
    pub flash_die: f64,
    /// Price of a die of the drive's own memory, in the unit of all prices.
    #[serde(default)]
    pub drive_memory_die: f64,
    /// Capacity of a die of the drive's own memory in bytes.
    #[serde(default = "gigabyte")]
    pub drive_memory_die_bytes: f64,
    /// Price of a die of the host's memory, or of any other amount whose capacity and bandwidth the next two keys give.
    pub memory_die: f64,
    /// Capacity of a die of the host's memory in bytes.
    pub memory_die_bytes: f64,
    /// Bandwidth of a die of the host's memory in bytes per ns.
    pub memory_bytes_per_ns: f64,
    /// Price of a processor core, in the unit of all prices.
    pub core: f64,
    /// Number of operations a second that a processor core submits and completes.
    pub core_iops: f64,
}

/// Host of the drives.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Number of drives that share the host's operations.
    #[serde(default = "one")]
    pub drives: u32,
    /// Largest number of operations a second of the host; without it, the host does not limit.
    pub iops: Option<f64>,
}

impl Default for Host {
    fn default() -> Host {
        Host { drives: 1, iops: None }
    }
}

fn all() -> f64 {
    1.0
}

fn ninety_nine() -> f64 {
    0.99
}

fn entry_bytes() -> u32 {
    8
}

fn unit_bytes() -> u32 {
    512
}

fn mapping_rate() -> f64 {
    40.0
}

fn gigabyte() -> f64 {
    1e9
}

fn one() -> u32 {
    1
}

/// Function that returns a description with one input multiplied by a factor.
type InputScaling = fn(&Description, f64) -> Description;

/// Pairs the name of each input with a function that multiplies the field at that path by a factor.
macro_rules! inputs {
    ($($name:literal => $($field:ident).+ ;)*) => {
        [$(($name, (|description: &Description, factor: f64| {
            let mut grown = description.clone();
            grown.$($field).+ *= factor;
            grown
        }) as InputScaling)),*]
    };
}

impl Description {
    /// Returns the names of the shipped descriptions.
    pub fn shipped_names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// Returns the shipped description of this name, if there is one.
    pub fn shipped(name: &str) -> Option<Description> {
        let (_, text) = SHIPPED.iter().find(|(shipped, _)| *shipped == name)?;
        Some(Description::parse(name, text).unwrap_or_else(|problems| panic!("{problems}")))
    }

    /// Returns the shipped description of this name with overrides, each in the form `cells.channels=24`.
    ///
    /// # Errors
    /// An unknown name, keys that no description has, and values that contradict each other.
    pub fn shipped_with_overrides(name: &str, overrides: &[&str]) -> Result<Description, Problems> {
        let Some((_, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) else {
            let known: Vec<&str> = Description::shipped_names().collect();
            return Err(Problem::new(name, None, format!("there is no description `{name}`"), known.join(", ")).into());
        };
        let refused = |found: String| Problem::new(name, None, found, "a key of the description and its value");
        let mut table: toml::Table = toml::from_str(text).map_err(|error| refused(error.to_string()))?;
        for text in overrides {
            let changed = toml::from_str(text)
                .map_err(|error: toml::de::Error| refused(format!("`{text}`: {}", error.message())))?;
            merge_tables(&mut table, changed);
        }
        let description: Description =
            table.try_into().map_err(|error: toml::de::Error| refused(String::from(error.message())))?;
        description.check(name)?;
        Ok(description)
    }

    /// Reads a description from TOML; `file` is its name for messages.
    ///
    /// # Errors
    /// Text that is no such description, with its line, and prices and rates that contradict each other.
    pub fn parse(file: &str, text: &str) -> Result<Description, Problems> {
        let description: Description = toml::from_str(text).map_err(|error: toml::de::Error| {
            let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
            Problem::new(
                file,
                line,
                error.message(),
                "a description of prices, rates and a host (phaselink docs break-even)",
            )
        })?;
        description.check(file)?;
        Ok(description)
    }

    /// Checks that the values of the description do not contradict each other; `file` is its name for messages.
    ///
    /// # Errors
    /// All values that no drive, host or price can have.
    pub fn check(&self, file: &str) -> Result<(), Problems> {
        let mut refusals = DescriptionValueProblems { file, problems: Problems::default() };
        match (&self.cells, &self.rated) {
            (None, None) => {
                refusals.add("neither [cells] nor [rated]", "one of them: cells and channels, or a rate and a price");
            }
            (Some(_), Some(_)) => refusals.add("both [cells] and [rated]", "one of them: a rate follows from cells"),
            (None, Some(rated)) => rated.check(&mut refusals),
            (Some(cells), None) => {
                cells.check(&mut refusals);
                refusals.above_zero("costs.controller + costs.flash_die", self.costs.controller + self.costs.flash_die);
            }
        }
        self.costs.check(&mut refusals);
        if !is_above_zero(self.utilisation) || self.utilisation > 1.0 {
            refusals.add(format!("utilisation = {}", self.utilisation), "a share above 0 and at most 1");
        }
        if !is_above_zero(self.percentile) || self.percentile >= 1.0 {
            refusals.add(format!("percentile = {}", self.percentile), "a share above 0 and below 1");
        }
        if self.host.drives == 0 {
            refusals.add("host.drives = 0", "1 or more");
        }
        if let Some(iops) = self.host.iops {
            refusals.above_zero("host.iops", iops);
        }
        refusals.problems.or(())
    }

    /// Returns the inputs on which a break-even time depends: name, and the function that multiplies the input by a
    /// factor.
    pub(super) fn inputs(&self) -> Vec<(&'static str, InputScaling)> {
        let prices = inputs! {
            "costs.memory_die" => costs.memory_die;
            "costs.memory_die_bytes" => costs.memory_die_bytes;
            "costs.memory_bytes_per_ns" => costs.memory_bytes_per_ns;
            "costs.core" => costs.core;
            "costs.core_iops" => costs.core_iops;
            "costs.controller" => costs.controller;
            "costs.flash_die" => costs.flash_die;
            "costs.drive_memory_die" => costs.drive_memory_die;
        };
        let rates: [(&'static str, InputScaling); 7] = [
            ("cells.sense_ns", |it, by| it.with_changed_cells(|cells| cells.sense_ns *= by)),
            ("cells.program_ns", |it, by| it.with_changed_cells(|cells| cells.program_ns *= by)),
            ("cells.command_ns", |it, by| it.with_changed_cells(|cells| cells.command_ns *= by)),
            ("cells.channel_bytes_per_ns", |it, by| it.with_changed_cells(|cells| cells.channel_bytes_per_ns *= by)),
            ("cells.reads_per_write", |it, by| it.with_changed_cells(|cells| cells.reads_per_write *= by)),
            ("cells.write_amplification", |it, by| it.with_changed_cells(|cells| cells.write_amplification *= by)),
            ("rated.cost", |it, by| {
                let mut grown = it.clone();
                grown.rated = grown.rated.map(|rated| PricedDrive { cost: rated.cost * by, ..rated });
                grown
            }),
        ];
        prices.into_iter().chain(rates).collect()
    }

    fn with_changed_cells(&self, change: impl FnOnce(&mut FlashCellGroup)) -> Description {
        let mut changed = self.clone();
        if let Some(cells) = &mut changed.cells {
            change(cells);
        }
        changed
    }
}

/// Prices and rates from which break-even times are computed; prices in one unit.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BreakEvenInputs {
    /// Sentence that says whose prices and rates these are.
    pub summary: String,
    /// Share of the drive's largest rate that is used.
    pub utilisation: f64,
    /// Share of the reads that are no slower than `tail_ns`.
    pub percentile: f64,
    /// Currency or other unit of all prices.
    pub unit: String,
    /// Price of the drive.
    pub drive_cost: f64,
    /// Price of a processor core.
    pub core: f64,
    /// Number of operations a second that a processor core submits and completes.
    pub core_iops: f64,
    /// Price of a die of the host's memory.
    pub memory_die: f64,
    /// Capacity of a die of the host's memory in bytes.
    pub memory_die_bytes: f64,
    /// Bandwidth of a die of the host's memory in bytes per ns.
    pub memory_bytes_per_ns: f64,
    /// Number of drives that share the operations of the host.
    pub drives: u32,
    /// Largest number of operations a second of the host; null if the host does not limit.
    pub host_iops: Option<f64>,
}

impl From<&Description> for BreakEvenInputs {
    fn from(description: &Description) -> BreakEvenInputs {
        let (costs, host) = (&description.costs, &description.host);
        BreakEvenInputs {
            summary: description.summary.clone(),
            utilisation: description.utilisation,
            percentile: description.percentile,
            unit: costs.unit.clone(),
            drive_cost: super::form::drive_cost(description),
            core: costs.core,
            core_iops: costs.core_iops,
            memory_die: costs.memory_die,
            memory_die_bytes: costs.memory_die_bytes,
            memory_bytes_per_ns: costs.memory_bytes_per_ns,
            drives: host.drives,
            host_iops: host.iops,
        }
    }
}

/// Replaces values of `table` by those of `changes`, section by section; other values stay.
fn merge_tables(table: &mut toml::Table, changes: toml::Table) {
    for (key, value) in changes {
        match (table.get_mut(&key), value) {
            (Some(toml::Value::Table(inner)), toml::Value::Table(changes)) => merge_tables(inner, changes),
            (_, value) => _ = table.insert(key, value),
        }
    }
}

/// Values of a description that are refused, with the name of its file.
struct DescriptionValueProblems<'a> {
    file: &'a str,
    problems: Problems,
}

impl DescriptionValueProblems<'_> {
    fn add(&mut self, found: impl Into<String>, allowed: &str) {
        self.problems.0.push(Problem::new(self.file, None, found, allowed));
    }

    fn above_zero(&mut self, name: &str, value: f64) {
        if !is_above_zero(value) {
            self.add(format!("{name} = {value}"), "a number above 0");
        }
    }

    fn at_least(&mut self, name: &str, value: f64, least: f64) {
        if value.is_nan() || value < least || value.is_infinite() {
            self.add(format!("{name} = {value}"), &format!("{least} or more"));
        }
    }
}

impl FlashCellGroup {
    fn check(&self, refusals: &mut DescriptionValueProblems<'_>) {
        let above_zero = [
            ("cells.sense_ns", self.sense_ns),
            ("cells.program_ns", self.program_ns),
            ("cells.page_bytes", self.page_bytes.into()),
            ("cells.planes", self.planes.into()),
            ("cells.die_bytes", self.die_bytes),
            ("cells.channels", self.channels.into()),
            ("cells.dies_per_channel", self.dies_per_channel.into()),
            ("cells.channel_bytes_per_ns", self.channel_bytes_per_ns),
            ("cells.mapping_entry_bytes", self.mapping_entry_bytes.into()),
            ("cells.mapping_unit_bytes", self.mapping_unit_bytes.into()),
            ("cells.mapping_bytes_per_ns", self.mapping_bytes_per_ns),
            ("cells.link_bytes_per_ns", self.link_bytes_per_ns.unwrap_or(1.0)),
        ];
        above_zero.into_iter().for_each(|(name, value)| refusals.above_zero(name, value));
        refusals.at_least("cells.command_ns", self.command_ns, 0.0);
        refusals.at_least("cells.write_amplification", self.write_amplification, 1.0);
        refusals.at_least("cells.reads_per_write", self.reads_per_write, 0.0);
    }
}

impl PricedDrive {
    fn check(&self, refusals: &mut DescriptionValueProblems<'_>) {
        let rises = self.iops.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let is_rate = |(bytes, iops): &(u32, f64)| *bytes > 0 && is_above_zero(*iops);
        if self.iops.is_empty() || !rises || !self.iops.iter().all(is_rate) {
            let allowed = "pairs of bytes and operations a second, by rising size, as in [[512, 2e6], [4096, 1.5e6]]";
            refusals.add("rated.iops", allowed);
        }
        refusals.above_zero("rated.cost", self.cost);
    }
}

impl ComponentPrices {
    fn check(&self, refusals: &mut DescriptionValueProblems<'_>) {
        let above_zero = [
            ("costs.memory_die", self.memory_die),
            ("costs.memory_die_bytes", self.memory_die_bytes),
            ("costs.memory_bytes_per_ns", self.memory_bytes_per_ns),
            ("costs.core_iops", self.core_iops),
            ("costs.drive_memory_die_bytes", self.drive_memory_die_bytes),
        ];
        above_zero.into_iter().for_each(|(name, value)| refusals.above_zero(name, value));
        let prices = [
            ("costs.core", self.core),
            ("costs.controller", self.controller),
            ("costs.flash_die", self.flash_die),
            ("costs.drive_memory_die", self.drive_memory_die),
        ];
        prices.into_iter().for_each(|(name, value)| refusals.at_least(name, value, 0.0));
    }
}

fn is_above_zero(value: f64) -> bool {
    value > 0.0 && value.is_finite()
}
