//! History of random calls at real controllers, whose order a seed determines.

use std::fmt;
use std::sync::Arc;

use phaselink_core::number::{index, length, wide_index};
use phaselink_core::protocol::nvme::commands::opcode;
use phaselink_core::protocol::nvme::rules::reservation::{
    AcquireAction, RegisterAction, ReservationCommand, ReservationKeys, ReservationType,
};
use phaselink_core::protocol::nvme::rules::{Limits, NamespaceKind};
use phaselink_core::protocol::nvme::spec::{Status, SubmissionEntry};
use phaselink_core::random::Random;

use super::checker::{CALLS_MAX, check_order};
use super::drive_model::{BLOCKS, CallOutcome, HostAction, HostCall, ReferenceDrive, host_id};
use super::path::HostPath;
use crate::device::faults::Faults;
use crate::device::paths::PathState;
use crate::device::store::{Geometry, Store};
use crate::nvme::drive_image::MovedDrive;
use crate::nvme::image::ImageReader;
use crate::nvme::subsystem::Subsystem;
use crate::nvme::{Controller, Identity};

/// Number of calls of a history. The rest up to the checker's limit is for what ends the history.
const CALLS: usize = CALLS_MAX - 16;
/// Size in bytes of a logical block, and its binary logarithm.
pub(super) const BLOCK_BYTES: u32 = 512;
const BLOCK_SHIFT: u32 = 9;
/// Number of bytes of a report of reservations: more than all hosts need.
pub(super) const REPORT_BYTES: u32 = 2048;

/// Limits of the drive.
pub(super) const LIMITS: Limits = Limits {
    namespaces: 1,
    blocks: 64,
    block_shift: BLOCK_SHIFT,
    transfer_bytes_max: 4096,
    queue_pairs: 2,
    queue_entries: 64,
    takes_segments: true,
    kind: NamespaceKind::PLAIN,
};

/// Counts of a history that is linearizable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HistoryCounts {
    /// Number of calls.
    pub(super) calls: u64,
    /// Calls that a reservation has refused.
    pub(super) conflicts: u64,
    /// Calls that a path without access has refused.
    pub(super) refused_by_path: u64,
    /// Calls that a reset or a restart has ended.
    pub(super) unanswered: u64,
    /// Commands that preempt and abort has aborted.
    pub(super) aborted: u64,
    /// Restarts of the server.
    pub(super) restarts: u64,
    /// Moves of the drive to another server.
    pub(super) moves: u64,
}

/// History that no drive which executes one call after the other can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HistoryFailure {
    /// Calls in the order of their submission.
    pub(super) calls: Vec<HostCall>,
    /// Numbers of the calls that cannot come next in any order.
    pub(super) stuck: Vec<usize>,
    /// Drive at the end of the longest order, for people.
    pub(super) drive: String,
}

/// Runs the history of a seed with so many hosts, and checks it.
///
/// # Errors
/// The history, if it is not linearizable.
///
/// # Panics
/// If the controllers panic, or the store cannot be made.
pub(super) fn run_history(seed: u64, hosts: u64) -> Result<HistoryCounts, Box<HistoryFailure>> {
    let mut trial = Trial::new(seed, hosts);
    while trial.calls.len() < CALLS {
        trial.step();
    }
    trial.finish_and_read_all();
    let drive = ReferenceDrive::new(&trial.hosts);
    let Trial { calls, .. } = trial;
    match check_order(&calls, &drive) {
        Ok(()) => Ok(counts(&calls)),
        Err(problem) => {
            let drive = format!("{:?}", problem.drive);
            Err(Box::new(HistoryFailure { calls, stuck: problem.stuck, drive }))
        }
    }
}

fn counts(calls: &[HostCall]) -> HistoryCounts {
    let count = |is_counted: &dyn Fn(&HostCall) -> bool| length(calls.iter().filter(|call| is_counted(call)).count());
    let with_status = |is_counted: &dyn Fn(Status) -> bool| {
        count(&|call| call.response.as_ref().is_some_and(|response| is_counted(response.status)))
    };
    HistoryCounts {
        calls: length(calls.len()),
        conflicts: with_status(&|status| status == Status::RESERVATION_CONFLICT),
        refused_by_path: with_status(&Status::is_of_path),
        unanswered: count(&|call| call.response.is_none()),
        aborted: with_status(&|status| status == Status::PREEMPTED),
        restarts: count(&|call| call.action == HostAction::Restart),
        moves: count(&|call| call.action == HostAction::Move),
    }
}

