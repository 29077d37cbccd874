//! Vectors in clusters, so that neighbours exist.

use std::sync::Arc;

use super::{Call, Made, Node, Type, ensure};
use crate::expression::node::Facts;
use crate::random::{Draws, hash_pair, normal_pair};
use crate::value::text::push_unit;

/// Most dimensions: those of pgvector's `vector`.
const DIMENSIONS_MAX: i64 = 16_000;
/// Most coordinates of all centres, which are kept in memory.
const COORDINATES_MAX: i64 = 4_000_000;
/// Most characters of a coordinate: `-0.12345678`. A 32-bit float has no more digits near 1, and what is smaller matters less.
const COORDINATE_LENGTH: u64 = 11;
/// Units of a coordinate's last digit.
const UNIT: u64 = 100_000_000;

/// A vector of length 1 around the centre of one of the clusters.
///
/// Coordinate i of the centre of cluster j is a normal of the draws that begin at `hash(j, i/2)`: the sine half if i is
/// even, the cosine half if it is odd. To each coordinate a normal times `spread` is added. All calls with the same
/// numbers have the same centres, so a drawn query has neighbours among the rows.
pub(super) fn vector(call: &mut Call<'_, '_>) -> Made {
    let dimensions = call.constant_int(0)?;
    let clusters = call.constant_int(1)?;
    let spread = call.constant_float(2)?;
    let dimensions_message = || format!("from 1 to {DIMENSIONS_MAX} dimensions, not {dimensions}");
    ensure((1..=DIMENSIONS_MAX).contains(&dimensions), || call.problem_at(0, dimensions_message()))?;
    let place = [dimensions, clusters];
    let n_kept: usize = call.compiler.centres.values().map(|centres| centres.len()).sum();
    let n_coordinates = clusters.saturating_mul(dimensions);
    let is_known = call.compiler.centres.contains_key(&place);
    let is_few = clusters >= 1 && n_coordinates <= COORDINATES_MAX;
    let is_room = is_known || n_kept as i64 + n_coordinates <= COORDINATES_MAX;
    ensure(is_few && is_room, || {
        let message = "clusters: at least 1, and centres of all vectors of at most";
        call.problem_at(1, format!("{clusters} {message} {COORDINATES_MAX} coordinates"))
    })?;
    ensure(spread >= 0.0, || call.problem_at(2, format!("a spread is not below 0, as {spread} is")))?;
    let n = dimensions as usize;
    let known = call.compiler.centres.entry(place);
    let centres = Arc::clone(known.or_insert_with(|| Arc::new(centres(n, clusters as u64))));
    let longest = dimensions as u64 * (COORDINATE_LENGTH + 1) + 2;
    let facts = Facts { steps: 1 + 4 * dimensions as u64, ..Facts::varying() };
    let facts = Facts { characters: longest, bytes: longest, ..facts };
    Ok(Node::text(Type::Vector, facts, move |_, f, out| {
        let cluster = f.draws.below(clusters as u64) as usize;
        let mut numbers = std::mem::take(&mut f.numbers);
        numbers.clear();
        let centre = &centres[cluster * n..(cluster + 1) * n];
        for pair in centre.chunks(2) {
            let (sine, cosine) = normal_pair(&mut f.draws);
            let around = pair.iter().zip([sine, cosine]);
            numbers.extend(around.map(|(centre, normal)| f64::from(*centre) + spread * normal));
        }
        write_vector(&numbers, out);
        f.numbers = numbers;
        true
    }))
}

fn centres(n: usize, clusters: u64) -> Vec<f32> {
    let mut centres = Vec::with_capacity(n * clusters as usize);
    for cluster in 0..clusters {
        for pair in 0..n.div_ceil(2) {
            let mut draws = Draws { state: hash_pair(cluster, pair as u64) };
            let (sine, cosine) = normal_pair(&mut draws);
            centres.push(sine as f32);
            if 2 * pair + 1 < n {
                centres.push(cosine as f32);
            }
        }
    }
    centres
}

/// Appends the numbers, scaled to a vector of length 1.
fn write_vector(numbers: &[f64], out: &mut Vec<u8>) {
    let length = numbers.iter().map(|number| number * number).sum::<f64>().sqrt();
    let scale = if length > 0.0 { 1.0 / length } else { 0.0 };
    out.push(b'[');
    for (at, number) in numbers.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        let scaled = number * scale * UNIT as f64;
        let units = (scaled + 0.5_f64.copysign(scaled)) as i64;
        if units < 0 {
            out.push(b'-');
        }
        push_unit(out, units.unsigned_abs());
    }
    out.push(b']');
}
