//! Keys of section `dc_express` of drive files: command queues, polling and tags.

use crate::config::section::{any, names, section};
use crate::config::spans::{LONGEST, ZERO, ns};
use crate::problem::BrokenCondition;
use crate::time::Span;

section! {
    /// The DC Express driver and endpoint (Vučinić et al., FAST 2014).
    pub struct DcExpress ("dc_express") {
        /// Queue pairs; thread i uses pair i modulo this number
        queue_pairs => queue_pairs: u16 = 1, 1..=1024;
        /// Entries of each command queue (64 bytes each)
        queue_entries => queue_entries: u32 = 64, 2..=65536;
        /// Commands that one queue read fetches where they overlap (section 2: "requests for one or more commands"); at depth 1 one
        fetch_entries => fetch_entries: u8 = 4, 1..=8;
        /// Queue reads that may be in flight at once for each queue
        polls_in_flight => polls_in_flight: u8 = 4, 1..=64;
        /// Time to parse one command
        parse_ns => parse: Span = ns(32), ZERO..=LONGEST;
        /// Pause of the endpoint between the answer to one queue read and the next when it has nothing to predict
        turnaround_ns => turnaround: Span = ns(60), ZERO..=LONGEST;
        /// Processor time to write one incomplete tag into the receive buffer, and to check it afterwards
        tag_ns => tag: Span = Span::from_ps(2400), ZERO..=LONGEST;
        /// Processor time of a command beside its tags, which no lone read waits for: 64 bytes written, slot kept, last line fetched
        command_ns => command: Span = ns(48), ZERO..=LONGEST;
        /// Length of the incomplete tag
        tag_bits => tag_bits: u8 = 32, [8, 16, 32, 64];
        /// Choice of the tag: `random`, `compare` (the device compares with its contents) or `intervals` (the device keeps the unused values)
        tag_choice => tag_choice: TagChoice = TagChoice::Random, any();
        /// True if the endpoint times its queue reads to the commands it expects
        predict => predict: bool = true, any();
        /// Longest time that one read may take, times the queue size the time-out of a stuck read; 0 derives it from link and media
        max_latency_us => max_latency: Span = ZERO, ZERO..=LONGEST;
        /// Load below which driver and endpoint fall back to doorbells, or 0 to poll always
        doorbell_below_iops => doorbell_below_iops: u64 = 0, 0..=1_000_000_000;
    }
}

/// Choice of the incomplete tag, which marks the chunks of a receive buffer that no data has reached yet, in DC Express
/// (section 3.1 of the paper).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagChoice {
    /// The driver draws tags at random, so that stored data may end in a tag by chance.
    Random,
    /// The device chooses tags: it compares candidates with the ends of all stored chunks.
    Compare,
    /// The device chooses tags from a list of the values in which no stored chunk ends.
    Intervals,
}

names! { TagChoice { "random" => Random, "compare" => Compare, "intervals" => Intervals } }

impl DcExpress {
    /// Returns the violated condition if one queue read may fetch more commands than a queue has entries; none
    /// otherwise.
    pub(super) fn broken_fetch(&self) -> Option<BrokenCondition> {
        let (fetch, queue) = (self.fetch_entries, self.queue_entries);
        BrokenCondition::when(
            u32::from(fetch) > queue,
            &["dc_express.fetch_entries", "dc_express.queue_entries"],
            format!("dc_express.fetch_entries is {fetch} with dc_express.queue_entries {queue}"),
            String::from("dc_express.fetch_entries up to dc_express.queue_entries"),
        )
    }

    /// Returns the violated condition if more queue reads may be in flight than a queue has entries; none otherwise.
    pub(super) fn broken_polls(&self) -> Option<BrokenCondition> {
        let (polls, queue) = (self.polls_in_flight, self.queue_entries);
        BrokenCondition::when(
            u32::from(polls) > queue,
            &["dc_express.polls_in_flight", "dc_express.queue_entries"],
            format!("dc_express.polls_in_flight is {polls} with dc_express.queue_entries {queue}"),
            String::from("dc_express.polls_in_flight up to dc_express.queue_entries"),
        )
    }
}