/// Hosts, their paths, and the drive.
struct Trial {
    random: Random,
    store: Store,
    /// Store of the server to which the drive is moving, once its bytes are being copied there.
    target: Option<Store>,
    subsystem: Arc<Subsystem>,
    faults: Arc<Faults>,
    /// Host of each path.
    hosts: Vec<usize>,
    paths: Vec<HostPath>,
    calls: Vec<HostCall>,
    /// Number of steps so far: the time of the history.
    now: u32,
    /// Values that were written, the newest last.
    values: Vec<u64>,
}

impl Trial {
    fn new(seed: u64, hosts: u64) -> Trial {
        let mut random = Random::stream(seed, "histories of hosts");
        let hosts_of_paths: Vec<usize> =
            (0..wide_index(hosts)).flat_map(|host| vec![host; 1 + usize::from(random.bits() >> 63 == 1)]).collect();
        let geometry = Geometry { capacity_bytes: LIMITS.capacity_bytes(), block_bytes: BLOCK_BYTES };
        let store = Store::in_memory(geometry).expect("memory for a few blocks");
        let subsystem = Arc::new(Subsystem::new(&LIMITS));
        let mut trial = Trial {
            random,
            store,
            target: None,
            subsystem,
            faults: Arc::default(),
            hosts: hosts_of_paths,
            paths: Vec::new(),
            calls: Vec::new(),
            now: 0,
            values: vec![0],
        };
        trial.start_server();
        trial
    }

    /// Starts the server: its state from the store, and a controller on each path.
    fn start_server(&mut self) {
        self.start_subsystem();
        self.subsystem.load(&self.store).expect("the store holds what this drive has saved");
        self.paths.clear();
        for number in 0..self.hosts.len() {
            let mut path = HostPath::new(self.new_controller(number));
            path.connect(&host_id(self.hosts[number]), &self.store);
            self.paths.push(path);
        }
    }

    /// Makes the state that all controllers of a new server share.
    fn start_subsystem(&mut self) {
        self.subsystem = Arc::new(Subsystem::new(&LIMITS));
        self.faults = Arc::default();
    }

    /// Makes the controller of a path as after power-on.
    fn new_controller(&self, number: usize) -> Controller {
        let path = self.subsystem.add_host_path(&self.faults, address(number));
        Controller::new(Identity::new("hosts", LIMITS, number).sharing(&self.subsystem).on_path(path))
    }

