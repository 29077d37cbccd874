//! Hints to the processor: what is wanted soon (decision 038). They change no result, and where there are none nothing
//! happens.

/// A cache line's length on the machines that we know; a wrong guess costs a hint, or spares one.
const LINE_BYTES: usize = 64;
/// No more lines of one thing: a processor waits for a dozen or two at a time.
const LINES_MAX: usize = 12;

/// Has a value, or the beginning of a long one, brought into the processor's caches.
#[inline(always)]
pub(crate) fn lines<T: ?Sized>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<u8>();
    let n_bytes = size_of_val(value);
    for n in 0..n_bytes.div_ceil(LINE_BYTES).min(LINES_MAX) {
        line(start.wrapping_add(n * LINE_BYTES));
    }
    // What does not begin with a line ends in one more.
    line(start.wrapping_add(n_bytes.clamp(1, LINES_MAX * LINE_BYTES) - 1));
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn line(at: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint, which reads nothing; any address will do.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn line(at: *const u8) {
    // SAFETY: a hint, which reads nothing; any address will do.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) at, options(nostack, preserves_flags, readonly))
    };
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
fn line(_at: *const u8) {}
