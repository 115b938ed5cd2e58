//! NVMe controller of the simulation, in packets and times: doorbell, fetch, parse, data, completion queue entry,
//! interrupt. The [rules](super::rules) decide on each command.

mod commands;
mod key_value;
mod metadata;
mod namespace;
mod placement;
mod zones;

use std::collections::{BTreeMap, VecDeque};

use super::Role;
use super::commands::Command;
use super::host_lists::{HostCommandLists, PlacedHostCommand};
use super::rules::completion::{Done, refusal};
use super::rules::queues::{CompletionQueueRing, SubmissionQueueRing, wrapped};
use super::rules::reservation::Reservations;
use super::rules::{Limits, ShadowDoorbellPages, shadow};
use super::served::ServedHostCommand;
use super::spec::{self, COMPLETION_ENTRY_BYTES, SUBMISSION_ENTRY_BYTES, Status};
use crate::drive::Drive;
use crate::ledger::Stage;
use crate::media::keys::Key;
use crate::media::zones::ZonesLeft;
use crate::number::{index, length, low_u16};
use crate::protocol::halves::{self, PollNames};
use crate::protocol::ports::Ports;
use crate::protocol::reads::Reads;
use crate::protocol::real_hosts::{HostCommandForm, ServesHosts};
use crate::request::RequestId;
use crate::scheduler::{Event, Timer};
use crate::table::Table;
use crate::time::{Span, Time};
use crate::tlp::{Direction, Packet, Payload};
use crate::workload::FilledKeys;
use namespace::SimulatedNamespace;

/// Kinds of the controller's timers; the context of a timer is a command number or, for the interrupt, a queue.
mod timer {
    pub(super) const DATA_READY: u8 = 0;
    pub(super) const DATA_WANTED: u8 = 1;
    pub(super) const FINISHED: u8 = 2;
    pub(super) const MEDIA_WANTED: u8 = 3;
    pub(super) const INTERRUPT_DUE: u8 = 4;
    pub(super) const DURABILITY_WANTED: u8 = 5;
    pub(super) const KEY_FOUND: u8 = 6;
}

/// Size in bytes of the reads that fetch a write's data from host memory. Each read has tags of its own.
pub const PAYLOAD_READ_BYTES: u32 = 4096;

/// Queue pair with the controller's state: addresses and pointers of the queues, polling of the shadow doorbell, held
/// completions and interrupts.
#[derive(Clone, Debug)]
struct Queue {
    submission_base: u64,
    completion_base: u64,
    /// Pointers of the submission queue; the head is the next entry to be fetched.
    submissions: SubmissionQueueRing,
    /// Index of the next submission queue entry to be parsed, as completion queue entries report it (SQHD).
    head: u32,
    /// Pointers and phase tag of the completion queue.
    completions: CompletionQueueRing,
    /// Completions that wait until the host has read entries of the full completion queue.
    held: VecDeque<Done>,
    /// State of the controller's polling of the queue's shadow doorbell.
    watch: ShadowPollState,
    /// True if the host has written the doorbell register since the latest read of the shadow doorbell was sent. The
    /// value that this read returns may be older than the register's.
    register_written: bool,
    /// True if completions of the queue raise no interrupts (Create I/O Completion Queue, IEN).
    is_silent: bool,
    /// Number of completions that no interrupt has announced yet (interrupt coalescing).
    unannounced: u16,
    /// Latest time of the interrupt that announces the waiting completions; valid if there are any.
    announced_by: Time,
}

/// State of the controller's polling of a queue's shadow doorbell in host memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ShadowPollState {
    /// No polling: the host will write the doorbell register when the tail passes the event index.
    #[default]
    Armed,
    /// Polling: the controller reads the shadow doorbell again and again as long as it finds new commands.
    Reading,
    /// Last read: the event index asks the host to write the doorbell register, and the controller reads the shadow
    /// doorbell once more.
    Checking,
}

