//! Open drive in virtual time: the caller submits operations, advances the time, and takes completions.

use std::fmt;
use std::sync::Arc;

use phaselink_core::config::FaultAction;
use phaselink_core::drive;
use phaselink_core::engine::{Completed, Engine, Input};
use phaselink_core::number::{index, length, low_u16, low_u32, wide_index};
use phaselink_core::request::Io;
use phaselink_core::time::Time;
use phaselink_core::workload::Limits;

use crate::misuse::Misuse;
use crate::operation::{Completion, Operation, OperationKind, Status, Ticket};
use crate::overlap::ChangesInFlight;
use crate::power::{CutState, ImageOrigin, LegalImage, Survival};
use crate::slots::{SlotState, Slots};
use crate::store::Store;
use crate::summary::{self, OperationSummary};
use crate::tracker::Tracker;

/// Maximum number of queues of an embedded machine, over all its drives.
const QUEUES_MAX: u32 = 1024;

/// Point of the modelled machine at which operations are submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attachment {
    /// Operations are submitted to the driver: the embedding program is the host's software.
    Driver,
    /// Operations are submitted by a simulated application, through the simulated host software.
    Application,
}

/// Options of an open drive that its description file does not contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) seed: u64,
    pub(crate) keeps_data: bool,
    pub(crate) keeps_stages: bool,
    pub(crate) follows_power: bool,
    pub(crate) attachment: Attachment,
}

impl Default for Options {
    fn default() -> Options {
        let attachment = Attachment::Driver;
        Options { seed: 1, keeps_data: true, keeps_stages: false, follows_power: false, attachment }
    }
}

/// Modelled drive in virtual time, with the data that it holds.
pub struct Drive {
    state: State,
}

/// Complete state of a drive at an instant, to which [`Drive::restore`] returns the drive.
#[derive(Clone)]
pub struct Snapshot {
    state: State,
}

/// Complete state of an open drive.
#[derive(Clone)]
struct State {
    drive: Arc<drive::Drive>,
    options: Options,
    limits: Limits,
    stack: Arc<[String]>,
    engine: Engine,
    now: Time,
    slots: Slots,
    changes: ChangesInFlight,
    /// Data of each drive of the machine.
    stores: Vec<Store>,
    tracker: Option<Tracker>,
    /// Length in bytes of the largest read or write so far.
    largest: usize,
    /// True if a durable write needs a flush after it.
    is_volatile: bool,
    /// Number of queues of each drive of the machine.
    queues: u16,
    /// Number of queues for which the machine has a thread: all up to the last one used.
    threads: u16,
}

impl Drive {
    pub(crate) fn new(drive: drive::Drive, options: Options) -> Drive {
        let drive = drive.preconditioned_for(&[]).into_owned();
        let drive = if options.attachment == Attachment::Driver { drive.polled() } else { drive };
        let limits = drive.limits();
        let threads = limits.queue_pairs.max(drive.host.processors().into());
        let queues = low_u16(threads.clamp(1, QUEUES_MAX / limits.drives));
        let mut engine = match options.attachment {
            Attachment::Driver => Engine::for_driver_callers(&drive, options.seed),
            Attachment::Application => Engine::new(&drive, options.seed),
        };
        if options.keeps_stages {
            engine.keep_completed_stages();
        }
        let state = State {
            stack: drive.software_stage_names().into(),
            now: Time::ZERO,
            slots: Slots::default(),
            changes: ChangesInFlight::default(),
            stores: vec![Store::default(); index(limits.drives)],
            tracker: options.follows_power.then(|| Tracker::new(&drive)),
            largest: 0,
            is_volatile: limits.is_volatile,
            drive: Arc::new(drive),
            options,
            limits,
            engine,
            queues,
            threads: 0,
        };
        Drive { state }
    }

    /// Returns the name of the drive.
    pub fn name(&self) -> &str {
        &self.state.drive.name
    }

    /// Returns the number of drives of the machine.
    pub fn drives(&self) -> u16 {
        low_u16(self.state.limits.drives)
    }

    /// Returns the capacity in bytes of each drive of the machine.
    pub fn capacity_bytes(&self) -> u64 {
        self.state.limits.capacity_bytes
    }

    /// Returns the block size in bytes. Offsets and lengths of all operations must be multiples of it.
    pub fn block_bytes(&self) -> u32 {
        self.state.limits.block_bytes.max(self.state.limits.write_block_bytes)
    }

