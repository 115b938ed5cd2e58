//! State of a host's connection without its socket: PDUs that arrive and leave, and the commands in between.
//!
//! ```text
//!    received bytes ──> PDU ──> command in a slot ──> data, if it comes later (R2T, H2CData) ──> arrived
//!                                                                                                   │ submit
//!    sent bytes <── C2HData, response capsule <── slot is free <── complete <── controller <── submission queue
//! ```
//!
//! A slot holds a command from its capsule to its completion, with its data. Slots stand for the entries of the
//! submission queue in host memory that a controller in a fabric does not have: the controller reads the entry of a slot
//! as if it were there, and the data of the slot at an address that the entry names. A host can send anything: a PDU
//! that breaks the protocol ends the connection with a termination request, and nothing else.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::mem;

use phaselink_core::config::FaultDigest;
use phaselink_core::number::{index, length, low_u16, short_length};
use phaselink_core::protocol::nvme::spec::{
    COMPLETION_ENTRY_BYTES, CompletionEntry, PSDT_SGL, SUBMISSION_ENTRY_BYTES, Status, SubmissionEntry,
};
use smallvec::SmallVec;

use super::encoder::EncodedHeader;
use super::fabrics::status;
use super::output::{Output, SLICES_MAX};
use super::slot::{CommandDataDirection, CommandSlot, NO_SLOT, Payload, SlotState};
use super::wire::{
    COMMON_HEADER_BYTES, CommandDataLocation, DIGEST_BYTES, Encoder, FatalPduError, HEADER_BYTES_MAX,
    InitializationParameters, PduHeader, PduLayout, PduLimits, PduType, Sender, TerminationStatus, Transfer, at,
    digest,
};
use crate::front::buffer::Buffer;

/// Maximum number of data bytes in a command capsule (assumed: two pages, which the specification demands for the admin
/// queue).
pub const CAPSULE_DATA_BYTES: u32 = 8192;
/// Maximum number of data bytes in an H2CData PDU (MAXH2CDATA; assumed).
pub const HOST_DATA_BYTES: u32 = 1 << 20;
/// Number of data bytes of commands in flight of a connection, beyond which further commands wait.
const BUFFERED_BYTES_MAX: usize = 16 << 20;
/// Number of bytes of unsent headers and responses, beyond which nothing is received from the host.
const UNSENT_BYTES_MAX: usize = 256 << 10;
/// Room in bytes for received PDUs, and the part of it that is used while data of a host is expected. That data should
/// go directly to its slot.
const INPUT_BYTES: usize = 128 << 10;
const INPUT_BYTES_AHEAD: usize = 4 << 10;
/// Number of slots before the connection has a queue: for Connect.
const FIRST_SLOTS: u32 = 2;

/// Phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionPhase {
    /// The host has not initialized the connection.
    New,
    /// Commands arrive.
    Open,
    /// A termination request has been sent or received.
    Ended,
}

/// State of a connection without its socket.
#[derive(Debug)]
pub struct QueueConnectionState {
    phase: ConnectionPhase,
    limits: PduLimits,
    encoder: Encoder,
    input: Buffer,
    payload: Option<Payload>,
    output: Output,
    slots: Vec<CommandSlot>,
    free: Vec<u16>,
    /// First slot of each chain, by the lowest bits of the command identifier.
    by_id: Vec<u16>,
    waiting: VecDeque<u16>,
    arrived: VecDeque<u16>,
    /// Number of commands whose data is still to arrive.
    receiving: u32,
    /// Number of entries of the submission queue, as the host has asked for.
    entries: u32,
    /// Identifier of the queue; none before Connect.
    queue: Option<u16>,
    has_flow_control: bool,
    /// Slots in the order in which they were submitted, as a ring.
    ring: Vec<u16>,
    tail: u32,
    posted: u32,
    /// Index of the next entry of the host's submission queue (SQHD).
    head: u32,
    /// Maximum number of data bytes of a command.
    data_max: u32,
    buffered: usize,
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
    /// True if a fault makes the digest of the next header wrong.
    has_wrong_header: bool,
}

