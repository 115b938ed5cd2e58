//! From a description to a memory.

use super::{Acknowledge, BusRate, Geometry, Timing};
use crate::config;

impl From<&config::Media> for Geometry {
    fn from(media: &config::Media) -> Geometry {
        Geometry {
            channels: media.channels,
            banks_per_channel: media.banks_per_channel,
            stripe_bytes: media.stripe_bytes,
            timing: Timing {
                read: media.read,
                command: media.command,
                program: media.program,
                program_bytes: media.program_bytes,
                bus: BusRate::from_bytes_per_ns(media.bus_bytes_per_ns),
                acknowledge: match media.acknowledge {
                    config::Acknowledge::Early => Acknowledge::Early,
                    config::Acknowledge::Late => Acknowledge::Late,
                },
            },
        }
    }
}