    /// Returns the number of queues. Each is used by a thread on a core of its own; queue i uses the drive's queue pair
    /// i, modulo their number. On a machine with several drives, the first drive's queues come first, then those of the
    /// second, and so on.
    pub fn queues(&self) -> u16 {
        self.state.queues * low_u16(self.state.limits.drives)
    }

    /// True if the drive has a command for this kind of operation.
    pub fn supports(&self, kind: OperationKind) -> bool {
        self.state.limits.supports(kind.op())
    }

    /// True if the drive loses its write buffer in a power cut: a completed write is then durable only if it was
    /// submitted as durable (FUA), or once a later flush has completed.
    pub fn is_volatile(&self) -> bool {
        self.state.is_volatile
    }

    /// Returns the virtual time that the drive has reached.
    pub fn now(&self) -> Time {
        self.state.now
    }

    /// Returns the number of operations in flight.
    pub fn in_flight(&self) -> usize {
        self.state.slots.in_flight()
    }

    /// Returns the earliest instant at which an operation may complete, or none if no operation is in flight. Advancing
    /// to it is always safe, and often completes nothing yet.
    pub fn next_at(&self) -> Option<Time> {
        if self.in_flight() == 0 { None } else { self.state.engine.next_at() }
    }

    /// Submits an operation to a queue at `now`, to which the drive advances first.
    ///
    /// # Errors
    ///
    /// If `now` lies before the drive's time, the queue does not exist, or the drive cannot execute the operation.
    pub fn submit(&mut self, now: Time, queue: u16, operation: Operation) -> Result<Ticket, Misuse> {
        self.check(now, queue, &operation)?;
        self.state.advance_to(now);
        Ok(self.state.submit(queue, &operation))
    }

    /// Checks that the drive would accept an operation at `now`, without changing anything.
    ///
    /// # Errors
    ///
    /// If `now` lies before the drive's time, the queue does not exist, or the drive cannot execute the operation.
    pub fn check(&self, now: Time, queue: u16, operation: &Operation) -> Result<(), Misuse> {
        self.state.check_instant(now)?;
        self.state.check(queue, operation)
    }

    /// Advances the drive to an instant. Completions up to then can be taken afterwards.
    ///
    /// # Errors
    ///
    /// If `to` lies before the drive's time, or at least 106 days after its start.
    pub fn advance(&mut self, to: Time) -> Result<(), Misuse> {
        self.state.check_instant(to)?;
        self.state.advance_to(to);
        Ok(())
    }

    /// Advances the drive to the next completion of an operation, or to `to` if none completes until then. Returns true
    /// if an operation has completed. [`Time::NEVER`] sets no end: if nothing completes, the drive's time does not
    /// change.
    ///
    /// # Errors
    ///
    /// If `to` lies before the drive's time, or at least 106 days after its start.
    pub fn advance_to_completion(&mut self, to: Time) -> Result<bool, Misuse> {
        if to != Time::NEVER {
            self.state.check_instant(to)?;
        }
        Ok(self.state.advance_to_completion(to))
    }

