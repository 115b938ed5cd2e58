//! Execution of a command from its fetch to its last data: parsing, PRP lists and SGL segments, data from the host,
//! media access.

use super::{Controller, ControllerCommand, PAYLOAD_READ_BYTES, timer};
use crate::ledger::Stage;
use crate::number::{index, low_u32, wide_index};
use crate::protocol::nvme::Role;
use crate::protocol::nvme::commands::{
    Action, ChangedState, Command, CommandSet, CompletionValueKind, DataPointerUse, MediaUse, ParameterListContent,
};
use crate::protocol::nvme::host_lists::{PlacedHostCommand, UnreadLists};
use crate::protocol::nvme::rules::reservation::{ReservationKeys, ReservingHost};
use crate::protocol::nvme::spec::{SUBMISSION_ENTRY_BYTES, Status, SubmissionEntry};
use crate::protocol::ports::{Ports, begin_media_read};
use crate::request::RequestId;
use crate::scheduler::Event;
use crate::time::Time;
use crate::tlp::{Direction, Packet, Payload};

impl Controller {
    /// Accepts a fetched command with its queue and request. Returns the controller's internal number of the command.
    #[inline(always)]
    pub(super) fn accept(
        &mut self,
        now: Time,
        bytes: &[u8; SUBMISSION_ENTRY_BYTES],
        source: (u16, Option<RequestId>),
        ports: &mut Ports,
    ) -> u32 {
        let (id, entry) = (self.commands.occupy(), SubmissionEntry::decode(bytes));
        let command = self.namespace.check(&entry, &self.limits, ports);
        let accepted = &mut self.commands[index(id)];
        (accepted.command, accepted.command_id) = (command, entry.command_id);
        self.parse(now, id, source, ports);
        id
    }

    /// Accepts a fetched command of a real host that has its lists, or all of the command, beside the queue.
    #[cold]
    pub(super) fn accept_host_command(
        &mut self,
        now: Time,
        bytes: &[u8; SUBMISSION_ENTRY_BYTES],
        placed: PlacedHostCommand,
        source: (u16, Option<RequestId>),
        ports: &mut Ports,
    ) {
        let served = match placed {
            PlacedHostCommand::Lists(lists) => {
                let id = self.accept(now, bytes, source, ports);
                return self.host_lists.keep(id, UnreadLists::Bytes(lists.into()));
            }
            PlacedHostCommand::Served(served) => *served,
        };
        let (id, block_shift) = (self.commands.occupy(), self.limits.block_shift);
        let command = served.checked.and_then(|command| self.namespace.admit(command, block_shift, ports));
        let accepted = &mut self.commands[index(id)];
        (accepted.command, accepted.command_id) = (command, served.command_id);
        if let Some(lists) = served.lists {
            self.host_lists.keep(id, UnreadLists::Read(lists));
        }
        self.parse(now, id, source, ports);
    }

    /// Queues a command of this queue and request for the parser, which takes commands in order.
    #[inline(always)]
    fn parse(&mut self, now: Time, id: u32, (queue, request): (u16, Option<RequestId>), ports: &mut Ports) {
        let accepted = &mut self.commands[index(id)];
        (accepted.queue, accepted.request) = (queue, request);
        (accepted.waits, accepted.bytes_missing) = (0, 0);
        self.parser_free_at = self.parser_free_at.max(now) + self.parse;
        self.start(self.parser_free_at, id, ports);
    }

