//! NVMe over TCP on loopback: random reads and writes of written blocks by the client of `phaselink bench`, beside a bare exchange
//! of the same bytes between two threads over TCP. Words behind it choose: `read`, `write`, `512`, `4096`, `131072`.
//!
//! The bare exchange sends as many bytes as the commands, data and responses of a connection have, and does nothing else. Server and
//! client have a processor each. Rounds take turns, and each line shows medians.

#[allow(dead_code)]
mod common;

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use common::speed::transfers;
use common::{DEPTH, GEOMETRY, PROCESSORS, RUN, Transfer, measure_requests_one_by_one, median, pin, store};
use phaselink_core::drive::Drive;
use phaselink_core::protocol::nvme::commands::opcode;
use phaselink_core::protocol::nvme::spec::SubmissionEntry;
use phaselink_core::request::Op;
use phaselink_serve::device::store::Store;
use phaselink_serve::device::{Device, StopRequest};
use phaselink_serve::front::nvme_tcp::NvmeTcpFrontEnd;
use phaselink_serve::front::nvme_tcp::address::TargetAddress;
use phaselink_serve::front::nvme_tcp::client::{Client, ClientCommandData, HostNameAndIdentifier};
use phaselink_serve::front::nvme_tcp::initiator::Initiator;
use phaselink_serve::front::nvme_tcp::session::CAPSULE_DATA_BYTES;
use phaselink_serve::front::nvme_tcp::wire::{CAPSULE_HEADER_BYTES, DATA_HEADER_BYTES, RESPONSE_HEADER_BYTES};
use phaselink_serve::front::{Front, FrontEndArguments};
use phaselink_serve::model::wall::Wait;
use phaselink_serve::server::Server;

const ROUNDS: usize = 9;

/// Latency of lone requests in nanoseconds, and requests a second at depth.
type Pair = (f64, f64);

fn entry(transfer: Transfer, number: u64) -> SubmissionEntry {
    let opcode = if transfer.op == Op::Write { opcode::WRITE } else { opcode::READ };
    let entry = SubmissionEntry { opcode, namespace_id: 1, ..SubmissionEntry::default() };
    entry.of_blocks(transfer.offset(number) / 512, transfer.bytes as u32 / 512)
}

fn submit(queue: &mut Client, slot: u16, transfer: Transfer, number: u64, data: &[u8]) {
    let data = match transfer.op {
        Op::Write => ClientCommandData::Send(data),
        _ => ClientCommandData::Receive { bytes: transfer.bytes as u32, is_kept: false },
    };
    queue.submit(slot, &entry(transfer, number), data);
}

/// Waits for the next completion, as the client of a benchmark does.
fn next(queue: &mut Client) -> u16 {
    loop {
        if let Some(completion) = queue.completion().expect("a completion") {
            return completion.id;
        }
        queue.send().expect("data that was asked for");
        queue.receive().expect("the connection");
    }
}

fn measure_nvme_tcp_pair(store: &Arc<Store>, transfer: Transfer) -> io::Result<Pair> {
    let problem = |problems| io::Error::other(format!("{problems}"));
    let drive = Drive::shipped("nvme").expect("a shipped drive");
    let arguments = FrontEndArguments { addresses: vec![String::from("127.0.0.1:0")], ..FrontEndArguments::default() };
    let front = NvmeTcpFrontEnd::bind(&arguments, &drive, GEOMETRY).map_err(problem)?;
    let target =
        TargetAddress::parse(&front.addresses()[0]).map_err(|problem| io::Error::other(problem.to_string()))?;
    let device = Device {
        drive: Arc::new(drive),
        store: Arc::clone(store),
        tallies: Arc::default(),
        record: None,
        history: None,
        faults: Arc::default(),
        stop: Arc::new(StopRequest::new()?),
    };
    let stop = Arc::clone(&device.stop);
    let server = Server {
        device,
        timing: false,
        wait: Wait::Spin,
        seed: 1,
        fronts: vec![Box::new(front)],
        metrics: None,
        device_threads: 1,
        control: None,
    };
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            pin(PROCESSORS[0]);
            server.run()
        });
        let worked = Initiator::open(&target, &HostNameAndIdentifier::default(), 0).and_then(|initiator| {
            let mut queue = initiator.queue(1, 64)?;
            let data = vec![1; transfer.bytes];
            let lone = measure_requests_one_by_one(|number| {
                submit(&mut queue, 0, transfer, number, &data);
                queue.send().expect("a command");
                next(&mut queue);
            });
            Ok((lone.percentile_ns(50.0), deep(&mut queue, transfer, &data)))
        });
        stop.request();
        server.join().unwrap_or_else(|_| Err(io::Error::other("the server has failed")))?;
        worked
    })
}

