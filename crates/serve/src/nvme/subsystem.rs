//! State that all controllers of a drive share: namespaces, the latest sanitize operation, events and data placement
//! (Base Specification 2.0, sections 5.22, 5.23, 5.24 and 8.11).
//!
//! To hosts, each controller is an NVM subsystem of its own. All share the drive's bytes, so a namespace that one host
//! creates or deletes exists or is gone for all. A controller sees a namespace once it is attached to it.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use phaselink_core::number::{index, low_u8, low_u32};
use phaselink_core::protocol::nvme::commands::command::ALL_NAMESPACES;
use phaselink_core::protocol::nvme::rules::protection::METADATA_BYTES;
use phaselink_core::protocol::nvme::rules::reservation::{NamespaceAccess, ReservingHost};
use phaselink_core::protocol::nvme::rules::{BlockMetadataFormat, Limits};
use phaselink_core::protocol::nvme::spec::Status;

use super::access::refusal_status;
use super::event_log::PersistentEventLog;
use super::kind_state::KindState;
use super::kinds::KindRow;
use super::reservations::{HostReservationAccess, NamespaceReservations};
use crate::device::faults::Faults;
use crate::device::gate::{CommandGate, GatePass};
use crate::device::history::History;
use crate::device::paths::{DrivePaths, PathState};
use crate::device::store::{StateRecordTag, Store};
use crate::device::tally::locked;

/// Number of controllers whose attachment to a namespace is recorded separately. Controllers from the last number on
/// share its bit.
pub(super) const CONTROLLERS_MAX: u32 = 64;
/// Alignment in bytes of the start of namespaces that hosts create: a page of the store.
const START_BYTES: u64 = 4096;
/// Length in bytes of a namespace in the record of all namespaces that the store saves.
const RECORD_BYTES: usize = 32;
/// Bit for metadata in the format field of a namespace's record. The block size is in bits 0 to 7, the protection
/// settings from bit `RECORD_SETTINGS_AT` on.
const RECORD_METADATA: u64 = 1 << 8;
const RECORD_SETTINGS_AT: u32 = 16;

/// LBA format of the list from which hosts choose (LBAF).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LbaFormat {
    /// Binary logarithm of the size of a logical block in bytes (LBADS).
    pub block_shift: u32,
    /// Number of bytes of metadata of a logical block (MS): 0 or 8.
    pub metadata_bytes: u8,
}

/// Format of a namespace: block size, and the settings of its metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceBlockFormat {
    /// Binary logarithm of the size of a logical block in bytes (LBADS).
    pub block_shift: u32,
    /// Format of the metadata, or none if logical blocks have no metadata.
    pub metadata: Option<BlockMetadataFormat>,
}

impl NamespaceBlockFormat {
    /// Returns the LBA format to which this format belongs, without the metadata settings.
    pub fn matching_lba_format(self) -> LbaFormat {
        LbaFormat { block_shift: self.block_shift, metadata_bytes: self.metadata_size_and_dps().0 }
    }

    /// Returns the metadata of a logical block in bytes (MS) and the value of DPS for its settings; 0 without metadata.
    pub fn metadata_size_and_dps(self) -> (u8, u8) {
        self.metadata.map_or((0, 0), |metadata| (METADATA_BYTES as u8, metadata.settings()))
    }

    /// Makes room in a store for the metadata of blocks with this format. `may_add` is false for a store in use, which
    /// must have the room already.
    ///
    /// # Errors
    /// If the store cannot grow, or lacks metadata that it must have.
    pub fn make_room(self, may_add: bool, store: &Store) -> io::Result<()> {
        match self.metadata {
            Some(_) if may_add => store.add_metadata(),
            Some(_) if !store.has_metadata() => {
                let found = "the metadata of namespaces is missing at the end of the store; restore a copy of the file, or make a new store";
                Err(io::Error::new(io::ErrorKind::InvalidData, found))
            }
            _ => Ok(()),
        }
    }

    /// Encodes the format for a namespace's record in the store.
    fn encode(self) -> u64 {
        let (metadata_bytes, settings) = self.metadata_size_and_dps();
        let metadata = if metadata_bytes > 0 { RECORD_METADATA } else { 0 };
        u64::from(self.block_shift) | metadata | u64::from(settings) << RECORD_SETTINGS_AT
    }

