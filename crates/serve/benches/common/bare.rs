//! Bare copies: the bytes of a store's requests, moved without a server.

use std::hint::{black_box, spin_loop};
use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use phaselink_client::chunk::{self, AHEAD_BYTES, Word};
use phaselink_client::shared::memory::Memory;
use phaselink_core::request::Op;
use phaselink_serve::device::store::Store;

use super::{DEPTH, Measured, PROCESSORS, Transfer, measure_requests_one_by_one, pin, rate};

const LINE_BYTES: u64 = 64;

/// Instructions that copy whole cache lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Loads and stores of 32 bytes.
    Vectors,
    /// Loads of 32 bytes, and stores that pass the caches by.
    Streams,
    /// The processor's instruction for strings.
    Strings,
    /// `memcpy` of the C library.
    Library,
}

#[cfg(target_arch = "x86_64")]
pub(crate) const WAYS: &[Way] = &[Way::Vectors, Way::Streams, Way::Strings, Way::Library];
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const WAYS: &[Way] = &[Way::Library];

impl Way {
    /// Copies `from` to `into`, which are equally long.
    fn copy(self, from: &[AtomicU64], into: &[AtomicU64]) {
        assert_eq!(from.len(), into.len());
        let (source, target, bytes) =
            (from.as_ptr().cast::<u8>(), into.as_ptr().cast::<u8>().cast_mut(), from.len() * 8);
        // SAFETY: `bytes` bytes can be read and written: they are words that may be changed through a shared reference.
        // The benchmark runs only on processors with AVX.
        unsafe {
            match self {
                Way::Library => std::ptr::copy_nonoverlapping(source, target, bytes),
                #[cfg(target_arch = "x86_64")]
                Way::Strings => std::arch::asm!(
                    "rep movsb",
                    inout("rsi") source => _, inout("rdi") target => _, inout("rcx") bytes => _,
                    options(nostack),
                ),
                #[cfg(target_arch = "x86_64")]
                Way::Vectors | Way::Streams => {
                    lines(self, source, target, bytes / 64);
                    let rest = bytes / 64 * 8;
                    from[rest..].iter().zip(&into[rest..]).for_each(|(from, into)| {
                        into.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
                    });
                }
                #[cfg(not(target_arch = "x86_64"))]
                _ => unreachable!("there is the library alone"),
            }
        }
    }
}

/// Copies whole lines by vectors.
///
/// # Safety
/// So many lines can be read and written, and the processor has AVX.
#[cfg(target_arch = "x86_64")]
unsafe fn lines(way: Way, source: *const u8, target: *mut u8, lines: usize) {
    macro_rules! copy {
        ($store:literal) => {
            std::arch::asm!(
                "test rcx, rcx",
                "jz 3f",
                "2:",
                "vmovdqu ymm0, [rsi]",
                "vmovdqu ymm1, [rsi + 32]",
                concat!($store, " [rdi], ymm0"),
                concat!($store, " [rdi + 32], ymm1"),
                "add rsi, 64",
                "add rdi, 64",
                "dec rcx",
                "jnz 2b",
                "3:",
                "vzeroupper",
                inout("rsi") source => _, inout("rdi") target => _, inout("rcx") lines => _,
                clobber_abi("C"),
                options(nostack),
            )
        };
    }
    // SAFETY: the caller guarantees the ranges.
    unsafe {
        match way {
            Way::Streams => {
                copy!("vmovntdq");
                std::arch::x86_64::_mm_sfence();
            }
            _ => copy!("vmovdqu"),
        }
    }
}

/// Memory of the two sides of a bare exchange: request lines, completion lines, and a buffer for each request in flight.
pub(crate) struct BareExchangeMemory<'a> {
    memory: Memory,
    depth: u64,
    transfer: Transfer,
    way: Way,
    /// True if the client copies data into buffers before writes, and out of them after reads.
    touches: bool,
    store: &'a Store,
    stop: AtomicBool,
}