/// Command that the controller has fetched and whose completion queue entry it has not sent yet.
#[derive(Clone, Debug)]
struct ControllerCommand {
    command_id: u16,
    queue: u16,
    request: Option<RequestId>,
    /// Checked command, or the status with which it is refused.
    command: Result<Command, Status>,
    /// Number of events that must happen before data can be sent to the host: data ready, PRP list or SGL read.
    waits: u8,
    /// Number of bytes of the command's data and metadata that have not arrived from the host yet.
    bytes_missing: u32,
}

impl Default for ControllerCommand {
    /// Returns an empty slot for a command.
    fn default() -> ControllerCommand {
        let command = Err(Status::SUCCESS);
        ControllerCommand { command_id: 0, queue: 0, request: None, command, waits: 0, bytes_missing: 0 }
    }
}

impl ControllerCommand {
    /// Subtracts data that has arrived from the host from the bytes that are missing. Panics if more arrives than was
    /// requested.
    #[inline(always)]
    fn subtract_arrived_data(&mut self, bytes: u32) {
        let left = self.bytes_missing.checked_sub(bytes);
        self.bytes_missing = left.expect("no more data of a command arrives than was asked for");
    }
}

/// Fetch in flight of submission queue entries: queue, first entry and number of entries.
#[derive(Clone, Copy, Debug)]
struct Fetch {
    queue: u16,
    first: u32,
    count: u32,
}

/// NVMe controller of the simulation: fetches commands, moves their data over the link and posts their completions.
#[derive(Clone, Debug)]
pub struct Controller {
    queues: Vec<Queue>,
    commands: Table<ControllerCommand>,
    fetches: Table<Fetch>,
    /// Reads of host memory that the controller has sent or that wait for tags.
    pub reads: Reads,
    parser_free_at: Time,
    parse: Span,
    fetch_entries: u32,
    interrupts: bool,
    coalescing_entries: u16,
    coalescing: Span,
    shadow: Option<ShadowDoorbellPages>,
    /// Lists of ranges or placement identifiers of commands in progress, as far as they have been read from host
    /// memory, by internal command number.
    ranges: BTreeMap<u32, Vec<u8>>,
    /// Empty buffers for lists of ranges, kept so that their memory is used again.
    spare_lists: Vec<Vec<u8>>,
    /// PRP lists, SGL segments and range lists of commands from real hosts.
    host_lists: HostCommandLists,
    /// True if the host reports how far it has consumed its completion queues, through doorbell registers or shadow
    /// doorbells.
    completion_doorbells: bool,
    limits: Box<Limits>,
    /// State that the kind of the namespace adds.
    namespace: SimulatedNamespace,
    /// Reservations by namespace; none until a host registers.
    reservations: BTreeMap<u32, Reservations>,
    limits_of_real_hosts: Box<Limits>,
    max_payload_bytes: u32,
    /// Number of commands completed since the start.
    pub commands_done: u64,
    /// Number of interrupt messages sent since the start.
    pub interrupts_sent: u64,
}

impl Controller {
    /// Returns a controller with its registers set as after initialisation, but without queues.
    pub fn new(drive: &Drive) -> Controller {
        Controller {
            queues: Vec::new(),
            commands: Table::default(),
            fetches: Table::default(),
            reads: Reads::at(&drive.link),
            parser_free_at: Time::ZERO,
            parse: drive.nvme.parse,
            fetch_entries: drive.nvme.fetch_entries.into(),
            interrupts: drive.nvme.interrupts,
            coalescing_entries: drive.nvme.coalescing_entries,
            coalescing: drive.nvme.coalescing,
            shadow: None,
            ranges: BTreeMap::new(),
            spare_lists: Vec::new(),
            host_lists: HostCommandLists::default(),
            completion_doorbells: drive.nvme.completion_doorbells,
            limits: Box::new(Limits::of(drive)),
            namespace: SimulatedNamespace::of(drive),
            reservations: BTreeMap::new(),
            limits_of_real_hosts: Box::new(Limits::of_real_hosts(drive)),
            max_payload_bytes: drive.data_payload_bytes(),
            commands_done: 0,
            interrupts_sent: 0,
        }
    }

    /// Turns shadow doorbells on, at these addresses in host memory, or off (Doorbell Buffer Config).
    pub fn set_shadow_doorbells(&mut self, shadow: Option<ShadowDoorbellPages>) {
        self.shadow = shadow;
    }

