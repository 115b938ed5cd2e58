//! `phaselink breakeven`: computes the time between accesses beyond which a block costs less on the drive than in
//! memory.

mod page;

use clap::Args;
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::workload;
use phaselink_studies::breakeven::{BreakEven, Description, HISTORY, PARTS, break_even, sensitivity};
use phaselink_studies::report::Table;
use phaselink_studies::results::units::{count, quantity};
use serde_json::{Value, json};

use crate::ending::{Ending, Failure};
use crate::output::ReportFlags;
use crate::{describe, input, output};

const EXAMPLES: &str = include_str!("../../help/breakeven.txt");

/// Relative growth of each price or rate in the sensitivity table of `phaselink breakeven`.
const GROWTH: f64 = 0.1;

/// Compute the time between accesses from which on a block costs less on a drive than in memory (five-minute rule)
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// File with prices and rates of drive, memory and host (TOML), or name of a shipped description
    #[arg(value_name = "DESCRIPTION", default_value = "slc-cpu")]
    description: String,
    /// Block sizes in bytes for which the break-even time is computed, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "512,1k,2k,4k", value_parser = block)]
    bs: Vec<u32>,
    /// Share of the drive's largest IOPS that is used, above 0 and at most 1; replaces `utilisation` of the description
    #[arg(long, value_name = "SHARE")]
    utilisation: Option<f64>,
    /// Largest number of I/O operations a second of the host, over all drives; replaces host.iops of the description,
    /// without which the host sets no limit
    #[arg(long, value_name = "N")]
    host_iops: Option<f64>,
    /// Number of drives that share the I/O operations of the host; replaces host.drives of the description
    #[arg(long, value_name = "N")]
    drives: Option<u32>,
    /// Print the relative change of the break-even time for each input that grows by a tenth, at the first block size
    /// of --bs
    #[arg(long)]
    sensitivity: bool,
    /// Print break-even times of the five-minute rule since 1987, for the years with published prices and rates
    #[arg(long)]
    history: bool,
    /// Print break-even times as JSON in place of tables
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    report: ReportFlags,
}

/// Runs `phaselink breakeven`.
pub(crate) fn command(arguments: &Arguments) -> Result<Ending, Failure> {
    let description = arguments.described()?;
    let report = arguments.report.open()?;
    let times: Vec<BreakEven> = arguments.bs.iter().map(|bytes| break_even(&description, *bytes)).collect();
    let document = || output::headed("breakeven", arguments.document(&description, &times));
    if let Some(report) = report {
        report.write(&page::page(&description, &times), &document())?;
    }
    match arguments.json {
        true => output::print_json(&document())?,
        false => output::print(&arguments.page(&description, &times))?,
    }
    Ok(Ending::Fine)
}

fn block(text: &str) -> Result<u32, String> {
    let bytes = workload::bytes(text).and_then(|bytes| u32::try_from(bytes).ok()).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| String::from("a size as in 4k"))
}

impl Arguments {
    fn described(&self) -> Result<Description, Problems> {
        let word = &self.description;
        let mut description = match Description::shipped(word) {
            Some(shipped) => shipped,
            None if input::is_path(word) => Description::parse(word, &input::description(word)?)?,
            None => {
                let names: Vec<&str> = Description::shipped_names().collect();
                let allowed = format!("a file, or {}", names.join(", "));
                let found = format!("there is no description `{word}`");
                return Err(Problem::new("command line", None, found, allowed).into());
            }
        };
        let host = &mut description.host;
        host.iops = self.host_iops.or(host.iops);
        host.drives = self.drives.unwrap_or(host.drives);
        description.utilisation = self.utilisation.unwrap_or(description.utilisation);
        description.check("command line")?;
        Ok(description)
    }

    fn page(&self, description: &Description, times: &[BreakEven]) -> String {
        let mut page = format!("{}\n{}", describe::wrapped(&conclusion(times), ""), output::shown(&table(times)));
        if self.sensitivity {
            let bytes = times[0].block_bytes;
            let table = changes(&sensitivity(description, bytes, GROWTH));
            page += &format!("\nAt {}:\n{}", describe::size(bytes.into()), output::shown(&table));
        }
        if self.history {
            page += &format!("\n{}", output::shown(&history()));
        }
        page + &format!("\n{}", describe::wrapped(&assumptions(description), "  "))
    }

