//! State of a controller: its sets of queues, features, events and journal, without the registers.
//!
//! [`admin`](super::admin) executes admin commands on this state, and [`lifecycle`](super::lifecycle) takes it from
//! enabling to shutting down.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::ops::Range;

use phaselink_core::protocol::nvme::spec::{Status, SubmissionEntry};

use super::command::Command;
use super::discovery::DiscoveryLogPage;
use super::events::{AsyncEvent, AsyncEventQueue};
use super::execution::CommandProgress;
use super::features::FeatureValues;
use super::host::{AdminHost, Host};
use super::identify::Identity;
use super::journal::CommandJournal;
use super::notices::PendingReservationNotices;
use super::queue_set::QueueSet;
use super::strict::StrictQueueChecks;
use super::subsystem::{Namespace, NamespaceBlockFormat};
use crate::device::store::Store;
use crate::device::tally::{ConsumedCompletionCounts, UndefinedBehaviour};

/// NVMe controller without its registers, which the [`AdminHost`] keeps.
#[derive(Debug)]
pub struct Controller {
    pub(super) identity: Identity,
    /// True if the controller is enabled, as CC.EN asks (CSTS.RDY is or becomes 1).
    pub(super) is_enabled: bool,
    /// Sets of queues, each polled by one thread. The first set has the admin queue and is never lent to another
    /// thread.
    pub(super) sets: Vec<Box<QueueSet>>,
    pub(super) features: FeatureValues,
    pub(super) events: AsyncEventQueue,
    pub(super) journal: CommandJournal,
    /// True if the host has restarted the keep-alive timer since the last [`Controller::poll_keep_alive`].
    pub(super) is_kept_alive: bool,
    /// Work that needs the store, which [`Controller::update`] has yet to do.
    pub(super) pending: VecDeque<PendingWork>,
    /// Version of the subsystem's namespaces, and the namespaces attached to this controller, when it last compared
    /// them.
    known_namespaces: (u64, Vec<Option<Namespace>>),
    /// Identifiers of the namespaces that have changed since the host read the log page Changed Namespace List.
    pub(super) changed_namespaces: BTreeSet<u32>,
    /// Telemetry data that the host captured last, and the number of captures.
    pub(super) telemetry: (Vec<u8>, u8),
    /// Persistent event log of the reporting context that the host has established, or none.
    pub(super) event_context: Option<Vec<u8>>,
    /// Number of changes of the controller's path when it last looked.
    pub(super) known_path_changes: u64,
    /// Notices of reservations to the host.
    pub(super) notices: PendingReservationNotices,
    /// Generation of the log page of a discovery controller when it was last compared; 0 for other controllers.
    known_discovery: u64,
    /// Generation of the latest submission queue: a number that tells apart queues that have had one identifier.
    generation: u32,
}

/// Reclaim unit handles that a host has listed for a namespace to be created.
pub(super) type RequestedHandles = Vec<u16>;

/// Work of an admin command that has been accepted and needs the store, so that [`Controller::update`] does it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PendingWork {
    /// Format a namespace, or all of them, which then read as zeros.
    Format { command_id: u16, namespace: u32, format: NamespaceBlockFormat },
    /// Create a namespace of `blocks` blocks in a format, with reclaim unit handles on a drive with data placement.
    Create { command_id: u16, blocks: u64, format: NamespaceBlockFormat, handles: RequestedHandles },
    /// Delete a namespace, or all of them.
    Delete { command_id: u16, namespace: u32 },
    /// Attach a namespace to this controller, or detach it.
    Attach { command_id: u16, namespace: u32, is_attached: bool },
    /// Report unreadable blocks: Get LBA Status, or Get Log Page for LBA Status Information.
    ReportBlocks { command: Box<SubmissionEntry> },
    /// Sanitize the drive as `dword10` says. The command has completed already.
    Sanitize { dword10: u32 },
    /// Save what of reservations persists through power loss. The command has completed already.
    SaveReservations,
    /// Save handles of data placement, or settings of keys, in the store. The command has completed already.
    SaveSettings,
    /// Save the state of the latest sanitize operation in the store. The command has completed already.
    SaveSanitize,
}

