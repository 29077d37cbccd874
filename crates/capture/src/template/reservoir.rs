//! A uniform sample of bounded size (Vitter 1985, algorithm R). It can be made smaller, and stays uniform.

/// A deterministic generator: SplitMix64 (Steele, Lea, Flood 2014). The same log gives the same sample.
#[derive(Clone, Debug)]
pub struct Mixer(u64);

impl Mixer {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Mixer {
        Mixer(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: u64) -> u64 {
        // Lemire 2019; the bias is at most n / 2^64.
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }
}

/// A bijection of 64 bits without visible order.
pub fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A sample.
#[derive(Clone, Debug)]
pub struct Reservoir<T> {
    n_seen: u64,
    capacity: usize,
    items: Vec<T>,
}

impl<T> Reservoir<T> {
    /// An empty sample of at most so many.
    pub fn new(capacity: usize) -> Reservoir<T> {
        Reservoir { n_seen: 0, capacity, items: Vec::new() }
    }

    /// Offers an item; `make` is called only if it is taken. Returns the item that it replaces.
    pub fn offer(&mut self, mixer: &mut Mixer, make: impl FnOnce() -> T) -> Option<T> {
        self.n_seen += 1;
        if self.items.len() < self.capacity {
            self.items.push(make());
            return None;
        }
        let at = usize::try_from(mixer.below(self.n_seen)).unwrap_or(usize::MAX);
        let place = self.items.get_mut(at)?;
        Some(std::mem::replace(place, make()))
    }

    /// Keeps at most so many items, and no more later.
    pub fn shrink(&mut self, capacity: usize, mixer: &mut Mixer) -> Vec<T> {
        self.capacity = self.capacity.min(capacity);
        let mut removed = Vec::new();
        while self.items.len() > self.capacity {
            let at = usize::try_from(mixer.below(self.items.len() as u64)).unwrap_or(0);
            removed.push(self.items.swap_remove(at));
        }
        removed
    }

    /// The sample.
    pub fn items(&self) -> &[T] {
        &self.items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_as_likely_also_after_it_became_smaller() {
        let mut counts = [0u32; 100];
        let mut mixer = Mixer::new(1);
        for _ in 0..2000 {
            let mut reservoir = Reservoir::new(20);
            for n in 0..100usize {
                if n == 60 {
                    assert_eq!(reservoir.shrink(10, &mut mixer).len(), 10);
                }
                reservoir.offer(&mut mixer, || n);
            }
            reservoir.items().iter().for_each(|n| counts[*n] += 1);
        }
        // 200 each; 5 standard deviations are 67.
        assert!(counts.iter().all(|n| (133..268).contains(n)), "{counts:?}");
    }
}
