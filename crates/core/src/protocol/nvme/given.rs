//! Lists of commands that come from a real host: what was really read of its memory.
//!
//! The packets that read such a list are simulated like any other; its bytes are not in the simulated memory, and a host may
//! have changed them since. So they come along with the command.

use std::collections::{BTreeMap, VecDeque};

use crate::protocol::nvme::spec::Status;

/// Bytes of lists, in the order in which a command's checks ask for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Given {
    /// By queue and slot, until the entry there has been fetched.
    placed: BTreeMap<(u16, u32), Vec<u8>>,
    /// By the controller's number of the command, from then on.
    fetched: BTreeMap<u32, VecDeque<u8>>,
}

impl Given {
    /// A command has been placed in a slot; `lists` is what was read for it, if it has lists at all.
    pub(super) fn place(&mut self, queue: u16, slot: u32, lists: Option<&[u8]>) {
        match lists {
            Some(lists) => drop(self.placed.insert((queue, slot), lists.to_vec())),
            None => drop(self.placed.remove(&(queue, slot))),
        }
    }

    /// The command in a slot is now number `command` of the controller's.
    #[inline]
    pub(super) fn on_fetched(&mut self, queue: u16, slot: u32, command: u32) {
        if self.placed.is_empty() {
            return;
        }
        if let Some(lists) = self.placed.remove(&(queue, slot)) {
            self.fetched.insert(command, lists.into());
        }
    }

    /// The part of a list that has been read by a packet with this `payload`.
    ///
    /// # Errors
    /// Data Transfer Error if the real list could not be read so far.
    pub(super) fn part(&mut self, command: u32, payload: &[u8]) -> Result<Vec<u8>, Status> {
        let Some(lists) = self.fetched.get_mut(&command) else { return Ok(payload.to_vec()) };
        if lists.len() < payload.len() {
            return Err(Status::DATA_TRANSFER_ERROR);
        }
        Ok(lists.drain(..payload.len()).collect())
    }

    /// A command is over.
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
        assert_eq!(given.part(7, &[9, 9]), Ok(vec![9, 9]), "simulated memory has this one");
        given.on_fetched(0, 3, 8);
        assert_eq!(given.part(8, &[9, 9]), Ok(vec![1, 2]));
        assert_eq!(given.part(8, &[9, 9]), Err(Status::DATA_TRANSFER_ERROR));
        given.forget(8);
        assert_eq!(given.part(8, &[9]), Ok(vec![9]));
    }
}
