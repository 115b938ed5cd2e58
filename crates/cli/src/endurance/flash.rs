//! Lifetime of flash behind a translation layer, with the figures of data sheets.

use phaselink_core::drive::Drive;
use phaselink_core::problem::{Problem, Problems};
use phaselink_studies::predict::lifetime::{FlashLifetime, WARRANTY_YEARS, WrittenPattern, flash_lifetime};
use phaselink_studies::report::Table;
use phaselink_studies::results::units::{grouped, quantity};
use serde_json::{Value, json};

use super::{Arguments, duration};
use crate::{describe, input, output};

/// Default size in bytes of sequential writes, for `phaselink endurance` on flash; `RANDOM` is the default size of
/// random writes.
const SEQUENTIAL: &[u32] = &[131_072];
const RANDOM: &[u32] = &[4096];

/// Lifetimes of a drive's flash by write pattern and size, and the bytes written a day for which a lifetime in years is
/// shown.
#[derive(Debug)]
pub(super) struct FlashLifetimes {
    lifetimes: Vec<FlashLifetime>,
    per_day: Option<u64>,
}

impl FlashLifetimes {
    pub(super) fn of(drive: &Drive, arguments: &Arguments) -> Result<FlashLifetimes, Problems> {
        if arguments.seed.is_some() {
            let found = format!("--seed has no effect on {}, of whose flash nothing is drawn", drive.name);
            return Err(Problem::new("command line", None, found, "a drive without a translation layer").into());
        }
        let points = patterns(&arguments.workload)?.into_iter().flat_map(|pattern| {
            let usual = if pattern == WrittenPattern::Sequential { SEQUENTIAL } else { RANDOM };
            let sizes = if arguments.bs.is_empty() { usual } else { &arguments.bs };
            sizes.iter().map(move |bytes| (pattern, *bytes)).collect::<Vec<_>>()
        });
        let lifetimes = input::all(points.map(|(pattern, bytes)| flash_lifetime(drive, pattern, bytes)))?;
        Ok(FlashLifetimes { lifetimes, per_day: arguments.per_day })
    }

    pub(super) fn page(&self, drive: &Drive) -> String {
        let mut table = Table::new().left("writes");
        for header in ["amplification", "TBW", "drive writes a day", "at most", "lasts at that"] {
            table = table.right(header);
        }
        let mut groups = self.lifetimes.chunk_by(|one, other| one.pattern == other.pattern).peekable();
        let per_day = self.per_day.map(|bytes| bytes as f64);
        if let Some(bytes) = per_day {
            table = table.right(format!("lasts at {} a day", quantity(bytes, "B")));
        }
        while let Some(group) = groups.next() {
            for lifetime in group {
                let (pattern, size) = (lifetime.pattern.name(), describe::size(lifetime.block_bytes.into()));
                let mut row: Vec<String> = vec![
                    format!("{pattern}, {size}"),
                    format!("{:.2}", lifetime.write_amplification),
                    quantity(lifetime.written_bytes, "B"),
                    format!("{:.2}", lifetime.drive_writes_per_day),
                    quantity(lifetime.bytes_per_s, "B/s"),
                    duration(lifetime.years),
                ];
                row.extend(per_day.map(|bytes| duration(lifetime.years_at(bytes))));
                table.row(row);
            }
            if groups.peek().is_some() {
                table.group();
            }
        }
        format!("{}\n{}\n{}", self.conclusion(drive), output::shown(&table), notes(drive))
    }

    /// Returns a sentence on the bytes that can be written to the flash with the worst write pattern, and with the
    /// best.
    fn conclusion(&self, drive: &Drive) -> String {
        let by_bytes = |one: &&FlashLifetime, other: &&FlashLifetime| one.written_bytes.total_cmp(&other.written_bytes);
        let told = |lifetime: &FlashLifetime| {
            let size = describe::size(lifetime.block_bytes.into());
            format!(
                "{} of {} writes of {size}, {:.2} drive writes a day for {WARRANTY_YEARS} years",
                quantity(lifetime.written_bytes, "B"),
                lifetime.pattern.name(),
                lifetime.drive_writes_per_day
            )
        };
        let Some(least) = self.lifetimes.iter().min_by(by_bytes) else { return String::new() };
        let most = self.lifetimes.iter().max_by(by_bytes).filter(|most| most.written_bytes > least.written_bytes);
        let most = most.map_or(String::new(), |most| format!(", and {}", told(most)));
        describe::wrapped(&format!("{} endures {}{most}.", drive.name, told(least)), "")
    }

    pub(super) fn document(&self, drive: &Drive) -> Value {
        let entry = |lifetime: &FlashLifetime| {
            json!({
                "workload": lifetime.pattern.name(),
                "block_bytes": lifetime.block_bytes,
                "write_amplification": lifetime.write_amplification,
                "written_bytes": lifetime.written_bytes,
                "drive_writes_per_day": lifetime.drive_writes_per_day,
                "bytes_per_s": lifetime.bytes_per_s,
                "years": lifetime.years,
                "bytes_per_day": self.per_day,
                "years_at_bytes_per_day": self.per_day.map(|bytes| lifetime.years_at(bytes as f64)),
            })
        };
        json!({
            "drive": drive.name,
            "lifetimes": self.lifetimes.iter().map(entry).collect::<Vec<_>>(),
            "description": drive.resolved(),
        })
    }
}

fn patterns(names: &[String]) -> Result<Vec<WrittenPattern>, Problems> {
    if names.is_empty() {
        return Ok(WrittenPattern::ALL.into());
    }
    let allowed = WrittenPattern::ALL.map(WrittenPattern::name).join(", ");
    let unknown = |name: &str| {
        let found =
            format!("there is no workload `{name}` for flash behind a translation layer, which spreads all writes");
        Problem::new("command line", None, found, &allowed)
    };
    input::all(names.iter().map(|name| WrittenPattern::named(name).ok_or_else(|| unknown(name).into())))
}

/// Returns the assumptions of flash lifetimes as a paragraph: endurance, over-provisioning, wear levelling and garbage
/// collection policy.
fn notes(drive: &Drive) -> String {
    let (media, translation) = (&drive.media, &drive.translation);
    let text = format!(
        "Assumed: {} erases a block (media.endurance_cycles), {:.1} % spare cells (translation.over_provisioning), blocks \
         {} apart (translation.wear_gap_erases), and the steady write amplification of {} cleaning. \"At most\" is the \
         rate in the steady state.",
        grouped(media.endurance_cycles),
        100.0 * translation.over_provisioning,
        describe::counted(translation.wear_gap_erases.into(), "erase"),
        translation.policy.name(),
    );
    describe::wrapped(&text, "  ")
}
