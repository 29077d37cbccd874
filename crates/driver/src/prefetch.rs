//! Prefetch hints to the processor (decision 038). They change no result, and do nothing on processors that lack them.

/// A cache line's length on the machines that we know; a wrong guess costs a hint, or saves one.
const LINE_BYTES: usize = 64;
/// Most lines of one value: a processor fetches one or two dozen at a time.
const LINES_MAX: usize = 12;

/// Prefetches a value, or the beginning of a long one.
#[inline(always)]
pub(crate) fn lines<T: ?Sized>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<u8>();
    let n_bytes = size_of_val(value);
    for n in 0..n_bytes.div_ceil(LINE_BYTES).min(LINES_MAX) {
        line(start.wrapping_add(n * LINE_BYTES));
    }
    // A value that does not begin on a line reaches into one more.
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