fn deep(queue: &mut Client, transfer: Transfer, data: &[u8]) -> f64 {
    let (start, mut done) = (Instant::now(), 0);
    for slot in 0..DEPTH as u16 {
        submit(queue, slot, transfer, slot.into(), data);
    }
    queue.send().expect("commands");
    while start.elapsed() < RUN {
        // All completions that are there, then one write.
        let mut slot = Some(next(queue));
        while let Some(free) = slot {
            done += 1;
            submit(queue, free, transfer, DEPTH + done, data);
            slot = queue.completion().expect("a completion").map(|completion| completion.id);
        }
        queue.send().expect("commands");
    }
    let rate = done as f64 / start.elapsed().as_secs_f64();
    for _ in 0..DEPTH {
        next(queue);
    }
    rate
}

/// Bytes of a request and of its answer on the wire, in one piece each: commands, data, R2T and responses.
fn wire_bytes_both_ways(Transfer { op, bytes }: Transfer) -> [usize; 2] {
    match op {
        Op::Write if bytes > CAPSULE_DATA_BYTES as usize => {
            [CAPSULE_HEADER_BYTES + DATA_HEADER_BYTES + bytes, DATA_HEADER_BYTES + RESPONSE_HEADER_BYTES]
        }
        Op::Write => [CAPSULE_HEADER_BYTES + bytes, RESPONSE_HEADER_BYTES],
        _ => [CAPSULE_HEADER_BYTES, DATA_HEADER_BYTES + bytes],
    }
}

/// Reads what there is, and returns the number of bytes.
fn take(mut socket: &TcpStream, into: &mut [u8]) -> usize {
    match socket.read(into) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        Err(error) => panic!("{error}"),
    }
}

/// Sends all of `from`; bytes that arrive meanwhile are counted.
fn send_all_and_count_received(mut socket: &TcpStream, from: &[u8], into: &mut [u8]) -> usize {
    let (mut sent, mut arrived) = (0, 0);
    while sent < from.len() {
        match socket.write(&from[sent..]) {
            Ok(bytes) => sent += bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => arrived += take(socket, into),
            Err(error) => panic!("{error}"),
        }
    }
    arrived
}

fn bare(transfer: Transfer) -> io::Result<Pair> {
    let [there, back] = wire_bytes_both_ways(transfer);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (server, _) = listener.accept()?;
    for socket in [&client, &server] {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(socket, 1 << 20);
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(socket, 1 << 20);
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            pin(PROCESSORS[0]);
            let (mut into, answers) = (vec![0; 256 << 10], vec![1; back * DEPTH as usize]);
            let mut left = 0;
            while !is_over.load(Ordering::Relaxed) {
                left += take(&server, &mut into);
                let whole = (left / there).min(DEPTH as usize);
                left -= whole * there;
                left += send_all_and_count_received(&server, &answers[..whole * back], &mut into);
            }
        });
        let (mut into, requests) = (vec![0; 256 << 10], vec![1; there * DEPTH as usize]);
        let lone = measure_requests_one_by_one(|_| {
            let mut arrived = send_all_and_count_received(&client, &requests[..there], &mut into);
            while arrived < back {
                arrived += take(&client, &mut into);
            }
        });
        let (start, mut done, mut left) =
            (Instant::now(), 0, send_all_and_count_received(&client, &requests, &mut into));
        while start.elapsed() < RUN {
            left += take(&client, &mut into);
            let whole = left / back;
            left -= whole * back;
            done += whole;
            left += send_all_and_count_received(&client, &requests[..whole.min(DEPTH as usize) * there], &mut into);
        }
        let rate = done as f64 / start.elapsed().as_secs_f64();
        is_over.store(true, Ordering::Relaxed);
        Ok((lone.percentile_ns(50.0), rate))
    })
}

fn main() -> io::Result<()> {
    pin(PROCESSORS[1]);
    let store = store()?;
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    for transfer in transfers(&words) {
        let (mut ratios, mut served, mut bares) = ([Vec::new(), Vec::new()], Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let (bare, tcp) = (bare(transfer)?, measure_nvme_tcp_pair(&store, transfer)?);
            ratios[0].push(tcp.0 / bare.0);
            ratios[1].push(tcp.1 / bare.1);
            served.push(tcp);
            bares.push(bare);
        }
        let [lone, deep] = ratios.map(median);
        let of = |pairs: &[Pair], part: fn(&Pair) -> f64| median(pairs.iter().map(part));
        let (op, bytes) = (if transfer.op == Op::Write { "write" } else { "read" }, transfer.bytes);
        println!(
            "nvme-tcp       {op:<5} {bytes:>6} B  QD1 {:>6.0} ns, bare {:>6.0} ns: {lone:.2}x   QD{DEPTH} {:>8.0}/s, bare {:>8.0}/s: \
             {deep:.2}x the rate",
            of(&served, |pair| pair.0),
            of(&bares, |pair| pair.0),
            of(&served, |pair| pair.1),
            of(&bares, |pair| pair.1),
        );
    }
    Ok(())
}