    /// Decodes the format from a namespace's record in the store, or returns none if the record is invalid.
    fn decode(record: u32) -> Option<NamespaceBlockFormat> {
        let has_metadata = u64::from(record) & RECORD_METADATA != 0;
        let settings = BlockMetadataFormat::of_dps_value(low_u8(record >> RECORD_SETTINGS_AT)).ok()?;
        let format = NamespaceBlockFormat { block_shift: record & 0xff, metadata: has_metadata.then_some(settings) };
        (format.encode() == u64::from(record)).then_some(format)
    }
}

/// Namespace that exists: its range of the drive, format and attached controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Offset on the drive of the namespace's first byte.
    pub start: u64,
    /// Length in bytes, a multiple of the block size.
    pub bytes: u64,
    /// Format of the namespace's logical blocks and their metadata.
    pub format: NamespaceBlockFormat,
    /// Number of namespaces that hosts had created when this one was created; 0 for a namespace of the drive
    /// description.
    pub generation: u32,
    /// Bit for each controller to which the namespace is attached.
    attached: u64,
}

impl Namespace {
    /// Returns the number of logical blocks.
    pub fn blocks(&self) -> u64 {
        self.bytes >> self.format.block_shift
    }

    /// Returns true if the namespace is attached to the controller of this number.
    pub fn is_attached(&self, controller: u32) -> bool {
        self.attached >> bit_of(controller) & 1 == 1
    }

    /// Returns a copy that is attached to no controller, for comparing two states of a namespace.
    pub fn detached_copy(self) -> Namespace {
        Namespace { attached: 0, ..self }
    }

    fn end(&self) -> u64 {
        self.start + self.bytes
    }

    fn encode(&self) -> [u8; RECORD_BYTES] {
        let sizes = self.format.encode() | u64::from(self.generation) << 32;
        let mut record = [0; RECORD_BYTES];
        for (place, number) in record.as_chunks_mut().0.iter_mut().zip([self.start, self.bytes, sizes, self.attached]) {
            *place = number.to_le_bytes();
        }
        record
    }

    fn decode(record: &[u8; RECORD_BYTES]) -> Option<Namespace> {
        let [start, bytes, sizes, attached] = [0, 1, 2, 3].map(|place| u64::from_le_bytes(record.as_chunks().0[place]));
        // An unknown format gets a block size that no drive has, so later checks refuse it.
        let none = NamespaceBlockFormat { block_shift: 0, metadata: None };
        let (format, generation) = (NamespaceBlockFormat::decode(low_u32(sizes)).unwrap_or(none), low_u32(sizes >> 32));
        (bytes > 0).then_some(Namespace { start, bytes, format, generation, attached })
    }
}

/// Latest sanitize operation of the drive: its state, and the parameters of its command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sanitize {
    /// State of the operation.
    pub state: SanitizeOperationState,
    /// Dword 10 of the Sanitize command that started the operation.
    pub dword10: u32,
}

/// State of the latest sanitize operation, with the numbers of the log page Sanitize Status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SanitizeOperationState {
    /// The drive has never been sanitized.
    #[default]
    Never = 0,
    /// The operation has completed.
    Completed = 1,
    /// The operation is in progress.
    Running = 2,
    /// The operation has failed.
    Failed = 3,
}

impl SanitizeOperationState {
    /// Returns the status with which I/O commands are refused in this state, or none if they are allowed.
    pub(super) fn refusal_status(self) -> Option<Status> {
        match self {
            SanitizeOperationState::Never | SanitizeOperationState::Completed => None,
            SanitizeOperationState::Running => Some(Status::SANITIZE_IN_PROGRESS),
            SanitizeOperationState::Failed => Some(Status::SANITIZE_FAILED),
        }
    }
}

/// State of a subsystem that commands change: its namespaces, the number of namespaces that hosts have created, and the
/// latest sanitize operation.
#[derive(Clone, Debug)]
struct SubsystemState {
    /// Namespace n at index n - 1, or none if it does not exist.
    namespaces: Vec<Option<Namespace>>,
    created: u32,
    sanitize: Sanitize,
}

