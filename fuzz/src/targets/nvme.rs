//! Targets that act as the host of the NVMe controller: registers, doorbells, commands, and changes to the memory that
//! the controller reads.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::Arc;

use phaselink_core::config::{PlacementIsolation, TranslationPolicyName};
use phaselink_core::media::keys::{KeyLayout, KeySpace};
use phaselink_core::media::translation::policy::TranslationPolicySettings;
use phaselink_core::media::translation::{HostStreams, TranslationShape};
use phaselink_core::media::zones::ZoneLayout;
use phaselink_core::protocol::nvme::commands::{CommandSet, DataPointerUse, rows_of};
use phaselink_core::protocol::nvme::rules::zones::NamespaceZoneLimits;
use phaselink_core::protocol::nvme::rules::{
    BlockMetadataFormat, BlockNamespaceParts, KeyValueLimits, Limits, NamespaceKind, NamespaceProtectionType,
    PlacementLimits,
};
use phaselink_core::protocol::nvme::spec::{CompletionEntry, Status, admin};
use phaselink_serve::device::store::{Geometry, Store};
use phaselink_serve::nvme::admin::ADMIN_COMMANDS;
use phaselink_serve::nvme::array_host::ArrayHost;
use phaselink_serve::nvme::subsystem::{Namespace, Subsystem};
use phaselink_serve::nvme::{Command, CommandProgress, Controller, Identity, NextCommand, QUEUE_PAIRS_MAX};

use crate::Target;
use crate::script::Script;

/// Checks the steps of a host and of the controller's caller, after a correct start with one queue pair.
pub(super) const HOST: Target = Target { name: "nvme", run: host, seeds: hosts };

/// Checks the steps of a host and of the controller's caller on a drive with zones.
pub(super) const ZONES: Target = Target { name: "nvme-zones", run: zones, seeds: writers_of_zones };

/// Checks the steps of a host and of the controller's caller on a drive whose hosts place data.
pub(super) const PLACEMENT: Target = Target { name: "nvme-placement", run: placement, seeds: placers };

/// Checks the steps of a host and of the controller's caller on a drive that stores values by their keys.
pub(super) const KEYS: Target = Target { name: "nvme-keys", run: keys, seeds: storers };

/// Checks the steps of a host and of the controller's caller on a drive whose blocks have protection information.
pub(super) const PROTECTION: Target = Target { name: "nvme-protection", run: protection, seeds: protectors };

/// Checks admin commands of 64 bytes each.
pub(super) const ADMIN: Target = Target { name: "nvme-admin", run: administer, seeds: administrators };

const GEOMETRY: Geometry = Geometry { capacity_bytes: 64 << 10, block_bytes: 512 };
pub(super) const LIMITS: Limits = Limits {
    namespaces: 1,
    blocks: 128,
    block_shift: 9,
    transfer_bytes_max: 128 << 10,
    queue_pairs: QUEUE_PAIRS_MAX as u32,
    queue_entries: 1024,
    takes_segments: true,
    kind: NamespaceKind::PLAIN,
};
/// Eight zones of 8 KiB, of which 6 KiB can be written.
const LAYOUT: ZoneLayout = ZoneLayout { zones: 8, zone_blocks: 16, capacity_blocks: 12, active_max: 3, open_max: 2 };
pub(super) const ZONED: Limits =
    Limits { kind: NamespaceKind::Zoned(NamespaceZoneLimits { layout: LAYOUT, append_bytes_max: 4 << 10 }), ..LIMITS };