    /// Starts a command, or ends one that is refused, at `parsed`, the end of its parsing. The parser works in order,
    /// so a read can be given to the media in advance with that later time.
    fn start(&mut self, parsed: Time, id: u32, ports: &mut Ports) {
        let accepted = &self.commands[index(id)];
        ports.shared.requests.charge(accepted.request, Stage::Parse, parsed);
        let kind = match &accepted.command {
            Ok(command) if command.row.set == CommandSet::Keys => return self.look_up_key(parsed, id, ports),
            Ok(command) => match (command.row.data, command.row.media) {
                (DataPointerUse::ToHost, MediaUse::Read) => return self.read(parsed, id, ports),
                (DataPointerUse::ToHost, _) if command.bytes > 0 => return self.start_report(parsed, id, ports),
                (DataPointerUse::FromHost | DataPointerUse::List(_), _) if !command.data.is_empty() => {
                    timer::DATA_WANTED
                }
                (DataPointerUse::None, MediaUse::Read | MediaUse::Write) => timer::MEDIA_WANTED,
                (DataPointerUse::None, MediaUse::Flush) => return self.flush(parsed, id, ports),
                _ => timer::FINISHED,
            },
            Err(_) => timer::FINISHED,
        };
        ports.shared.scheduler.at(parsed, Event::Controller { kind, context: id });
    }

    /// Starts a Read: the media access and the read of the PRP list or SGL run in parallel.
    fn read(&mut self, now: Time, id: u32, ports: &mut Ports) {
        let accepted = &mut self.commands[index(id)];
        let Ok(Command { offset, bytes, .. }) = accepted.command else { return };
        let start = begin_media_read(now, offset, bytes, self.max_payload_bytes, accepted.request, ports);
        ports.shared.scheduler.at(start, Event::Controller { kind: timer::DATA_READY, context: id });
        accepted.waits = 1;
        if self.request_list_part(id, ports) {
            self.commands[index(id)].waits += 1;
        }
    }

    /// Starts a report of zones or reclaim units. The controller has the data at hand (assumed to take no time); only
    /// the PRP list or SGL must be read.
    fn start_report(&mut self, now: Time, id: u32, ports: &mut Ports) {
        ports.shared.scheduler.at(now, Event::Controller { kind: timer::DATA_READY, context: id });
        self.commands[index(id)].waits = 1;
        if self.request_list_part(id, ports) {
            self.commands[index(id)].waits += 1;
        }
    }

    /// Makes all data written before `from` durable, and then ends the command: a Flush, or a write with FUA. The media
    /// flushes all of its volatile write buffers, for a write with FUA too.
    pub(super) fn flush(&mut self, from: Time, id: u32, ports: &mut Ports) {
        self.namespace.begin_flush(id);
        let done = ports.media.flush_volatile_buffers(from);
        ports.shared.requests.charge(self.commands[index(id)].request, Stage::Media, done);
        ports.shared.scheduler.at(done, Event::Controller { kind: timer::FINISHED, context: id });
    }

    /// Starts to read the data of a command from the host: its PRP list or SGL first, if it has one.
    pub(super) fn request_command_data(&mut self, id: u32, ports: &mut Ports) {
        if !self.request_list_part(id, ports) {
            self.request_write_payload(id, ports);
        }
    }

    /// Requests the next part of a command's PRP list or SGL segment from host memory. Returns false if no further part
    /// is needed.
    #[inline(always)]
    pub(super) fn request_list_part(&mut self, id: u32, ports: &mut Ports) -> bool {
        let Ok(command) = &self.commands[index(id)].command else { return false };
        let Some((address, bytes)) = command.data.next_list_part() else { return false };
        let token = Role::PAGE_LIST.token(id);
        self.reads.request(
            Packet::read(address, bytes, self.reads.request_bytes_max(), token),
            ports.link,
            ports.shared,
        );
        true
    }

