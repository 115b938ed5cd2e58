//! A ring of a client: requests are taken out of it, answers put there, and the client is woken where it wants to be.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::OFlags;
use smallvec::SmallVec;
use virtio_queue::desc::split::Descriptor;
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{Address, Bytes, GuestAddress, GuestMemoryMmap};

use super::blk::{BlockRequest, Command, HEADER_BYTES, RANGE_BYTES, Range, Status};
use crate::device::store::Geometry;

/// Most entries of a ring.
pub const ENTRIES_MAX: u16 = 1024;
/// Most pieces of memory that the data of one request may lie in.
const PARTS_MAX: usize = ENTRIES_MAX as usize;

/// Piece of the guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestPart {
    /// Address in the guest.
    pub address: GuestAddress,
    /// Length in bytes.
    pub bytes: u32,
}

/// Request that has been taken from a ring and not completed.
#[derive(Debug)]
pub struct Request {
    head: u16,
    /// Accepted request, or the status that it gets.
    pub wanted: Result<BlockRequest, Status>,
    /// Pieces of memory for its data.
    pub parts: SmallVec<[GuestPart; 4]>,
    /// Ranges of a discard or a write of zeros.
    pub ranges: SmallVec<[Range; 1]>,
    /// Address of its status; none if its chain has no room for one.
    status_at: Option<GuestAddress>,
}

/// Ring, as its client has described it so far.
#[derive(Debug)]
pub struct Ring {
    /// Virtqueue, as the crate `virtio-queue` reads it.
    pub queue: Queue,
    /// Descriptor that is readable when there are requests.
    pub kick: Option<Arc<OwnedFd>>,
    /// Descriptor that is written to when there are completions.
    pub call: Option<OwnedFd>,
    /// True from the descriptor for kicks until the client asks for the ring's position.
    pub is_started: bool,
    /// True if the client has enabled the ring.
    pub is_enabled: bool,
    /// Number of requests in flight.
    pub in_flight: u32,
    has_answers: bool,
    /// True if the client has been told to kick, as it does until it is told otherwise.
    listens: bool,
}

impl Default for Ring {
    fn default() -> Ring {
        let queue = Queue::new(ENTRIES_MAX).expect("a power of two");
        Ring {
            queue,
            kick: None,
            call: None,
            is_started: false,
            is_enabled: false,
            in_flight: 0,
            has_answers: false,
            listens: true,
        }
    }
}

impl Ring {
    /// Returns true if requests may be taken.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.is_started && self.is_enabled && self.queue.ready()
    }

    /// Takes the next request, unless as many are in flight as the ring has entries, which an honest driver knows. A ring whose
    /// indices make no sense has none, for good.
    #[inline]
    pub fn take(&mut self, memory: &GuestMemoryMmap, geometry: Geometry) -> Option<Request> {
        if self.in_flight >= self.queue.size().into() {
            return None;
        }
        let Ok(mut requests) = self.queue.iter(memory) else {
            self.queue.set_ready(false);
            return None;
        };
        let chain = requests.next()?;
        let request = read(chain.head_index(), chain, memory, geometry);
        self.in_flight += 1;
        Some(request)
    }

    /// Writes a completion into the ring, with so many bytes of data.
    #[inline]
    pub fn answer(&mut self, memory: &GuestMemoryMmap, request: &Request, status: Status, bytes: u32) {
        self.in_flight -= 1;
        self.answer_again(memory, request, status, bytes);
    }

    /// Writes a completion of a request that has been completed: a driver waits for no such completion.
    #[inline]
    pub fn answer_again(&mut self, memory: &GuestMemoryMmap, request: &Request, status: Status, bytes: u32) {
        let is_said = request.status_at.is_some_and(|address| memory.write_obj(status as u8, address).is_ok());
        let written = if is_said { bytes + 1 } else { 0 };
        // A ring that has gone from the memory takes no answers any more.
        if self.queue.add_used(memory, request.head, written).is_err() {
            self.queue.set_ready(false);
        }
        self.has_answers = true;
    }

    /// Forgets a request that is never completed.
    pub fn forget(&mut self) {
        self.in_flight -= 1;
    }

    /// Notifies the client, if there are completions that it wants to be notified of.
    #[inline]
    pub fn signal(&mut self, memory: &GuestMemoryMmap) {
        let has_answers = std::mem::take(&mut self.has_answers);
        if has_answers && self.queue.needs_notification(memory).unwrap_or(true) {
            self.wake();
        }
    }

    fn wake(&self) {
        // A counter that is full wakes anyway.
        let _ = self.call.as_ref().map(|call| rustix::io::write(call, &1u64.to_ne_bytes()));
    }

    /// Asks the client to kick from now on; returns true if there are requests that had no kick.
    pub fn listen(&mut self, memory: &GuestMemoryMmap) -> bool {
        self.listens = true;
        self.queue.enable_notification(memory).unwrap_or(false)
    }

    /// Tells the client that it need not kick, as the ring is polled.
    #[inline]
    pub fn look(&mut self, memory: &GuestMemoryMmap) {
        if std::mem::take(&mut self.listens) {
            let _ = self.queue.disable_notification(memory);
        }
    }
}

