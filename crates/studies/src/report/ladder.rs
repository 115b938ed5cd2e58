//! Packet ladder as text: the steps of a trace at the host, on the link and at the device, with time running down, as
//! papers on protocols draw them.

use std::fmt::Write;

use super::table::characters;
use phaselink_core::ledger::{Record, Step, Trace};
use phaselink_core::time::{Span, Time};

const LEGEND: &str = "times in ns, (duration), xN packets, bytes on the wire, # memory, ... nothing found";
/// Largest length of a line in characters.
const WIDTH: usize = 100;
/// Smallest width of the host's and the device's column in characters; `SIDE_MAX` is the largest. The link's column
/// takes the rest of a line.
const SIDE_MIN: usize = 12;
const SIDE_MAX: usize = 24;
/// Characters that an arrow needs besides its label: head, a stroke at each end, two blanks.
const ARROW_MIN: usize = 5;

/// Returns a trace as text in three columns, host, link and device, of at most 100 characters a line.
///
/// At the left of a line are the time at which a step begins and the gap to the line above. An arrow states what the
/// packets carry, their number (if more than one), and their bytes on the wire. The duration of the step is in
/// brackets; for packets, it runs from the first symbol on the wire to the last packet usable at the other end. All
/// times are in ns. Queue reads that find nothing are dotted; `#` marks the memory.
pub fn ladder(trace: &Trace, title: &str) -> String {
    let records = trace.in_order();
    let columns = Columns::of(&records);
    let mut text = format!("{title}\n{LEGEND}\n\n{}\n", columns.header());
    let mut above = None;
    for record in &records {
        let _ = writeln!(text, "{}", columns.line(record, above));
        above = Some(record.from);
    }
    if let (Some(end), Some(above)) = (records.iter().map(|record| record.to).max(), above) {
        let _ = writeln!(
            text,
            "{}",
            columns.join_ladder_columns(&columns.margin(end, Some(above)), "", &columns.idle(), "end")
        );
    }
    if trace.dropped() > 0 {
        let _ = writeln!(text, "\n{} more steps were not recorded.", trace.dropped());
    }
    text
}

/// Widths of the columns of a packet ladder, in characters.
struct Columns {
    time: usize,
    host: usize,
    link: usize,
    device: usize,
    /// True if each step states the request that it belongs to, because there are several requests.
    owners: bool,
}

impl Columns {
    fn of(records: &[&Record]) -> Columns {
        let first_owner = records.iter().find_map(|record| record.request);
        let owners = records.iter().any(|record| record.request.is_some() && record.request != first_owner);
        let latest = records.iter().map(|record| record.to).max().unwrap_or(Time::ZERO);
        let time = characters(&in_ns(latest.as_ns())).max(8);
        let side = |is_host: bool| {
            let widest = records.iter().filter(|record| is_step_of_side(&record.step, is_host));
            let widest = widest.map(|record| characters(&activity(record, owners))).max();
            widest.unwrap_or(0).clamp(SIDE_MIN, SIDE_MAX)
        };
        let (host, device) = (side(true), side(false));
        let link = WIDTH - (2 * time + 2) - host - device - 4;
        Columns { time, host, link, device, owners }
    }

    fn header(&self) -> String {
        let margin = format!("{:>time$} {:>time$}", "ns", "gap", time = self.time);
        let link = format!("{:^width$}", "link", width = self.link);
        self.join_ladder_columns(&margin, "host", &link, "device")
    }

    fn line(&self, record: &Record, above: Option<Time>) -> String {
        let margin = self.margin(record.from, above);
        match &record.step {
            Step::Host(_) => self.join_ladder_columns(&margin, &activity(record, self.owners), &self.idle(), ""),
            Step::Device(_) | Step::Media(_) => {
                self.join_ladder_columns(&margin, "", &self.idle(), &activity(record, self.owners))
            }
            Step::Up { packets, wire_bytes, .. } => {
                self.join_ladder_columns(&margin, "", &arrow(record, *packets, *wire_bytes, self, true), "")
            }
            Step::Down { packets, wire_bytes, .. } => {
                self.join_ladder_columns(&margin, "", &arrow(record, *packets, *wire_bytes, self, false), "")
            }
        }
    }

    /// Returns the left margin of a line: the time of the step and the gap to the step above, in ns.
    fn margin(&self, at: Time, above: Option<Time>) -> String {
        let gap = above.map_or(String::new(), |above| format!("+{}", in_ns(at.since(above).as_ns())));
        format!("{:>time$} {:>time$}", in_ns(at.as_ns()), gap, time = self.time)
    }

    fn idle(&self) -> String {
        " ".repeat(self.link)
    }

    fn join_ladder_columns(&self, margin: &str, host: &str, link: &str, device: &str) -> String {
        let (host, device) = (fit_to_width(host, self.host), fit_to_width(device, self.device));
        let line = format!("{margin} {host:>width$} |{link}| {device}", width = self.host);
        line.trim_end().to_string()
    }
}

/// True if the step belongs to the host's column (`is_host`), or to the device's column (not `is_host`); false for
/// packets.
fn is_step_of_side(step: &Step, is_host: bool) -> bool {
    match step {
        Step::Host(_) => is_host,
        Step::Device(_) | Step::Media(_) => !is_host,
        Step::Up { .. } | Step::Down { .. } => false,
    }
}

/// Formats an activity of host, controller or memory with its duration in ns.
fn activity(record: &Record, owners: bool) -> String {
    let mark = if matches!(record.step, Step::Media(_)) { "# " } else { "" };
    let length = record.to.since(record.from);
    let length = if length.is_zero() { String::new() } else { bracketed_duration(length) };
    format!("{mark}{}{}{length}", owner(record, owners), record.step.name())
}