    /// Takes the earliest completion that has not been taken, or returns none if there is none.
    pub fn next_completion(&mut self) -> Option<Completion<'_>> {
        let ticket_place = self.state.slots.take_next()?;
        Some(self.state.completion(ticket_place))
    }

    /// Takes the completion of the operation with this ticket.
    ///
    /// # Errors
    ///
    /// If the operation has not completed, or its completion has been taken.
    pub fn take(&mut self, ticket: Ticket) -> Result<Completion<'_>, Misuse> {
        let place = self.state.slots.place(ticket)?;
        if self.state.slots.get(place).state != SlotState::Completed {
            return Err(Misuse::NotComplete(ticket));
        }
        self.state.slots.take(place);
        Ok(self.state.completion(place))
    }

    /// Advances the drive until the operation with this ticket has completed, and takes its completion. Other
    /// completions can be taken later.
    ///
    /// # Errors
    ///
    /// If the ticket names no operation, or the operation never completes, because an injected fault has lost its
    /// completion. The drive has then advanced past all other completions, which can be taken later.
    pub fn wait(&mut self, ticket: Ticket) -> Result<Completion<'_>, Misuse> {
        let place = self.state.slots.place(ticket)?;
        while self.state.slots.get(place).state != SlotState::Completed {
            if !self.state.advance_to_completion(Time::NEVER) {
                return Err(Misuse::NeverCompletes(ticket));
            }
        }
        self.take(ticket)
    }

    /// Returns the complete state of the drive, with its data. Pages of data are shared with the drive until either
    /// changes them.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { state: self.state.clone() }
    }

    /// Returns the drive to the state of a snapshot, with its time and its operations in flight. Tickets of operations
    /// submitted after the snapshot become invalid.
    ///
    /// # Errors
    ///
    /// If the snapshot's drive was opened from another description, or with another seed or other options.
    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<(), Misuse> {
        if !self.state.is_opened_like(&snapshot.state) {
            let [snapshot, drive] = [&snapshot.state, &self.state].map(|state| state.drive.name.clone());
            return Err(Misuse::ForeignSnapshot { snapshot, drive });
        }
        self.state.clone_from(&snapshot.state);
        Ok(())
    }

    /// Adds a fault rule, whose times and requests count from now. `rule` is a line of a timeline, such as `at=2s
    /// for=500ms stall`, or a rule of a drive file's `[[faults]]` in one line, such as `action = "error", operation =
    /// "read", every = 4`.
    ///
    /// # Errors
    ///
    /// If the rule does not apply to this drive, or cuts its power, for which there is [`Drive::cut_power`].
    pub fn inject_fault(&mut self, rule: &str) -> Result<(), Misuse> {
        let State { drive, engine, options, .. } = &mut self.state;
        if drive.drives > 1 {
            return Err(Misuse::SeveralDrives);
        }
        let fault = drive.fault_from_line("fault", rule).map_err(|problems| Misuse::Fault(problems.to_string()))?;
        if fault.action.is_network_connection_effect() {
            return Err(Misuse::Fault(format!(
                "an embedded drive has no network connection for {}",
                fault.action.name()
            )));
        }
        if fault.action == FaultAction::PowerCut {
            return Err(Misuse::Fault(String::from(
                "a rule cannot cut the power; call cut_power at the instant of the cut",
            )));
        }
        engine.add_fault(drive, &fault, options.seed);
        Ok(())
    }

    /// Cuts the drive's power at `now`, and restarts it at once with the data that `survival` selects. Operations in
    /// flight complete with [`Status::PowerLost`].
    ///
    /// # Errors
    ///
    /// If the drive was not opened with power cuts, `now` lies before the drive's time, or the image does not belong to
    /// this drive at this time.
    pub fn cut_power(&mut self, now: Time, survival: Survival) -> Result<(), Misuse> {
        self.state.check_instant(now)?;
        if self.state.tracker.is_none() {
            return Err(Misuse::PowerNotFollowed);
        }
        if !matches!(survival, Survival::Image(_)) {
            self.state.advance_to(now);
            return self.state.cut_power(survival);
        }
        // The drive's possible images are known only at the instant of the cut, so try the cut on a copy first.
        let mut state = self.state.clone();
        // At the drive's current instant, further operations may complete. The image was taken before them, so do not
        // advance.
        if now > self.now() {
            state.advance_to(now);
        }
        state.cut_power(survival)?;
        self.state = state;
        Ok(())
    }

    /// Returns up to `wanted` of the data states that a power cut at the drive's present time may leave. If there are
    /// more, states of every kind are drawn in turn, by `seed`.
    ///
    /// # Errors
    ///
    /// If the drive was not opened with power cuts.
    pub fn images(&self, wanted: usize, seed: u64) -> Result<Vec<LegalImage>, Misuse> {
        Ok(self.cut_state()?.images(wanted, seed))
    }

    /// Returns the data state with this [name](LegalImage::name), if a power cut at the drive's present time may leave
    /// it.
    ///
    /// # Errors
    ///
    /// If the drive was not opened with power cuts, or cannot be in this state now.
    pub fn image(&self, name: &str) -> Result<LegalImage, Misuse> {
        self.cut_state()?.image(name)
    }

    /// Returns the data state that a power cut at the drive's present time would leave with [`Survival::Drawn`] and
    /// this seed.
    ///
    /// # Errors
    ///
    /// If the drive was not opened with power cuts.
    pub fn drawn_image(&self, seed: u64) -> Result<LegalImage, Misuse> {
        Ok(self.cut_state()?.drawn(seed))
    }

    /// Replaces the drive's data by an image, of this drive or of a recording, so that an application can go on after a
    /// power cut. The call takes no virtual time, and all data is durable afterwards. The mapping of a flash drive's
    /// translation layer stays as it is.
    ///
    /// # Errors
    ///
    /// If operations are in flight, the drive holds no data, the machine has several drives, or the image has data
    /// beyond the drive's end.
    pub fn load_image(&mut self, image: &LegalImage) -> Result<(), Misuse> {
        let (in_flight, state) = (self.in_flight(), &mut self.state);
        let refused = |reason: String| Err(Misuse::CannotLoad(reason));
        if in_flight > 0 {
            return refused(format!(
                "{in_flight} operations are in flight; advance the drive past their completions first"
            ));
        }
        if !state.options.keeps_data || state.stores.len() > 1 {
            return refused("an image needs one drive that keeps data; open each drive by itself, with data".into());
        }
        let (bytes, capacity_bytes) = (image.bytes(), state.limits.capacity_bytes);
        if bytes.end() > capacity_bytes {
            let end = bytes.end();
            return refused(format!("the image has bytes up to {end}; the drive has {capacity_bytes} bytes"));
        }
        if let Some(tracker) = &mut state.tracker {
            tracker.load(bytes.clone());
        }
        state.stores[0] = bytes;
        Ok(())
    }

    fn cut_state(&self) -> Result<CutState, Misuse> {
        let tracker = self.state.tracker.as_ref().ok_or(Misuse::PowerNotFollowed)?;
        Ok(tracker.state(ImageOrigin::Drive { seed: self.state.options.seed, now: self.state.now }))
    }

    /// Reads the present data of one of the machine's drives, without an operation and without taking virtual time.
    ///
    /// # Errors
    ///
    /// If the range ends beyond the drive, or there is no such drive.
    pub fn peek(&self, drive: u16, offset: u64, into: &mut [u8]) -> Result<(), Misuse> {
        let drives = self.state.stores.len() as u16;
        let store = self.state.stores.get(usize::from(drive)).ok_or(Misuse::NoSuchDrive { drive, drives })?;
        self.state.check_range(offset, length(into.len()))?;
        store.read(offset, into);
        Ok(())
    }

    /// Returns a summary for each kind of command, over all commands completed since the drive was opened.
    pub fn summary(&self) -> Vec<OperationSummary> {
        summary::of(&self.state.engine.outcome(&self.state.drive, self.state.options.seed), &self.state.stack)
    }
}

