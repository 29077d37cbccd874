//! Names with braces, which stand for several: `sbtest{1..tables}`, `field{0..9}`.

use std::ops::Range;

/// Most names that one with braces stands for.
pub(crate) const NAMES_MAX: u64 = 1000;

/// The parts of a name with braces. Bounds are expressions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Braces<'a> {
    pub(crate) prefix: &'a str,
    pub(crate) suffix: &'a str,
    /// Where the bounds stand in the name.
    pub(crate) least: Range<usize>,
    pub(crate) most: Range<usize>,
}

impl<'a> Braces<'a> {
    /// The parts of a name; `None` if it has no braces.
    ///
    /// # Errors
    /// A sentence about braces that are wrong.
    pub(crate) fn from_name(name: &'a str) -> Result<Option<Braces<'a>>, String> {
        let wrong = || Err("braces in a name are `{LEAST..MOST}`, once, as in `t{1..tables}`".to_string());
        let Some(open) = name.find('{') else {
            return if name.contains('}') { wrong() } else { Ok(None) };
        };
        let Some(close) = name[open..].find('}').map(|at| open + at) else { return wrong() };
        let Some(dots) = name[open..close].find("..").map(|at| open + at) else { return wrong() };
        let (least, most) = (open + 1..dots, dots + 2..close);
        let suffix = &name[close + 1..];
        let is_empty = |range: &Range<usize>| name[range.clone()].trim().is_empty();
        if suffix.contains(['{', '}'])
            || name[open + 1..close].contains('{')
            || is_empty(&least)
            || is_empty(&most)
        {
            return wrong();
        }
        Ok(Some(Braces { prefix: &name[..open], suffix, least, most }))
    }

    /// The name with this number.
    pub(crate) fn name(&self, number: i64) -> String {
        format!("{}{number}{}", self.prefix, self.suffix)
    }

    /// A name as an identifier that is like those it stands for.
    pub(crate) fn example(&self) -> String {
        self.name(0)
    }
}

/// The numbers from `least` to `most`; none for `1..0`, which an option leaves of `1..tables`.
///
/// # Errors
/// When they are in no order, too many, or below 0.
pub(crate) fn numbers(least: i64, most: i64) -> Result<Vec<i64>, String> {
    if (least, most) == (1, 0) {
        return Ok(Vec::new());
    }
    if least < 0 {
        return Err(format!("{least} is below 0"));
    }
    if most < least {
        return Err(format!("{least}..{most} is no range"));
    }
    if most.abs_diff(least) >= NAMES_MAX {
        return Err(format!("{least}..{most} stands for more than {NAMES_MAX} names"));
    }
    Ok((least..=most).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_braces_has_parts() {
        let braces = Braces::from_name("sbtest{1..tables}_x").unwrap().unwrap();
        assert_eq!((braces.prefix, braces.suffix), ("sbtest", "_x"));
        assert_eq!((braces.least.clone(), braces.most.clone()), (7..8, 10..16));
        assert_eq!((braces.name(12), braces.example()), ("sbtest12_x".into(), "sbtest0_x".into()));
        assert_eq!(Braces::from_name("plain"), Ok(None));
        for bad in
            ["a{", "a}", "a{1}", "a{1..}", "a{..2}", "a{1..2}{3..4}", "a{{1..2}", "}a{1..2", "a{1..2}}"]
        {
            assert!(Braces::from_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_are_at_most_a_thousand() {
        assert_eq!(numbers(0, 2), Ok(vec![0, 1, 2]));
        assert_eq!(numbers(1, 0), Ok(Vec::new()));
        assert_eq!(numbers(1, 1000).unwrap().len(), 1000);
        for (least, most) in [(1, 1001), (2, 1), (-1, 3), (0, i64::MAX), (i64::MIN, i64::MAX)] {
            assert!(numbers(least, most).is_err(), "{least}..{most}");
        }
    }
}
