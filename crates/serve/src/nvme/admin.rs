//! Admin commands (Base Specification 2.0, section 5).

use phaselink_core::protocol::nvme::rules::Shadow;
use phaselink_core::protocol::nvme::rules::command::{ALL_NAMESPACES, check_flags};
use phaselink_core::protocol::nvme::spec::{PAGE_BYTES, Status, SubmissionEntry, admin};

use super::command::{copy_in, copy_out};
use super::controller::Controller;
use super::events::Event;
use super::features;
use super::host::AdminHost;
use super::queues::{CompletionQueue, SubmissionQueue};
use super::{identify, vectors};
use crate::device::store::Store;

/// Powers of two of the sizes of entries that a host has to have set before it creates queues.
const ENTRY_SIZES: (u32, u32) = (6, 4);
/// SV, in dword 10 of Set Features: keep the value across resets.
const SAVE: u32 = 1 << 31;
/// Longest log page that is handed out at a time; hosts ask for parts of what is longer.
const LOG_BYTES_MAX: u64 = 1 << 20;

/// What an admin command has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done, with dword 0 of the answer.
    Done(u32),
    /// It waits for an event, or for the memory.
    Later,
}

/// A Format NVM that has yet to be done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Formatting {
    command_id: u16,
    /// First byte on the drive, and bytes.
    range: (u64, u64),
}

impl Controller {
    /// Do an admin command.
    pub(super) fn administer(
        &mut self,
        command: &SubmissionEntry,
        host: &mut impl AdminHost,
    ) -> Result<Answer, Status> {
        check_flags(command, false)?;
        let done = |()| Answer::Done(0);
        match command.opcode {
            admin::IDENTIFY => self.identify(command, host).map(done),
            admin::GET_LOG_PAGE => self.get_log_page(command, host).map(done),
            admin::SET_FEATURES => self.set_feature(command, host).map(Answer::Done),
            admin::GET_FEATURES => self.get_feature(command, host).map(Answer::Done),
            admin::CREATE_COMPLETION_QUEUE => self.create_completion_queue(command, host).map(done),
            admin::CREATE_SUBMISSION_QUEUE => self.create_submission_queue(command, host).map(done),
            admin::DELETE_SUBMISSION_QUEUE => self.delete_submission_queue(command).map(done),
            admin::DELETE_COMPLETION_QUEUE => self.delete_completion_queue(command).map(done),
            admin::ABORT => Ok(Answer::Done(self.abort(command, host))),
            admin::ASYNC_EVENT_REQUEST => self.events.request(command.command_id).map(|()| Answer::Later),
            admin::KEEP_ALIVE => {
                self.heard = true;
                Ok(Answer::Done(0))
            }
            admin::DOORBELL_BUFFER_CONFIG => self.share_doorbells(command, host).map(done),
            admin::FORMAT_NVM => self.begin_format(command).map(|()| Answer::Later),
            _ => Err(Status::INVALID_OPCODE),
        }
    }

    fn identify(&self, command: &SubmissionEntry, host: &mut impl AdminHost) -> Result<(), Status> {
        let [first, second, ..] = command.dwords;
        let page = self.identity.answer(first as u8, (second >> 24) as u8, command.namespace_id)?;
        copy_out(command, host, &page[..])
    }

    /// Any part of a page from any word on; what is asked beyond its end is zeros.
    fn get_log_page(&mut self, command: &SubmissionEntry, host: &mut impl AdminHost) -> Result<(), Status> {
        let [first, second, low, high, ..] = command.dwords;
        let log = first as u8;
        self.collect_journals();
        let page = self.journal.page(log)?;
        let words = (u64::from(first >> 16) | u64::from(second & 0xffff) << 16) + 1;
        let offset = u64::from(low) | u64::from(high) << 32;
        if !offset.is_multiple_of(4) || offset > page.len() as u64 || words * 4 > LOG_BYTES_MAX {
            return Err(Status::INVALID_FIELD);
        }
        let mut part = page[offset as usize..].to_vec();
        part.resize((words * 4) as usize, 0);
        copy_out(command, host, &part)?;
        // RAE keeps the event that led here from being told again.
        if first >> 15 & 1 == 0 {
            self.events.read(log);
        }
        Ok(())
    }

    fn get_feature(&self, command: &SubmissionEntry, host: &mut impl AdminHost) -> Result<u32, Status> {
        let [first, select, ..] = command.dwords;
        // Only current values: ONCS offers no others.
        if first >> 8 & 7 != 0 {
            return Err(Status::INVALID_FIELD);
        }
        let value = self.features.get(first as u8, select)?;
        if let Some(structure) = self.features.structure(first as u8, host.now_ms()) {
            copy_out(command, host, &structure)?;
        }
        Ok(value)
    }