/// Returns true if a number is a multiple of the block size. Nearly all block sizes are powers of two, for which no
/// division is needed.
fn is_aligned(number: u64, block_bytes: u32) -> bool {
    let block_bytes = u64::from(block_bytes);
    match block_bytes.is_power_of_two() {
        true => number & (block_bytes - 1) == 0,
        false => number.is_multiple_of(block_bytes),
    }
}

impl fmt::Debug for Drive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.describe("Drive", f)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.describe("Snapshot", f)
    }
}

impl State {
    /// Writes what distinguishes drives: name, time, operations in flight, and recorded requests. The whole state would
    /// be tens of thousands of characters.
    fn describe(&self, what: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut description = f.debug_struct(what);
        description.field("name", &self.drive.name).field("now", &self.now).field("in_flight", &self.slots.in_flight());
        if let Some(tracker) = &self.tracker {
            description.field("recorded_requests", &tracker.requests());
        }
        description.finish_non_exhaustive()
    }

    /// Returns true if both drives were opened from the same description, with the same seed and options.
    fn is_opened_like(&self, other: &State) -> bool {
        let is_same = Arc::ptr_eq(&self.drive, &other.drive);
        // After a restore, two drives share one description. Before that, compare the descriptions.
        self.options == other.options && (is_same || self.drive == other.drive)
    }

    fn check_instant(&self, at: Time) -> Result<(), Misuse> {
        if at < self.now {
            return Err(Misuse::TimeBackwards { at, now: self.now });
        }
        if at >= Time::NEVER { Err(Misuse::TimeTooLate { at }) } else { Ok(()) }
    }

