//! Asynchronous events (Base Specification 2.0, section 5.2), and the host's requests that complete when one occurs.

use std::collections::VecDeque;

use phaselink_core::protocol::nvme::spec::Status;

use super::limits::EVENT_REQUESTS_MAX;
use super::log_pages;

/// Event that the controller reports to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncEvent {
    /// The host wrote the doorbell of a queue that does not exist.
    InvalidDoorbell,
    /// The host wrote an index to a doorbell that is not less than the queue's size.
    InvalidDoorbellValue,
    /// The temperature passed a threshold that the host has set.
    Temperature,
    /// Namespaces, or their attachment to the controller, have changed.
    NamespaceChange,
    /// A sanitize operation ended.
    SanitizeEnd,
    /// The access on the path to namespaces has changed.
    AccessChange,
    /// A notice of reservations can be read.
    ReservationNotice,
    /// The log page of a discovery controller has changed.
    DiscoveryChange,
}

impl AsyncEvent {
    /// Returns the asynchronous event type, the event information, and the log page with details.
    fn result_fields(self) -> (u8, u8, u8) {
        match self {
            AsyncEvent::InvalidDoorbell => (0, 0, log_pages::ERRORS),
            AsyncEvent::InvalidDoorbellValue => (0, 1, log_pages::ERRORS),
            AsyncEvent::Temperature => (1, 1, log_pages::HEALTH),
            AsyncEvent::NamespaceChange => (2, 0, log_pages::CHANGED_NAMESPACES),
            AsyncEvent::AccessChange => (2, 3, log_pages::ACCESS),
            AsyncEvent::ReservationNotice => (6, 0, log_pages::RESERVATION_NOTICES),
            AsyncEvent::SanitizeEnd => (6, 1, log_pages::SANITIZE_STATUS),
            AsyncEvent::DiscoveryChange => (2, 0xf0, log_pages::DISCOVERY),
        }
    }

    /// Returns dword 0 of the completion that reports the event.
    fn event_completion_dword(self) -> u32 {
        let (kind, information, log) = self.result_fields();
        u32::from(kind) | u32::from(information) << 8 | u32::from(log) << 16
    }
}

/// Asynchronous Event Requests in flight, and events that no request has reported yet.
#[derive(Clone, Debug, Default)]
pub struct AsyncEventQueue {
    requests: VecDeque<u16>,
    pending: Vec<AsyncEvent>,
    /// Bit for each asynchronous event type that is masked: one has been reported, and the host has not read its log
    /// page yet.
    masked_types: u8,
}

impl AsyncEventQueue {
    /// Adds an Asynchronous Event Request with this command identifier to those in flight.
    ///
    /// # Errors
    /// Asynchronous Event Request Limit Exceeded if too many are in flight.
    pub fn add_event_request(&mut self, command_id: u16) -> Result<(), Status> {
        if self.requests.len() >= usize::from(EVENT_REQUESTS_MAX) {
            return Err(Status::ASYNC_EVENT_LIMIT_EXCEEDED);
        }
        self.requests.push_back(command_id);
        Ok(())
    }

    /// Removes the Asynchronous Event Request with this command identifier. Returns true if it was in flight.
    pub fn cancel_event_request(&mut self, command_id: u16) -> bool {
        let before = self.requests.len();
        self.requests.retain(|waiting| *waiting != command_id);
        self.requests.len() < before
    }

    /// Adds an event to report, unless one of its kind is pending already.
    pub fn raise(&mut self, event: AsyncEvent) {
        if !self.pending.contains(&event) {
            self.pending.push(event);
        }
    }

    /// Unmasks the type of events whose log page the host has read.
    pub fn on_log_page_read(&mut self, log: u8) {
        match log {
            log_pages::ERRORS => self.masked_types &= !1,
            log_pages::HEALTH => self.masked_types &= !2,
            log_pages::CHANGED_NAMESPACES | log_pages::ACCESS | log_pages::DISCOVERY => self.masked_types &= !(1 << 2),
            log_pages::SANITIZE_STATUS | log_pages::RESERVATION_NOTICES => self.masked_types &= !(1 << 6),
            _ => {}
        }
    }

    /// Returns the next Asynchronous Event Request to complete: its command identifier, and dword 0 of its completion.
    /// None if no request is in flight or no unmasked event is pending.
    pub fn next_completion(&mut self) -> Option<(u16, u32)> {
        if self.pending.is_empty() || self.requests.is_empty() {
            return None;
        }
        let place = self.pending.iter().position(|event| self.masked_types >> event.result_fields().0 & 1 == 0)?;
        let event = self.pending.remove(place);
        self.masked_types |= 1 << event.result_fields().0;
        Some((self.requests.pop_front()?, event.event_completion_dword()))
    }
}
