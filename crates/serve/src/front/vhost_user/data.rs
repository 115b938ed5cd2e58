//! Bytes between the guest's memory and the store.

use std::io;

use vm_memory::GuestMemoryMmap;

use super::blk::{self, BlockRequest, Command, Status};
use super::ring::{Request, gather, scatter};
use crate::device::faults::FaultEffect;
use crate::device::store::Store;

/// Executes a request as far as the effect of a fault lets it, but for waiting for the disk. Returns how many bytes the guest
/// has received.
///
/// # Errors
/// The status to answer with.
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
            let data = room(space, bytes);
            store.read(offset, data).map_err(io_error)?;
            told(effect)?;
            scatter(&request.parts, memory, data).map(|()| bytes)
        }
        Command::Write => {
            let data = room(space, bytes);
            gather(&request.parts, memory, data)?;
            let kept = effect.kept_bytes(bytes, store.geometry().block_bytes) as usize;
            store.write(offset, &data[..kept]).map_err(io_error)?;
            told(effect).map(|()| 0)
        }
        Command::Flush => Ok(0),
        Command::Name => {
            let name = blk::name(name);
            scatter(&request.parts, memory, &name).map(|()| name.len() as u32)
        }
        // A discard is advice; the space goes, and what is read afterwards is zeros.
        Command::Discard | Command::Zero => request
            .ranges
            .iter()
            .try_for_each(|range| {
                let keep_space = command == Command::Zero && !range.unmap;
                store.zero(range.offset, range.bytes.into(), keep_space)
            })
            .map_err(io_error)
            .and_then(|()| told(effect))
            .map(|()| 0),
    }
}

/// Returns so many bytes of the buffer, which grows to the largest request.
fn room(space: &mut Vec<u8>, bytes: u32) -> &mut [u8] {
    let bytes = bytes as usize;
    if space.len() < bytes {
        space.resize(bytes, 0);
    }
    &mut space[..bytes]
}

/// Returns the status that a fault lets the guest see.
fn told(effect: FaultEffect) -> Result<(), Status> {
    if effect.fails { Err(Status::IoError) } else { Ok(()) }
}

fn io_error(_: io::Error) -> Status {
    Status::IoError
}