impl PendingWork {
    /// Returns true if the work erases blocks of the drive, or changes which blocks its namespaces have.
    pub(super) fn affects_blocks(&self) -> bool {
        use PendingWork::{Create, Delete, Format, Sanitize};
        matches!(self, Format { .. } | Create { .. } | Delete { .. } | Sanitize { .. })
    }
}

impl Controller {
    /// Returns a controller after power-on, with one set of queues.
    pub fn new(identity: Identity) -> Controller {
        Controller {
            features: FeatureValues::new(&identity.limits),
            sets: vec![Box::new(QueueSet::new(identity.namespaces()))],
            known_namespaces: (0, attached_namespace_list(&identity)),
            known_path_changes: identity.subsystem.path_change_count(identity.path),
            notices: PendingReservationNotices::default(),
            known_discovery: identity.discovery().map_or(0, DiscoveryLogPage::generation),
            changed_namespaces: BTreeSet::new(),
            telemetry: (Vec::new(), 0),
            event_context: None,
            identity,
            is_enabled: false,
            events: AsyncEventQueue::default(),
            journal: CommandJournal::default(),
            is_kept_alive: false,
            pending: VecDeque::new(),
            generation: 0,
        }
    }

    /// Divides the controller's queues into `count` sets. Completion queues go to the sets in turn, submission queues
    /// to the set of their completion queue.
    pub fn with_queue_sets(mut self, count: usize) -> Controller {
        self.sets.resize_with(count, || Box::new(QueueSet::new(self.identity.namespaces())));
        self
    }

    /// Returns the identifier of the controller (CNTLID).
    pub fn controller_id(&self) -> u16 {
        self.identity.controller_id()
    }

    /// Returns the maximum number of entries of an I/O queue.
    pub fn io_queue_entries_max(&self) -> u32 {
        self.identity.limits.queue_entries
    }

    /// True if the controller is one of discovery.
    pub fn is_of_discovery(&self) -> bool {
        self.identity.discovery().is_some()
    }

    /// Turns strict checks on, which count host behaviour that the specification leaves undefined.
    pub fn with_strict_checks(mut self) -> Controller {
        self.sets.iter_mut().for_each(|set| set.strict = Some(Box::default()));
        self
    }

    /// Returns the counts of undefined host behaviour since the last call, by its kind, for all queue sets that are not
    /// lent.
    pub fn take_undefined(&mut self) -> Vec<(&'static UndefinedBehaviour, u64)> {
        self.sets.iter_mut().flat_map(|set| set.take_undefined()).collect()
    }

    /// Returns statistics of the completions that the host has consumed since the last call, for all queue sets that
    /// are not lent.
    pub fn take_completions_taken(&mut self, host: &mut impl Host) -> ConsumedCompletionCounts {
        let mut sum = ConsumedCompletionCounts::default();
        self.sets.iter_mut().for_each(|set| sum.merge(&set.take_completions_taken(host)));
        sum
    }

    /// Ends the faults of completions and doorbells whose time is over, in all queue sets that are not lent.
    #[inline]
    pub fn end_faults(&mut self, host: &mut impl Host) {
        while let Some(ended) = host.take_ended_fault() {
            let _ = self.sets.iter_mut().any(|set| set.end_queue_fault(ended, host));
        }
    }

    /// Runs `check` on the strict checks of the admin queue's set, if strict checks are on.
    #[inline]
    pub(super) fn check_strictly(&mut self, check: impl FnOnce(&mut StrictQueueChecks)) {
        self.sets[0].check_strictly(check);
    }

