//! Limits of a served drive, each passed or failed, in five minutes on a machine that has nothing else to do:
//! `make bench-limits`. Words behind it choose: `off`, `bytes`, `on`, `first`, `idle`.
//!
//! Figures are medians of rounds that take turns, so that all of them meet the same machine. Server and client spin, each on a
//! processor of its own, but for what is measured of servers that have been idle.

#[allow(dead_code)]
mod common;
#[path = "common/vfio.rs"]
mod vfio;
#[allow(dead_code)]
#[path = "../tests/served/vfio_client.rs"]
mod vfio_client;
#[allow(dead_code)]
#[path = "../tests/served/vhost_guest.rs"]
mod vhost_guest;

use std::hint;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::speed::{Speed, transfers};
use common::{DEPTH, GEOMETRY, PROCESSORS, Transfer, alone, create_empty_store, median, pin, served, store};
use phaselink_client::{Client as ShmClient, Options};
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::{KeyOverride, shipped};
use phaselink_core::protocol::nvme::commands::opcode;
use phaselink_core::request::Op;
use phaselink_core::simulation::Simulation;
use phaselink_core::workload::fio;
use phaselink_serve::device::store::Store;
use phaselink_serve::device::wakeup::Wakeup;
use phaselink_serve::device::{Device, StopRequest};
use phaselink_serve::front::behind_the_doorbell;
use phaselink_serve::front::nbd::client::Client as NbdClient;
use phaselink_serve::front::nbd::uri::Uri;
use phaselink_serve::front::nbd::wire::{Request, command};
use phaselink_serve::front::vhost_user::blk::FEATURES;
use phaselink_serve::front::{FrontEndArguments, KINDS};
use phaselink_serve::model::wall::Wait;
use phaselink_serve::server::Server;
use vfio::{SIZES, deep, drive, lone, over_vfio_user};
use vfio_client::{Client as VfioClient, DoorbellMethod, Driver, RAM, RAM_BYTES};
use vhost_guest::{Guest, READ};

const ROUNDS: usize = 15;
/// Rounds of measurements beside every way to copy.
const ROUNDS_BARE: usize = 5;
/// How long nobody asks for anything before the first request, and how often that is tried.
const PAUSE: Duration = Duration::from_millis(5);
const PAUSES: usize = 200;
/// How long an idle server is watched.
const WATCHED: Duration = Duration::from_secs(10);

/// Nanoseconds of a lone request and requests a second at depth, of each round, by size.
type Sizes = [Vec<(f64, f64)>; 2];
/// What a word asks for.
type Part = fn() -> io::Result<Vec<Row>>;

/// What is measured, and whether it keeps its limit.
struct Row {
    what: String,
    found: String,
    limit: String,
    is_kept: bool,
}

fn limit_row(what: impl Into<String>, found: String, limit: String, is_kept: bool) -> Row {
    Row { what: what.into(), found, limit, is_kept }
}

/// Timing off: what a page costs more than a sector, and rates at depth, beside shared memory.
fn measure_with_timing_off() -> io::Result<Vec<Row>> {
    let (mut over, mut shared, store) = (Sizes::default(), Sizes::default(), store()?);
    for _ in 0..ROUNDS {
        for (size, bytes) in SIZES.into_iter().enumerate() {
            let read = Transfer::read(bytes);
            over[size].push(over_vfio_user(drive(), &store, false, |queue| (lone(queue, read), deep(queue, read)))?.0);
            let one = served(&store, false, bytes, |queue| alone(queue, read))?.0.percentile_ns(50.0);
            shared[size].push((one, served(&store, false, bytes, |queue| common::deep(queue, read))?.0));
        }
    }
    let page = |rounds: &Sizes| median((0..ROUNDS).map(|round| rounds[1][round].0 - rounds[0][round].0));
    let (over_ns, shared_ns) = (page(&over), page(&shared));
    let ratio = over_ns / shared_ns;
    let found = format!("{over_ns:.0} ns, {ratio:.2}x of {shared_ns:.0} ns");
    let mut rows =
        vec![limit_row("off: 4 KiB more than 512 B, QD1", found, String::from("1.25x shared memory"), ratio <= 1.25)];
    for (size, least) in [0.5, 0.7].into_iter().enumerate() {
        let share = median((0..ROUNDS).map(|round| over[size][round].1 / shared[size][round].1));
        let rate = median(over[size].iter().map(|round| round.1)) / 1e6;
        let what = format!("off: {} B QD32", SIZES[size]);
        rows.push(limit_row(
            what,
            format!("{rate:.2} M/s, {share:.2}x"),
            format!("{least}x shared memory"),
            share >= least,
        ));
    }
    Ok(rows)
}

