//! The root complex and the memory behind it, or a peer's memory in its place: answers the device's reads, lets its writes settle.
//!
//! Owes the device: writes settle in order unless they carry the relaxed ordering attribute, and a read sees every
//! strictly ordered write before it (PCI Express Base Specification 6.0, section 2.4.1).

use super::iommu::Iommu;
use super::{Arrival, Link};
use crate::config::{self, Placement};
use crate::random::mix;
use crate::scheduler::Event;
use crate::shared::Shared;
use crate::time::{Span, Time};
use crate::tlp::PacketId;
use crate::tlp::{Direction, Kind, Packet};

/// Part of host memory, where its placement puts it.
#[derive(Clone, Copy, Debug)]
struct Region {
    read: Span,
    write: Span,
    refresh: Span,
}

/// The root complex.
#[derive(Clone, Debug)]
pub struct RootComplex {
    /// Rings and commands, and user data.
    regions: [Region; 2],
    iommu: Option<Iommu>,
    refresh_interval: Span,
    late_write: Span,
    late_write_ratio: f64,
    completion_bytes: u32,
    seed: u64,
    /// Every strictly ordered write so far is in memory by then.
    settled_until: Time,
    /// How long the device's reads have kept the package awake, and since when the last of them does.
    package_sleep: Span,
    awake: Span,
    awake_until: Time,
}

impl Region {
    fn new(config: &config::RootComplex, placement: Placement, uncore_ratio: f64) -> Region {
        let remote = if placement.is_remote() { config.remote } else { Span::ZERO };
        let (read, refresh) = match placement.on_socket(false) {
            Placement::Dram => (config.dram_read, config.refresh),
            Placement::Core if config.core_read.is_zero() => (config.dram_read, Span::ZERO),
            Placement::Core => (config.core_read.scale(uncore_ratio), Span::ZERO),
            _ => (config.cache_read.scale(uncore_ratio), Span::ZERO),
        };
        Region { read: read + remote, write: config.write.scale(uncore_ratio) + remote, refresh }
    }
}

impl RootComplex {
    /// The root complex of this host. The cache's latency scales with the clock that it runs at.
    pub fn new(
        config: &config::RootComplex,
        link: &config::Link,
        host: &config::Host,
        power: &config::Power,
        seed: u64,
    ) -> RootComplex {
        let uncore_ratio = match host.uncore_follows_core {
            true => host.nominal_ghz / host.core_ghz,
            false => 1.0,
        };
        RootComplex {
            regions: [config.placement, config.data_placement].map(|place| Region::new(config, place, uncore_ratio)),
            iommu: Iommu::of(config),
            refresh_interval: config.refresh_interval,
            late_write: config.late_write,
            late_write_ratio: config.late_write_ratio,
            completion_bytes: link.completion_bytes_max(),
            seed,
            settled_until: Time::ZERO,
            package_sleep: power.package_sleep,
            awake: Span::ZERO,
            awake_until: Time::ZERO,
        }
    }

    /// The same with what the memory of a peer holds there. What a drive has written first is taken to be in memory first,
    /// wherever each lies.
    pub fn with_peer(mut self, config: &config::Peer) -> RootComplex {
        let memory = Region { read: config.read, write: config.write, refresh: Span::ZERO };
        for user_data in [false, true].into_iter().filter(|user_data| config.has(*user_data)) {
            self.regions[usize::from(user_data)] = memory;
        }
        self
    }

    /// From the arrival of every posted write to its being in memory; nothing if that differs from write to write.
    pub fn settle(&self) -> Option<Span> {
        let [rings, data] = self.regions;
        let alike = self.late_write_ratio == 0.0 && self.iommu.is_none() && rings.write == data.write;
        alike.then_some(rings.write)
    }

    /// From the arrival of a read of rings and commands to its answer, once it is translated.
    pub fn read_latency(&self) -> Span {
        self.region(false).read
    }

