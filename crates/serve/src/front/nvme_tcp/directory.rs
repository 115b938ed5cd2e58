//! Places of the server: which host has which controller.
//!
//! ```text
//!    Connect of the admin queue ──> reserve_id ──> [authentication] ──> open ──> Connect of I/O queues: find
//! ```
//!
//! A host that has to authenticate gets the identifier of its controller at once, but a place only once it has
//! authenticated. So hosts that cannot prove their names keep no place from those that can.

use std::sync::Mutex;

use super::fabrics::{ConnectData, DISCOVERY_NQN, InvalidConnectParameter, field};
use crate::device::tally::locked;

/// Maximum number of hosts that have a controller of the drive at a time.
pub(super) const DRIVE_PLACES: usize = 8;
/// Maximum number of hosts that have a discovery controller at a time.
pub(super) const DISCOVERY_PLACES: usize = 8;
/// Highest identifier of a dynamic controller (Base Specification 2.0, section 3.1.2.1).
const CONTROLLER_ID_MAX: u16 = 0xffef;

/// Host that has a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ControllerHolder {
    controller_id: u16,
    host: String,
    host_id: [u8; 16],
}

/// Controllers of all hosts by their places: first those of the drive, then those of discovery.
#[derive(Debug)]
pub(super) struct Directory {
    state: Mutex<ControllerDirectoryState>,
}

#[derive(Debug)]
struct ControllerDirectoryState {
    places: Vec<Option<ControllerHolder>>,
    last_id: u16,
}

impl ControllerDirectoryState {
    /// Returns a free place for a controller of the subsystem that a host names; none if all are taken.
    fn find_free_place(&self, data: &ConnectData) -> Option<usize> {
        let (first, end) = match data.subsystem == DISCOVERY_NQN {
            true => (DRIVE_PLACES, DRIVE_PLACES + DISCOVERY_PLACES),
            false => (0, DRIVE_PLACES),
        };
        (first..end).find(|place| self.places[*place].is_none())
    }

    fn is_controller_id_used(&self, id: u16) -> bool {
        self.places.iter().flatten().any(|holder| holder.controller_id == id)
    }
}

impl Default for Directory {
    fn default() -> Directory {
        let places = vec![None; DRIVE_PLACES + DISCOVERY_PLACES];
        Directory { state: Mutex::new(ControllerDirectoryState { places, last_id: 0 }) }
    }
}

impl Directory {
    /// Returns an identifier for the controller of a host, which takes no place yet; none if all places are taken.
    pub(super) fn reserve_controller_id(&self, data: &ConnectData) -> Option<u16> {
        let mut state = locked(&self.state);
        state.find_free_place(data)?;
        let next = |id: u16| if id >= CONTROLLER_ID_MAX { 1 } else { id + 1 };
        let mut controller_id = next(state.last_id);
        while state.is_controller_id_used(controller_id) {
            controller_id = next(controller_id);
        }
        state.last_id = controller_id;
        Some(controller_id)
    }

    /// Gives the controller of a host, whose identifier has been reserved, a place, and returns it. None if all places
    /// have been taken meanwhile.
    pub(super) fn open(&self, data: &ConnectData, controller_id: u16) -> Option<usize> {
        let mut state = locked(&self.state);
        let place = state.find_free_place(data).filter(|_| !state.is_controller_id_used(controller_id))?;
        state.places[place] = Some(ControllerHolder { controller_id, host: data.host.clone(), host_id: data.host_id });
        Some(place)
    }

    /// Returns the place of the controller that the host of an I/O queue has.
    ///
    /// # Errors
    /// The field that is wrong: the controller does not exist, or is another host's.
    pub(super) fn find(&self, data: &ConnectData) -> Result<usize, InvalidConnectParameter> {
        let state = locked(&self.state);
        let is_named = |holder: &Option<ControllerHolder>| {
            holder.as_ref().is_some_and(|holder| holder.controller_id == data.controller)
        };
        let place = state.places.iter().take(DRIVE_PLACES).position(is_named).ok_or(field::CONTROLLER)?;
        match &state.places[place] {
            Some(holder) if holder.host != data.host => Err(field::HOST),
            Some(holder) if holder.host_id != data.host_id => Err(field::HOST_ID),
            _ => Ok(place),
        }
    }

    /// Frees the place of a controller whose host has gone.
    pub(super) fn close(&self, place: usize) {
        locked(&self.state).places[place] = None;
    }
}

#[cfg(test)]
mod tests {
    use super::super::fabrics::ANY_CONTROLLER;
    use super::*;

    #[test]
    fn controller_places_are_limited_and_reusable_with_unique_identifiers() {
        let directory = Directory::default();
        let any = |subsystem: &str| ConnectData {
            host_id: [1; 16],
            controller: ANY_CONTROLLER,
            subsystem: String::from(subsystem),
            host: String::from("nqn.a"),
        };
        let drive = any("nqn.drive");
        let open = |data: &ConnectData| {
            let id = directory.reserve_controller_id(data)?;
            Some((directory.open(data, id)?, id))
        };
        // Reserved identifiers do not occupy a place of the drive.
        (1..=20).for_each(|id| assert_eq!(directory.reserve_controller_id(&drive), Some(id)));
        for (place, id) in (0..DRIVE_PLACES).zip(21..) {
            assert_eq!(open(&drive), Some((place, id)));
        }
        assert_eq!((open(&drive), directory.open(&drive, 20)), (None, None));
        assert_eq!(open(&any(DISCOVERY_NQN)), Some((DRIVE_PLACES, 29)));
        directory.close(3);
        assert_eq!(open(&drive), Some((3, 30)));
    }
}
