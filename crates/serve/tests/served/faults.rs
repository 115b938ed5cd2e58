//! Faults of a drive that is being served, as hosts see them: through every front-end, with timing on and off.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crate::background::{BackgroundServer, alone, device};
use crate::vfio_client::{Client, DATA, DoorbellMethod, Driver, ENTRIES, PAGE, RAM, RAM_BYTES};
use crate::vhost_guest::Ask;
use phaselink_client::{Options, Queue};
use phaselink_core::drive::Drive;
use phaselink_core::ledger::{JobOutcome, Outcome};
use phaselink_core::protocol::nvme::commands::opcode;
use phaselink_core::protocol::nvme::spec::{CompletionEntry, Status, admin};
use phaselink_core::time::Span;
use phaselink_serve::device::faults::{FaultRuleScope, Faults};
use phaselink_serve::device::store::{Geometry, Store};
use phaselink_serve::front::nbd::export::Export;
use phaselink_serve::front::nbd::socket::Listener;
use phaselink_serve::front::nbd::uri::Uri;
use phaselink_serve::front::nbd::wire::{Request, command};
use phaselink_serve::front::nbd::{self, ExportSocket, Nbd};
use phaselink_serve::front::shm::{Share, ShareSocket, ShmFrontEnd};
use phaselink_serve::front::vfio_user::{ControllerSocket, VfioUser};
use phaselink_serve::front::vhost_user::blk::FEATURES;
use phaselink_serve::front::{Front, FrontEndArguments, vhost_user};
use phaselink_serve::model::wall::Wait;
use phaselink_serve::server::{Server, Summary};
use rustix::event::EventfdFlags;
use vm_memory::Bytes;

const GEOMETRY: Geometry = Geometry { capacity_bytes: 1 << 20, block_bytes: 512 };
const KINDS: [Kind; 4] = [Kind::Nbd, Kind::SharedMemory, Kind::VfioUser, Kind::VhostUser];
/// How long an answer is waited for that is not to come: long beside any that is.
const SILENCE: Duration = Duration::from_millis(60);
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Nbd,
    SharedMemory,
    VfioUser,
    VhostUser,
}

/// What a host gets for a request.
#[derive(Debug, PartialEq)]
enum RequestResult {
    Data(Vec<u8>),
    Failed,
    Nothing,
}

/// A host with one request in flight at a time.
trait Host {
    fn read(&mut self, offset: u64, bytes: usize, patience: Duration) -> RequestResult;
    fn write(&mut self, offset: u64, data: &[u8], patience: Duration) -> RequestResult;
    /// Another answer to the last request, a read of so many bytes.
    fn again(&mut self, bytes: usize) -> RequestResult;
}

struct Running {
    kind: Kind,
    place: PathBuf,
    uri: Option<Uri>,
    drive: Arc<Drive>,
    faults: Arc<Faults>,
    server: BackgroundServer,
}

fn serve(test: &str, kind: Kind, timing: bool, wait: Wait) -> Running {
    serve_on_threads(1, test, kind, timing, wait)
}

/// Serves on so many device threads.
fn serve_on_threads(device_threads: usize, test: &str, kind: Kind, timing: bool, wait: Wait) -> Running {
    let alone = alone();
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.{kind:?}"));
    let mut drive = Drive::shipped("nvme").unwrap();
    (drive.nvme.queue_pairs, drive.nvme.queue_entries) = (4, 64);
    let mut device = device(drive, Store::in_memory(GEOMETRY).unwrap());
    device.faults =
        Arc::new(Faults::new(FaultRuleScope { model: timing, interrupts: kind == Kind::VfioUser, connections: false }));
    let (drive, faults) = (Arc::clone(&device.drive), Arc::clone(&device.faults));
    let mut uri = None;
    let front: Box<dyn Front> = match kind {
        Kind::Nbd => {
            let listener = Listener::bind(&Uri::parse("nbd://127.0.0.1:0/").unwrap()).unwrap();
            uri = Some(listener.uri());
            let export = Export { name: String::new(), geometry: GEOMETRY, structured_replies: true };
            Box::new(Nbd(vec![ExportSocket { listener, export }]))
        }
        Kind::SharedMemory => {
            let share = Share::parse(&place.display().to_string()).unwrap();
            Box::new(ShmFrontEnd(vec![ShareSocket::bind(&share, GEOMETRY).unwrap()]))
        }
        Kind::VfioUser => Box::new(VfioUser(vec![ControllerSocket::bind(&place, &drive, GEOMETRY, 0).unwrap()])),
        Kind::VhostUser => {
            let asked =
                FrontEndArguments { addresses: vec![place.display().to_string()], ..FrontEndArguments::default() };
            (vhost_user::KIND.bind)(&asked, &drive, GEOMETRY).unwrap()
        }
    };
    let server =
        Server { device, timing, wait, seed: 1, fronts: vec![front], metrics: None, control: None, device_threads };
    Running { kind, place, uri, drive, faults, server: BackgroundServer::start(server, alone) }
}

