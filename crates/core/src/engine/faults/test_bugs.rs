//! Bugs of the simulator, planted between its events, which the torture tests have to find.

use std::collections::VecDeque;

use crate::engine::Engine;
use crate::protocol::dispatch::AnyDriver;
use crate::random::Random;
use crate::request::{Op, RequestId};
use crate::time::{Span, Time};

/// Bug of the simulator that a test plants into a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SimulatorBug {
    /// A completion gets lost, and no time-out ends its request.
    DroppedCompletion,
    /// A write is completed before its data has arrived.
    AcknowledgedBeforeData,
    /// Garbage collection forgets where it has moved a unit.
    LostMapping,
    /// The first entry of a page list points one page too far.
    PageListOffByOne,
    /// A read whose data contains its tag is marked with the same tag again.
    TagNotRenewed,
    /// A read is taken for complete as soon as its last chunk is there.
    OnlyTheLastChunk,
    /// Wear levelling moves its gap without recording that.
    ForgottenGapMove,
    /// The device sees an old tail in the shadow doorbell.
    StaleShadowDoorbell,
    /// The completions of two reads are exchanged.
    ReorderedCompletion,
    /// Buffers lose their data with power although they are said to be protected.
    ProtectionOnlyClaimed,
    /// No data ever reaches the cells, flushed or not.
    IgnoredFlush,
    /// A unit that is being written when power fails is half there.
    TornUnit,
    /// Data that was lost in a power cut reappears a while later.
    ResurrectedData,
}

/// Planted bug of a run, with the state that it needs between events.
#[derive(Debug)]
pub(crate) struct Planted {
    bug: SimulatorBug,
    number: u64,
    records: usize,
    /// Data that is stored late: its offset or unit, its bytes, and the instant.
    late: VecDeque<(u64, Vec<u8>, Time)>,
    /// Unit whose newest bytes a power cut would lose, with these bytes.
    volatile: Option<(u64, Vec<u8>)>,
    random: Option<Random>,
    /// Tail seen last in the shadow doorbell.
    tail: u32,
    is_done: bool,
}

impl Planted {
    pub(crate) fn new(bug: SimulatorBug) -> Planted {
        Planted {
            bug,
            number: 0,
            records: 0,
            late: VecDeque::new(),
            volatile: None,
            random: None,
            tail: 0,
            is_done: false,
        }
    }

    /// Applies the planted bug after an event of the run.
    pub(crate) fn after_event(&mut self, engine: &mut Engine) {
        match self.bug {
            SimulatorBug::DroppedCompletion => self.lose_completion_seven(engine),
            SimulatorBug::AcknowledgedBeforeData => self.delay_write_data(engine),
            SimulatorBug::LostMapping => self.drop_unit_mapping(engine),
            SimulatorBug::PageListOffByOne => self.shift_page_list(engine),
            SimulatorBug::TagNotRenewed => self.corrupt_tag(engine),
            SimulatorBug::OnlyTheLastChunk => overlook_chunks(engine),
            SimulatorBug::ForgottenGapMove => self.undo_gap_move(engine),
            SimulatorBug::StaleShadowDoorbell => self.restore_old_shadow_tail(engine),
            SimulatorBug::ReorderedCompletion => self.swap_reads_in_flight(engine),
            SimulatorBug::ProtectionOnlyClaimed => drop_power_loss_protection(engine),
            SimulatorBug::IgnoredFlush => drop(engine.devices[0].media.take_durability_steps()),
            SimulatorBug::TornUnit => tear_unit(engine),
            SimulatorBug::ResurrectedData => self.resurrect_torn_unit(engine),
        }
    }

    /// Loses the completion of request number 7, which no fault rule concerns.
    fn lose_completion_seven(&mut self, engine: &mut Engine) {
        if engine.shared.requests.issued >= 7 && !std::mem::replace(&mut self.is_done, true) {
            engine.faults.get_or_insert_default().met.entry(7).or_default().is_lost = true;
        }
    }

    /// Keeps data of every fifth write, at least its last packet, from the memory until 20 us later.
    fn delay_write_data(&mut self, engine: &mut Engine) {
        let now = engine.now();
        let issued = engine.shared.requests.issued;
        let newest = (self.number != issued).then(|| index_of_request_number(engine, issued)).flatten();
        if let Some(id) = newest {
            let request = &engine.shared.requests[id];
            // The driver assigns the request's buffer when it accepts the request, so wait until the buffer is set.
            if request.buffer != 0 {
                self.number = issued;
                if request.io.op == Op::Write && issued.is_multiple_of(5) && request.parts_left == 0 {
                    let mut bytes = vec![0; request.io.bytes as usize];
                    engine.memory.read(request.buffer, &mut bytes);
                    self.late.push_back((request.io.offset, bytes, now + Span::from_us(20)));
                    engine.faults.get_or_insert_default().met.entry(issued).or_default().torn_at = Some(0);
                }
            }
        }
        while self.late.front().is_some_and(|(.., at)| *at <= now) {
            if let Some(((offset, bytes, _), data)) = self.late.pop_front().zip(engine.devices[0].data.as_mut()) {
                data.contents.write(offset, &bytes);
            }
        }
    }

    fn drop_unit_mapping(&mut self, engine: &mut Engine) {
        if !self.is_done
            && let Some(flash) = engine.devices[0].media.flash_mut()
        {
            self.is_done = flash.translation_mut().lose_location_of_moved_unit();
        }
    }

