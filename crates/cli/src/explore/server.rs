//! Server of the explorer's page on this machine, which answers the page's questions as the page's WebAssembly module
//! would.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use phaselink_core::problem::Problem;
use phaselink_serve::http::{self, HttpRoute, HttpStatus, RequestState};
use phaselink_studies::ask;

/// Time that a client of the explorer has to send its request, and again to accept the response.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time after which the server stops computing an answer to a question of the page. The page itself stops waiting
/// earlier.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of clients of the explorer at a time; a page has one request in flight.
const CLIENTS_MAX: usize = 8;
/// Interval at which the server checks if it has been told to stop.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Pause after a failed `accept`, for example because too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// HTTP requests that the explorer's server answers: for the page, and for the answer to a question of the page.
const ROUTES: [HttpRoute; 2] = [
    HttpRoute { method: "GET", path: PAGE_PATH, has_body: false },
    HttpRoute { method: "POST", path: "/ask", has_body: true },
];
const PAGE_PATH: &str = "/";

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

/// Server of the explorer's page, which listens on a TCP port of this machine.
#[derive(Debug)]
pub(super) struct ExplorerServer {
    listener: TcpListener,
}

impl ExplorerServer {
    /// Listens on the loopback address, which other machines cannot reach. Port 0 chooses a free port.
    ///
    /// # Errors
    /// If the port is taken.
    pub(super) fn bind(port: u16) -> Result<ExplorerServer, Problem> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let problem = |error: io::Error| {
            Problem::new(
                "--port",
                None,
                format!("127.0.0.1:{port} cannot be served: {error}"),
                "a free port, or 0 for any",
            )
        };
        listener.map(|listener| ExplorerServer { listener }).map_err(problem)
    }

    /// Returns the address of the page as a URL.
    ///
    /// # Errors
    /// If the system cannot tell the port.
    pub(super) fn address(&self) -> io::Result<String> {
        Ok(format!("http://{}/", self.listener.local_addr()?))
    }

    /// Answers HTTP requests of the page until `stopped` is true. Each client has a thread, so that none waits for the
    /// answer to another.
    ///
    /// # Errors
    /// If the system cannot tell the port.
    pub(super) fn serve(&self, stopped: &Arc<AtomicBool>) -> io::Result<()> {
        let address = self.listener.local_addr()?;
        thread::scope(|scope| {
            // The accept below blocks, so this thread ends it by connecting when the server is to stop.
            scope.spawn(|| {
                while !stopped.load(Ordering::Relaxed) {
                    thread::sleep(STOP_POLL_INTERVAL);
                }
                drop(TcpStream::connect(address));
            });
            self.accept_clients_until(stopped);
        });
        Ok(())
    }

    fn accept_clients_until(&self, stopped: &Arc<AtomicBool>) {
        let page: Arc<str> = super::page::page().into();
        let clients = Arc::new(AtomicUsize::new(0));
        while !stopped.load(Ordering::Relaxed) {
            let Ok((stream, _)) = self.listener.accept() else {
                // A client may disconnect before it is accepted, so try again after a pause.
                thread::sleep(ACCEPT_PAUSE);
                continue;
            };
            if stopped.load(Ordering::Relaxed) {
                return;
            }
            if clients.load(Ordering::Relaxed) >= CLIENTS_MAX {
                let _ = (&stream).write_all(&http::refusal(HttpStatus::Unavailable));
                continue;
            }
            let client = ExplorerClient::new(&clients, Arc::clone(&page), Arc::clone(stopped));
            // If no thread can be started, the connection is closed.
            let _ = thread::Builder::new().spawn(move || client.answer(&stream));
        }
    }
}

/// Connected client of the explorer's server. The server's number of clients includes it until it is dropped.
struct ExplorerClient {
    clients: Arc<AtomicUsize>,
    page: Arc<str>,
    stopped: Arc<AtomicBool>,
}

impl Drop for ExplorerClient {
    fn drop(&mut self) {
        self.clients.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ExplorerClient {
    fn new(clients: &Arc<AtomicUsize>, page: Arc<str>, stopped: Arc<AtomicBool>) -> ExplorerClient {
        clients.fetch_add(1, Ordering::Relaxed);
        ExplorerClient { clients: Arc::clone(clients), page, stopped }
    }

    fn answer(&self, stream: &TcpStream) {
        // If the client disconnects or is too slow, it gets no response, so ignore the error.
        let _ = self.try_to_respond(stream);
    }

    fn try_to_respond(&self, mut stream: &TcpStream) -> io::Result<()> {
        stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
        let (mut bytes, started) = (Vec::new(), Instant::now());
        let response = loop {
            match http::parse_http_request(&bytes, &ROUTES) {
                RequestState::Incomplete => receive(stream, &mut bytes, started)?,
                RequestState::Refused(status) => break http::refusal(status),
                RequestState::Complete { path: PAGE_PATH, .. } => {
                    break http::response(HttpStatus::Ok, HTML, self.page.as_bytes());
                }
                RequestState::Complete { body, .. } => {
                    let answer = self.simulator_response(body);
                    break http::response(HttpStatus::Ok, JSON, answer.as_bytes());
                }
            }
        };
        stream.write_all(&response)
    }

    /// Returns the simulator's answer to a question of the page as JSON text, or a message that it took too long.
    fn simulator_response(&self, question: &[u8]) -> String {
        let started = Instant::now();
        let is_over = || self.stopped.load(Ordering::Relaxed) || started.elapsed() > ANSWER_TIMEOUT;
        ask::answer(question, is_over).to_string()
    }
}

/// Appends bytes that a client sends to `bytes`, which it must do within the client timeout after `started`.
fn receive(mut stream: &TcpStream, bytes: &mut Vec<u8>, started: Instant) -> io::Result<()> {
    let left = CLIENT_TIMEOUT.checked_sub(started.elapsed()).filter(|left| !left.is_zero());
    stream.set_read_timeout(Some(left.ok_or(io::ErrorKind::TimedOut)?))?;
    let mut piece = [0; 4096];
    let length = stream.read(&mut piece)?;
    if length == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    bytes.extend(&piece[..length]);
    Ok(())
}
