//! Set of queues that one thread owns: doorbells, fetching of commands, and completion queue entries. What happens to a
//! command between these is in [`execution`](super::execution).
//!
//! A controller has one set for each device thread. A submission queue is in the same set as its completion queue, so
//! that the thread that owns a set needs no other set to serve a command, and writes no cache line that another thread
//! reads. The [controller](super::Controller) holds a set until it lends the set to a device thread.

use std::collections::BTreeMap;
use std::ops::Range;

use phaselink_client::chunk::AHEAD_BYTES;
use phaselink_core::number::{index, low_u8, low_u16};
use phaselink_core::protocol::nvme::commands::opcode;
use phaselink_core::protocol::nvme::rules::ShadowDoorbellPages;
use phaselink_core::protocol::nvme::rules::completion::Done;
use phaselink_core::protocol::nvme::spec::{SUBMISSION_ENTRY_BYTES, Status, SubmissionEntry};
use smallvec::SmallVec;

use super::arbitration::{QueuePriorityClass, WeightedRoundRobin};
use super::command::Command;
use super::host::{EndedFault, Host, UnreachableMemory};
use super::journal::CommandJournal;
use super::limits::QUEUE_PAIRS_MAX;
use super::queues::{CompletionQueue, ENTRIES_AHEAD, SubmissionEntryBytes, SubmissionQueue, UnwrittenCompletion};
use super::strict::{self, StrictQueueChecks};
use super::subsystem::AttachedNamespaceView;
use crate::device::gate::GatePass;
use crate::device::history::Ticket;
use crate::device::store::Store;
use crate::device::tally::{ConsumedCompletionCounts, UndefinedBehaviour};

/// Number of queue identifiers of a controller, the admin queue's included.
const QUEUES: usize = QUEUE_PAIRS_MAX + 1;
/// Maximum number of completed commands whose memory is kept.
const SPARE_MAX: usize = 64;

/// Result of fetching a command from a submission queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextCommand {
    /// No command: the submission queue is empty, or its completion queue is full.
    None,
    /// Admin command that has been executed with this status: it has completed, or waits for an event or the store.
    Admin(Status),
    /// I/O command that has been checked and is still to be executed. A refused one completes with an error then.
    Io(Box<Command>),
}

/// Queues of a controller that one thread owns, with the state that serving them takes.
#[derive(Debug)]
#[repr(align(64))]
pub struct QueueSet {
    pub(super) namespaces: AttachedNamespaceView,
    /// Tells whether a command of the set executes.
    pub(super) pass: GatePass,
    /// Submission queues by identifier; 0 is the admin queue.
    pub(super) submissions: [Option<SubmissionQueue>; QUEUES],
    /// Completion queues by identifier; 0 is the admin queue.
    completions: [Option<CompletionQueue>; QUEUES],
    /// Number of commands in flight of each submission queue, at most its number of entries.
    pub(super) in_flight: [u32; QUEUES],
    /// One more than the highest identifier of an existing queue.
    queues_end: u16,
    /// True if a completion has been posted since the last interrupt.
    interrupt_pending: bool,
    /// True if the memory of a queue is no longer mapped. The set has then removed all its queues.
    pub(super) has_failed: bool,
    /// True if a doorbell was written with an index that its queue does not have, until that is reported.
    pub(super) invalid_doorbell_value: bool,
    /// Shadow doorbells, if the host has configured them.
    pub(super) shadow: Option<ShadowDoorbellPages>,
    /// Weighted round robin arbitration, or none if the host has selected plain round robin.
    pub arbitration: Option<WeightedRoundRobin>,
    /// True if the volatile write cache is enabled, so that a write is durable only after a flush.
    pub(super) write_cache: bool,
    /// Command counters and failures since the controller last collected them.
    pub(super) journal: CommandJournal,
    /// Strict checks, if they are on.
    pub(super) strict: Option<Box<StrictQueueChecks>>,
    /// Statistics of the I/O completion queue entries that the host has consumed since they were last returned.
    taken: ConsumedCompletionCounts,
    /// Non-zero values for dwords 0 and 1 of the completions of executed commands, by submission queue and command
    /// identifier.
    pub(super) results: BTreeMap<(u16, u16), u64>,
    /// Tickets of the changes that executed commands have made, in the drive's recorded history, by submission queue
    /// and command identifier.
    pub(super) recorded: BTreeMap<(u16, u16), Vec<Ticket>>,
    /// Namespaces of the commands that get no completion because of a fault, by submission queue and command identifier.
    pub(super) unanswered: BTreeMap<(u16, u16), u32>,
    /// Entries of completion queues that [`QueueSet::write_batched_completions`] is going to write, the oldest first.
    placed: Vec<UnwrittenCompletion>,
    /// Memory of completed commands, for the next ones. A command is written there once, and only its address moves.
    #[allow(clippy::vec_box, reason = "a command moves between owners by its address alone")]
    spare: Vec<Box<Command>>,
}