/// Draws packets on the link as an arrow: `--- data x4, 608 B (456.0) -->`; the number of a single packet is left out.
fn arrow(record: &Record, packets: u32, wire_bytes: u32, columns: &Columns, up: bool) -> String {
    let count = if packets == 1 { String::new() } else { format!(" x{packets}") };
    let figures = format!("{count}, {wire_bytes} B{}", bracketed_duration(record.to.since(record.from)));
    let room = columns.link.saturating_sub(ARROW_MIN);
    let name = fit_to_width(
        &format!("{}{}", owner(record, columns.owners), record.step.name()),
        room - figures.len().min(room),
    );
    let label = format!(" {} ", fit_to_width(&format!("{name}{figures}"), room));
    let shaft = if record.step.is_empty_answer() { "." } else { "-" };
    let strokes = columns.link.saturating_sub(1 + characters(&label));
    let (left, right) = (shaft.repeat(strokes / 2), shaft.repeat(strokes - strokes / 2));
    if up { format!("<{left}{label}{right}") } else { format!("{left}{label}{right}>") }
}

fn owner(record: &Record, owners: bool) -> String {
    match record.request {
        Some(request) if owners => format!("{request}: "),
        _ => String::new(),
    }
}

/// Returns a duration as text in brackets, after a space.
fn bracketed_duration(span: Span) -> String {
    format!(" ({})", in_ns(span.as_ns()))
}

fn in_ns(ns: f64) -> String {
    format!("{ns:.1}")
}

/// Cuts `text` to `width` characters, of which the last one is then an ellipsis.
fn fit_to_width(text: &str, width: usize) -> String {
    if characters(text) <= width {
        return text.to_string();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    if width > 0 {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample::{dc_express_read, nvme_read, record, trace_of, up};
    use expect_test::expect;

    #[test]
    fn ladder_of_an_nvme_read_matches_figure_1a() {
        expect![[r#"
            NVMe read of 4096 B
            times in ns, (duration), xN packets, bytes on the wire, # memory, ... nothing found

                  ns      gap                    host |                link                 | device
                 0.0                       enq (60.0) |                                     |
                60.0    +60.0                         |------ doorbell, 28 B (254.0) ------>|
               314.0   +254.0                         |<---- command read, 24 B (252.0) ----|
               566.0   +252.0                         |------ command, 88 B (300.5) ------->|
               866.5   +300.5                         |                                     | parse (32.0)
               898.5    +32.0                         |                                     | # PCM read (110.0)
              1008.5   +110.0                         |<---- data x32, 4864 B (2720.0) -----|
              3500.5  +2492.0                         |<-- completion entry, 40 B (260.0) --|
              3520.5    +20.0                         |<----- interrupt, 28 B (254.0) ------|
              3774.5   +254.0      interrupt (1200.0) |                                     |
              4974.5  +1200.0 context switch (1100.0) |                                     |
              6074.5  +1100.0                    done |                                     |
              6074.5     +0.0                         |                                     | end
        "#]]
        .assert_eq(&ladder(&nvme_read(), "NVMe read of 4096 B"));
    }

    #[test]
    fn ladder_of_a_dc_express_read_matches_figure_1b() {
        expect![[r#"
            DC Express read of 512 B
            times in ns, (duration), xN packets, bytes on the wire, # memory, ... nothing found

                  ns      gap                host |                  link                   | device
                 0.0                              |<------- queue read, 24 B (252.0) -------|
               200.0   +200.0 enq and mark (60.0) |                                         |
               252.0    +52.0                     |...... empty answer, 88 B (300.0) ......>|
               300.0    +48.0                     |<------- queue read, 24 B (252.0) -------|
               552.0   +252.0                     |-------- command, 88 B (300.5) --------->|
               612.0    +60.0                     |<------- queue read, 24 B (252.0) -------|
               852.5   +240.5                     |                                         | parse (32.0)
               864.0    +11.5                     |...... empty answer, 88 B (300.0) ......>|
               884.5    +20.5                     |                                         | # PCM read (110.0)
               994.5   +110.0                     |<-------- data x4, 608 B (456.0) --------|
              1450.5   +456.0    check tags (9.6) |                                         |
              1460.1     +9.6                     |                                         | end
        "#]]
        .assert_eq(&ladder(&dc_express_read(), "DC Express read of 512 B"));
    }

    #[test]
    fn ladder_of_several_requests_names_the_owner_of_each_step() {
        let trace = trace_of(vec![
            record(Some(3), 0, 1000, Step::Host("enq".into())),
            record(Some(4), 1000, 2000, up("data", 1, 152)),
        ]);
        let text = ladder(&trace, "two");
        assert!(text.contains("3: enq (1.0)") && text.contains("4: data"), "{text}");
    }

    #[test]
    fn ladder_lines_have_at_most_100_characters() {
        let late = u64::MAX - 5;
        let name = "a name that nobody would ever want to read in full";
        let mut trace = Trace::new(4);
        for step in [Step::Host(name.into()), Step::Media(name.into()), up(name, u32::MAX, u32::MAX)] {
            trace.push(record(Some(u64::MAX), late, u64::MAX, step));
        }
        trace.push(record(Some(1), 0, u64::MAX, up(name, u32::MAX, u32::MAX)));
        for line in ladder(&trace, "long").lines() {
            assert!(characters(line) <= WIDTH, "{} characters: {line}", characters(line));
        }
    }

    #[test]
    fn ladder_of_an_empty_trace_is_only_its_header() {
        assert_eq!(ladder(&Trace::default(), "nothing").lines().count(), 4);
    }
}
