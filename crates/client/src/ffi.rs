//! C interface of the client; `include/phaselink.h` has its declarations and documentation. Errors are negative error
//! numbers.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::slice;

use crate::{Client, Options, Queue, Slot};

/// Returns the negative error number for C: that of the system error or of its kind, or -5 (EIO) for any other.
fn number(error: &io::Error) -> c_int {
    let kinds = [
        (io::ErrorKind::InvalidInput, 22),
        (io::ErrorKind::ReadOnlyFilesystem, 30),
        (io::ErrorKind::StorageFull, 28),
        (io::ErrorKind::BrokenPipe, 32),
        (io::ErrorKind::ResourceBusy, 16),
        (io::ErrorKind::PermissionDenied, 13),
        (io::ErrorKind::Unsupported, 95),
    ];
    let named = kinds.into_iter().find(|(kind, _)| *kind == error.kind()).map(|(_, number)| number);
    -error.raw_os_error().or(named).unwrap_or(5)
}

fn result(done: io::Result<()>) -> c_int {
    done.map_or_else(|error| number(&error), |()| 0)
}

/// Connects; see the header.
///
/// # Safety
/// `path` is a string that ends in a zero, and `client` a place for a pointer.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn phaselink_connect(
    path: *const c_char,
    queues: u32,
    depth: u32,
    writes: c_int,
    client: *mut *mut Client,
) -> c_int {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let path = unsafe { CStr::from_ptr(path) };
    let options = Options { queues, depth, writes: writes != 0, ..Options::default() };
    match Client::connect(Path::new(OsStr::from_bytes(path.to_bytes())), &options) {
        Err(error) => number(&error),
        Ok(connected) => {
            // SAFETY: guaranteed by the caller, see `# Safety` above.
            unsafe { *client = Box::into_raw(Box::new(connected)) };
            0
        }
    }
}

/// Returns the bytes of the drive; see the header.
///
/// # Safety
/// `client` is one that [`phaselink_connect`] made and [`phaselink_close`] has not had.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn phaselink_capacity(client: *const Client) -> u64 {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    unsafe { &*client }.capacity_bytes()
}

/// Returns the bytes of a block; see the header.
///
/// # Safety
/// As [`phaselink_capacity`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn phaselink_block(client: *const Client) -> u32 {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    unsafe { &*client }.block_bytes()
}

/// Returns the next queue, or null; see the header.
///
/// # Safety
/// As [`phaselink_capacity`], and no other thread uses the client meanwhile.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn phaselink_queue(client: *mut Client) -> *mut Queue {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let queue = unsafe { &mut *client }.take_queue();
    queue.map_or(ptr::null_mut(), |queue| Box::into_raw(Box::new(queue)))
}

/// Frees a client; see the header.
///
/// # Safety
/// As [`phaselink_queue`]. The client is gone afterwards.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn phaselink_close(client: *mut Client) {
    if !client.is_null() {
        // SAFETY: guaranteed by the caller, see `# Safety` above.
        drop(unsafe { Box::from_raw(client) });
    }
}

/// Frees a queue; see the header.
///
/// # Safety
/// `queue` is one that [`phaselink_queue`] made, and gone afterwards.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn phaselink_queue_close(queue: *mut Queue) {
    if !queue.is_null() {
        // SAFETY: guaranteed by the caller, see `# Safety` above.
        drop(unsafe { Box::from_raw(queue) });
    }
}

/// Reads and waits; see the header.
///
/// # Safety
/// `queue` is one that [`phaselink_queue`] made and that no other thread uses, and `into` has room for `bytes`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn phaselink_read(queue: *mut Queue, offset: u64, into: *mut u8, bytes: usize) -> c_int {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let (queue, into) = unsafe { (&mut *queue, slice::from_raw_parts_mut(into, bytes)) };
    result(queue.read(offset, into))
}

/// Writes and waits; see the header.
///
/// # Safety
/// As [`phaselink_read`], with `bytes` bytes at `from`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn phaselink_write(
    queue: *mut Queue,
    offset: u64,
    from: *const u8,
    bytes: usize,
) -> c_int {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let (queue, from) = unsafe { (&mut *queue, slice::from_raw_parts(from, bytes)) };
    result(queue.write(offset, from))
}

/// Flushes and waits; see the header.
///
/// # Safety
/// `queue` is one that [`phaselink_queue`] made and that no other thread uses.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn phaselink_flush(queue: *mut Queue) -> c_int {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    result(unsafe { &mut *queue }.flush())
}

/// Submits a read; see the header.
///
/// # Safety
/// As [`phaselink_flush`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn phaselink_submit_read(queue: *mut Queue, offset: u64, bytes: u32) -> c_int {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    submitted(unsafe { &mut *queue }.submit_read(offset, bytes))
}

/// Submits a write; see the header.
///
/// # Safety
/// As [`phaselink_write`]; the bytes are the caller's again when this returns.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn phaselink_submit_write(
    queue: *mut Queue,
    offset: u64,
    from: *const u8,
    bytes: u32,
) -> c_int {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let (queue, from) = unsafe { (&mut *queue, slice::from_raw_parts(from, bytes as usize)) };
    submitted(queue.submit_write(offset, from))
}

/// Submits a flush; see the header.
///
/// # Safety
/// As [`phaselink_flush`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn phaselink_submit_flush(queue: *mut Queue) -> c_int {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    submitted(unsafe { &mut *queue }.submit_flush())
}

/// Checks whether a slot has completed; see the header.
///
/// # Safety
/// As [`phaselink_read`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn phaselink_complete(
    queue: *mut Queue,
    slot: c_int,
    into: *mut u8,
    bytes: usize,
) -> c_int {
    // SAFETY: guaranteed by the caller, see `# Safety` above. If `bytes` is 0, the pointer may be null and is not used.
    let (queue, into) = unsafe {
        let into = if bytes == 0 { &mut [][..] } else { slice::from_raw_parts_mut(into, bytes) };
        (&mut *queue, into)
    };
    let slot = Slot::from_number(u16::try_from(slot).unwrap_or(u16::MAX));
    queue.complete(slot, into).map_or_else(|error| number(&error), c_int::from)
}

fn submitted(slot: io::Result<Option<Slot>>) -> c_int {
    match slot {
        Ok(Some(slot)) => slot.number().into(),
        Ok(None) => -16,
        Err(error) => number(&error),
    }
}
