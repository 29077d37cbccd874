//! Queries of addresses, and forms: names and values.

use super::Failure;

/// Longest query.
const BYTES_MAX: usize = 8 << 10;
/// Most pairs.
const PAIRS_MAX: usize = 100;

/// The pairs of `a=1&b=%20`; what is not text becomes replacement characters.
pub(super) fn pairs(query: Option<&str>) -> Result<Vec<(String, String)>, Failure> {
    let query = query.unwrap_or_default();
    if query.len() > BYTES_MAX {
        return Err(Failure::bad("The address is too long."));
    }
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).take(PAIRS_MAX);
    Ok(pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(k, v)| (decoded(k), decoded(v)))
        .collect())
}

fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut found = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let hex = |n: usize| bytes.get(i + n).and_then(|byte| char::from(*byte).to_digit(16));
        match (bytes[i], hex(1), hex(2)) {
            (b'%', Some(high), Some(low)) => {
                found.push((16 * high + low) as u8);
                i += 2;
            }
            (b'+', ..) => found.push(b' '),
            (other, ..) => found.push(other),
        }
        i += 1;
    }
    String::from_utf8_lossy(&found).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_decoded() {
        let check = |query: &str, expected: &[(&str, &str)]| {
            let found = pairs(Some(query)).unwrap_or_default();
            let expected: Vec<(String, String)> =
                expected.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
            assert_eq!(found, expected, "{query}");
        };
        check("", &[]);
        check("q=a+b&r=x%20%C3%BC&r=&s", &[("q", "a b"), ("r", "x ü"), ("r", ""), ("s", "")]);
        check("q=%&r=%zz%4", &[("q", "%"), ("r", "%zz%4")]);
        check("q=%ff", &[("q", "\u{fffd}")]);
        assert!(pairs(Some(&"x".repeat(BYTES_MAX + 1))).is_err());
        assert_eq!(pairs(Some(&"a=1&".repeat(500))).unwrap_or_default().len(), PAIRS_MAX);
    }
}
