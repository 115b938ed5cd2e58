//! Packet ladder as SVG: time runs down, one row for each step, with the host at the left and the device at the right.

use std::fmt::Write;

use super::{colour, escape};
use phaselink_core::ledger::stage::SystemPart;
use phaselink_core::ledger::{Record, Step, Trace};
use phaselink_core::number::real_length;

const WIDTH: f64 = 860.0;
const ROW: f64 = 20.0;
const TOP: f64 = 32.0;
/// X coordinates of the vertical lines of host and device, in the drawing's units.
const HOST: f64 = 320.0;
const DEVICE: f64 = 680.0;
/// Largest number of steps that are drawn; a stream that polls may have many more.
const STEPS_MAX: usize = 120;
/// Largest number of characters of a step's name that fit beside its figures.
const NAME_MAX: usize = 34;

/// Draws the first steps of a trace as SVG, up to a fixed number; empty for an empty trace.
pub fn packets(trace: &Trace) -> String {
    let records = trace.in_order();
    let Some(first) = records.first() else { return String::new() };
    let start_ns = first.from.as_ns();
    let shown = &records[..records.len().min(STEPS_MAX)];
    let mut drawing = ladder_rails_svg(TOP + real_length(shown.len()) * ROW + 6.0);
    for (place, record) in shown.iter().enumerate() {
        draw(&mut drawing, record, start_ns, TOP + real_length(place) * ROW);
    }
    let height = TOP + real_length(shown.len()) * ROW + 8.0;
    drawing.push_str(&values(&records, start_ns));
    let label = format!("{} steps of a request and their packets", records.len());
    let more = match records.len() - shown.len() {
        0 => String::new(),
        more => format!("<p class=\"quiet\">{more} more steps follow.</p>\n"),
    };
    format!(
        "<div class=\"wide\">\n<svg class=\"ladder\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{label}\">\n\
         {drawing}</svg>\n</div>\n{more}"
    )
}

/// Returns all steps of a trace as comma-separated values, with times in ns from the first step on.
fn values(records: &[&Record], start_ns: f64) -> String {
    let row = |record: &&Record| {
        let (place, packets, bytes) = match &record.step {
            Step::Host(_) => ("host", 0, 0),
            Step::Device(_) => ("device", 0, 0),
            Step::Media(_) => ("memory", 0, 0),
            Step::Up { packets, wire_bytes, .. } => ("to host", *packets, *wire_bytes),
            Step::Down { packets, wire_bytes, .. } => ("to device", *packets, *wire_bytes),
        };
        let times = [record.from.as_ns() - start_ns, record.to.as_ns() - start_ns].map(|ns| format!("{ns:.3}"));
        let step = [String::from(place), String::from(record.step.name()), packets.to_string(), bytes.to_string()];
        times.into_iter().chain(step).collect()
    };
    super::data(&["from_ns", "to_ns", "place", "step", "packets", "wire_bytes"], records.iter().map(row))
}

fn ladder_rails_svg(foot: f64) -> String {
    let rail = |x: f64, name: &str, anchor: &str| {
        format!(
            "<path class=\"rail\" d=\"M{x} {:.1}V{foot:.1}\"/><text x=\"{x}\" y=\"14\" text-anchor=\"{anchor}\">{name}</text>\n",
            TOP - 8.0
        )
    };
    let middle = (HOST + DEVICE) / 2.0;
    let of_link = "link: packets, bytes on the wire (ns on the way)";
    format!(
        "<text x=\"62\" y=\"14\" text-anchor=\"end\">ns</text>\n{}{}<text x=\"{middle}\" y=\"14\" text-anchor=\"middle\">{of_link}</text>\n",
        rail(HOST, "host", "end"),
        rail(DEVICE, "device", "start")
    )
}

