//! The PCI Express link: packets in, the same packets out at the other end when they have arrived there.
//!
//! The link owes its callers: every byte of every packet on the wire (headers, framing, acknowledgements, flow
//! control, skip ordered sets), first-in first-out order within a class, credits that never go negative, and one
//! arrival for each burst (for each packet in packet granularity). It knows nothing of protocols. Its upper end is the
//! root complex.

mod arrivals;
mod beyond;
mod bursts;
pub mod credits;
mod dma;
mod errors;
mod flight;
mod iommu;
mod lanes;
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
use beyond::Beyond;
pub use bursts::Bursts;
use dma::Ends;
pub use flight::InFlight;
use lanes::Lanes;

/// Packets that have reached the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub packet: PacketId,
    /// The first of them in its burst, and how many.
    pub first: u32,
    pub count: u32,
}

/// The link with what is on it.
#[derive(Clone, Debug)]
pub struct Link {
    pub bursts: Bursts,
    lanes: Lanes,
    /// What packets meet before and behind the lanes, if there is anything.
    beyond: Option<Box<Beyond>>,
}

/// Times and rates are asked of the lanes.
impl Deref for Link {
    type Target = Lanes;
    fn deref(&self) -> &Lanes {
        &self.lanes
    }
}

impl Link {
    /// A link whose root complex accepts posted writes at one every `root_accept`, and has each in memory `settle` after
    /// its arrival.
    pub fn new(config: &config::Link, root_accept: Span, settle: Span, seed: u64) -> Link {
        Link { bursts: Bursts::default(), lanes: Lanes::new(config, root_accept, settle, seed), beyond: None }
    }

    /// The same with a device whose user data go through this engine.
    pub fn with_dma(self, dma: &config::Dma, config: &config::Link) -> Link {
        Link { beyond: self.beyond.unwrap_or_default().dma(dma, config), ..self }
    }

    /// The same with a switch at its upper end, if there are any, which takes [what comes](Self::take_coming) to it.
    pub fn with_switch(self, config: &config::Switch) -> Link {
        if !config.is_there() {
            return self;
        }
        Link { beyond: Some(self.beyond.unwrap_or_default().switch()), ..self }
    }

    /// The same with memory so much farther away than the port at its upper end, which gives credits back.
    pub fn farther(self, way: Span) -> Link {
        Link { lanes: self.lanes.farther(way), ..self }
    }

    /// The same with packets that faults corrupt.
    pub fn with_faults(self, faults: &[config::Fault], seed: u64) -> Link {
        Link { lanes: self.lanes.with_faults(faults, seed), ..self }
    }

    /// Faults corrupt packets from now on.
    pub fn add_faults(&mut self, rules: &[Rule]) {
        self.lanes.add_faults(rules);
    }

    /// A fault of packets is over.
    pub fn remove_fault(&mut self, fault: &config::Fault) {
        self.lanes.remove_fault(fault);
    }

    /// Credits do not come back: see [`Lanes::starve`].
    pub fn starve(&mut self, now: Time, direction: Direction, until: Time) {
        self.lanes.starve(now, direction, until);
    }

    /// Everything that is under way is gone.
    pub fn clear(&mut self, now: Time, dma: &config::Dma, config: &config::Link) {
        self.bursts = Bursts::default();
        self.lanes.clear(now);
        self.beyond = self.beyond.take().and_then(|beyond| beyond.dma(dma, config));
    }

    /// The link is trained anew: see [`Lanes::retrain`].
    pub fn retrain(&mut self, now: Time, config: &config::Link, outage: Span) {
        self.lanes.retrain(now, config, outage, &mut self.bursts);
    }

    /// When all bursts that have been given to one direction so far will have left, if nothing else delays them: what the
    /// sender knows of its own queue.
    pub fn drained_at(&self, now: Time, direction: Direction) -> Time {
        self.lanes.drained_at(now, direction, &self.bursts)
    }

    /// Send a burst, now.
    #[inline(always)]
    pub fn send(&mut self, packet: Packet, shared: &mut Shared) {
        let id = self.bursts.occupy();
        self.bursts[id].packet = packet;
        self.send_on(shared.scheduler.now(), id, shared);
    }