impl QueueConnectionState {
    /// Returns the state of a connection that has just been accepted. A command transfers at most `data_max` bytes.
    pub fn new(data_max: u32) -> QueueConnectionState {
        let mut session = QueueConnectionState {
            phase: ConnectionPhase::New,
            limits: PduLimits::BEFORE,
            encoder: Encoder::default(),
            input: Buffer::with_room(HEADER_BYTES_MAX),
            payload: None,
            output: Output::default(),
            slots: Vec::new(),
            free: Vec::new(),
            by_id: Vec::new(),
            waiting: VecDeque::new(),
            arrived: VecDeque::new(),
            receiving: 0,
            entries: FIRST_SLOTS,
            queue: None,
            has_flow_control: true,
            ring: Vec::new(),
            tail: 0,
            posted: 0,
            head: 0,
            data_max,
            buffered: 0,
            spare: Vec::new(),
            spare_bytes: 0,
            has_wrong_header: false,
        };
        session.create_command_slots(FIRST_SLOTS);
        session
    }

    /// Makes the slots of a queue of this many entries. Commands in flight keep theirs.
    fn create_command_slots(&mut self, entries: u32) {
        let before = self.slots.len();
        self.slots.resize_with(index(entries), CommandSlot::default);
        self.free.extend((before..self.slots.len()).rev().map(|slot| low_u16(length(slot))));
        self.by_id = vec![NO_SLOT; index(entries).next_power_of_two()];
        let used = self.slots.iter().enumerate().filter(|(_, slot)| slot.state != SlotState::Free);
        let used: Vec<u16> = used.map(|(slot, _)| low_u16(length(slot))).collect();
        used.into_iter().for_each(|slot| self.index_command_id(slot));
        self.ring = vec![NO_SLOT; index(entries) + 1];
    }

    /// Opens the queue that Connect has asked for, with this many entries.
    pub fn open_connected_queue(&mut self, queue: u16, entries: u32, has_flow_control: bool) {
        (self.queue, self.entries, self.has_flow_control) = (Some(queue), entries, has_flow_control);
        // Connect was the first entry of the queue, so the head is at the second.
        self.head = 1 % entries;
        self.create_command_slots(entries.max(FIRST_SLOTS));
    }

    /// Returns the number of entries of the queues that stand for this connection in the controller: one more than the
    /// host has, since an entry of a full ring stays free.
    pub fn controller_ring_entries(&self) -> u32 {
        short_length(self.ring.len())
    }

    /// Returns the identifier of the queue; none before Connect.
    pub fn queue(&self) -> Option<u16> {
        self.queue
    }

    /// Forgets all submitted commands without completions, because the controller has been reset. Commands that have not
    /// been submitted stay.
    pub fn drop_commands_after_controller_reset(&mut self) {
        (self.tail, self.posted) = (0, 0);
        for slot in 0..low_u16(length(self.slots.len())) {
            if self.slots[usize::from(slot)].state == SlotState::Submitted {
                self.release(slot);
            }
        }
    }

    /// Sets the positions of the rings to zero, since the controller creates its queues.
    pub fn reset_ring_positions(&mut self, has_tail: bool, has_head: bool) {
        self.tail = if has_tail { 0 } else { self.tail };
        self.posted = if has_head { 0 } else { self.posted };
    }

    /// True if a termination request has been sent or received, so that nothing else counts.
    pub fn has_ended(&self) -> bool {
        self.phase == ConnectionPhase::Ended
    }

    /// True if the host has initialized the connection.
    pub fn is_open(&self) -> bool {
        self.phase == ConnectionPhase::Open
    }

    // Reception.

