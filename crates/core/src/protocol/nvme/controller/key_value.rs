//! Key Value commands of a simulated drive: the key is looked up first, and then the value is moved.
//!
//! ```text
//!   parsed ── index in memory ──▶ found ── Retrieve: media and page list ──▶ data ──▶ completion entry
//!                │                  │
//!                │ page missing     ├──── Store: page list ──▶ room ──▶ data ──▶ media ──▶ completion entry
//!                ▼                  │
//!              media ──────────────▶└──── Exist, Delete: completion entry
//! ```

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::{Controller, timer};
use crate::config::Precondition;
use crate::drive::Drive;
use crate::ledger::Stage;
use crate::media::WriteTiming;
use crate::media::keys::{
    GranuleRange, Key, KeyIndexPages, KeySpace, KeySpaceRefusal, StoreConditions, StoredKeyValue,
};
use crate::number::{index, short_length};
use crate::protocol::nvme::commands::{Action, ChangedState, Command, CommandRow, DataPointerUse};
use crate::protocol::nvme::rules::key_value::{delete, status};
use crate::protocol::nvme::rules::{KeyCommand, KeyValueLimits, KeyValueOperation};
use crate::protocol::nvme::spec::Status;
use crate::protocol::ports::{Ports, charge_read_flow};
use crate::request::RequestId;
use crate::scheduler::Event;
use crate::time::{Span, Time};
use crate::workload::FilledKeys;

/// Keys and values of a simulated drive: the index, the media space of the values, and the commands in progress.
#[derive(Clone, Debug)]
pub(super) struct SimulatedKeySpace {
    space: KeySpace,
    /// Index pages on the media, of which some are cached in the controller's memory; none if the whole index is in
    /// that memory.
    pages: Option<KeyIndexPages>,
    lookup: Span,
    /// Size in bytes of a mapping unit of the translation layer, which is deallocated once all granules in it are free;
    /// 1 without flash.
    unit_bytes: u64,
    /// True if the drive is new (flash without preconditioning), so that no values are stored before a job begins.
    is_new: bool,
    /// True if Delete of a key that does not exist is an error.
    reports_missing: bool,
    /// Outcomes of commands in progress, by the controller's internal command number.
    outcomes: BTreeMap<u32, KeyCommandOutcome>,
    counts: KeyCommandCounts,
}

/// Outcome of a Key Value command, decided after its key was looked up.
#[derive(Clone, Debug, Default)]
struct KeyCommandOutcome {
    refusal: Option<Status>,
    /// Length of the stored value in bytes, which the completion returns.
    value_bytes: u32,
    /// Length of the value and its granules on the media, for a Store or Retrieve.
    value: StoredKeyValue,
    /// Number of bytes of the value or key list that the command sends to the host; at most the size of the host's
    /// buffer.
    sent_bytes: u32,
}

/// Numbers of executed commands by kind, of refused commands, and of index pages read and written.
#[derive(Clone, Copy, Debug, Default)]
struct KeyCommandCounts {
    stores: u64,
    retrieves: u64,
    deletes: u64,
    refusals: u64,
    index_reads: u64,
    index_writes: u64,
}

impl SimulatedKeySpace {
    /// Returns an empty key index for a drive; none if the drive has logical blocks.
    pub(super) fn of(drive: &Drive) -> Option<Box<SimulatedKeySpace>> {
        let KeyValueLimits { layout, reports_missing, .. } = KeyValueLimits::of(drive)?;
        Some(Box::new(SimulatedKeySpace {
            space: KeySpace::new(layout),
            pages: drive.index_pages(),
            lookup: drive.key_value.lookup,
            unit_bytes: if drive.is_flash() { drive.translation.unit_bytes.into() } else { 1 },
            is_new: drive.is_flash() && drive.translation.precondition == Precondition::None,
            reports_missing,
            outcomes: BTreeMap::new(),
            counts: KeyCommandCounts::default(),
        }))
    }

