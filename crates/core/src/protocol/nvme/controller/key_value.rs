//! Keys and values of a simulated drive: a key is found first, and then its value is moved.
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
use crate::media::keys::{GranuleRun, IndexPages, Key, KeyRefusal, KeySpace, StoreOptions, StoredValue};
use crate::number::short_length;
use crate::protocol::nvme::rules::key_value::{delete, status};
use crate::protocol::nvme::rules::{Action, Command, KeyCommand, KeyOperation};
use crate::protocol::nvme::spec::Status;
use crate::protocol::ports::Ports;
use crate::request::RequestId;
use crate::scheduler::Event;
use crate::time::{Span, Time};
use crate::workload::FilledKeys;

/// Keys of a simulated drive.
#[derive(Clone, Debug)]
pub(super) struct SimulatedKeys {
    space: KeySpace,
    /// Pages of the index, if only a part of it is in memory.
    pages: Option<IndexPages>,
    lookup: Span,
    /// Bytes of a unit of the translation layer, which is free once all of its granules are.
    unit_bytes: u64,
    /// True if nothing is stored before a job begins.
    is_new: bool,
    /// Answers to commands in progress, by the controller's number of the command.
    answers: BTreeMap<u32, KeyAnswer>,
    counts: KeyCounts,
}

/// Answer to a command, decided when its key was found.
#[derive(Clone, Debug, Default)]
struct KeyAnswer {
    refusal: Option<Status>,
    /// Length of the value, which the completion returns.
    value_bytes: u32,
    /// Room of the value that is written.
    value: StoredValue,
    /// Bytes that go to the host.
    sent_bytes: u32,
}

/// Numbers of commands and of accesses of the index.
#[derive(Clone, Copy, Debug, Default)]
struct KeyCounts {
    stores: u64,
    retrieves: u64,
    deletes: u64,
    refusals: u64,
    index_reads: u64,
    index_writes: u64,
}

impl SimulatedKeys {
    /// Makes the keys of a drive, if it stores values by their keys: none yet.
    pub(super) fn of(drive: &Drive) -> Option<Box<SimulatedKeys>> {
        let layout = drive.key_layout()?;
        Some(Box::new(SimulatedKeys {
            space: KeySpace::new(layout),
            pages: drive.index_pages(),
            lookup: drive.key_value.lookup,
            unit_bytes: if drive.is_flash() { drive.translation.unit_bytes.into() } else { 1 },
            is_new: drive.is_flash() && drive.translation.precondition == Precondition::None,
            answers: BTreeMap::new(),
            counts: KeyCounts::default(),
        }))
    }

