//! One device, two clocks: random and malformed conversations with the served controller and with the timing one, which give
//! the same statuses, touch the same pages and post the same completion entries.
//!
//! The served controller gets commands from the queue of a host that is an array, and moves bytes at once. The timing
//! controller gets the same 64 bytes through the model's link, and what it touches is what its packets name. A second timing
//! controller gets the commands as the served one has decoded them, and does the same at the same instants.

mod commands;
mod drives;
mod machine;

use std::collections::BTreeMap;

use phaselink_core::drive::Drive;
use phaselink_core::engine::{Engine, Input};
use phaselink_core::ledger::trace::Step;
use phaselink_core::protocol::nvme::commands::{Action, CommandSet, opcode};
use phaselink_core::protocol::nvme::rules::{Limits, NamespaceKind};
use phaselink_core::protocol::nvme::spec::{
    self, CompletionEntry, Status, SubmissionEntry, admin, completion_doorbell, submission_doorbell,
};
use phaselink_core::protocol::real_hosts::{HostCommand, HostCommandForm};
use phaselink_core::random::Random;
use phaselink_core::time::Span;
use phaselink_serve::device::store::{Geometry, Store};
use phaselink_serve::nvme::{Command, CommandProgress, Controller, Identity, NextCommand};

use drives::{ConversationDice, drive, keyed, placed, protected, zoned};
use machine::{ArrayHostMachine, TouchedMemory};

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

/// Places commands in these forms in the queue of a model and runs it until all are answered. Returns their completion
/// queue entries, the first of which is in slot `head` of `entries`.
fn timed<'a>(
    engine: &mut Engine,
    commands: &[(Command, Vec<u8>)],
    forms: impl Iterator<Item = HostCommandForm<'a>>,
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

/// Both controllers, and the host's end of the conversation.
struct Conversation {
    dice: ConversationDice,
    limits: Limits,
    machine: ArrayHostMachine,
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

impl Conversation {
    fn new(seed: u64) -> Conversation {
        let mut dice = ConversationDice(Random::stream(seed, "two controllers"));
        let drive = drive(&mut dice);
        Conversation::about(&drive, dice, seed)
    }

    fn with_zoned_drive(seed: u64) -> Conversation {
        let mut dice = ConversationDice(Random::stream(seed, "two controllers and zones"));
        let drive = zoned(&mut dice);
        let mut conversation = Conversation::about(&drive, dice, seed);
        conversation.timing.keep_zones(&drive);
        conversation.decoded.keep_zones(&drive);
        conversation
    }

    fn with_placement_drive(seed: u64) -> Conversation {
        let mut dice = ConversationDice(Random::stream(seed, "two controllers and placement"));
        let drive = placed(&mut dice);
        Conversation::about(&drive, dice, seed)
    }

    fn with_key_value_drive(seed: u64) -> Conversation {
        let mut dice = ConversationDice(Random::stream(seed, "two controllers and keys"));
        let drive = keyed(&mut dice);
        Conversation::about(&drive, dice, seed)
    }

    fn with_protected_drive(seed: u64) -> Conversation {
        let mut dice = ConversationDice(Random::stream(seed, "two controllers and protection"));
        let drive = protected(&mut dice);
        let conversation = Conversation::about(&drive, dice, seed);
        conversation.store.add_metadata().unwrap();
        conversation
    }

    fn about(drive: &Drive, mut dice: ConversationDice, seed: u64) -> Conversation {
        let limits = Limits::of_real_hosts(drive);
        let block_bytes = drive.nvme.block_bytes;
        let geometry = Geometry { capacity_bytes: drive.media.capacity_mib << 20, block_bytes };
        let store = Store::in_memory(geometry).unwrap();
        let mut conversation = Conversation {
            machine: ArrayHostMachine::new(&limits),
            served: Controller::new(Identity::new("test", limits, 0)),
            store: match limits.kind {
                NamespaceKind::Blocks(_) => store,
                NamespaceKind::Zoned(zones) => store.with_zones(zones.layout).unwrap(),
                NamespaceKind::Keyed(keys) => store.with_keys(keys.layout).unwrap(),
            },
            space: vec![0; limits.transfer_bytes_max as usize],
            timing: Engine::for_real_host_drivers(drive, seed).unwrap(),
            decoded: Engine::for_real_host_drivers(drive, seed).unwrap(),
            entries: dice.of(&[drive.nvme.queue_entries, 2]),
            limits,
            dice,
            tail: 0,
            head: 0,
            next_id: 0,
        };
        conversation.fill_list_memory();
        conversation.enable();
        conversation
    }

