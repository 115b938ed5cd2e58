//! What packets meet beside the lanes, on the few links that have it: a device's DMA engine before them, a switch behind.

use super::dma::{DmaEngine, Ends};
use super::{Arrival, config};
use crate::time::Time;
use crate::tlp::{Direction, PacketId};

/// An engine, a switch, or both.
#[derive(Clone, Debug, Default)]
pub(super) struct Beyond {
    /// What the device's user data go through before the lanes.
    pub(super) dma: Option<DmaEngine>,
    /// Whether a switch stands at the other end, and packets for it that have come there, or to the root port.
    has_switch: bool,
    coming: Vec<Arrival>,
}

impl Beyond {
    /// With the engine of a description, if it has one.
    pub(super) fn dma(self: Box<Beyond>, dma: &config::Dma, link: &config::Link) -> Option<Box<Beyond>> {
        let dma = DmaEngine::of(dma, link);
        (dma.is_some() || self.has_switch).then(|| Box::new(Beyond { dma, ..*self }))
    }

    /// With a switch.
    pub(super) fn switch(self: Box<Beyond>) -> Box<Beyond> {
        Box::new(Beyond { has_switch: true, ..*self })
    }

    /// Whether it takes a burst that is sent, and sends it on later.
    pub(super) fn takes_sent(&mut self, now: Time, id: PacketId, ends: &mut Ends) -> bool {
        let packet = &ends.bursts[id].packet;
        match (packet.direction, &mut self.dma) {
            (Direction::Up, Some(dma)) => {
                dma.on_send(now, id, ends);
                true
            }
            (Direction::Down, _) if self.has_switch => {
                self.coming.push(Arrival { packet: id, first: 0, count: packet.count() });
                true
            }
            _ => false,
        }
    }

    /// Whether it takes packets that are through the lanes.
    pub(super) fn takes_arrived(&mut self, now: Time, arrival: Arrival, ends: &mut Ends) -> bool {
        if self.has_switch && ends.bursts[arrival.packet].packet.direction == Direction::Up {
            self.coming.push(arrival);
            return true;
        }
        match &mut self.dma {
            Some(dma) if dma.takes(arrival, ends.bursts) => {
                dma.on_answer(now, arrival.packet, ends);
                true
            }
            _ => false,
        }
    }

    /// The next packets for the switch, in the order in which they came.
    pub(super) fn take_coming(&mut self) -> Vec<Arrival> {
        std::mem::take(&mut self.coming)
    }
}
