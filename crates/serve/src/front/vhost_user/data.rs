//! Transfers of bytes between the guest's memory and the store.

use std::io;

use vm_memory::GuestMemoryMmap;

use super::blk::{self, BlockRequest, Command, Status};
use super::memory::words;
use super::ring::{GuestPart, Request, gather, scatter};
use crate::device::faults::FaultEffect;
use crate::device::store::{Store, StoreAccess, copy};

/// Executes a request as far as the fault's `effect` allows, without a flush of the store. Returns the number of data
/// bytes that the guest has received.
///
/// # Errors
/// Returns the status for the completion.
pub fn perform(
    request: &Request,
    effect: FaultEffect,
    memory: &GuestMemoryMmap,
    store: &Store,
    name: &str,
    space: &mut Vec<u8>,
) -> Result<u32, Status> {
    let BlockRequest { command, offset, bytes } = request.wanted?;
    match command {
        Command::Read => {
            check_fault(effect)?;
            each(&request.parts, bytes, |part, done| read(part, offset + done, memory, store, space)).map(|()| bytes)
        }
        Command::Write => {
            let kept = effect.kept_bytes(bytes, store.geometry().block_bytes);
            each(&request.parts, kept, |part, done| write(part, offset + done, memory, store, space))?;
            check_fault(effect).map(|()| 0)
        }
        Command::Flush => Ok(0),
        Command::Name => {
            let name = blk::name(name);
            scatter(&request.parts, memory, &name).map(|()| name.len() as u32)
        }
        // A discard may be ignored, but this device frees the space and returns zeros afterwards.
        Command::Discard | Command::Zero => request
            .ranges
            .iter()
            .try_for_each(|range| {
                let keep_space = command == Command::Zero && !range.unmap;
                store.zero(range.offset, range.bytes.into(), keep_space)
            })
            .map_err(io_error)
            .and_then(|()| check_fault(effect))
            .map(|()| 0),
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

/// Copies bytes of the store to a part of the guest's memory: directly if both are aligned words in memory, through
/// `space` otherwise.
fn read(
    part: GuestPart,
    offset: u64,
    memory: &GuestMemoryMmap,
    store: &Store,
    space: &mut Vec<u8>,
) -> Result<(), Status> {
    if let Some(into) = words(memory, part)
        && store.lend(offset, part.bytes, StoreAccess::Read, |stored| copy::out_of_store(stored, into)).is_some()
    {
        return Ok(());
    }
    let data = room(space, part.bytes);
    store.read(offset, data).map_err(io_error)?;
    scatter(&[part], memory, data)
}

/// Copies a part of the guest's memory to the store: directly if both are aligned words in memory, through `space`
/// otherwise.
fn write(
    part: GuestPart,
    offset: u64,
    memory: &GuestMemoryMmap,
    store: &Store,
    space: &mut Vec<u8>,
) -> Result<(), Status> {
    if let Some(from) = words(memory, part)
        && store.lend(offset, part.bytes, StoreAccess::Write, |stored| copy::into_store(from, stored)).is_some()
    {
        return Ok(());
    }
    let data = room(space, part.bytes);
    gather(&[part], memory, data)?;
    store.write(offset, data).map_err(io_error)
}

/// Returns the first `bytes` bytes of the buffer `space`, which grows if it is shorter.
fn room(space: &mut Vec<u8>, bytes: u32) -> &mut [u8] {
    let bytes = bytes as usize;
    if space.len() < bytes {
        space.resize(bytes, 0);
    }
    &mut space[..bytes]
}

/// Returns an error if the fault's effect makes the request fail.
fn check_fault(effect: FaultEffect) -> Result<(), Status> {
    if effect.fails { Err(Status::IoError) } else { Ok(()) }
}

fn io_error(_: io::Error) -> Status {
    Status::IoError
}