fn draw(drawing: &mut String, record: &Record, start_ns: f64, top: f64) {
    let (from_ns, long_ns) = (record.from.as_ns() - start_ns, record.to.since(record.from).as_ns());
    let base = top + 14.0;
    let _ = writeln!(drawing, "<text x=\"62\" y=\"{base}\" text-anchor=\"end\">{from_ns:.1}</text>");
    let name = escape(&shortened(record.step.name()));
    let step = match &record.step {
        Step::Host(_) => draw_activity(SystemPart::Host, &format!("{name} ({long_ns:.1})"), top),
        Step::Device(_) => draw_activity(SystemPart::Device, &format!("{name} ({long_ns:.1})"), top),
        Step::Media(_) => draw_activity(SystemPart::Media, &format!("{name} ({long_ns:.1})"), top),
        Step::Up { packets, wire_bytes, .. } => {
            draw_packet_arrow(record, (DEVICE, HOST), &packet_label(&name, *packets, *wire_bytes, long_ns), top)
        }
        Step::Down { packets, wire_bytes, .. } => {
            draw_packet_arrow(record, (HOST, DEVICE), &packet_label(&name, *packets, *wire_bytes, long_ns), top)
        }
    };
    drawing.push_str(&step);
}

/// Returns the label of packets on the link, such as `data ×32, 4864 B (2720.0)`: name, number, bytes on the wire and
/// time in ns.
fn packet_label(name: &str, packets: u32, wire_bytes: u32, long_ns: f64) -> String {
    let count = if packets > 1 { format!(" ×{packets}") } else { String::new() };
    format!("{name}{count}, {wire_bytes} B ({long_ns:.1})")
}

/// Draws an activity of host or device as SVG: a bar at the line of the component, and the text `told`.
fn draw_activity(part: SystemPart, told: &str, top: f64) -> String {
    let (edge, at, anchor) = match part {
        SystemPart::Host => (HOST - 5.0, HOST - 13.0, "end"),
        _ => (DEVICE, DEVICE + 13.0, "start"),
    };
    format!(
        "<rect x=\"{edge}\" y=\"{:.1}\" width=\"5\" height=\"{:.1}\" fill=\"{}\"/><text class=\"main\" x=\"{at}\" y=\"{:.1}\" \
         text-anchor=\"{anchor}\">{told}</text>\n",
        top + 2.0,
        ROW - 4.0,
        colour::system_part_colour(part),
        top + 14.0
    )
}

/// Draws an arrow between the lines of host and device as SVG; it is dotted if the packets are an empty answer.
fn draw_packet_arrow(record: &Record, (from, to): (f64, f64), told: &str, top: f64) -> String {
    let (y, head) = (top + 17.5, if to > from { to - 7.0 } else { to + 7.0 });
    let class = if record.step.is_empty_answer() { "packet empty" } else { "packet" };
    let (above, below) = (y - 3.5, y + 3.5);
    format!(
        "<path class=\"{class}\" d=\"M{from} {y}H{head}\"/><path class=\"head\" d=\"M{to} {y}L{head} {above}V{below}Z\"/>\
         <text class=\"main\" x=\"{}\" y=\"{:.1}\" text-anchor=\"middle\">{told}</text>\n",
        (from + to) / 2.0,
        top + 13.0
    )
}

fn shortened(name: &str) -> String {
    super::shortened(name, NAME_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample::{dc_express_read, nvme_read};

    #[test]
    fn packets_are_drawn_as_arrows_and_activities_as_bars() {
        let drawn = packets(&nvme_read());
        assert_eq!(drawn.matches("class=\"packet\"").count(), 6);
        assert!(
            drawn.contains("y=\"146\" text-anchor=\"end\">898.5</text>") || drawn.contains(">898.5</text>"),
            "{drawn}"
        );
        assert!(drawn.contains("data ×32, 4864 B (2720.0)"));
    }

    #[test]
    fn empty_poll_responses_are_drawn_dotted() {
        let drawn = packets(&dc_express_read());
        assert_eq!(drawn.matches("class=\"packet empty\"").count(), 2);
    }

    #[test]
    fn empty_trace_draws_nothing() {
        assert_eq!(packets(&Trace::default()), "");
    }
}
