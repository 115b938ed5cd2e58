//! One controller over vfio-user whose queues are divided among device threads: data, resets, deletions, random conversations.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::background::{BackgroundServer, alone, device};
use crate::vfio_client::{Client, DoorbellMethod, Driver, ENTRIES, ISLAND, PAGE, RAM, RAM_BYTES};
use phaselink_client::chunk;
use phaselink_client::shared::memory::Memory;
use phaselink_core::drive::Drive;
use phaselink_core::drive_file::{KeyOverride, shipped};
use phaselink_core::protocol::nvme::commands::opcode;
use phaselink_core::protocol::nvme::spec::{CompletionEntry, Status, SubmissionEntry, admin};
use phaselink_core::random::mix;
use phaselink_serve::device::store::{Geometry, Store};
use phaselink_serve::front::vfio_user::{ControllerSocket, VfioUser};
use phaselink_serve::model::wall::Wait;
use phaselink_serve::server::Server;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};

const GEOMETRY: Geometry = Geometry { capacity_bytes: 1 << 20, block_bytes: 512 };
const QUEUES: u16 = 6;
const PATIENCE: Duration = Duration::from_secs(20);

struct Running {
    path: PathBuf,
    server: BackgroundServer,
}

/// How clients ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ring {
    Message,
    Page,
}

fn drive() -> Drive {
    let shipped = shipped::find("nvme").unwrap();
    let settings = [format!("nvme.queue_pairs={QUEUES}"), String::from("nvme.queue_entries=64")];
    let settings: Vec<KeyOverride> = settings.iter().map(|text| KeyOverride::parse(text).unwrap()).collect();
    Drive::from_toml(shipped.file, shipped.text, &settings).unwrap()
}

fn serve(test: &str, timing: bool, ring: Ring, device_threads: usize) -> Running {
    serve_store(test, timing, ring, device_threads, Store::in_memory(GEOMETRY).unwrap())
}

fn serve_store(test: &str, timing: bool, ring: Ring, device_threads: usize, store: Store) -> Running {
    let alone = alone();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{ring:?}.divided"));
    if ring == Ring::Page {
        fs::create_dir_all(&path).unwrap();
    }
    let device = device(drive(), store);
    let served = ControllerSocket::bind(&path, &device.drive, GEOMETRY, 0).unwrap();
    let path = if ring == Ring::Page { path.join("cntrl") } else { path };
    let server = Server {
        device,
        timing,
        wait: Wait::Adaptive,
        seed: 1,
        fronts: vec![Box::new(VfioUser(vec![served]))],
        metrics: None,
        device_threads,
        control: None,
    };
    Running { path, server: BackgroundServer::start(server, alone) }
}

/// A driver whose admin queue is there.
fn attach_with_admin_queue(path: &Path, ring: Ring) -> Driver {
    let client = Client::connect(path);
    client.agree("");
    client.map(RAM, 0, RAM_BYTES, Some(client.ram.as_fd())).unwrap();
    let rings = match ring {
        Ring::Message => DoorbellMethod::Messages,
        Ring::Page => DoorbellMethod::Page(Memory::open(&client.region_info(0, 128).1[0], 0x2000).unwrap()),
    };
    start(client, rings)
}

fn start(client: Client, rings: DoorbellMethod) -> Driver {
    let mut driver = Driver::start(client, RAM, rings);
    driver.administer(admin::SET_FEATURES, 0, 0, [7, 0x00ff_00ff, 0, 0, 0, 0]);
    driver
}

/// A queue pair in pages of its own: commands, answers, and 4 pages of data.
struct Queue {
    number: u16,
    tail: u32,
    head: u32,
    phase: bool,
}

impl Queue {
    const PAGES: u64 = 6;
    const COMMANDS: u64 = 0;
    const ANSWERS: u64 = 1;
    const DATA: u64 = 2;

    /// Where its pages begin in the guest's memory.
    fn page(number: u16, which: u64) -> u64 {
        (24 + u64::from(number) * Queue::PAGES + which) * PAGE
    }

    fn at(&self, which: u64) -> u64 {
        Queue::page(self.number, which)
    }

