//! An operation allocates nothing once the drive has met as many at a time before.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use phaselink_embed::{Description, Drive, Operation, OperationKind, Time};

/// Allocator of the system that counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise.
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
    // To ask with `check` would allocate the reason.
    let needs_flush = matches!(place % 11, 8..=10) && drive.is_volatile();
    let is_there = drive.supports(operation.kind()) && (!needs_flush || drive.supports(OperationKind::Flush));
    if is_there { operation } else { Operation::read(offset, 4096) }
}

/// Keeps `depth` operations of every kind in flight over 4 MiB, until `count` have completed. Returns the number of kinds.
fn load(drive: &mut Drive, depth: usize, count: u64) -> usize {
    let (block, mut kinds) = ([7; 4096], [false; 5]);
    let (mut submitted, mut completed) = (0u64, 0);
    while completed < count {
        while drive.in_flight() < depth && submitted < count {
            let operation = operation(drive, submitted, &block);
            kinds[operation.kind() as usize] = true;
            drive.submit(drive.now(), 0, operation).unwrap();
            submitted += 1;
        }
        drive.advance_to_completion(Time::from_ps(1 << 62)).unwrap();
        while let Some(done) = drive.next_completion() {
            assert!(done.status().is_success());
            let stages: u64 = done.stages().map(|(name, span)| span.as_ps() * u64::from(!name.is_empty())).sum();
            assert!(stages == 0 || stages == done.latency().as_ps());
            completed += 1;
        }
    }
    kinds.into_iter().filter(|is_there| *is_there).count()
}

/// Allocations of some operations, after twenty times as many.
fn allocations(name: &str, depth: usize) -> u64 {
    let mut drive = Description::shipped(name).unwrap().with_stages().open().unwrap();
    for page in 0..1024 {
        let ticket = drive.submit(drive.now(), 0, Operation::write(page * 4096, &[1; 4096])).unwrap();
        drive.wait(ticket).unwrap();
    }
    let kinds = load(&mut drive, depth, 40_000);
    assert_eq!(kinds == 5, OperationKind::ALL.into_iter().all(|kind| drive.supports(kind)), "{name}");
    let before = ALLOCATIONS.get();
    load(&mut drive, depth, 2000);
    ALLOCATIONS.get() - before
}

/// Most allocations of 2000 operations. None at depth 1; beyond that, queues are fuller now and then than ever before. A block of
/// flash takes memory when it is opened.
fn most(name: &str, depth: usize) -> u64 {
    match (name, depth) {
        ("tlc-gen4", _) => 20,
        (_, 1) => 0,
        _ => 5,
    }
}

#[test]
fn operations_of_every_kind_allocate_nothing_after_a_warm_up() {
    let drives =
        ["nvme", "dc-express", "capi", "cxl", "moneta", "pss", "ramdisk", "tlc-gen4", "optane-p5800x", "ebs-gp3"];
    let cases = drives.iter().flat_map(|name| [1, 16].map(|depth| (*name, depth)));
    let found: Vec<_> = cases.map(|(name, depth)| (name, depth, allocations(name, depth))).collect();
    let guilty: Vec<_> = found.iter().filter(|(name, depth, count)| *count > most(name, *depth)).collect();
    assert!(guilty.is_empty(), "{guilty:?} of {found:?}");
    println!("allocations of 2000 operations: {found:?}");
}

#[test]
fn first_operations_of_a_drive_do_allocate() {
    let mut drive = Description::shipped("nvme").unwrap().open().unwrap();
    assert!(drive.supports(OperationKind::Read));
    let before = ALLOCATIONS.get();
    load(&mut drive, 4, 100);
    assert!(ALLOCATIONS.get() > before, "the counter counts");
}