    /// Creates the next I/O queue pair, with these addresses in host memory and this number of entries (Create I/O
    /// Submission Queue and Create I/O Completion Queue).
    pub fn create_queue(&mut self, submission_base: u64, completion_base: u64, entries: u32) {
        self.queues.push(Queue {
            submission_base,
            completion_base,
            submissions: SubmissionQueueRing::new(entries),
            head: 0,
            completions: CompletionQueueRing::new(entries),
            held: VecDeque::new(),
            watch: ShadowPollState::Armed,
            register_written: false,
            is_silent: false,
            unannounced: 0,
            announced_by: Time::ZERO,
        });
    }

    /// Accepts a new submission queue tail from the host and fetches the new entries. Ignores a tail that is not the
    /// index of an entry.
    fn advance(&mut self, now: Time, queue: u16, tail: u32, ports: &mut Ports) {
        let this = &mut self.queues[usize::from(queue)];
        let mut slot = this.submissions.tail();
        if this.submissions.ring(tail).is_err() {
            return;
        }
        while slot != tail {
            ports.shared.requests.charge(ports.slots.bound(queue.into(), index(slot)), Stage::Doorbell, now);
            slot = wrapped(slot + 1, this.submissions.entries());
        }
        self.fetch(queue, ports);
    }

    /// Sends a read of a queue's shadow doorbell to host memory and sets the state of its polling. Does nothing without
    /// shadow doorbells.
    fn watch(&mut self, queue: u16, watch: ShadowPollState, ports: &mut Ports) {
        let Some(shadow) = self.shadow else { return };
        let this = &mut self.queues[usize::from(queue)];
        (this.watch, this.register_written) = (watch, false);
        let token = Role::SHADOW.token(queue.into());
        let packet = Packet::read(shadow.tail(u32::from(queue) + 1), 8, self.reads.request_bytes_max(), token);
        let behind_writes = watch == ShadowPollState::Checking;
        self.reads.request(Packet { behind_writes, ..packet }, ports.link, ports.shared);
    }

    /// Handles the value of a shadow doorbell that has been read: submission queue tail and completion queue head.
    /// Fetches new commands, and decides whether to read the shadow doorbell again.
    fn on_shadow_doorbell_read(&mut self, now: Time, packet: &Packet, payload: &Payload, ports: &mut Ports) {
        let queue = low_u16(packet.token.context);
        let this = &mut self.queues[usize::from(queue)];
        let words = payload.bytes().as_chunks::<4>().0;
        let (tail, head) = (u32::from_le_bytes(words[0]), u32::from_le_bytes(words[1]));
        // A controller that does not track the host's head may overwrite entries, so it never waits for the head.
        let minds_head = self.completion_doorbells;
        if tail >= this.submissions.entries() || (minds_head && this.completions.ring(head).is_err()) {
            this.watch = ShadowPollState::Armed;
            return;
        }
        let (moved, watch) = (tail != this.submissions.tail(), this.watch);
        let register_written = this.register_written;
        self.post_held_completions(queue, ports);
        if register_written {
            return self.watch(queue, ShadowPollState::Reading, ports);
        }
        match (moved, watch) {
            (true, _) => {
                self.advance(now, queue, tail, ports);
                self.watch(queue, ShadowPollState::Reading, ports);
            }
            (false, ShadowPollState::Reading) => self.request_doorbell_write(queue, tail, ports),
            // A queue with held-back completions must notice when the host consumes entries, so keep polling its shadow
            // doorbell.
            (false, _) if !self.queues[usize::from(queue)].held.is_empty() => {
                self.watch(queue, ShadowPollState::Checking, ports)
            }
            (false, _) => self.queues[usize::from(queue)].watch = ShadowPollState::Armed,
        }
    }

    /// Sets the event index, so that the host writes the doorbell register for its next entry, and reads the shadow
    /// doorbell once more.
    fn request_doorbell_write(&mut self, queue: u16, tail: u32, ports: &mut Ports) {
        let Some(shadow) = self.shadow else { return };
        let token = Role::EVENT_INDEX.token(queue.into());
        ports.link.write(
            Direction::Up,
            shadow.tail_event_index_address(u32::from(queue) + 1),
            &tail.to_le_bytes(),
            token,
            ports.shared,
        );
        self.watch(queue, ShadowPollState::Checking, ports);
    }