    /// Returns the counters, by name.
    pub(super) fn counters(&self) -> Vec<(&'static str, u64)> {
        let KeyCounts { stores, retrieves, deletes, refusals, index_reads, index_writes } = self.counts;
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

    /// Stores values of so many bytes under their keys, as far as there is room, and deallocates all room that is left.
    fn fill(&mut self, values: impl Iterator<Item = (Key, u32)>, ports: &mut Ports) {
        for (key, bytes) in values {
            // A job finds no more keys than the drive has room for; a served drive may have been made for others.
            let _ = self.space.store(key, bytes, StoreOptions::default());
        }
        self.space.free_ranges().for_each(|(offset, bytes)| ports.media.discard(offset, bytes));
    }

    /// Decides on a command whose key has been found. Returns its answer, and the value whose room is free now.
    fn decide(
        &mut self,
        KeyCommand { operation, key }: KeyCommand,
        reports_missing: bool,
    ) -> Result<(KeyAnswer, Option<StoredValue>), Status> {
        let missing = status(KeyRefusal::Missing);
        match operation {
            KeyOperation::Store { bytes, options } => {
                let (value, replaced) = self.space.store(key, bytes, options).map_err(status)?;
                self.counts.stores += 1;
                Ok((KeyAnswer { value, ..KeyAnswer::default() }, replaced))
            }
            KeyOperation::Retrieve { buffer_bytes } => {
                let value = self.space.find(key).ok_or(missing)?.clone();
                self.counts.retrieves += 1;
                let (value_bytes, sent_bytes) = (value.bytes, buffer_bytes.min(value.bytes));
                Ok((KeyAnswer { value_bytes, value, sent_bytes, refusal: None }, None))
            }
            KeyOperation::Exist => {
                let value_bytes = self.space.find(key).ok_or(missing)?.bytes;
                Ok((KeyAnswer { value_bytes, ..KeyAnswer::default() }, None))
            }
            KeyOperation::List { .. } => {
                let list = KeyCommand { operation, key }.list(&self.space);
                Ok((KeyAnswer { sent_bytes: short_length(list.len()), ..KeyAnswer::default() }, None))
            }
            KeyOperation::Delete => {
                let deleted = delete(&mut self.space, key, reports_missing)?;
                self.counts.deletes += 1;
                Ok((KeyAnswer::default(), deleted))
            }
        }
    }

    /// Deallocates the units that the room of a value has left without a use.
    fn discard(&self, value: &StoredValue, ports: &mut Ports) {
        for run in &value.runs {
            let Some((start, end)) = self.space.free_around(*run) else { continue };
            let (first, last) = self.bytes_of(*run);
            let from = start.max(first - first % self.unit_bytes);
            let until = end.min(last.next_multiple_of(self.unit_bytes));
            ports.media.discard(from, until - from);
        }
    }

    /// Returns the first byte of a run, and the one behind its last.
    fn bytes_of(&self, (first, granules): GranuleRun) -> (u64, u64) {
        let granule = u64::from(self.space.layout().granule_bytes);
        (first * granule, (first + u64::from(granules)) * granule)
    }

    /// Returns offset and length of the parts of a value's first bytes on the media: whole granules.
    fn parts(&self, value: &StoredValue, bytes: u32) -> SmallVec<[(u64, u32); 1]> {
        let granule = self.space.layout().granule_bytes;
        value.parts(bytes, granule).map(|(offset, bytes)| (offset, bytes.next_multiple_of(granule))).collect()
    }
}

impl Controller {
    /// Finds the key of a command in the index, from `parsed` on: in memory, or in a page that has to be read. The command goes on
    /// when its key is found.
    #[cold]
    pub(super) fn find_key(&mut self, parsed: Time, id: u32, command: KeyCommand, ports: &mut Ports) {
        let Some(keys) = &mut self.keys else { return };
        let request = self.commands[id as usize].request;
        let looked_up = parsed + keys.lookup;
        ports.shared.requests.charge(request, Stage::Parse, looked_up);
        let mut found = looked_up;
        if let Some(pages) = &mut keys.pages {
            let (access, bytes) = (pages.access(command.key, command.changes_keys()), pages.page_bytes());
            keys.counts.index_reads += u64::from(access.read.is_some());
            keys.counts.index_writes += u64::from(access.written.is_some());
            if let Some(offset) = access.written {
                // Nobody waits for the page that gives way.
                let _ = ports.media.write(looked_up, offset, bytes);
            }
            found = access.read.map_or(looked_up, |offset| read_index((looked_up, offset, bytes), request, ports));
        }
        ports.shared.scheduler.at(found, Event::Controller { kind: timer::KEY_FOUND, context: id });
    }

    /// Goes on with a command whose key has been found.
    #[cold]
    pub(super) fn on_key_found(&mut self, now: Time, id: u32, ports: &mut Ports) {
        let Ok(Command { action: Action::Key(command), .. }) = self.commands[id as usize].command else { return };
        match command.operation {
            // Its room is determined when the list of its pages has been read.
            KeyOperation::Store { .. } => self.want_data(id, ports),
            KeyOperation::Retrieve { .. } | KeyOperation::List { .. } => self.bring(now, id, command, ports),
            KeyOperation::Delete | KeyOperation::Exist => {
                if let Err(status) = self.answer(id, command, ports) {
                    self.commands[id as usize].command = Err(status);
                }
                self.finish(id, ports);
            }
        }
    }

    /// Decides on a command, and notes its answer.
    fn answer(&mut self, id: u32, command: KeyCommand, ports: &mut Ports) -> Result<(), Status> {
        let reports_missing = self.limits.key_value.is_some_and(|limits| limits.reports_missing);
        let Some(keys) = &mut self.keys else { return Err(Status::INTERNAL_ERROR) };
        let decided = keys.decide(command, reports_missing);
        let (answer, freed) = decided.inspect_err(|_| keys.counts.refusals += 1)?;
        freed.into_iter().for_each(|value| keys.discard(&value, ports));
        keys.answers.insert(id, answer);
        Ok(())
    }

    /// Starts a command that brings a value or a list to the host: the access of the media and the read of the page list run in
    /// parallel. A refusal waits for the page list, which may be wrong, too.
    fn bring(&mut self, now: Time, id: u32, command: KeyCommand, ports: &mut Ports) {
        let refusal = self.answer(id, command, ports).err();
        let Some(keys) = &mut self.keys else { return };
        if refusal.is_some() {
            keys.answers.insert(id, KeyAnswer { refusal, ..KeyAnswer::default() });
        }
        let ready = self.read_answer(now, id, command, ports);
        ports.shared.scheduler.at(ready, Event::Controller { kind: timer::DATA_READY, context: id });
        self.commands[id as usize].waits = 1;
        if self.want_list(id, ports) {
            self.commands[id as usize].waits += 1;
        }
    }

