//! Physical region pages: where in host memory a command's data is (Base Specification 2.0, section 4.1.1).

use phaselink_core::protocol::nvme::spec::{PAGE_BYTES, Status};
use smallvec::SmallVec;

use super::host::{Host, Unreachable};

/// Consecutive memory of the host: first address, bytes.
pub type Run = (u64, u32);
/// The memory of one command, in the order of its data.
pub type Runs = SmallVec<[Run; 4]>;

impl From<Unreachable> for Status {
    fn from(_: Unreachable) -> Status {
        Status::DATA_TRANSFER_ERROR
    }
}

/// The memory that two entries describe, `bytes` in all; lists are read once.
///
/// # Errors
/// PRP Offset Invalid where the specification asks for a whole page, or for a whole word; Data Transfer Error for a list
/// that is not there.
#[inline]
pub fn runs(first: u64, second: u64, bytes: u32, host: &mut impl Host) -> Result<Runs, Status> {
    if !first.is_multiple_of(4) {
        return Err(Status::INVALID_PRP_OFFSET);
    }
    let mut runs = Runs::new();
    let in_first = ((PAGE_BYTES - first % PAGE_BYTES) as u32).min(bytes);
    runs.push((first, in_first));
    let left = bytes - in_first;
    match left.div_ceil(PAGE_BYTES as u32) {
        0 => {}
        1 => append(&mut runs, page(second)?, left),
        _ => follow(second, left, &mut runs, host)?,
    }
    Ok(runs)
}

/// Read a list whose last entry in a page leads to the next page of it, as long as there is more to describe. Only the
/// first page may begin in its middle, so that every further one brings pages and the chain ends.
fn follow(first: u64, mut left: u32, runs: &mut Runs, host: &mut impl Host) -> Result<(), Status> {
    let mut list = if first.is_multiple_of(8) { first } else { return Err(Status::INVALID_PRP_OFFSET) };
    let mut bytes = [0; PAGE_BYTES as usize];
    loop {
        let room = (PAGE_BYTES - list % PAGE_BYTES) / 8;
        let pages = u64::from(left.div_ceil(PAGE_BYTES as u32));
        let entries = pages.min(room);
        let bytes = &mut bytes[..entries as usize * 8];
        host.read(list, bytes)?;
        let (entries, _) = bytes.as_chunks();
        let (entries, next) = match entries.split_last() {
            Some((next, entries)) if pages > room => (entries, Some(*next)),
            _ => (entries, None),
        };
        for entry in entries {
            let run = left.min(PAGE_BYTES as u32);
            append(runs, page(u64::from_le_bytes(*entry))?, run);
            left -= run;
        }
        match next {
            Some(next) => list = page(u64::from_le_bytes(next))?,
            None => return Ok(()),
        }
    }
}

/// An entry that has to be a whole page.
fn page(entry: u64) -> Result<u64, Status> {
    if entry.is_multiple_of(PAGE_BYTES) { Ok(entry) } else { Err(Status::INVALID_PRP_OFFSET) }
}

fn append(runs: &mut Runs, address: u64, bytes: u32) {
    match runs.last_mut() {
        Some((first, length)) if first.checked_add(u64::from(*length)) == Some(address) => *length += bytes,
        _ => runs.push((address, bytes)),
    }
}