    /// Create it, with an interrupt vector of its own.
    fn create_with_vector(driver: &mut Driver, number: u16) -> Queue {
        let client = &driver.client;
        client.ram_words.words(Queue::page(number, 0), 1024).iter().for_each(|word| word.store(0, Ordering::Relaxed));
        let (queue, size) = (u32::from(number), (ENTRIES - 1) << 16);
        let pages = [Queue::ANSWERS, Queue::COMMANDS].map(|which| Queue::page(number, which) / PAGE);
        driver.administer(admin::CREATE_COMPLETION_QUEUE, 0, pages[0], [queue | size, 0b11 | queue << 16, 0, 0, 0, 0]);
        driver.administer(admin::CREATE_SUBMISSION_QUEUE, 0, pages[1], [queue | size, 1 | queue << 16, 0, 0, 0, 0]);
        Queue { number, tail: 0, head: 0, phase: true }
    }

    fn delete(self, driver: &mut Driver) {
        let queue = [u32::from(self.number), 0, 0, 0, 0, 0];
        driver.administer(admin::DELETE_SUBMISSION_QUEUE, 0, 0, queue);
        driver.administer(admin::DELETE_COMPLETION_QUEUE, 0, 0, queue);
        driver.client.ram_words.words(self.at(0), 1024).iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Put a command in, with its data at an address.
    fn submit(&mut self, ram: &Memory, opcode: u8, slba: u64, blocks: u32, data: u64) {
        let entry = SubmissionEntry {
            opcode,
            command_id: self.tail as u16,
            namespace_id: 1,
            prp1: data,
            ..SubmissionEntry::default()
        };
        let entry = if opcode == opcode::FLUSH { entry } else { entry.of_blocks(slba, blocks) };
        chunk::copy_in(ram.words(self.at(Queue::COMMANDS) + u64::from(self.tail) * 64, 8), &entry.encode());
        self.tail = (self.tail + 1) % ENTRIES;
    }

    fn ring(&self, wakeups: &DoorbellWrites) {
        wakeups.ring(self.number, self.tail, self.head);
    }

    /// The next answer, if it has come.
    fn poll_completion(&mut self, ram: &Memory) -> Option<CompletionEntry> {
        let words = ram.words(self.at(Queue::ANSWERS) + u64::from(self.head) * 16, 2);
        let last = words[1].load(Ordering::Acquire);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&words[0].load(Ordering::Relaxed).to_le_bytes());
        bytes[8..].copy_from_slice(&last.to_le_bytes());
        let entry = CompletionEntry::decode(&bytes);
        if entry.phase != self.phase {
            return None;
        }
        self.head = (self.head + 1) % ENTRIES;
        self.phase ^= self.head == 0;
        Some(entry)
    }

    fn answer(&mut self, ram: &Memory) -> CompletionEntry {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(entry) = self.poll_completion(ram) {
                return entry;
            }
            assert!(Instant::now() < until, "queue {} has no answer", self.number);
            thread::yield_now();
        }
    }

    /// One command, and its answer.
    fn ask(&mut self, ram: &Memory, wakeups: &DoorbellWrites, opcode: u8, slba: u64, blocks: u32) -> Status {
        self.submit(ram, opcode, slba, blocks, RAM + self.at(Queue::DATA));
        self.ring(wakeups);
        let status = self.answer(ram).status;
        self.ring(wakeups);
        status
    }

    /// Write pages that are this queue's alone, and read them back.
    fn write_and_read_pages(&mut self, ram: &Memory, wakeups: &DoorbellWrites, rounds: u64) {
        for round in 0..rounds {
            let slba = u64::from(self.number) * 64 + mix(round) % 8 * 8;
            let number = u64::from(self.number);
            let value = |word: u64| mix(number << 40 | round << 20 | word);
            let data = ram.words(self.at(Queue::DATA), 512);
            (0..).zip(data).for_each(|(word, place)| place.store(value(word), Ordering::Relaxed));
            assert_eq!(self.ask(ram, wakeups, opcode::WRITE, slba, 8), Status::SUCCESS);
            data.iter().for_each(|place| place.store(0, Ordering::Relaxed));
            assert_eq!(self.ask(ram, wakeups, opcode::READ, slba, 8), Status::SUCCESS);
            let is_right = (0..).zip(data).all(|(word, place)| place.load(Ordering::Relaxed) == value(word));
            assert!(is_right, "queue {}, round {round}", self.number);
        }
    }
}