    /// Reads a value, or the entries of a list, from the media. Returns the time from which the data can flow to the host.
    fn read_answer(&mut self, now: Time, id: u32, command: KeyCommand, ports: &mut Ports) -> Time {
        let (Some(keys), request) = (&self.keys, self.commands[id as usize].request) else { return now };
        let Some(answer) = keys.answers.get(&id) else { return now };
        if let (KeyOperation::List { .. }, Some(pages)) = (command.operation, &keys.pages) {
            // Entries of a list are about as long as those of the index.
            let (offset, bytes) = pages.listed(u64::from(answer.sent_bytes / 4));
            return read_index((now, offset, bytes), request, ports);
        }
        let chunk = self.max_payload_bytes;
        let read = |(offset, bytes): (u64, u32), ports: &mut Ports| {
            let timing = ports.media.read(now, offset, bytes, bytes.min(chunk));
            (ports.link.stream_start_time(bytes, chunk, timing.first_at, timing.last_at), timing)
        };
        let parts = keys.parts(&answer.value, answer.sent_bytes);
        let last = parts.into_iter().map(|part| read(part, ports)).max_by_key(|(start, _)| *start);
        let Some((start, timing)) = last else { return now };
        ports.shared.requests.charge_memory(request, [timing.admitted, timing.started, start]);
        start
    }

    /// Takes the room of a value whose data is to be read from the host. Returns false if the command is over: it is refused, or there
    /// is nothing to read.
    #[cold]
    pub(super) fn begin_store(&mut self, id: u32, ports: &mut Ports) -> bool {
        let Ok(Command { action: Action::Key(command), .. }) = self.commands[id as usize].command else { return true };
        if let Err(status) = self.answer(id, command, ports) {
            self.commands[id as usize].command = Err(status);
        } else if command.data_bytes() > 0 {
            return true;
        }
        self.finish(id, ports);
        false
    }

    /// Writes a value whose data has arrived to the media.
    #[cold]
    pub(super) fn write_value(&mut self, now: Time, id: u32, ports: &mut Ports) {
        let (Some(keys), request) = (&self.keys, self.commands[id as usize].request) else { return };
        let answer = keys.answers.get(&id).expect("a value has its room before its data is read");
        let write = |(offset, bytes)| ports.media.write(now, offset, bytes);
        let timings = keys.parts(&answer.value, answer.value.bytes).into_iter().map(write);
        let last: Option<WriteTiming> = timings.max_by_key(|timing| timing.acknowledged_at);
        let timing = last.expect("a value with data has room");
        ports.shared.requests.charge_memory(request, [timing.admitted, timing.started, timing.acknowledged_at]);
        ports.shared.scheduler.at(timing.acknowledged_at, Event::Controller { kind: timer::FINISHED, context: id });
    }

    /// Cuts the data of a command that brings a value or a list to as much as there is of it, or refuses the command.
    #[cold]
    pub(super) fn settle_key(&mut self, id: u32) {
        let accepted = &mut self.commands[id as usize];
        let Ok(command) = &mut accepted.command else { return };
        let Some(answer) = self.keys.as_ref().and_then(|keys| keys.answers.get(&id)) else { return };
        match answer.refusal {
            Some(status) => accepted.command = Err(status),
            None => {
                command.bytes = answer.sent_bytes;
                command.data.truncate(answer.sent_bytes);
            }
        }
    }

    /// Returns the length of the value that a command has found, for dword 0 of its completion, and forgets the command.
    #[cold]
    pub(super) fn take_value_bytes(&mut self, id: u32) -> u64 {
        let answer = self.keys.as_mut().and_then(|keys| keys.answers.remove(&id));
        answer.map_or(0, |answer| answer.value_bytes.into())
    }

    /// Stores the values that jobs find, unless the drive is new.
    #[cold]
    pub(super) fn fill_values(&mut self, jobs: &[FilledKeys], ports: &mut Ports) {
        let Some(keys) = &mut self.keys else { return };
        let is_new = keys.is_new;
        let number = |job: &FilledKeys, place: u64| Key::of_number(job.offset + place * u64::from(job.value_bytes));
        let of_job = |job: &FilledKeys| {
            let job = *job;
            (0..job.keys).map(move |place| (number(&job, place), job.value_bytes))
        };
        keys.fill(jobs.iter().filter(|_| !is_new).flat_map(of_job), ports);
    }

    /// Stores values that a served drive has.
    #[cold]
    pub(super) fn take_over_values(&mut self, values: &mut dyn Iterator<Item = (Key, u32)>, ports: &mut Ports) {
        if let Some(keys) = &mut self.keys {
            keys.fill(values, ports);
        }
    }
}

/// Reads pages of the index from `now` on: offset and bytes. Returns when they are in memory.
fn read_index((now, offset, bytes): (Time, u64, u32), request: Option<RequestId>, ports: &mut Ports) -> Time {
    let timing = ports.media.read(now, offset, bytes, bytes);
    ports.shared.requests.charge_memory(request, [timing.admitted, timing.started, timing.last_at]);
    timing.last_at
}
