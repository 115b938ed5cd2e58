//! One device, two clocks: random and malformed conversations with the served controller and with the timing one, which give
//! the same statuses, touch the same pages and post the same completion entries.
//!
//! The served controller gets commands from the queue of a host that is an array, and moves bytes at once. The timing
//! controller gets the same 64 bytes through the model's link, and what it touches is what its packets name. A second timing
//! controller gets the commands as the served one has decoded them, and does the same at the same instants.

use std::collections::BTreeMap;
use std::ops::Range;

use phaselink_core::config::Isolation;
use phaselink_core::drive::Drive;
use phaselink_core::engine::{Engine, Input};
use phaselink_core::ledger::trace::Step;
use phaselink_core::protocol::nvme::commands::{Action, Changes, CommandSet, opcode, rows_of};
use phaselink_core::protocol::nvme::config::DriveProtection;
use phaselink_core::protocol::nvme::rules::{Limits, MetadataFormat, NamespaceKind, ProtectionType};
use phaselink_core::protocol::nvme::spec::{
    self, CompletionEntry, Status, SubmissionEntry, admin, completion_doorbell, submission_doorbell,
};
use phaselink_core::protocol::real_hosts::{CommandForm, HostCommand};
use phaselink_core::random::Random;
use phaselink_core::time::Span;
use phaselink_serve::device::store::{Geometry, Store};
use phaselink_serve::nvme::registers::Registers;
use phaselink_serve::nvme::{
    AdminHost, Command, CommandProgress, Controller, Host, Identity, NextCommand, Unreachable,
};

const CONVERSATIONS: u64 = 420;
const COMMANDS: usize = 250;
const CAPACITY_MIB: u64 = 1;
/// Capacity of a drive with zones: eight of 1 MiB.
const ZONED_MIB: u64 = 8;
/// Number of keys of a drive that stores values, at most.
const KEYS_MAX: u32 = 40;
/// Capacity of a drive with data placement.
const PLACED_MIB: u64 = 2;
const PAGE: u64 = 4096;

/// The host's memory begins again behind this, so that every address of it can be reached.
const MEMORY_BYTES: u64 = 1 << 18;
/// Where nothing can be reached.
const NOWHERE: u64 = 1 << 62;
/// Queues are somewhere else, so that no data overwrites them.
const RINGS: u64 = 1 << 61;
const ADMIN_QUEUE: u64 = RINGS;
const ADMIN_ANSWERS: u64 = RINGS + PAGE;
const QUEUE: u64 = RINGS + 2 * PAGE;
const ANSWERS: u64 = RINGS + 6 * PAGE;
const RINGS_BYTES: usize = 8 * PAGE as usize;

/// Returns the opcodes of all commands for blocks, those of reads and writes more often. The simulated drive has no
/// unreadable blocks.
fn block_opcodes() -> Vec<u8> {
    let rows = rows_of(&[CommandSet::Every, CommandSet::Blocks]).into_iter();
    let simulated = rows.filter(|row| row.changes != Changes::MadeUnreadable).map(|row| row.opcode);
    simulated.chain([opcode::READ, opcode::READ, opcode::WRITE]).collect()
}

/// Consecutive memory, and what has been done to it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Touched {
    read: Vec<Range<u64>>,
    written: Vec<Range<u64>>,
}

impl Touched {
    /// In order, with neighbours as one: however it was cut into pieces.
    fn merged(mut self) -> Touched {
        for ranges in [&mut self.read, &mut self.written] {
            ranges.sort_by_key(|range| (range.start, range.end));
            let mut merged: Vec<Range<u64>> = Vec::new();
            for range in ranges.drain(..) {
                match merged.last_mut() {
                    Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                    _ => merged.push(range),
                }
            }
            *ranges = merged;
        }
        self
    }
}

/// A host as an array, which notes what is done to its memory.
struct Machine {
    memory: Vec<u8>,
    rings: Vec<u8>,
    doorbells: [(u32, u32); 2],
    registers: Registers,
    touched: Touched,
    /// Bytes that the served controller has read outside the queues, in its order.
    bytes_read: Vec<u8>,
    posted: Vec<[u8; 16]>,
}

impl Machine {
    fn at(&mut self, address: u64) -> Result<&mut u8, Unreachable> {
        match address {
            NOWHERE.. => Err(Unreachable),
            RINGS.. => self.rings.get_mut((address - RINGS) as usize).ok_or(Unreachable),
            _ => Ok(&mut self.memory[(address % MEMORY_BYTES) as usize]),
        }
    }

    fn put(&mut self, address: u64, bytes: &[u8]) {
        for (at, byte) in (address..).zip(bytes) {
            if let Ok(place) = self.at(at) {
                *place = *byte;
            }
        }
    }
}

impl Host for Machine {
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Unreachable> {
        if !(RINGS..NOWHERE).contains(&address) {
            self.touched.read.push(address..address + into.len() as u64);
        }
        for (at, byte) in (address..).zip(into.iter_mut()) {
            *byte = *self.at(at)?;
        }
        if !(RINGS..NOWHERE).contains(&address) {
            self.bytes_read.extend_from_slice(into);
        }
        Ok(())
    }

    fn write(&mut self, address: u64, from: &[u8]) -> Result<(), Unreachable> {
        self.touched.written.push(address..address + from.len() as u64);
        self.put(address, from);
        Ok(())
    }

    fn post(&mut self, address: u64, entry: &[u8; 16]) -> Result<(), Unreachable> {
        self.posted.push(*entry);
        self.put(address, entry);
        Ok(())
    }

    fn peek(&mut self, _: u64) -> Option<u32> {
        None
    }

    fn poke(&mut self, _: u64, _: u32) {}

    fn doorbells(&self, queue: u16) -> (u32, u32) {
        self.doorbells[usize::from(queue)]
    }