    /// The same for user data.
    pub fn data_read_latency(&self) -> Span {
        self.region(true).read
    }

    /// From a write's arrival to its data being visible, if it is neither late nor translated; the least if that depends
    /// on what it writes.
    pub fn write_latency(&self) -> Span {
        let [rings, data] = self.regions;
        rings.write.min(data.write)
    }

    /// Walks of the page table so far.
    pub fn walks(&self) -> u64 {
        self.iommu.as_ref().map_or(0, |iommu| iommu.misses)
    }

    fn region(&self, user_data: bool) -> Region {
        self.regions[usize::from(user_data)]
    }

    /// Share of the time up to `now` in which the device's reads kept the package awake.
    pub fn awake_share(&self, now: Time) -> f64 {
        let awake = self.awake - self.awake_until.since(now);
        if now == Time::ZERO { 0.0 } else { awake.as_ps() as f64 / now.as_ps() as f64 }
    }

    /// Packets from the device have arrived.
    #[inline(always)]
    pub fn on_arrival(&mut self, now: Time, arrival: Arrival, link: &mut Link, shared: &mut Shared) {
        match link.bursts[arrival.packet].packet.kind {
            Kind::MemoryWrite => self.on_write(now, arrival, link, shared),
            Kind::MemoryRead => self.on_read(now, arrival, link, shared),
            // The answer to a processor's read has pushed the writes before it into memory.
            Kind::Completion => {
                let settled_until = self.settled_until.max(link.bursts[arrival.packet].posted_until());
                shared.scheduler.at(settled_until.max(now), Event::Settle(arrival.packet));
            }
        }
    }

    /// Posted writes settle in memory: all at once, or one by one where some may be late. Where all take the same time,
    /// the link hands them over settled instead.
    fn on_write(&mut self, now: Time, arrival: Arrival, link: &mut Link, shared: &mut Shared) {
        let flight = &link.bursts[arrival.packet];
        let (serial, each, relaxed) = (flight.serial(), flight.each(), flight.packet.relaxed);
        let first_bytes = u64::from(arrival.first) * u64::from(flight.packet.chunk_bytes);
        let bytes = arrival.count.saturating_mul(flight.packet.chunk_bytes).min(flight.packet.bytes);
        let write = self.region(flight.packet.user_data).write;
        let translation = self.translation(now, flight.packet.address + first_bytes, bytes);
        if self.late_write_ratio == 0.0 {
            let event = match arrival.count == flight.count() {
                true => Event::Settle(arrival.packet),
                false => Event::SettleOne { place: arrival.first as u16, packet: arrival.packet },
            };
            return shared.scheduler.at(self.settle_at(now + write + translation, relaxed), event);
        }
        for place in 0..arrival.count {
            let arrived = now - each * u64::from(arrival.count - 1 - place);
            let index = arrival.first + place;
            let late = self.late(serial, index);
            let at = self.settle_at(arrived + write + translation + late, relaxed);
            if !relaxed && at > arrived + write + translation {
                link.hold_posted(Direction::Up, arrived, at);
            }
            shared.scheduler.at(at.max(now), Event::SettleOne { place: index as u16, packet: arrival.packet });
        }
    }

    /// When a write that could settle at `at` does, given its ordering.
    fn settle_at(&mut self, at: Time, relaxed: bool) -> Time {
        if relaxed {
            return at;
        }
        self.settled_until = self.settled_until.max(at);
        self.settled_until
    }

    /// Packets of a write have settled: its bytes are in memory. True if they were the last of their burst.
    #[inline(always)]
    pub fn on_settle(
        &mut self,
        packet: PacketId,
        first: u32,
        count: u32,
        link: &mut Link,
        shared: &mut Shared,
    ) -> bool {
        let flight = &mut link.bursts[packet];
        flight.settled += count;
        let (Packet { user_data, address, bytes, .. }, last) = (flight.packet, flight.settled == flight.count());
        if flight.packet.kind == Kind::Completion {
            // It goes to a processor's register.
        } else if !user_data {
            link.bursts.store(packet, address, bytes, &mut shared.memory);
        } else if let Some(data) = &mut shared.data {
            data.to_host(&flight.packet, first, count, &mut shared.memory);
        }
        last
    }

