//! Record of the changes that were submitted to a drive, from which the data states follow that a power cut may leave.
//!
//! The rules are those of [`phaselink_core::crash`]. A completed write is durable if the drive's buffer survives a
//! power cut, or if it was submitted as durable (FUA). Otherwise it is durable once a flush that arrived after its
//! completion has completed. Changes apply in the order of their arrival.
//!
//! A write that failed may have changed the drive or not (NVM Command Set Specification 1.0, section 2.1.4: after an
//! error, reads of a write of at most AWUPF return all old or all new data). This drive's reads return the old data
//! from then on. With a volatile buffer, the new data may still appear after a power cut, until a later flush has
//! completed. If the buffer survives power cuts, the new data never appears.

use phaselink_core::crash::explain::DriveLossRules;
use phaselink_core::crash::recording::{
    Durability, DurabilityRules, RecordedCommand, RecordedEventKind, RecordedOp, Recording,
};
use phaselink_core::crash::{CutTimeline, Image, RequestLoss, sample};
use phaselink_core::drive::Drive;
use phaselink_core::number::{index, length, low_u32};

use crate::operation::{Operation, OperationKind};
use crate::power::{CutState, ImageOrigin, Survival};
use crate::store::Store;

/// Number of events after which durable changes are first removed from the record.
const EVENTS_KEPT: usize = 256;

/// Record of the changes of a drive that a power cut may still affect, and the data that the other changes have left.
#[derive(Clone, Debug)]
pub(crate) struct Tracker {
    /// Data that the requests removed from the record have left. Some of them are younger than requests in the record.
    base: Store,
    recording: Recording,
    /// Number of each request in the record, in ascending order.
    numbers: Vec<u64>,
    /// Number that the next request gets.
    next_number: u64,
    /// Flushes in flight: number of the request, and value of `instant` at its arrival. A flush that completes removes
    /// from the record the failed changes that failed before its arrival.
    flushes: Vec<(u64, u64)>,
    /// Numbers of the failed changes that may still appear after a power cut, each with the number of events before its
    /// failure.
    failed: Vec<(u64, u64)>,
    /// Length of the record, in events, at which it is next shortened.
    shorten_at: usize,
    /// Number of events and power cuts so far, which distinguishes the states of the drive.
    instant: u64,
    rules: DriveLossRules,
}

impl Tracker {
    pub(crate) fn new(drive: &Drive) -> Tracker {
        let limits = drive.limits();
        let block_bytes = limits.write_block_bytes.max(limits.block_bytes);
        let atomic_bytes = drive.protocol().atomic_bytes(drive).max(block_bytes) / block_bytes * block_bytes;
        let rules = DurabilityRules { block_bytes, atomic_bytes, durability: Durability::of(drive) };
        Tracker {
            base: Store::default(),
            recording: Recording::empty(limits.capacity_bytes, rules),
            numbers: Vec::new(),
            next_number: 0,
            flushes: Vec::new(),
            failed: Vec::new(),
            shorten_at: EVENTS_KEPT,
            instant: 0,
            rules: DriveLossRules::of(drive),
        }
    }

    /// Returns the number of requests in the record.
    pub(crate) fn requests(&self) -> usize {
        self.numbers.len()
    }

    /// Records the arrival of an operation, and returns the number of its request. Reads are not recorded.
    pub(crate) fn on_arrival(&mut self, operation: &Operation) -> u64 {
        let kind = match operation.kind {
            OperationKind::Read => return u64::MAX,
            OperationKind::Write => RecordedOp::Write(operation.data.unwrap_or_default().into()),
            OperationKind::Flush => RecordedOp::Flush,
            OperationKind::Discard => RecordedOp::Trim,
            OperationKind::WriteZeroes => RecordedOp::Zero,
        };
        let number = self.next_number;
        self.next_number += 1;
        if kind == RecordedOp::Flush {
            self.flushes.push((number, self.instant));
        }
        let Operation { offset, bytes, is_durable, .. } = *operation;
        let place = self.recording.requests.len();
        self.recording.requests.push(RecordedCommand { kind, offset, bytes: low_u32(bytes), durable: is_durable });
        self.numbers.push(number);
        self.note(RecordedEventKind::Arrived(place));
        number
    }

    /// Records the completion of the request with this number.
    pub(crate) fn on_completion(&mut self, number: u64) {
        let flush = self.flushes.iter().position(|(flush, _)| *flush == number);
        if let Some(flush) = flush {
            let (_, arrived) = self.flushes.swap_remove(flush);
            self.settle_failed(arrived);
        }
        let Some(place) = self.place(number) else { return };
        self.note(RecordedEventKind::Completed(place));
        if self.recording.events.len() >= self.shorten_at {
            self.shorten();
        }
    }

    /// Records the completion of a durable change whose flush has failed: it is not durable.
    pub(crate) fn on_completion_without_flush(&mut self, number: u64) {
        if let Some(place) = self.place(number) {
            self.recording.requests[place].durable = false;
        }
        self.on_completion(number);
    }