    /// Handles a part of a command's PRP list or SGL segment that has been read: requests the next part, or starts
    /// the data transfer. A wrong list refuses the command.
    pub(super) fn on_page_list(&mut self, now: Time, packet: &Packet, payload: &Payload, ports: &mut Ports) {
        let id = packet.token.context;
        let accepted = &mut self.commands[index(id)];
        let Ok(command) = &mut accepted.command else { return };
        let is_read = command.row.transfers_only_to_host();
        let known = self.host_lists.next_data_memory(id).map(|step| step.map(|data| command.data = data));
        let read = known.unwrap_or_else(|| {
            let part = self.host_lists.part(id, &payload.bytes()[..index(packet.bytes)])?;
            command.data.add_prp_list_part(&part)
        });
        if let Err(status) = read {
            let refused = std::mem::replace(&mut accepted.command, Err(status));
            let block_shift = self.limits.block_shift;
            refused.into_iter().for_each(|command| self.namespace.undo_write(&command, block_shift));
        } else if self.request_list_part(id, ports) {
            return;
        }
        match (is_read, &self.commands[index(id)].command) {
            // The media access runs at the same time as the read of the list.
            (true, _) => self.on_ready(now, id, ports),
            (false, Ok(_)) => self.request_write_payload(id, ports),
            (false, Err(_)) => self.finish(id, ports),
        }
    }

    /// Requests a command's data, or its list of ranges, from host memory in reads of at most [`PAYLOAD_READ_BYTES`];
    /// the metadata follows.
    fn request_write_payload(&mut self, id: u32, ports: &mut Ports) {
        let is_store =
            self.commands[index(id)].command.as_ref().is_ok_and(|command| command.row.set == CommandSet::Keys);
        if is_store && !self.reserve_value_space(id, ports) {
            return;
        }
        let accepted = &mut self.commands[index(id)];
        let Ok(command @ Command { row, offset, data, .. }) = &accepted.command else { return };
        let metadata = command.metadata_transfer_range();
        let bytes = data.runs().iter().map(|(_, bytes)| bytes).sum();
        accepted.bytes_missing = bytes;
        let is_list = row.list().is_some();
        let token = if is_list { Role::RANGES } else { Role::PAYLOAD }.token(id);
        let mut asked = 0;
        for (address, run) in data.runs().iter().copied() {
            let mut done = 0;
            while done < run {
                let piece = PAYLOAD_READ_BYTES.min(run - done);
                let packet = Packet::read(address + u64::from(done), piece, self.reads.request_bytes_max(), token);
                asked += piece;
                // The last piece arrives last, so charge its travel time to the request.
                let request = accepted.request.filter(|_| asked == bytes);
                let packet = if row.writes_media() && !is_list {
                    packet.user_data(offset + u64::from(asked - piece), request)
                } else {
                    // The data is only compared or parsed, so do not store it as user data.
                    Packet { device_offset: u64::from(asked - piece), request, ..packet }
                };
                self.reads.request(packet, ports.link, ports.shared);
                done += piece;
            }
        }
        if let Some(transfer) = metadata {
            self.read_metadata(id, transfer, ports);
        }
    }

    /// Handles data that has arrived from the host. When all of it is there, starts the media access.
    pub(super) fn on_payload_arrived(&mut self, now: Time, packet: &Packet, ports: &mut Ports) {
        let id = packet.token.context;
        let accepted = &mut self.commands[index(id)];
        accepted.subtract_arrived_data(packet.bytes);
        if accepted.bytes_missing == 0 {
            self.use_media(now, id, ports);
        }
    }

    /// Starts the media access of a command whose data is there or that transfers none: a read of blocks that are only
    /// compared or verified, a write otherwise.
    #[inline]
    pub(super) fn use_media(&mut self, now: Time, id: u32, ports: &mut Ports) {
        match &self.commands[index(id)].command {
            Ok(command) if command.row.media == MediaUse::Read => self.read_media_without_transfer(now, id, ports),
            Ok(command) if command.row.set == CommandSet::Keys => self.write_value(now, id, ports),
            _ => self.write_command_to_media(now, id, ports),
        }
    }

