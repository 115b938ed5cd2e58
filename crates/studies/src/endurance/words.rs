//! Answer of `endurance` in words: text with a table of lifetimes.

use phaselink_core::drive::Drive;
use phaselink_core::media::wear::WearLineLayout;
use phaselink_core::number::real;

use super::{EnduranceAnswer, FlashLifetimeRow, LifetimeRows, LineLifetimeRow};
use crate::predict::lifetime::WARRANTY_YEARS;
use crate::report::{Answer, Prose, Table};
use crate::results::units::{self, grouped, quantity};
use crate::results::words::{counted, figure, size};

impl Answer for EnduranceAnswer {
    const VERB: &'static str = "endurance";

    fn text(&self) -> Prose {
        let drive = &self.constants;
        match &self.lifetimes {
            LifetimeRows::Flash(rows) => Prose::default()
                .paragraph(flash_lifetime_conclusion(&self.drive, rows), "")
                .gap()
                .table(flash_lifetime_table(rows, self.per_day))
                .gap()
                .paragraph(flash_lifetime_assumptions(drive), "  "),
            LifetimeRows::Lines(rows) => Prose::default()
                .paragraph(line_lifetime_assumptions(&self.drive, drive), "  ")
                .gap()
                .table(line_lifetime_table(rows)),
        }
    }
}

/// Returns a sentence on the bytes that can be written to the flash with the worst write pattern, and with the best.
fn flash_lifetime_conclusion(drive: &str, rows: &[FlashLifetimeRow]) -> String {
    let lifetimes = || rows.iter().map(|row| &row.lifetime);
    let Some(least) = lifetimes().min_by(|one, other| one.written_bytes.total_cmp(&other.written_bytes)) else {
        return String::new();
    };
    let most = lifetimes().max_by(|one, other| one.written_bytes.total_cmp(&other.written_bytes));
    let shown = [Some(least), most.filter(|most| most.written_bytes > least.written_bytes)];
    let told = shown.into_iter().flatten().map(|lifetime| {
        format!(
            "{} of {} writes of {}, {:.2} drive writes a day for {WARRANTY_YEARS} years",
            quantity(lifetime.written_bytes, "B"),
            lifetime.pattern.name(),
            size(lifetime.block_bytes.into()),
            lifetime.drive_writes_per_day
        )
    });
    format!("{drive} endures {}.", told.collect::<Vec<_>>().join(", and "))
}

/// Returns a table with a row for each write pattern and size, in a group for each pattern.
fn flash_lifetime_table(rows: &[FlashLifetimeRow], per_day: Option<u64>) -> Table {
    let mut table = Table::new().left("writes");
    for header in ["amplification", "TBW", "drive writes a day", "at most", "lasts at that"] {
        table = table.right(header);
    }
    if let Some(bytes) = per_day {
        table = table.right(format!("lasts at {} a day", quantity(real(bytes), "B")));
    }
    let mut before = None;
    for row in rows {
        let lifetime = &row.lifetime;
        if before.is_some_and(|pattern| pattern != lifetime.pattern) {
            table.group();
        }
        before = Some(lifetime.pattern);
        let mut cells = vec![
            format!("{}, {}", lifetime.pattern.name(), size(lifetime.block_bytes.into())),
            format!("{:.2}", lifetime.write_amplification),
            quantity(lifetime.written_bytes, "B"),
            format!("{:.2}", lifetime.drive_writes_per_day),
            quantity(lifetime.bytes_per_s, "B/s"),
            lifetime_text(lifetime.years),
        ];
        cells.extend(row.years_at_bytes_per_day.map(lifetime_text));
        table.row(cells);
    }
    table
}

/// Returns the assumptions of flash lifetimes as a paragraph: endurance, over-provisioning, wear levelling and garbage
/// collection policy.
fn flash_lifetime_assumptions(drive: &Drive) -> String {
    let (media, translation) = (&drive.media, &drive.translation);
    format!(
        "Assumed: {} erases a block (media.endurance_cycles), {:.1} % spare cells ({}), blocks \
         {} apart (translation.wear_gap_erases), and the steady write amplification of {} cleaning. \"At most\" is the \
         rate in the steady state.",
        grouped(media.endurance_cycles),
        100.0 * translation.spare_share(media),
        if media.raw_mib > 0 { "media.raw_mib" } else { "translation.over_provisioning" },
        counted(translation.wear_gap_erases.into(), "erase"),
        translation.policy.name(),
    )
}

/// Returns the lines and the wear levelling of a memory without a translation layer as a paragraph.
fn line_lifetime_assumptions(name: &str, drive: &Drive) -> String {
    let (media, layout) = (&drive.media, WearLineLayout::of(&drive.media));
    let banks = u64::from(media.banks());
    format!(
        "{}: {} of {} of {} bytes, each good for {}; with Start-Gap, {} a bank, and a gap moves every {}. Ideal are as \
         many writes as all lines endure. Writes a second are the most that the memory takes.",
        name,
        counted(banks, "bank"),
        counted(layout.lines_per_bank, "line"),
        layout.line_bytes,
        counted(media.endurance_cycles, "write"),
        counted(layout.regions(), "region"),
        counted(media.gap_write_interval.into(), "write"),
    )
}

/// Returns a table with a row for each write pattern and kind of wear levelling, in a group for each pattern.
fn line_lifetime_table(rows: &[LineLifetimeRow]) -> Table {
    let mut table = Table::new().left("workload").left("wear levelling");
    for header in ["line writes", "of ideal", "writes/s", "lasts"] {
        table = table.right(header);
    }
    for (place, group) in rows.chunk_by(|one, other| one.workload == other.workload).enumerate() {
        if place > 0 {
            table.group();
        }
        for (place, row) in group.iter().enumerate() {
            table.row([
                if place == 0 { row.workload.clone() } else { String::new() },
                row.levelling.clone(),
                units::count(row.line_writes),
                share(row.ideal_share),
                units::count(row.line_writes_per_s),
                lifetime_text(row.years),
            ]);
        }
    }
    table
}

/// Formats a share in per cent, a small one in scientific notation.
fn share(share: f64) -> String {
    if share >= 0.001 { units::percent(share) } else { format!("{:.1e} %", share * 100.0) }
}

/// Formats a duration of `years` in years, days, hours or seconds, whichever suits its length.
fn lifetime_text(years: f64) -> String {
    let days = years * 365.25;
    match days {
        days if days >= 365.25 => format!("{} years", figure(years)),
        days if days >= 1.0 => format!("{} days", figure(days)),
        days if days * 24.0 >= 1.0 => format!("{} hours", figure(days * 24.0)),
        days => format!("{} s", figure(days * 86_400.0)),
    }
}