/// Doorbells that threads ring: in the page, or by messages that nobody answers.
struct DoorbellWrites<'a>(&'a Driver);

impl DoorbellWrites<'_> {
    fn ring(&self, queue: u16, tail: u32, head: u32) {
        let at = 0x1000 + u64::from(queue) * 8;
        match &self.0.rings {
            DoorbellMethod::Page(page) => {
                page.word(at).store(u64::from(tail) | u64::from(head) << 32, Ordering::Release);
            }
            DoorbellMethod::Messages => {
                let both = [tail.to_le_bytes(), head.to_le_bytes()].concat();
                self.0.client.write_region_posted(0, at, &both);
            }
        }
    }
}

fn create_all(driver: &mut Driver) -> Vec<Queue> {
    (1..=QUEUES).map(|number| Queue::create_with_vector(driver, number)).collect()
}

#[test]
fn queues_on_several_threads_read_each_others_writes() {
    const ROUNDS: u64 = 40;
    for (ring, threads) in [(Ring::Page, 2), (Ring::Message, 2), (Ring::Message, 3), (Ring::Page, 16)] {
        for timing in [false, true] {
            let server = serve("data", timing, ring, threads);
            let mut driver = attach_with_admin_queue(&server.path, ring);
            let mut queues = create_all(&mut driver);
            let (ram, wakeups) = (&driver.client.ram_words, &DoorbellWrites(&driver));
            thread::scope(|scope| {
                queues
                    .iter_mut()
                    .for_each(|queue| drop(scope.spawn(|| queue.write_and_read_pages(ram, wakeups, ROUNDS))));
            });
            drop(driver);
            let summary = server.server.finish();
            let (ios, tally) = (ROUNDS * u64::from(QUEUES), &summary.tally);
            assert_eq!((tally.read.ios, tally.write.ios, tally.errors), (ios, ios, 0), "{ring:?} {threads} {timing}");
            assert_eq!(tally.lag.count(), if timing { 2 * ios } else { 0 });
        }
    }
}

#[test]
fn each_queue_interrupts_by_its_vector_on_any_thread() {
    let server = serve("vectors", false, Ring::Message, 3);
    let mut driver = attach_with_admin_queue(&server.path, Ring::Message);
    let eventfd = || rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    let fds: Vec<OwnedFd> = (0..=QUEUES).map(|_| eventfd()).collect();
    driver.client.set_msix_eventfds(&fds.iter().map(AsFd::as_fd).collect::<Vec<_>>()).unwrap();
    let mut queues = create_all(&mut driver);
    let heard = |fd: &OwnedFd| rustix::io::read(fd, &mut [0; 8]).is_ok();
    assert!(heard(&fds[0]));
    for queue in &mut queues {
        queue.write_and_read_pages(&driver.client.ram_words, &DoorbellWrites(&driver), 1);
        let number = usize::from(queue.number);
        let timeout = Timespec { tv_sec: 10, tv_nsec: 0 };
        rustix::event::poll(&mut [PollFd::new(&fds[number], PollFlags::IN)], Some(&timeout)).unwrap();
        let heard: Vec<usize> = (1..fds.len()).filter(|other| heard(&fds[*other])).collect();
        assert_eq!(heard, [number]);
    }
}

#[test]
fn flush_waits_for_the_disk_on_any_thread() {
    for timing in [false, true] {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("divided.store");
        let _ = fs::remove_file(&path);
        let server = serve_store("disk", timing, Ring::Message, 3, Store::open(&path, GEOMETRY).unwrap());
        let mut driver = attach_with_admin_queue(&server.path, Ring::Message);
        for queue in &mut create_all(&mut driver) {
            queue.write_and_read_pages(&driver.client.ram_words, &DoorbellWrites(&driver), 2);
            let status = queue.ask(&driver.client.ram_words, &DoorbellWrites(&driver), opcode::FLUSH, 0, 1);
            assert_eq!(status, Status::SUCCESS, "queue {}", queue.number);
        }
        assert_eq!(server.server.finish().tally.flush.ios, u64::from(QUEUES));
        fs::remove_file(path).unwrap();
    }
}