/// Up to 24 keys of up to 8 bytes, and values of up to 4 KiB.
const KEYED: Limits = Limits {
    kind: NamespaceKind::Keyed(KeyValueLimits {
        layout: KeyLayout { capacity_bytes: 64 << 10, granule_bytes: 512, keys_max: 24 },
        key_bytes_max: 8,
        value_bytes_max: 4 << 10,
        reports_missing: true,
    }),
    ..LIMITS
};
/// Blocks with protection information of type 1.
const PROTECTED: Limits = Limits {
    kind: NamespaceKind::Blocks(BlockNamespaceParts {
        metadata: Some(BlockMetadataFormat { protection: Some(NamespaceProtectionType::Type1), is_first: false }),
        placement: None,
    }),
    ..LIMITS
};
/// Reclaim units of 16 KiB, three handles in each of two groups.
const SHAPE: TranslationShape = TranslationShape {
    units: 16,
    used_units: 16,
    block_units: 4,
    blocks: 24,
    line_units: 2,
    policy: TranslationPolicyName::Greedy,
    settings: TranslationPolicySettings { choices: 2 },
    map: None,
    slc: None,
    wear_gap: 0,
    placement: Some(STREAMS),
};
const STREAMS: HostStreams = HostStreams { handles: 3, groups: 2, isolation: PlacementIsolation::Initial };
pub(super) const PLACED: Limits = Limits {
    kind: NamespaceKind::Blocks(BlockNamespaceParts {
        placement: Some(PlacementLimits {
            handles: 3,
            groups: 2,
            identifiers_max: 6,
            streams: STREAMS,
            shape: SHAPE,
            unit_bytes: PAGE as u32,
            is_enabled: true,
            is_directed: true,
        }),
        metadata: None,
    }),
    ..LIMITS
};
const PAGE: u64 = 4096;
const MEMORY_BYTES: usize = 32 * PAGE as usize;
/// Addresses of a correct driver's queues; the rest of the memory is for lists and data.
const ADMIN_QUEUE: u64 = PAGE;
const ADMIN_ANSWERS: u64 = 2 * PAGE;
const QUEUE: u64 = 3 * PAGE;
const ANSWERS: u64 = 4 * PAGE;
const DATA: u64 = 8 * PAGE;
const ENTRIES: u32 = 16;

/// Offsets of registers, and CC with entry sizes and EN.
const CC: u64 = 0x14;
const CSTS: u64 = 0x1c;
const AQA: u64 = 0x24;
const ASQ: u64 = 0x28;
const ACQ: u64 = 0x30;
const ENABLED: u32 = 1 | 6 << 16 | 4 << 20;
/// CC.CSS of a drive without the NVM command set.
const ALL_COMMAND_SETS: u32 = 0b110 << 4;

fn host(input: &[u8]) {
    Bench::new(LIMITS).follow(input);
}

fn zones(input: &[u8]) {
    let mut bench = Bench::new(ZONED);
    bench.follow(input);
    bench.check_zones();
}

fn placement(input: &[u8]) {
    let mut bench = Bench::new(PLACED);
    bench.follow(input);
    let placement = bench.subsystem.kind.placement().expect("the drive has placement");
    assert_eq!(placement.inconsistency(), None);
    let statistics = placement.statistics();
    // A write of one block programs a whole unit of eight blocks. Units that were moved leave blocks that are erased,
    // or will be.
    let most = statistics.host_bytes * 8 + statistics.erased_bytes + u128::from(placement.reclaim_unit_bytes());
    assert!(statistics.media_bytes <= most, "{statistics:?}");
    let record = placement.encode();
    assert!(placement.load(&record), "a record of its own fits a drive");
}

fn keys(input: &[u8]) {
    let mut bench = Bench::new(KEYED);
    bench.follow(input);
    let keys = bench.store.keys().expect("the drive stores values");
    assert_eq!(keys.with(KeySpace::inconsistency), None);
    let most = GEOMETRY.capacity_bytes + 24 * 8;
    assert!(keys.used_bytes() <= most && keys.with(KeySpace::keys) <= 24, "{} bytes", keys.used_bytes());
}

fn protection(input: &[u8]) {
    let mut bench = Bench::new(PROTECTED);
    bench.sends_metadata = true;
    bench.follow(input);
    let has_metadata = |namespace: &Namespace| namespace.format.metadata.is_some();
    let needs_metadata = bench.subsystem.namespaces().iter().flatten().any(has_metadata);
    assert!(!needs_metadata || bench.store.has_metadata(), "a namespace without the metadata of its format");
}