    fn document(&self, description: &Description, times: &[BreakEven]) -> Value {
        let entry = |time: &BreakEven| {
            let parts = PARTS.iter().zip(time.parts_s).map(|(name, s)| (String::from(*name), s.into()));
            json!({
                "block_bytes": time.block_bytes,
                "break_even_s": time.seconds(),
                "parts_s": Value::Object(parts.collect()),
                "drive_iops": time.device.iops,
                "limit": time.device.limit.name(),
                "used_iops": time.used_iops,
                "tail_ns": time.tail_ns,
            })
        };
        let changes = sensitivity(description, times[0].block_bytes, GROWTH);
        let changes = changes.into_iter().map(|(name, change)| (String::from(name), change.into()));
        json!({
            "times": times.iter().map(entry).collect::<Vec<_>>(),
            "change_by_tenth_more": Value::Object(changes.collect()),
            "description": description.document(),
        })
    }
}

/// Returns a sentence with the break-even times of the smallest and the largest block.
fn conclusion(times: &[BreakEven]) -> String {
    let place =
        |it: &BreakEven| format!("{} for a block of {}", time(it.seconds()), describe::size(it.block_bytes.into()));
    let shown = if times.len() > 2 { vec![&times[0], &times[times.len() - 1]] } else { times.iter().collect() };
    let told: Vec<String> = shown.into_iter().map(place).collect();
    format!("Data that is accessed again within {} belongs in memory, other data on the drive.", told.join(" and "))
}

fn table(times: &[BreakEven]) -> Table {
    let mut table = Table::new().left("block").right("break-even");
    for part in PARTS {
        table = table.right(format!("for {part}"));
    }
    let mut table = table.right("drive IOPS").left("limit").right("used IOPS").right("tail");
    for it in times {
        let [cores, bandwidth, drive] = it.parts_s.map(time);
        table.row([
            describe::size(it.block_bytes.into()),
            time(it.seconds()),
            cores,
            bandwidth,
            drive,
            count(it.device.iops),
            String::from(it.device.limit.name()),
            count(it.used_iops),
            it.tail_ns
                .map_or(String::from("-"), |ns| if ns.is_finite() { quantity(ns / 1e9, "s") } else { "-".into() }),
        ]);
    }
    table
}

/// Returns a table of the relative changes of a break-even time, one for each input that grows by a tenth.
fn changes(changes: &[(&str, f64)]) -> Table {
    let mut table = Table::new().left("a tenth more of").right("changes the time by");
    for (name, change) in changes {
        table.row([String::from(*name), format!("{:+.1} %", 100.0 * change)]);
    }
    table
}

/// Returns a table of the published versions of the five-minute rule.
fn history() -> Table {
    let mut table = Table::new().right("year").left("behind memory").right("page").right("break-even").left("inputs");
    for rule in HISTORY {
        let page = describe::size(rule.page_bytes as u64);
        table.row([&rule.year.to_string(), rule.device, &page, &time(rule.seconds()), rule.source]);
    }
    table
}

/// Formats a time in seconds: long times in minutes or hours.
fn time(seconds: f64) -> String {
    match seconds {
        s if s < 600.0 => quantity(s, "s"),
        s if s < 36_000.0 => format!("{} min", describe::figure(s / 60.0)),
        s => format!("{} h", describe::figure(s / 3600.0)),
    }
}

fn assumptions(description: &Description) -> String {
    let host = match description.host.iops {
        Some(iops) => {
            format!("the host does {} operations a second on {} drives", count(iops), description.host.drives)
        }
        None => String::from("the host does not limit"),
    };
    format!(
        "Assumed: {}; {} % of the drive's rate is used; {host}. The tail is of {} % of all reads.",
        match description.summary.as_str() {
            "" => "prices and rates of the file",
            summary => summary,
        },
        describe::figure(100.0 * description.utilisation),
        describe::figure(100.0 * description.percentile),
    )
}