    /// Send a posted write of a few bytes, now.
    #[inline(always)]
    pub fn write(&mut self, direction: Direction, address: u64, payload: &[u8], token: Token, shared: &mut Shared) {
        let bytes = payload.len() as u32;
        self.send_with(Packet::write(direction, address, bytes, bytes, token), payload, shared);
    }

    /// Send an interrupt message, now; the context of `token` is its vector, and what is written (PCI Express Base
    /// Specification 6.0, section 6.1.4).
    pub fn interrupt(&mut self, token: Token, shared: &mut Shared) {
        let data = token.context.to_le_bytes();
        let message = Packet::write(Direction::Up, MSI_BASE, data.len() as u32, data.len() as u32, token);
        self.send_with(Packet { interrupt: true, ..message }, &data, shared);
    }

    /// Send a packet with these few bytes, now.
    #[inline(always)] // How many they are is known where they are sent.
    pub fn send_with(&mut self, packet: Packet, payload: &[u8], shared: &mut Shared) {
        let id = self.bursts.occupy();
        self.bursts[id].packet = packet;
        copy(self.bursts.payload(id).room(payload.len()), payload);
        self.send_on(shared.scheduler.now(), id, shared);
    }

    /// Send a burst that is in the table already.
    #[inline(always)] // Most links have nothing beside the lanes, and a look is all that it takes.
    pub fn send_on(&mut self, now: Time, id: PacketId, shared: &mut Shared) {
        if self.beyond.is_some() && self.is_taken(now, id, shared) {
            return;
        }
        self.lanes.send_on(now, id, &mut self.bursts, &mut shared.scheduler);
    }

    /// Whether something before the lanes takes a burst, and sends it on later.
    #[cold]
    #[inline(never)]
    fn is_taken(&mut self, now: Time, id: PacketId, shared: &mut Shared) -> bool {
        let Link { bursts, lanes, beyond } = self;
        beyond.as_mut().is_some_and(|beyond| beyond.takes_sent(now, id, &mut Ends { bursts, lanes, shared }))
    }

    /// Whether something behind them takes packets that are through the lanes.
    #[cold]
    #[inline(never)]
    fn is_kept(&mut self, now: Time, arrival: Arrival, shared: &mut Shared) -> bool {
        let Link { bursts, lanes, beyond } = self;
        beyond.as_mut().is_some_and(|beyond| beyond.takes_arrived(now, arrival, &mut Ends { bursts, lanes, shared }))
    }

    /// Packets that have come to the switch from the device or are about to leave the root port for it, since they were last
    /// asked for.
    pub fn take_coming(&mut self) -> Vec<Arrival> {
        self.beyond.as_mut().map(|beyond| beyond.take_coming()).unwrap_or_default()
    }

    /// A burst for the device is at the switch.
    pub fn go_on(&mut self, now: Time, id: PacketId, shared: &mut Shared) {
        self.lanes.send_on(now, id, &mut self.bursts, &mut shared.scheduler);
    }

    /// The timer of a wire has fired.
    pub fn on_wire(&mut self, now: Time, wire: usize, shared: &mut Shared) {
        self.lanes.on_wire(now, wire, &mut self.bursts, &mut shared.scheduler);
    }

    /// A burst, or a packet of it, may have arrived; nothing if it was cut and arrives later.
    #[inline]
    pub fn on_arrival(&mut self, now: Time, id: PacketId, shared: &mut Shared) -> Option<Arrival> {
        let Shared { scheduler, requests, .. } = shared;
        let arrival = self.lanes.on_arrival(now, id, &mut self.bursts, scheduler, requests)?;
        if self.beyond.is_some() && self.is_kept(now, arrival, shared) {
            return None;
        }
        Some(arrival)
    }

    /// The device's DMA engine is done with a step of a burst: what has arrived at the device by that, if anything.
    pub fn on_dma(&mut self, now: Time, id: PacketId, shared: &mut Shared) -> Option<Arrival> {
        let Link { bursts, lanes, beyond } = self;
        beyond.as_mut()?.dma.as_mut()?.on_step(now, id, &mut Ends { bursts, lanes, shared })
    }

    /// The receiver of `direction` holds the posted packets that arrived from `arrived` on, and with them their credits,
    /// until `until`.
    pub fn hold_posted(&mut self, direction: Direction, arrived: Time, until: Time) {
        self.lanes.hold_posted(direction, arrived, until);
    }
}