    fn interrupt(&mut self, _: u16) {}
}

impl AdminHost for Machine {
    fn clear_doorbells(&mut self, queue: u16, tail: bool, head: bool) {
        if let Some(pair) = self.doorbells.get_mut(usize::from(queue)) {
            *pair = (if tail { 0 } else { pair.0 }, if head { 0 } else { pair.1 });
        }
    }

    fn now_ms(&self) -> u64 {
        0
    }

    fn registers(&mut self) -> &mut Registers {
        &mut self.registers
    }
}

/// Places commands in these forms in the queue of a model and runs it until all are answered. Returns their completion
/// queue entries, the first of which is in slot `head` of `entries`.
fn timed<'a>(
    engine: &mut Engine,
    commands: &[(Command, Vec<u8>)],
    forms: impl Iterator<Item = CommandForm<'a>>,
    head: u32,
    entries: u32,
) -> Vec<[u8; 16]> {
    let at = engine.now() + Span::from_us(1);
    engine.record(1 << 16);
    for (token, ((command, _), form)) in (0..).zip(commands.iter().zip(forms)) {
        engine.place(at, HostCommand { queue: 0, form, io: command.io(), token, delayed: Span::ZERO });
    }
    engine.inject(at, Input::Ring { queue: 0 });
    let mut done = 0;
    while done < commands.len() {
        let next = engine.next_at().expect("a command is under way");
        engine.run_until(next);
        while engine.take_completed().is_some() {
            done += 1;
        }
    }
    engine.run_until(engine.now() + Span::from_us(10));
    let slots = (0..commands.len() as u32).map(|place| (head + place) % entries);
    slots.map(|slot| engine.completion_entry(0, slot).unwrap()).collect()
}

/// Draws of one conversation.
struct Dice(Random);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0.bits() % end
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn of<T: Copy>(&mut self, some: &[T]) -> T {
        some[self.below(some.len() as u64) as usize]
    }
}

/// Both controllers, and the host's end of the conversation.
struct Conversation {
    dice: Dice,
    limits: Limits,
    machine: Machine,
    served: Controller,
    store: Store,
    space: Vec<u8>,
    timing: Engine,
    /// Model that gets decoded commands.
    decoded: Engine,
    entries: u32,
    tail: u32,
    head: u32,
    next_id: u16,
}

fn drive(dice: &mut Dice) -> Drive {
    let mut drive = Drive::shipped("nvme").unwrap();
    drive.media.capacity_mib = CAPACITY_MIB;
    drive.nvme.queue_pairs = 1;
    drive.nvme.queue_entries = dice.of(&[2, 3, 5, 16, 64]);
    drive.nvme.fetch_entries = dice.of(&[1, 2]);
    drive.nvme.block_bytes = dice.of(&[512, 512, 4096]);
    drive.nvme.max_transfer_kib = dice.of(&[8, 16, 64, 128]);
    drive.nvme.interrupts = dice.one_in(2);
    drive.nvme.namespaces = dice.of(&[1, 1, 3]);
    drive
}

/// The drive with zones, of which few can be open.
fn zoned(dice: &mut Dice) -> Drive {
    let mut drive = drive(dice);
    drive.media.capacity_mib = ZONED_MIB;
    drive.nvme.namespaces = 1;
    drive.zones.size_mib = 1;
    drive.zones.active_max = dice.of(&[0, 3, 4]);
    drive.zones.open_max = if drive.zones.active_max > 0 { 2 } else { dice.of(&[0, 1]) };
    drive.zones.append_max_kib = dice.of(&[0, 8]);
    drive
}

/// A small flash drive on which hosts place data.
fn placed(dice: &mut Dice) -> Drive {
    let mut drive = drive(dice);
    let flash = Drive::shipped("tlc-gen4").unwrap();
    (drive.media, drive.buffer, drive.translation) = (flash.media, flash.buffer, flash.translation);
    (drive.media.capacity_mib, drive.media.block_pages) = (PLACED_MIB, 12);
    (drive.media.channels, drive.media.banks_per_channel) = (2, 1);
    // Provide a spare block for each block that the handles keep open.
    drive.translation.over_provisioning = 20.0;
    drive.nvme.namespaces = dice.of(&[1, 1, 2]);
    drive.placement.handles = dice.of(&[1, 2, 3]);
    drive.placement.groups = dice.of(&[1, 1, 3]);
    drive.placement.isolation = dice.of(&[Isolation::Initial, Isolation::Persistent]);
    drive
}

/// A small drive that stores values by their keys, which fills up.
fn keyed(dice: &mut Dice) -> Drive {
    let mut drive = drive(dice);
    drive.nvme.namespaces = 1;
    drive.key_value.value_max_kib = drive.nvme.max_transfer_kib.min(dice.of(&[4, 32, 64]));
    drive.key_value.key_max_bytes = dice.of(&[4, 16]);
    drive.key_value.keys_max = KEYS_MAX;
    drive
}

/// The drive with protection information of some type.
fn protected(dice: &mut Dice) -> Drive {
    let mut drive = drive(dice);
    drive.nvme.protection = dice.of(&[DriveProtection::Type1, DriveProtection::Type2, DriveProtection::Type3]);
    drive
}

impl Conversation {
    fn new(seed: u64) -> Conversation {
        let mut dice = Dice(Random::stream(seed, "two controllers"));
        let drive = drive(&mut dice);
        Conversation::about(&drive, dice, seed)
    }

    fn about_zones(seed: u64) -> Conversation {
        let mut dice = Dice(Random::stream(seed, "two controllers and zones"));
        let drive = zoned(&mut dice);
        let mut conversation = Conversation::about(&drive, dice, seed);
        conversation.timing.keep_zones(&drive);
        conversation.decoded.keep_zones(&drive);
        conversation
    }

