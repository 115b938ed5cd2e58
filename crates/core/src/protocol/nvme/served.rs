//! Commands of real hosts that a served controller has decoded, on their way into the model.
//!
//! The served controller has fetched and checked the command and has read its lists. So the model gets the decoded
//! command. Its packets cross the simulated link as if the simulated controller read the bytes, but nothing is decoded
//! or checked twice.

use std::collections::VecDeque;

use super::commands::{Command, ParameterListContent};
use super::rules::Data;
use super::spec::Status;
use crate::protocol::real_hosts::DecodedHostCommand;

/// Message of a panic because a served controller and the model have different protocols.
const ONE_PROTOCOL: &str = "the controller and the model have one protocol";

/// Command of a real host that a served controller has decoded and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedHostCommand {
    /// Identifier of the command (CID).
    pub command_id: u16,
    /// Command as its submission queue entry describes it, with offsets on the drive, before any of its lists is read.
    /// Otherwise the status with which the entry is refused.
    pub checked: Result<Command, Status>,
    /// Lists that the served controller has read for the command; none if it has read none.
    pub lists: Option<Box<ServedCommandLists>>,
}

impl ServedHostCommand {
    /// Returns the command that has come with the type of no protocol.
    ///
    /// # Panics
    /// If the command is one of another protocol.
    pub(super) fn of(decoded: DecodedHostCommand) -> Box<ServedHostCommand> {
        decoded.downcast().expect(ONE_PROTOCOL)
    }

    /// Returns the identifier of a command that has come with the type of no protocol.
    ///
    /// # Panics
    /// As [`ServedHostCommand::of`].
    pub(super) fn id(decoded: &DecodedHostCommand) -> u16 {
        decoded.downcast_ref::<ServedHostCommand>().expect(ONE_PROTOCOL).command_id
    }
}

/// Lists of one command as a served controller has read them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedCommandLists {
    /// Host memory of the command's data after each part of its PRP list or SGL segments, in the order of the parts. The
    /// last one is the status with which the command is refused, if a part is invalid or cannot be read.
    pub steps: VecDeque<Result<Data, Status>>,
    /// Content of the list of parameters, or the status of a list that is invalid or cannot be read.
    pub content: Result<ParameterListContent, Status>,
}

impl Default for ServedCommandLists {
    /// Returns lists of which nothing has been read.
    fn default() -> ServedCommandLists {
        ServedCommandLists { steps: VecDeque::new(), content: Err(Status::DATA_TRANSFER_ERROR) }
    }
}