    fn set_feature(&mut self, command: &SubmissionEntry, host: &mut impl AdminHost) -> Result<u32, Status> {
        let [first, value, ..] = command.dwords;
        let feature = first as u8;
        if !features::ALL.contains(&feature) {
            return Err(Status::INVALID_FIELD);
        }
        if first & SAVE != 0 {
            return Err(Status::FEATURE_NOT_SAVEABLE);
        }
        // None of them is a namespace's, so that naming one is wrong (section 5.27).
        if !matches!(command.namespace_id, 0 | u32::MAX) {
            return Err(Status::FEATURE_NOT_OF_NAMESPACE);
        }
        if let Some(mut structure) = self.features.structure(feature, host.now_ms()) {
            copy_in(command, host, &mut structure)?;
            self.features.set_structure(feature, &structure, host.now_ms());
            return Ok(0);
        }
        let has_queues = self.has_io_queues();
        let result = self.features.set(feature, value, has_queues)?;
        self.share();
        // A new time begins with its being set, too.
        self.heard = true;
        self.look_at_temperature();
        Ok(result)
    }

    fn look_at_temperature(&mut self) {
        let was_warm = std::mem::replace(&mut self.journal.is_warm, self.features.is_warm());
        if self.journal.is_warm && !was_warm && self.features.tells_temperature() {
            self.events.raise(Event::Temperature);
        }
    }

    /// Section 5.4.
    fn create_completion_queue(&mut self, command: &SubmissionEntry, host: &mut impl AdminHost) -> Result<(), Status> {
        let [first, second, ..] = command.dwords;
        let (_, completion_queues) = self.features.queue_pairs();
        let queue =
            new_queue_id(first, completion_queues, |queue| self.set_of_answers(queue).completion(queue).is_some())?;
        let (_, entry_size) = host.registers().entry_sizes();
        let entries = self.queue_entries_of(first, entry_size == ENTRY_SIZES.1)?;
        check_queue_memory(command)?;
        let vector = (second >> 1 & 1 == 1).then_some((second >> 16) as u16);
        if vector.is_some_and(|vector| vector >= vectors(&self.identity.limits)) {
            return Err(Status::INVALID_INTERRUPT_VECTOR);
        }
        host.clear_doorbells(queue, false, true);
        self.set_of_answers(queue).add_completion(queue, CompletionQueue::new(command.prp1, entries, vector));
        Ok(())
    }

    /// Section 5.5.
    fn create_submission_queue(&mut self, command: &SubmissionEntry, host: &mut impl AdminHost) -> Result<(), Status> {
        let [first, second, ..] = command.dwords;
        let (submission_queues, completion_queues) = self.features.queue_pairs();
        let queue = new_queue_id(first, submission_queues, |queue| self.set_of(queue).submission(queue).is_some())?;
        let (entry_size, _) = host.registers().entry_sizes();
        let entries = self.queue_entries_of(first, entry_size == ENTRY_SIZES.0)?;
        check_queue_memory(command)?;
        let answers = (second >> 16) as u16;
        if answers == 0 || u32::from(answers) > completion_queues {
            return Err(Status::INVALID_QUEUE_ID);
        }
        if self.set_of_answers(answers).completion(answers).is_none() {
            return Err(Status::COMPLETION_QUEUE_INVALID);
        }
        host.clear_doorbells(queue, true, false);
        let submission = SubmissionQueue::new(command.prp1, entries, answers, self.next_generation());
        self.set_of_answers(answers).add_submission(queue, submission);
        Ok(())
    }

    /// Section 5.7. What is under way is answered to nobody.
    fn delete_submission_queue(&mut self, command: &SubmissionEntry) -> Result<(), Status> {
        let queue = command.dwords[0] as u16;
        let set = self.set_of(queue);
        if queue == 0 || set.submission(queue).is_none() {
            return Err(Status::INVALID_QUEUE_ID);
        }
        set.remove_submission(queue);
        Ok(())
    }

    /// Section 5.6: its submission queues go first.
    fn delete_completion_queue(&mut self, command: &SubmissionEntry) -> Result<(), Status> {
        let queue = command.dwords[0] as u16;
        let set = self.set_of_answers(queue);
        match set.completion(queue).filter(|_| queue != 0) {
            None => Err(Status::INVALID_QUEUE_ID),
            Some(completion) if completion.users > 0 => Err(Status::INVALID_QUEUE_DELETION),
            Some(_) => {
                set.remove_completion(queue);
                Ok(())
            }
        }
    }

