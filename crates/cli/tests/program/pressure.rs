//! A server that is short of what it needs to run in: memory, and the processor's time, so that its clock seems to jump.
#![cfg(target_os = "linux")]

use std::fs;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{directory, nbd, program};
use phaselink_serve::front::nbd::client::Client;
use phaselink_serve::front::nbd::uri::Uri;
use phaselink_serve::front::nbd::wire::{Request, command};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

const BLOCK_BYTES: u32 = nbd::BLOCK_BYTES as u32;
/// The longest message of NBD.
const LONGEST_BYTES: u32 = 32 << 20;
const NO_MEMORY: u32 = 12;
/// How long anything takes at most that a server in need does.
const PATIENCE: Duration = Duration::from_secs(60);

struct Server {
    child: Child,
    uri: Uri,
}

impl Server {
    /// A server of 64 MiB.
    fn start(test: &str, timing: &str) -> Server {
        let here = directory(test);
        let uri = format!("nbd+unix:///?socket={}", here.join("nbd.sock").display());
        let mut command = program();
        command.current_dir(&here).args(["serve", "nvme-polled", "--set", "media.capacity_mib=64", "--nbd", &uri]);
        command.args(["--timing", timing, "--lag-tolerance-us", "1e9"]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Server { child, uri: Uri::parse(&uri).unwrap() }
    }

    fn connect(&self) -> Client {
        nbd::connect(&self.uri, PATIENCE)
    }

    fn server_pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// From now on the server gets so many bytes of memory of its own and no more, or as many as it likes.
    fn limit(&self, more: Option<u64>) {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let has = status.lines().find_map(|line| line.strip_prefix("VmData:")?.split_whitespace().next()?.parse().ok());
        let has: u64 = has.expect("a process has a size");
        let limit = Rlimit { current: more.map(|more| (has << 10) + more), maximum: None };
        prlimit(Some(self.server_pid()), Resource::Data, limit).unwrap();
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.server_pid(), signal).unwrap();
    }

    /// End it as a user does.
    fn finish(mut self) {
        self.signal(Signal::TERM);
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One request and its answer: data, and error.
fn ask(client: &mut Client, command: u16, offset: u64, length: u32, data: &[u8]) -> (Vec<u8>, u32) {
    nbd::ask(client, &Request { flags: 0, command, cookie: 1, offset, length }, data, PATIENCE)
}

/// Write a block and read it again.
fn writes_and_reads_back(client: &mut Client, value: u8) {
    let data = vec![value; BLOCK_BYTES as usize];
    assert_eq!(ask(client, command::WRITE, 4096, BLOCK_BYTES, &data).1, 0);
    assert_eq!(ask(client, command::READ, 4096, BLOCK_BYTES, b""), (data, 0));
}

/// Begin a message for which the server needs much memory, and say no more.
fn begin_large_message(server: &Server) -> Option<Client> {
    let mut client = Client::connect(&server.uri).ok()?;
    let request = Request { flags: 0, command: command::WRITE, cookie: 1, offset: 0, length: LONGEST_BYTES };
    client.ask(&request, &[7; 1 << 16]);
    client.send().ok()?;
    Some(client)
}

/// Whether the server has closed this connection.
fn is_connection_closed(client: &mut Client) -> bool {
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until {
        if client.sleep(Some(Duration::from_millis(100))).and_then(|_| client.receive()).is_err() {
            return true;
        }
    }
    false
}

#[test]
fn server_short_of_memory_refuses_long_messages_and_serves_others() {
    let server = Server::start("pressure-memory", "off");
    let mut honest = server.connect();
    writes_and_reads_back(&mut honest, 1);
    server.limit(Some(u64::from(LONGEST_BYTES) / 2));
    let mut greedy: Vec<Client> = (0..4).map(|_| begin_large_message(&server).unwrap()).collect();
    assert!(greedy.iter_mut().all(is_connection_closed));
    writes_and_reads_back(&mut honest, 2);
    let (data, error) = ask(&mut honest, command::READ, 0, LONGEST_BYTES, b"");
    assert_eq!((data.len(), error), (0, NO_MEMORY));
    writes_and_reads_back(&mut honest, 3);
    writes_and_reads_back(&mut server.connect(), 4);
    server.limit(None);
    assert_eq!(ask(&mut honest, command::READ, 0, LONGEST_BYTES, b"").1, 0);
    server.finish();
}

#[test]
fn client_without_a_free_thread_is_refused_and_others_are_served() {
    let server = Server::start("pressure-thread", "off");
    let mut honest = server.connect();
    writes_and_reads_back(&mut honest, 1);
    // The limit of 1 MiB is below a thread's stack (2 MiB), so no new thread can start. Stacks of ended threads are
    // reused, so some clients are still served.
    server.limit(Some(1 << 20));
    let served: Vec<Client> = (0..32).map_while(|_| Client::connect(&server.uri).ok()).collect();
    assert!(served.len() < 32);
    writes_and_reads_back(&mut honest, 2);
    server.limit(None);
    writes_and_reads_back(&mut server.connect(), 3);
    server.finish();
}

/// As seen by a process, its clock jumps when it is not run for a while, or its machine sleeps.
#[test]
fn clock_jump_delays_responses_without_errors() {
    for timing in ["on", "off"] {
        let server = Server::start("pressure-clock", timing);
        let mut client = server.connect();
        for value in 1..6 {
            writes_and_reads_back(&mut client, value);
            let data = vec![value + 100; BLOCK_BYTES as usize];
            let request = Request { flags: 0, command: command::WRITE, cookie: 9, offset: 8192, length: BLOCK_BYTES };
            client.ask(&request, &data);
            // Stop the server before, during or after its work on the request.
            server.signal(Signal::STOP);
            client.send().unwrap();
            thread::sleep(Duration::from_millis(400));
            server.signal(Signal::CONT);
            while client.answer(|_| 0).unwrap().is_none() {
                client.sleep(None).unwrap();
                client.receive().unwrap();
            }
            assert_eq!(ask(&mut client, command::READ, 8192, BLOCK_BYTES, b""), (data, 0));
        }
        // After the server has caught up, requests are as fast as before.
        let asked = Instant::now();
        (0..10).for_each(|value| writes_and_reads_back(&mut client, value));
        assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
        server.finish();
    }
}
