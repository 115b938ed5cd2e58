//! Faults of the program, planted between its events: what torture has to find.

use std::collections::VecDeque;

use crate::engine::Engine;
use crate::protocol::dispatch::AnyDriver;
use crate::random::Random;
use crate::request::{Op, RequestId};
use crate::time::{Span, Time};

/// A fault of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A completion gets lost, and nobody minds.
    DroppedCompletion,
    /// A write is reported done before its data is there.
    AcknowledgedBeforeData,
    /// Cleaning forgets where it has moved a unit.
    LostMapping,
    /// A list of pages has its first entry one page too far.
    PageListOffByOne,
    /// A read that has met its tag in the data is marked with the same tag again.
    TagNotRenewed,
}

/// What has been planted into a run.
#[derive(Debug)]
pub(crate) struct Planted {
    bug: Bug,
    number: u64,
    records: usize,
    /// A write whose data comes late: its place, from where to where, and when.
    late: VecDeque<(u64, Vec<u8>, Time)>,
    random: Option<Random>,
    is_done: bool,
}

impl Planted {
    pub fn new(bug: Bug) -> Planted {
        Planted { bug, number: 0, records: 0, late: VecDeque::new(), random: None, is_done: false }
    }

    /// Something has happened in the run.
    pub fn after_event(&mut self, engine: &mut Engine) {
        match self.bug {
            Bug::DroppedCompletion => self.drop_completion(engine),
            Bug::AcknowledgedBeforeData => self.hold_data(engine),
            Bug::LostMapping => self.lose_mapping(engine),
            Bug::PageListOffByOne => self.shift_page_list(engine),
            Bug::TagNotRenewed => self.keep_tag(engine),
        }
    }

    /// Request 7 is met by what no rule says.
    fn drop_completion(&mut self, engine: &mut Engine) {
        if engine.shared.requests.issued >= 7 && !std::mem::replace(&mut self.is_done, true) {
            engine.faults.get_or_insert_default().met.entry(7).or_default().is_lost = true;
        }
    }

    /// The last packet of each fifth write reaches the memory 20 us late.
    fn hold_data(&mut self, engine: &mut Engine) {
        let now = engine.now();
        let issued = engine.shared.requests.issued;
        let newest = (self.number != issued).then(|| newest(engine, issued)).flatten();
        if let Some(id) = newest {
            let request = &engine.shared.requests[id];
            // Its buffer is filled when the driver takes it.
            if request.buffer != 0 {
                self.number = issued;
                if request.io.op == Op::Write && issued.is_multiple_of(5) && request.parts_left == 0 {
                    let mut bytes = vec![0; request.io.bytes as usize];
                    engine.shared.memory.read(request.buffer, &mut bytes);
                    self.late.push_back((request.io.offset, bytes, now + Span::from_us(20)));
                    engine.faults.get_or_insert_default().met.entry(issued).or_default().is_torn = true;
                }
            }
        }
        while self.late.front().is_some_and(|(.., at)| *at <= now) {
            if let Some(((offset, bytes, _), data)) = self.late.pop_front().zip(engine.shared.data.as_mut()) {
                data.contents.write(offset, &bytes);
            }
        }
    }

    fn lose_mapping(&mut self, engine: &mut Engine) {
        if !self.is_done
            && let Some(flash) = engine.media.flash_mut()
        {
            self.is_done = flash.translation_mut().lose_moved();
        }
    }

    /// A list is about to be read: the request for it has reached the host.
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
            engine.shared.memory.read(address, &mut entry);
            let shifted = u64::from_le_bytes(entry) + 4096;
            engine.shared.memory.write(address, &shifted.to_le_bytes());
        }
    }

    fn keep_tag(&mut self, engine: &mut Engine) {
        if let AnyDriver::DcExpress(driver) = &mut engine.driver {
            let (tag, random) = driver.tags_planted();
            // What is drawn next is what there is.
            *random = self.random.get_or_insert(random.clone()).clone();
            *tag = random.clone().bits();
        }
    }
}

/// The request of this number, if it is under way.
fn newest(engine: &Engine, number: u64) -> Option<RequestId> {
    (0..engine.shared.requests.places()).find(|id| engine.shared.requests[*id].number == number)
}