    fn about_placement(seed: u64) -> Conversation {
        let mut dice = Dice(Random::stream(seed, "two controllers and placement"));
        let drive = placed(&mut dice);
        Conversation::about(&drive, dice, seed)
    }

    fn about_keys(seed: u64) -> Conversation {
        let mut dice = Dice(Random::stream(seed, "two controllers and keys"));
        let drive = keyed(&mut dice);
        Conversation::about(&drive, dice, seed)
    }

    fn about_protection(seed: u64) -> Conversation {
        let mut dice = Dice(Random::stream(seed, "two controllers and protection"));
        let drive = protected(&mut dice);
        let conversation = Conversation::about(&drive, dice, seed);
        conversation.store.add_metadata().unwrap();
        conversation
    }

    fn about(drive: &Drive, mut dice: Dice, seed: u64) -> Conversation {
        let limits = Limits::of_real_hosts(drive);
        let machine = Machine {
            memory: vec![0; MEMORY_BYTES as usize],
            rings: vec![0; RINGS_BYTES],
            doorbells: [(0, 0); 2],
            registers: Registers::new(&limits),
            touched: Touched::default(),
            bytes_read: Vec::new(),
            posted: Vec::new(),
        };
        let block_bytes = drive.nvme.block_bytes;
        let geometry = Geometry { capacity_bytes: drive.media.capacity_mib << 20, block_bytes };
        let store = Store::in_memory(geometry).unwrap();
        let mut conversation = Conversation {
            machine,
            served: Controller::new(Identity::new("test", limits, 0)),
            store: match limits.kind {
                NamespaceKind::Blocks(_) => store,
                NamespaceKind::Zoned(zones) => store.with_zones(zones.layout).unwrap(),
                NamespaceKind::Keyed(keys) => store.with_keys(keys.layout).unwrap(),
            },
            space: vec![0; limits.transfer_bytes_max as usize],
            timing: Engine::for_real_hosts(drive, seed).unwrap(),
            decoded: Engine::for_real_hosts(drive, seed).unwrap(),
            entries: dice.of(&[drive.nvme.queue_entries, 2]),
            limits,
            dice,
            tail: 0,
            head: 0,
            next_id: 0,
        };
        conversation.fill_memory();
        conversation.enable();
        conversation
    }

    /// Whatever is taken for a list holds pages, often in sequence, and now and then something else.
    fn fill_memory(&mut self) {
        let mut page = 0;
        for word in self.machine.memory.as_chunks_mut::<8>().0 {
            page = if self.dice.one_in(2) { page + PAGE } else { self.dice.below(1 << 40) / PAGE * PAGE };
            let off = if self.dice.one_in(200) { 8 } else { 0 };
            *word = (page + off).to_le_bytes();
        }
    }

    /// True if the drive has the commands of a set.
    fn has(&self, set: CommandSet) -> bool {
        self.limits.kind.offers(set)
    }

    fn enable(&mut self) {
        for (register, value) in [
            (0x24, 0x3_0003),
            (0x28, ADMIN_QUEUE),
            (0x2c, ADMIN_QUEUE >> 32),
            (0x30, ADMIN_ANSWERS),
            (0x34, ADMIN_ANSWERS >> 32),
        ] {
            self.machine.registers.write(register, &(value as u32).to_le_bytes());
        }
        let sets = if self.has(CommandSet::Keys) { 0b110 << 4 } else { 0 };
        self.machine.registers.write(0x14, &(1_u32 | sets | 6 << 16 | 4 << 20).to_le_bytes());
        self.served.update(&mut self.machine, &self.store);
        let size = (self.entries - 1) << 16 | 1;
        for (opcode, prp1, more) in
            [(admin::CREATE_COMPLETION_QUEUE, ANSWERS, 1), (admin::CREATE_SUBMISSION_QUEUE, QUEUE, 1 | 1 << 16)]
        {
            let entry =
                SubmissionEntry { opcode, prp1, dwords: [size, more, 0, 0, 0, 0], ..SubmissionEntry::default() };
            let taken = self.served.accept(0, 1, &entry.encode(), &mut self.machine);
            assert_eq!(taken, NextCommand::Admin(Status::SUCCESS));
        }
        self.machine.posted.clear();
        assert!(self.timing.begin_queue(0, self.entries, true) && self.decoded.begin_queue(0, self.entries, true));
    }

    /// A few commands with one ring, through both.
    fn step(&mut self) -> usize {
        self.ring_nonsense();
        // The timing controller refuses a command for its list later than the served one, when it may have executed
        // another write. The same holds for the size of a value. So send one command at a time.
        let is_alone = self.has(CommandSet::Zones) || self.has(CommandSet::Keys);
        let room = if is_alone { 1 } else { u64::from(self.entries - 1).min(4) };
        let count = 1 + self.dice.below(room) as usize;
        let batch: Vec<[u8; 64]> = (0..count).map(|_| without_contents_lost(self.command())).collect();
        let commands = self.serve(&batch);
        let served: Vec<_> = self.machine.posted.drain(..).collect();
        let served_touched = std::mem::take(&mut self.machine.touched).merged();
        let (timed, timed_touched) = self.time(&commands);
        let (commands, _): (Vec<Command>, Vec<Vec<u8>>) = commands.into_iter().unzip();
        let described = || {
            format!("{:#x?}", commands.iter().map(|command| (command.entry(), &command.checked)).collect::<Vec<_>>())
        };
        self.compare(&commands, &served, &timed);
        // For zones, the timing controller checks the zone before it reads lists, and the served controller the other
        // way round. Only the timing controller reads metadata of data that cannot be reached, and lists there.
        let statuses = || served.iter().map(|entry| CompletionEntry::decode(entry).status);
        let is_unreached =
            self.limits.kind.metadata().is_some() && statuses().any(|it| it.kind() == Status::DATA_TRANSFER_ERROR);
        let is_refused = self.has(CommandSet::Zones) && statuses().any(|status| status != Status::SUCCESS);
        if !is_unreached && !is_refused {
            assert_eq!(timed_touched, served_touched, "{}", described());
        }
        self.head = (self.head + count as u32) % self.entries;
        self.machine.doorbells[1].1 = self.head;
        self.register_write(completion_doorbell(1), self.head);
        count
    }