    /// Returns pairs of name and value for the counters of keys, commands and index accesses.
    pub(super) fn counters(&self) -> Vec<(&'static str, u64)> {
        let KeyCommandCounts { stores, retrieves, deletes, refusals, index_reads, index_writes } = self.counts;
        let mut counters = vec![
            ("keys", self.space.keys()),
            ("value_stores", stores),
            ("value_retrieves", retrieves),
            ("key_deletes", deletes),
            ("key_refusals", refusals),
        ];
        if self.pages.is_some() {
            counters.extend([("index_reads", index_reads), ("index_writes", index_writes)]);
        }
        counters
    }

    /// Stores values of these lengths under their keys, as far as there is room. Then deallocates all media space that
    /// is still free.
    pub(super) fn fill(&mut self, values: impl Iterator<Item = (Key, u32)>, ports: &mut Ports) {
        for (key, bytes) in values {
            // Jobs never use more keys than fit. A served drive may have been filled for other jobs, so ignore keys
            // that do not fit.
            let _ = self.space.store(key, bytes, StoreConditions::default());
        }
        self.space.free_ranges().for_each(|(offset, bytes)| ports.media.discard(offset, bytes));
    }

    /// Stores the values that jobs expect to find, and deallocates the space that is still free. A new drive stores no
    /// values.
    #[cold]
    pub(super) fn fill_for(&mut self, jobs: &[FilledKeys], ports: &mut Ports) {
        let is_new = self.is_new;
        let number = |job: &FilledKeys, place: u64| Key::of_number(job.offset + place * u64::from(job.value_bytes));
        let of_job = |job: &FilledKeys| {
            let job = *job;
            (0..job.keys).map(move |place| (number(&job, place), job.value_bytes))
        };
        self.fill(jobs.iter().filter(|_| !is_new).flat_map(of_job), ports);
    }

    /// Removes the outcome of a command. Returns the length of the value that it found, for dword 0 of the completion
    /// queue entry, or 0.
    #[cold]
    pub(super) fn take_found_value_length(&mut self, id: u32) -> u64 {
        self.outcomes.remove(&id).map_or(0, |outcome| outcome.value_bytes.into())
    }

    /// Executes a command on the index after its key was looked up. Returns the outcome, and the deleted or replaced
    /// value whose space is now free.
    fn execute_on_index(
        &mut self,
        KeyCommand { operation, key }: KeyCommand,
    ) -> Result<(KeyCommandOutcome, Option<StoredKeyValue>), Status> {
        let missing = status(KeySpaceRefusal::Missing);
        match operation {
            KeyValueOperation::Store { bytes, options } => {
                let (value, replaced) = self.space.store(key, bytes, options).map_err(status)?;
                self.counts.stores += 1;
                Ok((KeyCommandOutcome { value, ..KeyCommandOutcome::default() }, replaced))
            }
            KeyValueOperation::Retrieve { buffer_bytes } => {
                let value = self.space.find(key).ok_or(missing)?.clone();
                self.counts.retrieves += 1;
                let (value_bytes, sent_bytes) = (value.bytes, buffer_bytes.min(value.bytes));
                Ok((KeyCommandOutcome { value_bytes, value, sent_bytes, refusal: None }, None))
            }
            KeyValueOperation::Exist => {
                let value_bytes = self.space.find(key).ok_or(missing)?.bytes;
                Ok((KeyCommandOutcome { value_bytes, ..KeyCommandOutcome::default() }, None))
            }
            KeyValueOperation::List { .. } => {
                let list = KeyCommand { operation, key }.list(&self.space);
                Ok((KeyCommandOutcome { sent_bytes: short_length(list.len()), ..KeyCommandOutcome::default() }, None))
            }
            KeyValueOperation::Delete => {
                let deleted = delete(&mut self.space, key, self.reports_missing)?;
                self.counts.deletes += 1;
                Ok((KeyCommandOutcome::default(), deleted))
            }
        }
    }

    /// Deallocates the mapping units that are entirely free after the space of this value was freed.
    fn discard(&self, value: &StoredKeyValue, ports: &mut Ports) {
        for run in &value.runs {
            let Some((start, end)) = self.space.free_range_around(*run) else { continue };
            let (first, last) = self.bytes_of(*run);
            let from = start.max(first - first % self.unit_bytes);
            let until = end.min(last.next_multiple_of(self.unit_bytes));
            ports.media.discard(from, until - from);
        }
    }

