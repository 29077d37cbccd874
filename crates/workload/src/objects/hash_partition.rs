//! Which partition a row belongs to when PostgreSQL partitions a table by the hash of one integer column.

/// The seed of every hash partition (HASH_PARTITION_SEED, src/include/catalog/partition.h).
const SEED: u64 = 0x7A5B_2236_7996_DCFD;
/// What `hash_combine64` adds to the hash of the first column (src/include/common/hashfn.h).
const COMBINE: u64 = 0x49a0_f4dd_15e5_a8e3;

/// The keys of one partition: those whose hash leaves `remainder` when divided by `modulus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remainder {
    modulus: u64,
    remainder: u64,
    is_bigint: bool,
}

impl Remainder {
    /// A remainder; `is_bigint` says whether the column's type is `bigint` or `int`.
    pub(crate) fn new(modulus: u32, remainder: u32, is_bigint: bool) -> Remainder {
        Remainder { modulus: u64::from(modulus.max(1)), remainder: u64::from(remainder), is_bigint }
    }

    /// Whether a row with this key, which is not negative, is in the partition.
    #[inline]
    pub(crate) fn has(self, key: u64) -> bool {
        // `hashint8extended` folds the halves, so that small numbers of both types have one hash.
        let folded = if self.is_bigint { key as u32 ^ (key >> 32) as u32 } else { key as u32 };
        // With one column there is nothing to combine with: `hash_combine64(0, hash)`.
        hash_uint32_extended(folded).wrapping_add(COMBINE) % self.modulus == self.remainder
    }
}

/// `hash_bytes_uint32_extended` with [`SEED`] (src/common/hashfn.c, after Bob Jenkins' lookup3).
#[inline]
fn hash_uint32_extended(key: u32) -> u64 {
    const INITIAL: u32 = 0x9e37_79b9_u32.wrapping_add(4).wrapping_add(3_923_095);
    let [a, b, c] = const {
        mixed(INITIAL.wrapping_add((SEED >> 32) as u32), INITIAL.wrapping_add(SEED as u32), INITIAL)
    };
    let (mut a, mut b, mut c) = (a.wrapping_add(key), b, c);
    for (word, bits) in [14, 11, 25, 16, 4, 14, 24].into_iter().enumerate() {
        // final(): c takes b, a takes c, b takes a, and again.
        let (to, from) = match word % 3 {
            0 => (&mut c, b),
            1 => (&mut a, c),
            _ => (&mut b, a),
        };
        *to = (*to ^ from).wrapping_sub(from.rotate_left(bits));
    }
    (u64::from(b) << 32) | u64::from(c)
}

/// mix(): the same for every key, so it is done once.
const fn mixed(mut a: u32, mut b: u32, mut c: u32) -> [u32; 3] {
    let mut round = 0;
    let bits = [4, 6, 8, 16, 19, 4];
    while round < 6 {
        // a -= c, a ^= rot(c), c += b; then the letters move on by one.
        a = a.wrapping_sub(c) ^ c.rotate_left(bits[round]);
        c = c.wrapping_add(b);
        (a, b, c) = (b, c, a);
        round += 1;
    }
    [a, b, c]
}
