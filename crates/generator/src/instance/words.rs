//! Names that texts mention, without knowing what they mean: for what is unused, and what data depends on.

use std::collections::BTreeSet;

fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The names in an expression, outside of its texts.
pub(super) fn names(expression: &str) -> impl Iterator<Item = &str> {
    let outside = expression.split('\'').step_by(2);
    outside.flat_map(|text| text.split(|c: char| !is_part(c)).filter(|word| !word.is_empty()))
}

/// The texts in an expression, without their quotes.
pub(super) fn texts(expression: &str) -> impl Iterator<Item = &str> {
    expression.split('\'').skip(1).step_by(2)
}

/// The names behind single colons in a script or a query, wherever they stand.
pub(super) fn variables(script: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for (at, _) in script.match_indices(':') {
        let rest = &script[at + 1..];
        let name = &rest[..rest.find(|c: char| !is_part(c)).unwrap_or(rest.len())];
        if !name.is_empty() && !script[..at].ends_with(':') {
            found.insert(name);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_are_found() {
        let expression = "concat('it''s x', t.a[uniform(1, n2)], 'y')";
        assert_eq!(names(expression).collect::<Vec<_>>(), ["concat", "t", "a", "uniform", "1", "n2"]);
        assert!(texts(expression).any(|text| text == "y"));
        let script = "select :a::int, x:b from t where c = ':d' and e = :a;";
        assert_eq!(variables(script).into_iter().collect::<Vec<_>>(), ["a", "b", "d"]);
    }
}
