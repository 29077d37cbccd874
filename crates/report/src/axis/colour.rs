//! Colours of series: hues for what has no order, steps of one scale for what has.

/// Hues that readers can distinguish in one panel.
pub(crate) const HUES: usize = 8;
/// Steps of the scale for ordered levels.
pub(crate) const STEPS: usize = 12;
/// Fewer ordered levels differ more by hue.
const ORDERED_MIN: usize = 3;

/// A colour of the style sheet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    /// One of the hues.
    Hue(usize),
    /// A step of the ordered scale.
    Step(usize),
}

impl Colour {
    /// The colour of a single series.
    pub(crate) const FIRST: Colour = Colour::Hue(0);

    /// Its class, and the name of its variable.
    pub(crate) fn class(self) -> String {
        match self {
            Colour::Hue(n) => format!("c{n}"),
            Colour::Step(n) => format!("o{n}"),
        }
    }
}

/// Colours for so many levels; more unordered ones than there are hues have one colour, and panels distinguish them.
pub(crate) fn of_levels(n: usize, is_ordered: bool) -> Vec<Colour> {
    let of = |i: usize| match (is_ordered && n >= ORDERED_MIN, n <= HUES) {
        (true, _) => Colour::Step((i * (STEPS - 1) + (n - 1) / 2) / (n - 1)),
        (false, true) => Colour::Hue(i),
        (false, false) => Colour::FIRST,
    };
    (0..n).map(of).collect()
}

#[cfg(test)]
mod tests;