fn administer(input: &[u8]) {
    // One input in four is for a drive with data placement, and one for a key-value drive.
    let limits = match input.first().map(|byte| byte & 3) {
        Some(1) => PLACED,
        Some(3) => KEYED,
        _ => LIMITS,
    };
    let mut bench = Bench::new(limits);
    for command in input.chunks(64) {
        let mut bytes = [0; 64];
        bytes[..command.len()].copy_from_slice(command);
        let _ = bench.controller.accept(0, 0, &bytes, &mut bench.machine);
        bench.machine.doorbells[0].1 = bench.machine.doorbells[0].1.wrapping_add(1) % ENTRIES;
        bench.controller.update(&mut bench.machine, &bench.store);
    }
    bench.start_again();
}

/// Host with its driver, and the controller.
pub(super) struct Bench {
    pub(super) machine: ArrayHost,
    pub(super) controller: Controller,
    pub(super) subsystem: Arc<Subsystem>,
    pub(super) store: Store,
    space: Vec<u8>,
    /// True if I/O commands have fields for metadata.
    sends_metadata: bool,
    commands: VecDeque<Command>,
    /// Commands that wait for the disk.
    unsaved: VecDeque<Command>,
}

impl Bench {
    /// Returns an enabled controller with one queue pair.
    pub(super) fn new(limits: Limits) -> Bench {
        let store = Store::in_memory(GEOMETRY).expect("64 KiB");
        let identity = Identity::new("fuzz", limits, 0);
        let mut bench = Bench {
            machine: ArrayHost::new(MEMORY_BYTES, &limits),
            subsystem: Arc::clone(&identity.subsystem),
            controller: Controller::new(identity).with_queue_sets(2).with_strict_checks(),
            store: match limits.kind {
                NamespaceKind::Blocks(_) => store,
                NamespaceKind::Zoned(zones) => store.with_zones(zones.layout).expect("a new store"),
                NamespaceKind::Keyed(keys) => store.with_keys(keys.layout).expect("a new store"),
            },
            space: vec![0; LIMITS.transfer_bytes_max as usize],
            sends_metadata: false,
            commands: VecDeque::new(),
            unsaved: VecDeque::new(),
        };
        bench.subsystem.load(&bench.store).expect("a new store");
        bench.enable();
        let size = (ENTRIES - 1) << 16 | 1;
        bench.submit(0, &command(admin::CREATE_COMPLETION_QUEUE, 0, ANSWERS, [size, 1 | 1 << 1 | 1 << 16]));
        bench.submit(0, &command(admin::CREATE_SUBMISSION_QUEUE, 0, QUEUE, [size, 1 | 1 << 16]));
        bench.work();
        bench
    }

    /// Runs all steps of a script.
    fn follow(&mut self, input: &[u8]) {
        let mut script = Script::new(input);
        while !script.is_over() {
            self.step(&mut script);
        }
        self.start_again();
    }

    /// Checks that zones are within their limits, and that nothing is behind their write pointers.
    pub(super) fn check_zones(&self) {
        let Some(zones) = self.store.zones() else { return };
        zones.with(|zones| {
            assert!(zones.open() <= LAYOUT.open_max && zones.active() <= LAYOUT.active_max, "{zones:?}");
            for zone in 0..LAYOUT.zones {
                let written = zones.zone(zone).1;
                assert!(written <= LAYOUT.capacity_blocks, "zone {zone} has {written} blocks");
                let mut rest = vec![0; ((LAYOUT.zone_blocks - written) * 512) as usize];
                // Blocks that were marked as uncorrectable cannot be read.
                let is_read = self.store.read((LAYOUT.start(zone) + written) * 512, &mut rest).is_ok();
                assert!(!is_read || rest.iter().all(|byte| *byte == 0), "zone {zone} has data behind its pointer");
            }
        });
    }

    fn set(&mut self, register: u64, value: u32) {
        self.machine.registers.write(register, &value.to_le_bytes());
        self.controller.update(&mut self.machine, &self.store);
    }

    fn enable(&mut self) {
        self.set(CC, 0);
        self.set(AQA, (ENTRIES - 1) | (ENTRIES - 1) << 16);
        for (register, value) in [(ASQ, ADMIN_QUEUE as u32), (ASQ + 4, 0), (ACQ, ADMIN_ANSWERS as u32), (ACQ + 4, 0)] {
            self.set(register, value);
        }
        let sets = if self.store.keys().is_some() { ALL_COMMAND_SETS } else { 0 };
        self.set(CC, ENABLED | sets);
        let mut status = [0; 4];
        self.machine.registers.read(CSTS, &mut status);
        assert_eq!(status, [1, 0, 0, 0], "a fair start is answered by a controller that is ready");
    }

