//! Keys of section `dc_express` of drive files: command queues, polling and tags.

use crate::config::section::{any, names, section};
use crate::config::spans::{LONGEST, ZERO, ns};
use crate::problem::BrokenCondition;
use crate::time::Span;

section! {
    /// DC Express driver of the simulated host, and endpoint of the drive (Vučinić et al., FAST 2014).
    pub struct DcExpress ("dc_express") {
        /// Number of DC Express queue pairs; thread i uses pair i modulo this number
        queue_pairs => queue_pairs: u16 = 1, 1..=1024;
        /// Number of entries of each DC Express command queue (64 bytes each)
        queue_entries => queue_entries: u32 = 64, 2..=65536;
        /// Largest number of commands that one queue read of a DC Express endpoint fetches when commands overlap; a
        /// lone command is fetched alone
        fetch_entries => fetch_entries: u8 = 4, 1..=8;
        /// Largest number of queue reads that a DC Express endpoint has in flight for each command queue
        polls_in_flight => polls_in_flight: u8 = 4, 1..=64;
        /// Time in which the DC Express endpoint parses one command
        parse_ns => parse: Span = ns(32), ZERO..=LONGEST;
        /// Pause of the DC Express endpoint between the data of one queue read and its next queue read, when no command
        /// is predicted
        turnaround_ns => turnaround: Span = ns(60), ZERO..=LONGEST;
        /// Processor time of the DC Express driver to write one incomplete tag into the receive buffer, and again to
        /// check the tag
        tag_ns => tag: Span = Span::from_ps(2400), ZERO..=LONGEST;
        /// Processor time of the DC Express driver for a command beside its tags, off the critical path of a lone read:
        /// write 64 bytes, occupy a slot, fetch the last line
        command_ns => command: Span = ns(48), ZERO..=LONGEST;
        /// Length of the incomplete tag, which marks parts of a DC Express receive buffer that no data has reached
        tag_bits => tag_bits: u8 = 32, [8, 16, 32, 64];
        /// Choice of the incomplete tag in DC Express: `random`, `compare` (the device compares candidates with its
        /// contents) or `intervals` (the device keeps a list of unused values)
        tag_choice => tag_choice: IncompleteTagChoice = IncompleteTagChoice::Random, any();
        /// True if the DC Express endpoint predicts when commands arrive, and times its queue reads accordingly
        predict => predict: bool = true, any();
        /// Longest latency of one DC Express read; a read times out after this time multiplied by the number of queue
        /// entries. 0: derived from link and media
        max_latency_us => max_latency: Span = ZERO, ZERO..=LONGEST;
        /// Load below which DC Express driver and endpoint use doorbells instead of polling by queue reads; 0: always
        /// polling
        doorbell_below_iops => doorbell_below_iops: u64 = 0, 0..=1_000_000_000;
    }
}

/// Choice of the incomplete tag, which marks the chunks of a receive buffer that no data has reached yet, in DC Express
/// (section 3.1 of the paper).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncompleteTagChoice {
    /// The driver draws tags at random, so that stored data may end in a tag by chance.
    Random,
    /// The device chooses tags: it compares candidates with the ends of all stored chunks.
    Compare,
    /// The device chooses tags from a list of the values in which no stored chunk ends.
    Intervals,
}

names! { IncompleteTagChoice { "random" => Random, "compare" => Compare, "intervals" => Intervals } }

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
