//! Random order for `load_balance_hosts=random`.

use rustls::crypto::ring;

/// Puts `items` into a random order, each order equally likely (Knuth, The Art of Computer Programming, volume 2,
/// algorithm 3.4.2P). `below` draws a number below its argument.
pub(super) fn shuffle<T>(items: &mut [T], below: impl Fn(usize) -> usize) {
    for i in (1..items.len()).rev() {
        items.swap(i, below(i + 1));
    }
}

/// A random number from 0 to `n` - 1, from the system: programs started at the same time should not all choose the same
/// host. `n` is not 0.
pub(super) fn random_below(n: usize) -> usize {
    let mut bytes = [0; 8];
    // A system without random numbers still has hosts to try, in some order.
    if ring::default_provider().secure_random.fill(&mut bytes).is_err() {
        return 0;
    }
    // The remainder prefers small numbers by `n` in 2^64.
    (u64::from_ne_bytes(bytes) % n as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_draw_gives_another_order() {
        let mut orders = BTreeSet::new();
        for of_three in 0..3 {
            for of_two in 0..2 {
                let mut items = ['a', 'b', 'c'];
                shuffle(&mut items, |n| if n == 3 { of_three } else { of_two });
                orders.insert(items);
            }
        }
        assert_eq!(orders.len(), 6);
        shuffle(&mut [(); 0], |_| unreachable!("there is nothing to draw"));
    }

    #[test]
    fn every_number_below_the_bound_is_drawn() {
        let drawn: BTreeSet<usize> = (0..1000).map(|_| random_below(3)).collect();
        assert_eq!(drawn, BTreeSet::from([0, 1, 2]));
        assert_eq!(random_below(1), 0);
    }
}