impl Running {
    fn host(&self) -> Box<dyn Host> {
        match self.kind {
            Kind::Nbd => {
                let client = nbd::client::Client::connect(self.uri.as_ref().unwrap()).unwrap();
                Box::new(NbdHost { client, cookie: 0 })
            }
            Kind::SharedMemory => {
                let client = phaselink_client::Client::connect(&self.place, &Options::default());
                Box::new(client.unwrap().take_queue().unwrap())
            }
            Kind::VfioUser => Box::new(self.guest().0),
            Kind::VhostUser => Box::new(VirtioHost(crate::vhost_guest::Guest::connect(&self.place, FEATURES))),
        }
    }

    /// A host over vfio-user, with the descriptors by which it is interrupted.
    fn guest(&self) -> (Guest, [OwnedFd; 2]) {
        let client = Client::connect(&self.place);
        client.agree("");
        client.map(RAM, 0, RAM_BYTES, Some(client.ram.as_fd())).unwrap();
        let fd = || rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        let fds = [fd(), fd()];
        client.set_msix_eventfds(&[fds[0].as_fd(), fds[1].as_fd()]).unwrap();
        let mut driver = Driver::start(client, RAM, DoorbellMethod::Messages);
        driver.bring_up_like_linux(1);
        (Guest(driver), fds)
    }

    fn add(&self, rule: &str) -> u64 {
        self.faults.add("test", self.drive.fault_from_line("test", rule).unwrap()).unwrap()
    }

    fn finish(self) -> Summary {
        self.server.finish()
    }
}

struct NbdHost {
    client: nbd::client::Client,
    cookie: u64,
}

impl NbdHost {
    /// The answer to the last request, which is to have so many bytes of data.
    fn answer(&mut self, request: Request, data: &[u8], bytes: usize, patience: Duration) -> RequestResult {
        self.cookie += 1;
        self.client.ask(&Request { cookie: self.cookie, ..request }, data);
        self.client.send().unwrap();
        self.wait(bytes, patience)
    }

    fn wait(&mut self, bytes: usize, patience: Duration) -> RequestResult {
        let cookie = self.cookie;
        let until = Instant::now() + patience;
        loop {
            if let Some((data, answer)) = self.client.take_reply_with_data(|_| bytes).unwrap() {
                assert_eq!(answer.cookie, cookie);
                return if answer.error == 0 { RequestResult::Data(data) } else { RequestResult::Failed };
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return RequestResult::Nothing;
            }
            self.client.sleep(Some(left)).unwrap();
            self.client.receive().unwrap();
        }
    }
}

impl Host for NbdHost {
    fn read(&mut self, offset: u64, bytes: usize, patience: Duration) -> RequestResult {
        let request = Request { flags: 0, command: command::READ, cookie: 0, offset, length: bytes as u32 };
        self.answer(request, b"", bytes, patience)
    }

    fn write(&mut self, offset: u64, data: &[u8], patience: Duration) -> RequestResult {
        let request = Request { flags: 0, command: command::WRITE, cookie: 0, offset, length: data.len() as u32 };
        self.answer(request, data, 0, patience)
    }