/// Memory without a descriptor is asked for by the thread with the socket, whoever has found the command.
#[test]
fn unmapped_data_is_requested_through_the_socket() {
    for timing in [false, true] {
        let server = serve("island-data", timing, Ring::Message, 2);
        let mut driver = attach_with_admin_queue(&server.path, Ring::Message);
        driver.client.map(ISLAND, 0, RAM_BYTES, None).unwrap();
        for queue in &mut create_all(&mut driver) {
            let (client, number) = (&driver.client, u64::from(queue.number));
            let data: Vec<u8> = (0..4096_u64).map(|byte| mix(number << 20 | byte) as u8).collect();
            let mut ask = |opcode| {
                queue.submit(&client.ram_words, opcode, number * 8, 8, ISLAND);
                queue.ring(&DoorbellWrites(&driver));
                let until = Instant::now() + PATIENCE;
                let answer = loop {
                    // The server's requests are handled while a register is read.
                    client.register(0x1c);
                    if let Some(answer) = queue.poll_completion(&client.ram_words) {
                        break answer;
                    }
                    assert!(Instant::now() < until, "queue {number} has no answer");
                };
                queue.ring(&DoorbellWrites(&driver));
                assert_eq!(answer.status, Status::SUCCESS);
            };
            client.island.write_all_at(&data, 0).unwrap();
            ask(opcode::WRITE);
            client.island.write_all_at(&[0; 4096], 0).unwrap();
            ask(opcode::READ);
            let mut found = vec![0; 4096];
            client.island.read_exact_at(&mut found, 0).unwrap();
            assert!(found == data, "queue {number}");
        }
    }
}

/// Reads in flight on all queues; then the controller is disabled, and nothing is written to the host's memory any more.
#[test]
fn nothing_completes_after_a_reset_with_requests_in_flight() {
    for (ring, timing) in [(Ring::Page, false), (Ring::Message, false), (Ring::Page, true), (Ring::Message, true)] {
        let server = serve("reset", timing, ring, 3);
        let mut driver = attach_with_admin_queue(&server.path, ring);
        for round in 0..20_u64 {
            let mut queues = create_all(&mut driver);
            let ram = &driver.client.ram_words;
            for queue in &mut queues {
                let data = RAM + queue.at(Queue::DATA);
                (0..ENTRIES as u64 - 1).for_each(|block| queue.submit(ram, opcode::READ, block, 8, data));
                queue.ring(&DoorbellWrites(&driver));
            }
            (0..mix(round) % 4000).for_each(|_| std::hint::spin_loop());
            driver.client.set_register(0x14, 0);
            driver.wait_for_status(0);
            let pages = ram.words(Queue::page(1, 0), usize::from(QUEUES) * 6 * 512);
            pages.iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
            thread::sleep(Duration::from_micros(500));
            assert!(pages.iter().all(|word| word.load(Ordering::Relaxed) == u64::MAX), "{ring:?} {timing} {round}");
            let Driver { client, rings, .. } = driver;
            driver = start(client, rings);
        }
        let mut queues = create_all(&mut driver);
        queues
            .iter_mut()
            .for_each(|queue| queue.write_and_read_pages(&driver.client.ram_words, &DoorbellWrites(&driver), 3));
    }
}

#[test]
fn leaving_client_with_requests_leaves_queues_to_the_next() {
    for timing in [false, true] {
        let server = serve("gone", timing, Ring::Message, 2);
        for _ in 0..5 {
            let mut driver = attach_with_admin_queue(&server.path, Ring::Message);
            let mut queues = create_all(&mut driver);
            queues
                .iter_mut()
                .for_each(|queue| queue.write_and_read_pages(&driver.client.ram_words, &DoorbellWrites(&driver), 2));
            for queue in &mut queues {
                let data = RAM + queue.at(Queue::DATA);
                (0..20).for_each(|block| queue.submit(&driver.client.ram_words, opcode::READ, block, 8, data));
                queue.ring(&DoorbellWrites(&driver));
            }
        }
    }
}

