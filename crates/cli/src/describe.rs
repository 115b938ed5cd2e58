//! Formats numbers, lists and descriptions of drives for people.

use phaselink_core::config::engine::{EngineOptions, IoEngine, polls};
use phaselink_core::config::{Technology, VolumeLimit, Wait};
use phaselink_core::drive::Drive;
use phaselink_core::link::rate::WireRate;
use phaselink_core::number::whole;
use phaselink_core::time::Span;
use phaselink_core::workload::Job;
pub(crate) use phaselink_studies::compare::promise;
use phaselink_studies::results::units::{self, grouped};
pub(crate) use phaselink_studies::results::words::{
    UNBROKEN, capacity, counted, figure, listed, requests, size, wrap_paragraph,
};

use crate::output::width;

/// Breaks a paragraph into lines of at most 100 columns, or of the terminal's width. `indent` precedes each line but
/// the first.
pub(crate) fn wrapped(paragraph: &str, indent: &str) -> String {
    wrap_paragraph(paragraph, indent, width::prose_width_columns())
}

/// Breaks the lines of a text that are wider than the terminal. Without a known width, returns the text as it is.
pub(crate) fn fitted(text: &str, indent: &str) -> String {
    match width::columns() {
        Some(columns) => text.lines().map(|line| wrap_paragraph(line, indent, columns)).collect(),
        None => String::from(text),
    }
}

/// Describes the memory of a drive, or the volume, in one line.
pub(crate) fn memory(drive: &Drive) -> String {
    let media = &drive.media;
    if drive.volume.is_there() {
        return volume(drive);
    }
    let technology = match media.technology {
        Technology::Pcm => "phase-change memory",
        Technology::Dram => "DRAM",
        Technology::Nand => "NAND flash",
        Technology::Disk => "magnetic disks",
    };
    format!(
        "{technology}, {}, {} of {}, {} to read, {} to program",
        capacity(media.capacity_bytes()),
        counted(media.channels.into(), "channel"),
        counted(media.banks_per_channel.into(), "bank"),
        units::span(media.read),
        units::span(media.program),
    )
}

/// Describes the capacity, limits and latencies of a volume in one line.
fn volume(drive: &Drive) -> String {
    let (volume, capacity_mib) = (&drive.volume, drive.media.capacity_mib);
    let mut parts = vec![format!("volume of {}", capacity(drive.media.capacity_bytes()))];
    let mut limit = |limit: Option<VolumeLimit>, per: f64, what: &str| {
        let Some(limit) = limit else { return };
        let rate = |per_s: f64| grouped(whole((per_s / per).round()));
        let burst =
            if limit.credits > 0.0 { format!(" ({} with credits)", rate(limit.peak_per_s)) } else { String::new() };
        parts.push(format!("{} {what}{burst}", rate(limit.base_per_s)));
    };
    limit(volume.operations(capacity_mib), 1.0, "operations/s");
    limit(volume.bytes(capacity_mib), f64::from(1 << 20), "MiB/s");
    parts.push(format!("{} to read", units::span(volume.read)));
    parts.push(format!("{} to write", units::span(volume.write)));
    parts.join(", ")
}

/// Describes the link of a drive in one line.
pub(crate) fn link(drive: &Drive) -> String {
    let link = &drive.link;
    let hops = match link.hops {
        0 => String::new(),
        hops => format!(", {} of {}", counted(hops.into(), "hop"), units::span(link.hop)),
    };
    format!(
        "PCI Express gen {} x{}, {} each way, {} from end to end{hops}, packets of up to {} bytes",
        link.generation,
        link.lanes,
        units::quantity(WireRate::new(link).bytes_per_ns() * 1e9, "B/s"),
        units::span(link.one_way),
        link.max_payload_bytes,
    )
}

/// Describes the host of a drive in one line: cores, clock and context switch. Software and completion method are left
/// out.
pub(crate) fn host(drive: &Drive) -> String {
    let cores = counted(drive.host.cores.into(), "core");
    format!("{cores} at {} GHz, {} for a context switch", drive.host.core_ghz, units::span(drive.host.context_switch))
}