    /// Doorbell values that the queues cannot have, which change nothing.
    fn ring_nonsense(&mut self) {
        if !self.dice.one_in(4) {
            return;
        }
        let value = self.entries + self.dice.below(1 << 20) as u32;
        let before = self.machine.doorbells[1];
        self.machine.doorbells[1] = (value, value);
        assert_eq!(self.served.next_command(1, &mut self.machine), NextCommand::None);
        self.machine.doorbells[1] = before;
        assert_eq!(self.served.next_command(1, &mut self.machine), NextCommand::None);
        let tail = if self.dice.one_in(2) { value } else { self.tail };
        self.register_write(submission_doorbell(1), tail);
        self.register_write(completion_doorbell(1), value);
        let elsewhere = spec::REGISTERS + 0x1000 + self.dice.below(1 << 12);
        self.register_write(elsewhere, value);
    }

    fn register_write(&mut self, address: u64, value: u32) {
        let at = self.timing.now() + Span::from_us(1);
        self.timing.inject(at, Input::RegisterWrite { address, value });
        self.decoded.inject(at, Input::RegisterWrite { address, value });
    }

    /// Commands in the queue are taken, with the bytes of their lists, then executed.
    fn serve(&mut self, batch: &[[u8; 64]]) -> Vec<(Command, Vec<u8>)> {
        for bytes in batch {
            self.machine.put(QUEUE + u64::from(self.tail) * 64, bytes);
            self.tail = (self.tail + 1) % self.entries;
        }
        self.machine.doorbells[1].0 = self.tail;
        let mut commands = Vec::new();
        self.machine.bytes_read.clear();
        while let NextCommand::Io(command) = self.served.next_command(1, &mut self.machine) {
            commands.push((*command, std::mem::take(&mut self.machine.bytes_read)));
        }
        assert_eq!(commands.len(), batch.len());
        for (command, _) in &commands {
            let executed = self.served.execute(command, &mut self.machine, &self.store, &mut self.space);
            if executed == CommandProgress::NeedsFlush {
                self.served.complete_flushed(command, Ok(()), &mut self.machine);
            }
        }
        // Deliver completions for which there was no room. The controller reads the host's head only when it must.
        self.served.update(&mut self.machine, &self.store);
        commands
    }

    /// The same ones through both models, as bytes and as they were decoded, until all are answered: the entries in their
    /// order, and what the packets touched.
    fn time(&mut self, commands: &[(Command, Vec<u8>)]) -> (Vec<[u8; 16]>, Touched) {
        let as_bytes =
            |(command, lists): &'_ (Command, Vec<u8>)| (command.bytes, command.has_lists().then(|| lists.clone()));
        let bytes: Vec<_> = commands.iter().map(as_bytes).collect();
        let forms = bytes.iter().map(|(entry, lists)| CommandForm::Bytes { entry, lists: lists.as_deref() });
        let entries = timed(&mut self.timing, commands, forms, self.head, self.entries);
        let forms = commands.iter().map(|(command, _)| CommandForm::Decoded(Box::new(command.for_model())));
        let decoded = timed(&mut self.decoded, commands, forms, self.head, self.entries);
        assert_eq!(decoded, entries, "{commands:x?}");
        let same = self.decoded.trace().records() == self.timing.trace().records();
        assert!(same && self.decoded.now() == self.timing.now(), "{commands:x?}");
        (entries, self.packets().merged())
    }

    fn packets(&self) -> Touched {
        let mut touched = Touched::default();
        assert_eq!(self.timing.trace().dropped(), 0);
        for record in self.timing.trace().records() {
            let (Step::Up { what, .. }, Some((address, bytes))) = (&record.step, record.memory) else { continue };
            let range = address..address + u64::from(bytes);
            match what.as_ref() {
                "read page list" | "read ranges" | "read data" | "read metadata" => touched.read.push(range),
                "data" | "metadata" => touched.written.push(range),
                "fetch command" | "completion entry" | "interrupt message" => {}
                other => panic!("a packet of another kind: {other}"),
            }
        }
        touched
    }

    fn compare(&self, commands: &[Command], served: &[[u8; 16]], timed: &[[u8; 16]]) {
        assert_eq!(served.len(), timed.len());
        if let ([command], [served], [timed]) = (commands, served, timed) {
            // If both the zone and the page list are wrong, the timing controller reports the zone.
            let is_list_wrong = command.checked.is_err() && command.has_lists();
            if self.has(CommandSet::Zones) && is_list_wrong && CompletionEntry::decode(timed).status != Status::SUCCESS
            {
                return;
            }
            assert_eq!(*timed, without_contents(served, command), "{command:x?}");
            return;
        }
        // Completions may arrive in another order. They are equal apart from the queue head that they report.
        let decoded = |entries: &[[u8; 16]]| entries.iter().map(CompletionEntry::decode).collect::<Vec<_>>();
        let phases = |entries: &[CompletionEntry]| entries.iter().map(|entry| entry.phase).collect::<Vec<_>>();
        let by_id = |entries: &[CompletionEntry]| -> BTreeMap<u16, (u64, u16, Status)> {
            entries
                .iter()
                .map(|entry| (entry.command_id, (entry.result, entry.submission_queue, entry.status)))
                .collect()
        };
        let served: Vec<_> =
            commands.iter().zip(served).map(|(command, entry)| without_contents(entry, command)).collect();
        let (served, timed) = (decoded(&served), decoded(timed));
        assert_eq!((phases(&timed), by_id(&timed)), (phases(&served), by_id(&served)), "{commands:x?}");
    }

