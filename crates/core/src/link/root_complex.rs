//! Root complex with the memory behind it (or a peer device's memory in its place): completes the device's reads, and
//! puts its writes into memory.
//!
//! Writes reach memory in order unless they carry the relaxed ordering attribute, and a read sees every strictly
//! ordered write before it (PCI Express Base Specification 6.0, section 2.4.1).
//!
//! ```text
//!     write  arrival -> translation -> write latency -> settled (in memory), in order
//!     read   arrival -> wait until earlier writes settled -> look (memory sampled) -> read latency -> completion
//! ```

use super::iommu::IommuModel;
use super::{Arrival, Link};
use crate::config::{self, Placement};
use crate::memory::HostMemory;
use crate::number::{index, real};
use crate::random::mix;
use crate::scheduler::Event;
use crate::shared::Shared;
use crate::time::{Span, Time};
use crate::tlp::{BurstId, Direction, INLINE_BYTES, Kind, Packet};

/// Latencies of reads and writes in one region of host memory, which depend on its placement in DRAM or caches.
#[derive(Clone, Copy, Debug)]
struct HostMemoryRegion {
    read: Span,
    write: Span,
    refresh: Span,
}

/// Root complex with its memory regions, IOMMU and ordering state.
#[derive(Clone, Debug)]
pub struct RootComplex {
    /// Latencies of host memory by region: queues and commands, and user data.
    regions: [HostMemoryRegion; 2],
    /// Latencies of device reads of user data that has left the processor caches, so that it comes from DRAM.
    /// `cold_ratio` is the share of these reads among all reads of user data.
    cold: HostMemoryRegion,
    cold_ratio: f64,
    iommu: Option<IommuModel>,
    refresh_interval: Span,
    late_write: Span,
    late_write_ratio: f64,
    completion_bytes: u32,
    seed: u64,
    /// Time at which every strictly ordered write so far is in memory.
    settled_until: Time,
    /// Time after a read until the processor package sleeps again. `awake` is the total time that reads have kept it
    /// awake, and `awake_until` the end of the last such period.
    package_sleep: Span,
    awake: Span,
    awake_until: Time,
}

impl HostMemoryRegion {
    fn new(config: &config::RootComplex, placement: Placement, uncore_ratio: f64) -> HostMemoryRegion {
        let remote = if placement.is_remote() { config.remote } else { Span::ZERO };
        let (read, refresh) = match placement.on_device_or_remote_socket(false) {
            Placement::Dram => (config.dram_read, config.refresh),
            Placement::Core if config.core_read.is_zero() => (config.dram_read, Span::ZERO),
            Placement::Core => (config.core_read.scale(uncore_ratio), Span::ZERO),
            _ => (config.cache_read.scale(uncore_ratio), Span::ZERO),
        };
        HostMemoryRegion { read: read + remote, write: config.write.scale(uncore_ratio) + remote, refresh }
    }
}