    /// The device reads. Once all requests of the burst are in, memory is looked at, unless writes before them have yet
    /// to settle: a read does not pass a write.
    #[inline(always)] // Every read of the device comes this way, and from one place.
    fn on_read(&mut self, now: Time, arrival: Arrival, link: &mut Link, shared: &mut Shared) {
        self.stay_awake(now);
        let flight = &mut link.bursts[arrival.packet];
        if flight.first_arrival == Time::NEVER {
            flight.first_arrival = now - flight.each() * u64::from(arrival.count - 1);
        }
        if arrival.first + arrival.count < flight.count() {
            return;
        }
        let settled_until = self.settled_until.max(flight.posted_until());
        if settled_until > now {
            flight.first_arrival = settled_until;
            return shared.scheduler.at(settled_until, Event::Look(arrival.packet));
        }
        self.on_look(now, arrival.packet, link, shared);
    }

    /// Memory is looked at; the answer starts after the latency of the access, which the first request has begun.
    #[inline(always)]
    pub fn on_look(&mut self, now: Time, id: PacketId, link: &mut Link, shared: &mut Shared) {
        let (serial, packet) = (link.bursts[id].serial(), link.bursts[id].packet);
        let region = self.region(packet.user_data);
        let translation = self.translation(now, packet.address, packet.bytes);
        let latency = region.read + translation + self.refreshing(serial, region.refresh);
        let flight = &mut link.bursts[id];
        flight.packet.sampled_at = now;
        let at = (flight.first_arrival + latency).max(now);
        let Packet { user_data, address, bytes, .. } = flight.packet;
        if !user_data {
            link.bursts.load(id, address, bytes, &shared.memory);
        }
        shared.scheduler.at(at, Event::Answer(id));
    }

    /// The access is done: the read turns around as a burst of completions.
    pub fn on_answer(&mut self, now: Time, id: PacketId, link: &mut Link, shared: &mut Shared) {
        let packet = &mut link.bursts[id].packet;
        packet.kind = Kind::Completion;
        packet.direction = Direction::Down;
        packet.chunk_bytes = self.completion_bytes;
        link.send_on(now, id, shared);
    }

    fn stay_awake(&mut self, now: Time) {
        let until = now + self.package_sleep;
        self.awake += until.since(self.awake_until.max(now));
        self.awake_until = until;
    }

    /// How long the translation of an address takes.
    fn translation(&mut self, now: Time, address: u64, bytes: u32) -> Span {
        self.iommu.as_mut().map_or(Span::ZERO, |iommu| iommu.translate(now, address, bytes).since(now))
    }

    /// What is left of a refresh that a read from DRAM meets. Its rank is anywhere between two of them. Drawn from the
    /// packet's serial number, so that it does not depend on what else is under way.
    fn refreshing(&self, serial: u64, refresh: Span) -> Span {
        if refresh.is_zero() {
            return Span::ZERO;
        }
        let since = self.refresh_interval.scale(self.draw(serial, 0, 3));
        if since < refresh { refresh - since } else { Span::ZERO }
    }

    fn late(&self, serial: u64, index: u32) -> Span {
        match self.draw(serial, index, 2) < self.late_write_ratio {
            true => self.late_write,
            false => Span::ZERO,
        }
    }

    fn draw(&self, serial: u64, index: u32, purpose: u64) -> f64 {
        let bits = mix(mix(self.seed ^ serial) ^ (u64::from(index) << 8 | purpose));
        (bits >> 11) as f64 / (1u64 << 53) as f64
    }
}
