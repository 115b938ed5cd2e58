//! Results of a crash test as text and as JSON.

use std::collections::BTreeSet;

use phaselink_core::crash::explain::CrashState;
use phaselink_core::crash::image::Pieces;
use phaselink_core::crash::recording::{RecordedEventKind, RecordedOp, Recording};
use phaselink_core::crash::sample::CrashImageCount;
use phaselink_core::crash::{Image, RequestLoss, zones};
use phaselink_core::number::{length, real};
use phaselink_core::problem::printable;
use phaselink_studies::report::{Table, units};
use phaselink_studies::results::documents::{
    CheckedImages, CrashDocument, CrashDrive, RecordedRequests, SmallestCrash,
};

use super::{CrashReport, SmallestFailure};
use crate::describe;

/// Maximum number of lost requests, or of zones, that the text of a crash test lists one by one.
const TOLD_MAX: usize = 10;
/// Maximum number of lines of the check command's output that the text of a crash test shows.
const SAID_LINES_MAX: usize = 12;
/// Maximum number of crash images failing the check that the JSON document names.
const NAMED_MAX: usize = 100;

/// Returns the results of a crash test as text.
pub(super) fn text(report: &CrashReport<'_>) -> String {
    let mut text =
        format!("{}\n{}\n", describe::wrapped(&CrashDrive::of(report.recording).sentence(), ""), table(report));
    text += &describe::wrapped(&crash_report_conclusion(report), "  ");
    if let Some(smallest) = &report.failure {
        text += &failure(report, smallest);
    }
    text
}