impl RootComplex {
    /// Creates the root complex of this host. Cache latencies scale with the uncore clock.
    pub fn new(
        config: &config::RootComplex,
        link: &config::Link,
        host: &config::Host,
        power: &config::Power,
        seed: u64,
    ) -> RootComplex {
        let uncore_ratio = match host.uncore_follows_core {
            true => host.nominal_clock_ratio(),
            false => 1.0,
        };
        RootComplex {
            regions: [config.placement, config.data_placement]
                .map(|place| HostMemoryRegion::new(config, place, uncore_ratio)),
            cold: HostMemoryRegion::new(
                config,
                Placement::Dram.on_device_or_remote_socket(config.data_placement.is_remote()),
                uncore_ratio,
            ),
            cold_ratio: config.data_cold_ratio,
            iommu: IommuModel::of(config),
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

    /// Returns this root complex with the latencies of a peer device's memory (such as a GPU's) for queues or user data
    /// that are there. Reads still wait for all earlier writes of the drive, to either memory.
    pub fn with_peer_memory(mut self, config: &config::Peer) -> RootComplex {
        let memory = HostMemoryRegion { read: config.read, write: config.write, refresh: Span::ZERO };
        for user_data in [false, true].into_iter().filter(|user_data| config.has(*user_data)) {
            self.regions[usize::from(user_data)] = memory;
            self.cold_ratio = if user_data { 0.0 } else { self.cold_ratio };
        }
        self
    }

    /// Returns the time from the arrival of a posted write to its being in memory; `None` if that differs between
    /// writes.
    pub fn settle_time(&self) -> Option<Span> {
        let [rings, data] = self.regions;
        let alike = self.late_write_ratio == 0.0 && self.iommu.is_none() && rings.write == data.write;
        alike.then_some(rings.write)
    }

    /// Returns the time from the arrival of the device's read of queues or commands to its completion, without address
    /// translation.
    pub fn queue_read_latency(&self) -> Span {
        self.region(false).read
    }

    /// Returns the time from the arrival of the device's read of user data to its completion, without address
    /// translation.
    pub fn data_read_latency(&self) -> Span {
        self.region(true).read
    }

    /// Returns the shortest time from the arrival of a write to its data being visible, without late writes and address
    /// translation.
    pub fn least_write_latency(&self) -> Span {
        let [rings, data] = self.regions;
        rings.write.min(data.write)
    }

    /// Returns the number of page-table walks of the IOMMU so far.
    pub fn walks(&self) -> u64 {
        self.iommu.as_ref().map_or(0, |iommu| iommu.misses)
    }

    fn region(&self, user_data: bool) -> HostMemoryRegion {
        self.regions[usize::from(user_data)]
    }

    /// Returns the share of the time up to `now` in which the device's reads kept the processor package awake (0 to 1).
    pub fn awake_share(&self, now: Time) -> f64 {
        let awake = self.awake - self.awake_until.since(now);
        if now == Time::ZERO { 0.0 } else { real(awake.as_ps()) / real(now.as_ps()) }
    }

    /// Handles packets from the device that reach the root complex: schedules when writes are in memory and when reads
    /// are completed. Completions of the processor's reads wait for earlier writes.
    #[inline(always)]
    pub fn on_arrival(
        &mut self,
        now: Time,
        arrival: Arrival,
        link: &mut Link,
        memory: &HostMemory,
        shared: &mut Shared,
    ) {
        match link.bursts[arrival.packet].packet.kind {
            Kind::MemoryWrite => self.schedule_write_settlement(now, arrival, link, shared),
            Kind::MemoryRead => self.on_read(now, arrival, link, memory, shared),
            // PCIe ordering: the completion has pushed earlier writes ahead of it, so it becomes visible only once they
            // are in memory.
            Kind::Completion => {
                let settled_until = self.settled_until.max(link.bursts[arrival.packet].posted_until());
                shared.scheduler.at(settled_until.max(now), Event::Settle(arrival.packet));
            }
        }
    }

    /// Schedules when the packets of a posted write are in memory: all at once, or one by one where some may be late.
    /// Not called if all writes take the same time: the link then delivers them when they are in memory.
    fn schedule_write_settlement(&mut self, now: Time, arrival: Arrival, link: &mut Link, shared: &mut Shared) {
        let flight = &link.bursts[arrival.packet];
        let (serial, each, relaxed) = (flight.serial(), flight.each(), flight.packet.relaxed);
        let first_bytes = u64::from(arrival.first) * u64::from(flight.packet.chunk_bytes);
        let bytes = arrival.count.saturating_mul(flight.packet.chunk_bytes).min(flight.packet.bytes);
        let write = self.region(flight.packet.user_data).write;
        let translation = self.translation_time(now, flight.packet.address + first_bytes, bytes);
        if self.late_write_ratio == 0.0 {
            let event = match arrival.count == flight.count() {
                true => Event::Settle(arrival.packet),
                false => Event::SettleOne { place: packet_number_u16(arrival.first), packet: arrival.packet },
            };
            return shared.scheduler.at(self.settle_time_in_order(now + write + translation, relaxed), event);
        }
        for place in 0..arrival.count {
            let arrived = now - each * u64::from(arrival.count - 1 - place);
            let index = arrival.first + place;
            let late = self.late_delay(serial, index);
            let at = self.settle_time_in_order(arrived + write + translation + late, relaxed);
            if !relaxed && at > arrived + write + translation {
                link.hold_posted(Direction::Up, arrived, at);
            }
            shared
                .scheduler
                .at(at.max(now), Event::SettleOne { place: packet_number_u16(index), packet: arrival.packet });
        }
    }

    /// Returns when a write that could be in memory at `at` is there: not before earlier writes, unless it has relaxed
    /// ordering.
    fn settle_time_in_order(&mut self, at: Time, relaxed: bool) -> Time {
        if relaxed {
            return at;
        }
        self.settled_until = self.settled_until.max(at);
        self.settled_until
    }

    /// Handles `count` packets that are in memory now: copies the bytes of a write, unless it is user data. Returns
    /// true if the whole burst is in memory.
    #[inline(always)]
    pub fn on_settle(&mut self, packet: BurstId, count: u32, link: &mut Link, memory: &mut HostMemory) -> bool {
        let flight = &mut link.bursts[packet];
        flight.settled += count;
        assert!(flight.settled <= flight.count(), "more packets of a burst reach memory than were sent");
        let (Packet { user_data, address, bytes, .. }, last) = (flight.packet, flight.settled == flight.count());
        if flight.packet.kind == Kind::Completion {
            // The data goes to a processor register, and not to memory.
        } else if !user_data {
            link.bursts.store(packet, address, bytes, memory);
            if index(bytes) > INLINE_BYTES && last {
                link.bursts.release(packet);
            }
        }
        last
    }

    /// Handles a read request of the device. Samples memory once all packets of the burst have arrived and earlier
    /// strictly ordered writes are in memory.
    // Inlined: called from one place, for every read of the device.
    #[inline(always)]
    fn on_read(&mut self, now: Time, arrival: Arrival, link: &mut Link, memory: &HostMemory, shared: &mut Shared) {
        self.restart_idle_timer(now);
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
            return shared.scheduler.at(settled_until, Event::Recheck(arrival.packet));
        }
        self.sample_host_memory(now, arrival.packet, link, memory, shared);
    }

    /// Samples memory for a device's read now, and schedules its completion. The latency of the access counts from the
    /// arrival of the first packet.
    #[inline(always)]
    pub fn sample_host_memory(
        &mut self,
        now: Time,
        id: BurstId,
        link: &mut Link,
        memory: &HostMemory,
        shared: &mut Shared,
    ) {
        let (serial, packet) = (link.bursts[id].serial(), link.bursts[id].packet);
        let region = match packet.user_data && self.cold_ratio > 0.0 && self.draw(serial, 0, 4) < self.cold_ratio {
            true => self.cold,
            false => self.region(packet.user_data),
        };
        let translation = self.translation_time(now, packet.address, packet.bytes);
        let latency = region.read + translation + self.draw_refresh_wait(serial, region.refresh);
        let flight = &mut link.bursts[id];
        flight.packet.sampled_at = now;
        let at = (flight.first_arrival + latency).max(now);
        let Packet { user_data, address, bytes, .. } = flight.packet;
        if !user_data {
            link.bursts.load(id, address, bytes, memory);
        }
        shared.scheduler.at(at, Event::ReadDone(id));
    }

    /// Sends the completions of a device's read whose memory access has ended.
    pub fn on_answer(&mut self, now: Time, id: BurstId, link: &mut Link, shared: &mut Shared) {
        let packet = &mut link.bursts[id].packet;
        packet.kind = Kind::Completion;
        packet.direction = Direction::Down;
        packet.chunk_bytes = self.completion_bytes;
        link.send_on(now, id, shared);
    }

    fn restart_idle_timer(&mut self, now: Time) {
        let until = now + self.package_sleep;
        self.awake += until.since(self.awake_until.max(now));
        self.awake_until = until;
    }

    /// Returns the time that the IOMMU takes to translate the addresses of an access; zero without an IOMMU.
    fn translation_time(&mut self, now: Time, address: u64, bytes: u32) -> Span {
        self.iommu.as_mut().map_or(Span::ZERO, |iommu| iommu.translation_end_time(now, address, bytes).since(now))
    }

    /// Returns the remaining time of a DRAM refresh that a read meets, or zero. The refresh phase is drawn from the
    /// packet's serial number, so that it does not depend on other packets.
    fn draw_refresh_wait(&self, serial: u64, refresh: Span) -> Span {
        if refresh.is_zero() {
            return Span::ZERO;
        }
        let since = self.refresh_interval.scale(self.draw(serial, 0, 3));
        if since < refresh { refresh - since } else { Span::ZERO }
    }

    fn late_delay(&self, serial: u64, index: u32) -> Span {
        match self.draw(serial, index, 2) < self.late_write_ratio {
            true => self.late_write,
            false => Span::ZERO,
        }
    }

    fn draw(&self, serial: u64, index: u32, purpose: u64) -> f64 {
        let bits = mix(mix(self.seed ^ serial) ^ (u64::from(index) << 8 | purpose));
        real(bits >> 11) / real(1u64 << 53)
    }
}

/// Returns the number of a packet within its burst as the 16-bit number that events store.
fn packet_number_u16(number: u32) -> u16 {
    number.try_into().expect("a burst whose packets settle one by one has at most 65,536 packets")
}