    /// Returns all sets of queues. An empty set stands in for one that is lent to another thread.
    #[inline]
    pub fn queue_sets(&mut self) -> &mut [Box<QueueSet>] {
        &mut self.sets
    }

    /// Swaps set number `set` with `other`, to lend it to another thread or to take it back. An
    /// [empty](Controller::vacant_queue_set) set stands in for a lent one.
    ///
    /// # Panics
    ///
    /// If `set` is 0, the set of the admin queue, or there is no such set.
    pub fn swap_queue_set(&mut self, set: usize, other: &mut Box<QueueSet>) {
        assert!(set > 0, "the set of the admin queue is never lent");
        std::mem::swap(&mut self.sets[set], other);
    }

    /// Returns a set without queues, which stands in for a set that is lent to another thread.
    pub fn vacant_queue_set(&self) -> Box<QueueSet> {
        Box::new(QueueSet::new(self.identity.namespaces()))
    }

    /// Returns true if the submission queue exists in a set that is not lent.
    pub fn has_submission_queue(&self, queue: u16) -> bool {
        self.sets.iter().any(|set| set.submission(queue).is_some())
    }

    /// Returns the queue set that has a submission queue, or the first set if none has.
    #[inline]
    pub fn set_of_submission_queue(&mut self, queue: u16) -> &mut QueueSet {
        let place = self.sets.iter().position(|set| set.submission(queue).is_some());
        &mut self.sets[place.unwrap_or(0)]
    }

    /// Returns the queue set to which a completion queue's identifier belongs, whether or not the queue exists.
    pub(super) fn set_of_completion_queue(&mut self, queue: u16) -> &mut QueueSet {
        let sets = self.sets.len();
        &mut self.sets[usize::from(queue.saturating_sub(1)) % sets]
    }

    /// Returns the range of queue identifiers to poll, from the admin queue's 0 on. Some of them may have no queue.
    #[inline]
    pub fn queues(&self) -> Range<u16> {
        0..self.sets.iter().map(|set| set.queues().end).max().unwrap_or(0)
    }

    /// Returns true if the host has created an I/O queue.
    pub(super) fn has_io_queues(&self) -> bool {
        self.sets.iter().any(|set| set.has_io_queues())
    }

    /// Returns the generation of the next submission queue, which no earlier one has had.
    pub(super) fn next_queue_generation(&mut self) -> u32 {
        self.generation = self.generation.wrapping_add(1);
        self.generation
    }

    /// Checks for changed namespaces: records those of this controller for the log page, and raises a Namespace
    /// Attribute Changed event if the host wants it.
    #[inline]
    pub(super) fn report_namespace_changes(&mut self) {
        if self.identity.subsystem.version() != self.known_namespaces.0 {
            self.compare_namespaces();
        }
    }

    /// Checks if the log page of a discovery controller has changed, and raises an event if the host wants it.
    #[inline]
    pub(super) fn report_discovery_change(&mut self) {
        let Some(log) = self.identity.discovery() else { return };
        let generation = log.generation();
        if generation != self.known_discovery && self.features.wants_discovery_events() {
            self.events.raise(AsyncEvent::DiscoveryChange);
        }
        self.known_discovery = generation;
    }

    #[cold]
    fn compare_namespaces(&mut self) {
        self.report_reservation_notices();
        self.report_path_change();
        let version = self.identity.subsystem.version();
        let (now, known) = (attached_namespace_list(&self.identity), &self.known_namespaces.1);
        let changed = (1..).zip(now.iter().zip(known)).filter(|(_, (now, known))| now != known).map(|(id, _)| id);
        let before = self.changed_namespaces.len();
        self.changed_namespaces.extend(changed);
        if self.changed_namespaces.len() > before && self.features.wants_namespace_events() {
            self.events.raise(AsyncEvent::NamespaceChange);
        }
        self.known_namespaces = (version, now);
    }

