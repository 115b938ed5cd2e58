//! Asynchronous events: requests that wait for something to tell (Base Specification 2.0, section 5.2).

use std::collections::VecDeque;

use phaselink_core::protocol::nvme::spec::Status;

use super::{EVENTS_MAX, logs};

/// Something to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A doorbell was written that no queue has.
    InvalidDoorbell,
    /// A doorbell was given a value that its queue cannot have.
    InvalidDoorbellValue,
    /// The temperature has passed a threshold that the host has set.
    Temperature,
}

impl Event {
    /// Type and information (figures 147 to 149), and the log page that says more.
    fn parts(self) -> (u8, u8, u8) {
        match self {
            Event::InvalidDoorbell => (0, 0, logs::ERRORS),
            Event::InvalidDoorbellValue => (0, 1, logs::ERRORS),
            Event::Temperature => (1, 1, logs::HEALTH),
        }
    }

    /// Dword 0 of the answer (figure 146).
    fn result(self) -> u32 {
        let (kind, information, log) = self.parts();
        u32::from(kind) | u32::from(information) << 8 | u32::from(log) << 16
    }
}

/// Requests and events that have not met.
#[derive(Clone, Debug, Default)]
pub struct Events {
    requests: VecDeque<u16>,
    pending: Vec<Event>,
    /// Types that have been told, and are not told again until the host has read their log page: one bit each.
    told: u8,
}

impl Events {
    /// The host waits for events with a command of this identifier.
    ///
    /// # Errors
    /// If too many wait already.
    pub fn request(&mut self, command_id: u16) -> Result<(), Status> {
        if self.requests.len() >= usize::from(EVENTS_MAX) {
            return Err(Status::ASYNC_EVENT_LIMIT_EXCEEDED);
        }
        self.requests.push_back(command_id);
        Ok(())
    }

    /// Stop waiting with this command; whether it was one.
    pub fn cancel(&mut self, command_id: u16) -> bool {
        let before = self.requests.len();
        self.requests.retain(|waiting| *waiting != command_id);
        self.requests.len() < before
    }

    /// Something has happened.
    pub fn raise(&mut self, event: Event) {
        if !self.pending.contains(&event) {
            self.pending.push(event);
        }
    }

    /// The host has read a log page.
    pub fn read(&mut self, log: u8) {
        match log {
            logs::ERRORS => self.told &= !1,
            logs::HEALTH => self.told &= !2,
            _ => {}
        }
    }

    /// The next event that can be told: the command to answer, and dword 0 of the answer.
    pub fn take(&mut self) -> Option<(u16, u32)> {
        if self.pending.is_empty() || self.requests.is_empty() {
            return None;
        }
        let place = self.pending.iter().position(|event| self.told >> event.parts().0 & 1 == 0)?;
        let event = self.pending.remove(place);
        self.told |= 1 << event.parts().0;
        Some((self.requests.pop_front()?, event.result()))
    }
}