    /// A command that is nearly right, or not.
    fn command(&mut self) -> [u8; 64] {
        let dice = &mut self.dice;
        self.next_id = self.next_id.wrapping_add(1);
        if dice.one_in(40) {
            return self.any_bytes();
        }
        if self.limits.kind.offers(CommandSet::Keys) {
            return self.about_key();
        }
        let opcode = if dice.one_in(30) { dice.below(256) as u8 } else { dice.of(&block_opcodes()) };
        let (slba, blocks) = self.place();
        let (opcode, slba) = if self.has(CommandSet::Zones) { self.of_zones(opcode, slba) } else { (opcode, slba) };
        let manages_units = self.has(CommandSet::Placement) && self.dice.one_in(3);
        let units = [opcode::IO_MANAGEMENT_RECEIVE, opcode::IO_MANAGEMENT_SEND];
        let opcode = if manages_units { self.dice.of(&units) } else { opcode };
        let (prp1, prp2) = self.pointer();
        let dice = &mut self.dice;
        let entry = SubmissionEntry {
            opcode,
            flags: if dice.one_in(30) { dice.below(256) as u8 } else { 0 },
            command_id: self.next_id,
            namespace_id: match (dice.one_in(20), self.limits.namespaces) {
                (true, namespaces) => dice.of(&[0, namespaces + 1, u32::MAX]),
                (false, namespaces) => 1 + dice.below(namespaces.into()) as u32,
            },
            dwords_2_3: 0,
            metadata: 0,
            prp1,
            prp2,
            dwords: [0, 0, if dice.one_in(8) { 1 << 30 | 1 << 25 } else { 0 }, 0, 0, 0],
        };
        if self.has(CommandSet::Zones) {
            self.with_zones(entry, slba, blocks)
        } else if let Some(MetadataFormat { protection: Some(kind), .. }) = self.limits.kind.metadata() {
            let entry = self.with_protection(entry, slba, kind);
            self.completed(entry, slba, blocks)
        } else if self.has(CommandSet::Placement) {
            self.with_placement(entry, slba, blocks)
        } else {
            self.completed(entry, slba, blocks)
        }
    }

    /// Bytes of any kind, with data and lists anywhere but where nothing is.
    fn any_bytes(&mut self) -> [u8; 64] {
        let (dice, mut bytes) = (&mut self.dice, [0; 64]);
        bytes.as_chunks_mut::<8>().0.iter_mut().for_each(|word| *word = (dice.0.bits() >> 3).to_le_bytes());
        bytes[2..4].copy_from_slice(&self.next_id.to_le_bytes());
        bytes[31] &= 0x0f;
        bytes[39] &= 0x0f;
        bytes
    }

    /// The command with its blocks, and with the list that it needs.
    fn completed(&mut self, entry: SubmissionEntry, slba: u64, blocks: u32) -> [u8; 64] {
        match entry.opcode {
            opcode::DATASET_MANAGEMENT => self.deallocation(entry).encode(),
            opcode::COPY => self.copy(entry.of_blocks(slba, 1)).encode(),
            opcode::READ | opcode::WRITE | opcode::COMPARE if self.dice.one_in(4) => {
                let bytes = u64::from(blocks) << self.limits.block_shift;
                self.scatter(entry.of_blocks(slba, blocks), bytes).encode()
            }
            _ => entry.of_blocks(slba, blocks).encode(),
        }
    }

    /// A command for one of a few keys: one more of them than there may be, and values that do not all fit.
    fn about_key(&mut self) -> [u8; 64] {
        let keys = *self.limits.kind.keys().unwrap();
        let (prp1, prp2) = self.pointer();
        let dice = &mut self.dice;
        let known = [opcode::STORE, opcode::RETRIEVE, opcode::DELETE, opcode::EXIST, opcode::LIST];
        let opcode = match dice.below(16) {
            0 => dice.below(256) as u8,
            1 => opcode::FLUSH,
            2..8 => opcode::STORE,
            _ => dice.of(&known),
        };
        let most = if dice.one_in(20) { 1 << 18 } else { u64::from(keys.value_bytes_max) + 8 };
        // Most values have whole words, so that pages that are read as lists later contain what commands have written.
        let bytes = if dice.one_in(8) { dice.below(most) } else { dice.below(most / 8) * 8 };
        let key_bytes = match dice.below(20) {
            0 => dice.below(256),
            1 => 0,
            _ => 1 + dice.below(4),
        };
        let options = if dice.one_in(3) { dice.below(8) << 8 } else { 0 };
        let entry = SubmissionEntry {
            opcode,
            flags: if dice.one_in(30) { dice.below(256) as u8 } else { 0 },
            command_id: self.next_id,
            namespace_id: if dice.one_in(20) { dice.of(&[0, 2, u32::MAX]) } else { 1 },
            dwords_2_3: dice.below(12) << (8 * dice.below(2)),
            metadata: 0,
            prp1,
            prp2,
            dwords: [bytes as u32, (key_bytes | options) as u32, 0, 0, 0, 0],
        };
        let entry = if dice.one_in(4) { self.scatter(entry, bytes) } else { entry };
        entry.encode()
    }

