//! PCI Express link: takes packets in at one end, and delivers the same packets at the other end when they have
//! arrived.
//!
//! The link accounts for every byte of every packet on the wire (headers, framing, acknowledgements, flow control, skip
//! ordered sets). It keeps first-in first-out order within a class, never makes a credit count negative, and reports
//! one arrival for each burst (for each packet in packet granularity). It knows nothing of protocols. Its upper end is
//! the root complex.
//!
//! A *burst* is the packets of one write, read or completion; a *train* is a part of a burst that is sent without a
//! gap. [`data_link`] arbitrates for the wires, [`credits`] and [`errors`] hold packets back, [`wire`] is the queue of
//! one direction, [`measure`] knows sizes and times.

mod attachments;
mod burst;
mod bursts;
pub mod credits;
mod data_link;
mod delivery;
mod dma;
mod errors;
mod iommu;
mod measure;
pub mod overhead;
pub mod rate;
pub mod root_complex;
pub mod switch;
pub mod wire;

use std::ops::Deref;

use crate::config;
use crate::faults::Rule;
use crate::memory::{MSI_BASE, copy};
use crate::shared::Shared;
use crate::time::{Span, Time};
use crate::tlp::{BurstId, Direction, Packet, Token};
use attachments::LinkAttachments;
pub use burst::PacketBurst;
pub use bursts::BurstTable;
use data_link::DataLink;
use dma::LinkAndMachineParts;

/// Packets of one burst that have reached the other end of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Burst that the packets belong to.
    pub packet: BurstId,
    /// Number within the burst of the first packet that has arrived, counted from 0.
    pub first: u32,
    /// Number of packets that have arrived together.
    pub count: u32,
}

/// Link with all bursts that are in flight on it.
#[derive(Clone, Debug)]
pub struct Link {
    /// Bursts in flight on the link, with their payloads.
    pub bursts: BurstTable,
    data_link: DataLink,
    /// DMA engine and switch of the link, if there are any.
    attachments: Option<Box<LinkAttachments>>,
}

/// Makes the times and rates of the data link layer readable through the link.
impl Deref for Link {
    type Target = DataLink;
    fn deref(&self) -> &DataLink {
        &self.data_link
    }
}

impl Link {
    /// Creates a link whose root complex accepts a posted write every `root_accept`, and has each in memory `settle`
    /// after its arrival.
    pub fn new(config: &config::Link, root_accept: Span, settle: Span, seed: u64) -> Link {
        Link {
            bursts: BurstTable::default(),
            data_link: DataLink::new(config, root_accept, settle, seed),
            attachments: None,
        }
    }

    /// Returns this link with a device whose user data goes through the DMA engine `dma`.
    pub fn with_dma(self, dma: &config::Dma, config: &config::Link) -> Link {
        Link { attachments: self.attachments.unwrap_or_default().with_dma(dma, config), ..self }
    }

    /// Returns this link with a switch, if `config` has one: at its upper end, or at its lower end where hosts share a
    /// device. Packets that come to the switch are collected by [`take_coming`](Self::take_waiting_arrival).
    pub fn with_switch(self, config: &config::Switch) -> Link {
        let Some(to_switch) = config.direction() else { return self };
        Link { attachments: Some(self.attachments.unwrap_or_default().with_switch(to_switch)), ..self }
    }

    /// Returns this link with its one-way delay longer by `way`, for a memory beyond the port at its upper end. The
    /// credits that this port returns take no longer.
    pub fn with_longer_path(self, way: Span) -> Link {
        Link { data_link: self.data_link.with_longer_path(way), ..self }
    }

    /// Returns this link with those of the fault rules that corrupt packets.
    pub fn with_faults(self, faults: &[config::Fault], seed: u64) -> Link {
        Link { data_link: self.data_link.with_faults(faults, seed), ..self }
    }

    /// Adds fault rules that corrupt packets from now on.
    pub fn add_faults(&mut self, rules: &[Rule]) {
        self.data_link.add_faults(rules);
    }

    /// Removes the rule of a packet fault that has ended.
    pub fn remove_fault(&mut self, fault: &config::Fault) {
        self.data_link.remove_fault(fault);
    }

    /// Stops receivers of packets in `direction` from returning credits before `until`: see [`DataLink::starve`].
    pub fn starve(&mut self, now: Time, direction: Direction, until: Time) {
        self.data_link.starve(now, direction, until);
    }

    /// Drops all packets in flight on this link and in its DMA engine, as after a loss of power.
    pub fn clear(&mut self, now: Time, dma: &config::Dma, config: &config::Link) {
        self.bursts = BurstTable::default();
        self.data_link.clear(now);
        self.attachments = self.attachments.take().and_then(|attachments| attachments.with_dma(dma, config));
    }

    /// Retrains the link to the width and rate of `config`. The link is down for `outage`; see [`DataLink::retrain`].
    pub fn retrain(&mut self, now: Time, config: &config::Link, outage: Span) {
        self.data_link.retrain(now, config, outage, &mut self.bursts);
    }

    /// Returns when the wire of `direction` will have sent all bursts that are queued for it, if credits do not delay
    /// them.
    pub fn drained_at(&self, now: Time, direction: Direction) -> Time {
        self.data_link.drained_at(now, direction, &self.bursts)
    }

    /// Adds a burst to those in flight, and sends it over the link at the current simulated time.
    #[inline(always)]
    pub fn send(&mut self, packet: Packet, shared: &mut Shared) {
        let id = self.bursts.occupy();
        self.bursts[id].packet = packet;
        self.send_on(shared.scheduler.now(), id, shared);
    }

