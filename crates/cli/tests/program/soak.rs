//! A server under rude clients for a long time: those that die, stall, scribble and come again, a full disk, and being killed.
//!
//! `make soak` lets this run for `SOAK_SECONDS`. One client is honest: it has to find what it has written, in every
//! generation of the server, and soon. Memory, threads and descriptors of the server are measured throughout.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::nbd::{self, AllowedVersions, BLOCK_BYTES, block};
use crate::common::{directory, program};
use phaselink_client::Options;
use phaselink_core::random::Random;
use phaselink_serve::front::nbd::client::Client;
use phaselink_serve::front::nbd::uri::Uri;
use phaselink_serve::front::nbd::wire::{Request, command};

/// Blocks that the honest client has to itself: what shared memory and vfio-user scribble on lies behind them.
const BLOCKS: usize = 1024;
/// How long the honest client waits for an answer, on a machine that others use.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How long a server takes to start.
const STARTED_MAX: Duration = Duration::from_secs(30);
const GENERATION: Duration = Duration::from_secs(6);
const SECONDS_DEFAULT: u64 = 600;
/// What the server may take beside the bytes of its drive, which are 16 MiB: 64 connections with a message each.
const RESIDENT_KIB_MAX: u64 = 192 << 10;
const NO_SPACE: u32 = 28;

/// A generation of the server.
struct Server {
    child: Child,
    here: PathBuf,
    uri: Uri,
}

impl Server {
    /// With timing on, hosts that bring their own software are served alone. With `full`, the disk is too small.
    fn start(here: &Path, timing: bool, full: bool) -> Server {
        let socket = here.join("nbd.sock");
        let uri = format!("nbd+unix:///?socket={}", socket.display());
        let mut command = match full {
            false => program(),
            true => {
                let mut shell = Command::new("unshare");
                let script = "mount -t tmpfs -o size=6m none disk && exec \"$0\" \"$@\"";
                shell.args(["-rm", "sh", "-c", script, env!("CARGO_BIN_EXE_phaselink")]);
                shell
            }
        };
        command.current_dir(here).args(["serve", "nvme-polled", "--set", "media.capacity_mib=16", "--nbd", &uri]);
        command.args(["--shm", "shm.sock,offset=8m", "--control", "control.sock", "--lag-tolerance-us", "1e9"]);
        command.args(["--timing", if timing { "on" } else { "off" }, "--store", "disk/store"]);
        if !timing {
            command.args(["--vfio-user", "vfio.sock"]);
        }
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Server { child, here: here.into(), uri: Uri::parse(&uri).unwrap() }
    }

    fn connect(&self) -> Client {
        nbd::connect(&self.uri, STARTED_MAX)
    }

    /// Resident KiB, threads and descriptors.
    fn server_resources(&self) -> Option<[u64; 3]> {
        let folder = PathBuf::from(format!("/proc/{}", self.child.id()));
        let status = fs::read_to_string(folder.join("status")).ok()?;
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let descriptors = fs::read_dir(folder.join("fd")).ok()?.count() as u64;
        Some([number("VmRSS:")?, number("Threads:")?, descriptors])
    }

    /// End it: by a signal that it cannot see, or by one that it obeys.
    fn end(mut self, kill: bool) {
        let signal = if kill { "-KILL" } else { "-TERM" };
        Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        let started = Instant::now();
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(started.elapsed() < Duration::from_secs(20), "the server does not end"),
            }
            thread::sleep(Duration::from_millis(10));
        };
        assert!(kill || status.code() == Some(0), "the server has ended with {status}");
    }
}

/// One request for a block and its answer: data and error.
fn ask(client: &mut Client, command: u16, number: usize, data: &[u8]) -> (Vec<u8>, u32) {
    let request =
        Request { flags: 0, command, cookie: 1, offset: (number * BLOCK_BYTES) as u64, length: BLOCK_BYTES as u32 };
    nbd::ask(client, &request, data, ANSWER_MAX)
}

/// Write a block, or read one and see that it holds what it may.
fn check_honest_request(client: &mut Client, versions: &mut [AllowedVersions], random: &mut Random, full: bool) {
    let number = random.bits() as usize % BLOCKS;
    let known = &mut versions[number];
    if random.bits().is_multiple_of(2) {
        known.sent += 1;
        match ask(client, command::WRITE, number, &block(number, known.sent)).1 {
            0 => known.acknowledged = known.sent,
            error => assert!(full && error == NO_SPACE, "a write fails with {error}"),
        }
        return;
    }
    let (found, error) = ask(client, command::READ, number, b"");
    assert_eq!(error, 0, "a read fails");
    let version = (known.acknowledged..=known.sent).find(|version| found == block(number, *version));
    assert!(version.is_some() || known.sent > known.acknowledged, "block {number} does not hold {known:?}");
    if let Some(version) = version {
        known.acknowledged = version;
    }
}

