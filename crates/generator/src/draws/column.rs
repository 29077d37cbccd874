//! A column of captured rows, in the form in which expressions take its values.

use crate::value::kind::Type;

/// A column.
pub(crate) struct DrawnColumn {
    pub(crate) name: String,
    pub(crate) kind: Type,
    pub(crate) values: DrawnValues,
    /// A bit for each row that is null; empty if none is.
    pub(crate) nulls: Vec<u64>,
}

/// The values of a column; of a null, anything.
pub(crate) enum DrawnValues {
    /// 64 bits.
    Words(Vec<i64>),
    /// Doubles.
    Floats(Vec<f64>),
    /// Texts one after the other, and where each ends.
    Texts { ends: Vec<u32>, bytes: Vec<u8> },
}

impl DrawnColumn {
    pub(crate) fn is_nullable(&self) -> bool {
        !self.nulls.is_empty()
    }

    #[inline]
    pub(crate) fn is_null(&self, row: u32) -> bool {
        self.nulls.get(row as usize / 64).is_some_and(|bits| bits >> (row % 64) & 1 == 1)
    }

    /// The word of a row; none if it is null, or no word.
    #[inline]
    pub(crate) fn word(&self, row: u32) -> Option<i64> {
        match &self.values {
            DrawnValues::Words(words) if !self.is_null(row) => words.get(row as usize).copied(),
            _ => None,
        }
    }

    /// The double of a row.
    #[inline]
    pub(crate) fn float(&self, row: u32) -> Option<f64> {
        match &self.values {
            DrawnValues::Floats(floats) if !self.is_null(row) => floats.get(row as usize).copied(),
            _ => None,
        }
    }

    /// The text of a row.
    #[inline]
    pub(crate) fn text(&self, row: u32) -> Option<&[u8]> {
        match &self.values {
            DrawnValues::Texts { ends, bytes } if !self.is_null(row) => {
                let at = row as usize;
                let start = at.checked_sub(1).map_or(Some(0), |before| ends.get(before).copied())?;
                bytes.get(start as usize..*ends.get(at)? as usize)
            }
            _ => None,
        }
    }

    /// The words of all rows that have one.
    pub(crate) fn words(&self) -> impl Iterator<Item = (u32, i64)> + '_ {
        let words = if let DrawnValues::Words(words) = &self.values { words.as_slice() } else { &[] };
        (0u32..).zip(words.iter().copied()).filter(|(row, _)| !self.is_null(*row))
    }

    /// The texts of all rows that have one.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &[u8]> {
        let n = if let DrawnValues::Texts { ends, .. } = &self.values { ends.len() } else { 0 };
        (0..n as u32).filter_map(|row| self.text(row))
    }
}