    /// Sends the reads that fetch the new entries of a submission queue.
    fn fetch(&mut self, queue: u16, ports: &mut Ports) {
        let this = &mut self.queues[usize::from(queue)];
        while let Some((first, count)) = this.submissions.take(self.fetch_entries) {
            let context = self.fetches.insert(Fetch { queue, first, count });
            let address = this.submission_base + u64::from(first) * length(SUBMISSION_ENTRY_BYTES);
            let token = Role::FETCH.token(context);
            let bytes = count * SUBMISSION_ENTRY_BYTES as u32;
            self.reads.request(
                Packet::read(address, bytes, self.reads.request_bytes_max(), token),
                ports.link,
                ports.shared,
            );
        }
    }

    /// Handles submission queue entries that have been fetched. In a drive with zones, entries that arrive before
    /// earlier ones wait for them.
    fn on_entries_fetched(&mut self, now: Time, packet: &Packet, payload: &Payload, ports: &mut Ports) {
        let fetch = self.fetches.take(packet.token.context);
        let head = self.queues[usize::from(fetch.queue)].head;
        if !self.namespace.accepts_now(fetch, head, payload.bytes()) {
            return;
        }
        self.accept_entries(now, fetch, payload.bytes(), ports);
        while let Some((fetch, bytes)) =
            self.namespace.take_early(fetch.queue, self.queues[usize::from(fetch.queue)].head)
        {
            self.accept_entries(now, fetch, &bytes, ports);
        }
    }

    fn accept_entries(&mut self, now: Time, fetch: Fetch, bytes: &[u8], ports: &mut Ports) {
        let entries = self.queues[usize::from(fetch.queue)].submissions.entries();
        for place in 0..fetch.count {
            let slot = wrapped(fetch.first + place, entries);
            let request = ports.slots.bound(fetch.queue.into(), index(slot));
            ports.shared.requests.charge(request, Stage::Fetch, now);
            ports.shared.requests.accepted = request;
            let bytes = &bytes.as_chunks().0[index(place)];
            match self.host_lists.fetch(fetch.queue, slot) {
                None => _ = self.accept(now, bytes, (fetch.queue, request), ports),
                Some(placed) => self.accept_host_command(now, bytes, placed, (fetch.queue, request), ports),
            }
        }
        self.queues[usize::from(fetch.queue)].head = wrapped(fetch.first + fetch.count, entries);
    }

    /// Ends a command: frees its number and posts its completion queue entry, or holds the entry back if the completion
    /// queue is full. Strict ordering on the link keeps the entry after the command's data.
    #[inline(always)]
    fn finish(&mut self, id: u32, ports: &mut Ports) {
        self.commands.vacate(id);
        self.host_lists.forget(id);
        let ended = self.commands[index(id)].command.as_ref().ok();
        let result = self.namespace.end_command(id, ended, self.limits.block_shift);
        let ControllerCommand { command_id, queue: number, command, .. } = &self.commands[index(id)];
        self.commands_done += 1;
        let queue = &self.queues[usize::from(*number)];
        let done = Done {
            command_id: *command_id,
            submission_queue: number.wrapping_add(1),
            submission_head: low_u16(queue.head),
            result,
            status: command.as_ref().err().map_or(Status::SUCCESS, |status| refusal(*status)),
        };
        let number = *number;
        match queue.completions.is_full() && self.completion_doorbells {
            true => self.hold_completion(number, done, ports),
            false => self.post(number, done, ports),
        }
    }

    /// Writes a completion queue entry to host memory, and sends an interrupt at once or after coalescing if the queue
    /// uses interrupts.
    #[inline(always)]
    fn post(&mut self, number: u16, done: Done, ports: &mut Ports) {
        let queue = &mut self.queues[usize::from(number)];
        let (slot, phase) = queue.completions.post();
        let address = queue.completion_base + u64::from(slot) * length(COMPLETION_ENTRY_BYTES);
        let token = Role::COMPLETION.token(number.into());
        let is_announced = self.interrupts && !queue.is_silent;
        ports.link.write(Direction::Up, address, &done.entry(phase).encode(), token, ports.shared);
        match is_announced {
            true if self.coalescing_entries > 1 => self.coalesce_interrupt(number, ports),
            true => self.interrupt(number, ports),
            false => {}
        }
    }