    /// Sends a posted write of this short payload to `address`, in one packet, at the current simulated time.
    #[inline(always)]
    pub fn write(&mut self, direction: Direction, address: u64, payload: &[u8], token: Token, shared: &mut Shared) {
        let bytes = payload_bytes(payload);
        self.send_with(Packet::write(direction, address, bytes, bytes, token), payload, shared);
    }

    /// Sends an interrupt message to the host now. The context of `token` is its vector, and the data that is written
    /// (PCI Express Base Specification 6.0, section 6.1.4).
    pub fn interrupt(&mut self, token: Token, shared: &mut Shared) {
        let data = token.context.to_le_bytes();
        let message = Packet::write(Direction::Up, MSI_BASE, payload_bytes(&data), payload_bytes(&data), token);
        self.send_with(Packet { interrupt: true, ..message }, &data, shared);
    }

    /// Sends `packet` with these few payload bytes over the link at the current simulated time.
    // Inlined: callers pass payloads of a constant length.
    #[inline(always)]
    pub fn send_with(&mut self, packet: Packet, payload: &[u8], shared: &mut Shared) {
        let id = self.bursts.occupy();
        self.bursts[id].packet = packet;
        copy(self.bursts.room(id, payload.len()), payload);
        self.send_on(shared.scheduler.now(), id, shared);
    }

    /// Sends a burst from the table of bursts: to the DMA engine or the switch if it must pass one of them first, or
    /// else over the wire.
    // Inlined: most links have no DMA engine and no switch, and then only the check remains.
    #[inline(always)]
    pub fn send_on(&mut self, now: Time, id: BurstId, shared: &mut Shared) {
        if self.attachments.is_some() && self.divert_sent(now, id, shared) {
            return;
        }
        self.data_link.send_on(now, id, &mut self.bursts, &mut shared.scheduler);
    }

    /// Offers a burst that is being sent to the DMA engine and the switch. Returns true if one of them took it; it
    /// sends the burst on later.
    #[cold]
    #[inline(never)]
    fn divert_sent(&mut self, now: Time, id: BurstId, shared: &mut Shared) -> bool {
        let Link { bursts, data_link, attachments } = self;
        attachments.as_mut().is_some_and(|attachments| {
            attachments.divert_sent(now, id, &mut LinkAndMachineParts { bursts, data_link, shared })
        })
    }

    /// Offers packets that have crossed the wires to the switch and the DMA engine. Returns true if one of them took
    /// the packets.
    #[cold]
    #[inline(never)]
    fn divert_arrived(&mut self, now: Time, arrival: Arrival, shared: &mut Shared) -> bool {
        let Link { bursts, data_link, attachments } = self;
        attachments.as_mut().is_some_and(|attachments| {
            attachments.divert_arrived(now, arrival, &mut LinkAndMachineParts { bursts, data_link, shared })
        })
    }

    /// Removes and returns the packets of the burst that has waited longest at the switch of this link. They came over
    /// the link, or are on their way to it.
    pub fn take_waiting_arrival(&mut self) -> Option<Arrival> {
        self.attachments.as_mut()?.take_waiting_arrival()
    }

    /// Sends a burst that has passed the switch over this link.
    pub fn send_from_switch(&mut self, now: Time, id: BurstId, shared: &mut Shared) {
        self.data_link.send_on(now, id, &mut self.bursts, &mut shared.scheduler);
    }

    /// Handles the timer of a wire: sends the next queued packets if the wire is free.
    // Inlined, like `on_arrival`: these two handle two thirds of all events. Calls cost 150 instructions per request.
    #[inline(always)]
    pub fn on_wire(&mut self, now: Time, wire: usize, shared: &mut Shared) {
        self.data_link.on_wire(now, wire, &mut self.bursts, &mut shared.scheduler);
    }

    /// Handles the arrival event of a burst. Returns the packets that have arrived; `None` if they arrive later, or if
    /// the DMA engine or the switch took them.
    #[inline(always)]
    pub fn on_arrival(&mut self, now: Time, id: BurstId, shared: &mut Shared) -> Option<Arrival> {
        let Shared { scheduler, requests, .. } = shared;
        let arrival = self.data_link.on_arrival(now, id, &mut self.bursts, scheduler, requests)?;
        if self.attachments.is_some() && self.divert_arrived(now, arrival, shared) {
            return None;
        }
        Some(arrival)
    }

    /// Ends the current step of a burst in the DMA engine. Returns the transfer that is now complete at the device, if
    /// any.
    pub fn on_dma(&mut self, now: Time, id: BurstId, shared: &mut Shared) -> Option<Arrival> {
        let Link { bursts, data_link, attachments } = self;
        attachments.as_mut()?.dma.as_mut()?.on_step(now, id, &mut LinkAndMachineParts { bursts, data_link, shared })
    }

    /// Makes the receiver of packets in `direction` hold the posted packets that arrive from `arrived` on until
    /// `until`. Their credits return no earlier.
    pub fn hold_posted(&mut self, direction: Direction, arrived: Time, until: Time) {
        self.data_link.hold_posted(direction, arrived, until);
    }
}

/// Returns the length of a payload in bytes; the payload fits into one packet.
#[inline(always)]
fn payload_bytes(payload: &[u8]) -> u32 {
    payload.len().try_into().expect("a packet holds at most 4096 bytes")
}