    /// Records the failure of the request with this number.
    pub(crate) fn on_failure(&mut self, number: u64) {
        let Some(place) = self.place(number) else { return };
        self.flushes.retain(|(flush, _)| *flush != number);
        let may_appear =
            self.recording.requests[place].is_change() && self.recording.rules.durability == Durability::OnFlush;
        if may_appear {
            self.failed.push((number, self.instant));
            self.instant += 1;
        } else {
            self.instant += 1;
            self.keep(|other| other != place);
        }
    }

    /// Removes the failed changes from the record that failed before event number `before`. A completed flush has made
    /// the data durable that reads return.
    fn settle_failed(&mut self, before: u64) {
        if self.failed.iter().all(|(_, at)| *at >= before) {
            return;
        }
        let settled: Vec<u64> = self.failed.iter().filter(|(_, at)| *at < before).map(|(number, _)| *number).collect();
        let mut places: Vec<usize> = settled.into_iter().filter_map(|number| self.place(number)).collect();
        places.sort_unstable();
        self.failed.retain(|(_, at)| *at >= before);
        self.keep(|place| places.binary_search(&place).is_err());
    }

    /// Returns the index in the record of the request with this number, or none if it is not there.
    fn place(&self, number: u64) -> Option<usize> {
        self.numbers.binary_search(&number).ok()
    }

    fn note(&mut self, event: RecordedEventKind) {
        self.recording.events.push(event);
        self.instant += 1;
    }

    /// Removes requests from the record that no power cut can affect any more. These are durable ones with no older
    /// change of the same blocks in the record, and those that a younger durable one has overwritten.
    #[cold]
    fn shorten(&mut self) {
        let cut = self.recording.events.len();
        let timeline = CutTimeline::new(&self.recording);
        let mut kept: Vec<usize> = Vec::new();
        for place in 0..self.recording.requests.len() {
            let is_open = !timeline.is_durable(place, cut);
            let request = &self.recording.requests[place];
            if request.is_flush() {
                kept.extend((!timeline.had_completed(place, cut)).then_some(place));
                continue;
            }
            if is_open {
                kept.push(place);
                continue;
            }
            let requests = &self.recording.requests;
            kept.retain(|older| requests[*older].is_flush() || !covers(request, &requests[*older]));
            if kept.iter().any(|older| requests[*older].is_change() && overlaps(request, &requests[*older])) {
                // The flush that made this request durable is removed from the recording, so mark the request as
                // durable.
                self.recording.requests[place].durable = true;
                kept.push(place);
            } else {
                lay(request, &self.recording.rules, None, &mut self.base);
            }
        }
        self.keep(|place| kept.binary_search(&place).is_ok());
        let numbers = &self.numbers;
        self.failed.retain(|(number, _)| numbers.binary_search(number).is_ok());
        self.shorten_at = EVENTS_KEPT.max(2 * self.recording.events.len());
    }

    /// Removes all requests from the record for whose indices `is_kept` is false, with their events.
    fn keep(&mut self, is_kept: impl Fn(usize) -> bool) {
        let mut places = 0;
        let moved: Vec<Option<usize>> = (0..self.numbers.len())
            .map(|place| {
                let moved = is_kept(place).then_some(places);
                places += usize::from(moved.is_some());
                moved
            })
            .collect();
        let mut kept = moved.iter().map(Option::is_some);
        self.numbers.retain(|_| kept.next() == Some(true));
        let mut kept = moved.iter().map(Option::is_some);
        self.recording.requests.retain(|_| kept.next() == Some(true));
        let events = std::mem::take(&mut self.recording.events);
        self.recording.events.extend(events.into_iter().filter_map(|event| match event {
            RecordedEventKind::Arrived(place) => moved[place].map(RecordedEventKind::Arrived),
            RecordedEventKind::Completed(place) => moved[place].map(RecordedEventKind::Completed),
            RecordedEventKind::Printed(_) => None,
        }));
    }

    /// Returns a copy of the record at this instant, with the source of its images.
    pub(crate) fn state(&self, origin: ImageOrigin) -> CutState {
        let timeline = CutTimeline::new(&self.recording);
        let failed = self.failed.iter().filter_map(|(number, _)| self.place(*number)).collect();
        let (base, recording, rules) = (self.base.clone(), self.recording.clone(), self.rules.clone());
        CutState { instant: self.instant, base, recording, timeline, failed, rules, origin }
    }

    /// Returns true if a state was taken from this record at this instant.
    fn has_state(&self, state: &CutState) -> bool {
        state.instant == self.instant && state.recording == self.recording && state.base == self.base
    }