    /// The command on a drive with data placement: with a directive, or with what is asked of reclaim units.
    fn with_placement(&mut self, mut entry: SubmissionEntry, slba: u64, blocks: u32) -> [u8; 64] {
        let dice = &mut self.dice;
        match entry.opcode {
            opcode::IO_MANAGEMENT_RECEIVE => {
                let words = if dice.one_in(20) { dice.below(1 << 32) } else { dice.below(128) };
                entry.dwords[..2].copy_from_slice(&[self.operation(), words as u32]);
                entry.encode()
            }
            opcode::IO_MANAGEMENT_SEND => {
                let most = if dice.one_in(10) { 300 } else { 4 };
                let count = dice.below(most);
                // A later command may read these bytes as a page list, so no entry may point at inaccessible memory.
                let fits = |at: u64, identifier: u16| if at % 8 < 6 { identifier } else { 0 };
                let places = (0..=count).map(|place| entry.prp1 + 2 * place);
                let list: Vec<u8> = places.flat_map(|at| fits(at, self.identifier()).to_le_bytes()).collect();
                self.machine.put(entry.prp1, &list);
                entry.dwords[0] = self.operation() | (count as u32) << 16;
                entry.encode()
            }
            _ => {
                let kind = if dice.one_in(8) { dice.below(16) as u32 } else { 2 };
                entry.dwords[2] |= kind << 20;
                entry.dwords[3] = u32::from(self.identifier()) << 16;
                self.completed(entry, slba, blocks)
            }
        }
    }

    /// The command with metadata anywhere, and with actions and checks that it can have or not. Nothing is checked whose result would
    /// depend on the metadata itself: a reference tag that is checked is one that type 1 refuses, or that type 3 ignores.
    fn with_protection(&mut self, mut entry: SubmissionEntry, slba: u64, kind: ProtectionType) -> SubmissionEntry {
        let dice = &mut self.dice;
        let action = if dice.one_in(3) { 8 } else { 0 };
        let checks = match entry.opcode {
            opcode::WRITE_ZEROES if dice.one_in(4) => dice.below(8) as u32,
            opcode::WRITE_ZEROES => 0,
            _ if kind != ProtectionType::Type2 && dice.one_in(6) => 0b011,
            _ => 0b010,
        };
        entry.dwords[2] |= (action | checks) << 26;
        entry.dwords[4] = (slba as u32).wrapping_add(1);
        entry.dwords[5] = dice.below(1 << 16) as u32;
        let metadata = dice.below(1 << 37) * 8 + if dice.one_in(40) { dice.below(4) } else { 0 };
        SubmissionEntry { metadata, ..entry }
    }

    /// The management operation that is about reclaim units, or another one.
    fn operation(&mut self) -> u32 {
        if self.dice.one_in(10) { self.dice.below(256) as u32 } else { 1 }
    }

    /// A placement identifier, most of which there are.
    fn identifier(&mut self) -> u16 {
        let (dice, limits) = (&mut self.dice, *self.limits.kind.placement().unwrap());
        if dice.one_in(30) {
            return dice.below(1 << 16) as u16;
        }
        limits.identifier(dice.below(limits.groups.into()) as u8, dice.below(limits.handles.into()) as u8)
    }

    /// The command on a drive with zones.
    fn with_zones(&mut self, entry: SubmissionEntry, slba: u64, blocks: u32) -> [u8; 64] {
        match entry.opcode {
            opcode::WRITE | opcode::ZONE_APPEND => {
                // Use no SGLs here: with a wrong list, the timing controller would open the zone before it reads the
                // list.
                let entry = SubmissionEntry { flags: entry.flags & !spec::PSDT_SGL, ..entry };
                entry.of_blocks(slba, blocks.min(4096 >> self.limits.block_shift)).encode()
            }
            opcode::ZONE_MANAGEMENT_SEND | opcode::ZONE_MANAGEMENT_RECEIVE => {
                self.manage_zones(entry.of_blocks(slba, 1)).encode()
            }
            _ => self.completed(entry, slba, blocks),
        }
    }

    /// The operation or another one that is about zones, and its place: mostly where a zone is written next, or begins.
    fn of_zones(&mut self, opcode: u8, slba: u64) -> (u8, u64) {
        let dice = &mut self.dice;
        let known =
            [opcode::ZONE_APPEND, opcode::ZONE_APPEND, opcode::ZONE_MANAGEMENT_SEND, opcode::ZONE_MANAGEMENT_RECEIVE];
        let opcode = if dice.one_in(2) { dice.of(&known) } else { opcode };
        // Use few zones, so that some become full.
        let zone = if dice.one_in(4) { dice.below(ZONED_MIB) } else { dice.below(3) } as u32;
        let (start, written) =
            self.store.zones().unwrap().with(|zones| (zones.layout().start(zone), zones.zone(zone).1));
        let begins = [opcode::ZONE_APPEND, opcode::ZONE_MANAGEMENT_SEND].contains(&opcode);
        match dice.below(10) {
            0 => (opcode, slba),
            1 => (opcode, start + dice.below(64)),
            // A zone has 1 MiB, and a few blocks cross its end.
            2 => (opcode, start + (1 << 20 >> self.limits.block_shift) - 1),
            _ if begins => (opcode, start),
            _ => (opcode, start + written),
        }
    }

    /// An action on zones or a report of them, or what looks like one.
    fn manage_zones(&mut self, entry: SubmissionEntry) -> SubmissionEntry {
        let dice = &mut self.dice;
        let most = u64::from(self.limits.transfer_bytes_max) / 4;
        let [low, high, ..] = entry.dwords;
        let [twelve, thirteen] = match entry.opcode {
            opcode::ZONE_MANAGEMENT_SEND => {
                let action = if dice.one_in(12) { dice.below(256) } else { 1 + dice.below(5) };
                [0, action as u32 | if dice.one_in(12) { 1 << 8 } else { 0 }]
            }
            _ => {
                let action = if dice.one_in(12) { dice.below(256) } else { 0 };
                let kind = dice.below(10) << 8;
                let words = if dice.one_in(20) { dice.below(1 << 32) } else { dice.below(most) };
                [words as u32, (action | kind | dice.below(2) << 16) as u32]
            }
        };
        SubmissionEntry { dwords: [low, high, twelve, thirteen, 0, 0], ..entry }
    }