/// Bytes of written blocks: requests at depth beside the best bare copy, and what a lone read of a written sector costs more
/// than one of a sector that was never written.
fn bytes() -> io::Result<Vec<Row>> {
    let (store, mut rows) = (store()?, Vec::new());
    let over_vfio_user = |store: &Arc<Store>, transfer: Transfer| {
        Ok(over_vfio_user(drive(), store, false, |queue| (lone(queue, transfer), deep(queue, transfer)))?.0)
    };
    let shared =
        |transfer: Transfer| Ok((0.0, served(&store, false, transfer.bytes, |queue| common::deep(queue, transfer))?.0));
    for transfer in transfers(&[]).into_iter().filter(|transfer| transfer.bytes > 512) {
        let over = Speed::measure(&store, ROUNDS_BARE, transfer, false, |transfer| over_vfio_user(&store, transfer))?;
        let shared = Speed::measure(&store, ROUNDS_BARE, transfer, true, shared)?;
        let most = match transfer {
            Transfer { op: Op::Read, bytes: 4096 } => 1.25,
            Transfer { bytes: 4096, .. } => 1.6,
            _ => 1.15,
        };
        let kinds = [
            ("vfio-user", &over, over.slowdown_against_best_copy()),
            ("shm", &shared, shared.slowdown_against_best_exchange()),
        ];
        for (front, speed, (ratio, way)) in kinds {
            let found = format!("{ratio:.2}x, {:.1} GB/s ({way:?})", speed.rate().1);
            let what = format!("bytes: {front} {} QD32", speed.name());
            rows.push(limit_row(what, found, format!("{most}x a bare copy"), ratio <= most));
        }
    }
    let empty = create_empty_store()?;
    let more = (0..ROUNDS).map(|_| {
        let ns = |store| over_vfio_user(store, Transfer::read(512)).map(|pair| pair.0);
        Ok(ns(&store)? - ns(&empty)?)
    });
    let more = median(more.collect::<io::Result<Vec<f64>>>()?);
    rows.push(limit_row("bytes: 512 B QD1, written", format!("{more:+.0} ns"), String::from("130 ns"), more <= 130.0));
    Ok(rows)
}

/// Timing on: lone requests beside the model, the lag of their answers, and the rate at depth of a slow drive.
fn measure_with_timing_on() -> io::Result<Vec<Row>> {
    let (mut rounds, mut rates): ([Vec<[f64; 3]>; 2], Vec<f64>) = Default::default();
    let (slow, store) = (drive_with_slow_memory(), store()?);
    for _ in 0..ROUNDS {
        for (size, bytes) in SIZES.into_iter().enumerate() {
            let (seen, summary) = over_vfio_user(drive(), &store, true, |queue| lone(queue, Transfer::read(bytes)))?;
            let said = summary.tally.read.latency.percentile(50.0).as_ns();
            rounds[size].push([seen, said, summary.tally.lag.percentile(99.0).as_ns()]);
        }
        rates.push(over_vfio_user(slow.clone(), &store, true, |queue| deep(queue, Transfer::read(4096)))?.0);
    }
    let mut rows = Vec::new();
    for (bytes, rounds) in SIZES.into_iter().zip(&rounds) {
        let [seen, said, lag] = [0, 1, 2].map(|column| median(rounds.iter().map(|round| round[column])));
        let (over, limit) = (seen - said, said * 0.05 + 100.0);
        let found = format!("{over:+.0} ns on {said:.0} ns");
        rows.push(limit_row(
            format!("on: {bytes} B QD1, median"),
            found,
            format!("5 % + 100 ns = {limit:.0} ns"),
            over <= limit,
        ));
        let limit = said * 0.02 + 1000.0;
        let found = format!("within {lag:.0} ns");
        rows.push(limit_row(
            format!("on: {bytes} B QD1, 99 % of answers"),
            found,
            format!("2 % + 1 us = {limit:.0} ns"),
            lag <= limit,
        ));
    }
    let (rate, modelled) = (median(rates), simulated_request_rate(&slow));
    let off_percent = (rate / modelled - 1.0) * 100.0;
    let found = format!("{rate:.0}/s, {off_percent:+.1} % of {modelled:.0}/s");
    rows.push(limit_row(
        "on: 4 KiB QD32 of a drive below 400 k",
        found,
        String::from("within 3 %"),
        off_percent.abs() <= 3.0,
    ));
    Ok(rows)
}