/// State that all controllers of a drive share.
#[derive(Debug)]
pub struct Subsystem {
    /// Limits of the drive, with the namespaces of its description.
    limits: Limits,
    /// Number of changes to namespaces, sanitize state, data placement, reservations or paths so far.
    version: Arc<AtomicU64>,
    /// Value of `version` when the latest sanitize operation began; 0 if there was none.
    sanitized: AtomicU64,
    state: Mutex<SubsystemState>,
    /// Persistent event log, which survives power cycles.
    pub events: Mutex<PersistentEventLog>,
    /// State that the kind of the namespaces adds.
    pub kind: KindState,
    /// Reservations of the namespaces.
    pub reservations: NamespaceReservations,
    /// Gate at which a thread that changes reservations waits for commands that others execute.
    gate: CommandGate,
    /// Recorded history of the drive's changes, if it is recorded.
    history: OnceLock<Arc<History>>,
    /// Paths on which hosts reach the drive; none outside of a server.
    paths: OnceLock<Arc<Faults>>,
}

impl Subsystem {
    /// Returns the state of a new drive, with the namespaces of its description.
    pub fn new(limits: &Limits) -> Subsystem {
        let state =
            SubsystemState { namespaces: namespaces_of_description(limits), created: 0, sanitize: Sanitize::default() };
        let (version, sanitized) = (Arc::default(), AtomicU64::new(0));
        Subsystem {
            limits: *limits,
            version,
            sanitized,
            state: Mutex::new(state),
            events: Mutex::default(),
            kind: KindState::new(limits),
            reservations: NamespaceReservations::default(),
            gate: CommandGate::default(),
            history: OnceLock::new(),
            paths: OnceLock::new(),
        }
    }

    /// Records the changes of all commands in `history` from now on. Queue sets that were made before do not record.
    pub fn record(&self, history: &Arc<History>) {
        // `set` keeps the first history, which is that of the device.
        let _ = self.history.set(Arc::clone(history));
    }

    /// Returns the history in which the drive's changes are recorded, if they are.
    pub fn history(&self) -> Option<&Arc<History>> {
        self.history.get()
    }

    /// Adds a path with this address on which hosts reach the drive, and returns its number.
    pub fn add_host_path(&self, faults: &Arc<Faults>, address: String) -> u32 {
        // All front-ends of a server share the same paths, so `set` may find them set.
        let _ = self.paths.set(Arc::clone(faults));
        faults.paths.add(address, &self.version)
    }

    /// Returns the number of changes of a path so far.
    pub(super) fn path_change_count(&self, path: u32) -> u64 {
        self.paths.get().map_or(0, |faults| faults.paths.changes(path, 0).0)
    }

    /// Returns the state of a path to a namespace.
    pub(super) fn path_state(&self, path: u32, namespace: u32) -> PathState {
        self.paths.get().map_or(PathState::default(), |faults| faults.paths.state(path, namespace))
    }

    /// Returns the paths on which hosts reach the drive; none outside of a server.
    pub(super) fn paths(&self) -> Option<&DrivePaths> {
        self.paths.get().map(|faults| &faults.paths)
    }