/// One rude thing; which one, the random numbers say. Whatever comes of it is the rude client's own.
fn misbehave_randomly(server: &Server, random: &mut Random) {
    let bytes = |random: &mut Random, count: usize| (0..count).map(|_| random.bits() as u8).collect::<Vec<u8>>();
    let scribble = |name: &str, random: &mut Random| {
        let Ok(mut stream) = UnixStream::connect(server.here.join(name)) else { return };
        let count = random.bits() as usize % 5000;
        let _ = stream.write_all(&bytes(random, count));
        let _ = stream.set_read_timeout(Some(Duration::from_millis(20)));
        let _ = stream.read(&mut [0; 64]);
    };
    match random.bits() % 7 {
        0 => scribble("nbd.sock", random),
        1 => scribble("shm.sock", random),
        2 => scribble("vfio.sock", random),
        3 => scribble("control.sock", random),
        // The client disconnects, or stalls, with requests in flight and replies that it does not read.
        kind @ (4 | 5) => {
            let Ok(mut client) = Client::connect(&server.uri) else { return };
            for _ in 0..64 {
                let offset = (8 << 20) + random.bits() % 1024 * 4096;
                let request = Request { flags: 0, command: command::READ, cookie: 1, offset, length: 256 << 10 };
                client.ask(&request, b"");
            }
            let _ = client.send();
            thread::sleep(Duration::from_millis(if kind == 4 { 0 } else { random.bits() % 800 }));
        }
        // A client connects over shared memory and disconnects with requests in flight.
        _ => {
            let Ok(mut client) = phaselink_client::Client::connect(&server.here.join("shm.sock"), &Options::default())
            else {
                return;
            };
            let Some(mut queue) = client.take_queue() else { return };
            for _ in 0..random.bits() % 30 {
                let _ = queue.submit_write(random.bits() % 1024 * 4096, &bytes(random, 4096));
                let _ = queue.submit_read(random.bits() % 4096 * 512, 512);
            }
        }
    }
}

/// A generation under everybody at once; the most that the server has taken.
fn run_server_generation(
    server: &Server,
    versions: &mut [AllowedVersions],
    until: Instant,
    seed: u64,
    full: bool,
) -> [u64; 3] {
    let (stop, mut most) = (AtomicBool::new(false), [0; 3]);
    thread::scope(|scope| {
        for thread in 0..4 {
            let (stop, server) = (&stop, &*server);
            scope.spawn(move || {
                let mut random = Random::stream(seed, &format!("rude {thread}"));
                while !stop.load(Ordering::Relaxed) {
                    misbehave_randomly(server, &mut random);
                }
            });
        }
        let mut random = Random::stream(seed, "honest");
        let mut client = server.connect();
        let mut asked = 0;
        while Instant::now() < until {
            // At random, the client reconnects.
            if random.bits().is_multiple_of(500) {
                client = server.connect();
            }
            check_honest_request(&mut client, versions, &mut random, full);
            asked += 1;
            if asked % 10 == 0 {
                let now = server.server_resources().unwrap_or_default();
                most = std::array::from_fn(|place| most[place].max(now[place]));
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(asked > 10, "an honest client got {asked} answers");
    });
    most
}

/// Whether a file system of one's own can be mounted here.
fn can_be_full(here: &Path) -> bool {
    let script = "mount -t tmpfs -o size=1m none disk";
    let tried = Command::new("unshare").args(["-rm", "sh", "-c", script]).current_dir(here).output();
    tried.is_ok_and(|tried| tried.status.success())
}

#[test]
#[ignore = "ten minutes: make soak"]
fn server_survives_rude_clients_full_disk_and_kills() {
    let seconds =
        std::env::var("SOAK_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(SECONDS_DEFAULT);
    let here = directory("soak");
    fs::create_dir(here.join("disk")).unwrap();
    let can_be_full = can_be_full(&here);
    let (begun, mut versions) = (Instant::now(), vec![AllowedVersions::default(); BLOCKS]);
    let (mut generations, mut most) = (0u64, [0; 3]);
    while begun.elapsed() < Duration::from_secs(seconds) {
        let full = can_be_full && generations % 4 == 3;
        let server = Server::start(&here, generations.is_multiple_of(2), full);
        // A full disk is a separate file system, which is discarded with this generation of the server, so its blocks
        // have separate versions.
        let mut own = vec![AllowedVersions::default(); BLOCKS];
        let versions = if full { &mut own } else { &mut versions };
        let taken = run_server_generation(&server, versions, Instant::now() + GENERATION, generations, full);
        eprintln!(
            "generation {generations}: {} KiB, {} threads, {} descriptors, full {full}",
            taken[0], taken[1], taken[2]
        );
        assert!(taken[0] < RESIDENT_KIB_MAX, "{} KiB are resident", taken[0]);
        most = std::array::from_fn(|place| most[place].max(taken[place]));
        server.end(full || generations % 3 != 1);
        generations += 1;
    }
    let written = versions.iter().filter(|known| known.acknowledged > 0).count();
    eprintln!("{generations} generations, {written} blocks written, at most {most:?} KiB, threads and descriptors");
}