    fn below(&mut self, count: usize) -> usize {
        wide_index(self.random.bits() % length(count))
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// Advances one command by one step, or does what happens now and then.
    fn step(&mut self) {
        let path = self.below(self.paths.len());
        match self.below(400) {
            0..120 => self.submit(path),
            120..220 => drop(self.fetch(path)),
            220..320 => self.execute(path),
            320..376 => self.reap(path),
            376..384 => self.change_path(path),
            384..390 => self.read_log(path),
            390..394 => self.advance_move(),
            394..399 => self.reset(path),
            _ => self.restart(),
        }
    }

    /// Records a call that begins and ends in this step.
    fn record_instant_call(&mut self, path: usize, action: HostAction, response: CallOutcome) {
        self.now += 1;
        let (host, invoked, ended, executed) = (self.hosts[path], self.now, self.now + 1, Some(self.now));
        self.calls.push(HostCall { host, path, action, invoked, ended, executed, response: Some(response) });
        self.now += 1;
    }

    fn submit(&mut self, path: usize) {
        let Some(slot) = self.paths[path].free_command_slot() else { return };
        let action = self.draw_action(self.hosts[path]);
        let (entry, data) = entry_without_data_pointer(action);
        self.now += 1;
        let (host, invoked) = (self.hosts[path], self.now);
        self.paths[path].submit(slot, self.calls.len(), entry, &data);
        self.calls.push(HostCall { host, path, action, invoked, ended: u32::MAX, executed: None, response: None });
    }

    fn draw_action(&mut self, host: usize) -> HostAction {
        let block = self.below(BLOCKS);
        match self.below(16) {
            0..4 => HostAction::Read { block },
            4..9 => {
                let value = length(self.values.len());
                self.values.push(value);
                HostAction::Write { block, value }
            }
            9..11 => {
                let recent = self.values.len().min(4);
                let age = 1 + self.below(recent);
                let value = self.values[self.values.len() - age];
                HostAction::Compare { block, value }
            }
            _ => self.draw_reservation_command(host),
        }
    }

    /// Draws a reservation command with keys of which most are right: host n has key n + 1.
    fn draw_reservation_command(&mut self, host: usize) -> HostAction {
        let hosts = 1 + self.hosts.last().copied().unwrap_or(0);
        let of_other = length(self.below(hosts)) + 1;
        let own = if self.below(8) == 0 { of_other } else { length(host) + 1 };
        let kind = self.of(&ReservationType::ALL);
        let command = match self.below(12) {
            0..3 => ReservationCommand::Register {
                action: RegisterAction::Register,
                ignores_key: true,
                persists: self.of(&[None, None, Some(true), Some(false)]),
            },
            3 => ReservationCommand::Register { action: RegisterAction::Unregister, ignores_key: true, persists: None },
            4..6 => ReservationCommand::Acquire { action: AcquireAction::Acquire, kind },
            6..8 => ReservationCommand::Acquire { action: AcquireAction::Preempt, kind },
            8..10 => ReservationCommand::Acquire { action: AcquireAction::PreemptAndAbort, kind },
            10 => self.of(&[ReservationCommand::Release(kind), ReservationCommand::Clear]),
            _ => ReservationCommand::Report { bytes: REPORT_BYTES, is_long: true },
        };
        let is_registration = matches!(command, ReservationCommand::Register { .. });
        let other = if is_registration { own } else { of_other };
        HostAction::Reserve(command, ReservationKeys { current: own, other })
    }

    fn execute(&mut self, path: usize) {
        let in_hand = self.paths[path].in_hand();
        if in_hand > 0 {
            let place = self.below(in_hand);
            self.now += 1;
            let executed = self.paths[path].execute(place, &self.store);
            self.note_call_executed(executed);
        }
    }

    /// Lets the controller of a path fetch a command. Returns false if there is none.
    fn fetch(&mut self, path: usize) -> bool {
        self.now += 1;
        let Some(refused) = self.paths[path].fetch(&self.store) else { return false };
        self.note_call_executed(refused);
        true
    }

    /// Notes that a call has been refused or executed, unless it was before.
    fn note_call_executed(&mut self, call: Option<usize>) {
        if let Some(call) = call {
            self.calls[call].executed.get_or_insert(self.now);
        }
    }

    /// Lets the host see the completions on a path.
    fn reap(&mut self, path: usize) {
        while let Some((call, status, slot)) = self.paths[path].reap() {
            self.now += 1;
            let data = match (self.calls[call].action, status) {
                (HostAction::Read { .. }, Status::SUCCESS) => {
                    uniform_block_value(self.paths[path].data(slot, BLOCK_BYTES))
                }
                (HostAction::Reserve(ReservationCommand::Report { .. }, _), Status::SUCCESS) => {
                    self.paths[path].data(slot, REPORT_BYTES).to_vec()
                }
                _ => Vec::new(),
            };
            let call = &mut self.calls[call];
            (call.ended, call.response) = (self.now, Some(CallOutcome { status, data }));
        }
    }

    fn change_path(&mut self, path: usize) {
        let states = PathState::ALL.map(|(_, state)| state);
        // Give access in half of the changes, so that the hosts make progress.
        let state = if self.below(2) == 0 { PathState::Optimized } else { self.of(&states) };
        assert!(self.faults.paths.set(&address(path), None, state), "the path has been added");
        let response = CallOutcome { status: Status::SUCCESS, data: Vec::new() };
        self.record_instant_call(path, HostAction::SetPath(state), response);
    }

    fn read_log(&mut self, path: usize) {
        let action = self.of(&[HostAction::ReadNotice, HostAction::ReadPath]);
        let page = match action {
            HostAction::ReadNotice => self.paths[path].read_log(0x80, &self.store).map(|page| vec![page[8]]),
            _ => self.paths[path].read_log(0x0c, &self.store).map(|page| vec![page[0], page[32]]),
        };
        let (status, data) = page.map_or_else(|status| (status, Vec::new()), |data| (Status::SUCCESS, data));
        self.record_instant_call(path, action, CallOutcome { status, data });
    }

    /// Resets the controller of a path with commands in flight. Commands that it has fetched are executed later or never.
    fn reset(&mut self, path: usize) {
        self.now += 1;
        let lost = self.paths[path].lose();
        let host = host_id(self.hosts[path]);
        self.paths[path].connect(&host, &self.store);
        self.end_unfinished_calls(&lost);
        self.record_instant_call(path, HostAction::Connect, CallOutcome { status: Status::SUCCESS, data: Vec::new() });
    }

    fn restart(&mut self) {
        self.now += 1;
        if self.target.take().is_some() {
            self.store.forget_changes();
        }
        let lost: Vec<usize> = self.paths.iter_mut().flat_map(HostPath::lose).collect();
        self.start_server();
        self.end_unfinished_calls(&lost);
        self.record_instant_call(0, HostAction::Restart, CallOutcome { status: Status::SUCCESS, data: Vec::new() });
    }

    /// Starts to copy the drive to another server, or completes the move if that has begun.
    fn advance_move(&mut self) {
        match self.target.take() {
            None => {
                self.store.log_changes().expect("a store in memory reports what has been written");
                let target = Store::in_memory(self.store.geometry()).expect("memory for a few blocks");
                self.copy_changes(&target);
                self.target = Some(target);
            }
            Some(target) => self.complete_move(target),
        }
    }

    fn copy_changes(&self, target: &Store) {
        while let Some(range) = self.store.take_changed() {
            let bytes = self.store.copy_range(range).expect("a range of a store in memory");
            target.place_range(range.region, range.offset, &bytes).expect("a store of the same size");
        }
    }

    /// Stops all controllers, and continues with those of another server.
    fn complete_move(&mut self, target: Store) {
        self.now += 1;
        let mut images = Vec::new();
        for path in 0..self.paths.len() {
            let mut image = Vec::new();
            let executed = self.paths[path].stop(&self.store, &mut image);
            executed.into_iter().for_each(|call| self.note_call_executed(Some(call)));
            images.push(image);
        }
        self.copy_changes(&target);
        self.store.forget_changes();
        let mut drive = Vec::new();
        self.subsystem.put_image(&self.store, &mut drive).expect("a store in memory takes its records");
        self.store = target;
        self.start_subsystem();
        let moved =
            MovedDrive::of_image(&mut ImageReader(&drive), &LIMITS, &self.store).expect("a drive has put it there");
        moved.put_in_force(&self.subsystem, &self.store).expect("a store in memory takes its records");
        for (number, image) in images.iter().enumerate() {
            let controller = self.new_controller(number);
            self.paths[number].resume(&controller, &mut ImageReader(image));
        }
        self.record_instant_call(0, HostAction::Move, CallOutcome { status: Status::SUCCESS, data: Vec::new() });
    }

    /// Ends calls without a response: they have had their effect by now, or never will.
    fn end_unfinished_calls(&mut self, lost: &[usize]) {
        self.now += 1;
        for call in lost {
            self.calls[*call].ended = self.now;
        }
    }

    /// Executes all commands in flight, and reads all blocks on a path with access.
    fn finish_and_read_all(&mut self) {
        for path in 0..self.paths.len() {
            while self.fetch(path) {}
            while self.paths[path].in_hand() > 0 {
                self.execute(path);
            }
            // A completion that found its queue full is posted when the controller polls for commands again, so fetch
            // first.
            self.fetch(path);
            self.reap(path);
        }
        if let Some(call) = self.calls.iter().find(|call| call.ended == u32::MAX) {
            let path = &self.paths[call.path];
            panic!("no completion for {call}, executed at {:?}; its path: {path:?}", call.executed);
        }
        for block in 0..BLOCKS {
            let data = uniform_block_value(&self.stored(block));
            let response = CallOutcome { status: Status::SUCCESS, data };
            self.record_instant_call(0, HostAction::Inspect { block }, response);
        }
    }

    /// Returns the bytes of a block in the store.
    fn stored(&self, block: usize) -> Vec<u8> {
        let mut bytes = vec![0; index(BLOCK_BYTES)];
        let offset = length(block) * u64::from(BLOCK_BYTES);
        self.store.read(offset, &mut bytes).expect("a block of a store in memory");
        bytes
    }
}

/// Returns the address of a path.
fn address(path: usize) -> String {
    format!("path {path}")
}

/// Returns the value of a block whose words are all equal. Other blocks have no value, and get bytes of another length.
fn uniform_block_value(bytes: &[u8]) -> Vec<u8> {
    let words = bytes.as_chunks::<8>().0;
    if words.iter().all(|word| *word == words[0]) { words[0].to_vec() } else { bytes.to_vec() }
}

/// Returns the submission queue entry of a command without its data pointer, and the data that the host sends.
fn entry_without_data_pointer(action: HostAction) -> (SubmissionEntry, Vec<u8>) {
    let of_block = |opcode, block| {
        SubmissionEntry { opcode, namespace_id: 1, ..SubmissionEntry::default() }.of_blocks(length(block), 1)
    };
    let filled = |value: u64| value.to_le_bytes().repeat(index(BLOCK_BYTES) / 8);
    match action {
        HostAction::Read { block } => (of_block(opcode::READ, block), Vec::new()),
        HostAction::Write { block, value } => (of_block(opcode::WRITE, block), filled(value)),
        HostAction::Compare { block, value } => (of_block(opcode::COMPARE, block), filled(value)),
        HostAction::Reserve(command, keys) => {
            let (opcode, dwords) = reservation_dwords(command);
            let data = [keys.current.to_le_bytes(), keys.other.to_le_bytes()].concat();
            (SubmissionEntry { opcode, namespace_id: 1, dwords, ..SubmissionEntry::default() }, data)
        }
        _ => (SubmissionEntry::default(), Vec::new()),
    }
}

/// Returns opcode and dwords 10 to 15 of a reservation command.
fn reservation_dwords(command: ReservationCommand) -> (u8, [u32; 6]) {
    let with_kind = |action: u32, kind: ReservationType| action | u32::from(kind.number()) << 8;
    let (opcode, first, second) = match command {
        ReservationCommand::Register { action, ignores_key, persists } => {
            let persistence = persists.map_or(0, |persists| 0b10 | u32::from(persists));
            let action = match action {
                RegisterAction::Register => 0,
                RegisterAction::Unregister => 1,
                RegisterAction::Replace => 2,
            };
            (opcode::RESERVATION_REGISTER, action | u32::from(ignores_key) << 3 | persistence << 30, 0)
        }
        ReservationCommand::Acquire { action, kind } => {
            let action = match action {
                AcquireAction::Acquire => 0,
                AcquireAction::Preempt => 1,
                AcquireAction::PreemptAndAbort => 2,
            };
            (opcode::RESERVATION_ACQUIRE, with_kind(action, kind), 0)
        }
        ReservationCommand::Release(kind) => (opcode::RESERVATION_RELEASE, with_kind(0, kind), 0),
        ReservationCommand::Clear => (opcode::RESERVATION_RELEASE, 1, 0),
        ReservationCommand::Report { bytes, is_long } => {
            (opcode::RESERVATION_REPORT, bytes / 4 - 1, u32::from(is_long))
        }
    };
    (opcode, [first, second, 0, 0, 0, 0])
}

impl fmt::Display for HistoryFailure {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        writeln!(to, "no order of these calls gives their responses; those with * have no place after the others:")?;
        for (number, call) in self.calls.iter().enumerate() {
            let mark = if self.stuck.contains(&number) { '*' } else { ' ' };
            writeln!(to, "{mark} {call}")?;
        }
        write!(to, "drive before them: {}", self.drive)
    }
}
