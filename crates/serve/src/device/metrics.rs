//! Metrics of a served device in the text format of Prometheus, over HTTP on this machine only.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use phaselink_core::ledger::Latency;
use phaselink_core::number::real;
use phaselink_core::problem::Problem;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::device::Device;
use crate::device::tally::Tally;
use crate::http::{self, HttpRoute, HttpStatus, RequestState};

/// Time in which a client must send its whole request, before its connection is closed.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(999);
/// Maximum number of clients with an incomplete request. One more replaces the client that connected first.
const CLIENTS_MAX: usize = 64;
/// Only HTTP request that is answered.
const ROUTES: [HttpRoute; 1] = [HttpRoute { method: "GET", path: "/metrics", has_body: false }];
/// HTTP content type of the Prometheus text format, version 0.0.4.
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4";
const QUANTILES: [(&str, f64); 3] = [("0.5", 50.0), ("0.99", 99.0), ("0.999", 99.9)];

/// Listens for metrics requests at a loopback address.
///
/// # Errors
///
/// If `address` is no loopback address, or its port is taken.
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

/// HTTP client whose request is not complete yet.
struct MetricsClient {
    stream: TcpStream,
    bytes: Vec<u8>,
    connected: Instant,
}

/// Answers HTTP requests for the metrics until the device is to stop. A slow client does not delay others.
///
/// # Errors
/// If the system cannot wait for sockets.
pub fn serve(listener: &TcpListener, device: &Device) -> io::Result<()> {
    let mut clients: Vec<MetricsClient> = Vec::new();
    while !device.stop.is_requested() {
        let mut sockets = vec![PollFd::new(listener, PollFlags::IN), PollFd::new(&*device.stop, PollFlags::IN)];
        sockets.extend(clients.iter().map(|client| PollFd::new(&client.stream, PollFlags::IN)));
        let timeout = Timespec { tv_sec: 0, tv_nsec: REQUEST_TIMEOUT.subsec_nanos().into() };
        match rustix::event::poll(&mut sockets, Some(&timeout).filter(|_| !clients.is_empty())) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        clients
            .retain_mut(|client| client.connected.elapsed() < REQUEST_TIMEOUT && client.serve(device).unwrap_or(false));
        if let Ok((stream, _)) = listener.accept()
            && stream.set_nonblocking(true).is_ok()
        {
            if clients.len() == CLIENTS_MAX {
                clients.remove(0);
            }
            clients.push(MetricsClient { stream, bytes: Vec::new(), connected: Instant::now() });
        }
    }
    Ok(())
}

impl MetricsClient {
    /// Reads the bytes that have arrived from a client, and answers its request if it is complete. Returns true if more
    /// bytes have to arrive.
    fn serve(&mut self, device: &Device) -> io::Result<bool> {
        let mut piece = [0; 512];
        loop {
            match (&self.stream).read(&mut piece) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Ok(0) => return Ok(false),
                other => self.bytes.extend(&piece[..other?]),
            }
            let response = match http::parse_http_request(&self.bytes, &ROUTES) {
                RequestState::Incomplete => continue,
                RequestState::Refused(status) => http::refusal(status),
                RequestState::Complete { .. } => {
                    let text = text(&device.tallies.sum(), &device.faults.counters());
                    http::response(HttpStatus::Ok, PROMETHEUS_TEXT, text.as_bytes())
                }
            };
            // The response fits in the socket's buffer, so the write does not block. If the client has disconnected, it
            // is lost.
            (&self.stream).write_all(&response)?;
            return Ok(false);
        }
    }
}