/// Queue sets share no cache line with each other, wherever they are allocated.
const _: () = assert!(align_of::<QueueSet>() >= 64 && size_of::<QueueSet>().is_multiple_of(64));

impl QueueSet {
    /// Returns a set without queues, for a controller with these namespaces.
    pub(super) fn new(namespaces: AttachedNamespaceView) -> QueueSet {
        QueueSet {
            pass: namespaces.subsystem().pass(),
            namespaces,
            submissions: [const { None }; QUEUES],
            completions: [const { None }; QUEUES],
            in_flight: [0; QUEUES],
            queues_end: 0,
            interrupt_pending: false,
            has_failed: false,
            invalid_doorbell_value: false,
            shadow: None,
            arbitration: None,
            write_cache: true,
            journal: CommandJournal::default(),
            strict: None,
            taken: ConsumedCompletionCounts::default(),
            results: BTreeMap::new(),
            recorded: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            placed: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Returns statistics of the completions in I/O queues that the host has consumed since the last call.
    pub fn take_completions_taken(&mut self, host: &mut impl Host) -> ConsumedCompletionCounts {
        self.count_last_taken(host);
        std::mem::take(&mut self.taken)
    }

    /// Counts the completions that the host has consumed, before the queues are removed.
    pub(super) fn count_last_taken(&mut self, host: &mut impl Host) {
        self.io_queue_ids().for_each(|queue| self.poll_head_doorbell(queue, host));
    }

    /// Ends the faults of completions and doorbells whose duration is over.
    #[inline]
    pub fn end_faults(&mut self, host: &mut impl Host) {
        while let Some(ended) = host.take_ended_fault() {
            self.end_queue_fault(ended, host);
        }
    }

    /// Ends a fault of a completion or a doorbell. Returns false if no queue of this set has it.
    #[cold]
    pub(super) fn end_queue_fault(&mut self, ended: EndedFault, host: &mut impl Host) -> bool {
        let address = match ended {
            EndedFault::Doorbell(queue) => {
                let submission = self.submissions[usize::from(queue)].as_mut();
                return submission.map(SubmissionQueue::read_late_doorbell).is_some();
            }
            EndedFault::Completion(address) => address,
        };
        for queue in self.queues() {
            // Read the completion queue head first: entries that the host has consumed must not change.
            self.poll_head_doorbell(queue, host);
            let Some(completion) = &mut self.completions[usize::from(queue)] else { continue };
            match completion.complete_entry_at(address, host) {
                Ok(false) => {}
                Ok(true) => {
                    self.interrupt_pending |= completion.interrupt_pending;
                    return true;
                }
                Err(UnreachableMemory) => {
                    self.fail_all_queues(host);
                    return true;
                }
            }
        }
        false
    }

    /// Returns the counts of undefined host behaviour since the last call, by its kind.
    pub fn take_undefined(&mut self) -> Vec<(&'static UndefinedBehaviour, u64)> {
        self.strict.as_mut().map_or_else(Vec::new, |checks| checks.take())
    }

    /// Runs `check` on the set's strict checks, if they are on.
    #[inline]
    pub(super) fn check_strictly(&mut self, check: impl FnOnce(&mut StrictQueueChecks)) {
        if let Some(checks) = &mut self.strict {
            check(checks);
        }
    }

    /// Returns the range of queue identifiers to poll, the admin queue's 0 included. Some of them may have no queue.
    #[inline]
    pub fn queues(&self) -> Range<u16> {
        0..self.queues_end
    }

    /// Returns the range of identifiers of I/O queues to poll. Some of them may have no queue.
    #[inline]
    pub fn io_queue_ids(&self) -> Range<u16> {
        1..self.queues_end
    }

    /// Returns true if the set has an error for the controller to report: unmapped queue memory, or an invalid doorbell
    /// value.
    #[inline]
    pub fn has_reportable_errors(&self) -> bool {
        self.has_failed | self.invalid_doorbell_value
    }

    /// Returns true if the set has an I/O submission or completion queue.
    pub fn has_io_queues(&self) -> bool {
        self.submissions[1..].iter().any(Option::is_some) || self.completions[1..].iter().any(Option::is_some)
    }

    /// Returns the host address and the length in bytes of each queue of the set.
    pub fn queue_memory_ranges(&self) -> impl Iterator<Item = (u64, usize)> {
        let submissions = self.submissions.iter().flatten().map(SubmissionQueue::memory_range);
        submissions.chain(self.completions.iter().flatten().map(CompletionQueue::memory_range))
    }

    /// Returns the submission queue with an identifier, if this set has it.
    pub(super) fn submission(&self, queue: u16) -> Option<&SubmissionQueue> {
        self.submissions.get(usize::from(queue))?.as_ref()
    }

    /// Returns the completion queue with an identifier, if this set has it.
    pub(super) fn completion(&self, queue: u16) -> Option<&CompletionQueue> {
        self.completions.get(usize::from(queue))?.as_ref()
    }

    /// Adds a completion queue under an identifier.
    pub(super) fn add_completion_queue(&mut self, queue: u16, completion: CompletionQueue) {
        self.completions[usize::from(queue)] = Some(completion);
        self.update_queues_end();
    }

    /// Adds a submission queue under an identifier. Its completion queue must be in this set.
    pub(super) fn add_submission_queue(&mut self, queue: u16, submission: SubmissionQueue) {
        if let Some(completion) = &mut self.completions[usize::from(submission.completion_queue)] {
            completion.users += 1;
        }
        self.submissions[usize::from(queue)] = Some(submission);
        self.in_flight[usize::from(queue)] = 0;
        self.update_queues_end();
    }

    /// Removes a submission queue. Its commands in flight get no completion.
    pub(super) fn remove_submission_queue(&mut self, queue: u16) {
        let removed = self.submissions[usize::from(queue)].take();
        let completion = removed.and_then(|removed| self.completions[usize::from(removed.completion_queue)].as_mut());
        completion.into_iter().for_each(|completion| completion.users -= 1);
        self.results.retain(|(of, _), _| *of != queue);
        self.recorded.retain(|(of, _), _| *of != queue);
        self.unanswered.retain(|(of, _), _| *of != queue);
        self.check_strictly(|checks| checks.forget_deleted_queue(Some(queue)));
        self.update_queues_end();
    }

    /// Removes a completion queue, after counting the completions that the host has consumed.
    pub(super) fn remove_completion_queue(&mut self, queue: u16, host: &mut impl Host) {
        self.poll_head_doorbell(queue, host);
        self.completions[usize::from(queue)] = None;
        self.update_queues_end();
    }

    /// Removes all queues. Their commands in flight get no completion.
    pub(super) fn clear(&mut self) {
        self.submissions.fill(None);
        self.completions.fill(None);
        self.in_flight.fill(0);
        self.placed.clear();
        self.results.clear();
        self.recorded.clear();
        self.unanswered.clear();
        self.check_strictly(|checks| checks.forget_deleted_queue(None));
        self.update_queues_end();
    }

    /// Updates the end of the range of queue identifiers to poll.
    fn update_queues_end(&mut self) {
        let mut pairs = self.submissions.iter().zip(&self.completions);
        let last = pairs.rposition(|(submission, completion)| submission.is_some() || completion.is_some());
        self.queues_end = last.map_or(0, |last| last as u16 + 1);
    }

    /// Fetches the next entry of a submission queue into `bytes`, and returns the queue's generation. Returns none if
    /// the queue is empty or its completion queue is full. Only entries that [`QueueSet::poll_tail_doorbell`] has seen
    /// count. The host writes the doorbell's cache line at every command, and reading it here would move it between
    /// cores.
    #[inline]
    pub(super) fn fetch(&mut self, queue: u16, bytes: &mut SubmissionEntryBytes, host: &mut impl Host) -> Option<u32> {
        if !self.has_completion_entry(queue, host) {
            return None;
        }
        let submission = self.submissions[usize::from(queue)].as_mut()?;
        let generation = submission.generation;
        match submission.fetch(bytes, host) {
            Ok(found) => found.then_some(generation),
            Err(UnreachableMemory) => {
                self.fail_all_queues(host);
                None
            }
        }
    }

    /// Fetches and checks the next command of an I/O queue. Only commands up to the tail that
    /// [`QueueSet::poll_tail_doorbell`] has read count.
    #[inline]
    pub fn next_io_command(&mut self, queue: u16, host: &mut impl Host) -> NextCommand {
        let mut command = self.take_spare_command();
        match self.fetch(queue, &mut command.bytes, host) {
            Some(generation) => NextCommand::Io(self.accept(queue, generation, command, host)),
            None => self.return_spare_command(command),
        }
    }

    /// Returns memory for a command.
    #[inline]
    pub(super) fn take_spare_command(&mut self) -> Box<Command> {
        self.spare.pop().unwrap_or_else(|| Box::new(Command::blank()))
    }

    /// Keeps the memory of a command for which nothing was fetched.
    fn return_spare_command(&mut self, command: Box<Command>) -> NextCommand {
        self.recycle(command);
        NextCommand::None
    }

    /// Takes back a command that has ended, whose memory the next one uses. One with lists, which may be long, is
    /// dropped.
    #[inline]
    pub fn recycle(&mut self, command: Box<Command>) {
        if self.spare.len() < SPARE_MAX && !command.has_memory_lists() {
            self.spare.push(command);
        }
    }

    /// Prefetches the first block of each of the next Reads of a queue, among up to `most` commands. Each is in another
    /// page of the store, and the processor looks up several pages at once only if few other instructions are between.
    #[inline]
    pub fn prefetch_next_reads(&mut self, queue: u16, most: u32, host: &mut impl Host, store: &Store) {
        self.next_read_offsets(queue, most, host).iter().for_each(|offset| store.prefetch(*offset, 1));
    }

    /// Returns the offsets in bytes of the next Reads of a queue, among up to `most` commands; none while the completion
    /// queue is full, because no command can be fetched then.
    #[inline]
    pub fn next_read_offsets(
        &mut self,
        queue: u16,
        most: u32,
        host: &mut impl Host,
    ) -> SmallVec<[u64; index(ENTRIES_AHEAD)]> {
        let (mut offsets, mut bytes) = (SmallVec::new(), [0; SUBMISSION_ENTRY_BYTES]);
        if !self.has_completion_entry(queue, host) {
            return offsets;
        }
        let Some(submission) = &self.submissions[usize::from(queue)] else { return offsets };
        self.namespaces.follow();
        for address in submission.next_entry_addresses(most.min(ENTRIES_AHEAD)) {
            let is_read = host.peek(address).is_some_and(|word| low_u8(word) == opcode::READ);
            if is_read && host.read_mapped(address, &mut bytes) {
                offsets.extend(Command::readable_block_range(&bytes, &self.namespaces).map(|(offset, _)| offset));
            }
        }
        offsets
    }

    /// Fetches and checks the next command like [`QueueSet::next_io_command`], and prefetches the cache lines that
    /// executing it needs.
    #[inline]
    pub fn next_io_command_ahead(&mut self, queue: u16, host: &mut impl Host, store: &Store) -> NextCommand {
        let mut command = self.take_spare_command();
        let Some(generation) = self.fetch(queue, &mut command.bytes, host) else {
            return self.return_spare_command(command);
        };
        self.namespaces.follow();
        if let Some((offset, bytes)) = Command::readable_block_range(&command.bytes, &self.namespaces) {
            store.prefetch(offset, bytes.min(AHEAD_BYTES as u32));
        }
        let command = self.accept(queue, generation, command, host);
        command.prefetch(host, store);
        NextCommand::Io(command)
    }

    /// Checks the 64 bytes of a command from a submission queue of this generation, and counts the command as in
    /// flight.
    #[inline]
    pub(super) fn accept(
        &mut self,
        queue: u16,
        generation: u32,
        mut command: Box<Command>,
        host: &mut impl Host,
    ) -> Box<Command> {
        if let Some(checks) = &mut self.strict {
            let entry = command.entry();
            checks.on_command(
                queue,
                &entry,
                strict::reserved_bits(entry.opcode, self.namespaces.limits_of_description()),
            );
        }
        self.in_flight[usize::from(queue)] += 1;
        self.namespaces.follow();
        command.check(queue, generation, &self.namespaces, host);
        self.check_strictly(|checks| checks.check_prp_entries(&command.entry(), &command.checked));
        command
    }

    /// Checks a command again, for one whose lists or data were not reachable when it was fetched.
    #[cold]
    pub fn recheck_reachability(&self, command: &Command, host: &mut impl Host) -> Command {
        let mut anew = Command { bytes: command.bytes, ..Command::blank() };
        anew.check(command.queue, command.generation, &self.namespaces, host);
        anew
    }

    /// Records in the journal a command that was refused or failed.
    #[cold]
    pub(super) fn record_failure(&mut self, queue: u16, entry: &SubmissionEntry, status: Status) {
        self.journal.record_failure(queue, entry, status);
    }

    /// Returns generation and number of entries of a submission queue, and true if its completions raise interrupts.
    /// None if the set does not have the queue.
    pub fn submission_queue(&self, queue: u16) -> Option<(u32, u32, bool)> {
        let submission = self.submissions[usize::from(queue)].as_ref()?;
        let completion = self.completions[usize::from(submission.completion_queue)].as_ref();
        let has_interrupts = completion.is_some_and(|completion| completion.vector.is_some());
        Some((submission.generation, submission.ring.entries(), has_interrupts))
    }

    /// Sends one interrupt for each completion queue that has an interrupt vector and new completions since the last
    /// call.
    #[inline]
    pub fn send_interrupts(&mut self, host: &mut impl Host) {
        if !std::mem::take(&mut self.interrupt_pending) {
            return;
        }
        let queues = usize::from(self.queues_end);
        for completion in self.completions[..queues].iter_mut().flatten() {
            if completion.interrupt_pending {
                completion.interrupt_pending = false;
                if let Some(vector) = completion.vector {
                    completion.note_interrupt_sent();
                    host.interrupt(vector);
                }
            }
        }
    }

    /// Marks an interrupt as pending for each completion queue with unread entries, after pin-based interrupts are
    /// unmasked.
    pub(super) fn mark_unread_interrupts(&mut self, host: &mut impl Host) {
        for queue in self.queues() {
            self.poll_head_doorbell(queue, host);
            if let Some(completion) = &mut self.completions[usize::from(queue)] {
                completion.interrupt_pending |= completion.ring.has_unread();
                self.interrupt_pending |= completion.interrupt_pending;
            }
        }
    }

    /// Sets the event indices of shadow doorbells so that the host writes the doorbell register for its next command.
    /// The thread that owns the set may then sleep. Returns true if a command arrived before the host could see that.
    pub fn request_doorbells(&mut self, host: &mut impl Host) -> bool {
        let Some(shadow) = self.shadow else { return false };
        for (number, submission) in (0..).zip(&self.submissions) {
            let Some(submission) = submission else { continue };
            host.poke(shadow.tail_event_index_address(number), submission.ring.tail());
        }
        for (number, completion) in (0..).zip(&self.completions) {
            let Some(completion) = completion else { continue };
            if completion.ring.is_full() || completion.holds_completions() {
                host.poke(shadow.head_event_index_address(number), completion.ring.head());
            }
        }
        self.has_work(host)
    }

    /// Returns true if a submission queue has commands or an interrupt is pending. Posts completions that waited for a
    /// free entry first.
    pub fn has_work(&mut self, host: &mut impl Host) -> bool {
        self.post_held(host);
        self.queues().fold(self.interrupt_pending, |any, queue| self.poll_tail_doorbell(queue, host) | any)
    }

    /// Returns the submission queue of a priority class whose turn it is, and the most commands of it that may be
    /// fetched now. `left` is the rest of the class's share of this round. None if no queue of the class has commands.
    #[cold]
    pub fn take_turn(&mut self, class: QueuePriorityClass, left: u32, host: &mut impl Host) -> Option<(u16, u32)> {
        let (mut arbitration, end) = (self.arbitration.take()?, self.queues_end);
        let is_ready = |queue: u16| {
            let submission = self.submissions[usize::from(queue)].as_ref();
            submission.is_some_and(|submission| submission.priority == class) && self.poll_tail_doorbell(queue, host)
        };
        let queue = arbitration.take_turn(class, end, is_ready);
        self.arbitration = Some(arbitration);
        queue.map(|queue| (queue, arbitration.burst().min(left)))
    }

    /// Reads the tail doorbell, or shadow doorbell, of a submission queue. Returns true if the queue has commands.
    #[inline]
    pub fn poll_tail_doorbell(&mut self, queue: u16, host: &mut impl Host) -> bool {
        let Some(submission) = &mut self.submissions[usize::from(queue)] else { return false };
        let doorbell = match self.shadow.filter(|_| queue > 0) {
            None => Some(host.doorbells(queue).0),
            Some(shadow) => host.peek(shadow.tail(queue.into())),
        };
        match doorbell.map(|tail| submission.set_tail_from_doorbell(queue, tail, host)) {
            None | Some(Ok(false)) => {}
            Some(Ok(true)) => self.check_strictly(|checks| checks.count(&strict::SUBMISSION_OVERRUN)),
            Some(Err(_)) => self.report_invalid_doorbell(),
        }
        let submission = self.submissions[usize::from(queue)].as_ref();
        let is_busy = submission.is_some_and(|submission| {
            submission.prefetch(host);
            !submission.ring.is_empty()
        });
        if queue == 0 && is_busy {
            self.request_admin_doorbell(host);
        }
        is_busy
    }

    /// Records that the host wrote an index to a doorbell that its queue does not have.
    #[cold]
    fn report_invalid_doorbell(&mut self) {
        self.invalid_doorbell_value = true;
        self.check_strictly(|checks| checks.count(&strict::DOORBELL_VALUE));
    }

    /// Sets the admin queue's event index so that the host keeps writing its doorbell register, since its shadow
    /// doorbell is not polled.
    fn request_admin_doorbell(&self, host: &mut impl Host) {
        let (Some(shadow), Some(submission)) = (self.shadow, &self.submissions[0]) else { return };
        host.poke(shadow.tail_event_index_address(0), submission.ring.tail());
    }

    /// Returns true if a free completion queue entry is there for the next command of a submission queue. Reads the
    /// head doorbell if there seems to be none.
    #[inline]
    fn has_completion_entry(&mut self, queue: u16, host: &mut impl Host) -> bool {
        let Some(submission) = &self.submissions[usize::from(queue)] else { return false };
        let target = submission.completion_queue;
        if self.in_flight[usize::from(queue)] >= submission.ring.entries() {
            return false;
        }
        let is_short = |completion: &CompletionQueue| completion.ring.is_full() || completion.holds_completions();
        if !self.completions[usize::from(target)].as_ref().is_none_or(is_short) {
            return true;
        }
        self.poll_head_doorbell(target, host);
        self.completions[usize::from(target)].as_ref().is_some_and(|completion| !is_short(completion))
    }

    /// Reads the head doorbell of a completion queue, counts the entries that the host has consumed, and posts
    /// completions that waited for a free entry.
    fn poll_head_doorbell(&mut self, queue: u16, host: &mut impl Host) {
        let Some(completion) = &mut self.completions[usize::from(queue)] else { return };
        let doorbell = match self.shadow.filter(|_| queue > 0) {
            None => Some(host.doorbells(queue).1),
            Some(shadow) => host.peek(shadow.head(queue.into())),
        };
        let is_invalid = doorbell.is_some_and(|head| completion.set_head_from_doorbell(head).is_err());
        let posted = completion.post_held(host);
        let taken = completion.take_completion_counts();
        self.interrupt_pending |= completion.interrupt_pending;
        self.add_taken_counts(queue, taken);
        if is_invalid {
            self.report_invalid_doorbell();
        }
        if posted.is_err() {
            self.fail_all_queues(host);
        }
    }

    /// Adds counts of completions that the host has consumed to the statistics, those of I/O queues, and to the strict
    /// checks.
    #[inline]
    fn add_taken_counts(&mut self, queue: u16, taken: ConsumedCompletionCounts) {
        if taken == ConsumedCompletionCounts::default() {
            return;
        }
        if queue > 0 {
            self.taken.merge(&taken);
        }
        self.check_strictly(|checks| {
            checks.count_occurrences(taken.torn, &strict::COMPLETION_TORN);
            checks.count_occurrences(taken.stale, &strict::COMPLETION_STALE);
        });
    }

    /// Posts completions that waited because their completion queue was full. Also counts incomplete entries that the
    /// host has consumed.
    #[inline]
    pub fn post_held(&mut self, host: &mut impl Host) {
        for queue in self.queues() {
            if self.completions[usize::from(queue)].as_ref().is_some_and(CompletionQueue::needs_head_polling) {
                self.poll_head_doorbell(queue, host);
            }
        }
    }

    /// Writes the completion queue entries of all completed commands to host memory, the newest first. A host that
    /// polls the oldest one so finds a whole batch, and takes the cache line away once, not after each entry.
    #[inline]
    pub fn write_batched_completions(&mut self, host: &mut impl Host) {
        let mut is_lost = false;
        while let Some(UnwrittenCompletion { address, bytes }) = self.placed.pop() {
            is_lost |= host.post(address, &bytes).is_err();
        }
        if is_lost {
            self.fail_all_queues(host);
        }
    }

    /// Posts the completion of a command to the completion queue of its submission queue.
    #[inline]
    pub(super) fn post(&mut self, queue: u16, command_id: u16, status: Status, result: u64, host: &mut impl Host) {
        self.place(queue, command_id, status, result, host);
        self.write_batched_completions(host);
    }

    /// Takes an entry of the completion queue of a submission queue for a completion, which
    /// [`QueueSet::write_batched_completions`] writes.
    #[inline]
    pub(super) fn place(&mut self, queue: u16, command_id: u16, status: Status, result: u64, host: &mut impl Host) {
        self.check_strictly(|checks| checks.on_completion(queue, command_id));
        let Some(submission) = &self.submissions[usize::from(queue)] else { return };
        let submission_head = low_u16(submission.ring.head());
        let done = Done { command_id, submission_queue: queue, submission_head, result, status };
        let Some(completion) = &mut self.completions[usize::from(submission.completion_queue)] else { return };
        let placed = completion.place(done, host);
        self.interrupt_pending |= completion.interrupt_pending;
        match placed {
            Ok(placed) => self.placed.extend(placed),
            Err(UnreachableMemory) => self.fail_all_queues(host),
        }
    }

    /// Removes all queues because the memory of one is no longer mapped. The controller then reports a fatal status.
    /// Completions of other queues are written before, because their commands have been executed.
    #[cold]
    fn fail_all_queues(&mut self, host: &mut impl Host) {
        self.has_failed = true;
        for UnwrittenCompletion { address, bytes } in std::mem::take(&mut self.placed) {
            // If the entry's memory is not mapped, the completion is lost, so ignore the error.
            let _ = host.post(address, &bytes);
        }
        self.send_interrupts(host);
        self.clear();
    }
}