    /// Sends the interrupt message of a queue, which announces all of its completions so far.
    fn interrupt(&mut self, number: u16, ports: &mut Ports) {
        self.queues[usize::from(number)].unannounced = 0;
        self.interrupts_sent += 1;
        ports.link.interrupt(Role::INTERRUPT.token(number.into()), ports.shared);
    }

    /// Counts a completion for interrupt coalescing. Sends the interrupt at once if enough completions wait, or sets a
    /// timer with the first of them.
    fn coalesce_interrupt(&mut self, number: u16, ports: &mut Ports) {
        let queue = &mut self.queues[usize::from(number)];
        queue.unannounced += 1;
        if queue.unannounced >= self.coalescing_entries {
            return self.interrupt(number, ports);
        }
        if queue.unannounced == 1 {
            let scheduler = &mut ports.shared.scheduler;
            queue.announced_by = scheduler.now() + self.coalescing;
            let due = Event::Controller { kind: timer::INTERRUPT_DUE, context: number.into() };
            scheduler.at(queue.announced_by, due);
        }
    }

    /// Sends the interrupt of a queue when its first unannounced completion has waited for the aggregation time. Does
    /// nothing if an interrupt was sent in the meantime.
    fn on_interrupt_due(&mut self, now: Time, number: u16, ports: &mut Ports) {
        let queue = &self.queues[usize::from(number)];
        if queue.unannounced > 0 && queue.announced_by == now {
            self.interrupt(number, ports);
        }
    }

    /// Holds a completion back until the host has made room in the completion queue. With shadow doorbells, starts to
    /// read the host's head.
    fn hold_completion(&mut self, number: u16, done: Done, ports: &mut Ports) {
        let queue = &mut self.queues[usize::from(number)];
        queue.held.push_back(done);
        if self.shadow.is_some() && queue.watch == ShadowPollState::Armed {
            self.watch(number, ShadowPollState::Checking, ports);
        }
    }

    /// Posts the completions of a queue that were held back, as far as the completion queue has room.
    fn post_held_completions(&mut self, number: u16, ports: &mut Ports) {
        while !self.queues[usize::from(number)].completions.is_full() {
            let Some(done) = self.queues[usize::from(number)].held.pop_front() else { return };
            self.post(number, done, ports);
        }
    }
}

impl halves::Controller for Controller {
    /// Handles a doorbell write. Values that are not allowed are ignored, as a controller may do (NVMe over PCIe
    /// Transport Specification 1.0: the host must not write them).
    fn on_register_write(&mut self, now: Time, address: u64, value: u32, ports: &mut Ports) {
        let Some((number, completion)) = spec::doorbell(address) else { return };
        let Some(queue) = number.checked_sub(1).filter(|&q| (q as usize) < self.queues.len()) else { return };
        let queue = low_u16(queue);
        let this = &mut self.queues[usize::from(queue)];
        if completion {
            if this.completions.ring(value).is_ok() {
                self.post_held_completions(queue, ports);
            }
            return;
        }
        let (known, entries) = (this.submissions.tail(), this.submissions.entries());
        if value >= entries {
            return;
        }
        this.register_written = true;
        if self.shadow.is_none() || shadow::is_newer_tail(value, known, entries) {
            self.advance(now, queue, value, ports);
        }
        match self.queues[usize::from(queue)].watch {
            ShadowPollState::Armed if self.shadow.is_none() => {}
            ShadowPollState::Armed => self.watch(queue, ShadowPollState::Reading, ports),
            // The host has reacted to the event index. Set it again once the shadow doorbell shows no new entries.
            _ => self.queues[usize::from(queue)].watch = ShadowPollState::Reading,
        }
    }