    fn again(&mut self, bytes: usize) -> RequestResult {
        self.wait(bytes, PATIENCE)
    }
}

impl Host for Queue {
    fn read(&mut self, offset: u64, bytes: usize, patience: Duration) -> RequestResult {
        let slot = self.submit_read(offset, bytes as u32).unwrap().unwrap();
        let (mut found, until) = (vec![0; bytes], Instant::now() + patience);
        complete(|| self.complete(slot, &mut found), until).map_or_else(|got| got, |()| RequestResult::Data(found))
    }

    fn write(&mut self, offset: u64, data: &[u8], patience: Duration) -> RequestResult {
        let slot = self.submit_write(offset, data).unwrap().unwrap();
        let until = Instant::now() + patience;
        complete(|| self.complete(slot, &mut []), until).map_or_else(|got| got, |()| RequestResult::Data(Vec::new()))
    }

    fn again(&mut self, _bytes: usize) -> RequestResult {
        RequestResult::Nothing
    }
}

fn complete(mut is_complete: impl FnMut() -> io::Result<bool>, until: Instant) -> Result<(), RequestResult> {
    while Instant::now() < until {
        // Poll many times before another thread gets its turn, because a failure is reported only after many polls.
        for _ in 0..1024 {
            match is_complete() {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(_) => return Err(RequestResult::Failed),
            }
        }
        thread::yield_now();
    }
    Err(RequestResult::Nothing)
}

struct Guest(Driver);

impl Guest {
    fn answer(&mut self, id: u16, patience: Duration) -> Result<(), RequestResult> {
        let driver = &mut self.0;
        let at = 4 * PAGE + u64::from(driver.heads[1]) * 16;
        let until = Instant::now() + patience;
        let entry = loop {
            let mut bytes = [0; 16];
            driver.memory().read_exact_at(&mut bytes, at).unwrap();
            let entry = CompletionEntry::decode(&bytes);
            if entry.phase == driver.phases[1] {
                break entry;
            }
            if Instant::now() > until {
                return Err(RequestResult::Nothing);
            }
            thread::yield_now();
        };
        assert_eq!(entry.command_id, id);
        driver.heads[1] = (driver.heads[1] + 1) % ENTRIES;
        driver.phases[1] ^= driver.heads[1] == 0;
        driver.ring(1);
        if entry.status == Status::SUCCESS { Ok(()) } else { Err(RequestResult::Failed) }
    }
}

impl Host for Guest {
    fn read(&mut self, offset: u64, bytes: usize, patience: Duration) -> RequestResult {
        self.0.memory().write_all_at(&vec![0xee; bytes], DATA).unwrap();
        let id = self.0.transfer(opcode::READ, offset / 512, bytes as u32 / 512);
        let mut found = vec![0; bytes];
        let got = self.answer(id, patience);
        self.0.memory().read_exact_at(&mut found, DATA).unwrap();
        got.map_or_else(|got| got, |()| RequestResult::Data(found))
    }

    fn write(&mut self, offset: u64, data: &[u8], patience: Duration) -> RequestResult {
        self.0.memory().write_all_at(data, DATA).unwrap();
        let id = self.0.transfer(opcode::WRITE, offset / 512, data.len() as u32 / 512);
        self.answer(id, patience).map_or_else(|got| got, |()| RequestResult::Data(Vec::new()))
    }

    fn again(&mut self, bytes: usize) -> RequestResult {
        let mut found = vec![0; bytes];
        self.0.memory().read_exact_at(&mut found, DATA).unwrap();
        let id = self.0.next_id - 1;
        self.answer(id, PATIENCE).map_or_else(|got| got, |()| RequestResult::Data(found))
    }
}

/// A host over vhost-user.
struct VirtioHost(crate::vhost_guest::Guest);

impl VirtioHost {
    /// Ask, and wait for what the device has to say.
    fn exchange_with_device(&mut self, kind: u32, offset: u64, bytes: usize, patience: Duration) -> RequestResult {
        self.0.ask(&Ask { kind, sector: offset / 512, parts: &[(0, bytes as u32)] });
        self.answer(bytes, patience)
    }

