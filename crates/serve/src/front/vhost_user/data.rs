//! Transfers of bytes between the guest's memory and the store.

use phaselink_core::number::{index, short_length};
use std::io;

use vm_memory::GuestMemoryMmap;

use super::blk::{self, BlockRequest, Command, Status};
use super::memory::words;
use super::ring::{GuestPart, Request, gather, scatter};
use crate::device::faults::FaultEffect;
use crate::device::store::{Store, StoreCopyDirection, copy};

/// Both ends of transfers, the guest's memory and the store, with a buffer for bytes that cannot be copied directly.
#[derive(Debug)]
pub struct GuestTransfer<'a> {
    /// Memory of the guest.
    pub memory: &'a GuestMemoryMmap,
    /// Bytes of the device.
    pub store: &'a Store,
    /// Buffer for the bytes of a request, which grows as needed.
    pub space: &'a mut Vec<u8>,
}

impl GuestTransfer<'_> {
    /// Executes a request as far as the fault's `effect` allows, without a flush of the store. `name` is that of the
    /// device. Returns the number of data bytes that the guest has received.
    ///
    /// # Errors
    /// Returns the status for the completion.
    pub fn perform(&mut self, request: &Request, effect: FaultEffect, name: &str) -> Result<u32, Status> {
        let BlockRequest { command, offset, bytes } = request.wanted?;
        match command {
            Command::Read => {
                check_request_fault(effect)?;
                each(&request.parts, bytes, |part, done| self.read(part, offset + done)).map(|()| bytes)
            }
            Command::Write => {
                let kept = effect.kept_bytes(bytes, self.store.geometry().block_bytes);
                each(&request.parts, kept, |part, done| self.write(part, offset + done))?;
                check_request_fault(effect).map(|()| 0)
            }
            Command::Flush => Ok(0),
            Command::Name => {
                let name = blk::name(name);
                scatter(&request.parts, self.memory, &name).map(|()| short_length(name.len()))
            }
            // A discard may be ignored, but this device frees the space and returns zeros afterwards.
            Command::Discard | Command::Zero => request
                .ranges
                .iter()
                .try_for_each(|range| {
                    let keep_space = command == Command::Zero && !range.unmap;
                    self.store.zero(range.offset, range.bytes.into(), keep_space)
                })
                .map_err(io_error)
                .and_then(|()| check_request_fault(effect))
                .map(|()| 0),
        }
    }

    /// Copies bytes of the store to a part of the guest's memory: directly if both are aligned words in memory, through
    /// the buffer otherwise.
    fn read(&mut self, part: GuestPart, offset: u64) -> Result<(), Status> {
        let GuestTransfer { memory, store, space } = self;
        if let Some(into) = words(memory, part)
            && store
                .lend(offset, part.bytes, StoreCopyDirection::Read, |stored| {
                    copy::copy_words_out_of_store(stored, into)
                })
                .is_some()
        {
            return Ok(());
        }
        let data = buffer_prefix(space, part.bytes);
        store.read(offset, data).map_err(io_error)?;
        scatter(&[part], memory, data)
    }

    /// Copies a part of the guest's memory to the store: directly if both are aligned words in memory, through the
    /// buffer otherwise.
    fn write(&mut self, part: GuestPart, offset: u64) -> Result<(), Status> {
        let GuestTransfer { memory, store, space } = self;
        if let Some(from) = words(memory, part)
            && store
                .lend(offset, part.bytes, StoreCopyDirection::Write, |stored| copy::copy_words_into_store(from, stored))
                .is_some()
        {
            return Ok(());
        }
        let data = buffer_prefix(space, part.bytes);
        gather(&[part], memory, data)?;
        store.write(offset, data).map_err(io_error)
    }
}

/// Calls `copy` for each of `parts`, with the number of bytes before the part, until `bytes` bytes have been covered.
fn each(
    parts: &[GuestPart],
    bytes: u32,
    mut copy: impl FnMut(GuestPart, u64) -> Result<(), Status>,
) -> Result<(), Status> {
    let mut done = 0;
    for &GuestPart { address, bytes: length } in parts {
        let length = length.min(bytes - done);
        if length == 0 {
            break;
        }
        copy(GuestPart { address, bytes: length }, done.into())?;
        done += length;
    }
    Ok(())
}

/// Returns the first `bytes` bytes of the buffer `space`, which grows if it is shorter.
fn buffer_prefix(space: &mut Vec<u8>, bytes: u32) -> &mut [u8] {
    let bytes = index(bytes);
    if space.len() < bytes {
        space.resize(bytes, 0);
    }
    &mut space[..bytes]
}

/// Returns an error if the fault's effect makes the request fail.
fn check_request_fault(effect: FaultEffect) -> Result<(), Status> {
    if effect.fails { Err(Status::IoError) } else { Ok(()) }
}

fn io_error(_: io::Error) -> Status {
    Status::IoError
}
