//! Packets between the links of devices and their root ports, where these are connected by switches.
//!
//! A link hands over the packets that reach its switch. At the far end, packets for memory arrive at the root port as
//! they do without a switch, and packets for the device go onto its link.

use super::Engine;
use crate::ledger::Stage;
use crate::link::Arrival;
use crate::link::switch::{SwitchArrival, SwitchDeparture, Switches};
use crate::number::whole;
use crate::scheduler::{Event, SWITCHES};
use crate::time::Time;
use crate::tlp::Direction;

/// Switches of a machine, and the devices whose links may have packets for them.
#[derive(Clone, Debug)]
pub(super) struct SwitchedLinks {
    pub(super) switches: Switches,
    /// Direction of packets that go from the link of one drive or host to the shared link: up from drives, down from
    /// hosts that share a device.
    to_shared: Direction,
    /// Devices whose driver or controller has been called since packets were last taken from their links.
    called: Vec<usize>,
}

impl SwitchedLinks {
    /// Returns idle switches, with the links of idle devices.
    pub(super) fn new(switches: Switches, to_shared: Direction) -> Box<SwitchedLinks> {
        Box::new(SwitchedLinks { switches, to_shared, called: Vec::new() })
    }

    /// Returns a direction as the switches see it: all packets to the shared link go up.
    fn direction_at_switch(&self, direction: Direction) -> Direction {
        if self.to_shared == Direction::Up { direction } else { direction.opposite() }
    }
}

impl Engine {
    /// Notes that the driver or controller of a device is about to be called. Packets that it sends are then handed to
    /// its switch.
    pub(super) fn note_device_call(&mut self, device: usize) {
        if let Some(switched) = self.switched.as_mut().filter(|switched| switched.called.last() != Some(&device)) {
            switched.called.push(device);
        }
    }

    /// Handles an event of the switches. Packets that have passed a switch go on to the root port, or to the link of
    /// their device.
    pub(super) fn on_switch_event(&mut self, now: Time, event: Event) {
        let Some(switched) = &mut self.switched else { return };
        self.shared.scheduler.set_source(SWITCHES);
        if let Some(passed) = switched.switches.on_event(now, event, &mut self.shared.scheduler) {
            self.forward_passed_packets(now, passed);
            self.pass_on(now);
        }
    }

    /// Hands packets that have reached a switch to it: from the devices that were called, or from the host for them.
    pub(super) fn pass_on(&mut self, now: Time) {
        let Some(switched) = &mut self.switched else { return };
        let mut called = std::mem::take(&mut switched.called);
        if called.len() > 1 {
            called.sort_unstable();
            called.dedup();
        }
        for device in called.drain(..) {
            while let Some(packets) = self.devices[device].link.take_waiting_arrival() {
                self.enter_switch(now, device, packets);
            }
        }
        if let Some(switched) = &mut self.switched {
            switched.called = called;
        }
    }

    fn enter_switch(&mut self, now: Time, device: usize, packets: Arrival) {
        let link = &mut self.devices[device].link;
        let packet = link.bursts[packets.packet].packet;
        let beside = link.partial_burst_time(&packet, packets.first, packets.count);
        let first_at = now - beside + link.burst_packet_times(&packet).0;
        let Some(switched) = &mut self.switched else { return };
        let direction = switched.direction_at_switch(packet.direction);
        let coming = SwitchArrival { drive: device as u16, packets, direction, beside };
        let scheduler = &mut self.shared.scheduler;
        scheduler.set_source(SWITCHES);
        if let Some(until) = switched.switches.enter(now, coming, &packet, scheduler) {
            link.hold_posted(packet.direction, first_at, until);
        }
    }

    /// Hands on packets that have passed their switch: up to the root port (or the shared device), down to the link of
    /// the device.
    fn forward_passed_packets(&mut self, now: Time, passed: SwitchDeparture) {
        let SwitchDeparture { coming: SwitchArrival { drive, packets, direction, .. }, left_at } = passed;
        let device = usize::from(drive);
        self.set_event_source(device);
        let link = &mut self.devices[device].link;
        if direction == Direction::Down {
            return link.send_from_switch(now, packets.packet, &mut self.shared);
        }
        let flight = &link.bursts[packets.packet];
        let is_last = packets.first + packets.count == flight.count();
        if let Some(request) = flight.packet.request.filter(|_| flight.packet.user_data && is_last) {
            let requests = &mut self.shared.requests;
            requests.charge(Some(request), Stage::LinkWait, left_at);
            requests.charge(Some(request), Stage::Propagation, now);
        }
        self.on_arrival(now, packets, device);
    }

    /// Returns the utilisation of the shared links in per cent, with the names of the counters. Where hosts share a
    /// device, adds their shares of loads and stores.
    pub(super) fn switch_utilisation_counters(&self) -> Vec<(&'static str, u64)> {
        let Some(switched) = &self.switched else { return Vec::new() };
        let now = self.recorder.last();
        let busy = |direction| switched.switches.busy_share(now, switched.direction_at_switch(direction));
        let percent = |direction| whole((busy(direction) * 100.0).round());
        if switched.to_shared == Direction::Down {
            let [least, most] = self.devices.host_line_share_percent();
            return vec![
                ("device_link_to_hosts_percent", percent(Direction::Up)),
                ("device_link_to_device_percent", percent(Direction::Down)),
                ("host_lines_least_percent", least),
                ("host_lines_most_percent", most),
            ];
        }
        vec![
            ("uplinks_to_host_percent", percent(Direction::Up)),
            ("uplinks_to_drives_percent", percent(Direction::Down)),
        ]
    }
}