    /// An answer to the request that was asked last.
    fn answer(&mut self, bytes: usize, patience: Duration) -> RequestResult {
        let (guest, until) = (&mut self.0, Instant::now() + patience);
        let used = crate::vhost_guest::Guest::at(crate::vhost_guest::USED + 2);
        while guest.memory.load::<u16>(used, Ordering::Acquire).unwrap() == guest.answered {
            if Instant::now() > until {
                return RequestResult::Nothing;
            }
            thread::yield_now();
        }
        let (entry, slot) =
            (u64::from(guest.answered % crate::vhost_guest::ENTRIES), (guest.asked - 1) % crate::vhost_guest::ENTRIES);
        guest.answered += 1;
        assert_eq!(guest.get(crate::vhost_guest::USED + 4 + 8 * entry, 4), u32::from(slot).to_le_bytes());
        match guest.get(crate::vhost_guest::STATUS + u64::from(slot), 1)[0] {
            0 => RequestResult::Data(guest.get(crate::vhost_guest::DATA, bytes)),
            _ => RequestResult::Failed,
        }
    }
}

impl Host for VirtioHost {
    fn read(&mut self, offset: u64, bytes: usize, patience: Duration) -> RequestResult {
        self.0.put(crate::vhost_guest::DATA, &vec![0xee; bytes]);
        self.exchange_with_device(crate::vhost_guest::READ, offset, bytes, patience)
    }

    fn write(&mut self, offset: u64, data: &[u8], patience: Duration) -> RequestResult {
        self.0.put(crate::vhost_guest::DATA, data);
        let got = self.exchange_with_device(crate::vhost_guest::WRITE, offset, data.len(), patience);
        if let RequestResult::Data(_) = got { RequestResult::Data(Vec::new()) } else { got }
    }

    fn again(&mut self, bytes: usize) -> RequestResult {
        self.answer(bytes, PATIENCE)
    }
}

const DONE: RequestResult = RequestResult::Data(Vec::new());

