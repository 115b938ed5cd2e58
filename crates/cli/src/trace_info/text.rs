//! Text of `phaselink trace-info`, which describes a block trace.

use std::collections::BTreeMap;
use std::fmt::Write;

use phaselink_core::number::{length, real};
use phaselink_core::workload::trace::{BlockFootprint, TraceStatistics};
use phaselink_studies::results::units::{self, count, grouped, percent};

use super::advice::Advice;
use crate::describe::{counted, size, wrapped};

/// Maximum number of devices, and of request sizes, that the text of `phaselink trace-info` lists.
const LISTED: usize = 5;
/// Indentation of the second and later lines of a value in the text of `phaselink trace-info`.
const INDENT: &str = "             ";

/// Returns the text of `phaselink trace-info`.
pub(super) fn text(path: &str, info: &TraceStatistics, advice: &Advice) -> String {
    let mut text = String::new();
    let mut line = |label: &str, value: String| {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{label:<13}{}", wrapped(&value, INDENT));
    };
    line("trace", format!("{path}: {}", info.format));
    line(if info.devices.len() == 1 { "device" } else { "devices" }, devices(info));
    line("requests", requests(info));
    line("time", time(info));
    line("sizes", sizes(info));
    line("alignment", request_alignment_text(info));
    line(
        "sequential",
        format!("{} start where one of the 16 before them ended", share_of_requests_text(info.sequential, info)),
    );
    line("footprint", footprint(info));
    line("re-use", block_reuse_text(&info.footprint));
    if let Some(depth) = info.depth {
        let most = depth.most.map_or(String::new(), |most| format!(", {most} at most"));
        let mean = count((depth.mean * 1e3).round() / 1e3);
        line("queue depth", format!("{mean} on average{most}; a request took {}", units::span(depth.response)));
    }
    if !info.left_out.is_empty() {
        let kinds: Vec<String> =
            info.left_out.iter().map(|(kind, count)| format!("{} {kind}", grouped(*count))).collect();
        line("left out", kinds.join(", "));
    }
    text.push('\n');
    match &advice.command {
        Some(command) => {
            let _ = writeln!(text, "Replay it with\n\n  {command}");
        }
        None => text.push_str("No drive takes its sizes: they are no whole number of anything.\n"),
    }
    for note in &advice.notes {
        let _ = write!(text, "\n{}", wrapped(note, ""));
    }
    text
}

fn share_of_requests_text(part: u64, info: &TraceStatistics) -> String {
    percent(real(part) / real(info.summary.count.max(1)))
}

fn devices(info: &TraceStatistics) -> String {
    let device = |(name, requests): &(String, u64)| format!("{name} ({})", counted(*requests, "request"));
    let shown: Vec<String> = info.devices.iter().take(LISTED).map(device).collect();
    let all = match info.devices.len() {
        count if count > LISTED => format!("{}, {}", shown.join(", "), counted(length(count - LISTED), "other")),
        _ => shown.join(", "),
    };
    info.device.as_ref().map_or(all.clone(), |chosen| format!("{chosen} alone, of {all}"))
}

fn requests(info: &TraceStatistics) -> String {
    let reads = info.reads();
    format!(
        "{}: {} reads, {}; writes, {}",
        grouped(info.summary.count),
        share_of_requests_text(reads, info),
        units::quantity(real(info.read_bytes), "B"),
        units::quantity(real(info.written_bytes), "B"),
    )
}

fn time(info: &TraceStatistics) -> String {
    if info.span.is_zero() {
        return String::from("none: all requests arrive at once");
    }
    let mean = real(info.summary.count) / info.span.as_s();
    let busiest = real(info.busiest_second);
    format!(
        "{}: {} requests a second on average, {} in the busiest second",
        units::span(info.span),
        count(if mean >= 10.0 { mean.round() } else { mean }),
        count(busiest)
    )
}

fn sizes(info: &TraceStatistics) -> String {
    let mut sizes: BTreeMap<u32, u64> = BTreeMap::new();
    info.summary.sizes.iter().for_each(|((_, bytes), count)| *sizes.entry(*bytes).or_default() += count);
    let mut busiest: Vec<(u32, u64)> = sizes.into_iter().collect();
    busiest.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let shown: Vec<String> = busiest
        .iter()
        .take(LISTED)
        .map(|(bytes, count)| format!("{} {}", size((*bytes).into()), share_of_requests_text(*count, info)))
        .collect();
    let others = busiest.iter().skip(LISTED).map(|(_, count)| count).sum::<u64>();
    let others = if others > 0 { format!(", others {}", share_of_requests_text(others, info)) } else { String::new() };
    let [half, most] = [50, 99].map(|percent| size(info.size_percentile(percent).into()));
    let largest = size(info.summary.largest_bytes.into());
    format!("{}{others}; half up to {half}, 99 % up to {most}, the largest {largest}", shown.join(", "))
}

fn request_alignment_text(info: &TraceStatistics) -> String {
    let granule = size(info.summary.granule_bytes);
    format!(
        "offsets and sizes are multiples of {granule}; {} of requests are whole blocks of 4 KiB",
        share_of_requests_text(info.aligned, info)
    )
}

fn footprint(info: &TraceStatistics) -> String {
    let BlockFootprint { is_exact, blocks, read_blocks, written_blocks, .. } = info.footprint;
    let about = if is_exact { "" } else { "~" };
    // An estimate may exceed the extent of the trace, so limit it.
    let most = if info.devices.len() == 1 { info.summary.end_bytes.div_ceil(4096) } else { u64::MAX };
    let [blocks, read_blocks, written_blocks] = [blocks, read_blocks, written_blocks].map(|blocks| blocks.min(most));
    let [all, read, written] =
        [blocks, read_blocks, written_blocks].map(|blocks| units::quantity(real(blocks) * 4096.0, "B"));
    let end = units::quantity(real(info.summary.end_bytes), "B");
    format!("{about}{all} of the first {end} are touched: {about}{read} read, {about}{written} written")
}

fn block_reuse_text(footprint: &BlockFootprint) -> String {
    let about = if footprint.is_exact { "" } else { "~" };
    format!(
        "a block of 4 KiB is accessed {about}{} times on average, {about}{} of them once; the busiest tenth gets {about}{}",
        count(footprint.accesses_mean),
        percent(footprint.once_share),
        percent(footprint.busiest_tenth_share),
    )
}