    fn place(&mut self) -> (u64, u32) {
        let dice = &mut self.dice;
        let most = u64::from(self.limits.transfer_bytes_max >> self.limits.block_shift);
        let few = most.min((32 * 1024) >> self.limits.block_shift);
        let blocks = if dice.one_in(20) { dice.below(2 * most) } else { dice.below(few) } + 1;
        let slba = match dice.below(20) {
            0 => self.limits.blocks - dice.below(blocks + 1),
            1 => dice.of(&[u64::MAX, u64::MAX - blocks + 1, self.limits.blocks]),
            _ => dice.below(self.limits.blocks),
        };
        (slba, blocks as u32)
    }

    fn pointer(&mut self) -> (u64, u64) {
        let dice = &mut self.dice;
        let mut page = || dice.below(1 << 40) / PAGE * PAGE;
        let (first, second) = (page(), page());
        let into = if dice.one_in(2) { 0 } else { dice.below(PAGE / 4) * 4 };
        let first = first + into + if dice.one_in(40) { dice.below(4) } else { 0 };
        let second = match dice.below(20) {
            0 => second + dice.below(PAGE),
            1..8 => second + dice.below(PAGE / 8) * 8,
            8..12 => second + PAGE - 8 * (1 + dice.below(4)),
            // The timing controller does not know that data is inaccessible. It would move a write pointer, store a
            // value, or check metadata nevertheless.
            12 if !self.has(CommandSet::Zones)
                && !self.has(CommandSet::Keys)
                && self.limits.kind.metadata().is_none() =>
            {
                NOWHERE + second
            }
            _ => second,
        };
        (first, second)
    }

    /// The data in a few blocks anywhere, which are described in the command, in a segment, or in two; now and then wrongly.
    /// They are whole words, so that what is taken for a list of pages later holds what others have put there.
    fn scatter(&mut self, entry: SubmissionEntry, bytes: u64) -> SubmissionEntry {
        const SEGMENT: u64 = 2 << 60;
        const LAST_SEGMENT: u64 = 3 << 60;
        let dice = &mut self.dice;
        let (count, mut left) = (1 + dice.below(6), bytes);
        let mut blocks = Vec::new();
        for place in 1..=count {
            let bytes = if place == count { left } else { dice.below(left / 8 + 1) * 8 };
            left -= bytes;
            blocks.push([dice.below(1 << 37) * 8, bytes]);
        }
        if dice.one_in(12) {
            let place = dice.below(count) as usize;
            blocks[place][1] = dice.of(&[blocks[place][1] + 1, 7 << 60 | 1, SEGMENT | 32, LAST_SEGMENT | 16]);
        }
        let mut at = || dice.below(1 << 37) * 8;
        let (first, second) = (at(), at());
        let pointer = match dice.below(3) {
            0 if count == 1 => blocks[0],
            1 if count > 1 => {
                let rest = blocks.split_off(count as usize / 2);
                self.machine.put(second, &words(&rest));
                blocks.push([second, LAST_SEGMENT | (rest.len() as u64 * 16)]);
                [first, SEGMENT | (blocks.len() as u64 * 16)]
            }
            _ => [first, LAST_SEGMENT | (blocks.len() as u64 * 16)],
        };
        self.machine.put(first, &words(&blocks));
        SubmissionEntry { flags: spec::PSDT_SGL, prp1: pointer[0], prp2: pointer[1], ..entry }
    }

    /// Sources, most of them on the drive, where the command says.
    fn copy(&mut self, entry: SubmissionEntry) -> SubmissionEntry {
        let count = 1 + if self.dice.one_in(8) { self.dice.below(256) } else { self.dice.below(6) };
        let mut list = Vec::new();
        for _ in 0..count {
            let (slba, blocks) = if self.dice.one_in(30) { self.place() } else { (self.dice.below(16), 2) };
            // For metadata, use a reference tag that does not match the source.
            let tag = if self.limits.kind.metadata().is_some() { (slba as u32).wrapping_add(1) } else { 0 };
            list.extend([0, slba, u64::from(blocks - 1), tag.into()].into_iter().flat_map(u64::to_le_bytes));
        }
        self.machine.put(entry.prp1, &list);
        let [low, high, flags, _, fourteen, fifteen] = entry.dwords;
        let format = if self.dice.one_in(20) { 1 << 8 } else { 0 };
        let sources = self.source_information(flags) << 12;
        let twelve = flags & !0xffff | format | sources | (count as u32 - 1);
        SubmissionEntry { dwords: [low, high, twelve, 0, fourteen, fifteen], ..entry }
    }

    /// PRINFOR of a copy: mostly the action of what it writes, and now and then a check of its sources' reference tags.
    fn source_information(&mut self, flags: u32) -> u32 {
        let Some(MetadataFormat { protection: Some(kind), .. }) = self.limits.kind.metadata() else { return 0 };
        let action = if self.dice.one_in(6) { 8 } else { flags >> 26 & 8 };
        let is_checked = kind != ProtectionType::Type2 && self.dice.one_in(6);
        action | u32::from(is_checked)
    }

    /// Ranges, most of them on the drive, where the command says.
    fn deallocation(&mut self, entry: SubmissionEntry) -> SubmissionEntry {
        let count = 1 + if self.dice.one_in(8) { self.dice.below(256) } else { self.dice.below(6) };
        let mut list = Vec::new();
        for _ in 0..count {
            let (slba, blocks) = if self.dice.one_in(30) { self.place() } else { (self.dice.below(16), 1) };
            list.extend([0, blocks, slba as u32, (slba >> 32) as u32].into_iter().flat_map(u32::to_le_bytes));
        }
        self.machine.put(entry.prp1, &list);
        SubmissionEntry { dwords: [count as u32 - 1, self.dice.of(&[0, 4, 4]), 0, 0, 0, 0], ..entry }
    }
}