/// Makes a client's descriptor non-blocking, whatever it is.
pub(super) fn without_waiting(fd: OwnedFd) -> Option<OwnedFd> {
    let flags = rustix::fs::fcntl_getfl(&fd).ok()?;
    rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK).ok()?;
    Some(fd)
}

/// Reads the request of a chain of descriptors (section 5.2.6): a header and data from the driver, then data to the driver and
/// a status byte, cut into descriptors anyhow.
pub fn read(
    head: u16,
    chain: impl Iterator<Item = Descriptor>,
    memory: &GuestMemoryMmap,
    geometry: Geometry,
) -> Request {
    let mut read = Chain::default();
    chain.for_each(|descriptor| read.take(&descriptor, memory));
    let mut request = read.request(head, geometry);
    if let Ok(BlockRequest { command: command @ (Command::Discard | Command::Zero), bytes, .. }) = request.wanted {
        match ranges(&request.parts, bytes, memory, command, geometry) {
            Ok(ranges) => request.ranges = ranges,
            Err(status) => request.wanted = Err(status),
        }
    }
    if let (Ok(wanted @ BlockRequest { command: Command::Zero, .. }), [range]) =
        (&mut request.wanted, &request.ranges[..])
    {
        (wanted.offset, wanted.bytes) = (range.offset, range.bytes);
    }
    request
}

/// Reads the ranges of a discard or a write of zeros.
fn ranges(
    parts: &[GuestPart],
    bytes: u32,
    memory: &GuestMemoryMmap,
    command: Command,
    geometry: Geometry,
) -> Result<SmallVec<[Range; 1]>, Status> {
    let mut data = vec![0; bytes as usize];
    gather(parts, memory, &mut data)?;
    let (ranges, _) = data.as_chunks::<RANGE_BYTES>();
    ranges.iter().map(|range| Range::parse(range, command, geometry)).collect()
}

/// Copies from parts of the guest's memory, as many bytes as there are.
///
/// # Errors
/// If there is no such memory.
pub fn gather(parts: &[GuestPart], memory: &GuestMemoryMmap, into: &mut [u8]) -> Result<(), Status> {
    each(parts, into.len(), |address, place| memory.read_slice(&mut into[place], address).is_ok())
}

/// Copies to parts of the guest's memory.
///
/// # Errors
/// If there is no such memory.
pub fn scatter(parts: &[GuestPart], memory: &GuestMemoryMmap, from: &[u8]) -> Result<(), Status> {
    each(parts, from.len(), |address, place| memory.write_slice(&from[place], address).is_ok())
}

fn each(
    parts: &[GuestPart],
    bytes: usize,
    mut copy: impl FnMut(GuestAddress, std::ops::Range<usize>) -> bool,
) -> Result<(), Status> {
    let mut done = 0;
    for part in parts {
        let end = bytes.min(done + part.bytes as usize);
        if !copy(part.address, done..end) {
            return Err(Status::IoError);
        }
        done = end;
    }
    Ok(())
}

/// Chain of descriptors that is being read.
#[derive(Default)]
struct Chain {
    header: [u8; HEADER_BYTES],
    header_bytes: usize,
    from_driver: SmallVec<[GuestPart; 4]>,
    to_driver: SmallVec<[GuestPart; 4]>,
    is_broken: bool,
}

impl Chain {
    fn take(&mut self, descriptor: &Descriptor, memory: &GuestMemoryMmap) {
        let mut part = GuestPart { address: descriptor.addr(), bytes: descriptor.len() };
        if part.address.checked_add(part.bytes.into()).is_none() || self.parts() == PARTS_MAX {
            self.is_broken = true;
            return;
        }
        if descriptor.is_write_only() {
            self.to_driver.extend((part.bytes > 0).then_some(part));
            return;
        }
        let head = (HEADER_BYTES - self.header_bytes).min(part.bytes as usize);
        let into = &mut self.header[self.header_bytes..][..head];
        self.is_broken |= memory.read_slice(into, part.address).is_err();
        self.header_bytes += head;
        part = GuestPart { address: part.address.unchecked_add(head as u64), bytes: part.bytes - head as u32 };
        self.from_driver.extend((part.bytes > 0).then_some(part));
    }

    fn parts(&self) -> usize {
        self.from_driver.len() + self.to_driver.len()
    }

    fn request(mut self, head: u16, geometry: Geometry) -> Request {
        let status_at = self.to_driver.last_mut().map(|last| {
            last.bytes -= 1;
            last.address.unchecked_add(last.bytes.into())
        });
        self.to_driver.retain(|part| part.bytes > 0);
        let sum = |parts: &[GuestPart]| parts.iter().map(|part| u64::from(part.bytes)).sum::<u64>();
        let is_whole = self.header_bytes == HEADER_BYTES && !self.is_broken;
        let wanted = match is_whole {
            true => BlockRequest::parse(&self.header, sum(&self.from_driver), sum(&self.to_driver), geometry),
            false => Err(Status::IoError),
        };
        let is_for_driver = wanted.is_ok_and(|wanted| matches!(wanted.command, Command::Read | Command::Name));
        let parts = if is_for_driver { self.to_driver } else { self.from_driver };
        Request { head, wanted, parts, ranges: SmallVec::new(), status_at }
    }
}
