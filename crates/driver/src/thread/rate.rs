//! The rate of a search: the parent sets it, and all threads see it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The rate that was ordered last.
#[derive(Debug, Default)]
pub(crate) struct OrderedRate {
    n_orders: AtomicU32,
    /// Transactions per second, as the bits of an `f64`.
    bits: AtomicU64,
}

impl OrderedRate {
    /// Orders another rate, or the same again: waiting slots are dropped in both cases.
    pub(crate) fn order(&self, rate_per_s: f64) {
        self.bits.store(rate_per_s.to_bits(), Ordering::Relaxed);
        // Comes last: whoever sees the number sees the rate.
        self.n_orders.fetch_add(1, Ordering::Release);
    }

    /// The number of the last order and its rate, if there was one after order `seen`.
    #[inline]
    pub(crate) fn after(&self, seen: u32) -> Option<(u32, f64)> {
        let n = self.n_orders.load(Ordering::Acquire);
        (n != seen).then(|| (n, f64::from_bits(self.bits.load(Ordering::Relaxed))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_rate_again_is_another_order() {
        let rate = OrderedRate::default();
        assert_eq!(rate.after(0), None);
        rate.order(500.0);
        assert_eq!(rate.after(0), Some((1, 500.0)));
        assert_eq!(rate.after(1), None);
        rate.order(500.0);
        assert_eq!(rate.after(1), Some((2, 500.0)));
    }
}
