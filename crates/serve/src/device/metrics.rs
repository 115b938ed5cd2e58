//! What has been served, for Prometheus: its text format over HTTP, on this machine only.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use phaselink_core::ledger::Latency;
use phaselink_core::problem::Problem;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::device::Device;
use crate::device::tally::Tally;

/// A client that has not asked whole by then is let go.
const PATIENCE: Duration = Duration::from_millis(999);
/// Clients that may be about to ask; one more takes the place of the one that came first.
const CLIENTS_MAX: usize = 64;
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

/// A client that has not asked whole yet.
struct Asking {
    stream: TcpStream,
    head: Vec<u8>,
    since: Instant,
}

/// Answer every request with the metrics, until the device is told to stop. Nobody who is slow to ask, or to listen, holds
/// up others.
///
/// # Errors
/// If the system cannot wait for sockets.
pub fn serve(listener: &TcpListener, device: &Device) -> io::Result<()> {
    let mut asking: Vec<Asking> = Vec::new();
    while !device.stop.is_requested() {
        let mut sockets = vec![PollFd::new(listener, PollFlags::IN), PollFd::new(&*device.stop, PollFlags::IN)];
        sockets.extend(asking.iter().map(|one| PollFd::new(&one.stream, PollFlags::IN)));
        let timeout = Timespec { tv_sec: 0, tv_nsec: PATIENCE.subsec_nanos().into() };
        match rustix::event::poll(&mut sockets, Some(&timeout).filter(|_| !asking.is_empty())) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        asking.retain_mut(|one| one.since.elapsed() < PATIENCE && one.go_on(device).unwrap_or(false));
        if let Ok((stream, _)) = listener.accept()
            && stream.set_nonblocking(true).is_ok()
        {
            if asking.len() == CLIENTS_MAX {
                asking.remove(0);
            }
            asking.push(Asking { stream, head: Vec::new(), since: Instant::now() });
        }
    }
    Ok(())
}

impl Asking {
    /// Read what has come, and answer once the question is whole; whether more is to come.
    fn go_on(&mut self, device: &Device) -> io::Result<bool> {
        let mut piece = [0; 512];
        loop {
            match (&self.stream).read(&mut piece) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Ok(0) => return Ok(false),
                other => self.head.extend(&piece[..other?]),
            }
            if self.head.windows(4).any(|four| four == b"\r\n\r\n") {
                // An answer fits the socket's buffer. A client that leaves before it does not want it.
                answer(&self.stream, &self.head, &text(&device.tallies.sum()))?;
                return Ok(false);
            }
            if self.head.len() >= REQUEST_BYTES_MAX {
                return Ok(false);
            }
        }
    }
}

fn answer(mut stream: &TcpStream, head: &[u8], body: &str) -> io::Result<()> {
    let status = if head.starts_with(b"GET ") { "200 OK" } else { "405 Method Not Allowed" };
    let kind = "text/plain; version=0.0.4";
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(answer.as_bytes())
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
    if !tally.undefined.is_empty() {
        head(&mut text, "undefined_total", "counter", "What hosts did that their specification leaves undefined.");
    }
    for (behaviour, count) in &tally.undefined {
        line(&mut text, "undefined_total", &format!("kind=\"{}\"", behaviour.kind), *count as f64);
    }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use phaselink_core::drive::Drive;

    use super::*;
    use crate::device::Stop;
    use crate::device::store::{Geometry, Store};

    fn device() -> Device {
        Device {
            drive: Arc::new(Drive::shipped("nvme").unwrap()),
            store: Arc::new(Store::in_memory(Geometry { capacity_bytes: 4096, block_bytes: 512 }).unwrap()),
            tallies: Arc::default(),
            record: None,
            history: None,
            faults: Arc::default(),
            stop: Arc::new(Stop::new().unwrap()),
        }
    }

    /// Both ends of a connection.
    fn connection() -> (TcpStream, Asking) {
        let listener = bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        rustix::event::poll(&mut [PollFd::new(&listener, PollFlags::IN)], None).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        (client, Asking { stream, head: Vec::new(), since: Instant::now() })
    }

    /// What the client says arrives: whether more is to come.
    fn says(client: &mut TcpStream, words: &[u8], asking: &mut Asking, device: &Device) -> bool {
        client.write_all(words).unwrap();
        rustix::event::poll(&mut [PollFd::new(&asking.stream, PollFlags::IN)], None).unwrap();
        asking.go_on(device).unwrap()
    }

    #[test]
    fn a_question_that_comes_in_parts_is_answered_when_it_is_whole() {
        let (device, (mut client, mut asking)) = (device(), connection());
        assert!(says(&mut client, b"GET /metrics HTT", &mut asking, &device));
        assert!(!says(&mut client, b"P/1.1\r\n\r\n", &mut asking, &device));
        drop(asking);
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("phaselink_requests_total"), "{answer}");
    }

    #[test]
    fn a_question_without_an_end_is_let_go_once_it_is_too_long() {
        let (device, (mut client, mut asking)) = (device(), connection());
        let lines = REQUEST_BYTES_MAX / 64;
        let until = (0..lines).position(|_| !says(&mut client, &[b'x'; 64], &mut asking, &device));
        assert_eq!(until, Some(lines - 1));
    }
}
