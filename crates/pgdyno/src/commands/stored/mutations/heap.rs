//! Counts what the tests of this program have on the heap.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static USED: AtomicUsize = AtomicUsize::new(0);

/// Most allocations are smaller, and counting them would take a tenth of the time: what leads to many of them is larger, and is counted.
const SMALL_BYTES_MAX: usize = 63;

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > SMALL_BYTES_MAX {
            USED.fetch_add(layout.size(), Ordering::Relaxed);
        }
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() > SMALL_BYTES_MAX {
            USED.fetch_add(layout.size(), Ordering::Relaxed);
        }
        // SAFETY: as the caller's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if layout.size() > SMALL_BYTES_MAX {
            USED.fetch_sub(layout.size(), Ordering::Relaxed);
        }
        // SAFETY: as the caller's.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > SMALL_BYTES_MAX {
            USED.fetch_add(size, Ordering::Relaxed);
        }
        if layout.size() > SMALL_BYTES_MAX {
            USED.fetch_sub(layout.size(), Ordering::Relaxed);
        }
        // SAFETY: as the caller's.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// Bytes that are in use, without small allocations.
pub(super) fn used() -> usize {
    USED.load(Ordering::Relaxed)
}