    /// Checks that the drive can execute an operation of a queue.
    fn check(&self, queue: u16, operation: &Operation) -> Result<(), Misuse> {
        let queues = self.queues * low_u16(self.limits.drives);
        if queue >= queues {
            return Err(Misuse::NoSuchQueue { queue, queues });
        }
        let Operation { kind, offset, bytes, is_durable, data } = *operation;
        let needs_flush = is_durable && kind != OperationKind::Flush && self.is_volatile;
        for needed in [Some(kind), needs_flush.then_some(OperationKind::Flush)].into_iter().flatten() {
            self.check_kind(needed)?;
        }
        if kind == OperationKind::Flush {
            return Ok(());
        }
        if bytes > u64::from(u32::MAX) {
            return Err(Misuse::TooLong { bytes, bytes_max: u32::MAX.into() });
        }
        let block_bytes = match kind {
            OperationKind::Read => self.limits.block_bytes,
            _ => self.limits.block_bytes.max(self.limits.write_block_bytes),
        };
        if bytes == 0 || !is_aligned(offset | bytes, block_bytes) {
            return Err(Misuse::Unaligned { offset, bytes, block_bytes });
        }
        self.check_range(offset, bytes)?;
        if kind == OperationKind::Write && data.is_none() && self.options.keeps_data {
            return Err(Misuse::NoData);
        }
        Ok(())
    }

    fn check_kind(&self, kind: OperationKind) -> Result<(), Misuse> {
        if self.limits.supports(kind.op()) {
            return Ok(());
        }
        let reason =
            self.drive.check_supports_operation(kind.op()).err().map_or(String::new(), |problem| problem.to_string());
        Err(Misuse::Unsupported { kind, reason })
    }

    fn check_range(&self, offset: u64, bytes: u64) -> Result<(), Misuse> {
        Misuse::check_range(offset, bytes, self.limits.capacity_bytes)
    }

    fn submit(&mut self, queue: u16, operation: &Operation) -> Ticket {
        let (drive, thread) = match queue < self.queues {
            true => (0, queue),
            false => (queue / self.queues, queue % self.queues),
        };
        while self.threads <= thread {
            self.add_thread();
        }
        let place = self.slots.occupy();
        let in_flight = self.slots.in_flight();
        let slot = self.slots.get_mut(place);
        (slot.kind, slot.offset, slot.bytes) = (operation.kind, operation.offset, operation.bytes);
        (slot.drive, slot.thread) = (drive, thread);
        slot.is_durable = operation.is_durable && self.is_volatile && operation.kind != OperationKind::Flush;
        slot.submitted = self.now;
        slot.data.clear();
        if self.options.keeps_data {
            // Reserve space for the largest operation so far in every slot, so that later operations allocate nothing.
            let has_bytes = matches!(operation.kind, OperationKind::Read | OperationKind::Write);
            self.largest = self.largest.max(if has_bytes { wide_index(operation.bytes) } else { 0 });
            slot.data.reserve(self.largest);
            slot.data.extend_from_slice(operation.data.unwrap_or_default());
            slot.covered.clear();
            self.changes.make_room(in_flight);
            if operation.kind.is_change() {
                self.changes.submit(place, drive, operation.offset..operation.offset + operation.bytes);
            }
        }
        if let Some(tracker) = &mut self.tracker {
            slot.recorded = tracker.on_arrival(operation);
        }
        self.inject(self.now, place, operation.kind);
        self.slots.ticket(place)
    }

    /// Adds a thread for the next queue to the machine.
    #[cold]
    fn add_thread(&mut self) {
        let iodepth = self.limits.queue_capacity();
        let thread = match self.options.attachment {
            Attachment::Driver => self.engine.add_driver_caller(iodepth),
            Attachment::Application => self.engine.add_client(iodepth),
        };
        assert_eq!(thread, self.threads, "the threads of the machine are those of the queues");
        self.threads += 1;
    }

    /// Submits the command of the operation in slot `place` to the machine at `at`.
    fn inject(&mut self, at: Time, place: u32, kind: OperationKind) {
        let slot = self.slots.get(place);
        let io = match kind {
            OperationKind::Flush => Io::flush(),
            _ => Io { op: kind.op(), offset: slot.offset, bytes: low_u32(slot.bytes) },
        };
        let (thread, drive) = (slot.thread, slot.drive);
        let input = match self.options.attachment {
            Attachment::Driver => Input::DriverRequest { thread, drive, io, token: place },
            Attachment::Application => Input::Request { thread, io, token: place },
        };
        self.engine.inject(at, input);
    }

    #[inline]
    fn advance_to(&mut self, to: Time) {
        match self.engine.has_due_work(to) {
            true => self.handle_to(to),
            false => self.now = to,
        }
    }

