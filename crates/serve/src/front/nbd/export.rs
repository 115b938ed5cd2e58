//! What is served under which name, and which requests it takes.

use super::wire::{self, Request, Status, command, flag};
use crate::device::history::Asked;
use crate::device::store::Geometry;

/// A device under a name.
#[derive(Clone, Debug)]
pub struct Export {
    pub name: String,
    pub geometry: Geometry,
    /// Whether structured replies are offered. They say what part of a read an error concerns; common clients receive
    /// a simple reply with fewer calls.
    pub structured_replies: bool,
}

/// A request that the export takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    Read,
    Write { durable: bool },
    Flush,
    Trim { durable: bool },
    Zero { keep_space: bool, durable: bool },
}

impl Export {
    /// Whether clients that ask for `name` get this one; the empty name is the default export.
    pub fn answers_to(&self, name: &[u8]) -> bool {
        name.is_empty() || name == self.name.as_bytes()
    }

    /// What a request asks for.
    ///
    /// # Errors
    /// The status to answer with.
    #[inline]
    pub fn accept(&self, request: &Request) -> Result<Command, Status> {
        let durable = request.flags & flag::FUA != 0;
        let (command, flags) = match request.command {
            command::READ => (Command::Read, flag::FUA | flag::DF),
            command::WRITE => (Command::Write { durable }, flag::FUA),
            command::FLUSH => (Command::Flush, flag::FUA),
            command::TRIM => (Command::Trim { durable }, flag::FUA),
            command::WRITE_ZEROES => {
                let keep_space = request.flags & flag::NO_HOLE != 0;
                (Command::Zero { keep_space, durable }, flag::FUA | flag::NO_HOLE)
            }
            _ => return Err(Status::Invalid),
        };
        if request.flags & !flags != 0 {
            return Err(Status::Invalid);
        }
        match command {
            Command::Flush if request.offset != 0 || request.length != 0 => Err(Status::Invalid),
            Command::Flush => Ok(command),
            _ => self.within(request).map(|()| command),
        }
    }

    #[inline]
    fn within(&self, request: &Request) -> Result<(), Status> {
        let Request { offset, length, .. } = *request;
        let block = u64::from(self.geometry.block_bytes);
        let end = offset.checked_add(length.into()).ok_or(Status::Invalid)?;
        if length == 0 || offset % block != 0 || end % block != 0 {
            return Err(Status::Invalid);
        }
        if end > self.geometry.capacity_bytes {
            // As in the protocol's description of its error values: beyond the end, writes lack space.
            return Err(if request.command == command::READ { Status::Invalid } else { Status::NoSpace });
        }
        let moves = matches!(request.command, command::READ | command::WRITE);
        if moves && length > wire::PAYLOAD_BYTES_MAX { Err(Status::Overflow) } else { Ok(()) }
    }
}

/// Data that follows a request, whether it is accepted or not.
#[inline]
pub fn payload_bytes(request: &Request) -> usize {
    if request.command == command::WRITE { request.length as usize } else { 0 }
}

impl Command {
    /// Data that follows a request of `bytes`.
    #[inline]
    pub fn payload_bytes(self, bytes: u32) -> usize {
        if matches!(self, Command::Write { .. }) { bytes as usize } else { 0 }
    }

    /// Whether it is to be on the disk when it is answered.
    pub fn is_durable(self) -> bool {
        match self {
            Command::Write { durable } | Command::Trim { durable } | Command::Zero { durable, .. } => durable,
            Command::Read | Command::Flush => false,
        }
    }

    /// What it is in a history, if it is anything there.
    pub fn asked(self) -> Option<Asked> {
        match self {
            Command::Read => None,
            Command::Write { .. } => Some(Asked::Write),
            Command::Flush => Some(Asked::Flush),
            Command::Trim { .. } => Some(Asked::Trim),
            Command::Zero { .. } => Some(Asked::Zero),
        }
    }

    /// fio's word for it, in traces.
    pub fn action(self) -> &'static str {
        match self {
            Command::Read => "read",
            Command::Write { .. } | Command::Zero { .. } => "write",
            Command::Flush => "datasync",
            Command::Trim { .. } => "trim",
        }
    }
}