/// Describes the interface of a drive in one line: protocol, completion method and software stack, as the first of
/// `jobs` uses it.
pub(crate) fn interface(drive: &Drive, jobs: &[Job]) -> String {
    let protocol = drive.protocol();
    if let Some((engine, switches)) = engine(drive, jobs) {
        let wait = if polls(engine, switches) { "polling" } else { wait_method(Wait::Sleep) };
        return format!("{}, {wait}, {}", protocol.title(), engine_stage_names(drive, engine, switches));
    }
    let wait = protocol.wait_description(drive).unwrap_or_else(|| String::from(wait_method(drive.host.wait)));
    format!("{}, {wait}, {}", protocol.title(), software(drive))
}

fn wait_method(wait: Wait) -> &'static str {
    match wait {
        Wait::Spin => "spinning",
        Wait::Sleep => "sleeping until the interrupt",
        Wait::Hybrid => "sleeping, then spinning",
    }
}

/// Returns the I/O engine and its options of the first job, or none if the drive's interface has no choice of engines.
fn engine(drive: &Drive, jobs: &[Job]) -> Option<(IoEngine, EngineOptions)> {
    let support = drive.limits().engine_support?;
    let first = jobs.first();
    let engine = first.and_then(|job| support.engine(job)).unwrap_or(support.default);
    Some((engine, first.map_or_else(EngineOptions::default, |job| job.engine_choice.switches)))
}

fn software(drive: &Drive) -> String {
    let stages = &drive.stack.stages;
    if stages.is_empty() {
        return String::from("from user space");
    }
    let names: Vec<String> = stages.iter().map(|stage| stage.name.clone()).collect();
    let total: Span = stages.iter().map(|stage| stage.submit + stage.complete).sum();
    format!("through {} ({})", listed(&names), units::span(total))
}

/// Names the software stages that a request of an I/O engine passes. Stages that share a column of tables are named
/// once.
fn engine_stage_names(drive: &Drive, engine: IoEngine, switches: EngineOptions) -> String {
    let words = drive.stack.words(engine, switches);
    let mut names: Vec<String> = Vec::new();
    for stage in drive.stack.stages.iter().filter(|stage| stage.applies_to_job(&words)) {
        if !names.iter().any(|name| name == stage.column()) {
            names.push(stage.column().into());
        }
    }
    format!("with {} through {}", engine.name(), listed(&names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_printed_in_the_largest_dividing_unit() {
        let sizes = [1, 512, 1000, 1024, 1536, 4096, 1 << 20, 3 << 30].map(size);
        assert_eq!(sizes, ["1 B", "512 B", "1000 B", "1 KiB", "1536 B", "4 KiB", "1 MiB", "3 GiB"]);
    }

    #[test]
    fn figures_are_printed_with_three_digits_and_all_before_the_point() {
        let figures = [0.0, 0.1254, 0.9996, 9.994, 9.996, 99.96, 2550.4].map(figure);
        assert_eq!(figures, ["0.000", "0.125", "1.00", "9.99", "10.0", "100", "2550"]);
    }

    #[test]
    fn lines_break_between_words_but_not_at_a_fixed_blank() {
        let text = wrapped(&format!("{} 12.5{UNBROKEN}us", "word ".repeat(19).trim_end()), "  ");
        assert_eq!(text, format!("{}\n  12.5 us\n", "word ".repeat(19).trim_end()));
    }

    #[test]
    fn last_item_of_a_list_follows_and() {
        let parts = ["a", "b", "c"].map(String::from);
        assert_eq!([listed(&parts[..1]), listed(&parts[..2]), listed(&parts)], ["a", "a and b", "a, b and c"]);
    }

    #[test]
    fn noun_is_singular_after_one() {
        assert_eq!(
            [counted(1, "bank"), counted(0, "bank"), counted(1200, "bank")],
            ["1 bank", "0 banks", "1,200 banks"]
        );
    }
}