fn words(descriptors: &[[u64; 2]]) -> Vec<u8> {
    descriptors.iter().flatten().flat_map(|word| word.to_le_bytes()).collect()
}

/// The command, or a flush instead of Write Uncorrectable: rules cannot know of blocks that it makes unreadable. A Cancel names its
/// own queue, which rules do not know either.
fn without_contents_lost(mut entry: [u8; 64]) -> [u8; 64] {
    if entry[0] == opcode::CANCEL {
        entry[40..42].copy_from_slice(&1_u16.to_le_bytes());
    }
    if entry[0] == opcode::WRITE_UNCORRECTABLE {
        entry[0] = opcode::FLUSH;
    }
    entry
}

/// The entry of a command as if its data had been readable and the same: that is not for rules to know.
fn without_contents(entry: &[u8; 16], command: &Command) -> [u8; 16] {
    let decoded = CompletionEntry::decode(entry);
    let is_compare = matches!(&command.checked, Ok(checked) if checked.action == Action::Compare);
    let hides = is_compare && decoded.status == Status::COMPARE_FAILURE
        || command.checked.is_ok() && decoded.status == Status::DATA_TRANSFER_ERROR;
    if hides { CompletionEntry { status: Status::SUCCESS, ..decoded }.encode() } else { *entry }
}

/// Lets conversations run, until they have come to a number of commands, and returns the statuses of the last ones of each.
fn statuses(conversation: impl Fn(u64) -> Conversation) -> BTreeMap<u16, u32> {
    let mut commands = 0;
    let mut statuses: BTreeMap<u16, u32> = BTreeMap::new();
    for seed in 0..CONVERSATIONS {
        let mut conversation = conversation(seed);
        let mut count = 0;
        while count < COMMANDS {
            count += conversation.step();
        }
        commands += count;
        for slot in 0..conversation.entries {
            let entry = conversation.timing.completion_entry(0, slot).unwrap();
            *statuses.entry(CompletionEntry::decode(&entry).status.kind().0).or_default() += 1;
        }
    }
    assert!(commands >= 100_000, "{commands}");
    statuses
}

/// Checks that all that the rules can say is among the statuses of conversations.
fn check_statuses(conversation: impl Fn(u64) -> Conversation, said: &[Status]) {
    let statuses = statuses(conversation);
    for status in said {
        assert!(statuses.contains_key(&status.0), "{status:?} is missing among {statuses:?}");
    }
}

#[test]
fn both_controllers_give_the_same_answers_and_touch_the_same_pages() {
    let said = [
        Status::SUCCESS,
        Status::INVALID_OPCODE,
        Status::INVALID_FIELD,
        Status::DATA_TRANSFER_ERROR,
        Status::INVALID_NAMESPACE,
        Status::INVALID_PRP_OFFSET,
        Status::INVALID_SGL_SEGMENT,
        Status::INVALID_SGL_LENGTH,
        Status::INVALID_SGL_TYPE,
        Status::LBA_OUT_OF_RANGE,
        Status::COMMAND_SIZE_LIMIT_EXCEEDED,
    ];
    check_statuses(Conversation::new, &said);
}

#[test]
fn both_controllers_give_the_same_answers_about_zones() {
    let said = [
        Status::SUCCESS,
        Status::INVALID_OPCODE,
        Status::INVALID_FIELD,
        Status::INVALID_PRP_OFFSET,
        Status::LBA_OUT_OF_RANGE,
        Status::ZONE_BOUNDARY_ERROR,
        Status::ZONE_IS_FULL,
        Status::ZONE_INVALID_WRITE,
        Status::TOO_MANY_ACTIVE_ZONES,
        Status::TOO_MANY_OPEN_ZONES,
        Status::INVALID_ZONE_STATE_TRANSITION,
    ];
    check_statuses(Conversation::about_zones, &said);
}

#[test]
fn both_controllers_give_the_same_answers_about_placement() {
    let said = [
        Status::SUCCESS,
        Status::INVALID_OPCODE,
        Status::INVALID_FIELD,
        Status::INVALID_NAMESPACE,
        Status::DATA_TRANSFER_ERROR,
        Status::INVALID_PRP_OFFSET,
        Status::INVALID_SGL_LENGTH,
        Status::LBA_OUT_OF_RANGE,
    ];
    check_statuses(Conversation::about_placement, &said);
}

#[test]
fn both_controllers_give_the_same_answers_about_keys() {
    let said = [
        Status::SUCCESS,
        Status::INVALID_OPCODE,
        Status::INVALID_FIELD,
        Status::INVALID_NAMESPACE,
        Status::INVALID_PRP_OFFSET,
        Status::INVALID_SGL_LENGTH,
        Status::INVALID_VALUE_SIZE,
        Status::INVALID_KEY_SIZE,
        Status::KEY_DOES_NOT_EXIST,
        Status::KEY_EXISTS,
        Status::CAPACITY_EXCEEDED,
    ];
    check_statuses(Conversation::about_keys, &said);
}

#[test]
fn both_controllers_give_the_same_answers_about_protection() {
    let said = [
        Status::SUCCESS,
        Status::INVALID_OPCODE,
        Status::INVALID_FIELD,
        Status::INVALID_NAMESPACE,
        Status::INVALID_PRP_OFFSET,
        Status::INVALID_SGL_LENGTH,
        Status::LBA_OUT_OF_RANGE,
        Status::COMMAND_SIZE_LIMIT_EXCEEDED,
        Status::INVALID_PROTECTION_INFORMATION,
    ];
    check_statuses(Conversation::about_protection, &said);
}
