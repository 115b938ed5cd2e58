//! Real hosts' commands between the driver, which places them in a queue, and the controller, which fetches them, and
//! their lists.
//!
//! The packets that read a command and its lists are simulated like any other. A command that a served controller has
//! decoded is not in the simulated memory, and no list of a real host is: the host may have changed it since. Therefore
//! they travel beside the queue.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use super::commands::ParameterListContent;
use super::rules::Data;
use super::served::{ServedCommandLists, ServedHostCommand};
use crate::protocol::nvme::spec::Status;

/// What a real host's command has beside the bytes in its slot of the simulated queue.
#[derive(Clone, Debug)]
pub(super) enum PlacedHostCommand {
    /// Content of the lists of a command whose bytes are in the slot.
    Lists(Vec<u8>),
    /// Command that a served controller has decoded; its slot holds no bytes.
    Served(Box<ServedHostCommand>),
}

/// Lists of a fetched command that the controller has not read yet.
#[derive(Clone, Debug)]
pub(super) enum UnreadLists {
    /// Content of the lists, in the order in which the controller reads them.
    Bytes(VecDeque<u8>),
    /// Lists that a served controller has read.
    Read(Box<ServedCommandLists>),
}

/// Real hosts' commands in simulated queues, and the lists of those in flight.
#[derive(Clone, Debug, Default)]
pub(super) struct HostCommandLists {
    /// Commands by queue and slot, until the controller has fetched them.
    placed: BTreeMap<(u16, u32), PlacedHostCommand>,
    /// Lists that have not been read yet, by the controller's internal command number.
    fetched: BTreeMap<u32, UnreadLists>,
}

impl HostCommandLists {
    /// Stores what a command has beside the bytes in its slot; none if it has nothing.
    pub(super) fn place(&mut self, queue: u16, slot: u32, command: Option<PlacedHostCommand>) {
        match command {
            Some(command) => drop(self.placed.insert((queue, slot), command)),
            None => drop(self.placed.remove(&(queue, slot))),
        }
    }

    /// Removes and returns what the command in a slot has beside its bytes, since the controller has fetched it.
    #[inline(always)]
    pub(super) fn fetch(&mut self, queue: u16, slot: u32) -> Option<PlacedHostCommand> {
        if self.placed.is_empty() { None } else { self.placed.remove(&(queue, slot)) }
    }

    /// Stores the lists of a fetched command under its internal number.
    pub(super) fn keep(&mut self, command: u32, lists: UnreadLists) {
        self.fetched.insert(command, lists);
    }

    /// Returns the next bytes of a command's list, as many as the `payload` of the packet that has read them. A real
    /// host's command has the stored content; a command of the modelled driver has the payload itself.
    ///
    /// # Errors
    /// Data Transfer Error if the stored content of the real host's lists ends before.
    pub(super) fn part<'a>(&mut self, command: u32, payload: &'a [u8]) -> Result<Cow<'a, [u8]>, Status> {
        let Some(UnreadLists::Bytes(lists)) = self.fetched.get_mut(&command) else { return Ok(payload.into()) };
        if lists.len() < payload.len() {
            return Err(Status::DATA_TRANSFER_ERROR);
        }
        Ok(lists.drain(..payload.len()).collect())
    }

    /// Returns the host memory of a command's data after the next part of its PRP list or SGL segments, if a served
    /// controller has read these; none for other commands.
    pub(super) fn next_data_memory(&mut self, command: u32) -> Option<Result<Data, Status>> {
        let UnreadLists::Read(lists) = self.fetched.get_mut(&command)? else { return None };
        Some(lists.steps.pop_front().unwrap_or(Err(Status::DATA_TRANSFER_ERROR)))
    }

    /// Returns the content of a command's list of parameters, if a served controller has read it; none for other
    /// commands.
    pub(super) fn content(&mut self, command: u32) -> Option<Result<ParameterListContent, Status>> {
        let UnreadLists::Read(lists) = self.fetched.get_mut(&command)? else { return None };
        Some(std::mem::replace(&mut lists.content, Err(Status::DATA_TRANSFER_ERROR)))
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
    fn command_list_ends_at_its_first_read_error() {
        let mut host_lists = HostCommandLists::default();
        host_lists.place(0, 3, Some(PlacedHostCommand::Lists(vec![1, 2, 3])));
        assert!(host_lists.fetch(0, 2).is_none());
        assert_eq!(host_lists.part(7, &[9, 9]), Ok(Cow::from(&[9, 9][..])), "simulated memory has this one");
        let Some(PlacedHostCommand::Lists(lists)) = host_lists.fetch(0, 3) else { panic!("the slot has lists") };
        host_lists.keep(8, UnreadLists::Bytes(lists.into()));
        assert_eq!(host_lists.part(8, &[9, 9]), Ok(Cow::from(&[1, 2][..])));
        assert_eq!(host_lists.part(8, &[9, 9]), Err(Status::DATA_TRANSFER_ERROR));
        host_lists.forget(8);
        assert_eq!(host_lists.part(8, &[9]), Ok(Cow::from(&[9][..])));
    }
}
