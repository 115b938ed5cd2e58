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

/// Keeps `depth` operations in flight, alternately reads and writes over 4 MiB, until `count` have completed.
fn load(drive: &mut Drive, depth: usize, count: u64) {
    let block = [7; 4096];
    let (mut submitted, mut completed) = (0u64, 0);
    while completed < count {
        while drive.in_flight() < depth && submitted < count {
            let offset = submitted.wrapping_mul(0x9e37_79b9) % 1024 * 4096;
            let operation = match submitted % 2 {
                0 => Operation::read(offset, 4096),
                _ => Operation::write(offset, &block),
            };
            drive.submit(drive.now(), 0, operation).unwrap();
            submitted += 1;
        }
        drive.advance_to_completion(Time::from_ps(1 << 62)).unwrap();
        while let Some(done) = drive.next_completion() {
            assert!(done.status().is_success());
            completed += 1;
        }
    }
}

/// Allocations of so many operations, after four times as many.
fn allocations(name: &str, depth: usize) -> u64 {
    let mut drive = Description::shipped(name).unwrap().open().unwrap();
    for page in 0..1024 {
        let ticket = drive.submit(drive.now(), 0, Operation::write(page * 4096, &[1; 4096])).unwrap();
        drive.wait(ticket).unwrap();
    }
    load(&mut drive, depth, 8000);
    let before = ALLOCATIONS.get();
    load(&mut drive, depth, 2000);
    ALLOCATIONS.get() - before
}

#[test]
fn operations_allocate_nothing_after_a_warm_up() {
    let drives = ["nvme", "dc-express", "capi", "cxl", "moneta", "pss", "ramdisk", "tlc-gen4", "optane-p5800x"];
    let found: Vec<_> =
        drives.iter().flat_map(|name| [1, 16].map(|depth| (*name, depth, allocations(name, depth)))).collect();
    let guilty: Vec<_> = found.iter().filter(|(_, _, count)| *count > 0).collect();
    assert!(guilty.is_empty(), "{guilty:?}");
}

#[test]
fn first_operations_of_a_drive_do_allocate() {
    let mut drive = Description::shipped("nvme").unwrap().open().unwrap();
    assert!(drive.supports(OperationKind::Read));
    let before = ALLOCATIONS.get();
    load(&mut drive, 4, 100);
    assert!(ALLOCATIONS.get() > before, "the counter counts");
}
