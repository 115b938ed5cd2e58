//! Calls of the C interface allocate nothing once the drive has met as many operations at a time before.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::CStr;
use std::ptr;

use phaselink_drive::{
    CompletionRecord, OpenDrive, OperationRecord, phaselink_drive_advance_to_completion, phaselink_drive_close,
    phaselink_drive_next_completion, phaselink_drive_now, phaselink_drive_open, phaselink_drive_stage,
    phaselink_drive_submit,
};

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

/// Reads at depth 8, whose stages are looked at.
///
/// # Safety
/// `drive` is open.
unsafe fn load(drive: *mut OpenDrive, count: u64) {
    let (mut submitted, mut in_flight) = (0, 0);
    // SAFETY: every pointer is valid for its call.
    unsafe {
        while submitted < count || in_flight > 0 {
            while submitted < count && in_flight < 8 {
                let operation = OperationRecord::read(submitted % 512 * 4096, 4096);
                let now = phaselink_drive_now(drive);
                assert_eq!(phaselink_drive_submit(drive, now, 0, &operation, ptr::null_mut()), 0);
                (submitted, in_flight) = (submitted + 1, in_flight + 1);
            }
            assert_eq!(phaselink_drive_advance_to_completion(drive, 1 << 62), 1);
            let mut done = CompletionRecord::default();
            while phaselink_drive_next_completion(drive, &mut done) == 1 {
                in_flight -= 1;
                let (mut name, mut time_ps) = (ptr::null(), 0);
                assert_eq!(phaselink_drive_stage(drive, 0, &mut name, &mut time_ps), 1);
                assert!(time_ps > 0 && !CStr::from_ptr(name).is_empty());
            }
        }
    }
}

#[test]
fn operations_with_stages_allocate_nothing_after_a_warm_up() {
    for name in [c"nvme", c"tlc-gen4", c"moneta", c"cxl"] {
        let mut drive = ptr::null_mut();
        // SAFETY: every pointer is valid for its call, and the drive is used only between opening and closing.
        let allocations = unsafe {
            assert_eq!(phaselink_drive_open(name.as_ptr(), ptr::null(), 1, 2, &mut drive), 0);
            load(drive, 40_000);
            let before = ALLOCATIONS.get();
            load(drive, 1000);
            let allocations = ALLOCATIONS.get() - before;
            phaselink_drive_close(drive);
            allocations
        };
        assert_eq!(allocations, 0, "{name:?}");
    }
}
