//! Exports of an NBD server: name, range, and the requests that each accepts.

use super::wire::{self, Request, Status, command, flag};
use crate::device::history::StoreChangeKind;
use crate::device::store::Geometry;
use phaselink_core::number::index;

/// Device that an NBD server offers under a name.
#[derive(Clone, Debug)]
pub struct Export {
    /// Name by which clients choose the export.
    pub name: String,
    /// Capacity and block size of the export, in bytes.
    pub geometry: Geometry,
    /// True if structured replies are offered to clients. They say which part of a read failed, but common clients
    /// receive a simple reply with fewer system calls.
    pub structured_replies: bool,
}

/// Type of an accepted request, with its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read of a range.
    Read,
    /// Write of a range, whose data follows the request.
    Write {
        /// True if the data must be durable when the write completes (force unit access).
        durable: bool,
    },
    /// Flush, which makes all completed writes durable.
    Flush,
    /// Discard of a range, whose data the client no longer needs.
    Trim {
        /// True if the discard must be durable when the command completes (force unit access).
        durable: bool,
    },
    /// Query of the extents that hold data and of those that are holes (block status).
    BlockStatus {
        /// True if the client wants the status of the first extent alone.
        one: bool,
    },
    /// Write of zeros to a range, without data.
    Zero {
        /// True if the zeros must keep their space on the disk, so that later writes to the range cannot fail for lack
        /// of space.
        keep_space: bool,
        /// True if the zeros must be durable when the command completes (force unit access).
        durable: bool,
    },
}

impl Export {
    /// Returns true if clients that ask for `name` get this export; the empty name is the default export.
    pub fn matches_requested_name(&self, name: &[u8]) -> bool {
        name.is_empty() || name == self.name.as_bytes()
    }

    /// Checks the type, the flags and the range of a request, and returns its command.
    ///
    /// # Errors
    /// Returns the status for the error reply.
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
            command::BLOCK_STATUS => {
                let one = request.flags & flag::REQ_ONE != 0;
                (Command::BlockStatus { one }, flag::FUA | flag::REQ_ONE)
            }
            _ => return Err(Status::Invalid),
        };
        if request.flags & !flags != 0 {
            return Err(Status::Invalid);
        }
        match command {
            Command::Flush if request.offset != 0 || request.length != 0 => Err(Status::Invalid),
            Command::Flush => Ok(command),
            _ => self.check_request_range(request).map(|()| command),
        }
    }

    #[inline]
    fn check_request_range(&self, request: &Request) -> Result<(), Status> {
        let Request { offset, length, .. } = *request;
        let block = u64::from(self.geometry.block_bytes);
        let end = offset.checked_add(length.into()).ok_or(Status::Invalid)?;
        if length == 0 || offset % block != 0 || end % block != 0 {
            return Err(Status::Invalid);
        }
        if end > self.geometry.capacity_bytes {
            // According to the NBD protocol, a write beyond the end fails with ENOSPC and a read with EINVAL.
            let is_question = matches!(request.command, command::READ | command::BLOCK_STATUS);
            return Err(if is_question { Status::Invalid } else { Status::NoSpace });
        }
        let moves = matches!(request.command, command::READ | command::WRITE);
        if moves && length > wire::PAYLOAD_BYTES_MAX { Err(Status::Overflow) } else { Ok(()) }
    }
}

/// Returns the number of data bytes that follow a request on the wire, if the request is accepted or not: none but for
/// a write.
#[inline]
pub fn payload_bytes(request: &Request) -> usize {
    if request.command == command::WRITE { index(request.length) } else { 0 }
}

impl Command {
    /// Returns the number of data bytes that follow the command on the wire: `bytes` for a write, else 0.
    #[inline]
    pub fn payload_bytes(self, bytes: u32) -> usize {
        if matches!(self, Command::Write { .. }) { index(bytes) } else { 0 }
    }

    /// Returns true if the command's change must be durable when it completes (force unit access).
    pub fn is_durable(self) -> bool {
        match self {
            Command::Write { durable } | Command::Trim { durable } | Command::Zero { durable, .. } => durable,
            Command::Read | Command::Flush | Command::BlockStatus { .. } => false,
        }
    }

    /// Returns the kind under which the device's history records the command; none if the command changes nothing.
    pub fn recorded_change_kind(self) -> Option<StoreChangeKind> {
        match self {
            Command::Read | Command::BlockStatus { .. } => None,
            Command::Write { .. } => Some(StoreChangeKind::Write),
            Command::Flush => Some(StoreChangeKind::Flush),
            Command::Trim { .. } => Some(StoreChangeKind::Trim),
            Command::Zero { .. } => Some(StoreChangeKind::Zero),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::NbdParseResult;
    use super::*;

    const CAPACITY_BYTES: u64 = 1536;

    /// Returns true if NBD's protocol document allows a request.
    fn is_valid_nbd_request(request: &Request) -> bool {
        let Request { flags, command, offset, length, .. } = *request;
        let flags_of: [Option<u16>; 8] =
            [Some(0b101), Some(0b001), None, Some(0b001), Some(0b001), None, Some(0b011), Some(0b1001)];
        let Some(Some(allowed)) = flags_of.get(usize::from(command)) else { return false };
        let end = u128::from(offset) + u128::from(length);
        let is_place = match command {
            3 => end == 0,
            _ => length > 0 && offset.is_multiple_of(512) && end.is_multiple_of(512) && end <= CAPACITY_BYTES.into(),
        };
        flags & !allowed == 0 && is_place
    }

    #[test]
    fn small_export_accepts_exactly_the_requests_that_nbd_allows() {
        let geometry = Geometry { capacity_bytes: CAPACITY_BYTES, block_bytes: 512 };
        let export = Export { name: String::new(), geometry, structured_replies: false };
        let near = || (0..=2560u64).step_by(256).chain([511, 513, 1535, 1537]);
        let offsets: Vec<u64> = near().chain([1 << 63, u64::MAX - 511, u64::MAX]).collect();
        let lengths: Vec<u32> = near().map(|bytes| bytes as u32).chain([1 << 31, u32::MAX - 511, u32::MAX]).collect();
        let mut taken = 0;
        for command in (0..=9).chain([u16::MAX]) {
            for flags in (0..=15).chain([1 << 15]) {
                for (&offset, &length) in offsets.iter().flat_map(|at| lengths.iter().map(move |bytes| (at, bytes))) {
                    let request = Request { flags, command, cookie: 7, offset, length };
                    let bytes = request.encode();
                    assert_eq!(wire::parse_request_head(&bytes), NbdParseResult::Whole(request, bytes.len()));
                    let is_taken = export.accept(&request).is_ok();
                    assert_eq!(is_taken, is_valid_nbd_request(&request), "{request:?}");
                    taken += u64::from(is_taken);
                }
            }
        }
        // Six ranges of whole blocks, each with every command and its allowed flags, and one flush.
        assert_eq!(taken, 6 * (4 + 2 + 2 + 4 + 4) + 2);
    }

    #[test]
    fn truncated_nbd_request_waits_for_the_missing_bytes() {
        let bytes = Request { flags: 0, command: command::READ, cookie: 1, offset: 0, length: 512 }.encode();
        for end in 0..bytes.len() {
            assert_eq!(wire::parse_request_head(&bytes[..end]), NbdParseResult::Needs(bytes.len()));
        }
    }
}