    /// Whatever is taken for a list holds pages, often in sequence, and now and then something else.
    fn fill_list_memory(&mut self) {
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
        self.ring_invalid_doorbells();
        // The timing controller refuses a command for its list later than the served one, when it may have executed
        // another write. The same holds for the size of a value. So send one command at a time.
        let is_alone = self.has(CommandSet::Zones) || self.has(CommandSet::Keys);
        let room = if is_alone { 1 } else { u64::from(self.entries - 1).min(4) };
        let count = 1 + self.dice.below(room) as usize;
        let batch: Vec<[u8; 64]> = (0..count).map(|_| without_content_loss(self.command())).collect();
        let commands = self.serve_commands(&batch);
        let served: Vec<_> = self.machine.posted.drain(..).collect();
        let served_touched = std::mem::take(&mut self.machine.touched).merged();
        let (timed, timed_touched) = self.time(&commands);
        let (commands, _): (Vec<Command>, Vec<Vec<u8>>) = commands.into_iter().unzip();
        let described = || {
            format!("{:#x?}", commands.iter().map(|command| (command.entry(), &command.checked)).collect::<Vec<_>>())
        };
        self.compare_controllers(&commands, &served, &timed);
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
    fn ring_invalid_doorbells(&mut self) {
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
    fn serve_commands(&mut self, batch: &[[u8; 64]]) -> Vec<(Command, Vec<u8>)> {
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
    fn time(&mut self, commands: &[(Command, Vec<u8>)]) -> (Vec<[u8; 16]>, TouchedMemory) {
        let as_bytes = |(command, lists): &'_ (Command, Vec<u8>)| {
            (command.bytes, command.has_memory_lists().then(|| lists.clone()))
        };
        let bytes: Vec<_> = commands.iter().map(as_bytes).collect();
        let forms = bytes.iter().map(|(entry, lists)| HostCommandForm::Bytes { entry, lists: lists.as_deref() });
        let entries = timed(&mut self.timing, commands, forms, self.head, self.entries);
        let forms = commands.iter().map(|(command, _)| HostCommandForm::Decoded(Box::new(command.to_model_command())));
        let decoded = timed(&mut self.decoded, commands, forms, self.head, self.entries);
        assert_eq!(decoded, entries, "{commands:x?}");
        let same = self.decoded.trace().records() == self.timing.trace().records();
        assert!(same && self.decoded.now() == self.timing.now(), "{commands:x?}");
        (entries, self.packets().merged())
    }

    fn packets(&self) -> TouchedMemory {
        let mut touched = TouchedMemory::default();
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

    fn compare_controllers(&self, commands: &[Command], served: &[[u8; 16]], timed: &[[u8; 16]]) {
        assert_eq!(served.len(), timed.len());
        if let ([command], [served], [timed]) = (commands, served, timed) {
            // If both the zone and the page list are wrong, the timing controller reports the zone.
            let is_list_wrong = command.checked.is_err() && command.has_memory_lists();
            if self.has(CommandSet::Zones) && is_list_wrong && CompletionEntry::decode(timed).status != Status::SUCCESS
            {
                return;
            }
            assert_eq!(*timed, with_readable_equal_data(served, command), "{command:x?}");
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
            commands.iter().zip(served).map(|(command, entry)| with_readable_equal_data(entry, command)).collect();
        let (served, timed) = (decoded(&served), decoded(timed));
        assert_eq!((phases(&timed), by_id(&timed)), (phases(&served), by_id(&served)), "{commands:x?}");
    }
}

/// The command, or a flush instead of Write Uncorrectable: rules cannot know of blocks that it makes unreadable. A Cancel names its
/// own queue, which rules do not know either.
fn without_content_loss(mut entry: [u8; 64]) -> [u8; 64] {
    if entry[0] == opcode::CANCEL {
        entry[40..42].copy_from_slice(&1_u16.to_le_bytes());
    }
    if entry[0] == opcode::WRITE_UNCORRECTABLE {
        entry[0] = opcode::FLUSH;
    }
    entry
}

/// The entry of a command as if its data had been readable and the same: that is not for rules to know.
fn with_readable_equal_data(entry: &[u8; 16], command: &Command) -> [u8; 16] {
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
fn check_reachable_statuses(conversation: impl Fn(u64) -> Conversation, said: &[Status]) {
    let statuses = statuses(conversation);
    for status in said {
        assert!(statuses.contains_key(&status.0), "{status:?} is missing among {statuses:?}");
    }
}

#[test]
fn served_and_simulated_controllers_agree_on_blocks() {
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
    check_reachable_statuses(Conversation::new, &said);
}

#[test]
fn served_and_simulated_controllers_agree_on_zones() {
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
    check_reachable_statuses(Conversation::with_zoned_drive, &said);
}

#[test]
fn served_and_simulated_controllers_agree_on_placement() {
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
    check_reachable_statuses(Conversation::with_placement_drive, &said);
}

#[test]
fn served_and_simulated_controllers_agree_on_keys() {
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
    check_reachable_statuses(Conversation::with_key_value_drive, &said);
}

#[test]
fn served_and_simulated_controllers_agree_on_protection() {
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
    check_reachable_statuses(Conversation::with_protected_drive, &said);
}