    /// Returns the byte range of a run of granules on the media: its first byte, and the first byte after it.
    fn bytes_of(&self, (first, granules): GranuleRange) -> (u64, u64) {
        let granule = u64::from(self.space.layout().granule_bytes);
        (first * granule, (first + u64::from(granules)) * granule)
    }

    /// Returns offset and length in bytes on the media of each part of a value's first `bytes` bytes, rounded up to
    /// whole granules.
    fn parts(&self, value: &StoredKeyValue, bytes: u32) -> SmallVec<[(u64, u32); 1]> {
        let granule = self.space.layout().granule_bytes;
        value.parts(bytes, granule).map(|(offset, bytes)| (offset, bytes.next_multiple_of(granule))).collect()
    }
}

impl Controller {
    /// Returns row and parameters of an accepted Key Value command; none for a command of another set.
    fn accepted_key_command(&self, id: u32) -> Option<(&'static CommandRow, KeyCommand)> {
        let Ok(Command { row, action: Action::Key(command), .. }) = self.commands[index(id)].command else {
            return None;
        };
        Some((row, command))
    }

    /// Looks up a command's key in the index, from `parsed` on: in memory, or in a page that is first read from the
    /// media. Schedules the continuation of the command for the end of the lookup.
    #[cold]
    pub(super) fn look_up_key(&mut self, parsed: Time, id: u32, ports: &mut Ports) {
        let Some((row, command)) = self.accepted_key_command(id) else { return };
        let keys = self.namespace.keys();
        let (request, changes_keys) = (self.commands[index(id)].request, row.changes == ChangedState::Keys);
        let looked_up = parsed + keys.lookup;
        ports.shared.requests.charge(request, Stage::Parse, looked_up);
        let mut found = looked_up;
        if let Some(pages) = &mut keys.pages {
            let (access, bytes) = (pages.access(command.key, changes_keys), pages.page_bytes());
            keys.counts.index_reads += u64::from(access.read.is_some());
            keys.counts.index_writes += u64::from(access.written.is_some());
            if let Some(offset) = access.written {
                // No command waits for the write of the evicted index page.
                let _ = ports.media.write(looked_up, offset, bytes);
            }
            found =
                access.read.map_or(looked_up, |offset| read_index_pages((looked_up, offset, bytes), request, ports));
        }
        ports.shared.scheduler.at(found, Event::Controller { kind: timer::KEY_FOUND, context: id });
    }

    /// Continues a Key Value command after the lookup of its key. Requests the data of a Store, starts a Retrieve or
    /// List, or ends a Delete or Exist.
    #[cold]
    pub(super) fn on_key_found(&mut self, now: Time, id: u32, ports: &mut Ports) {
        let Some((row, command)) = self.accepted_key_command(id) else { return };
        match row.data {
            // The space for the value is reserved when the list of its pages has been read.
            DataPointerUse::FromHost | DataPointerUse::List(_) => self.request_command_data(id, ports),
            DataPointerUse::ToHost => self.start_media_access(now, id, command, ports),
            DataPointerUse::None => {
                if let Err(status) = self.execute_key_value_command(id, command, ports) {
                    self.commands[index(id)].command = Err(status);
                }
                self.finish(id, ports);
            }
        }
    }

    /// Executes a command on the index, deallocates the space that becomes free, and stores the outcome under the
    /// command's number.
    fn execute_key_value_command(&mut self, id: u32, command: KeyCommand, ports: &mut Ports) -> Result<(), Status> {
        let keys = self.namespace.keys();
        let decided = keys.execute_on_index(command);
        let (outcome, freed) = decided.inspect_err(|_| keys.counts.refusals += 1)?;
        freed.into_iter().for_each(|value| keys.discard(&value, ports));
        keys.outcomes.insert(id, outcome);
        Ok(())
    }

    /// Starts a Retrieve or List: the media access and the read of the PRP list or SGL run in parallel. A refused
    /// command waits for its PRP list as well, since a wrong list is another error.
    fn start_media_access(&mut self, now: Time, id: u32, command: KeyCommand, ports: &mut Ports) {
        let refusal = self.execute_key_value_command(id, command, ports).err();
        if refusal.is_some() {
            self.namespace.keys().outcomes.insert(id, KeyCommandOutcome { refusal, ..KeyCommandOutcome::default() });
        }
        let ready = self.read_key_data(now, id, command, ports);
        ports.shared.scheduler.at(ready, Event::Controller { kind: timer::DATA_READY, context: id });
        self.commands[index(id)].waits = 1;
        if self.request_list_part(id, ports) {
            self.commands[index(id)].waits += 1;
        }
    }

