//! Status line of a running server, for people at a terminal.

use std::io::{self, IsTerminal, Write};
use std::thread;
use std::time::{Duration, Instant};

use phaselink_core::ledger::Latency;
use phaselink_core::number::real;
use phaselink_serve::device::Device;
use phaselink_serve::device::tally::Tally;
use phaselink_studies::results::units;

/// Time between two checks whether the server has stopped; `LINE` is the time between two status lines.
const TICK: Duration = Duration::from_millis(100);
const LINE: Duration = Duration::from_secs(1);

/// Updates the status line of the server every second, until the server stops. Does nothing if standard output or
/// standard error is no terminal.
pub(super) fn show(device: &Device) {
    if !(io::stdout().is_terminal() && io::stderr().is_terminal()) {
        return;
    }
    let (mut before, mut since) = (device.tallies.sum(), Instant::now());
    while !device.stop.is_requested() {
        thread::sleep(TICK);
        if since.elapsed() >= LINE {
            let now = device.tallies.sum();
            draw_status_line(&line(&before, &now, since.elapsed().as_secs_f64()));
            (before, since) = (now, Instant::now());
        }
    }
    draw_status_line("");
}

fn draw_status_line(text: &str) {
    // If the terminal is closed, the status is not shown.
    let _ = write!(io::stderr(), "\r\x1b[K{text}");
}

/// Formats the status line of a server: IOPS and bandwidth since `before`, and latencies and lag since the server's
/// start.
fn line(before: &Tally, now: &Tally, seconds: f64) -> String {
    let rate = |count: &dyn Fn(&Tally) -> u64| real(count(now).saturating_sub(count(before))) / seconds;
    let iops = rate(&|tally| tally.read.ios + tally.write.ios).round();
    let bytes = rate(&|tally| tally.read.bytes + tally.write.bytes);
    let mut latency = now.read.latency.clone();
    latency.merge(&now.write.latency);
    let mut text = format!("{} IOPS, {}", units::count(iops), units::quantity(bytes, "B/s"));
    for (name, latency) in [("latency", &latency), ("lag", &now.lag)].into_iter().filter(|(_, it)| it.count() > 0) {
        text += &format!(", {name} p50 {} p99 {}", percentile(latency, 50.0), percentile(latency, 99.0));
    }
    text
}

fn percentile(latency: &Latency, percent: f64) -> String {
    units::span(latency.percentile(percent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use phaselink_core::time::Span;

    #[test]
    fn status_rates_cover_the_last_interval_and_show_any_lag() {
        let (before, mut now) = (Tally::default(), Tally::default());
        (0..500).for_each(|_| now.read.count(4096, Span::from_us(7)));
        assert_eq!(line(&before, &now, 0.5), "1.00 k IOPS, 4.10 MB/s, latency p50 7.00 us p99 7.00 us");
        now.lag.record(Span::from_ns(800));
        assert!(line(&now, &now, 1.0).ends_with("lag p50 800 ns p99 800 ns"));
        assert!(line(&now, &now, 1.0).starts_with("0 IOPS, 0 B/s"));
    }
}