/// Returns the metrics in the Prometheus text format. `faults` are the counters of applied fault effects.
pub fn text(tally: &Tally, faults: &[(&'static str, u64)]) -> String {
    let mut text = String::new();
    let all = tally.directions();
    write_metric_head(&mut text, "requests_total", "counter", "Requests served.");
    for (op, direction) in all {
        write_sample(&mut text, "requests_total", &format!("op=\"{op}\""), real(direction.ios));
    }
    write_metric_head(&mut text, "bytes_total", "counter", "Bytes of user data moved, discarded or filled with zeros.");
    for (op, direction) in all.into_iter().filter(|(op, _)| *op != "flush") {
        write_sample(&mut text, "bytes_total", &format!("op=\"{op}\""), real(direction.bytes));
    }
    write_metric_head(&mut text, "errors_total", "counter", "Requests refused or failed.");
    let _ = writeln!(text, "phaselink_errors_total {}", tally.errors);
    if !faults.is_empty() {
        write_metric_head(&mut text, "faults_total", "counter", "Effects of fault rules, by the counter of a run.");
    }
    for (name, count) in faults {
        write_sample(&mut text, "faults_total", &format!("counter=\"{name}\""), real(*count));
    }
    write_metric_head(
        &mut text,
        "completions_total",
        "counter",
        "Completions that hosts took from their queues: polled, or after an interrupt.",
    );
    for (seen, count) in [("polled", tally.taken.polled), ("interrupt", tally.taken.after_interrupt)] {
        write_sample(&mut text, "completions_total", &format!("seen=\"{seen}\""), real(count));
    }
    if !tally.undefined.is_empty() {
        write_metric_head(
            &mut text,
            "undefined_total",
            "counter",
            "What hosts did that their specification leaves undefined.",
        );
    }
    for (behaviour, count) in &tally.undefined {
        write_sample(&mut text, "undefined_total", &format!("kind=\"{}\"", behaviour.kind), real(*count));
    }
    write_metric_head(&mut text, "latency_seconds", "summary", "From a request's arrival at the server to its answer.");
    for (op, direction) in all {
        write_latency_summary(&mut text, "latency_seconds", &format!("op=\"{op}\""), &direction.latency);
    }
    write_metric_head(&mut text, "lag_seconds", "summary", "How much later than modelled answers were given.");
    write_latency_summary(&mut text, "lag_seconds", "", &tally.lag);
    text
}

fn write_metric_head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP phaselink_{name} {help}\n# TYPE phaselink_{name} {kind}");
}

fn write_sample(text: &mut String, name: &str, labels: &str, value: f64) {
    let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    let _ = writeln!(text, "phaselink_{name}{labels} {value}");
}

fn write_latency_summary(text: &mut String, name: &str, labels: &str, latency: &Latency) {
    let comma = if labels.is_empty() { "" } else { "," };
    for (quantile, percent) in QUANTILES {
        let seconds = latency.percentile(percent).as_s();
        write_sample(text, name, &format!("{labels}{comma}quantile=\"{quantile}\""), seconds);
    }
    write_sample(text, &format!("{name}_sum"), labels, latency.mean_ns() * real(latency.count()) / 1e9);
    write_sample(text, &format!("{name}_count"), labels, real(latency.count()));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use phaselink_core::drive::Drive;

    use super::*;
    use crate::device::StopRequest;
    use crate::device::store::{Geometry, Store};

    fn device() -> Device {
        Device {
            drive: Arc::new(Drive::shipped("nvme").unwrap()),
            store: Arc::new(Store::in_memory(Geometry { capacity_bytes: 4096, block_bytes: 512 }).unwrap()),
            tallies: Arc::default(),
            record: None,
            history: None,
            faults: Arc::default(),
            stop: Arc::new(StopRequest::new().unwrap()),
        }
    }

    /// Returns a client's end of a connection, and the server's.
    fn connection() -> (TcpStream, MetricsClient) {
        let listener = bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        rustix::event::poll(&mut [PollFd::new(&listener, PollFlags::IN)], None).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        (client, MetricsClient { stream, bytes: Vec::new(), connected: Instant::now() })
    }

    /// Sends bytes from the client to the server, which serves them. Returns true if more bytes have to arrive.
    fn send(client: &mut TcpStream, bytes: &[u8], served: &mut MetricsClient, device: &Device) -> bool {
        client.write_all(bytes).unwrap();
        rustix::event::poll(&mut [PollFd::new(&served.stream, PollFlags::IN)], None).unwrap();
        served.serve(device).unwrap()
    }

    /// Returns the HTTP response to a complete request.
    fn http_response_to_request(request: &str) -> String {
        let (device, (mut client, mut served)) = (device(), connection());
        assert!(!send(&mut client, request.as_bytes(), &mut served, &device), "{request} is incomplete");
        drop(served);
        let mut response = String::new();
        client.read_to_string(&mut response).unwrap();
        response
    }

    #[test]
    fn metrics_request_received_in_parts_is_answered_when_complete() {
        let (device, (mut client, mut served)) = (device(), connection());
        assert!(send(&mut client, b"GET /metrics HTT", &mut served, &device));
        assert!(!send(&mut client, b"P/1.1\r\nHost: localhost\r\n\r\n", &mut served, &device));
        drop(served);
        let mut response = String::new();
        client.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 200 OK") && response.contains("phaselink_requests_total"), "{response}");
    }

    #[test]
    fn metrics_request_with_foreign_host_or_other_path_is_refused() {
        for (request, status) in [
            ("GET /metrics HTTP/1.1\r\nHost: rebound.example\r\n\r\n", "403"),
            ("GET /metrics HTTP/1.1\r\nHost: localhost\r\nOrigin: http://other.example\r\n\r\n", "403"),
            ("GET /metrics HTTP/1.1\r\n\r\n", "403"),
            ("GET / HTTP/1.1\r\nHost: 127.0.0.1:9100\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\nHost: 127.0.0.1:9100\r\n\r\n", "405"),
        ] {
            let response = http_response_to_request(request);
            assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {response}");
            assert!(!response.contains("phaselink_"), "{request}: {response}");
        }
    }

    #[test]
    fn metrics_request_head_without_end_is_refused_at_the_length_limit() {
        let (device, (mut client, mut served)) = (device(), connection());
        let pieces = http::HEAD_BYTES_MAX / 64;
        let until = (0..2 * pieces).position(|_| !send(&mut client, &[b'x'; 64], &mut served, &device));
        assert_eq!(until, Some(pieces));
    }
}
