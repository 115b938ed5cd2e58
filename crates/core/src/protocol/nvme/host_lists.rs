//! Content of PRP lists, SGL segments and range lists of real hosts' commands, as it was read from the host's memory.
//!
//! The packets that read such a list are simulated like any other, but the list is not in the simulated memory. The
//! host may also have changed it since. Therefore its content travels with the command.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use crate::protocol::nvme::spec::Status;

/// Bytes of the lists (PRP lists, SGL segments, ranges) of real hosts' commands in flight, in the order in which the
/// controller reads them.
#[derive(Clone, Debug, Default)]
pub(super) struct HostLists {
    /// Content of the lists by queue and slot, until the controller has fetched the command in the slot.
    placed: BTreeMap<(u16, u32), Vec<u8>>,
    /// Content of the lists that has not been read yet, by the controller's internal command number, after the fetch.
    fetched: BTreeMap<u32, VecDeque<u8>>,
}

impl HostLists {
    /// Stores the content of the lists of a command that has been placed in a slot; `lists` is none if the command has
    /// no lists.
    pub(super) fn place(&mut self, queue: u16, slot: u32, lists: Option<&[u8]>) {
        match lists {
            Some(lists) => drop(self.placed.insert((queue, slot), lists.to_vec())),
            None => drop(self.placed.remove(&(queue, slot))),
        }
    }

    /// Assigns the lists of the command in a slot to its internal number `command`, since the controller has fetched
    /// it.
    #[inline]
    pub(super) fn on_fetched(&mut self, queue: u16, slot: u32, command: u32) {
        if self.placed.is_empty() {
            return;
        }
        if let Some(lists) = self.placed.remove(&(queue, slot)) {
            self.fetched.insert(command, lists.into());
        }
    }

    /// Returns the next bytes of a command's list, as many as the `payload` of the packet that has read them. A real
    /// host's command has the stored content; a command of the modelled driver has the payload itself.
    ///
    /// # Errors
    /// Data Transfer Error if the stored content of the real host's lists ends before.
    pub(super) fn part<'a>(&mut self, command: u32, payload: &'a [u8]) -> Result<Cow<'a, [u8]>, Status> {
        let Some(lists) = self.fetched.get_mut(&command) else { return Ok(payload.into()) };
        if lists.len() < payload.len() {
            return Err(Status::DATA_TRANSFER_ERROR);
        }
        Ok(lists.drain(..payload.len()).collect())
    }

    /// Discards the list content of a completed command.
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
        let mut host_lists = HostLists::default();
        host_lists.place(0, 3, Some(&[1, 2, 3]));
        host_lists.on_fetched(0, 2, 7);
        assert_eq!(host_lists.part(7, &[9, 9]), Ok(Cow::from(&[9, 9][..])), "simulated memory has this one");
        host_lists.on_fetched(0, 3, 8);
        assert_eq!(host_lists.part(8, &[9, 9]), Ok(Cow::from(&[1, 2][..])));
        assert_eq!(host_lists.part(8, &[9, 9]), Err(Status::DATA_TRANSFER_ERROR));
        host_lists.forget(8);
        assert_eq!(host_lists.part(8, &[9]), Ok(Cow::from(&[9][..])));
    }
}
