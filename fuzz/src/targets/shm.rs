//! Targets that act as a client of the device in shared memory.

use std::sync::atomic::Ordering;

use phaselink_client::chunk::{self, COMMAND_WORDS};
use phaselink_client::shared::memory::Memory;
use phaselink_ring::command::{Command, FIRST_PASS, Operation, next_entry};
use phaselink_ring::greeting::{Hello, ServerWelcomeMessage, VERSION};
use phaselink_ring::layout::{Layout, words};
use phaselink_ring::status::Status;
use phaselink_serve::device::store::{Geometry, Store};
use phaselink_serve::front::shm::client::{self, CheckedCommand, Client, RingEntry};
use phaselink_serve::front::shm::share::DriveRange;

use crate::Target;
use crate::script::Script;

const CAPACITY_BYTES: u64 = 64 << 10;
const BLOCK_BYTES: u32 = 512;

/// Checks the steps of a client and of the device: nearly correct commands, overwritten words, polls of the ring,
/// transfers.
pub(super) const COMMANDS: Target = Target { name: "shm", run: commands, seeds: conversations };

/// Checks the messages with which both sides begin.
pub(super) const GREETING: Target = Target { name: "shm-greeting", run: greeting, seeds: greetings };

fn greeting(input: &[u8]) {
    if let Some(hello) = Hello::decode(input) {
        // Only reserved bits may differ from the input.
        assert_eq!(Hello::decode(&hello.encode()), Some(hello));
        let _ = hello.layout.is_allowed();
    }
    if let Ok(welcome) = ServerWelcomeMessage::decode(input) {
        assert!(welcome.layout.is_allowed());
        assert_eq!(ServerWelcomeMessage::decode(&ServerWelcomeMessage::encode(Ok(welcome))).ok(), Some(welcome));
    }
}

fn commands(input: &[u8]) {
    let mut script = Script::new(input);
    let mut pair = ShmPair::new(&mut script);
    while !script.is_over() {
        match script.byte() % 4 {
            0 => pair.publish(&mut script),
            1 => pair.scribble(&mut script),
            2 => pair.take(&mut script),
            _ => pair.perform(),
        }
    }
}

/// Client and device, with the memory between them seen from both sides.
struct ShmPair {
    layout: Layout,
    part: DriveRange,
    host: Memory,
    device: Client,
    store: Store,
    /// Entry of each queue into which the client writes its next command.
    tails: Vec<(u32, u8)>,
    taken: Vec<CheckedCommand>,
    space: Vec<u8>,
}

impl ShmPair {
    fn new(script: &mut Script<'_>) -> ShmPair {
        let [queues, entries, blocks, part] = [(); 4].map(|()| u32::from(script.byte()));
        let layout =
            Layout { queues: 1 + queues % 3, entries: 2 + entries % 7, transfer_bytes: 512 * (1 + blocks % 8) };
        let start = u64::from(part & 1) * 4096;
        let part = DriveRange { start, bytes: 16 << 10, block_bytes: BLOCK_BYTES, writes: part & 2 == 0 };
        let (device, fd) = Memory::create(layout.memory_bytes()).expect("memory");
        let host = Memory::open(&fd, layout.memory_bytes()).expect("the same memory");
        let store = Store::in_memory(Geometry { capacity_bytes: CAPACITY_BYTES, block_bytes: BLOCK_BYTES });
        ShmPair {
            layout,
            part,
            host,
            device: Client::new(0, device, layout, part, 0..layout.queues),
            store: store.expect("64 KiB"),
            tails: vec![(0, FIRST_PASS); layout.queues as usize],
            taken: Vec::new(),
            space: vec![0; layout.transfer_bytes as usize],
        }
    }

    /// Writes a command, each part of which may be wrong.
    fn publish(&mut self, script: &mut Script<'_>) {
        let queue = u32::from(script.byte()) % self.layout.queues;
        let [code, slot, offset, blocks, wrong] = [(); 5].map(|()| script.byte());
        let (places, (tail, pass)) = (self.layout.places(queue), self.tails[queue as usize]);
        let mut command = Command {
            operation: [Operation::Read, Operation::Write, Operation::Flush][usize::from(code % 3)],
            pass,
            slot: u16::from(slot) % self.layout.slots() as u16,
            attempt: slot,
            offset: u64::from(offset % 64) * 512,
            bytes: u32::from(blocks % 16) * 512,
            buffer: places.buffer(u32::from(slot) % self.layout.slots()),
            tag: script.number(8),
        };
        match wrong % 8 {
            1 => command.slot = script.number(2) as u16,
            2 => command.buffer = script.number(8),
            3 => command.offset = script.number(8),
            4 => command.bytes = script.number(4) as u32,
            5 => command.pass = script.byte(),
            _ => {}
        }
        let mut bytes = command.encode();
        if wrong & 0x80 != 0 {
            bytes[0] = script.byte();
        }
        chunk::publish(self.host.words(places.entry(tail), COMMAND_WORDS), &bytes);
        self.tails[queue as usize] = next_entry(tail, pass, self.layout.entries);
    }

