//! Optional parts of a link: a DMA engine in the device, and a PCIe switch at one end.

use std::collections::VecDeque;

use super::dma::{DmaEngine, LinkAndMachineParts};
use super::{Arrival, config};
use crate::time::Time;
use crate::tlp::{BurstId, Direction};

/// DMA engine and switch of a link, either of which may be missing.
#[derive(Clone, Debug, Default)]
pub(super) struct LinkAttachments {
    /// DMA engine of the device, through which user data passes before the wires (to the host) or behind them (from the
    /// host).
    pub(super) dma: Option<DmaEngine>,
    /// Direction of packets that reach the switch at an end of this link: up from a device, or down from a host. `None`
    /// without a switch.
    to_switch: Option<Direction>,
    /// Packets that have reached the switch, over this link or on their way to it, in order of arrival.
    coming: VecDeque<Arrival>,
}

impl LinkAttachments {
    /// Returns these attachments of a link with the DMA engine that `dma` describes; `None` if neither an engine nor a
    /// switch is left.
    pub(super) fn with_dma(
        self: Box<LinkAttachments>,
        dma: &config::Dma,
        link: &config::Link,
    ) -> Option<Box<LinkAttachments>> {
        let dma = DmaEngine::of(dma, link);
        (dma.is_some() || self.to_switch.is_some()).then(|| Box::new(LinkAttachments { dma, ..*self }))
    }

    /// Returns these attachments of a link with a switch at the end that packets of direction `to_switch` reach.
    pub(super) fn with_switch(self: Box<LinkAttachments>, to_switch: Direction) -> Box<LinkAttachments> {
        Box::new(LinkAttachments { to_switch: Some(to_switch), ..*self })
    }

    /// Hands a burst of packets to the device's DMA engine or the PCIe switch, if it must pass one of them before the
    /// link's wires. Returns true if so; the burst is then sent on later.
    pub(super) fn divert_sent(&mut self, now: Time, id: BurstId, ends: &mut LinkAndMachineParts) -> bool {
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

    /// Hands packets that have crossed the link's wires to the PCIe switch or the device's DMA engine, if either is
    /// their receiver. Returns true if so, false if the link delivers the packets itself.
    pub(super) fn divert_arrived(&mut self, now: Time, arrival: Arrival, ends: &mut LinkAndMachineParts) -> bool {
        if self.to_switch == Some(ends.bursts[arrival.packet].packet.direction) {
            self.coming.push_back(arrival);
            return true;
        }
        match &mut self.dma {
            Some(dma) if dma.completes_own_read(arrival, ends.bursts) => {
                dma.on_answer(now, arrival.packet, ends);
                true
            }
            _ => false,
        }
    }

    /// Removes and returns the packets of one burst that have waited longest at the switch; `None` if none wait.
    pub(super) fn take_waiting_arrival(&mut self) -> Option<Arrival> {
        self.coming.pop_front()
    }
}