    /// Returns room for received bytes: the rest of data that is being received, and room for further PDUs. Both are
    /// empty while the host has to read responses first.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn room(&mut self) -> io::Result<[&mut [u8]; 2]> {
        if self.phase == ConnectionPhase::Ended || self.output.head_bytes() > UNSENT_BYTES_MAX {
            return Ok([&mut [], &mut []]);
        }
        let ahead =
            if self.receiving > 0 || self.phase == ConnectionPhase::New { INPUT_BYTES_AHEAD } else { INPUT_BYTES };
        let room = self.input.room(ahead.min(INPUT_BYTES / 4))?;
        let end = room.len().min(ahead);
        let input = &mut room[..end];
        let data = match self.payload {
            Some(Payload { slot, at, end, .. }) => &mut self.slots[usize::from(slot)].data[at..end],
            None => &mut [],
        };
        Ok([data, input])
    }

    /// Notes that the first `bytes` bytes of the room have been filled, and handles every PDU that is complete.
    pub fn filled(&mut self, bytes: usize) {
        let mut rest = bytes;
        if let Some(payload) = &mut self.payload {
            let here = rest.min(payload.end - payload.at);
            payload.at += here;
            rest -= here;
        }
        self.input.filled(rest);
        self.parse();
    }

    fn parse(&mut self) {
        while self.phase != ConnectionPhase::Ended {
            let is_whole = if self.payload.is_some() { self.receive_h2c_data() } else { self.process_next_pdu() };
            match is_whole {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => self.terminate_with_fatal_error(error),
            }
        }
    }

    /// Handles the PDU at the start of the input; returns false if a part of it is missing.
    fn process_next_pdu(&mut self) -> Result<bool, FatalPduError> {
        let bytes = self.input.data();
        let Some(common) = bytes.first_chunk::<COMMON_HEADER_BYTES>() else { return Ok(false) };
        let is_request = common[at::TYPE] == PduType::InitializeRequest.number();
        if is_request != (self.phase == ConnectionPhase::New) {
            // Any other known type is out of sequence.
            let is_known =
                PduType::ALL.iter().any(|kind| kind.number() == common[at::TYPE] && kind.sender() == Sender::Host);
            return Err(if is_known {
                FatalPduError::of(TerminationStatus::SequenceError)
            } else {
                FatalPduError::field(at::TYPE)
            });
        }
        let layout = PduLayout::check(common, Sender::Host, &self.limits)?;
        if bytes.len() < layout.header_end() {
            return Ok(false);
        }
        let header = layout.header(bytes)?;
        match header {
            PduHeader::HostData { transfer, is_last } => {
                if bytes.len() < layout.data_at {
                    return Ok(false);
                }
                self.begin_h2c_data(&layout, &transfer, is_last)?;
                self.input.consume(layout.data_at);
                return Ok(true);
            }
            _ if bytes.len() < layout.total_bytes() => return Ok(false),
            PduHeader::InitializeRequest(parameters) => {
                self.initialize(&parameters)?;
            }
            PduHeader::Command(entry) => self.accept_command_capsule(&layout, &entry)?,
            PduHeader::Termination { .. } => self.phase = ConnectionPhase::Ended,
            _ => return Err(FatalPduError::field(at::TYPE)),
        }
        self.input.consume(layout.total_bytes());
        Ok(true)
    }

    fn initialize(&mut self, host: &InitializationParameters) -> Result<(), FatalPduError> {
        let own = InitializationParameters { alignment: 0, digests: host.digests, limit: HOST_DATA_BYTES };
        self.limits = PduLimits {
            digests: host.digests,
            alignment: own.data_alignment_bytes(),
            capsule_data_max: CAPSULE_DATA_BYTES,
            data_max: HOST_DATA_BYTES,
        };
        self.encoder = Encoder { digests: host.digests, alignment: host.data_alignment_bytes() };
        self.output.push(self.encoder.initialize(PduType::InitializeResponse, &own).bytes());
        self.phase = ConnectionPhase::Open;
        Ok(())
    }

    /// Puts the command of a capsule into a slot. A command whose data pointer is invalid is completed at once.
    fn accept_command_capsule(
        &mut self,
        layout: &PduLayout,
        bytes: &[u8; SUBMISSION_ENTRY_BYTES],
    ) -> Result<(), FatalPduError> {
        let entry = SubmissionEntry::decode(bytes);
        self.head = if self.head + 1 >= self.entries { 0 } else { self.head + 1 };
        if self.find(entry.command_id).is_some() {
            self.push_response_capsule(entry.command_id, COMMAND_ID_CONFLICT, 0);
            return Ok(());
        }
        // The host has submitted more commands than its queue has entries.
        let slot = self.free.pop().ok_or_else(|| FatalPduError::of(TerminationStatus::SequenceError))?;
        let flow = CommandDataDirection::of(&entry);
        self.slots[usize::from(slot)] = CommandSlot {
            state: SlotState::Arrived,
            flow,
            entry,
            data: mem::take(&mut self.slots[usize::from(slot)].data),
            ..CommandSlot::default()
        };
        self.index_command_id(slot);
        match self.locate_command_data(slot, layout) {
            Ok(()) => {}
            Err(status) => self.respond(slot, status, 0),
        }
        Ok(())
    }

    /// Finds the data of a command, as its data pointer says: in its capsule, or in PDUs to come.
    fn locate_command_data(&mut self, slot: u16, layout: &PduLayout) -> Result<(), Status> {
        let CommandSlot { entry, flow, .. } = self.slots[usize::from(slot)];
        if flow == CommandDataDirection::None {
            self.arrived.push_back(slot);
            return Ok(());
        }
        if entry.flags & PSDT_SGL == 0 {
            return Err(Status::INVALID_FIELD);
        }
        match (CommandDataLocation::of(entry.prp1, entry.prp2), flow) {
            (CommandDataLocation::InCapsule { offset, bytes }, CommandDataDirection::FromHost) => {
                let start = usize::try_from(offset).map_err(|_| status::INVALID_SGL_OFFSET)?;
                if start > layout.data_bytes || start > 0 && start == layout.data_bytes {
                    return Err(status::INVALID_SGL_OFFSET);
                }
                let end = start + index(bytes);
                if end > layout.data_bytes {
                    return Err(Status::INVALID_SGL_LENGTH);
                }
                self.copy_capsule_data_to_slot(slot, layout, (start, end));
                Ok(())
            }
            (CommandDataLocation::Transport { bytes }, _) if bytes <= self.data_max => {
                self.slots[usize::from(slot)].bytes = bytes;
                if bytes == 0 {
                    self.arrived.push_back(slot);
                } else if self.waiting.is_empty() && self.has_buffer_room(bytes) {
                    self.admit_command_data(slot);
                } else {
                    self.slots[usize::from(slot)].state = SlotState::Waiting;
                    self.waiting.push_back(slot);
                }
                Ok(())
            }
            (CommandDataLocation::Transport { .. }, _) => Err(Status::INVALID_SGL_LENGTH),
            (CommandDataLocation::InCapsule { .. } | CommandDataLocation::Other, _) => Err(Status::INVALID_SGL_TYPE),
        }
    }

    /// Copies the data of a capsule to its slot.
    fn copy_capsule_data_to_slot(&mut self, slot: u16, layout: &PduLayout, (start, end): (usize, usize)) {
        let bytes = short_length(end - start);
        self.reserve(slot, bytes);
        let all = &self.input.data()[layout.data_at..]
            [..layout.data_bytes + if layout.has_data_digest { DIGEST_BYTES } else { 0 }];
        let (data, received) = all.split_at(layout.data_bytes);
        let is_corrupt = received.first_chunk().is_some_and(|received| u32::from_le_bytes(*received) != digest(data));
        let place = &mut self.slots[usize::from(slot)];
        place.data[..end - start].copy_from_slice(&data[start..end]);
        (place.bytes, place.filled, place.is_corrupt) = (bytes, bytes, is_corrupt);
        self.mark_command_arrived(slot);
    }

    /// Marks a command as arrived. One whose data is corrupt is completed with Transient Transport Error.
    fn mark_command_arrived(&mut self, slot: u16) {
        self.slots[usize::from(slot)].state = SlotState::Arrived;
        match self.slots[usize::from(slot)].is_corrupt {
            true => self.respond(slot, status::TRANSIENT_TRANSPORT_ERROR, 0),
            false => self.arrived.push_back(slot),
        }
    }

    fn has_buffer_room(&self, bytes: u32) -> bool {
        self.buffered == 0 || self.buffered + index(bytes) <= BUFFERED_BYTES_MAX
    }

    /// Gives a slot a buffer of at least `bytes` bytes, which count as buffered.
    fn reserve(&mut self, slot: u16, bytes: u32) {
        self.buffered += index(bytes);
        let place = &mut self.slots[usize::from(slot)];
        place.reserved = bytes;
        if place.data.is_empty()
            && let Some(spare) = self.spare.pop()
        {
            self.spare_bytes -= spare.len();
            place.data = spare;
        }
        if place.data.len() < index(bytes) {
            place.data.resize(index(bytes), 0);
        }
    }

    /// Lets a command go on for whose data there is room: requests the data from the host, or lets it be executed.
    fn admit_command_data(&mut self, slot: u16) {
        let CommandSlot { bytes, flow, entry, .. } = self.slots[usize::from(slot)];
        self.reserve(slot, bytes);
        if flow == CommandDataDirection::ToHost {
            return self.mark_command_arrived(slot);
        }
        self.slots[usize::from(slot)].state = SlotState::Receiving;
        self.receiving += 1;
        let transfer = Transfer { command_id: entry.command_id, tag: slot, offset: 0, bytes };
        self.output.push(self.encoder.encode_ready_to_transfer(&transfer).bytes());
    }

    fn admit_waiting_commands(&mut self) {
        while let Some(&slot) = self.waiting.front()
            && self.has_buffer_room(self.slots[usize::from(slot)].bytes)
        {
            self.waiting.pop_front();
            self.admit_command_data(slot);
        }
    }

    /// Checks the header of an H2CData PDU against the R2T that it answers. Data comes in order.
    fn begin_h2c_data(&mut self, layout: &PduLayout, transfer: &Transfer, is_last: bool) -> Result<(), FatalPduError> {
        let slot = self.slots.get(usize::from(transfer.tag)).filter(|slot| slot.state == SlotState::Receiving);
        let slot = slot.ok_or_else(|| FatalPduError::field(at::TAG))?;
        if slot.entry.command_id != transfer.command_id {
            return Err(FatalPduError::field(at::COMMAND_ID));
        }
        let left = slot.bytes - slot.filled;
        if transfer.offset != slot.filled || transfer.bytes > left {
            return Err(FatalPduError::of(TerminationStatus::DataOutOfRange));
        }
        if is_last != (transfer.bytes == left) {
            return Err(FatalPduError::field(at::FLAGS));
        }
        let start = index(transfer.offset);
        let (end, has_digest) = (start + layout.data_bytes, layout.has_data_digest);
        self.payload = Some(Payload { slot: transfer.tag, at: start, start, end, has_digest, is_last });
        Ok(())
    }

    /// Moves received bytes to the data of a slot; returns false if bytes are missing.
    fn receive_h2c_data(&mut self) -> Result<bool, FatalPduError> {
        let Some(mut payload) = self.payload.take() else { return Ok(false) };
        let slot = &mut self.slots[usize::from(payload.slot)];
        let here = self.input.data().len().min(payload.end - payload.at);
        slot.data[payload.at..payload.at + here].copy_from_slice(&self.input.data()[..here]);
        self.input.consume(here);
        payload.at += here;
        let digest_bytes = if payload.has_digest { DIGEST_BYTES } else { 0 };
        if payload.at < payload.end || self.input.data().len() < digest_bytes {
            self.payload = Some(payload);
            return Ok(false);
        }
        if let Some(received) = self.input.data().first_chunk().filter(|_| payload.has_digest) {
            let is_wrong = u32::from_le_bytes(*received) != digest(&slot.data[payload.start..payload.end]);
            slot.is_corrupt |= is_wrong;
            self.input.consume(DIGEST_BYTES);
        }
        slot.filled = short_length(payload.end);
        if payload.is_last {
            self.receiving -= 1;
            self.mark_command_arrived(payload.slot);
        }
        Ok(true)
    }

    /// Ends the connection with a termination request that says what is wrong with the PDU at the start of the input.
    fn terminate_with_fatal_error(&mut self, error: FatalPduError) {
        let header = self.input.data();
        let cause = &header[..header.len().min(header.get(at::HEADER_LENGTH).copied().unwrap_or(0).into())];
        let request = self.encoder.terminate(PduType::ControllerTermination, error, cause);
        self.end(&request);
    }

    fn end(&mut self, request: &[u8]) {
        self.output.push(request);
        (self.phase, self.payload) = (ConnectionPhase::Ended, None);
        self.arrived.clear();
        self.waiting.clear();
    }

    /// Ends the connection because the host has broken the order of commands.
    pub fn terminate_with_sequence_error(&mut self) {
        let error = FatalPduError::of(TerminationStatus::SequenceError);
        let request = self.encoder.terminate(PduType::ControllerTermination, error, &[]);
        self.end(&request);
    }

    // Commands.

    /// Returns the next command that has arrived with its data, and its slot, without taking it.
    pub fn arrived(&self) -> Option<(u16, &SubmissionEntry)> {
        let slot = *self.arrived.front()?;
        Some((slot, &self.slots[usize::from(slot)].entry))
    }

    /// Takes the command that [`QueueConnectionState::arrived`] has returned out of the list of arrived commands.
    pub fn take_arrived(&mut self) {
        self.arrived.pop_front();
    }

    /// Returns true if a command has arrived that has not been taken.
    #[inline]
    pub fn has_arrived(&self) -> bool {
        !self.arrived.is_empty()
    }

    /// Returns the data of an arrived command.
    pub fn data(&self, slot: u16) -> &[u8] {
        let slot = &self.slots[usize::from(slot)];
        &slot.data[..index(slot.filled)]
    }

    /// Submits an arrived command to the controller's queue. `address` is that of the slot's data.
    pub fn submit(&mut self, slot: u16, address: u64) {
        let place = &mut self.slots[usize::from(slot)];
        let has_data = place.flow != CommandDataDirection::None && place.bytes > 0;
        place.state = SlotState::Submitted;
        (place.entry.prp1, place.entry.prp2) = if has_data { (address, place.bytes.into()) } else { (0, 0) };
        self.ring[index(self.tail)] = slot;
        self.tail = if index(self.tail) + 1 == self.ring.len() { 0 } else { self.tail + 1 };
    }

    /// Returns the tail of the submission queue and the head of the completion queue, as the host's doorbells would
    /// hold them.
    #[inline]
    pub fn doorbells(&self) -> (u32, u32) {
        (self.tail, self.posted)
    }

    /// Returns the submission queue entry at an index of the ring; none if there is none.
    #[inline]
    pub fn submission_ring_entry(&self, place: usize) -> Option<&SubmissionEntry> {
        let slot = *self.ring.get(place)?;
        self.slots.get(usize::from(slot)).map(|slot| &slot.entry)
    }

    /// Returns the data bytes of a submitted command that the controller may read.
    #[inline]
    pub fn readable(&self, slot: u16, offset: usize, bytes: usize) -> Option<&[u8]> {
        let slot = self.slots.get(usize::from(slot)).filter(|slot| slot.flow == CommandDataDirection::FromHost)?;
        slot.data[..index(slot.filled)].get(offset..offset.checked_add(bytes)?)
    }

    /// Returns the data bytes of a submitted command that the controller writes.
    #[inline]
    pub fn writable(&mut self, slot: u16, offset: usize, bytes: usize) -> Option<&mut [u8]> {
        let slot = self.slots.get_mut(usize::from(slot)).filter(|slot| slot.flow == CommandDataDirection::ToHost)?;
        let end = offset.checked_add(bytes).filter(|end| *end <= index(slot.bytes))?;
        slot.filled = slot.filled.max(short_length(end));
        slot.data.get_mut(offset..end)
    }

    /// Sends the completion of a command that the controller has posted, with its data if it has succeeded.
    #[inline]
    pub fn complete(&mut self, entry: &[u8; COMPLETION_ENTRY_BYTES]) {
        self.posted = if index(self.posted) + 1 == self.ring.len() { 0 } else { self.posted + 1 };
        let CompletionEntry { result, command_id, status, .. } = CompletionEntry::decode(entry);
        self.finish(command_id, status, result);
    }

    /// Completes a command that does not go to the controller.
    pub fn respond(&mut self, slot: u16, status: Status, result: u64) {
        self.finish(self.slots[usize::from(slot)].entry.command_id, status, result);
    }

    /// Completes a Connect. The response of a queue without flow control has FFFFh in place of SQHD.
    pub fn respond_to_connect(&mut self, slot: u16, status: Status, result: u32) {
        let head = if self.has_flow_control { self.head } else { u16::MAX.into() };
        let command_id = self.slots[usize::from(slot)].entry.command_id;
        self.release(slot);
        self.push_completion_entry(command_id, status, result.into(), low_u16(head));
    }

    #[inline]
    fn finish(&mut self, command_id: u16, status: Status, result: u64) {
        if self.phase == ConnectionPhase::Ended {
            return;
        }
        let Some(slot) = self.find(command_id) else { return self.push_response_capsule(command_id, status, result) };
        let place = &mut self.slots[usize::from(slot)];
        let wrong = place.wrong_digest;
        self.has_wrong_header = wrong == Some(FaultDigest::Header);
        if place.flow != CommandDataDirection::ToHost || status != Status::SUCCESS || place.filled == 0 {
            self.release(slot);
            return self.push_response_capsule(command_id, status, result);
        }
        let (bytes, reserved) = (place.filled, mem::take(&mut place.reserved));
        let data = mem::take(&mut place.data);
        self.release(slot);
        let ends_command = !self.has_flow_control && result == 0;
        let transfer = Transfer { command_id, tag: 0, offset: 0, bytes };
        let header = self.encoder.encode_c2h_data_header(&transfer, true, ends_command);
        self.push_pdu_header(header);
        let mut digest = self.encoder.digests.data.then(|| digest(&data[..index(bytes)]));
        if wrong == Some(FaultDigest::Data) {
            digest = digest.map(|right| !right);
        }
        self.output.push_data_without_copy(data, index(bytes), reserved);
        digest.into_iter().for_each(|digest| self.output.push(&digest.to_le_bytes()));
        if !ends_command {
            self.push_response_capsule(command_id, status, result);
        }
    }

    /// True if the PDUs of the connection have a digest.
    pub fn has_digest(&self, digest: FaultDigest) -> bool {
        match digest {
            FaultDigest::Data => self.encoder.digests.data,
            FaultDigest::Header => self.encoder.digests.header,
        }
    }

    /// Makes a digest of the response to a submitted command wrong. Returns false if the wrong digest is that of data
    /// that has arrived with the command.
    pub fn damage(&mut self, command_id: u16, digest: FaultDigest) -> bool {
        let Some(slot) = self.find(command_id) else { return true };
        let place = &mut self.slots[usize::from(slot)];
        if digest == FaultDigest::Data && place.flow == CommandDataDirection::FromHost {
            return false;
        }
        place.wrong_digest = Some(digest);
        true
    }

    fn push_response_capsule(&mut self, command_id: u16, status: Status, result: u64) {
        let head = if self.has_flow_control { low_u16(self.head) } else { 0 };
        self.push_completion_entry(command_id, status, result, head);
    }

    #[inline]
    fn push_completion_entry(&mut self, command_id: u16, status: Status, result: u64, submission_head: u16) {
        let entry =
            CompletionEntry { result, submission_head, submission_queue: 0, command_id, phase: false, status }.encode();
        let header = self.encoder.response(&entry);
        self.push_pdu_header(header);
    }

    #[inline]
    fn push_pdu_header(&mut self, header: EncodedHeader) {
        match mem::take(&mut self.has_wrong_header) {
            false => self.output.push(header.bytes()),
            true => self.output.push(header.with_corrupted_header_digest().bytes()),
        }
    }

    /// Frees a slot, with the room of its data.
    fn release(&mut self, slot: u16) {
        self.unindex_command_id(slot);
        let place = &mut self.slots[usize::from(slot)];
        let (data, reserved) = (mem::take(&mut place.data), mem::take(&mut place.reserved));
        place.state = SlotState::Free;
        self.free.push(slot);
        self.recycle(data, reserved);
    }

    /// Takes back a buffer, of which `reserved` bytes counted as buffered.
    fn recycle(&mut self, data: Vec<u8>, reserved: u32) {
        self.buffered -= index(reserved);
        if !data.is_empty() && self.spare_bytes + data.len() <= BUFFERED_BYTES_MAX {
            self.spare_bytes += data.len();
            self.spare.push(data);
        }
        if !self.waiting.is_empty() {
            self.admit_waiting_commands();
        }
    }

    #[inline]
    fn chain(&self, command_id: u16) -> usize {
        usize::from(command_id) & (self.by_id.len() - 1)
    }

    fn index_command_id(&mut self, slot: u16) {
        let chain = self.chain(self.slots[usize::from(slot)].entry.command_id);
        self.slots[usize::from(slot)].next = mem::replace(&mut self.by_id[chain], slot);
    }

    #[inline]
    fn find(&self, command_id: u16) -> Option<u16> {
        let mut slot = self.by_id[self.chain(command_id)];
        while slot != NO_SLOT && self.slots[usize::from(slot)].entry.command_id != command_id {
            slot = self.slots[usize::from(slot)].next;
        }
        (slot != NO_SLOT).then_some(slot)
    }

    fn unindex_command_id(&mut self, slot: u16) {
        let CommandSlot { entry, next, .. } = &self.slots[usize::from(slot)];
        let (chain, next) = (self.chain(entry.command_id), *next);
        if self.by_id[chain] == slot {
            self.by_id[chain] = next;
            return;
        }
        let mut before = self.by_id[chain];
        while before != NO_SLOT {
            let place = &mut self.slots[usize::from(before)];
            if place.next == slot {
                place.next = next;
                return;
            }
            before = place.next;
        }
    }

    // Transmission.

    /// Returns true if bytes are to be sent.
    #[inline]
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Returns slices of the bytes to be sent next.
    pub fn output(&self) -> SmallVec<[IoSlice<'_>; SLICES_MAX]> {
        self.output.slices()
    }

    /// Notes that `bytes` bytes of the output have been sent.
    pub fn sent(&mut self, bytes: usize) {
        let mut rest = bytes;
        while rest > 0 {
            let Some((buffer, reserved)) = self.output.consume(&mut rest) else { continue };
            self.recycle(buffer, reserved);
        }
    }
}

/// Command ID Conflict (generic, 03h): a command with the same identifier is in flight.
const COMMAND_ID_CONFLICT: Status = Status(0x0003);

const _: () = assert!(index(CAPSULE_DATA_BYTES) <= INPUT_BYTES / 4);
