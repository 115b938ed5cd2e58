//! Bytes around payloads: packet headers, framing, data link layer packets.

use crate::config;
use crate::tlp::{Direction, Kind};

/// Physical framing and data-link bytes around each packet up to generation 5: STP or STP token, sequence
/// number, LCRC, END (PCI Express Base Specification 6.0, sections 3.6.2 and 4.2). In flit mode (generation 6)
/// the flit carries them, at the cost that [`super::rate::WireRate`] takes off the raw rate.
pub const FRAMING_BYTES: u32 = 8;

/// Bytes of the header of a completion: 3 double words (section 2.2.9).
const COMPLETION_HEADER_BYTES: u32 = 12;

/// Bytes of one data-link layer packet (ACK, NAK or UpdateFC) with its framing (section 3.5).
pub const DLLP_BYTES: u32 = 8;

/// Header and framing bytes around the payload of a packet.
#[derive(Clone, Copy, Debug)]
pub struct PacketOverhead {
    /// Header and framing bytes of one packet, by its direction and kind.
    bytes: [[u32; 3]; 2],
}

impl PacketOverhead {
    /// Computes the overheads of this link, unless the description sets its own: 24 B for requests with 64-bit
    /// addresses, 20 B for those with 32-bit ones and for completions; 8 B less in flit mode (generation 6).
    pub fn new(link: &config::Link) -> PacketOverhead {
        let framing = if link.generation >= 6 { 0 } else { FRAMING_BYTES };
        let request = framing + if link.address_bits == 64 { 16 } else { 12 };
        let or = |own: u32, bytes: u32| if own > 0 { own } else { bytes };
        let (read, write) = (or(link.request_overhead_bytes, request), or(link.write_overhead_bytes, request));
        let completion = or(link.completion_overhead_bytes, COMPLETION_HEADER_BYTES + framing);
        let doorbell = or(link.doorbell_overhead_bytes, request);
        PacketOverhead { bytes: [[write, read, completion], [doorbell, read, completion]] }
    }

    /// Returns the header and framing bytes of one packet of this direction and kind.
    pub fn of(&self, direction: Direction, kind: Kind) -> u32 {
        self.bytes[direction as usize][kind as usize]
    }
}
