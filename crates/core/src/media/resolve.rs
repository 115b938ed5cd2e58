//! Construction of a memory from its configuration.

use super::cells::Cells;
use super::chip::BankChips;
use super::housekeeping::HousekeepingPauses;
use super::spread::ArrayTimeSpread;
use super::wear::StartGapWear;
use super::{BusTransferRate, Geometry, Media, MediaOptions, RandomData, Timing};
use crate::config::{self, WrittenDataPattern};
use crate::random::Random;

impl Media {
    /// Creates the memory of a media configuration. `seed` determines random data, the spread of array times and the
    /// shuffle of lines.
    pub fn of(media: &config::Media, seed: u64) -> Media {
        let random_data = (media.data_pattern == WrittenDataPattern::Random)
            .then(|| Box::new(RandomData { cells: Cells::of(media), random: Random::stream(seed, "data of writes") }));
        let details = MediaOptions {
            chips: BankChips::of(media),
            pauses: HousekeepingPauses::every(media.housekeeping_interval, media.housekeeping),
            wear: StartGapWear::of(media, seed).map(Box::new),
            random_data,
            ecc_decode: media.ecc_decode,
            spread: ArrayTimeSpread::of(media, seed).map(Box::new),
        };
        Media::with(&Geometry::from(media), details)
    }
}

impl From<&config::Media> for Geometry {
    fn from(media: &config::Media) -> Geometry {
        Geometry {
            channels: media.channels,
            banks_per_channel: media.banks_per_channel,
            stripe_bytes: media.stripe_bytes,
            timing: Timing {
                read: media.read,
                command: media.command,
                program: Cells::of(media).program_time(media.data_pattern),
                program_bytes: media.program_bytes,
                bus: BusTransferRate::from_bytes_per_ns(media.bus_bytes_per_ns),
                acknowledge: media.acknowledge,
            },
        }
    }
}