/// Applies every fault about requests, through one front-end.
fn apply_request_faults(device_threads: usize, kind: Kind, timing: bool, wait: Wait) {
    let server = serve_on_threads(device_threads, "apply", kind, timing, wait);
    let mut host = server.host();
    let (old, new) = (vec![1; 8192], vec![2; 8192]);
    let holds = |data: &Vec<u8>| RequestResult::Data(data.clone());
    assert_eq!(host.write(0, &old, PATIENCE), DONE);
    assert_eq!(host.read(0, 8192, PATIENCE), holds(&old));

    let rule = server.add(r#"action = "error", operation = "read", times = 1"#);
    assert_eq!(host.read(0, 8192, PATIENCE), RequestResult::Failed);
    assert_eq!(host.read(0, 8192, PATIENCE), holds(&old));
    assert_eq!(server.faults.list()[0]["happened"], 1);
    assert_eq!(server.faults.clear(Some(rule)), 1);

    let begun = Instant::now();
    server.add(r#"action = "delay", delay_us = 30000, times = 1"#);
    server.add(r#"action = "delay", delay_us = 20000, times = 1, operation = "write""#);
    assert_eq!(host.read(0, 8192, PATIENCE), holds(&old));
    assert!(begun.elapsed() >= Duration::from_millis(30), "{:?}", begun.elapsed());
    assert_eq!(host.write(0, &new, PATIENCE), DONE);
    assert!(begun.elapsed() >= Duration::from_millis(50), "{:?}", begun.elapsed());
    assert_eq!(host.read(0, 8192, PATIENCE), holds(&new));
    assert_eq!(server.faults.clear(None), 2);

    server.add(r#"action = "hang", times = 1"#);
    assert_eq!(host.write(0, &old, SILENCE), RequestResult::Nothing);
    assert_eq!(host.read(0, 8192, PATIENCE), holds(&new), "it has never begun");
    server.add(r#"action = "drop-completion", times = 1"#);
    assert_eq!(host.write(0, &old, SILENCE), RequestResult::Nothing);
    assert_eq!(host.read(0, 8192, PATIENCE), holds(&old), "it has been done");
    server.add(r#"action = "torn-write", times = 1"#);
    assert_eq!(host.write(0, &new, PATIENCE), RequestResult::Failed);
    assert_eq!(host.read(0, 8192, PATIENCE), holds(&[&new[..4096], &old[4096..]].concat()));
    assert_eq!(host.write(512, &new[..512], PATIENCE), DONE);
    server.faults.clear(None);
    server.add(r#"action = "flip-bits", bits = 39, times = 1"#);
    server.add(r#"action = "flip-bits", bits = 40, times = 1"#);
    assert_eq!(host.read(512, 512, PATIENCE), RequestResult::Data(vec![2; 512]), "the code corrects that");
    assert_eq!(host.read(512, 512, PATIENCE), RequestResult::Failed);
    server.add(r#"action = "repeat-completion", times = 2"#);
    for _ in 0..2 {
        assert_eq!(host.read(512, 512, PATIENCE), RequestResult::Data(vec![2; 512]));
        // In shared memory the repeated completion writes the same word, so the client does not see it.
        let again = if kind == Kind::SharedMemory { RequestResult::Nothing } else { RequestResult::Data(vec![2; 512]) };
        assert_eq!(host.again(512), again);
    }
    let summary = server.finish();
    assert_eq!(summary.tally.errors, 3);
    check_fault_figures(&summary.outcome);
}

/// Checks that the figures of a server have the faults that [`apply_request_faults`] applies, and the delays in the latencies.
fn check_fault_figures(outcome: &Outcome) {
    let counted = |name: &str| outcome.counters.iter().find(|(known, _)| *known == name).map(|(_, count)| *count);
    assert_eq!((counted("fault_delays"), counted("fault_hangs"), counted("fault_errors")), (Some(2), Some(1), Some(1)));
    let longest = |of: fn(&JobOutcome) -> Span| outcome.jobs.iter().map(of).max().unwrap();
    let (read, write) = (longest(|job| job.read.total.max()), longest(|job| job.write.total.max()));
    assert!(read >= Span::from_ms(29) && write >= Span::from_ms(19), "{read:?} {write:?}");
}

#[test]
fn request_faults_occur_through_all_front_ends() {
    for kind in KINDS {
        for (timing, wait) in [(false, Wait::Adaptive), (true, Wait::Adaptive), (true, Wait::Block)] {
            eprintln!("{kind:?}, timing {timing}, {wait:?}");
            apply_request_faults(1, kind, timing, wait);
        }
    }
}

#[test]
fn faults_occur_over_nbd_on_several_threads_with_timing() {
    apply_request_faults(3, Kind::Nbd, true, Wait::Adaptive);
}

#[test]
fn faults_occur_over_shm_on_several_threads_with_timing() {
    apply_request_faults(3, Kind::SharedMemory, true, Wait::Adaptive);
}

#[test]
fn faults_occur_over_vfio_user_on_several_threads_with_timing() {
    apply_request_faults(3, Kind::VfioUser, true, Wait::Adaptive);
}

#[test]
fn faults_occur_over_vhost_user_on_several_threads_with_timing() {
    apply_request_faults(3, Kind::VhostUser, true, Wait::Adaptive);
}

#[test]
fn fault_lines_apply_through_all_front_ends() {
    for kind in KINDS {
        for timing in [false, true] {
            let server = serve("fault-lines", kind, timing, Wait::Adaptive);
            let mut host = server.host();
            let old = vec![1; 4096];
            assert_eq!(host.write(0, &old, PATIENCE), DONE);
            let mut timed = |line: &str, reads: u32| {
                let rule = server.add(line);
                let begun = Instant::now();
                (0..reads)
                    .for_each(|_| assert_eq!(host.read(0, 4096, PATIENCE), RequestResult::Data(old.clone()), "{line}"));
                server.faults.clear(Some(rule));
                begun.elapsed()
            };
            let ms = Duration::from_millis;
            assert!(timed("for=30ms stall", 1) >= ms(29), "{kind:?} {timing}");
            assert!(timed("at=request:2 for=20ms stall", 2) >= ms(20), "{kind:?} {timing}");
            // Eleven requests at 500 per second have ten intervals of 2 ms: 20 ms.
            assert!(timed("throttle iops=500", 11) >= ms(20), "{kind:?} {timing}");
            if timing {
                let calm = timed("error operation=write", 20);
                let slow = timed("slow-down factor=500", 20);
                assert!(slow > 20 * calm.min(ms(1)), "{kind:?}: {slow:?}, {calm:?} without");
            }
            server.add("at=request:1 for=2requests error");
            assert_eq!([(); 3].map(|()| host.read(0, 4096, PATIENCE) == RequestResult::Failed), [true, true, false]);
            server.add("at=request:1 lost-completion");
            assert_eq!(host.read(0, 4096, SILENCE), RequestResult::Nothing);
            assert_eq!(host.read(0, 4096, PATIENCE), RequestResult::Data(old.clone()));
            let counters = server.faults.counters();
            let count = |name| counters.iter().find(|(counter, _)| *counter == name).map(|(_, count)| *count);
            assert_eq!((count("fault_stalled_requests"), count("fault_throttled_requests")), (Some(2), Some(11)));
            assert_eq!((count("fault_errors"), count("fault_dropped_completions")), (Some(2), Some(1)));
            server.finish();
        }
    }
}

#[test]
fn slow_down_without_timing_is_refused() {
    let server = serve("slow", Kind::Nbd, false, Wait::Adaptive);
    let slow = server.drive.fault_from_line("test", "slow-down factor=2").unwrap();
    let found = server.faults.add("test", slow).unwrap_err().to_string();
    assert!(found.contains("with timing off") && found.ends_with("allowed: --timing on, or delay"), "{found}");
    server.finish();
}

#[test]
fn fault_rule_matches_its_bytes_thread_and_turn() {
    for kind in KINDS {
        let server = serve("about", kind, false, Wait::Adaptive);
        let mut host = server.host();
        server.add(r#"action = "error", offset_bytes = 4096, size_bytes = 512, thread = 1, first = 2, every = 2"#);
        let failed = |host: &mut dyn Host, offset| host.read(offset, 512, PATIENCE) == RequestResult::Failed;
        let met: Vec<bool> = [4096, 4096, 0, 4608, 4096, 4096].iter().map(|at| failed(&mut *host, *at)).collect();
        assert_eq!(met, [false, true, false, false, false, true], "{kind:?}");
        server.faults.clear(None);
        server.add(r#"action = "error", thread = 2"#);
        assert!(!failed(&mut *host, 4096), "{kind:?}");
    }
}

#[test]
fn bank_packet_and_link_faults_slow_the_model_temporarily() {
    for kind in KINDS {
        for device_threads in [1, 3] {
            let server = serve_on_threads(device_threads, "model", kind, true, Wait::Adaptive);
            let mut host = server.host();
            let mut read = || {
                let asked = Instant::now();
                assert_eq!(host.read(0, 4096, PATIENCE), RequestResult::Data(vec![0; 4096]));
                asked.elapsed()
            };
            read();
            // The slow bank takes 100,000 times 304 ns: 30.4 ms.
            let slow = server.add(r#"action = "slow-bank", bank = 0, factor = 100000"#);
            assert!(read() > Duration::from_millis(30), "{kind:?}");
            server.faults.clear(Some(slow));
            let well = (0..20).map(|_| read()).min().unwrap();
            assert!(well < Duration::from_millis(10), "{kind:?}: {well:?}");
            let failed_at = Instant::now();
            server.add(r#"action = "retrain", lanes = 1, outage_us = 20000"#);
            read();
            assert!(failed_at.elapsed() > Duration::from_millis(15), "{kind:?}");
            server.add(r#"action = "corrupt-packet", every = 2"#);
            read();
            let outcome = server.finish().outcome;
            let counted =
                |name| outcome.counters.iter().find(|(counter, _)| *counter == name).map_or(0, |(_, count)| *count);
            assert!(counted("fault_retrains") == 1 && counted("fault_corrupted_packets") > 0, "{kind:?}: {outcome:?}");
        }
    }
}

#[test]
fn vfio_user_interrupts_are_lost_or_repeated_by_faults() {
    for timing in [false, true] {
        let server = serve("interrupts", Kind::VfioUser, timing, Wait::Adaptive);
        let (mut guest, fds) = server.guest();
        let count = || {
            thread::sleep(Duration::from_millis(10));
            let mut bytes = [0; 8];
            rustix::io::read(&fds[1], &mut bytes).map_or(0, |_| u64::from_ne_bytes(bytes))
        };
        let read = |guest: &mut Guest| assert_eq!(guest.read(0, 512, PATIENCE), RequestResult::Data(vec![0; 512]));
        read(&mut guest);
        assert_eq!(count(), 1);
        server.add(r#"action = "lose-interrupt", times = 1"#);
        read(&mut guest);
        assert_eq!(count(), 0, "timing {timing}");
        read(&mut guest);
        assert_eq!(count(), 1);
        server.add(r#"action = "repeat-interrupt", times = 1, delay_us = 300"#);
        read(&mut guest);
        assert_eq!(count() + count(), 2, "timing {timing}");
    }
}

/// Cancel comes behind the commands in their queue, so that all of them have been fetched when it is executed.
#[test]
fn cancel_and_abort_over_vfio_user_end_hung_commands() {
    for timing in [false, true] {
        let server = serve("cancel", Kind::VfioUser, timing, Wait::Adaptive);
        let mut driver = server.guest().0.0;
        server.add(r#"action = "hang", times = 3"#);
        let [first, second, third] = [0; 3].map(|_| driver.transfer(opcode::READ, 0, 1));
        let cancel = |driver: &mut Driver, id: u16, code| {
            driver.submit(1, opcode::CANCEL, 1, [0; 2], [1 | u32::from(id) << 16, code, 0, 0, 0, 0])
        };
        let ends = |driver: &mut Driver, id, status, result| {
            let entry = driver.answer(1);
            assert_eq!((entry.command_id, entry.status.kind(), entry.result), (id, status, result), "timing {timing}");
        };
        let one = cancel(&mut driver, second, 0);
        ends(&mut driver, second, Status::ABORT_REQUESTED, 0);
        ends(&mut driver, one, Status::SUCCESS, 1);
        let aborted = driver.administer(admin::ABORT, 0, 0, [1 | u32::from(first) << 16, 0, 0, 0, 0, 0]);
        assert_eq!(aborted.result, 0);
        ends(&mut driver, first, Status::ABORT_REQUESTED, 0);
        let all = cancel(&mut driver, u16::MAX, 1);
        ends(&mut driver, third, Status::ABORT_REQUESTED, 0);
        ends(&mut driver, all, Status::SUCCESS, 1);
        let read = driver.transfer(opcode::READ, 0, 1);
        ends(&mut driver, read, Status::SUCCESS, 0);
        drop(driver);
        server.finish();
    }
}

#[test]
fn clients_leaving_during_a_fault_harm_nobody() {
    for kind in KINDS {
        for timing in [false, true] {
            let server = serve("gone", kind, timing, Wait::Adaptive);
            let mut host = server.host();
            let rule = server.add(r#"action = "delay", delay_us = 100000"#);
            assert_eq!(host.write(0, &[1; 4096], Duration::from_millis(2)), RequestResult::Nothing);
            drop(host);
            server.faults.clear(Some(rule));
            let mut other = server.host();
            thread::sleep(Duration::from_millis(110));
            assert_eq!(other.write(4096, &[2; 4096], PATIENCE), DONE);
            assert_eq!(other.read(4096, 4096, PATIENCE), RequestResult::Data(vec![2; 4096]), "{kind:?} {timing}");
            server.finish();
        }
    }
}
