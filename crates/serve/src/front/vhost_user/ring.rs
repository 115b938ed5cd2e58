//! Virtqueue of a client: takes requests, writes completions, and notifies the client where it has asked for that.

use phaselink_core::number::{index, length};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::OFlags;
use smallvec::SmallVec;
use virtio_queue::desc::split::Descriptor;
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{Address, Bytes, GuestAddress, GuestMemoryMmap};

use super::blk::{BlockRequest, Command, HEADER_BYTES, RANGE_BYTES, Range, Status};
use crate::device::store::Geometry;

/// Maximum number of entries of a virtqueue.
pub const ENTRIES_MAX: u16 = 1024;
/// Maximum number of pieces of guest memory that the data of one request may lie in.
const PARTS_MAX: usize = ENTRIES_MAX as usize;

/// Contiguous piece of the guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestPart {
    /// Guest physical address of the first byte.
    pub address: GuestAddress,
    /// Length of the piece, in bytes.
    pub bytes: u32,
}

/// Request that has been taken from a ring and not completed.
#[derive(Debug)]
pub struct Request {
    head: u16,
    /// Parsed request, or the error status with which it must be completed.
    pub wanted: Result<BlockRequest, Status>,
    /// Pieces of guest memory that hold the request's data.
    pub parts: SmallVec<[GuestPart; 4]>,
    /// Ranges of the request, if it is a discard or a write of zeros.
    pub ranges: SmallVec<[Range; 1]>,
    /// Guest address of the request's status byte; none if the descriptor chain has no room for one.
    status_at: Option<GuestAddress>,
}

/// Virtqueue, as far as its client has set it up.
#[derive(Debug)]
pub struct Ring {
    /// Addresses and positions of the virtqueue, as the crate `virtio-queue` keeps them.
    pub queue: Queue,
    /// Eventfd by which the guest announces requests (kick).
    pub kick: Option<Arc<OwnedFd>>,
    /// Eventfd by which the guest is notified of completions (call).
    pub call: Option<OwnedFd>,
    /// True from the client's message with the kick eventfd until the client asks for the ring's position, which stops
    /// the ring.
    pub is_started: bool,
    /// True if the client has enabled the ring.
    pub is_enabled: bool,
    /// Number of the ring's requests in flight.
    pub in_flight: u32,
    has_answers: bool,
    /// True if the guest kicks for new requests, as it does from the start until it is told that the ring is polled.
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
    /// Returns true if requests may be taken from the ring: it is set up, started and enabled.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.is_started && self.is_enabled && self.queue.ready()
    }

    /// Takes the next request from the ring. Returns none if the ring is empty, or if as many requests are in flight as
    /// it has entries. A ring with invalid indices is never read again.
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

    /// Writes the completion of a request into the ring, with the number of data bytes that the guest has received.
    #[inline]
    pub fn answer(&mut self, memory: &GuestMemoryMmap, request: &Request, status: Status, bytes: u32) {
        self.in_flight -= 1;
        self.repeat_completion(memory, request, status, bytes);
    }

    /// Writes a completion without removing the request from those in flight. Called alone, it repeats a completion,
    /// which no driver expects.
    #[inline]
    pub fn repeat_completion(&mut self, memory: &GuestMemoryMmap, request: &Request, status: Status, bytes: u32) {
        let is_said = request.status_at.is_some_and(|address| memory.write_obj(status as u8, address).is_ok());
        let written = if is_said { bytes + 1 } else { 0 };
        // If the ring is no longer in mapped memory, stop using it.
        if self.queue.add_used(memory, request.head, written).is_err() {
            self.queue.set_ready(false);
        }
        self.has_answers = true;
    }

    /// Removes a request that is never completed from the count of requests in flight.
    pub fn forget(&mut self) {
        self.in_flight -= 1;
    }

    /// Notifies the client by its eventfd, if completions have been written of which it wants to be notified.
    #[inline]
    pub fn signal(&mut self, memory: &GuestMemoryMmap) {
        let has_answers = std::mem::take(&mut self.has_answers);
        if has_answers && self.queue.needs_notification(memory).unwrap_or(true) {
            self.wake();
        }
    }

    fn wake(&self) {
        // The write fails only if the counter is full, and then the client wakes anyway.
        let _ = self.call.as_ref().map(|call| rustix::io::write(call, &1u64.to_ne_bytes()));
    }

    /// Asks the client to kick from now on; returns true if there are requests for which it has not kicked.
    pub fn listen(&mut self, memory: &GuestMemoryMmap) -> bool {
        self.listens = true;
        self.queue.enable_notification(memory).unwrap_or(false)
    }

    /// Tells the client not to kick, as the ring is polled.
    #[inline]
    pub fn look(&mut self, memory: &GuestMemoryMmap) {
        if std::mem::take(&mut self.listens) {
            let _ = self.queue.disable_notification(memory);
        }
    }
}

/// Makes a descriptor that a client has sent non-blocking; none if that is not possible.
pub(super) fn into_non_blocking(fd: OwnedFd) -> Option<OwnedFd> {
    let flags = rustix::fs::fcntl_getfl(&fd).ok()?;
    rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK).ok()?;
    Some(fd)
}

/// Reads the request of a chain of descriptors (section 5.2.6): a header and data from the driver, then data to the
/// driver and a status byte, divided into descriptors in any way.
pub fn read(
    head: u16,
    chain: impl Iterator<Item = Descriptor>,
    memory: &GuestMemoryMmap,
    geometry: Geometry,
) -> Request {
    let mut read = DescriptorChain::default();
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

/// Reads the ranges of a discard or a write of zeros from `parts` of the guest's memory, and checks them.
fn ranges(
    parts: &[GuestPart],
    bytes: u32,
    memory: &GuestMemoryMmap,
    command: Command,
    geometry: Geometry,
) -> Result<SmallVec<[Range; 1]>, Status> {
    let mut data = vec![0; index(bytes)];
    gather(parts, memory, &mut data)?;
    let (ranges, _) = data.as_chunks::<RANGE_BYTES>();
    ranges.iter().map(|range| Range::parse(range, command, geometry)).collect()
}

/// Copies bytes from parts of the guest's memory to `into`, until it is full or the parts end.
///
/// # Errors
/// If a part is not in the guest's memory.
pub fn gather(parts: &[GuestPart], memory: &GuestMemoryMmap, into: &mut [u8]) -> Result<(), Status> {
    each(parts, into.len(), |address, place| memory.read_slice(&mut into[place], address).is_ok())
}

/// Copies bytes of `from` to parts of the guest's memory, until either ends.
///
/// # Errors
/// If a part is not in the guest's memory.
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
        let end = bytes.min(done + index(part.bytes));
        if !copy(part.address, done..end) {
            return Err(Status::IoError);
        }
        done = end;
    }
    Ok(())
}

/// Header and data pieces of a descriptor chain that is being read.
#[derive(Default)]
struct DescriptorChain {
    header: [u8; HEADER_BYTES],
    header_bytes: usize,
    from_driver: SmallVec<[GuestPart; 4]>,
    to_driver: SmallVec<[GuestPart; 4]>,
    is_broken: bool,
}

impl DescriptorChain {
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
        let head = (HEADER_BYTES - self.header_bytes).min(index(part.bytes));
        let into = &mut self.header[self.header_bytes..][..head];
        self.is_broken |= memory.read_slice(into, part.address).is_err();
        self.header_bytes += head;
        part = GuestPart { address: part.address.unchecked_add(length(head)), bytes: part.bytes - head as u32 };
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