/// The drive with a memory that takes 100 us, which 32 requests at once bring to some 300,000 a second.
fn drive_with_slow_memory() -> Drive {
    let shipped = shipped::find("nvme").expect("a shipped drive");
    let slow = KeyOverride::parse("media.read_ns=100000").expect("an override");
    Drive::from_toml(shipped.file, shipped.text, &[slow]).expect("a drive")
}

/// What the model says of the same requests, without a wall clock.
fn simulated_request_rate(drive: &Drive) -> f64 {
    let drive = behind_the_doorbell(drive, 1);
    let flags = [("rw", "randread"), ("bs", "4k"), ("iodepth", "32"), ("number_ios", "40000"), ("size", "64m")];
    assert_eq!(DEPTH, 32);
    let jobs = fio::job_from_flags(&flags).and_then(|file| file.resolve(&drive.limits(), &Default::default()));
    let mut simulation = Simulation::new(&drive, &jobs.expect("a job"), 1).expect("a run");
    while simulation.step(1 << 20) {}
    let outcome = simulation.outcome();
    outcome.ios() as f64 / outcome.elapsed.as_s()
}

/// A server behind one front-end, found by its flag, as long as `work` takes.
fn with_served_front_end<T>(flag: &str, work: impl FnOnce(&Path) -> T) -> io::Result<T> {
    let path: PathBuf = std::env::temp_dir().join(format!("phaselink-limits-{}.sock", std::process::id()));
    let problem = |problem| io::Error::other(format!("{problem}"));
    let kind = KINDS.iter().find(|kind| kind.flag == flag).expect("a front-end");
    let address = if flag == "nbd" { uri(&path) } else { path.display().to_string() };
    let asked = FrontEndArguments { addresses: vec![address], ..FrontEndArguments::default() };
    let drive = Drive::shipped("nvme").expect("a shipped drive");
    let fronts = vec![(kind.bind)(&asked, &drive, GEOMETRY).map_err(|found| io::Error::other(found.to_string()))?];
    let device = Device {
        drive: Arc::new(drive),
        store: Arc::new(Store::in_memory(GEOMETRY).map_err(problem)?),
        tallies: Arc::default(),
        record: None,
        history: None,
        faults: Arc::default(),
        stop: Arc::new(StopRequest::new()?),
    };
    let stop = Arc::clone(&device.stop);
    let wait = Wait::Adaptive;
    let server =
        Server { device, timing: false, wait, seed: 1, fronts, metrics: None, control: None, device_threads: 1 };
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            pin(PROCESSORS[0]);
            server.run()
        });
        let worked = work(&path);
        stop.request();
        server.join().unwrap_or_else(|_| Err(io::Error::other("the server has failed")))?;
        Ok(worked)
    })
}

fn uri(path: &Path) -> String {
    format!("nbd+unix:///?socket={}", path.display())
}