    /// Reads the value of a Retrieve, or the index pages of a List, from the media. Returns the time from which the
    /// data can be sent to the host.
    fn read_key_data(&mut self, now: Time, id: u32, command: KeyCommand, ports: &mut Ports) -> Time {
        let (keys, request) = (self.namespace.keys(), self.commands[index(id)].request);
        let Some(outcome) = keys.outcomes.get(&id) else { return now };
        if let (KeyValueOperation::List { .. }, Some(pages)) = (command.operation, &keys.pages) {
            // An entry of a key list is assumed to be as long as an entry of the index.
            let (offset, bytes) = pages.listed(u64::from(outcome.sent_bytes / 4));
            return read_index_pages((now, offset, bytes), request, ports);
        }
        let chunk = self.max_payload_bytes;
        let read = |(offset, bytes): (u64, u32), ports: &mut Ports| {
            let timing = ports.media.read(now, offset, bytes, bytes.min(chunk));
            (ports.link.earliest_stream_start(bytes, chunk, timing.first_at, timing.last_at), timing, bytes)
        };
        let parts = keys.parts(&outcome.value, outcome.sent_bytes);
        let last = parts.into_iter().map(|part| read(part, ports)).max_by_key(|(start, ..)| *start);
        last.map_or(now, |(_, timing, bytes)| charge_read_flow(&timing, bytes, chunk, request, ports))
    }

    /// Reserves media space for the value of a Store before its data is read from the host. Returns false if the
    /// command has ended: it was refused, or the value has no bytes.
    #[cold]
    pub(super) fn reserve_value_space(&mut self, id: u32, ports: &mut Ports) -> bool {
        let Some((_, command)) = self.accepted_key_command(id) else { return true };
        if let Err(status) = self.execute_key_value_command(id, command, ports) {
            self.commands[index(id)].command = Err(status);
        } else if command.data_bytes() > 0 {
            return true;
        }
        self.finish(id, ports);
        false
    }

    /// Writes the value of a Store, whose data has arrived from the host, to the media. Schedules the end of the
    /// command at the last acknowledgement.
    #[cold]
    pub(super) fn write_value(&mut self, now: Time, id: u32, ports: &mut Ports) {
        let (keys, request) = (self.namespace.keys(), self.commands[index(id)].request);
        let outcome = keys.outcomes.get(&id).expect("a value has its room before its data is read");
        let write = |(offset, bytes)| ports.media.write(now, offset, bytes);
        let timings = keys.parts(&outcome.value, outcome.value.bytes).into_iter().map(write);
        let last: Option<WriteTiming> = timings.max_by_key(|timing| timing.acknowledged_at);
        let timing = last.expect("a value with data has room");
        ports.shared.requests.charge_media_access(request, timing.stages());
        ports.shared.scheduler.at(timing.acknowledged_at, Event::Controller { kind: timer::FINISHED, context: id });
    }

    /// Shortens the data of a Retrieve or List to the bytes that are sent to the host, or refuses the command with the
    /// status decided earlier.
    #[cold]
    pub(super) fn settle_key_transfer(&mut self, id: u32) {
        let accepted = &mut self.commands[index(id)];
        let Ok(command) = &mut accepted.command else { return };
        let Some(outcome) = self.namespace.keys().outcomes.get(&id) else { return };
        match outcome.refusal {
            Some(status) => accepted.command = Err(status),
            None => {
                command.bytes = outcome.sent_bytes;
                command.data.truncate(outcome.sent_bytes);
            }
        }
    }
}

/// Reads pages of the index from the media, from `now` on, at this offset and of this length in bytes. Returns the time
/// at which they are in memory.
fn read_index_pages((now, offset, bytes): (Time, u64, u32), request: Option<RequestId>, ports: &mut Ports) -> Time {
    let timing = ports.media.read(now, offset, bytes, bytes);
    ports.shared.requests.charge_media_access(request, timing.stages(timing.last_at));
    timing.last_at
}
