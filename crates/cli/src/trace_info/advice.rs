//! Advice on replaying a trace: the command to use, and notes on it.

use phaselink_core::drive::Drive;
use phaselink_core::drive_file::shipped;
use phaselink_core::time::Span;
use phaselink_core::workload::trace::{Format, TraceStatistics};

use crate::output::quoted;

/// Number of requests in flight in the replay of a block trace without `--iodepth`.
const IODEPTH_DEFAULT: u64 = 32;
/// Sets of shipped drives from which `phaselink trace-info` recommends one for a replay: drives that are or were on
/// sale.
const SETS_SOLD: [&str; 2] = ["2018", "2026"];
/// Minimum block size in bytes of drives that `phaselink trace-info` recommends for a replay; excludes memories whose
/// blocks are cache lines.
const SECTOR_BYTES: u32 = 512;
const MIB: u64 = 1 << 20;

/// Advice on replaying a block trace: a command line, and notes on the trace's times and devices.
pub(super) struct Advice {
    /// Command line that replays the trace, or none if no drive accepts its requests.
    pub command: Option<String>,
    pub notes: Vec<String>,
}

/// Returns advice on replaying the trace at `path`. `forced` is the format that the user has named.
pub(super) fn of(info: &TraceStatistics, path: &str, forced: Option<Format>) -> Advice {
    let fits = |drive: &Drive| {
        let limits = drive.limits();
        let (all, writes) = (info.summary.granule_bytes, info.summary.write_granule_bytes);
        all.is_multiple_of(limits.block_bytes.into()) && writes.is_multiple_of(limits.write_block_bytes.into())
    };
    // Choose the default drive if it accepts the trace's request sizes and is large enough, otherwise the smallest
    // suitable drive on sale, otherwise a drive that is made larger.
    let sold = SETS_SOLD.iter().flat_map(|name| shipped::set(name)).filter_map(Drive::shipped);
    let mut sold: Vec<Drive> = sold.collect();
    sold.sort_by_key(|drive| drive.media.capacity_mib);
    let usual = Drive::shipped(shipped::default_drive_name());
    let has_sectors = |drive: &Drive| drive.limits().block_bytes >= SECTOR_BYTES;
    sold.retain(has_sectors);
    let holds = |drive: &Drive| fits(drive) && drive.limits().capacity_bytes >= info.summary.end_bytes;
    let large = usual.iter().chain(&sold).find(|drive| holds(drive)).cloned();
    let drive = large.or_else(|| usual.into_iter().chain(shipped::names().filter_map(Drive::shipped)).find(fits));
    let command = drive.map(|drive| command(info, path, forced, &drive));
    Advice { command, notes: notes(info) }
}

fn command(info: &TraceStatistics, path: &str, forced: Option<Format>, drive: &Drive) -> String {
    let limits = drive.limits();
    let mut words = vec![format!("phaselink run {} --trace {}", drive.name, quoted(path))];
    words.extend(forced.map(|format| format!("--trace-format {}", format.word())));
    if let [(busiest, _), _, ..] = &info.devices[..] {
        words.push(format!("--trace-device {}", quoted(info.device.as_ref().unwrap_or(busiest))));
    }
    let most = info.depth.and_then(|depth| depth.most).unwrap_or(0).min(limits.queue_capacity().into());
    words.extend((most > IODEPTH_DEFAULT).then(|| format!("--iodepth {most}")));
    let needed = info.summary.end_bytes;
    // Capacities of memories are powers of two, so round the needed size up to one.
    let room_mib = needed.div_ceil(MIB).next_power_of_two();
    words.extend((needed > limits.capacity_bytes).then(|| format!("--set media.capacity_mib={room_mib}")));
    words.join(" ")
}

fn notes(info: &TraceStatistics) -> Vec<String> {
    let mut notes = Vec::new();
    if info.span.is_zero() {
        notes.push(String::from("All requests arrive at once: they are replayed as fast as others come back."));
    } else if info.unit >= Span::from_s(1) {
        notes.push(String::from(
            "Times are whole seconds: all requests of a second arrive at once. --trace-closed takes no notice of them.",
        ));
    }
    if info.device.is_none() && info.devices.len() > 1 {
        let count = info.devices.len();
        notes.push(format!("The figures are of all {count} devices; a replay is of one, here the busiest."));
    }
    notes
}
