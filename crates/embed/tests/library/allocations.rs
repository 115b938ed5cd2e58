//! An operation allocates nothing once the drive has met as many at a time before.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use phaselink_embed::{Description, Drive, Operation, OperationKind, Time};

/// Allocator of the system that counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller guarantees what `GlobalAlloc` requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees what `GlobalAlloc` requires.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller guarantees what `GlobalAlloc` requires.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Returns operation number `place` of a load, of those that the drive has: reads, writes, flushes, discards, write zeroes, and durable
/// writes, discards and write zeroes.
fn operation<'a>(drive: &Drive, place: u64, block: &'a [u8; 4096]) -> Operation<'a> {
    let offset = place.wrapping_mul(0x9e37_79b9) % 1024 * 4096;
    let operation = match place % 11 {
        3 => Operation::flush(),
        5 => Operation::discard(offset, 8192 - (offset == 1023 * 4096) as u32 * 4096),
        6 => Operation::write_zeroes(offset, 4096),
        8 => Operation::write(offset, block).durable(),
        9 => Operation::discard(offset, 4096).durable(),
        10 => Operation::write_zeroes(offset, 4096).durable(),
        place if place % 2 == 0 => Operation::read(offset, 4096),
        _ => Operation::write(offset, block),
    };
    // A call of `check` would allocate the text of its error.
    let needs_flush = matches!(place % 11, 8..=10) && drive.is_volatile();
    let is_there = drive.supports(operation.kind()) && (!needs_flush || drive.supports(OperationKind::Flush));
    if is_there { operation } else { Operation::read(offset, 4096) }
}

/// Lowest and highest doubling of the latencies of each kind of operation, for kinds that were met.
type Doublings = [Option<(u32, u32)>; 5];

/// Keeps `depth` operations of every kind in flight over 4 MiB, until `count` have completed. Returns the doublings of their latencies.
fn load(drive: &mut Drive, depth: usize, count: u64) -> Doublings {
    let (block, mut kinds, mut in_flight) = ([7; 4096], [None; 5], [None; 16]);
    let (mut submitted, mut completed) = (0u64, 0);
    while completed < count {
        while drive.in_flight() < depth && submitted < count {
            let operation = operation(drive, submitted, &block);
            let ticket = drive.submit(drive.now(), 0, operation).unwrap();
            *in_flight.iter_mut().find(|place| place.is_none()).unwrap() = Some((ticket, operation.kind()));
            submitted += 1;
        }
        drive.advance_to_completion(Time::from_ps(1 << 62)).unwrap();
        while let Some(done) = drive.next_completion() {
            assert!(done.status().is_success());
            let place =
                in_flight.iter_mut().find(|place| place.is_some_and(|(ticket, _)| ticket == done.ticket())).unwrap();
            let (_, kind) = place.take().unwrap();
            let (doubling, met) = (done.latency().as_ps().ilog2(), &mut kinds[kind as usize]);
            let (lowest, highest) = met.unwrap_or((doubling, doubling));
            *met = Some((lowest.min(doubling), highest.max(doubling)));
            let stages: u64 = done.stages().map(|(name, span)| span.as_ps() * u64::from(!name.is_empty())).sum();
            assert!(stages == 0 || stages == done.latency().as_ps());
            completed += 1;
        }
    }
    kinds
}

/// Number of allocations of 2000 operations after twenty times as many, and the most that there is a reason for.
///
/// The summary of a kind has a histogram for the time after the driver, one for the whole, and one for the whole of the present
/// window, which grow with a latency that is shorter or longer than all before by a doubling. Flash takes memory for each block that is written for the first time: one for
/// the user's data, one for moved data and one for the map. Its lists of collected rows and of a channel's transfers grow with the
/// longest so far.
fn allocations(name: &str, depth: usize) -> (u64, u64) {
    let mut drive = Description::shipped(name).unwrap().with_stages().open().unwrap();
    for page in 0..1024 {
        let ticket = drive.submit(drive.now(), 0, Operation::write(page * 4096, &[1; 4096])).unwrap();
        drive.wait(ticket).unwrap();
    }
    let warm = load(&mut drive, depth, 40_000);
    let all_met = warm.iter().all(Option::is_some);
    assert_eq!(all_met, OperationKind::ALL.into_iter().all(|kind| drive.supports(kind)), "{name}");
    let before = ALLOCATIONS.get();
    let found = load(&mut drive, depth, 2000);
    let count = ALLOCATIONS.get() - before;
    let pairs = warm.into_iter().flatten().zip(found.into_iter().flatten());
    let grown = pairs.map(|(warm, found)| u64::from(found.0 < warm.0) + u64::from(found.1 > warm.1)).sum::<u64>();
    (count, 3 * grown + if name == "tlc-gen4" { 5 } else { 0 })
}

#[test]
fn after_warm_up_only_new_latencies_and_new_flash_blocks_allocate() {
    let drives =
        ["nvme", "dc-express", "capi", "cxl", "moneta", "pss", "ramdisk", "tlc-gen4", "optane-p5800x", "ebs-gp3"];
    let cases = drives.iter().flat_map(|name| [1, 16].map(|depth| (*name, depth)));
    let found: Vec<_> = cases.map(|(name, depth)| (name, depth, allocations(name, depth))).collect();
    let guilty: Vec<_> = found.iter().filter(|(_, _, (count, most))| count > most).collect();
    assert!(guilty.is_empty(), "{guilty:?} of {found:?}");
    let none = found.iter().filter(|(_, _, (count, _))| *count == 0).count();
    assert!(none >= 17, "{none} of 20 loads allocate nothing: {found:?}");
    println!("allocations of 2000 operations, and the most there is a reason for: {found:?}");
}

#[test]
fn first_operations_of_a_drive_allocate_memory() {
    let mut drive = Description::shipped("nvme").unwrap().open().unwrap();
    assert!(drive.supports(OperationKind::Read));
    let before = ALLOCATIONS.get();
    load(&mut drive, 4, 100);
    assert!(ALLOCATIONS.get() > before, "the counter counts");
}