    /// Resets the controller, which must then be as new, regardless of its history.
    pub(super) fn start_again(&mut self) {
        self.commands.clear();
        self.unsaved.clear();
        self.enable();
        self.machine.memory[ADMIN_ANSWERS as usize..][..PAGE as usize].fill(0);
        self.submit(0, &command(admin::IDENTIFY, 0, DATA, [1, 0]));
        self.work();
        let bytes = self.machine.memory[ADMIN_ANSWERS as usize..].first_chunk().expect("an entry");
        let answer = CompletionEntry::decode(bytes);
        assert_eq!((answer.command_id, answer.status.kind(), answer.phase), (7, Status::SUCCESS, true));
    }

    /// Writes a command where a correct driver would, after the doorbell's present value.
    fn submit(&mut self, queue: u16, bytes: &[u8; 64]) {
        let ring = if queue == 0 { ADMIN_QUEUE } else { QUEUE };
        let tail = self.machine.doorbells[usize::from(queue)].0 % ENTRIES;
        let at = (ring + u64::from(tail) * 64) as usize;
        self.machine.memory[at..at + 64].copy_from_slice(bytes);
        self.machine.doorbells[usize::from(queue)].0 = (tail + 1) % ENTRIES;
    }

    /// Takes the commands announced by doorbells and keeps them.
    pub(super) fn work(&mut self) {
        self.controller.update(&mut self.machine, &self.store);
        for queue in self.controller.queues() {
            // If a host writes doorbells during the poll, it is polled again later.
            for _ in 0..2 * ENTRIES {
                match self.controller.next_command(queue, &mut self.machine) {
                    NextCommand::None => break,
                    NextCommand::Admin(_) => {}
                    NextCommand::Io(command) => self.keep(*command),
                }
            }
        }
        self.controller.send_interrupts(&mut self.machine);
    }

    fn keep(&mut self, command: Command) {
        if let Ok(checked) = &command.checked
            && !checked.row.is_management()
        {
            let end = checked.offset.checked_add(u64::from(checked.bytes));
            assert!(end.is_some_and(|end| end <= GEOMETRY.capacity_bytes), "{command:?}");
        }
        self.commands.push_back(command);
    }

    /// Completes one command's wait for the disk, or fails it.
    fn commit(&mut self, script: &mut Script<'_>) {
        let fails = script.byte() == 0;
        let Some(command) = self.unsaved.pop_front() else { return };
        let flushed = if fails { Err(ErrorKind::Other.into()) } else { self.store.flush() };
        let _ = self.controller.complete_flushed(&command, flushed, &mut self.machine);
    }

    fn execute(&mut self) {
        if let Some(command) = self.commands.pop_front() {
            let executed = self.controller.execute(&command, &mut self.machine, &self.store, &mut self.space);
            if executed == CommandProgress::NeedsFlush {
                self.unsaved.push_back(command);
            }
        }
    }

    /// Executes all commands, including those that wait for the disk.
    pub(super) fn execute_all(&mut self) {
        while !self.commands.is_empty() {
            self.execute();
        }
        for command in std::mem::take(&mut self.unsaved) {
            let _ = self.controller.complete_flushed(&command, self.store.flush(), &mut self.machine);
        }
    }