    /// Copies the write cache setting and the arbitration value to every queue set.
    pub(super) fn distribute_features(&mut self) {
        let (write_cache, arbitration) = (self.features.write_cache, self.features.arbitration);
        for set in &mut self.sets {
            set.write_cache = write_cache;
            set.arbitration.iter_mut().for_each(|set| set.set(arbitration));
        }
    }

    /// Moves the counts and failures of the journals of all queue sets that are not lent into the controller's journal.
    pub(super) fn collect_queue_journals(&mut self) {
        let Controller { sets, journal, .. } = self;
        sets.iter_mut().for_each(|set| journal.absorb_counts(&mut set.journal));
    }

    /// Posts the completion of an admin command.
    pub(super) fn post_admin_completion(
        &mut self,
        command_id: u16,
        status: Status,
        result: u32,
        host: &mut impl AdminHost,
    ) {
        self.sets[0].post(0, command_id, status, result.into(), host);
        self.report_queue_errors(host);
    }

    /// Executes a command of any I/O queue; see [`QueueSet::execute`].
    pub fn execute(
        &mut self,
        command: &Command,
        host: &mut impl AdminHost,
        store: &Store,
        space: &mut [u8],
    ) -> CommandProgress {
        let executed = self.set_of_submission_queue(command.queue).execute(command, host, store, space);
        self.report_queue_errors(host);
        executed
    }

    /// Completes a command after a flush of the store; see [`QueueSet::complete_flushed`].
    pub fn complete_flushed(
        &mut self,
        command: &Command,
        flushed: io::Result<()>,
        host: &mut impl AdminHost,
    ) -> Status {
        let status = self.set_of_submission_queue(command.queue).complete_flushed(command, flushed, host);
        self.report_queue_errors(host);
        status
    }

    /// Sends interrupts for new completions of all sets that are not lent.
    #[inline]
    pub fn send_interrupts(&mut self, host: &mut impl Host) {
        self.sets.iter_mut().for_each(|set| set.send_interrupts(host));
    }

    /// Asks the host to write doorbell registers before the caller sleeps; see [`QueueSet::request_doorbells`].
    pub fn request_doorbells(&mut self, host: &mut impl AdminHost) -> bool {
        let has_work = self.sets.iter_mut().fold(false, |any, set| set.request_doorbells(host) | any);
        self.report_queue_errors(host);
        has_work
    }

    /// Reports errors of queues to the host: an event for an invalid doorbell value, the fatal status for a queue that
    /// is no longer mapped.
    #[inline]
    pub fn report_queue_errors(&mut self, host: &mut impl AdminHost) {
        if self.sets.iter().any(|set| set.has_reportable_errors()) {
            self.report_errors(host);
        }
    }

    #[cold]
    fn report_errors(&mut self, host: &mut impl AdminHost) {
        let mut has_failed = false;
        for set in &mut self.sets {
            has_failed |= std::mem::take(&mut set.has_failed);
            if std::mem::take(&mut set.invalid_doorbell_value) {
                self.events.raise(AsyncEvent::InvalidDoorbellValue);
            }
        }
        if has_failed {
            self.fail(host);
        }
    }

    /// Sets the fatal status (CSTS.CFS) and removes all queues.
    #[cold]
    pub(super) fn fail(&mut self, host: &mut impl AdminHost) {
        host.registers().set_fatal_status();
        self.drop_queues();
    }

    /// Removes all queues of all sets.
    pub(super) fn drop_queues(&mut self) {
        self.sets.iter_mut().for_each(|set| set.clear());
    }
}

/// Returns the namespaces attached to a controller, with namespace n at index n - 1, or none there.
fn attached_namespace_list(identity: &Identity) -> Vec<Option<Namespace>> {
    let mut namespaces = identity.subsystem.namespaces();
    for namespace in &mut namespaces {
        *namespace = namespace.filter(|it| it.is_attached(identity.number)).map(|it| it.detached_copy());
    }
    namespaces
}
