//! Content of the lists of commands from real hosts (PRP lists, SGL segments, ranges), as it was read from the host's
//! memory.
//!
//! The packets that read such a list are simulated like any other, but its bytes are not in the simulated memory, and
//! the host may have changed them since. Therefore the content travels with the command.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use crate::protocol::nvme::spec::Status;

/// Bytes of lists, in the order in which the checks of a command read them.
#[derive(Clone, Debug, Default)]
pub(super) struct Given {
    /// Content by queue and slot, until the entry in the slot has been fetched.
    placed: BTreeMap<(u16, u32), Vec<u8>>,
    /// Content by the controller's number of the command, after the fetch.
    fetched: BTreeMap<u32, VecDeque<u8>>,
}

impl Given {
    /// Notes that a command has been placed in a slot; `lists` is the content of its lists, if it has any.
    pub(super) fn place(&mut self, queue: u16, slot: u32, lists: Option<&[u8]>) {
        match lists {
            Some(lists) => drop(self.placed.insert((queue, slot), lists.to_vec())),
            None => drop(self.placed.remove(&(queue, slot))),
        }
    }

    /// Notes that the command in a slot has been fetched as the controller's number `command`.
    #[inline]
    pub(super) fn on_fetched(&mut self, queue: u16, slot: u32, command: u32) {
        if self.placed.is_empty() {
            return;
        }
        if let Some(lists) = self.placed.remove(&(queue, slot)) {
            self.fetched.insert(command, lists.into());
        }
    }

    /// Returns the part of a list that a packet with this `payload` has read: the real content, or the payload itself
    /// for a command of the modelled driver.
    ///
    /// # Errors
    /// Data Transfer Error if the real list could not be read this far.
    pub(super) fn part<'a>(&mut self, command: u32, payload: &'a [u8]) -> Result<Cow<'a, [u8]>, Status> {
        let Some(lists) = self.fetched.get_mut(&command) else { return Ok(payload.into()) };
        if lists.len() < payload.len() {
            return Err(Status::DATA_TRANSFER_ERROR);
        }
        Ok(lists.drain(..payload.len()).collect())
    }

    /// Forgets the lists of a completed command.
    #[inline(always)]
    pub(super) fn forget(&mut self, command: u32) {
        if !self.fetched.is_empty() {
            self.fetched.remove(&command);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_goes_with_its_command_and_ends_where_reading_it_has_failed() {
        let mut given = Given::default();
        given.place(0, 3, Some(&[1, 2, 3]));
        given.on_fetched(0, 2, 7);
        assert_eq!(given.part(7, &[9, 9]), Ok(Cow::from(&[9, 9][..])), "simulated memory has this one");
        given.on_fetched(0, 3, 8);
        assert_eq!(given.part(8, &[9, 9]), Ok(Cow::from(&[1, 2][..])));
        assert_eq!(given.part(8, &[9, 9]), Err(Status::DATA_TRANSFER_ERROR));
        given.forget(8);
        assert_eq!(given.part(8, &[9]), Ok(Cow::from(&[9][..])));
    }
}