    /// Runs one step that the script chooses.
    fn step(&mut self, script: &mut Script<'_>) {
        match script.byte() % 11 {
            0 => {
                let fields = match self.subsystem.kind.placement() {
                    Ok(_) => placed_command(script),
                    Err(_) if self.store.keys().is_some() => key_command(script),
                    Err(_) if self.sends_metadata => protected_command(script),
                    Err(_) => io_command(script, self.store.zones().is_some()),
                };
                self.submit(1, &fields);
            }
            1 => {
                let fields = admin_command(script);
                self.submit(0, &fields);
            }
            2 => {
                let queue = u16::from(script.byte() % 2);
                let mut bytes = [0; 64];
                let given = script.bytes(64);
                bytes[..given.len()].copy_from_slice(given);
                self.submit(queue, &bytes);
            }
            3 => {
                let register = u64::from(script.byte()) & !3;
                let value = script.number(4) as u32;
                self.set(register, value);
            }
            4 => self.scribble(script),
            5 => self.ring(script),
            6 => self.execute(),
            7 => drop(self.controller.request_doorbells(&mut self.machine)),
            8 => {
                // The host has consumed the completions, so the queue has room again.
                for pair in &mut self.machine.doorbells[..2] {
                    pair.1 = (pair.1 + 1) % ENTRIES;
                }
            }
            9 => self.work(),
            _ => self.commit(script),
        }
        let unknown = self.machine.interrupts.drain(..).find(|vector| usize::from(*vector) > QUEUE_PAIRS_MAX);
        assert_eq!(unknown, None, "no such vector");
    }

    /// Overwrites any word of memory: a list, a queue, shadow doorbells.
    fn scribble(&mut self, script: &mut Script<'_>) {
        let at = script.number(2) as usize * 8 % MEMORY_BYTES;
        let word = if script.byte().is_multiple_of(2) { address(script) } else { script.number(8) };
        self.machine.memory[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }

    fn ring(&mut self, script: &mut Script<'_>) {
        let queue = usize::from(script.byte()) % self.machine.doorbells.len();
        let value = script.number(2) as u32;
        match script.byte() % 2 {
            0 => self.machine.doorbells[queue].0 = value,
            _ => self.machine.doorbells[queue].1 = value,
        }
    }
}

/// Returns an address in the host's memory or just outside, most often the beginning of a page.
fn address(script: &mut Script<'_>) -> u64 {
    let (page, within) = (u64::from(script.byte()), u64::from(script.byte()));
    page % 34 * PAGE + if within < 192 { 0 } else { within << 4 }
}

/// Returns a command with these first two of dwords 10 to 15, its namespace, and one address.
fn command(opcode: u8, namespace: u32, prp: u64, dwords: [u32; 2]) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[0] = opcode;
    bytes[2] = 7;
    bytes[4..8].copy_from_slice(&namespace.to_le_bytes());
    bytes[24..32].copy_from_slice(&prp.to_le_bytes());
    for (place, dword) in dwords.iter().enumerate() {
        bytes[40 + place * 4..][..4].copy_from_slice(&dword.to_le_bytes());
    }
    bytes
}

/// Returns the opcodes of all commands of these command sets. Those that move data are twice in the list, so that they
/// are tried more often.
fn opcodes(sets: &[CommandSet]) -> Vec<u8> {
    let rows = rows_of(sets);
    let moving = rows.iter().filter(|row| matches!(row.data, DataPointerUse::ToHost | DataPointerUse::FromHost));
    rows.iter().chain(moving).map(|row| row.opcode).collect()
}

/// Returns a command that is nearly correct.
fn io_command(script: &mut Script<'_>, has_zones: bool) -> [u8; 64] {
    let zones: &[CommandSet] = if has_zones { &[CommandSet::Zones] } else { &[] };
    let all = opcodes(&[&[CommandSet::Every, CommandSet::Blocks], zones].concat());
    let opcode = all[usize::from(script.byte()) % all.len()];
    let (block, blocks) = (u32::from(script.byte()), u32::from(script.byte()));
    let mut bytes = command(opcode, 1, address(script), [block % 132, 0]);
    bytes[32..40].copy_from_slice(&address(script).to_le_bytes());
    bytes[48..52].copy_from_slice(&(blocks % 132).to_le_bytes());
    if has_zones {
        bytes[52] = script.byte() % 7;
    }
    spoil(&mut bytes, script);
    bytes
}