fn table(report: &CrashReport<'_>) -> Table {
    let recorded = RecordedRequests::of(report.recording, report.timeline);
    let zoned = [("resets", recorded.zone_resets), ("finishes", recorded.zone_finishes)];
    let actions = report.recording.zones.map(|_| zoned);
    let possible = match report.possible {
        CrashImageCount::Exact(count) => units::grouped(count),
        CrashImageCount::PowerOfTen(power) => format!("10^{power:.0}"),
    };
    let epochs = length(recorded.epochs);
    let (tested, failed) = (length(report.findings.tested), length(report.findings.failed.len()));
    let written = units::quantity(real(recorded.written_bytes), "B");
    let before = [("writes", units::grouped(recorded.writes)), ("written", written)];
    let counted = |(head, count): (&'static str, u64)| (head, units::grouped(count));
    let changes = [("trims", recorded.trims), ("zeroings", recorded.zeroings)].map(counted);
    let actions = actions.into_iter().flatten().map(counted);
    let after = [("flushes", recorded.flushes), ("FUA", recorded.force_unit_access), ("epochs", epochs)].map(counted);
    let last = [("images", possible), counted(("tested", tested)), counted(("failed", failed))];
    let columns = before.into_iter().chain(changes).chain(actions).chain(after).chain(last);
    let (heads, cells): (Vec<&str>, Vec<String>) = columns.unzip();
    let mut table = heads.into_iter().fold(Table::new(), Table::right);
    table.row(cells);
    table
}

/// Returns a sentence with the number of checked crash images, the duration of the checks and their rate.
pub(super) fn rate(report: &CrashReport<'_>) -> String {
    let (tested, seconds) = (length(report.findings.tested), report.elapsed.as_secs_f64());
    let rate = units::count((real(tested) / seconds.max(1e-9)).round());
    format!("{} in {}, {rate} a second", describe::counted(tested, "image"), units::quantity(seconds, "s"))
}

fn crash_report_conclusion(report: &CrashReport<'_>) -> String {
    let (tested, failed) = (length(report.findings.tested), length(report.findings.failed.len()));
    let stopped = if report.stopped { "It was stopped before all were tested. " } else { "" };
    let late = match report.findings.timed_out {
        0 => String::new(),
        late => format!(" {} took longer than --timeout allows.", units::grouped(length(late))),
    };
    match failed {
        0 => format!("{stopped}The check fails on none of {}.", describe::counted(tested, "image")),
        _ => format!(
            "{stopped}The application is not crash safe: the check fails on {} of {}.{late}",
            units::grouped(failed),
            describe::counted(tested, "image"),
        ),
    }
}

fn failure(report: &CrashReport<'_>, smallest: &SmallestFailure) -> String {
    let SmallestFailure { image, verdict, command } = smallest;
    let mut text = format!("\nThe smallest failure:\n{}", crash_image_text(report, image));
    let rules = rules(report, image);
    for rule in &rules {
        text += &format!("  {}", describe::wrapped(&format!("A drive may do that. {rule}"), "  "));
    }
    let how = match verdict.has_passed() {
        true => String::from("The check does not always fail on it: it ends with 0 this time."),
        false => format!("The check {}.", verdict.end.words()),
    };
    text += &format!("  {how}\n");
    let lines: Vec<&str> = verdict.said.lines().collect();
    for line in lines.iter().take(SAID_LINES_MAX) {
        text += &format!("    {}\n", printable(line));
    }
    if lines.len() > SAID_LINES_MAX {
        text += "    ...\n";
    }
    text + &format!("\nTo see it again:\n  {command}\n")
}

/// Describes a crash image: the instant of the power cut, the last completed flush, and the writes that are missing or
/// torn.
fn crash_image_text(report: &CrashReport<'_>, image: &Image) -> String {
    let CrashReport { recording, timeline, .. } = report;
    let when = match image.cut.checked_sub(1).map(|last| recording.events[last]) {
        None => String::from("before anything has happened"),
        Some(RecordedEventKind::Arrived(place)) => format!("when {} has arrived", request(recording, place)),
        Some(RecordedEventKind::Completed(place)) => {
            format!("when {} has been answered", request(recording, place))
        }
        Some(RecordedEventKind::Printed(line)) => {
            let line = String::from_utf8_lossy(&recording.lines[line]);
            format!("when the application has printed {:?}", line.trim_end())
        }
    };
    let mut text = format!("  The power fails {when}.\n");
    let is_done = |&place: &usize| recording.requests[place].is_flush() && timeline.had_completed(place, image.cut);
    let flush = (0..timeline.arrived(image.cut)).rev().find(is_done);
    text += &match flush {
        Some(place) => format!("  The last flush that was answered before is request {}.\n", place + 1),
        None => String::from("  No flush was answered before.\n"),
    };
    for (&place, lost) in image.lost.iter().take(TOLD_MAX) {
        let state = if timeline.had_completed(place, image.cut) { "answered, not flushed" } else { "not answered" };
        let what = request(recording, place);
        text += &match lost {
            RequestLoss::All => format!("  Missing: {what}, {state}.\n"),
            RequestLoss::AllBut(there) => {
                let last = recording.pieces(place) - 1;
                format!("  Torn: {what}, {state}; of its blocks 0-{last}, only {} came.\n", Pieces(there))
            }
        };
    }
    if image.lost.len() > TOLD_MAX {
        text += &format!("  Missing: {} more.\n", units::grouped(length(image.lost.len() - TOLD_MAX)));
    }
    let rest = if image.lost.is_empty() { "Everything" } else { "Everything else" };
    text + &format!("  {rest} that had arrived is there.\n") + &zone_losses_text(report, image)
}

/// Describes the zones of a crash image that have lost writes: states after the power cut, and numbers of blocks before
/// and after.
fn zone_losses_text(report: &CrashReport<'_>, image: &Image) -> String {
    let CrashReport { recording, timeline, .. } = report;
    let zones = |image: &Image| zones::zones(recording, timeline, image).ok().flatten();
    let Some((survived, whole)) = zones(image).zip(zones(&Image::whole(image.cut))) else { return String::new() };
    let lossy: BTreeSet<u32> = image.lost.keys().filter_map(|&place| recording.zone(place)).collect();
    let words = |&zone: &u32| {
        let ((state, written), (_, before)) = (survived.zone(zone), whole.zone(zone));
        let blocks = describe::counted(written, "block");
        let before = if before == written { String::new() } else { format!(", where {before} had been written") };
        format!("  Zone {zone} is {} then, with {blocks}{before}.\n", state.name())
    };
    let more = lossy.len().saturating_sub(TOLD_MAX);
    let more = if more > 0 {
        format!("  {} have lost something, too.\n", describe::counted(length(more), "zone"))
    } else {
        String::new()
    };
    lossy.iter().take(TOLD_MAX).map(words).collect::<String>() + &more
}

/// Returns the durability rules that allow the losses of a crash image, as sentences.
fn rules(report: &CrashReport<'_>, image: &Image) -> Vec<String> {
    let CrashReport { recording, timeline, rules, .. } = report;
    rules.applied(&CrashState { recording, timeline, image, failed: &BTreeSet::new() })
}

/// Describes the recorded request with index `place`, as in `request 57 (write of 4 KiB at 81920)`.
fn request(recording: &Recording, place: usize) -> String {
    let request = &recording.requests[place];
    let kind = match request.kind {
        RecordedOp::Write(_) => "write",
        RecordedOp::Zero => "zeroing",
        RecordedOp::Trim => "trim",
        RecordedOp::Reset => return format!("request {} (reset of zone {})", place + 1, zone(recording, place)),
        RecordedOp::Finish => return format!("request {} (finish of zone {})", place + 1, zone(recording, place)),
        RecordedOp::Flush => return format!("request {} (flush)", place + 1),
    };
    let durable = if request.durable { ", force unit access" } else { "" };
    let (size, offset) = (describe::size(request.bytes.into()), request.offset);
    let zone = recording.zone(place).map_or_else(String::new, |zone| format!(" in zone {zone}"));
    format!("request {} ({kind} of {size} at {offset}{zone}{durable})", place + 1)
}

/// Returns the number of the zone on which a recorded request acts.
fn zone(recording: &Recording, place: usize) -> u32 {
    recording.zone(place).expect("actions on zones have one")
}

/// Returns the results of a crash test as a JSON document.
pub(super) fn document(seed: u64, report: &CrashReport<'_>) -> CrashDocument {
    let CrashReport { recording, timeline, .. } = report;
    CrashDocument {
        seed,
        finished: !report.stopped,
        drive: CrashDrive::of(recording),
        recording: RecordedRequests::of(recording, timeline),
        images: checked_images(report),
        smallest_failure: report.failure.as_ref().map(|smallest| SmallestCrash {
            image: smallest.image.name(recording, timeline),
            words: crash_image_text(report, &smallest.image).lines().map(|line| String::from(line.trim())).collect(),
            rules: rules(report, &smallest.image),
            check: smallest.verdict.end.words(),
            said: smallest.verdict.said.clone(),
            command: smallest.command.clone(),
        }),
    }
}

fn checked_images(report: &CrashReport<'_>) -> CheckedImages {
    let CrashReport { recording, timeline, findings, .. } = report;
    let (possible, possible_log10) = match report.possible {
        CrashImageCount::Exact(count) => (Some(count), (count as f64).log10()),
        CrashImageCount::PowerOfTen(power) => (None, power),
    };
    CheckedImages {
        possible,
        possible_log10,
        tested: findings.tested,
        failed: findings.failed.len(),
        timed_out: findings.timed_out,
        elapsed_s: report.elapsed.as_secs_f64(),
        failing: findings.failed.iter().take(NAMED_MAX).map(|image| image.name(recording, timeline)).collect(),
    }
}
