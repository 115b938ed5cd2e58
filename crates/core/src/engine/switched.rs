//! Drives behind switches: what goes through them between the links of the drives and their root complexes.
//!
//! A link hands over what comes to its switch. At the other end, packets for memory arrive at the root complex of their
//! drive's engine as they do where nothing stands between, and packets for the drive go onto its lanes.

use super::Engine;
use crate::ledger::Stage;
use crate::link::Arrival;
use crate::link::switch::{Coming, Passed};
use crate::shared::Shared;
use crate::time::Time;
use crate::tlp::Direction;

impl Engine {
    /// When something happens at the switches next, if there are any.
    pub(super) fn next_at_switches(&self) -> Option<Time> {
        self.others.as_ref()?.switches.as_ref()?.next_at()
    }

    /// It happens.
    pub(super) fn handle_switches(&mut self) {
        let switches = self.others.as_mut().and_then(|others| others.switches.as_mut());
        let Some((now, passed)) = switches.and_then(|switches| Some((switches.next_at()?, switches.handle_next()?)))
        else {
            return;
        };
        let drive = usize::from(passed.coming.drive);
        self.drive_mut(drive).on_passed(now, passed);
        match drive {
            0 => self.pass_all_on(now),
            _ => {
                self.pass_on(now, drive);
                self.hear(now, drive - 1);
            }
        }
    }

    /// What has come from any of the drives, or from the host for one, goes to its switch.
    pub(super) fn pass_all_on(&mut self, now: Time) {
        if self.has_switches() {
            (0..self.drives()).for_each(|drive| self.pass_on(now, drive.into()));
        }
    }

    /// The same of one drive.
    pub(super) fn pass_on(&mut self, now: Time, drive: usize) {
        for packets in self.drive_mut(drive).link.take_coming() {
            self.enter_switch(now, drive, packets);
        }
    }

    fn enter_switch(&mut self, now: Time, drive: usize, packets: Arrival) {
        let link = &self.drive_mut(drive).link;
        let packet = link.bursts[packets.packet].packet;
        let beside = link.packets_time(&packet, packets.first, packets.count);
        let first_at = now - beside + link.packet_times(&packet).0;
        let coming = Coming { drive: drive as u16, packets, direction: packet.direction, beside };
        let switches = self.others.as_mut().and_then(|others| others.switches.as_mut());
        if let Some(until) = switches.and_then(|switches| switches.enter(now, coming, &packet)) {
            self.drive_mut(drive).link.hold_posted(Direction::Up, first_at, until);
        }
    }

    /// Packets are through their switch.
    fn on_passed(&mut self, now: Time, passed: Passed) {
        let Passed { coming: Coming { packets, direction, .. }, left_at } = passed;
        self.shared.scheduler.advance(now);
        let flight = &self.link.bursts[packets.packet];
        if direction == Direction::Down {
            return self.link.send_from_switch(now, packets.packet, &mut self.shared);
        }
        let is_last = packets.first + packets.count == flight.count();
        if let Some(request) = flight.packet.request.filter(|_| flight.packet.user_data && is_last) {
            let Shared { requests, .. } = &mut self.shared;
            requests.charge(Some(request), Stage::LinkWait, left_at);
            requests.charge(Some(request), Stage::Propagation, now);
        }
        self.on_arrival(now, packets);
    }

    /// For how much of their time the uplinks were busy.
    pub(super) fn switch_counters(&self) -> Vec<(&'static str, u64)> {
        let Some(switches) = self.others.as_ref().and_then(|others| others.switches.as_ref()) else {
            return Vec::new();
        };
        let now = self.recorder.last();
        let percent = |direction| (switches.busy_share(now, direction) * 100.0).round() as u64;
        vec![
            ("uplinks_to_host_percent", percent(Direction::Up)),
            ("uplinks_to_drives_percent", percent(Direction::Down)),
        ]
    }

    fn has_switches(&self) -> bool {
        self.others.as_ref().is_some_and(|others| others.switches.is_some())
    }

    fn drive_mut(&mut self, drive: usize) -> &mut Engine {
        if drive == 0 {
            return self;
        }
        let others = self.others.as_mut().expect("there are several drives");
        &mut others.drives[drive - 1]
    }
}