/// Returns a nearly correct command with a directive, or one that is about reclaim units.
fn placed_command(script: &mut Script<'_>) -> [u8; 64] {
    let (operation, count) = (script.byte() % 3, script.byte());
    let mut bytes = match rows_of(&[CommandSet::Placement]).get(usize::from(operation)) {
        None => io_command(script, false),
        Some(row) if row.list().is_some() => {
            command(row.opcode, 1, address(script), [1 | u32::from(count % 8) << 16, 0])
        }
        Some(row) => command(row.opcode, 1, address(script), [1, count.into()]),
    };
    if operation == 2 {
        bytes[50] |= 2 << 4;
        bytes[54..56].copy_from_slice(&[count % 4, count & 0x80]);
    }
    spoil(&mut bytes, script);
    bytes
}

/// Returns a nearly correct command with an action and checks of protection information, a reference tag and a metadata buffer.
fn protected_command(script: &mut Script<'_>) -> [u8; 64] {
    let mut bytes = io_command(script, false);
    let (information, tag) = (script.byte(), script.byte());
    bytes[51] |= (information % 16) << 2;
    // Mostly the tag that protection type 1 expects.
    bytes[56] = if tag.is_multiple_of(8) { tag } else { bytes[40] };
    bytes[60..64].copy_from_slice(&[tag % 2, 0, tag, 0]);
    bytes[16..24].copy_from_slice(&address(script).to_le_bytes());
    bytes
}

/// Returns a command for one of a few keys, which is nearly correct.
fn key_command(script: &mut Script<'_>) -> [u8; 64] {
    let all = opcodes(&[CommandSet::Every, CommandSet::Keys]);
    let opcode = all[usize::from(script.byte()) % all.len()];
    let (key, options, length) = (script.byte(), u32::from(script.byte()), script.number(2) as u32);
    let dword11 = ((options % 4) << 8) | (1 + u32::from(key % 4));
    let mut bytes = command(opcode, 1, address(script), [length % 4100, dword11]);
    bytes[8] = key % 32;
    bytes[32..40].copy_from_slice(&address(script).to_le_bytes());
    spoil(&mut bytes, script);
    bytes
}

fn admin_command(script: &mut Script<'_>) -> [u8; 64] {
    let opcode = ADMIN_COMMANDS[usize::from(script.byte()) % ADMIN_COMMANDS.len()].opcode;
    let (low, high, more) = (script.byte(), script.byte(), script.byte());
    let namespace = u32::from(script.byte() % 3);
    let dwords = [u32::from(low % 40) | u32::from(high % 32) << 16, u32::from(more)];
    let mut bytes = command(opcode, namespace, address(script), dwords);
    bytes[32..40].copy_from_slice(&address(script).to_le_bytes());
    spoil(&mut bytes, script);
    bytes
}

/// Overwrites, now and then, one byte with any value.
fn spoil(bytes: &mut [u8; 64], script: &mut Script<'_>) {
    let place = usize::from(script.byte());
    if place < bytes.len() {
        bytes[place] = script.byte();
    }
}

const FAIR: u8 = 255;

fn hosts() -> Vec<Vec<u8>> {
    let io =
        |operation: u8, block: u8, blocks: u8| [0, operation, block, blocks, 8, 0, 9, 0, FAIR, 9, 6, 10, 1, 8].to_vec();
    let list = [[4, 0, 18, 0, 10, 0], [4, 1, 18, 0, 11, 0]].concat();
    let admin = |operation: u8, low: u8, high: u8, more: u8| {
        [1, operation, low, high, more, 0, 12, 0, 13, 0, FAIR, 9, 8].to_vec()
    };
    let all_io = [io(1, 0, 7), io(2, 0, 15), io(0, 0, 0), io(3, 0, 7), io(4, 8, 100), io(5, 0, 0)].concat();
    let features =
        [admin(7, 7, 0, 5), admin(8, 11, 0, 0), admin(9, 0, 0, 0), admin(2, 1, 15, 0), admin(5, 0, 0, 0)].concat();
    let queues =
        [admin(4, 2, 15, 1), admin(1, 2, 15, 1), admin(0, 2, 0, 0), admin(3, 2, 0, 0), admin(6, 1, 0, 0)].concat();
    let reset = [[3, CC as u8, 0, 0, 0, 0, 9], [3, CC as u8, 1, 0, 0x46, 0, 9]].concat();
    vec![
        [&list[..], &io(2, 0, 31), &io(1, 0, 31)].concat(),
        [&all_io[..], &features].concat(),
        [&queues[..], &admin(10, 0, 0, 0), &all_io].concat(),
        [&all_io[..], &reset, &[5, 1, 3, 0, 0, 9], &queues].concat(),
    ]
}

