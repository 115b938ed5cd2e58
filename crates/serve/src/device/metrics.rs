//! What has been served, for Prometheus: its text format over HTTP, on this machine only.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use phaselink_core::ledger::Latency;
use phaselink_core::problem::Problem;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::device::Device;
use crate::device::tally::Tally;

/// A client that says nothing for so long is let go.
const PATIENCE: Duration = Duration::from_secs(1);
/// The head of a request; whatever follows is not read.
const REQUEST_BYTES_MAX: usize = 4096;
const QUANTILES: [(&str, f64); 3] = [("0.5", 50.0), ("0.99", 99.0), ("0.999", 99.9)];

/// Listen at a loopback address.
///
/// # Errors
/// If it is none, or taken.
pub fn bind(address: &str) -> Result<TcpListener, Problem> {
    let problem = |found: String, allowed: &str| Problem::new("--metrics", None, found, allowed);
    let parsed: Result<SocketAddr, _> = address.parse();
    let parsed = parsed.map_err(|_| problem(format!("`{address}` is no address"), "127.0.0.1:PORT"))?;
    if !parsed.ip().is_loopback() {
        return Err(problem(format!("{parsed} can be reached from other machines"), "127.0.0.1:PORT"));
    }
    let listener = TcpListener::bind(parsed).and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    listener.map_err(|error| problem(format!("{parsed} cannot be served: {error}"), ""))
}

/// Answer every request with the metrics, until the device is told to stop.
///
/// # Errors
/// If the system cannot wait for sockets.
pub fn serve(listener: &TcpListener, device: &Device) -> io::Result<()> {
    while !device.stop.is_requested() {
        let mut sockets = [PollFd::new(listener, PollFlags::IN), PollFd::new(&*device.stop, PollFlags::IN)];
        match rustix::event::poll(&mut sockets, None::<&Timespec>) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        if let Ok((stream, _)) = listener.accept() {
            // A client that leaves before its answer does not want it.
            let _ = answer(&stream, &text(&device.tallies.sum()));
        }
    }
    Ok(())
}

fn answer(mut stream: &TcpStream, body: &str) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut head = Vec::new();
    let mut piece = [0; 512];
    while head.len() < REQUEST_BYTES_MAX && !head.windows(4).any(|four| four == b"\r\n\r\n") {
        match stream.read(&mut piece)? {
            0 => break,
            bytes => head.extend(&piece[..bytes]),
        }
    }
    let status = if head.starts_with(b"GET ") { "200 OK" } else { "405 Method Not Allowed" };
    let kind = "text/plain; version=0.0.4";
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

/// The metrics as text.
pub fn text(tally: &Tally) -> String {
    let mut text = String::new();
    let both = [("read", &tally.read), ("write", &tally.write)];
    head(&mut text, "requests_total", "counter", "Requests served.");
    for (op, direction) in both {
        line(&mut text, "requests_total", &format!("op=\"{op}\""), direction.ios as f64);
    }
    line(&mut text, "requests_total", "op=\"flush\"", tally.flushes as f64);
    line(&mut text, "requests_total", "op=\"discard\"", tally.discards as f64);
    head(&mut text, "bytes_total", "counter", "Bytes of user data moved.");
    for (op, direction) in both {
        line(&mut text, "bytes_total", &format!("op=\"{op}\""), direction.bytes as f64);
    }
    head(&mut text, "errors_total", "counter", "Requests refused or failed.");
    let _ = writeln!(text, "phaselink_errors_total {}", tally.errors);
    head(&mut text, "latency_seconds", "summary", "From a request's arrival at the server to its answer.");
    for (op, direction) in both {
        summary(&mut text, "latency_seconds", &format!("op=\"{op}\""), &direction.latency);
    }
    head(&mut text, "lag_seconds", "summary", "How much later than modelled answers were given.");
    summary(&mut text, "lag_seconds", "", &tally.lag);
    text
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP phaselink_{name} {help}\n# TYPE phaselink_{name} {kind}");
}

fn line(text: &mut String, name: &str, labels: &str, value: f64) {
    let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    let _ = writeln!(text, "phaselink_{name}{labels} {value}");
}

fn summary(text: &mut String, name: &str, labels: &str, latency: &Latency) {
    let comma = if labels.is_empty() { "" } else { "," };
    for (quantile, percent) in QUANTILES {
        let seconds = latency.percentile(percent).as_s();
        line(text, name, &format!("{labels}{comma}quantile=\"{quantile}\""), seconds);
    }
    line(text, &format!("{name}_sum"), labels, latency.mean_ns() * latency.count() as f64 / 1e9);
    line(text, &format!("{name}_count"), labels, latency.count() as f64);
}
