//! Queues of page writes for the phase-change chips, one queue for each lane (the group of banks that store a page).
//!
//! Sectors go round the channels first and then round the banks. A page of eight sectors takes one bank of every
//! channel, and the next page the other bank. Sequential writes thus keep all banks programming ("maximizes sequential
//! write performance", PSS, section 2). The banks of a page are its *lane*. A chip has one buffer, so a lane takes the
//! next page only when it has programmed the previous one.

use std::collections::VecDeque;

use super::super::spec::PAGE_BYTES;
use crate::config;
use crate::number::{index, length, low_u32, wide_index};

/// Write of a page, or a part of it, to the chips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneWrite {
    /// Number of the page on the device, in units of 4096 bytes.
    pub page: u64,
    /// First byte of the write on the device.
    pub offset: u64,
    /// Length of the write in bytes, at most that of a page.
    pub bytes: u32,
    /// Command that waits for the write, or none if the cache has acknowledged it.
    pub command: Option<u32>,
}

/// Group of banks that store a page together: the write that they are programming, and the writes that wait.
#[derive(Clone, Debug, Default)]
struct BankLane {
    programming: Option<LaneWrite>,
    queue: VecDeque<LaneWrite>,
}

/// All lanes of the card; a lane is the group of banks that store a page together.
#[derive(Clone, Debug)]
pub struct BankLanes {
    lanes: Vec<BankLane>,
}

impl BankLanes {
    /// Returns the idle lanes of a memory: as many as there are pages that its banks can store at the same time.
    pub fn new(media: &config::Media) -> BankLanes {
        let banks = u64::from(media.banks());
        let lanes = (banks * u64::from(media.stripe_bytes) / u64::from(PAGE_BYTES)).clamp(1, banks);
        BankLanes { lanes: vec![BankLane::default(); wide_index(lanes)] }
    }

    /// Returns the number of the lane that stores a page.
    pub fn of(&self, page: u64) -> u32 {
        low_u32(page % length(self.lanes.len()))
    }

    /// Returns the number of lanes of the card, which is the number of pages that it can program at once.
    pub fn count(&self) -> usize {
        self.lanes.len()
    }

    /// Queues a write of a page in its lane. Returns the lane's number if the lane is idle, so that the caller can
    /// start it.
    pub fn push(&mut self, job: LaneWrite) -> Option<u32> {
        let number = self.of(job.page);
        let lane = &mut self.lanes[index(number)];
        lane.queue.push_back(job);
        lane.programming.is_none().then_some(number)
    }

    /// Starts and returns the next write of an idle lane; none if no write waits there.
    pub fn start(&mut self, lane: u32) -> Option<LaneWrite> {
        let lane = &mut self.lanes[index(lane)];
        lane.programming = lane.queue.pop_front();
        lane.programming
    }

    /// Ends a lane's program operation, and returns its write; none if the lane was idle.
    pub fn end(&mut self, lane: u32) -> Option<LaneWrite> {
        self.lanes[index(lane)].programming.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(channels: u16, banks_per_channel: u16, stripe_bytes: u32) -> usize {
        let media = config::Media { channels, banks_per_channel, stripe_bytes, ..config::Media::default() };
        BankLanes::new(&media).lanes.len()
    }

    #[test]
    fn page_lane_spans_one_bank_of_every_channel() {
        assert_eq!(lanes(8, 2, 512), 2);
        assert_eq!(lanes(32, 2, 512), 8, "four cards");
        assert_eq!(lanes(1, 8, 4096), 8, "a page a bank");
        assert_eq!(lanes(1, 2, 512), 1, "a page over both banks, several times");
        assert_eq!(lanes(1, 8, 16384), 8, "no more pages at once than banks");
    }

    #[test]
    fn lane_programs_one_page_at_a_time_in_order() {
        let mut lanes = BankLanes::new(&config::Media {
            channels: 8,
            banks_per_channel: 2,
            stripe_bytes: 512,
            ..config::Media::default()
        });
        let job = |page| LaneWrite { page, offset: page * 4096, bytes: 4096, command: None };
        assert_eq!(lanes.push(job(2)), Some(0));
        assert_eq!(lanes.start(0), Some(job(2)));
        assert_eq!((lanes.push(job(4)), lanes.push(job(3))), (None, Some(1)));
        assert_eq!(
            (lanes.end(0), lanes.start(0), lanes.end(0), lanes.start(0)),
            (Some(job(2)), Some(job(4)), Some(job(4)), None)
        );
    }
}