    /// Overwrites any word.
    fn scribble(&mut self, script: &mut Script<'_>) {
        let words = self.layout.memory_bytes() / 8;
        let place = script.number(3) % words;
        self.host.word(place * 8).store(script.number(8), Ordering::Release);
    }

    fn take(&mut self, script: &mut Script<'_>) {
        let queue = u32::from(script.byte()) % self.layout.queues;
        let _ = self.device.has_command(queue);
        let RingEntry::Command(command) = self.device.take_command(queue) else { return };
        let end = command.offset + u64::from(command.bytes);
        assert!(command.offset >= self.part.start && end <= self.part.start + self.part.bytes, "{command:?}");
        assert!(
            command.bytes <= self.layout.transfer_bytes && command.bytes.is_multiple_of(BLOCK_BYTES),
            "{command:?}"
        );
        assert!(self.part.writes || command.operation != Operation::Write, "{command:?}");
        self.taken.push(command);
        let most = self.layout.queues * self.layout.slots();
        assert!(self.taken.len() <= most as usize, "more under way than slots");
    }

    fn perform(&mut self) {
        if self.taken.is_empty() {
            return;
        }
        let command = self.taken.remove(0);
        // Another thread executes flushes. This one only completes them.
        let status = match command.operation {
            Operation::Flush => {
                let status = client::status(self.store.flush());
                self.device.finish(&command, status, 0);
                status
            }
            _ => self.device.execute(&command, &self.store, &mut self.space),
        };
        assert_eq!(status, Status::Success, "{command:?}");
        let buffer = self.layout.places(command.queue).buffer(command.slot.into());
        let [mut held, mut moved] = [(); 2].map(|()| vec![0; command.bytes as usize]);
        self.store.read(command.offset, &mut held).expect("memory");
        chunk::copy_out(self.host.words(buffer, words(command.bytes)), &mut moved);
        assert!(held == moved, "{command:?}: other bytes than asked for");
        assert!(words(command.bytes) <= words(self.layout.transfer_bytes));
    }
}

fn conversations() -> Vec<Vec<u8>> {
    let publish =
        |code: u8, slot: u8, offset: u8, blocks: u8| [&[0, 0, code, slot, offset, blocks, 0][..], &[9; 8]].concat();
    let do_it = [2, 0, 3];
    let write = [&publish(1, 0, 2, 1)[..], &do_it].concat();
    let read = [&publish(0, 0, 2, 1)[..], &do_it].concat();
    let flush = [&publish(2, 1, 0, 0)[..], &do_it].concat();
    let wrong = [&[0, 1, 0, 1, 2, 1, 2][..], &[7; 16], &do_it].concat();
    let scribble = [&[1, 64, 0, 0][..], &[1; 8], &do_it].concat();
    vec![
        [&[0, 4, 1, 0][..], &write, &read, &flush, &read].concat(),
        [&[2, 0, 7, 1][..], &write, &wrong, &scribble, &read].concat(),
        [&[1, 6, 0, 2][..], &write, &scribble, &wrong].concat(),
    ]
}

fn greetings() -> Vec<Vec<u8>> {
    let layout = Layout { queues: 2, entries: 64, transfer_bytes: 4096 };
    let hello = Hello { version: VERSION, layout, writes: true };
    let mut welcome = ServerWelcomeMessage::encode(Err(phaselink_ring::greeting::Refusal::Full)).to_vec();
    let mut granted = welcome.clone();
    granted[12] = 0;
    granted[16..20].copy_from_slice(&[0, 0, 1, 0]);
    for (at, number) in (24..).step_by(4).zip([512u32, 32, 2, 64, 4096, 7]) {
        granted[at..at + 4].copy_from_slice(&number.to_le_bytes());
    }
    welcome.truncate(60);
    vec![hello.encode().to_vec(), welcome, granted]
}
