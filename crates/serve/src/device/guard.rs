//! Memory that goes away under a server: clients' memory, and the mapping of a store's file.
//!
//! Whoever has the file behind a mapping may make it shorter, which turns an access beyond its end into the signal SIGBUS. A
//! handler then notes that the mapping is lost and puts private pages of zeros in its place, all of it, and the access is
//! repeated. A client has lost its memory by that, a store fails all requests from then on, and the server goes on. Files that
//! are sealed against that never get there.
//!
//! ```text
//!    copy from the mapping ──> SIGBUS ──> is_lost = true, then zeros in the place of the mapping
//!    copy is repeated, and reads zeros <──┘
//!    is_lost? ──> the copy is worth nothing
//! ```
//!
//! The flag is set before the zeros appear. A thread that looks at it after its copy sees it if any of the copied bytes came
//! from these zeros, on whatever thread the signal was.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, Once};

use crate::device::tally::locked;

/// Most mappings of clients' memory at a time, over all clients.
pub(crate) const MAPPINGS_MAX: usize = 65_535;
/// Places of the handler's list: one more is for a store.
const PLACES: usize = MAPPINGS_MAX + 1;

/// Mapping that the signal handler knows: its first address, 0 for none, and its length.
struct Guarded {
    start: AtomicUsize,
    bytes: AtomicUsize,
    /// True once an access has found a page of the mapping gone.
    is_lost: AtomicBool,
}

static GUARDED: [Guarded; PLACES] =
    [const { Guarded { start: AtomicUsize::new(0), bytes: AtomicUsize::new(0), is_lost: AtomicBool::new(false) } };
        PLACES];

/// Number of places of the list that have ever been used: the handler looks at no others.
static GUARDED_END: AtomicUsize = AtomicUsize::new(0);
/// Places before [`GUARDED_END`] that are free again.
static VACANT: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Guard of a mapping, which outlives the file behind it: a place in the handler's list.
#[derive(Debug)]
pub(crate) struct Guard {
    place: usize,
}

impl Guard {
    /// Guards a mapping until the guard is dropped, which must happen before the mapping goes.
    ///
    /// # Errors
    /// If too many are mapped already.
    pub(crate) fn new(start: usize, bytes: usize) -> io::Result<Guard> {
        install();
        let place = Guard::place()?;
        // A mapping within a file begins in the middle of a page, and the system maps the whole of it.
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

    /// Returns true if a page of the mapping was gone at an access before this call: bytes that were copied from the mapping
    /// since then are zeros, and bytes that were copied to it are lost.
    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        // Copies before this call come before the load. A copy that has met the handler's pages has met the kernel, which
        // changes them after the handler has set the flag.
        fence(Ordering::Acquire);
        GUARDED[self.place].is_lost.load(Ordering::Acquire)
    }

    /// Notes that the mapping is lost, for an owner that has found its file too short by other means.
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

/// Action of the signal before, as handler and flags.
static PREVIOUS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: both structures are plain data, for which zeros are valid; the handler calls nothing but what POSIX
        // allows in handlers, and `mmap`, which on Linux is a bare system call.
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

/// Handles an access to memory that cannot be had: if the memory is guarded, zeros take its place, and the access is
/// repeated.
extern "C" fn on_bus_error(_: libc::c_int, information: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the system hands over a valid structure, and the signal is one that has an address.
    let address = unsafe { (*information).si_addr() } as usize;
    for place in &GUARDED[..GUARDED_END.load(Ordering::Acquire)] {
        let (start, bytes) = (place.start.load(Ordering::Acquire), place.bytes.load(Ordering::Acquire));
        if start != 0 && (start..start + bytes).contains(&address) {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
            place.is_lost.store(true, Ordering::SeqCst);
            // SAFETY: the range is a mapping of this process's, whose owner has a guard and reaches it by address alone.
            let mapped = unsafe { libc::mmap(start as *mut libc::c_void, bytes, protection, flags, -1, 0) };
            if mapped != libc::MAP_FAILED {
                return;
            }
        }
    }
    // Not guarded: as it was before. The access is done again, and finds that.
    // SAFETY: as in `install`.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = PREVIOUS[0].load(Ordering::Acquire);
        action.sa_flags = PREVIOUS[1].load(Ordering::Acquire) as libc::c_int;
        libc::sigaction(libc::SIGBUS, &action, ptr::null_mut());
    }
}