fn writers_of_zones() -> Vec<Vec<u8>> {
    let io = |operation: u8, block: u8, blocks: u8, action: u8| {
        [0, operation, block, blocks, 8, 0, 9, 0, action, FAIR, 9, 6, 10, 1, 8].to_vec()
    };
    // The numbers are positions in the list of `io_command`, where operations on zones come last.
    let (write, append, send, receive) = (11, 12, 13, 14);
    let filled = [io(append, 16, 3, 0), io(append, 16, 7, 0), io(write, 0, 11, 0), io(receive, 0, 127, 0)].concat();
    let opened = [io(send, 32, 0, 3), io(send, 48, 0, 3), io(append, 64, 0, 0), io(send, 32, 0, 1)].concat();
    let reset = [io(send, 16, 0, 4), io(send, 0, 0, 2), io(receive, 0, 31, 0), io(2, 16, 7, 0)].concat();
    vec![[&filled[..], &reset].concat(), [&opened[..], &filled, &reset, &filled].concat(), [opened, reset].concat()]
}

fn placers() -> Vec<Vec<u8>> {
    let write =
        |block: u8, identifier: u8| [0, 2, identifier, 1, block, 7, 8, 0, 9, 0, FAIR, FAIR, 9, 6, 10, 1, 8].to_vec();
    let manage = |operation: u8, count: u8| [0, operation, count, 8, 0, FAIR, 9, 6, 10, 1, 8].to_vec();
    let admin = |operation: u8, low: u8, high: u8, more: u8, namespace: u8| {
        [1, operation, low, high, more, namespace, 12, 0, 13, 0, FAIR, 9, 8].to_vec()
    };
    let writes =
        |identifiers: [u8; 8]| (0..).step_by(8).zip(identifiers).flat_map(move |(at, it)| write(at, it)).collect();
    let (fill, again): (Vec<u8>, Vec<u8>) =
        (writes([0, 1, 2, 0x81, 0x82, 3, 0, 1]), writes([0x80, 0, 1, 1, 2, 2, 0x81, 0]));
    let units = [manage(0, 127), manage(1, 0), manage(1, 3), manage(0, 3)].concat();
    let pages =
        [admin(2, 32, 15, 0, 0), admin(2, 33, 15, 0, 0), admin(2, 34, 15, 0, 0), admin(2, 35, 15, 0, 0)].concat();
    let features =
        [admin(7, 29, 0, 1, 0), admin(7, 30, 0, 1, 1), admin(8, 29, 0, 1, 0), admin(8, 30, 0, 0, 1)].concat();
    vec![
        [&fill[..], &units, &again, &fill, &again, &fill].concat(),
        [&features[..], &fill, &again, &units, &pages].concat(),
        [&admin(13, 1, 0, 0, 1)[..], &features, &admin(13, 0, 0, 0, 0), &admin(14, 0, 0, 0, 1), &fill, &pages].concat(),
    ]
}

fn protectors() -> Vec<Vec<u8>> {
    let io = |operation: u8, block: u8, blocks: u8, information: u8| {
        [0, operation, block, blocks, 8, 0, 9, 0, FAIR, information, 1, 12, 0, 9, 6, 10, 1, 8].to_vec()
    };
    // Formats use the number of the LBA format, with the type of protection above it, limited to what `admin_command`
    // accepts.
    let format = |low: u8| {
        let place = ADMIN_COMMANDS.iter().position(|row| row.opcode == admin::FORMAT_NVM).unwrap_or(0) as u8;
        [1, place, low, 0, 0, 1, 12, 0, 13, 0, FAIR, 9, 8].to_vec()
    };
    let (write, read, compare, zero, verify, copy) = (1, 2, 3, 4, 9, 10);
    let inserted = [io(write, 0, 15, 8), io(read, 0, 15, 7), io(read, 0, 15, 15), io(verify, 0, 15, 7)].concat();
    let sent = [io(write, 8, 3, 0), io(read, 8, 3, 0), io(compare, 8, 3, 0), io(read, 8, 3, 4)].concat();
    let others =
        [io(zero, 0, 31, 8), io(zero, 4, 2, 0), io(copy, 32, 0, 8), io(5, 0, 0, 0), io(read, 0, 31, 7)].concat();
    vec![
        [&inserted[..], &sent, &others].concat(),
        [&format(3), &inserted[..], &format(34), &sent, &others, &format(0), &inserted].concat(),
    ]
}

