//! The explorer's page on this machine alone, with the simulator behind it: what its module would answer is answered here.

pub mod http;
mod page;

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use phaselink_core::ask;
use phaselink_core::problem::Problem;
use rustix::event::{PollFd, PollFlags, Timespec};

use http::{Asked, Request, Status};

/// How long a client may take to ask, and to take its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// A question that takes longer is given up. The page gives up sooner.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Clients at a time; a page has one question under way. More wait for a moment, and are sent away if it does not help.
const CLIENTS_MAX: usize = 8;
/// How often the sign to stop is looked at.
const TURN: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// A page that is ready to be asked for.
#[derive(Debug)]
pub struct Explorer {
    listener: TcpListener,
}

impl Explorer {
    /// Listen on this machine alone; port 0 is any.
    ///
    /// # Errors
    /// If the port is taken.
    pub fn bind(port: u16) -> Result<Explorer, Problem> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let listener = listener.and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
        let problem = |error: io::Error| {
            Problem::new(
                "--port",
                None,
                format!("127.0.0.1:{port} cannot be served: {error}"),
                "a free port, or 0 for any",
            )
        };
        listener.map(|listener| Explorer { listener }).map_err(problem)
    }

    /// Where the page is.
    ///
    /// # Errors
    /// If the system does not know.
    pub fn address(&self) -> io::Result<String> {
        Ok(format!("http://{}/", self.listener.local_addr()?))
    }

    /// Answer until `stopped`. Each client has a thread; none waits for another's answer.
    ///
    /// # Errors
    /// If the system cannot wait for clients.
    pub fn serve(&self, stopped: &Arc<AtomicBool>) -> io::Result<()> {
        let page: Arc<str> = page::page().into();
        let clients = Arc::new(AtomicUsize::new(0));
        while !stopped.load(Ordering::Relaxed) {
            let mut waiting = [PollFd::new(&self.listener, PollFlags::IN)];
            match rustix::event::poll(&mut waiting, Some(&TURN)) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other?,
            };
            // A client that has gone already is no reason to stop.
            let Ok((stream, _)) = self.listener.accept() else { continue };
            if clients.load(Ordering::Relaxed) >= CLIENTS_MAX {
                let _ = write(&stream, "503 Service Unavailable", TEXT, b"too many at a time\n");
                continue;
            }
            let client = Client::enter(&clients, Arc::clone(&page), Arc::clone(stopped));
            // Without a thread there is no answer, and the client sees its connection closed.
            let _ = thread::Builder::new().spawn(move || client.answer(&stream));
        }
        Ok(())
    }
}

const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

/// A client under way; counted while there is one.
struct Client {
    clients: Arc<AtomicUsize>,
    page: Arc<str>,
    stopped: Arc<AtomicBool>,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.clients.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Client {
    fn enter(clients: &Arc<AtomicUsize>, page: Arc<str>, stopped: Arc<AtomicBool>) -> Client {
        clients.fetch_add(1, Ordering::Relaxed);
        Client { clients: Arc::clone(clients), page, stopped }
    }

    fn answer(&self, stream: &TcpStream) {
        // A client that leaves, or is too slow, does not want its answer.
        let _ = self.try_to_answer(stream);
    }

    fn try_to_answer(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (mut bytes, begun) = (Vec::new(), Instant::now());
        loop {
            match http::read(&bytes) {
                Asked::Unfinished => receive(stream, &mut bytes, begun)?,
                Asked::Refused(status) => return refuse(stream, status),
                Asked::Whole(Request::Page) => return write(stream, Status::Ok.words(), HTML, self.page.as_bytes()),
                Asked::Whole(Request::Question(question)) => {
                    let answer = self.told(question);
                    return write(stream, Status::Ok.words(), JSON, answer.as_bytes());
                }
            }
        }
    }

    /// The answer as the module gives it, or that it took too long.
    fn told(&self, question: &[u8]) -> String {
        let begun = Instant::now();
        ask::answer(question, || self.stopped.load(Ordering::Relaxed) || begun.elapsed() > ANSWER_MAX).to_string()
    }
}

/// Read what comes next.
fn receive(mut stream: &TcpStream, bytes: &mut Vec<u8>, begun: Instant) -> io::Result<()> {
    let left = PATIENCE.checked_sub(begun.elapsed()).filter(|left| !left.is_zero());
    stream.set_read_timeout(Some(left.ok_or(io::ErrorKind::TimedOut)?))?;
    let mut piece = [0; 4096];
    let length = stream.read(&mut piece)?;
    if length == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    bytes.extend(&piece[..length]);
    Ok(())
}

fn refuse(stream: &TcpStream, status: Status) -> io::Result<()> {
    write(stream, status.words(), TEXT, format!("{}\n", status.words()).as_bytes())
}

/// An answer. The page may run its own scripts and ask here, and nothing else; nobody may frame or keep it.
fn write(mut stream: &TcpStream, status: &str, kind: &str, body: &[u8]) -> io::Result<()> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
         Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
         connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)
}
