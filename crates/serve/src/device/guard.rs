//! Protection against SIGBUS when mapped files become shorter: clients' memory, and the file of a store.
//!
//! Another process may truncate the file behind a mapping, which turns an access beyond its end into the signal SIGBUS.
//! The handler then marks the mapping as lost, replaces all of it by private pages of zeros, and the access is
//! repeated. A client has thereby lost its memory, or a store fails all requests from then on, and the server stays up.
//! Files sealed against truncation are safe.
//!
//! ```text
//!    copy from the mapping ──> SIGBUS ──> is_lost = true, then zeros in the place of the mapping
//!    copy is repeated, and reads zeros <──┘
//!    is_lost? ──> the copy is worth nothing
//! ```
//!
//! The flag is set before the zeros appear. A thread that reads it after its copy sees it set if any copied byte came
//! from these zeros, whichever thread got the signal.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, Once};

use crate::device::tally::locked;

/// Maximum number of guarded mappings of clients' memory, over all clients.
pub(crate) const MAPPINGS_MAX: usize = 65_535;
/// Number of entries in the signal handler's list of mappings, one of which is for a store.
const PLACES: usize = MAPPINGS_MAX + 1;

/// Mapping in the signal handler's list: its address, or 0 for an unused entry, and its length in bytes.
struct GuardedMapping {
    start: AtomicUsize,
    bytes: AtomicUsize,
    /// True once an access has found that a page of the mapping no longer exists.
    is_lost: AtomicBool,
}

static GUARDED: [GuardedMapping; PLACES] = [const {
    GuardedMapping { start: AtomicUsize::new(0), bytes: AtomicUsize::new(0), is_lost: AtomicBool::new(false) }
}; PLACES];

/// Number of entries of the handler's list that have ever been used. The handler checks no others.
static GUARDED_END: AtomicUsize = AtomicUsize::new(0);
/// Indices of unused entries before [`GUARDED_END`].
static VACANT: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Guard of a mapping against truncation of its file, as an entry in the SIGBUS handler's list.
#[derive(Debug)]
pub(crate) struct Guard {
    place: usize,
}

impl Guard {
    /// Guards the mapping of `bytes` bytes at address `start` until the guard is dropped. The guard must be dropped
    /// before the mapping.
    ///
    /// # Errors
    ///
    /// If the list of guarded mappings is full.
    pub(crate) fn new(start: usize, bytes: usize) -> io::Result<Guard> {
        install_bus_error_handler();
        let place = Guard::place()?;
        // A mapping of a part of a file may begin within a page, but the kernel maps whole pages.
        let first = start & !(PAGE_BYTES - 1);
        GUARDED[place].is_lost.store(false, Ordering::Release);
        GUARDED[place].start.store(first, Ordering::Release);
        GUARDED[place].bytes.store(start + bytes - first, Ordering::Release);
        Ok(Guard { place })
    }

    fn place() -> io::Result<usize> {
        let mut vacant = locked(&VACANT);
        if let Some(place) = vacant.pop() {
            return Ok(place);
        }
        let place = GUARDED_END.load(Ordering::Relaxed);
        if place == PLACES {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        GUARDED_END.store(place + 1, Ordering::Release);
        Ok(place)
    }

    /// Returns true if an access before this call found a page of the mapping gone. Bytes copied from the mapping since
    /// then are zeros, and bytes copied to it are lost.
    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        // The fence orders all copies before the load. The handler sets the flag before the kernel maps the replacement
        // pages, so after a copy from such a page the load sees the flag.
        fence(Ordering::Acquire);
        GUARDED[self.place].is_lost.load(Ordering::Acquire)
    }

    /// Marks the mapping as lost, for an owner that has found its file too short by a system call.
    pub(crate) fn lose(&self) {
        GUARDED[self.place].is_lost.store(true, Ordering::SeqCst);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        GUARDED[self.place].bytes.store(0, Ordering::Release);
        GUARDED[self.place].start.store(0, Ordering::Release);
        locked(&VACANT).push(self.place);
    }
}

const PAGE_BYTES: usize = 4096;

/// Earlier action of SIGBUS, as handler address and flags.
static PREVIOUS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Installs [`on_bus_error`] as the handler of SIGBUS, once in the process, and keeps the earlier action.
fn install_bus_error_handler() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: both structures are plain data, for which zeros are valid. The handler calls only functions that
        // POSIX allows in signal handlers, and `mmap`, which on Linux is a plain system call.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let mut previous: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_bus_error as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
            if libc::sigaction(libc::SIGBUS, &action, &mut previous) == 0 {
                PREVIOUS[0].store(previous.sa_sigaction, Ordering::Release);
                PREVIOUS[1].store(previous.sa_flags as usize, Ordering::Release);
            }
        }
    });
}

/// Handles SIGBUS: marks a guarded mapping as lost and replaces it by zeros, after which the access is repeated. For
/// other addresses, restores the earlier action.
extern "C" fn on_bus_error(_: libc::c_int, information: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid structure, and SIGBUS has an address.
    let address = unsafe { (*information).si_addr() } as usize;
    for place in &GUARDED[..GUARDED_END.load(Ordering::Acquire)] {
        let (start, bytes) = (place.start.load(Ordering::Acquire), place.bytes.load(Ordering::Acquire));
        if start != 0 && (start..start + bytes).contains(&address) {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
            place.is_lost.store(true, Ordering::SeqCst);
            // SAFETY: the range is a mapping of this process. Its owner has a guard and accesses it only by raw
            // pointers.
            let mapped = unsafe { libc::mmap(start as *mut libc::c_void, bytes, protection, flags, -1, 0) };
            if mapped != libc::MAP_FAILED {
                return;
            }
        }
    }
    // The address is not guarded. Restore the earlier action; the access is then repeated and triggers that action.
    // SAFETY: as in `install_bus_error_handler`.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = PREVIOUS[0].load(Ordering::Acquire);
        action.sa_flags = PREVIOUS[1].load(Ordering::Acquire) as libc::c_int;
        libc::sigaction(libc::SIGBUS, &action, ptr::null_mut());
    }
}
