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
use crate::tlp::{Direction, Packet, PacketId, Token};
use attachments::Attachments;
pub use burst::PacketBurst;
pub use bursts::Bursts;
use data_link::DataLink;
use dma::LinkParts;

/// Packets of one burst that have reached the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Burst that the packets belong to.
    pub packet: PacketId,
    /// Number of the first of these packets within the burst.
    pub first: u32,
    /// Number of packets.
    pub count: u32,
}

/// Link with all bursts that are in flight on it.
#[derive(Clone, Debug)]
pub struct Link {
    /// Bursts in flight.
    pub bursts: Bursts,
    data_link: DataLink,
    /// DMA engine and switch, if the link has any.
    attachments: Option<Box<Attachments>>,
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
            bursts: Bursts::default(),
            data_link: DataLink::new(config, root_accept, settle, seed),
            attachments: None,
        }
    }

    /// Returns this link with a device whose user data goes through the DMA engine `dma`.
    pub fn with_dma(self, dma: &config::Dma, config: &config::Link) -> Link {
        Link { attachments: self.attachments.unwrap_or_default().with_dma(dma, config), ..self }
    }

    /// Returns this link with a switch, if `config` has one: at its upper end, or at its lower end where hosts share a
    /// device. Packets that come to the switch are collected by [`take_coming`](Self::take_coming).
    pub fn with_switch(self, config: &config::Switch) -> Link {
        let Some(to_switch) = config.direction() else { return self };
        Link { attachments: Some(self.attachments.unwrap_or_default().with_switch(to_switch)), ..self }
    }

    /// Returns this link with `way` more between the port at its upper end, which returns credits, and the memory.
    pub fn farther(self, way: Span) -> Link {
        Link { data_link: self.data_link.farther(way), ..self }
    }

    /// Returns this link with fault rules that corrupt packets.
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

    /// Makes the receivers of one direction return no credits before `until`: see [`DataLink::starve`].
    pub fn starve(&mut self, now: Time, direction: Direction, until: Time) {
        self.data_link.starve(now, direction, until);
    }

    /// Drops everything that is in flight, as after a loss of power.
    pub fn clear(&mut self, now: Time, dma: &config::Dma, config: &config::Link) {
        self.bursts = Bursts::default();
        self.data_link.clear(now);
        self.attachments = self.attachments.take().and_then(|attachments| attachments.with_dma(dma, config));
    }

    /// Retrains the link to another width or rate: see [`DataLink::retrain`].
    pub fn retrain(&mut self, now: Time, config: &config::Link, outage: Span) {
        self.data_link.retrain(now, config, outage, &mut self.bursts);
    }

    /// Returns when all bursts that have been given to one direction so far will have left, if nothing else delays
    /// them: what the sender knows of its own queue.
    pub fn drained_at(&self, now: Time, direction: Direction) -> Time {
        self.data_link.drained_at(now, direction, &self.bursts)
    }

    /// Sends a burst now.
    #[inline(always)]
    pub fn send(&mut self, packet: Packet, shared: &mut Shared) {
        let id = self.bursts.occupy();
        self.bursts[id].packet = packet;
        self.send_on(shared.scheduler.now(), id, shared);
    }

    /// Sends a posted write of a few bytes now.
    #[inline(always)]
    pub fn write(&mut self, direction: Direction, address: u64, payload: &[u8], token: Token, shared: &mut Shared) {
        let bytes = payload_bytes(payload);
        self.send_with(Packet::write(direction, address, bytes, bytes, token), payload, shared);
    }

    /// Sends an interrupt message now. The context of `token` is its vector, and the data that is written (PCI Express
    /// Base Specification 6.0, section 6.1.4).
    pub fn interrupt(&mut self, token: Token, shared: &mut Shared) {
        let data = token.context.to_le_bytes();
        let message = Packet::write(Direction::Up, MSI_BASE, payload_bytes(&data), payload_bytes(&data), token);
        self.send_with(Packet { interrupt: true, ..message }, &data, shared);
    }

    /// Sends a packet with these few payload bytes now.
    #[inline(always)] // How many they are is known where they are sent.
    pub fn send_with(&mut self, packet: Packet, payload: &[u8], shared: &mut Shared) {
        let id = self.bursts.occupy();
        self.bursts[id].packet = packet;
        copy(self.bursts.room(id, payload.len()), payload);
        self.send_on(shared.scheduler.now(), id, shared);
    }

    /// Sends a burst that is in the table of bursts.
    #[inline(always)] // Most links have nothing beside the lanes, and a look is all that it takes.
    pub fn send_on(&mut self, now: Time, id: PacketId, shared: &mut Shared) {
        if self.attachments.is_some() && self.divert_sent(now, id, shared) {
            return;
        }
        self.data_link.send_on(now, id, &mut self.bursts, &mut shared.scheduler);
    }

    /// Offers a burst that is being sent to the DMA engine and the switch. Returns true if one took it, and will send
    /// it on later.
    #[cold]
    #[inline(never)]
    fn divert_sent(&mut self, now: Time, id: PacketId, shared: &mut Shared) -> bool {
        let Link { bursts, data_link, attachments } = self;
        attachments
            .as_mut()
            .is_some_and(|attachments| attachments.divert_sent(now, id, &mut LinkParts { bursts, data_link, shared }))
    }

    /// Offers packets that have crossed the wires to the switch and the DMA engine. Returns true if one took them.
    #[cold]
    #[inline(never)]
    fn divert_arrived(&mut self, now: Time, arrival: Arrival, shared: &mut Shared) -> bool {
        let Link { bursts, data_link, attachments } = self;
        attachments.as_mut().is_some_and(|attachments| {
            attachments.divert_arrived(now, arrival, &mut LinkParts { bursts, data_link, shared })
        })
    }

    /// Removes and returns the packets that have come to the switch over this link, or from beyond it on their way to
    /// this link.
    pub fn take_coming(&mut self) -> Option<Arrival> {
        self.attachments.as_mut()?.take_coming()
    }

    /// Sends a burst on from the switch over this link.
    pub fn send_from_switch(&mut self, now: Time, id: PacketId, shared: &mut Shared) {
        self.data_link.send_on(now, id, &mut self.bursts, &mut shared.scheduler);
    }

    /// Handles the timer of a wire.
    #[inline(always)] // Two of three events of a run are handled by these two; a call of each took 150 instructions a request.
    pub fn on_wire(&mut self, now: Time, wire: usize, shared: &mut Shared) {
        self.data_link.on_wire(now, wire, &mut self.bursts, &mut shared.scheduler);
    }

    /// Handles the event of an arrival. Returns the packets that have arrived; `None` if they arrive later, or if the
    /// DMA engine or the switch took them.
    #[inline(always)]
    pub fn on_arrival(&mut self, now: Time, id: PacketId, shared: &mut Shared) -> Option<Arrival> {
        let Shared { scheduler, requests, .. } = shared;
        let arrival = self.data_link.on_arrival(now, id, &mut self.bursts, scheduler, requests)?;
        if self.attachments.is_some() && self.divert_arrived(now, arrival, shared) {
            return None;
        }
        Some(arrival)
    }

    /// Continues the DMA engine after a step of a burst. Returns the transfer that has arrived at the device by that,
    /// if any.
    pub fn on_dma(&mut self, now: Time, id: PacketId, shared: &mut Shared) -> Option<Arrival> {
        let Link { bursts, data_link, attachments } = self;
        attachments.as_mut()?.dma.as_mut()?.on_step(now, id, &mut LinkParts { bursts, data_link, shared })
    }

    /// Makes the receiver of `direction` hold the posted packets that arrived from `arrived` on, and with them their
    /// credits, until `until`.
    pub fn hold_posted(&mut self, direction: Direction, arrived: Time, until: Time) {
        self.data_link.hold_posted(direction, arrived, until);
    }
}

/// Returns the bytes of a payload, which is written in one packet.
#[inline(always)]
fn payload_bytes(payload: &[u8]) -> u32 {
    payload.len().try_into().expect("a packet holds at most 4096 bytes")
}