    /// Shifts the first entry of a page list by one page, when the read request for the list has reached the host.
    fn shift_page_list(&mut self, engine: &mut Engine) {
        let records = engine.shared.trace.records();
        let new = &records[self.records.min(records.len())..];
        self.records = records.len();
        let lists: Vec<u64> = new
            .iter()
            .filter(|record| record.step.name() == "read page list")
            .filter_map(|record| record.memory.map(|(address, _)| address))
            .collect();
        for address in lists {
            let mut entry = [0; 8];
            engine.memory.read(address, &mut entry);
            let shifted = u64::from_le_bytes(entry) + 4096;
            engine.memory.write(address, &shifted.to_le_bytes());
        }
    }

    fn undo_gap_move(&mut self, engine: &mut Engine) {
        if !self.is_done
            && let Some(wear) = engine.devices[0].media.wear_mut()
        {
            self.is_done = wear.undo_last_gap_move();
        }
    }

    /// Takes back every fourth tail that the driver writes to the shadow doorbell.
    fn restore_old_shadow_tail(&mut self, engine: &mut Engine) {
        let Some(address) = nvme(engine).and_then(|driver| driver.shared_tail_for_tests()) else { return };
        let mut tail = [0; 4];
        engine.memory.read(address, &mut tail);
        let (old, new) = (self.tail, u32::from_le_bytes(tail));
        if new != old {
            self.number += 1;
            self.tail = new;
            if self.number.is_multiple_of(4) {
                engine.memory.write(address, &old.to_le_bytes());
                self.tail = old;
            }
        }
    }

    /// Exchanges two reads in flight in one queue, once.
    fn swap_reads_in_flight(&mut self, engine: &mut Engine) {
        if self.is_done || engine.shared.requests.issued < 5 {
            return;
        }
        let requests = &engine.shared.requests;
        let AnyDriver::Nvme(driver) = &mut engine.devices[0].driver else { return };
        for slots in driver.requests_for_tests() {
            let is_read = |slot: &usize| {
                let request = slots[*slot].map(|id| &requests[id]);
                request.is_some_and(|request| request.io.op == Op::Read && request.parent.is_none())
            };
            let reads: Vec<usize> = (0..slots.len()).filter(is_read).take(2).collect();
            if let [first, second] = reads[..] {
                slots.swap(first, second);
                self.is_done = true;
                return;
            }
        }
    }

    /// Brings back the unit that was last in flight to the cells at the power loss, 30 us later.
    fn resurrect_torn_unit(&mut self, engine: &mut Engine) {
        let now = engine.now();
        let Some(data) = &mut engine.devices[0].data else { return };
        let Some(durable) = data.durable_cells_mut() else { return };
        let lost_units = durable.lost_units;
        if std::mem::replace(&mut self.number, lost_units) < lost_units
            && let Some((unit, bytes)) = self.volatile.take()
        {
            self.late.push_back((unit, bytes, now + Span::from_us(30)));
        }
        self.volatile = durable.volatile().next_back().map(|(unit, bytes)| (unit, bytes.to_vec()));
        while self.late.front().is_some_and(|(.., at)| *at <= now) {
            if let Some(((unit, bytes, _), durable)) = self.late.pop_front().zip(data.durable_cells_mut()) {
                let offset = durable.replace(unit, &bytes);
                data.contents.write(offset, &bytes);
            }
        }
    }

    fn corrupt_tag(&mut self, engine: &mut Engine) {
        if let AnyDriver::DcExpress(driver) = &mut engine.devices[0].driver {
            let (tag, random) = driver.tags_for_tests();
            // Restore the random generator to its first state, so that the driver draws the same tag again.
            *random = self.random.get_or_insert(random.clone()).clone();
            *tag = random.clone().bits();
        }
    }
}

/// Returns the NVMe driver of the first device, alone or below another driver.
fn nvme(engine: &mut Engine) -> Option<&mut crate::protocol::nvme::driver::Driver> {
    match &mut engine.devices[0].driver {
        AnyDriver::Nvme(driver) => Some(driver),
        AnyDriver::DcExpress(driver) => Some(&mut driver.nvme),
        _ => None,
    }
}

/// Replaces bytes that the first device holds.
pub(crate) fn overwrite(engine: &mut Engine, offset: u64, bytes: &[u8]) {
    if let Some(data) = &mut engine.devices[0].data {
        data.contents.write(offset, bytes);
    }
}

fn drop_power_loss_protection(engine: &mut Engine) {
    if let Some(notes) = engine.devices[0].media.notes() {
        notes.drop_power_loss_protection();
    }
}

/// Writes the first half of the unit that is last in flight to the cells, to imitate a torn write.
fn tear_unit(engine: &mut Engine) {
    let Some(durable) = engine.devices[0].data.as_mut().and_then(|data| data.durable_cells_mut()) else { return };
    let Some((unit, new)) = durable.volatile().next_back() else { return };
    let mut bytes = durable.cells(unit);
    let half = new.len() / 2;
    bytes[..half].copy_from_slice(&new[..half]);
    durable.replace(unit, &bytes);
}

fn overlook_chunks(engine: &mut Engine) {
    if let AnyDriver::DcExpress(driver) = &engine.devices[0].driver {
        for request in driver.reads_for_tests() {
            driver.overlook_chunks(request, &engine.shared.requests[request], &mut engine.memory);
        }
    }
}

/// Returns the index of the request of this number, if it is in flight.
fn index_of_request_number(engine: &Engine, number: u64) -> Option<RequestId> {
    (0..engine.shared.requests.places()).find(|id| engine.shared.requests[*id].number == number)
}