    /// Writes a command's bytes to the media, in the stream of its placement handle. Schedules the end of the command
    /// for the media's acknowledgement; a write with FUA is flushed first.
    fn write_command_to_media(&mut self, now: Time, id: u32, ports: &mut Ports) {
        let ControllerCommand {
            request, command: Ok(Command { row, is_forced, offset, bytes, placement, .. }), ..
        } = self.commands[index(id)]
        else {
            return;
        };
        if row.changes == ChangedState::Zeroed {
            store_zeros(now, id, offset, bytes, ports);
        }
        let kind = if is_forced { timer::DURABILITY_WANTED } else { timer::FINISHED };
        if row.returns == CompletionValueKind::FirstBlock {
            ports.media.mark_append();
        }
        let timing = self.namespace.write(now, (offset, bytes), placement, ports);
        ports.shared.requests.charge_media_access(request, timing.stages());
        ports.shared.scheduler.at(timing.acknowledged_at, Event::Controller { kind, context: id });
    }

    /// Reads a command's bytes from the media without a transfer to the host, and schedules the end of the command.
    fn read_media_without_transfer(&mut self, now: Time, id: u32, ports: &mut Ports) {
        let ControllerCommand { request, command: Ok(Command { offset, bytes, .. }), .. } = self.commands[index(id)]
        else {
            return;
        };
        let timing = ports.media.read(now, offset, bytes, bytes);
        ports.shared.requests.charge_media_access(request, timing.stages(timing.last_at));
        ports.shared.scheduler.at(timing.last_at, Event::Controller { kind: timer::FINISHED, context: id });
    }

    /// Handles a part of a list of ranges or placement identifiers that has arrived from the host. When the list is
    /// complete, executes the command: a deallocation, a Copy or an I/O Management Send.
    pub(super) fn on_list_part(&mut self, now: Time, packet: &Packet, payload: &Payload, ports: &mut Ports) {
        let id = packet.token.context;
        let accepted = &mut self.commands[index(id)];
        let list = self.ranges.entry(id).or_insert_with(|| self.spare_lists.pop().unwrap_or_default());
        let end = wide_index(packet.device_offset) + index(packet.bytes);
        list.resize(list.len().max(end), 0);
        list[wide_index(packet.device_offset)..end].copy_from_slice(&payload.bytes()[..index(packet.bytes)]);
        accepted.subtract_arrived_data(packet.bytes);
        if accepted.bytes_missing > 0 {
            return;
        }
        let mut list = self.ranges.remove(&id).unwrap_or_default();
        ports.shared.requests.charge(accepted.request, Stage::Parse, now);
        let content = self.host_lists.content(id).unwrap_or_else(|| self.take_list(id, &list));
        let done = content.and_then(|content| self.execute_listed_command(now, id, content, ports));
        // Keep the memory of the list for the next command.
        list.clear();
        self.spare_lists.push(list);
        if let Err(status) = done {
            self.commands[index(id)].command = Err(status);
            self.finish(id, ports);
        }
    }

    /// Executes a command whose list has this content.
    fn execute_listed_command(
        &mut self,
        now: Time,
        id: u32,
        content: ParameterListContent,
        ports: &mut Ports,
    ) -> Result<(), Status> {
        match content {
            ParameterListContent::Sources { ranges, bytes } => {
                return self.read_copy_sources(now, id, ranges, bytes, ports);
            }
            ParameterListContent::Identifiers(listed) => self.renew_units(now, id, &listed, ports),
            ParameterListContent::Ranges(ranges) => self.deallocate_listed_ranges(id, &ranges, ports),
            ParameterListContent::Keys(keys) => self.reserve(id, keys, ports)?,
        }
        Ok(())
    }

    /// Returns the content of a command's list that has been read from host memory.
    fn take_list(&mut self, id: u32, list: &[u8]) -> Result<ParameterListContent, Status> {
        let list = self.host_lists.part(id, list)?;
        self.commands[index(id)].command.as_mut().map_err(|status| *status)?.take_list(&list, &self.limits)
    }