    /// Cuts the power: returns the data that survives, and begins the record anew with it. None if the image is not one
    /// of this instant.
    pub(crate) fn cut(&mut self, survival: Survival) -> Option<Store> {
        let cut = self.recording.events.len();
        let image = match survival {
            Survival::Everything => {
                let failed = self.failed.iter().filter_map(|(number, _)| self.place(*number));
                Image { cut, lost: failed.map(|place| (place, RequestLoss::All)).collect() }
            }
            Survival::DurableOnly => sample::least(&self.recording, &CutTimeline::new(&self.recording), cut),
            Survival::Drawn { seed } => {
                sample::random_image(&self.recording, &CutTimeline::new(&self.recording), cut, seed)
            }
            Survival::Image(legal) if self.has_state(&legal.state) => legal.image.clone(),
            Survival::Image(_) => return None,
        };
        lay_all(&self.recording, &image, &mut self.base);
        self.begin_anew();
        Some(self.base.clone())
    }

    /// Begins the record anew with this data, all of which is durable.
    pub(crate) fn load(&mut self, bytes: Store) {
        self.base = bytes;
        self.begin_anew();
    }

    fn begin_anew(&mut self) {
        self.recording.requests.clear();
        self.recording.events.clear();
        (self.numbers, self.flushes, self.failed) = (Vec::new(), Vec::new(), Vec::new());
        self.shorten_at = EVENTS_KEPT;
        self.instant += 1;
    }
}

fn end(request: &RecordedCommand) -> u64 {
    request.offset + u64::from(request.bytes)
}

/// Returns true if a request changes all blocks that another one changes.
fn covers(request: &RecordedCommand, other: &RecordedCommand) -> bool {
    request.offset <= other.offset && end(other) <= end(request)
}

/// True if two requests have a block in common.
fn overlaps(request: &RecordedCommand, other: &RecordedCommand) -> bool {
    request.offset < end(other) && other.offset < end(request)
}

/// Applies all requests of a record to `bytes` in the order of their arrival, as far as they survive in the image.
pub(crate) fn lay_all(recording: &Recording, image: &Image, bytes: &mut Store) {
    let events = &recording.events[..image.cut];
    let arrived = events.iter().filter(|event| matches!(event, RecordedEventKind::Arrived(_))).count();
    for (place, request) in recording.requests[..arrived].iter().enumerate() {
        lay(request, &recording.rules, image.lost.get(&place), bytes);
    }
}

/// Applies a request to `bytes`, except for what `loss` says is lost.
fn lay(request: &RecordedCommand, rules: &DurabilityRules, loss: Option<&RequestLoss>, bytes: &mut Store) {
    let block_bytes = index(rules.block_bytes);
    let mut apply = |first: usize, end: usize| {
        let offset = request.offset + length(first);
        match &request.kind {
            RecordedOp::Write(data) => bytes.write(offset, &data[first..end]),
            RecordedOp::Zero | RecordedOp::Trim | RecordedOp::Reset => bytes.zero(offset, length(end - first)),
            RecordedOp::Finish | RecordedOp::Flush => {}
        }
    };
    match loss {
        None => apply(0, index(request.bytes)),
        Some(RequestLoss::All) => {}
        Some(RequestLoss::AllBut(there)) => {
            there.iter().for_each(|&(first, last)| apply(index(first) * block_bytes, (index(last) + 1) * block_bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use phaselink_core::time::Time;

    use super::*;

    /// Returns the first byte of the drive in all states that a power cut may leave, in ascending order.
    fn first_bytes(tracker: &Tracker) -> Vec<u8> {
        let byte = |image: crate::LegalImage| {
            let mut found = [0];
            image.read(0, &mut found).unwrap();
            found[0]
        };
        let mut found: Vec<u8> = tracker
            .state(ImageOrigin::Drive { seed: 1, now: Time::ZERO })
            .images(100, 1)
            .into_iter()
            .map(byte)
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    #[test]
    fn durable_write_with_failed_flush_may_be_lost_until_another_flush() {
        let mut tracker = Tracker::new(&Drive::shipped("tlc-gen4").unwrap());
        for (value, is_flushed) in [(1, true), (2, false)] {
            let data = [value; 4096];
            let number = tracker.on_arrival(&Operation::write(0, &data).durable());
            match is_flushed {
                true => tracker.on_completion(number),
                false => tracker.on_completion_without_flush(number),
            }
        }
        assert_eq!(first_bytes(&tracker), [1, 2]);
        let flush = tracker.on_arrival(&Operation::flush());
        tracker.on_completion(flush);
        assert_eq!(first_bytes(&tracker), [2]);
    }

    #[test]
    fn failed_flush_makes_nothing_durable_and_leaves_the_record() {
        let mut tracker = Tracker::new(&Drive::shipped("tlc-gen4").unwrap());
        let write = tracker.on_arrival(&Operation::write(0, &[1; 4096]));
        tracker.on_completion(write);
        let flush = tracker.on_arrival(&Operation::flush());
        tracker.on_failure(flush);
        assert_eq!((first_bytes(&tracker), tracker.requests()), (vec![0, 1], 1));
    }
}