impl BareExchangeMemory<'_> {
    /// Makes the memory for a `depth` and a length that are powers of two.
    pub(crate) fn new(
        store: &Store,
        depth: u64,
        transfer: Transfer,
        way: Way,
        touches: bool,
    ) -> io::Result<BareExchangeMemory<'_>> {
        let (memory, _) =
            Memory::create(3 * depth * LINE_BYTES + depth * BareExchangeMemory::buffer_stride_bytes(transfer.bytes))?;
        let bare = BareExchangeMemory { memory, depth, transfer, way, touches, store, stop: AtomicBool::new(false) };
        (0..depth).for_each(|number| chunk::copy_in(bare.buffer(number), &vec![1; transfer.bytes]));
        Ok(bare)
    }

    /// Distance of two buffers: as in the served drive, so that their first lines do not compete for places of a cache.
    fn buffer_stride_bytes(bytes: usize) -> u64 {
        bytes as u64 + 640
    }

    fn request(&self, number: u64) -> &AtomicU64 {
        self.memory.word((number & (2 * self.depth - 1)) * LINE_BYTES)
    }

    fn completion(&self, number: u64) -> &AtomicU64 {
        self.memory.word((2 * self.depth + (number & (self.depth - 1))) * LINE_BYTES)
    }

    fn buffer(&self, number: u64) -> &[AtomicU64] {
        let first = 3 * self.depth * LINE_BYTES
            + (number & (self.depth - 1)) * BareExchangeMemory::buffer_stride_bytes(self.transfer.bytes);
        self.memory.words(first, self.transfer.bytes / 8)
    }

    fn stored_request_words(&self, number: u64) -> &[AtomicU64] {
        let Transfer { bytes, .. } = self.transfer;
        self.store.words(self.transfer.offset(number), bytes as u32).expect("a store in memory")
    }

    /// Returns the word that says that a request is complete: of a read, the last one of its data.
    fn final_completion_word(&self, number: u64) -> &AtomicU64 {
        match self.transfer.op {
            Op::Read => &self.buffer(number)[self.transfer.bytes / 8 - 1],
            _ => self.completion(number),
        }
    }

    fn submit(&self, number: u64, data: &[u8]) {
        if self.touches && self.transfer.op != Op::Read {
            chunk::copy_in(self.buffer(number), data);
        }
        self.request(number).store(number + 1, Ordering::Release);
    }

    fn wait(&self, number: u64, data: &mut [u8]) {
        while self.final_completion_word(number).load(Ordering::Acquire) != number + 1 {
            spin_loop();
        }
        if self.touches && self.transfer.op == Op::Read {
            chunk::copy_out(self.buffer(number), data);
            black_box(data);
        }
    }

    fn copy(&self, number: u64) {
        let (stored, buffer) = (self.stored_request_words(number), self.buffer(number));
        match self.transfer.op {
            Op::Read => {
                let body = buffer.len() - 1;
                self.way.copy(&stored[..body], &buffer[..body]);
            }
            _ => self.way.copy(buffer, stored),
        }
    }

    /// Runs the device: it takes up to `ahead` requests, and loads what reads need, before it completes the first of them.
    fn serve(&self, ahead: u64) {
        let (mut seen, mut done) = (0, 0);
        while !self.stop.load(Ordering::Relaxed) {
            while seen < done + ahead && self.request(seen).load(Ordering::Acquire) == seen + 1 {
                if ahead > 1 && self.transfer.op == Op::Read {
                    let bytes = self.transfer.bytes.min(AHEAD_BYTES);
                    self.store.prefetch(self.transfer.offset(seen), bytes as u32);
                    chunk::prefetch_to_write(self.buffer(seen));
                }
                if ahead > 1 {
                    self.request(seen + 4).prefetch();
                }
                seen += 1;
            }
            if done == seen {
                spin_loop();
                continue;
            }
            self.copy(done);
            self.final_completion_word(done).store(done + 1, Ordering::Release);
            done += 1;
        }
    }

    fn run<T>(&self, ahead: u64, client: impl FnOnce() -> T) -> T {
        let is_ready = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                pin(PROCESSORS[0]);
                is_ready.wait();
                self.serve(ahead);
            });
            is_ready.wait();
            let measured = client();
            self.stop.store(true, Ordering::Relaxed);
            measured
        })
    }
}

/// One request of a bare exchange after the other.
pub(crate) fn lone(store: &Store, transfer: Transfer, way: Way, touches: bool) -> io::Result<Measured> {
    let (bare, mut data) = (BareExchangeMemory::new(store, 1, transfer, way, touches)?, vec![1; transfer.bytes]);
    Ok(bare.run(1, || {
        measure_requests_one_by_one(|number| {
            bare.submit(number, &data);
            bare.wait(number, &mut data);
        })
    }))
}

/// Returns requests a second of a bare exchange at depth.
pub(crate) fn deep(store: &Store, transfer: Transfer, way: Way, touches: bool) -> io::Result<f64> {
    let (bare, mut data) = (BareExchangeMemory::new(store, DEPTH, transfer, way, touches)?, vec![1; transfer.bytes]);
    (0..DEPTH).for_each(|number| bare.submit(number, &data));
    Ok(bare.run(8, || {
        rate(|number| {
            bare.wait(number, &mut data);
            bare.submit(number + DEPTH, &data);
        })
    }))
}

/// Returns copies a second of the device's thread alone, without a client.
pub(crate) fn copies(store: &Store, transfer: Transfer, way: Way) -> io::Result<f64> {
    let bare = BareExchangeMemory::new(store, DEPTH, transfer, way, false)?;
    let copied = thread::scope(|scope| {
        let device = scope.spawn(|| {
            pin(PROCESSORS[0]);
            rate(|number| bare.copy(number))
        });
        device.join()
    });
    copied.map_err(|_| io::Error::other("the copying thread has failed"))
}