fn storers() -> Vec<Vec<u8>> {
    let ask = |operation: u8, key: u8, options: u8, length: u16| {
        let [low, high] = length.to_le_bytes();
        [0, operation, key, options, low, high, 8, 0, 9, 0, FAIR, 9, 6, 10, 1, 8].to_vec()
    };
    // The numbers are positions in the list of `key_command`.
    let (store, retrieve, list, delete, exist) = (0, 2, 3, 4, 5);
    let fill: Vec<u8> = (0..30).flat_map(|key| ask(store, key, 0, 4096 - u16::from(key))).collect();
    let ends =
        [ask(retrieve, 3, 0, 4096), ask(retrieve, 4, 0, 100), ask(list, 0, 0, 4096), ask(exist, 31, 0, 0)].concat();
    let gaps: Vec<u8> = (0..30).step_by(2).flat_map(|key| ask(delete, key, 0, 0)).collect();
    let small: Vec<u8> = (0..30).flat_map(|key| ask(store, key, key % 4, 600)).collect();
    let admin = |operation: u8, low: u8, more: u8| [1, operation, low, 0, more, 1, 12, 0, 13, 0, FAIR, 9, 8].to_vec();
    let admins = [admin(5, 5, 0), admin(7, 32, 0), admin(8, 32, 0), admin(12, 0, 0), admin(15, 2, 0)].concat();
    vec![
        [&fill[..], &ends, &gaps, &small, &ends].concat(),
        [&small[..], &gaps, &fill, &ends, &admins, &small].concat(),
        [small, ends, gaps].concat(),
    ]
}

fn administrators() -> Vec<Vec<u8>> {
    let mut identify: Vec<Vec<u8>> =
        [0, 1, 2, 3, 5, 6, 8].map(|cns| command(admin::IDENTIFY, 1, DATA, [cns, 0]).to_vec()).to_vec();
    identify.extend([1, 2, 3, 5].map(|page| command(admin::GET_LOG_PAGE, 0, DATA, [page | 127 << 16, 0]).to_vec()));
    identify.extend([1, 2, 4, 7, 11, 22].map(|id| command(admin::SET_FEATURES, 0, DATA, [id, 3]).to_vec()));
    identify.extend([1, 2, 4, 7, 11, 22].map(|id| command(admin::GET_FEATURES, 0, DATA, [id, 0]).to_vec()));
    identify.push(command(admin::DOORBELL_BUFFER_CONFIG, 0, DATA, [0, 0]).to_vec());
    identify
        .push([command(admin::ASYNC_EVENT_REQUEST, 0, 0, [0, 0]), command(admin::ABORT, 0, 0, [7 << 16, 0])].concat());
    identify.extend([0x10, 0x11, 0x12, 0x13].map(|cns| command(admin::IDENTIFY, 1, DATA, [cns, 0]).to_vec()));
    identify.extend(
        [4, 7 | 1 << 8, 13 | 1 << 8, 0x81]
            .map(|page| command(admin::GET_LOG_PAGE, 0, DATA, [page | 127 << 16, 0]).to_vec()),
    );
    let manage = |namespace, selected| command(admin::NAMESPACE_MANAGEMENT, namespace, DATA, [selected, 0]);
    identify.push([manage(1, 1), manage(0, 0), command(admin::NAMESPACE_ATTACHMENT, 1, DATA, [0, 0])].concat());
    identify.push([command(admin::SANITIZE, 0, 0, [2, 0]), command(admin::FORMAT_NVM, 1, 0, [1, 0])].concat());
    identify.push([command(admin::DELETE_SUBMISSION_QUEUE, 0, 0, [1, 0]), command(4, 0, 0, [1, 0])].concat());
    identify
}