    /// Section 5.1: 1 if nothing was aborted. Only what waits for an event can be.
    fn abort(&mut self, command: &SubmissionEntry, host: &mut impl AdminHost) -> u32 {
        let (queue, command_id) = (command.dwords[0] as u16, (command.dwords[0] >> 16) as u16);
        self.set_of(queue).watch(|watch| watch.on_abort(queue, command_id));
        if queue != 0 || !self.events.cancel(command_id) {
            return 1;
        }
        self.answer(command_id, Status::ABORT_REQUESTED, 0, host);
        0
    }

    /// Format NVM (section 5.14): there is one format, without metadata and protection; erasing by giving up a key is not
    /// offered (FNA). The memory is formatted by [`Controller::update`], which has it.
    fn begin_format(&mut self, command: &SubmissionEntry) -> Result<(), Status> {
        let first = command.dwords[0];
        let (format, protection, erase) = (first & 0xf | first >> 8 & 0x30, first >> 5 & 7, first >> 9 & 7);
        let (limits, namespace) = (&self.identity.limits, command.namespace_id);
        let (start, count) = match namespace {
            ALL_NAMESPACES => (0, limits.namespaces),
            _ if limits.has_namespace(namespace) => (limits.start(namespace), 1),
            _ => return Err(Status::INVALID_NAMESPACE),
        };
        let range = (start, u64::from(count) * limits.capacity_bytes());
        if erase > 1 {
            return Err(Status::INVALID_FIELD);
        }
        if format != 0 || protection != 0 {
            return Err(Status::INVALID_FORMAT);
        }
        if self.formatting.is_some() {
            return Err(Status::FORMAT_IN_PROGRESS);
        }
        self.formatting = Some(Formatting { command_id: command.command_id, range });
        Ok(())
    }

    /// Format the memory, if that has been asked for: all of the namespace, or of all of them, reads as zeros then, and will after a power cut.
    pub(super) fn format(&mut self, host: &mut impl AdminHost, store: &Store) {
        let Some(Formatting { command_id, range: (start, bytes) }) = self.formatting.take() else { return };
        let formatted = store.zero(start, bytes, false).and_then(|()| store.flush());
        let status = formatted.map_or(Status::WRITE_FAULT, |()| Status::SUCCESS);
        self.answer(command_id, status, 0, host);
    }

    /// Doorbell Buffer Config (section 5.8): two pages that the host writes its doorbells into, and reads from which
    /// values on to ring.
    fn share_doorbells(&mut self, command: &SubmissionEntry, host: &mut impl AdminHost) -> Result<(), Status> {
        let shadow = Shadow::check(command.prp1, command.prp2)?;
        // Memory that can only be reached by asking is not looked at all the time.
        if host.peek(shadow.tail(0)).is_none() || host.peek(shadow.tail_event(0)).is_none() {
            return Err(Status::INVALID_FIELD);
        }
        self.sets().iter_mut().for_each(|set| set.shadow = Some(shadow));
        Ok(())
    }

    /// Entries of a queue to be created, as dword 10 says, if the host has set the size of one.
    fn queue_entries_of(&self, first: u32, is_size_set: bool) -> Result<u32, Status> {
        let entries = self.identity.limits.check_entries((first >> 16) as u16)?;
        if is_size_set { Ok(entries) } else { Err(Status::INVALID_QUEUE_SIZE) }
    }
}

/// The number of a queue to be created: from 1 to as many as the host has been given, and not in use.
fn new_queue_id(first: u32, queues: u32, mut is_used: impl FnMut(u16) -> bool) -> Result<u16, Status> {
    let queue = first as u16;
    match (1..=queues).contains(&queue.into()) && !is_used(queue) {
        true => Ok(queue),
        false => Err(Status::INVALID_QUEUE_ID),
    }
}

/// Queues are contiguous (CAP.CQR, PC) and begin at a page.
fn check_queue_memory(command: &SubmissionEntry) -> Result<(), Status> {
    if command.dwords[1] & 1 == 0 {
        return Err(Status::INVALID_FIELD);
    }
    if !command.prp1.is_multiple_of(PAGE_BYTES) {
        return Err(Status::INVALID_PRP_OFFSET);
    }
    Ok(())
}

const _: () = assert!(identify::BYTES as u64 == PAGE_BYTES);