    /// Registers the only host of the model, or acquires or releases its reservation, and ends the command. The
    /// controller changes a table (assumed to take no time).
    #[cold]
    fn reserve(&mut self, id: u32, keys: ReservationKeys, ports: &mut Ports) -> Result<(), Status> {
        let Command { action, namespace, .. } = self.commands[index(id)].command.as_ref().map_err(|status| *status)?;
        if let Some(command) = action.reservation() {
            let reservations = self.reservations.entry(*namespace).or_default();
            reservations.execute(command, keys, ReservingHost::OfController(0))?;
        }
        self.finish(id, ports);
        Ok(())
    }

    /// Deallocates the ranges in a command's list, unless the command is only a hint (AD is 0). Deallocation changes a
    /// table of the controller, not the media (assumed to take no time).
    fn deallocate_listed_ranges(&mut self, id: u32, ranges: &[(u64, u64)], ports: &mut Ports) {
        let Ok(command) = &self.commands[index(id)].command else { return };
        if command.action != (Action::Deallocate { is_hint: true }) {
            ranges.iter().for_each(|(offset, bytes)| ports.media.discard(*offset, *bytes));
        }
        self.finish(id, ports);
    }

    /// Reads all source ranges of a Copy, of `bytes` bytes together, from the media at once, and schedules the write to
    /// the destination for the end of the last read.
    fn read_copy_sources(
        &mut self,
        now: Time,
        id: u32,
        sources: Vec<(u64, u64)>,
        bytes: u32,
        ports: &mut Ports,
    ) -> Result<(), Status> {
        let accepted = &mut self.commands[index(id)];
        let Ok(command) = &mut accepted.command else { return Ok(()) };
        command.bytes = bytes;
        self.namespace.admit_copy_sources(command, &sources, self.limits.block_shift, ports)?;
        let read = |(offset, bytes): (u64, u64)| ports.media.read(now, offset, low_u32(bytes), low_u32(bytes)).last_at;
        let read_at = sources.into_iter().map(read).max().unwrap_or(now);
        ports.shared.requests.charge(self.commands[index(id)].request, Stage::Media, read_at);
        ports.shared.scheduler.at(read_at, Event::Controller { kind: timer::MEDIA_WANTED, context: id });
        Ok(())
    }

    /// Counts one of the events that a command with data for the host waits for. After the last event, sends data,
    /// metadata and then the completion queue entry.
    pub(super) fn on_ready(&mut self, now: Time, id: u32, ports: &mut Ports) {
        let accepted = &mut self.commands[index(id)];
        accepted.waits -= 1;
        if accepted.waits > 0 {
            return;
        }
        ports.shared.requests.charge_stage_until(accepted.request, Stage::HostRead, now);
        if accepted.command.as_ref().is_ok_and(|command| command.row.set == CommandSet::Keys) {
            self.settle_key_transfer(id);
        }
        let accepted = &self.commands[index(id)];
        if let Ok(command @ Command { offset, bytes, data, .. }) = &accepted.command {
            let metadata = command.metadata_transfer_range();
            let mut sent = 0;
            for (address, run) in data.runs().iter().copied() {
                let token = Role::DATA.token(id);
                let packet = Packet::write(Direction::Up, address, run, self.max_payload_bytes, token);
                let request = accepted.request.filter(|_| sent + run == *bytes);
                ports.link.send(packet.user_data(offset + u64::from(sent), request), ports.shared);
                sent += run;
            }
            assert_eq!(sent, *bytes, "a read sends as many bytes as its command asks for");
            if let Some(transfer) = metadata {
                self.send_metadata(id, transfer, ports);
            }
        }
        self.finish(id, ports);
    }
}

/// Fills bytes of the device with zeros, in a run that stores real data. Before that, applies the media's pending
/// decisions on durability, which concern the old bytes.
#[cold]
fn store_zeros(now: Time, id: u32, offset: u64, bytes: u32, ports: &mut Ports) {
    let Some(data) = ports.data else { return };
    if let Some(durable) = data.durable_cells_mut() {
        durable.follow(now, ports.media.take_durability_steps());
    }
    data.zero(Role::PAYLOAD.token(id), offset, bytes);
}
