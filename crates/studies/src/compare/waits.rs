//! Causes of queueing: the resource for which requests wait longest, and why it is busy.

use super::Cell;
use crate::results::words::UNBROKEN;
use phaselink_core::ledger::DirectionOutcome;
use phaselink_core::ledger::stage::{CauseOfLatency, Stage};
use phaselink_core::number::real;

/// Words for each stage of waiting, other than that for the memory and for wires, whose resource results tell.
const WAITS: [(Stage, &str); 9] = [
    (Stage::TargetWait, "target cores"),
    (Stage::NetworkWait, "the network"),
    (Stage::Queued, "a free place in the queue"),
    (Stage::Batch, "the rest of their batch"),
    (Stage::FillBuffer, "fill buffers"),
    (Stage::RequestQueue, "transfer buffers of the drive"),
    (Stage::CoreWait, "cores"),
    (Stage::Translation, "reads of the page table"),
    (Stage::Timeout, "the driver's time-out"),
];
/// Smallest write amplification in percent at which garbage collection is named as the reason why flash is busy.
const AMPLIFICATION_MIN: u64 = 105;

/// Resource for which requests wait longest.
pub(super) struct Wait {
    /// Name of the resource, such as `flash dies`.
    pub(super) resource: String,
    /// Utilisation of the resource, and what makes it so busy, in brackets; empty if the results do not tell.
    detail: String,
}

impl Wait {
    /// Returns the resource for which `requests` of a result wait longest; `None` if they do not wait.
    pub(super) fn longest(cell: &Cell, requests: &DirectionOutcome) -> Option<Wait> {
        let waits = Stage::every().filter(|stage| stage.cause() == CauseOfLatency::Queueing);
        let stage = waits.max_by_key(|stage| requests.stages.get(*stage))?;
        if requests.stages.get(stage).is_zero() {
            return None;
        }
        let resource = match stage {
            Stage::MediaWait if is_of_writes(cell, requests) && cell.busiest_flash_part().is_some() => "write buffer",
            Stage::MediaWait => {
                cell.busiest_flash_part().or_else(|| busiest_named_resource(cell, &["media", "volume"]))?
            }
            Stage::FirmwareWait => {
                busiest_named_resource(cell, &["drive processors", "firmware"]).unwrap_or("drive processors")
            }
            Stage::LinkWait => busiest_named_resource(cell, &["wire", "uplinks"]).unwrap_or("wires"),
            _ => WAITS.iter().find(|(of, _)| *of == stage).map(|(_, words)| *words)?,
        };
        Some(Wait { resource: String::from(resource), detail: detail(cell, resource) })
    }

    /// Returns the wait as text without details: `waits for flash dies`.
    pub(super) fn name(&self) -> String {
        match self.resource.as_str() {
            "write buffer" => String::from("waits for room in the write buffer"),
            resource => format!("waits for {resource}"),
        }
    }

    /// Returns the wait as text: `waits for flash dies (72 % busy; garbage collection: 7.90 bytes are programmed for
    /// each byte written)`.
    pub(super) fn text(&self) -> String {
        match self.detail.is_empty() {
            true => self.name(),
            false => format!("{} ({})", self.name(), self.detail),
        }
    }
}

/// True if all of these requests write.
fn is_of_writes(cell: &Cell, requests: &DirectionOutcome) -> bool {
    requests.ios > 0 && requests.stages == cell.writes.stages
}

/// Returns the busiest resource whose name begins with one of these words.
fn busiest_named_resource<'a>(cell: &'a Cell, beginnings: &[&str]) -> Option<&'a str> {
    let names = cell.usage.iter().map(|used| used.resource.as_str());
    names.into_iter().find(|name| beginnings.iter().any(|beginning| name.starts_with(beginning)))
}

/// Returns how busy the resource is, and for flash how much garbage collection has to do with it.
fn detail(cell: &Cell, resource: &str) -> String {
    let is_of_flash =
        cell.busiest_flash_part().is_some() && (resource == "write buffer" || resource.starts_with("flash"));
    // A full write buffer waits for the dies, so name the dies as the resource.
    let busy = if is_of_flash && resource == "write buffer" { cell.busiest_flash_part() } else { Some(resource) };
    let used = cell.usage.iter().find(|used| Some(used.resource.as_str()) == busy);
    let share = used.map(|used| {
        let name = if used.resource == resource { String::new() } else { format!("{} ", used.resource) };
        format!("{name}{:.0}{UNBROKEN}%{UNBROKEN}busy", 100.0 * used.share)
    });
    let amplification = cell.outcome.counters.iter().find(|(name, _)| *name == "write_amplification_percent");
    let amplification = amplification.filter(|(_, percent)| is_of_flash && *percent >= AMPLIFICATION_MIN);
    let collection = amplification.map(|(_, percent)| {
        let bytes = real(*percent) / 100.0;
        format!("garbage collection: {bytes:.2}{UNBROKEN}bytes programmed for each byte written")
    });
    share.into_iter().chain(collection).collect::<Vec<_>>().join("; ")
}