    /// Restores the state that the drive's store has saved.
    ///
    /// # Errors
    /// If the kept namespaces do not fit this drive, because the store was made for another description or is damaged.
    pub fn load(&self, store: &Store) -> io::Result<()> {
        let mut state = locked(&self.state);
        let record = store.record(StateRecordTag::Namespaces);
        let is_new = record.is_none();
        if let Some(record) = record {
            let found = "the store holds namespaces that this drive cannot have; serve it with the description that it was made \
                         for, or make a new store";
            let kept = self.decode(&record).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, found))?;
            (state.namespaces, state.created) = kept;
        }
        let may_add = is_new || store.is_in_memory();
        state.namespaces.iter().flatten().try_for_each(|namespace| namespace.format.make_room(may_add, store))?;
        if let Some([kept, dword10 @ ..]) = store.record(StateRecordTag::Sanitize).as_deref() {
            let states = [SanitizeOperationState::Never, SanitizeOperationState::Completed];
            // If the server ended during the operation, the operation counts as failed.
            let kept = states.get(usize::from(*kept)).copied().unwrap_or(SanitizeOperationState::Failed);
            let dword10 = u32::from_le_bytes(dword10.first_chunk().copied().unwrap_or_default());
            state.sanitize = Sanitize { state: kept, dword10 };
        }
        self.kind.load(store)?;
        self.reservations.load(store);
        if let Some(record) = store.record(StateRecordTag::Events) {
            *locked(&self.events) = PersistentEventLog::decode(&record);
        }
        self.version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Saves the namespaces in the store, unless they are those of the drive description and no record exists.
    ///
    /// # Errors
    /// If the store does not take the record.
    pub fn save(&self, store: &Store) -> io::Result<()> {
        let state = locked(&self.state).clone();
        if state.namespaces == namespaces_of_description(&self.limits)
            && store.record(StateRecordTag::Namespaces).is_none()
        {
            return Ok(());
        }
        let encode = |namespace: &Option<Namespace>| namespace.map_or([0; RECORD_BYTES], |it| it.encode());
        let records = state.namespaces.iter().flat_map(encode);
        store.save_state_record(
            StateRecordTag::Namespaces,
            state.created.to_le_bytes().into_iter().chain(records).collect(),
        )
    }

    /// Raises the version, because something has changed against which commands are checked.
    pub fn raise_version(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Raises the version as [`Subsystem::raise_version`] does, and waits until no thread executes a command that was
    /// allowed before. The caller must have left its own pass.
    pub(super) fn raise_version_and_wait(&self) {
        self.raise_version();
        self.gate.wait();
    }

    /// Returns the pass of a set of queues, which tells the gate when a command executes.
    pub(super) fn pass(&self) -> GatePass {
        self.gate.pass()
    }

    /// Saves the persistent event log in the store.
    ///
    /// # Errors
    /// If the store does not take the record.
    pub fn save_event_log(&self, store: &Store) -> io::Result<()> {
        store.save_state_record(StateRecordTag::Events, locked(&self.events).encode())
    }

    /// Decodes a store's record: the namespaces, and the number of namespaces that hosts have created. None if they do
    /// not fit the drive.
    fn decode(&self, record: &[u8]) -> Option<(Vec<Option<Namespace>>, u32)> {
        let (created, records) = record.split_first_chunk()?;
        let mut namespaces: Vec<_> = records.as_chunks().0.iter().map(Namespace::decode).collect();
        let count = index(self.limits.namespaces);
        let is_beyond = namespaces.iter().skip(count).any(Option::is_some);
        namespaces.resize(count, None);
        let fits = |it: &Namespace| it.start.checked_add(it.bytes).is_some_and(|end| end <= self.capacity_bytes());
        let is_fine = |it: &&Namespace| fits(it) && (9..=16).contains(&it.format.block_shift);
        let mut sorted: Vec<&Namespace> = namespaces.iter().flatten().filter(is_fine).collect();
        sorted.sort_by_key(|namespace| namespace.start);
        let is_apart = sorted.windows(2).all(|pair| pair[0].end() <= pair[1].start);
        let is_whole = sorted.len() == namespaces.iter().flatten().count();
        (is_whole && is_apart && !is_beyond).then(|| (namespaces, u32::from_le_bytes(*created)))
    }

    /// Returns the number of changes to namespaces, sanitize state or data placement so far.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns the total capacity in bytes of all namespaces of the drive description (TNVMCAP).
    pub fn capacity_bytes(&self) -> u64 {
        u64::from(self.limits.namespaces) * self.limits.capacity_bytes()
    }

    /// Returns the bytes of the capacity that belong to no namespace (UNVMCAP).
    pub fn unallocated_capacity_bytes(&self) -> u64 {
        let allocated: u64 = self.namespaces().iter().flatten().map(|namespace| namespace.bytes).sum();
        self.capacity_bytes() - allocated
    }

    /// Returns the LBA formats that hosts can choose: the drive's own first, then those without and those with
    /// metadata.
    pub fn formats(&self) -> Vec<LbaFormat> {
        let own = self.described_block_format().matching_lba_format();
        let shifts = KindRow::of(&self.limits.kind).format_shifts;
        let further = |metadata_bytes| shifts.iter().map(move |&block_shift| LbaFormat { block_shift, metadata_bytes });
        let others = further(0).chain(further(METADATA_BYTES as u8));
        [own].into_iter().chain(others.filter(|format| *format != own)).collect()
    }

    /// Returns the format of the namespaces in the drive description.
    pub fn described_block_format(&self) -> NamespaceBlockFormat {
        NamespaceBlockFormat { block_shift: self.limits.block_shift, metadata: self.limits.kind.metadata() }
    }

    /// Returns the namespace format for the number of an LBA format and metadata settings that a host has chosen.
    ///
    /// # Errors
    ///
    /// Invalid Format if there is no such LBA format, or its blocks have no room for protection information. Also if
    /// metadata is to be at the end of each block's data (`is_extended`): it is always transferred in a separate buffer.
    pub fn choose(
        &self,
        format: usize,
        metadata: BlockMetadataFormat,
        is_extended: bool,
    ) -> Result<NamespaceBlockFormat, Status> {
        let LbaFormat { block_shift, metadata_bytes } = *self.formats().get(format).ok_or(Status::INVALID_FORMAT)?;
        match (metadata_bytes, metadata.protection) {
            (0, Some(_)) => Err(Status::INVALID_FORMAT),
            (0, None) => Ok(NamespaceBlockFormat { block_shift, metadata: None }),
            _ if is_extended => Err(Status::INVALID_FORMAT),
            _ => Ok(NamespaceBlockFormat { block_shift, metadata: Some(metadata) }),
        }
    }

    /// Returns all namespaces: namespace n at index n - 1, or none if it does not exist.
    pub fn namespaces(&self) -> Vec<Option<Namespace>> {
        locked(&self.state).namespaces.clone()
    }

    /// Returns the namespace with an identifier.
    ///
    /// # Errors
    ///
    /// Invalid Namespace if the identifier is out of range, or the namespace does not exist.
    pub fn namespace(&self, id: u32) -> Result<Namespace, Status> {
        let found = locked(&self.state).namespaces.get(place(id)).copied().flatten();
        found.ok_or(Status::INVALID_NAMESPACE)
    }

    /// Creates a namespace of `blocks` blocks in a format, attached to no controller. Returns its identifier.
    ///
    /// # Errors
    ///
    /// Namespace Identifier Unavailable if the maximum number exists, Namespace Insufficient Capacity.
    pub fn create(&self, blocks: u64, format: NamespaceBlockFormat) -> Result<u32, Status> {
        let mut state = locked(&self.state);
        let id = state.namespaces.iter().position(Option::is_none).ok_or(Status::NAMESPACE_ID_UNAVAILABLE)?;
        let bytes = blocks.checked_mul(1 << format.block_shift).filter(|bytes| *bytes <= self.capacity_bytes());
        let bytes = bytes.ok_or(Status::NAMESPACE_INSUFFICIENT_CAPACITY)?;
        let start = first_free_range(&state.namespaces, bytes, self.capacity_bytes());
        let start = start.ok_or(Status::NAMESPACE_INSUFFICIENT_CAPACITY)?;
        state.created += 1;
        let generation = state.created;
        state.namespaces[id] = Some(Namespace { start, bytes, format, generation, attached: 0 });
        self.version.fetch_add(1, Ordering::Release);
        Ok(id as u32 + 1)
    }

    /// Deletes a namespace, or all of them, for every controller.
    ///
    /// # Errors
    ///
    /// Invalid Namespace if the namespace does not exist.
    pub fn delete(&self, id: u32) -> Result<(), Status> {
        let mut state = locked(&self.state);
        match id {
            ALL_NAMESPACES => state.namespaces.fill(None),
            _ => match state.namespaces.get_mut(place(id)) {
                Some(namespace @ Some(_)) => *namespace = None,
                _ => return Err(Status::INVALID_NAMESPACE),
            },
        }
        self.version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Attaches a namespace to a controller, or detaches it from the controller.
    ///
    /// # Errors
    /// Invalid Namespace, Namespace Already Attached, Namespace Not Attached.
    pub fn attach(&self, id: u32, controller: u32, is_attached: bool) -> Result<(), Status> {
        let mut state = locked(&self.state);
        let Some(Some(namespace)) = state.namespaces.get_mut(place(id)) else { return Err(Status::INVALID_NAMESPACE) };
        match (namespace.is_attached(controller), is_attached) {
            (true, true) => return Err(Status::NAMESPACE_ALREADY_ATTACHED),
            (false, false) => return Err(Status::NAMESPACE_NOT_ATTACHED),
            _ => namespace.attached ^= 1 << bit_of(controller),
        }
        self.version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Changes the format of a namespace, or of all of them. Returns the range of each on the drive: offset and length
    /// in bytes.
    ///
    /// # Errors
    ///
    /// Invalid Format if a namespace would be shorter than a block, Invalid Namespace if none exists.
    pub fn format(&self, id: u32, format: NamespaceBlockFormat) -> Result<Vec<(u64, u64)>, Status> {
        let mut state = locked(&self.state);
        let is_meant = |place: usize| id == ALL_NAMESPACES || place + 1 == index(id);
        let numbered = state.namespaces.iter_mut().enumerate().filter(|(place, _)| is_meant(*place));
        let meant: Vec<&mut Namespace> = numbered.filter_map(|(_, namespace)| namespace.as_mut()).collect();
        if meant.is_empty() {
            return Err(Status::INVALID_NAMESPACE);
        }
        if meant.iter().any(|namespace| namespace.bytes >> format.block_shift == 0) {
            return Err(Status::INVALID_FORMAT);
        }
        let mut ranges = Vec::new();
        for namespace in meant {
            namespace.format = format;
            ranges.push((namespace.start, namespace.bytes));
        }
        self.version.fetch_add(1, Ordering::Release);
        Ok(ranges)
    }

    /// Returns the state and parameters of the latest sanitize operation.
    pub fn sanitize(&self) -> Sanitize {
        locked(&self.state).sanitize
    }

    /// Records that a sanitize operation begins or ends, or that the host has left the failure mode of one.
    pub fn set_sanitize_operation(&self, sanitize: Sanitize) {
        locked(&self.state).sanitize = sanitize;
        if sanitize.state == SanitizeOperationState::Running {
            self.sanitized.store(self.version() + 1, Ordering::Release);
        }
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Restores namespaces as they were before a change that failed.
    pub fn restore(&self, namespaces: Vec<Option<Namespace>>) {
        locked(&self.state).namespaces = namespaces;
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Saves the state of the latest sanitize operation in the store.
    ///
    /// # Errors
    /// If the store does not take the record.
    pub fn save_sanitize_operation(&self, store: &Store) -> io::Result<()> {
        let Sanitize { state, dword10 } = self.sanitize();
        let record = [&[state as u8][..], &dword10.to_le_bytes()].concat();
        store.save_state_record(StateRecordTag::Sanitize, record)
    }
}

/// Returns the namespaces of the drive description, attached to all controllers.
fn namespaces_of_description(limits: &Limits) -> Vec<Option<Namespace>> {
    let format = NamespaceBlockFormat { block_shift: limits.block_shift, metadata: limits.kind.metadata() };
    let bytes = limits.capacity_bytes();
    let namespace = |id| Namespace { start: limits.start(id), bytes, format, generation: 0, attached: u64::MAX };
    (1..=limits.namespaces).map(|id| Some(namespace(id))).collect()
}

/// Returns the index of a namespace in a list that begins with identifier 1.
fn place(id: u32) -> usize {
    index(id.wrapping_sub(1))
}

fn bit_of(controller: u32) -> u32 {
    controller.min(CONTROLLERS_MAX - 1)
}

/// Returns the aligned start, in bytes, of the first gap between namespaces that has room for `bytes`. None if there is
/// no such gap.
fn first_free_range(namespaces: &[Option<Namespace>], bytes: u64, capacity_bytes: u64) -> Option<u64> {
    let mut taken: Vec<Namespace> = namespaces.iter().flatten().copied().collect();
    taken.sort_by_key(|namespace| namespace.start);
    let ends = taken.iter().map(Namespace::end);
    let starts = std::iter::once(0).chain(ends).map(|end| end.next_multiple_of(START_BYTES));
    let limits = taken.iter().map(|namespace| namespace.start).chain([capacity_bytes]);
    starts.zip(limits).find(|(start, limit)| start.saturating_add(bytes) <= *limit).map(|(start, _)| start)
}

/// Namespace attached to a controller, with its limits and its place on the drive, against which commands are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachedNamespace {
    /// Limits of a drive that consists of this namespace alone.
    pub limits: Limits,
    /// Offset on the drive of the namespace's first byte.
    pub start: u64,
    /// True if range, format and placement handles of the namespace are those of the drive description.
    pub is_plain: bool,
    /// What reservations leave to the controller's host.
    pub reserved: HostReservationAccess,
}

/// Namespaces of a drive that are attached to one controller, in a copy that commands read without a lock.
#[derive(Clone, Debug)]
pub struct AttachedNamespaceView {
    subsystem: Arc<Subsystem>,
    controller: u32,
    /// Path on which the controller's host reaches the namespaces.
    path: u32,
    /// Host of the controller, as reservations know it.
    host: ReservingHost,
    version: u64,
    /// Status that refuses all I/O commands, while a sanitize operation runs and after one has failed.
    barred: Option<Status>,
    /// Namespaces, or the status of commands for those that are not attached or have no access on the path.
    active: Vec<Result<AttachedNamespace, Status>>,
    /// History in which the drive's changes are recorded, if they are.
    history: Option<Arc<History>>,
    /// Limits of a drive without namespaces, for commands that address none.
    none: Limits,
}

impl AttachedNamespaceView {
    /// Returns the view of the controller with this number, and of its host on this path.
    pub fn new(
        subsystem: &Arc<Subsystem>,
        controller: u32,
        (path, host): (u32, ReservingHost),
    ) -> AttachedNamespaceView {
        let none = Limits { namespaces: 0, ..subsystem.limits };
        let mut view = AttachedNamespaceView {
            subsystem: Arc::clone(subsystem),
            controller,
            path,
            host,
            version: 0,
            barred: None,
            active: Vec::new(),
            history: subsystem.history().cloned(),
            none,
        };
        view.read();
        view
    }

    /// Updates the view if namespaces have changed.
    #[inline]
    pub fn follow(&mut self) {
        if self.subsystem.version() != self.version {
            self.read();
        }
    }

    /// Shows the namespaces to another host from now on.
    pub(super) fn set_host(&mut self, host: ReservingHost) {
        self.host = host;
        self.read();
    }

    /// Returns the host of the controller, as reservations know it.
    pub(super) fn host(&self) -> ReservingHost {
        self.host
    }

    /// Returns the state that all controllers of the drive share.
    pub(super) fn subsystem(&self) -> &Arc<Subsystem> {
        &self.subsystem
    }

    /// Returns the status that a reservation gives to a command which needs this access to a namespace, or to all of
    /// them; none if it allows the command.
    #[cold]
    pub(super) fn reservation_conflict(&self, namespace: u32, needed: NamespaceAccess) -> Option<Status> {
        let reserved = (1..).zip(&self.active).filter(|(id, _)| [*id, ALL_NAMESPACES].contains(&namespace));
        let mut allowed = reserved.filter_map(|(_, active)| Some(active.as_ref().ok()?.reserved.access));
        allowed.any(|access| access < needed).then_some(Status::RESERVATION_CONFLICT)
    }

    /// Returns true if another host has aborted the host's commands in a namespace since a command was checked against
    /// the view of this version.
    pub(super) fn is_aborted_since(&self, namespace: u32, version: u64) -> bool {
        self.subsystem.reservations.access(namespace, self.host).aborted_before > version
    }

    /// Returns the version of the subsystem that the view shows.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns true if nothing has changed since a command was checked against the view of this version.
    #[inline]
    pub fn is_unchanged_since(&self, version: u64) -> bool {
        self.subsystem.version() == version
    }

    /// Returns true if a sanitize operation has begun since a command was checked against the view of this version.
    pub fn is_sanitized_since(&self, version: u64) -> bool {
        self.subsystem.sanitized.load(Ordering::Acquire) > version
    }

    #[cold]
    fn read(&mut self) {
        self.version = self.subsystem.version();
        self.barred = self.subsystem.sanitize().state.refusal_status();
        let (limits, plain) = (self.subsystem.limits, namespaces_of_description(&self.subsystem.limits));
        let active = |(id, (namespace, plain)): (u32, (Option<Namespace>, Option<Namespace>))| {
            let attached = namespace.filter(|namespace| namespace.is_attached(self.controller));
            let namespace = attached.ok_or(Status::INVALID_FIELD)?;
            refusal_status(self.subsystem.path_state(self.path, id)).map_or(Ok(()), Err)?;
            let Namespace { start, format: NamespaceBlockFormat { block_shift, metadata }, .. } = namespace;
            let place = |namespace: Namespace| (namespace.start, namespace.bytes, namespace.format);
            let (parts, is_placed_plainly) = self.subsystem.kind.parts_with_metadata(id, metadata);
            let is_plain = plain.map(place) == Some(place(namespace)) && is_placed_plainly;
            let (blocks, kind) = (namespace.blocks(), limits.kind.with_parts(parts));
            let limits = Limits { namespaces: 1, blocks, block_shift, kind, ..limits };
            let reserved = self.subsystem.reservations.access(id, self.host);
            Ok(AttachedNamespace { limits, start, is_plain, reserved })
        };
        self.active = (1..).zip(self.subsystem.namespaces().into_iter().zip(plain)).map(active).collect();
    }

    /// Returns the namespace that an I/O command addresses.
    ///
    /// # Errors
    ///
    /// Invalid Namespace if the identifier is out of range, Invalid Field if the namespace is not attached. A path related
    /// status if the path to it has no access. Sanitize In Progress or Sanitize Failed after a Sanitize.
    #[inline]
    pub fn find(&self, id: u32) -> Result<&AttachedNamespace, Status> {
        if let Some(status) = self.barred {
            return Err(status);
        }
        match self.active.get(place(id)) {
            Some(found) => found.as_ref().map_err(|status| *status),
            None => Err(Status::INVALID_NAMESPACE),
        }
    }

    /// Returns the state that the kind of the namespaces adds.
    #[inline]
    pub fn kind(&self) -> &KindState {
        &self.subsystem.kind
    }

    /// Returns the history in which the drive's changes are recorded, if they are.
    #[inline]
    pub fn history(&self) -> Option<&Arc<History>> {
        self.history.as_ref()
    }

    /// Returns the limits of a drive without namespaces, for commands that address none.
    #[inline]
    pub fn limits_without_namespaces(&self) -> &Limits {
        &self.none
    }

    /// Returns the limits of the drive, with the namespaces of its description.
    pub fn limits_of_description(&self) -> &Limits {
        &self.subsystem.limits
    }
}

#[cfg(test)]
mod tests {
    use phaselink_core::drive::Drive;

    use super::*;
    use crate::device::store::Geometry;

    #[test]
    fn interrupted_sanitize_has_failed_and_blocks_commands() {
        let limits = Limits::of(&Drive::shipped("nvme").unwrap());
        let geometry = Geometry { capacity_bytes: limits.capacity_bytes(), block_bytes: 512 };
        let store = Store::in_memory(geometry).unwrap();
        let before = Subsystem::new(&limits);
        before.set_sanitize_operation(Sanitize { state: SanitizeOperationState::Running, dword10: 2 });
        before.save_sanitize_operation(&store).unwrap();
        let after = Arc::new(Subsystem::new(&limits));
        let mut view = AttachedNamespaceView::new(&after, 0, (0, ReservingHost::OfController(0)));
        assert!(view.find(1).is_ok());
        after.load(&store).unwrap();
        view.follow();
        assert_eq!(after.sanitize(), Sanitize { state: SanitizeOperationState::Failed, dword10: 2 });
        assert_eq!(view.find(1), Err(Status::SANITIZE_FAILED));
    }

    #[test]
    fn store_with_other_namespaces_is_refused_and_kept() {
        let limits = Limits::of(&Drive::shipped("nvme").unwrap());
        let geometry = Geometry { capacity_bytes: limits.capacity_bytes(), block_bytes: 512 };
        let store = Store::in_memory(geometry).unwrap();
        let before = Subsystem::new(&limits);
        before.format(1, NamespaceBlockFormat { block_shift: 12, metadata: None }).unwrap();
        before.save(&store).unwrap();
        assert!(Subsystem::new(&limits).load(&store).is_ok());
        let smaller = Limits { blocks: limits.blocks / 2, ..limits };
        let refused = Subsystem::new(&smaller).load(&store).unwrap_err().to_string();
        assert!(refused.contains("namespaces that this drive cannot have"), "{refused}");
        let record = store.record(StateRecordTag::Namespaces).unwrap();
        let twice: Vec<u8> = record.iter().chain(&record[4..]).copied().collect();
        let two = Limits { namespaces: 2, ..limits };
        store.save_state_record(StateRecordTag::Namespaces, twice).unwrap();
        assert!(Subsystem::new(&two).load(&store).is_err(), "namespaces that overlap");
    }
}