    /// Advances to `to` and handles all events until then.
    #[inline(never)]
    fn handle_to(&mut self, to: Time) {
        while self.advance_to_completion(to) {}
    }

    /// Advances to the next completion of an operation, or to `to`. Returns true if an operation has completed.
    fn advance_to_completion(&mut self, to: Time) -> bool {
        loop {
            let (_, done) = self.engine.run_events_until_completed(to, u64::MAX);
            let Some(done) = done else {
                if to < Time::NEVER {
                    self.now = to;
                }
                return false;
            };
            self.now = done.at;
            if self.on_command_completed(&done) {
                return true;
            }
        }
    }

    /// Handles the completion of a command. Returns true if its operation has completed; a durable write may need a
    /// flush first.
    fn on_command_completed(&mut self, done: &Completed) -> bool {
        let place = done.token;
        let stages = self.engine.take_completed_stages();
        let slot = self.slots.get_mut(place);
        let was_flushing = slot.state == SlotState::Flushing;
        if let Some(stages) = stages {
            match &mut slot.stages {
                Some(kept) if was_flushing => kept.add(&stages),
                Some(kept) => **kept = stages,
                kept => *kept = Some(Box::new(stages)),
            }
        }
        let status = Status::of(done.error);
        if status.is_success() && !was_flushing {
            self.execute(place);
            if self.slots.get(place).is_durable {
                self.slots.get_mut(place).state = SlotState::Flushing;
                self.inject(done.at, place, OperationKind::Flush);
                return false;
            }
        }
        if let Some(tracker) = &mut self.tracker {
            let recorded = self.slots.get(place).recorded;
            match (status.is_success(), was_flushing) {
                (true, _) => tracker.on_completion(recorded),
                (false, true) => tracker.on_completion_without_flush(recorded),
                (false, false) => tracker.on_failure(recorded),
            }
        }
        if !status.is_success() && !was_flushing {
            self.changes.fail(place);
        }
        self.slots.complete(place, done.at, status);
        true
    }

    /// Executes an operation on the data when its command completes. Where a change that was submitted later has
    /// already taken effect, it changes nothing. So the order of submission decides, as in the record for power cuts.
    fn execute(&mut self, place: u32) {
        if !self.options.keeps_data {
            return;
        }
        let State { slots, changes, stores, .. } = self;
        if slots.get(place).kind.is_change() {
            changes.land(place, |older, range| slots.get_mut(older).covered.add(range));
        }
        let slot = slots.get_mut(place);
        let store = &mut stores[usize::from(slot.drive)];
        if slot.kind == OperationKind::Read {
            slot.data.resize(wide_index(slot.bytes), 0);
            store.read(slot.offset, &mut slot.data);
        }
        if slot.kind.is_change() {
            let (offset, data) = (slot.offset, &slot.data);
            slot.covered.for_each_gap(offset..offset + slot.bytes, |gap| match slot.kind {
                OperationKind::Write => {
                    store.write(gap.start, &data[wide_index(gap.start - offset)..][..wide_index(gap.end - gap.start)])
                }
                _ => store.zero(gap.start, gap.end - gap.start),
            });
        }
    }

    /// Returns the completion of the operation in a slot whose completion has just been taken.
    fn completion(&self, place: u32) -> Completion<'_> {
        let slot = self.slots.get(place);
        let has_data = slot.kind == OperationKind::Read && slot.status.is_success();
        let has_stages = self.options.keeps_stages && slot.status != Status::PowerLost;
        Completion {
            ticket: self.slots.taken_ticket(place),
            submitted: slot.submitted,
            at: slot.at,
            status: slot.status,
            data: if has_data { &slot.data } else { &[] },
            stages: slot.stages.as_deref().filter(|_| has_stages),
            stack: &self.stack,
        }
    }

    fn cut_power(&mut self, survival: Survival) -> Result<(), Misuse> {
        let now = self.now;
        let survived = self.tracker.as_mut().and_then(|tracker| tracker.cut(survival));
        self.stores[0] = survived.ok_or(Misuse::ForeignImage)?;
        self.engine.lose_power(now);
        for place in self.slots.flying() {
            self.slots.complete(place, now, Status::PowerLost);
        }
        self.changes.clear();
        self.engine.restart(now, &self.drive, self.options.seed);
        Ok(())
    }
}
