//! `phaselink endurance`: computes the lifetime of a memory. Flash behind a translation layer: by its write
//! amplification. Any other memory: by its lines, with and without wear levelling.

mod flash;

use clap::Args;
use phaselink_core::drive::Drive;
use phaselink_core::media::lifetime::{Lifetime, WearWorkload, lifetimes};
use phaselink_core::media::wear::LineLayout;
use phaselink_core::problem::{Problem, Problems};
use phaselink_core::workload;
use phaselink_studies::report::{Table, units};
use serde_json::{Value, json};

use self::flash::FlashLifetimes;
use crate::drive_flags::DriveFlags;
use crate::ending::{Ending, Failure};
use crate::{describe, input, output};

const EXAMPLES: &str = include_str!("../../help/endurance.txt");
/// Default seed of the random order of lines in randomised Start-Gap wear levelling.
const SEED: u64 = 1;

/// Compute the lifetime of a drive's memory: for flash, bytes written (TBW) and drive writes a day; for other memories,
/// line writes with and without Start-Gap wear levelling
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Drive file, or name of a shipped drive, whose memory lifetime is computed
    #[arg(value_name = "DRIVE")]
    drive: String,
    /// Write patterns for which the lifetime is computed, separated by commas: sequential, random (flash); uniform,
    /// hot-range, zipf, hammer (other memories); all if not given
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    workload: Vec<String>,
    /// Sizes of writes to flash in bytes, separated by commas, as in 4k,64k [default: 128k for sequential, 4k for
    /// random writes]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = block)]
    bs: Vec<u32>,
    /// Bytes written to flash a day, as in 500g; adds a column with the lifetime at this rate
    #[arg(long, value_name = "SIZE", value_parser = per_day)]
    per_day: Option<u64>,
    /// Seed of the random order of lines in randomised Start-Gap wear levelling; not for flash [default: 1]
    #[arg(long)]
    seed: Option<u64>,
    /// Print lifetimes as JSON in place of the table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: DriveFlags,
}

/// Runs `phaselink endurance`.
pub(crate) fn command(arguments: &Arguments) -> Result<Ending, Failure> {
    let drive = input::drive(&arguments.drive, &arguments.flags.resolve()?)?.into_drive();
    if drive.is_flash() {
        let lifetimes = FlashLifetimes::of(&drive, arguments)?;
        match arguments.json {
            true => output::print_json(&output::headed("endurance", lifetimes.document(&drive)))?,
            false => output::print(&lifetimes.page(&drive))?,
        }
        return Ok(Ending::Fine);
    }
    of_lines(&drive, arguments)
}

/// Prints the lifetimes of a memory without a translation layer, for each workload and kind of wear levelling.
fn of_lines(drive: &Drive, arguments: &Arguments) -> Result<Ending, Failure> {
    for (flag, is_given) in [("--bs", !arguments.bs.is_empty()), ("--per-day", arguments.per_day.is_some())] {
        if is_given {
            let found = format!("{flag} has no effect on {}, whose memory has no translation layer", drive.name);
            return Err(Problems::from(Problem::new("command line", None, found, "a drive of flash")).into());
        }
    }
    let workloads = workloads(&arguments.workload)?;
    let groups = input::all(workloads.into_iter().map(|workload| {
        lifetimes(&drive.name, &drive.media, workload, arguments.seed.unwrap_or(SEED)).map_err(Problems::from)
    }))?;
    match arguments.json {
        true => {
            output::print_json(&output::headed("endurance", document(drive, &groups, arguments.seed.unwrap_or(SEED))))?
        }
        false => output::print(&page(drive, &groups))?,
    }
    Ok(Ending::Fine)
}

fn block(text: &str) -> Result<u32, String> {
    let bytes = workload::bytes(text).and_then(|bytes| u32::try_from(bytes).ok()).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| String::from("a size as in 4k"))
}

fn per_day(text: &str) -> Result<u64, String> {
    workload::bytes(text).filter(|bytes| *bytes > 0).ok_or_else(|| String::from("a size as in 500g"))
}

fn workloads(names: &[String]) -> Result<Vec<WearWorkload>, Problems> {
    if names.is_empty() {
        return Ok(WearWorkload::ALL.into());
    }
    let allowed = WearWorkload::ALL.map(WearWorkload::name).join(", ");
    let unknown = |name: &str| Problem::new("command line", None, format!("there is no workload `{name}`"), &allowed);
    input::all(names.iter().map(|name| WearWorkload::named(name).ok_or_else(|| unknown(name).into())))
}

fn page(drive: &Drive, groups: &[[Lifetime; 3]]) -> String {
    let mut table = Table::new().left("workload").left("wear levelling");
    for header in ["line writes", "of ideal", "writes/s", "lasts"] {
        table = table.right(header);
    }
    for (place, group) in groups.iter().enumerate() {
        if place > 0 {
            table.group();
        }
        for (place, lifetime) in group.iter().enumerate() {
            table.row(row(lifetime, place == 0));
        }
    }
    format!("{}\n{}", heading(drive), output::shown(&table))
}

fn heading(drive: &Drive) -> String {
    let (media, layout) = (&drive.media, LineLayout::of(&drive.media));
    let banks = u64::from(media.channels) * u64::from(media.banks_per_channel);
    let text = format!(
        "{}: {} of {} of {} bytes, each good for {}; with Start-Gap, {} a bank, and a gap moves every {}. Ideal are as \
         many writes as all lines endure. Writes a second are the most that the memory takes.",
        drive.name,
        describe::counted(banks, "bank"),
        describe::counted(layout.lines_per_bank, "line"),
        layout.line_bytes,
        describe::counted(media.endurance_cycles, "write"),
        describe::counted(layout.regions(), "region"),
        describe::counted(media.gap_write_interval.into(), "write"),
    );
    describe::wrapped(&text, "  ")
}

fn row(lifetime: &Lifetime, is_first: bool) -> [String; 6] {
    [
        String::from(if is_first { lifetime.workload.name() } else { "" }),
        String::from(lifetime.wear_levelling.name()),
        units::count(lifetime.line_writes),
        share(lifetime.ideal_share),
        units::count(lifetime.line_writes_per_s),
        duration(lifetime.years),
    ]
}

/// Formats a share in per cent, a small one in scientific notation.
fn share(share: f64) -> String {
    if share >= 0.001 { units::percent(share) } else { format!("{:.1e} %", share * 100.0) }
}

/// Formats a duration of `years` in years, days, hours or seconds, whichever suits its length.
fn duration(years: f64) -> String {
    let days = years * 365.25;
    match days {
        days if days >= 365.25 => format!("{} years", describe::figure(years)),
        days if days >= 1.0 => format!("{} days", describe::figure(days)),
        days if days * 24.0 >= 1.0 => format!("{} hours", describe::figure(days * 24.0)),
        days => format!("{} s", describe::figure(days * 86_400.0)),
    }
}

fn document(drive: &Drive, groups: &[[Lifetime; 3]], seed: u64) -> Value {
    let entry = |lifetime: &Lifetime| {
        json!({
            "workload": lifetime.workload.name(),
            "wear_levelling": lifetime.wear_levelling.name(),
            "line_writes": lifetime.line_writes,
            "ideal_share": lifetime.ideal_share,
            "line_writes_per_s": lifetime.line_writes_per_s,
            "years": lifetime.years,
        })
    };
    json!({
        "seed": seed,
        "drive": drive.name,
        "lifetimes": groups.iter().flatten().map(entry).collect::<Vec<_>>(),
        "description": drive.resolved(),
    })
}