/// Give `work` a client of a server behind each front-end: a function that reads 512 bytes.
fn measure_each_front_end<T>(mut work: impl FnMut(&str, &mut dyn FnMut()) -> T) -> io::Result<Vec<T>> {
    let nbd = with_served_front_end("nbd", |path| {
        let mut client = NbdClient::connect(&Uri::parse(&uri(path)).expect("an address")).expect("a server");
        work("nbd", &mut || {
            client.ask(&Request { flags: 0, command: command::READ, cookie: 1, offset: 0, length: 512 }, b"");
            client.send().expect("a server");
            while client.answer(|_| 512).expect("an answer").is_none() {
                // Poll, so that the measured time does not include a wake-up of the client.
                client.receive().expect("a server");
            }
        })
    })?;
    let shm = with_served_front_end("shm", |path| {
        let mut client = ShmClient::connect(path, &Options::default()).expect("a server");
        let mut queue = client.take_queue().expect("one was asked for");
        work("shm", &mut || queue.read(0, &mut [0; 512]).expect("a read"))
    })?;
    let vfio = with_served_front_end("vfio-user", |path| {
        let client = VfioClient::connect(path);
        client.agree("");
        client.map(RAM, 0, RAM_BYTES, Some(client.ram.as_fd())).expect("memory");
        let mut driver = Driver::start(client, RAM, DoorbellMethod::Messages);
        driver.bring_up_like_linux(0);
        work("vfio-user", &mut || {
            driver.transfer(opcode::READ, 0, 1);
            // The device learns with the next doorbell that this completion has been consumed.
            driver.peek_completion(1);
        })
    })?;
    let vhost = with_served_front_end("vhost-user", |path| {
        let mut guest = Guest::connect(path, FEATURES);
        work("vhost-user", &mut || assert_eq!(guest.exchange(READ, 0, &[(0, 512)]).0, 0))
    })?;
    Ok(vec![nbd, shm, vfio, vhost])
}

/// The first request after a pause, beside what the machine takes to wake a thread: the least of every such request.
fn first() -> io::Result<Vec<Row>> {
    let bare_us = bare_thread_wake_time_us()?;
    let bare = limit_row("a thread woken by an event, bare", format!("{bare_us:.1} us"), String::from("none"), true);
    let rows = measure_each_front_end(|front, read| {
        let us = median_time_after_pauses_us(read);
        let found = format!("{us:.1} us, {:+.1} us", us - bare_us);
        limit_row(format!("first after idle, {front}"), found, String::from("30 us"), us <= 30.0)
    })?;
    Ok([bare].into_iter().chain(rows).collect())
}

/// What `ask` takes after pauses: the median.
fn median_time_after_pauses_us(mut ask: impl FnMut()) -> f64 {
    median((0..PAUSES).map(|_| {
        thread::sleep(PAUSE);
        let asked = Instant::now();
        ask();
        asked.elapsed().as_nanos() as f64 / 1e3
    }))
}

/// From ringing a thread on the server's processor that sleeps to seeing what it writes when it is awake.
fn bare_thread_wake_time_us() -> io::Result<f64> {
    let (wakeup, heard) = (Wakeup::new()?, AtomicUsize::new(0));
    let sleep = || {
        pin(PROCESSORS[0]);
        for number in 1..=PAUSES {
            wakeup.sleep([].into_iter(), PAUSE * 100, || false);
            heard.store(number, Ordering::Release);
        }
    };
    Ok(thread::scope(|scope| {
        scope.spawn(sleep);
        let mut number = 0;
        median_time_after_pauses_us(|| {
            number += 1;
            wakeup.signal();
            while heard.load(Ordering::Acquire) < number {
                hint::spin_loop();
            }
        })
    }))
}

/// What a server takes whose client wants nothing; the client's thread sleeps as well.
fn measure_idle_processor_use() -> io::Result<Vec<Row>> {
    measure_each_front_end(|front, read| {
        read();
        thread::sleep(PAUSE);
        let before = process_cpu_time();
        thread::sleep(WATCHED);
        let percent = (process_cpu_time() - before).as_secs_f64() / WATCHED.as_secs_f64() * 100.0;
        let found = format!("{percent:.2} % of a processor");
        limit_row(format!("idle for 10 s, {front}"), found, String::from("1 %"), percent < 1.0)
    })
}

/// Of this process so far.
fn process_cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn main() -> io::Result<()> {
    pin(PROCESSORS[1]);
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let parts: [(&str, Part); 5] = [
        ("off", measure_with_timing_off),
        ("bytes", bytes),
        ("on", measure_with_timing_on),
        ("first", first),
        ("idle", measure_idle_processor_use),
    ];
    let mut missed = 0;
    for (_, part) in parts.iter().filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|word| word == name)) {
        for Row { what, found, limit, is_kept } in part()? {
            let verdict = if is_kept { "pass" } else { "FAIL" };
            println!("{verdict}  {what:<40} {found:<36} limit {limit}");
            missed += usize::from(!is_kept);
        }
    }
    if missed > 0 {
        println!("{missed} limits are missed");
        std::process::exit(1);
    }
    Ok(())
}