    fn on_answer(&mut self, now: Time, packet: &Packet, payload: &Payload, ports: &mut Ports) {
        self.reads.answered(packet.bytes, ports.link, ports.shared);
        match Role::of(packet) {
            Role::FETCH => self.on_entries_fetched(now, packet, payload, ports),
            Role::PAGE_LIST => self.on_page_list(now, packet, payload, ports),
            Role::PAYLOAD => self.on_payload_arrived(now, packet, ports),
            Role::METADATA_READ => self.on_metadata(now, packet, ports),
            Role::RANGES => self.on_list_part(now, packet, payload, ports),
            Role::SHADOW => self.on_shadow_doorbell_read(now, packet, payload, ports),
            other => unreachable!("the controller has not read in the role {other:?}"),
        }
    }

    #[inline(always)]
    fn on_timer(&mut self, now: Time, timer: Timer, ports: &mut Ports) {
        match timer.kind {
            timer::DATA_READY => self.on_ready(now, timer.context, ports),
            timer::DATA_WANTED => self.request_command_data(timer.context, ports),
            timer::FINISHED => self.finish(timer.context, ports),
            timer::INTERRUPT_DUE => self.on_interrupt_due(now, low_u16(timer.context), ports),
            timer::MEDIA_WANTED => self.use_media(now, timer.context, ports),
            timer::DURABILITY_WANTED => self.flush(now, timer.context, ports),
            timer::KEY_FOUND => self.on_key_found(now, timer.context, ports),
            other => unreachable!("the controller has no timer {other}"),
        }
    }

    fn spare_interrupts(&mut self, queue: u16) {
        self.queues[usize::from(queue)].is_silent = true;
    }

    fn fill_keys(&mut self, jobs: &[FilledKeys], ports: &mut Ports) {
        self.namespace.fill_for(jobs, ports);
    }

    fn packet_name(&self, packet: &Packet) -> &'static str {
        Role::of(packet).name(packet.kind).unwrap_or("data")
    }

    fn poll_names(&self, packet: &Packet) -> Option<PollNames> {
        (Role::of(packet) == Role::FETCH).then_some(PollNames { read: "fetch command", empty: None })
    }

    fn zones_left(&self, loses_power: bool) -> Option<ZonesLeft> {
        self.namespace.zones_left(loses_power)
    }

    fn take_over_zones(&mut self, left: ZonesLeft) {
        self.namespace.take_over_zones(left);
    }

    fn real_hosts(&mut self) -> Option<&mut dyn ServesHosts> {
        Some(self)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut counters = vec![("commands", self.commands_done), ("interrupts", self.interrupts_sent)];
        counters.extend(self.namespace.counters());
        counters
    }
}

impl ServesHosts for Controller {
    /// Switches the controller to commands of real hosts, with their limits and SGLs. Ignores completion queue heads,
    /// zone states and shadow doorbells, for which the server of the drive accounts itself.
    fn begin(&mut self) {
        *self.limits = *self.limits_of_real_hosts;
        self.completion_doorbells = false;
        self.namespace.leave_zone_states_to_server();
        self.shadow = None;
    }

    fn keep_zones(&mut self, drive: &Drive) {
        self.namespace.keep_zones(drive);
    }

    fn hold_keys(&mut self, values: &mut dyn Iterator<Item = (Key, u32)>, ports: &mut Ports) {
        self.namespace.restore_stored_values(values, ports);
    }

    fn restart_queue(&mut self, number: u16, entries: u32, has_interrupts: bool) {
        let queue = &mut self.queues[usize::from(number)];
        queue.is_silent = !has_interrupts;
        (queue.submissions, queue.completions) = (SubmissionQueueRing::new(entries), CompletionQueueRing::new(entries));
        queue.head = 0;
    }

    fn give_command(&mut self, number: u16, slot: u32, form: HostCommandForm) {
        let placed = match form {
            HostCommandForm::Bytes { lists, .. } => lists.map(|lists| PlacedHostCommand::Lists(lists.to_vec())),
            HostCommandForm::Decoded(decoded) => Some(PlacedHostCommand::Served(ServedHostCommand::of(decoded))),
        };
        self.host_lists.place(number, slot, placed);
    }
}
