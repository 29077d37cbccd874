//! Results of a query as text: for administration and monitoring, where a few rows are read once.

use std::str::FromStr;

/// The result of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The rows; NULL is `None`.
    pub rows: Vec<Vec<Option<String>>>,
    /// The command tag, such as `SELECT 5`.
    pub tag: String,
}

impl Rows {
    /// The first column of the first row; `None` if it is NULL or there is no row.
    pub fn scalar(&self) -> Option<&str> {
        self.rows.first()?.first()?.as_deref()
    }

    /// The value of a column; `None` if it is NULL or there is no such row or column.
    pub fn get(&self, row: usize, column: &str) -> Option<&str> {
        let at = self.columns.iter().position(|name| name == column)?;
        self.rows.get(row)?.get(at)?.as_deref()
    }

    /// [`Rows::get`] parsed as a `T`; `None` also if it cannot be parsed.
    pub fn parse<T: FromStr>(&self, row: usize, column: &str) -> Option<T> {
        self.get(row, column)?.parse().ok()
    }

    /// The first column without NULLs.
    pub fn into_first_column(self) -> Vec<String> {
        self.rows.into_iter().filter_map(|row| row.into_iter().next()?).collect()
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_name_and_null_is_none() {
        let rows = Rows {
            columns: vec!["a".to_owned(), "b".to_owned()],
            rows: vec![vec![Some("7".to_owned()), None]],
            tag: "SELECT 1".to_owned(),
        };
        assert_eq!(rows.scalar(), Some("7"));
        assert_eq!(rows.parse::<u32>(0, "a"), Some(7));
        assert_eq!((rows.get(0, "b"), rows.get(0, "c"), rows.get(1, "a")), (None, None, None));
        assert_eq!(Rows::default().scalar(), None);
        assert_eq!(rows.into_first_column(), ["7"]);
    }
}
