//! Parts that few links have beside the wires: a DMA engine in the device, and a switch at one end.

use std::collections::VecDeque;

use super::dma::{DmaEngine, LinkParts};
use super::{Arrival, config};
use crate::time::Time;
use crate::tlp::{Direction, PacketId};

/// DMA engine and switch of a link, either of which may be missing.
#[derive(Clone, Debug, Default)]
pub(super) struct Attachments {
    /// Engine that moves the device's user data before they reach the wires.
    pub(super) dma: Option<DmaEngine>,
    /// Direction in which packets reach a switch at the end of the link: up from a device, or down from a host; `None`
    /// without a switch.
    to_switch: Option<Direction>,
    /// Packets that have come to the switch over the link, or from beyond it on their way to the link.
    coming: VecDeque<Arrival>,
}

impl Attachments {
    /// Returns these attachments with the DMA engine that `dma` describes; `None` if neither an engine nor a switch is
    /// left.
    pub(super) fn with_dma(self: Box<Attachments>, dma: &config::Dma, link: &config::Link) -> Option<Box<Attachments>> {
        let dma = DmaEngine::of(dma, link);
        (dma.is_some() || self.to_switch.is_some()).then(|| Box::new(Attachments { dma, ..*self }))
    }

    /// Returns these attachments with a switch at the end that packets of this direction reach.
    pub(super) fn with_switch(self: Box<Attachments>, to_switch: Direction) -> Box<Attachments> {
        Box::new(Attachments { to_switch: Some(to_switch), ..*self })
    }

    /// Takes a burst that is being sent, if the engine or the switch has to handle it first; they send it on later.
    /// Returns true if the burst was taken.
    pub(super) fn divert_sent(&mut self, now: Time, id: PacketId, ends: &mut LinkParts) -> bool {
        let packet = &ends.bursts[id].packet;
        match (packet.direction, &mut self.dma) {
            (Direction::Up, Some(dma)) => {
                dma.on_send(now, id, ends);
                true
            }
            (direction, _) if self.to_switch == Some(direction.opposite()) => {
                self.coming.push_back(Arrival { packet: id, first: 0, count: packet.count() });
                true
            }
            _ => false,
        }
    }

    /// Takes packets that have crossed the wires, if the switch or the DMA engine is their receiver. Returns true if
    /// they were taken.
    pub(super) fn divert_arrived(&mut self, now: Time, arrival: Arrival, ends: &mut LinkParts) -> bool {
        if self.to_switch == Some(ends.bursts[arrival.packet].packet.direction) {
            self.coming.push_back(arrival);
            return true;
        }
        match &mut self.dma {
            Some(dma) if dma.expects(arrival, ends.bursts) => {
                dma.on_answer(now, arrival.packet, ends);
                true
            }
            _ => false,
        }
    }

    /// Removes and returns the packets that have come to the switch first.
    pub(super) fn take_coming(&mut self) -> Option<Arrival> {
        self.coming.pop_front()
    }
}