/// While some queues work, others come and go with commands in flight, and memory is mapped and taken away.
#[test]
fn random_queue_changes_disturb_no_other_queue() {
    for (ring, timing, seed) in
        [(Ring::Page, false, 1), (Ring::Message, false, 2), (Ring::Page, true, 3), (Ring::Message, true, 4)]
    {
        let server = serve("random", timing, ring, 3);
        let mut driver = attach_with_admin_queue(&server.path, ring);
        let mut queues = create_all(&mut driver);
        let coming = queues.split_off(3);
        let (is_over, mut given_up) = (AtomicBool::new(false), 0);
        // The steady queues write doorbells to a page, or send them as messages, which the socket does not mix.
        let steady = |queue: &mut Queue, ram: &Memory, wakeups: &DoorbellWrites| {
            while !is_over.load(Ordering::Relaxed) {
                queue.write_and_read_pages(ram, wakeups, 1);
            }
        };
        let Driver { client, rings, .. } = &driver;
        let shared = Driver {
            client: Client {
                socket: client.socket.try_clone().unwrap(),
                ram: client.ram.try_clone().unwrap(),
                ram_words: Memory::open(&OwnedFd::from(client.ram.try_clone().unwrap()), RAM_BYTES).unwrap(),
                island: client.island.try_clone().unwrap(),
            },
            rings: match rings {
                DoorbellMethod::Messages => DoorbellMethod::Messages,
                DoorbellMethod::Page(_) => {
                    DoorbellMethod::Page(Memory::open(&client.region_info(0, 128).1[0], 0x2000).unwrap())
                }
            },
            ..Driver {
                client: Client::connect(&server.path),
                rings: DoorbellMethod::Messages,
                base: RAM,
                tails: [0; 2],
                heads: [0; 2],
                phases: [true; 2],
                next_id: 1,
            }
        };
        let (ram, wakeups, steady) = (&shared.client.ram_words, &DoorbellWrites(&shared), &steady);
        thread::scope(|scope| {
            queues.iter_mut().for_each(|queue| drop(scope.spawn(move || steady(queue, ram, wakeups))));
            let conversed = scope.spawn(|| random_queue_lifecycle(&mut driver, coming, seed)).join();
            is_over.store(true, Ordering::Relaxed);
            given_up = conversed.unwrap();
        });
        drop((driver, shared));
        assert!(server.server.finish().tally.errors <= given_up, "only commands fail whose queue was deleted");
    }
}

/// Commands that were in flight when their queues were deleted.
fn random_queue_lifecycle(driver: &mut Driver, coming: Vec<Queue>, seed: u64) -> u64 {
    let mut given_up = 0;
    let mut there: Vec<Option<Queue>> = coming.into_iter().map(Some).collect();
    let mut is_mapped = false;
    for step in 0..150_u64 {
        let draw = mix(seed << 32 | step);
        let place = (draw >> 8) as usize % there.len();
        let number = QUEUES - there.len() as u16 + 1 + place as u16;
        if draw.is_multiple_of(5) {
            match is_mapped {
                true => driver.client.unmap(ISLAND, RAM_BYTES).unwrap(),
                false => driver.client.map(ISLAND, 0, RAM_BYTES, Some(driver.client.island.as_fd())).unwrap(),
            }
            is_mapped ^= true;
            continue;
        }
        match (draw % 5, there[place].take()) {
            (_, None) => there[place] = Some(Queue::create_with_vector(driver, number)),
            // Delete the queue with commands in flight.
            (1, Some(mut queue)) => {
                let data = RAM + queue.at(Queue::DATA);
                (0..9).for_each(|block| queue.submit(&driver.client.ram_words, opcode::READ, block, 8, data));
                queue.ring(&DoorbellWrites(driver));
                queue.delete(driver);
                given_up += 9;
            }
            (_, Some(mut queue)) => {
                queue.write_and_read_pages(&driver.client.ram_words, &DoorbellWrites(driver), 1);
                there[place] = Some(queue);
            }
        }
    }
    given_up
}
