//! Glued names: a variable directly after an identifier, outside of quotes and comments, is a part of the name, as in `sbtest:t`.
//!
//! A name cannot be a parameter of a statement, so the statement is compiled once for each value. Stock pgbench does the same
//! in the simple protocol by writing the value into the text, and fails in the others. Only the scripts of workload
//! directories have glued names.

use std::ops::Range;

use crate::script::sqlscan::{self, SqlToken};
use crate::script::statement::Statement;
use crate::script::variables::{VariableId, VariableTable};

/// Most values of the glued variables of a statement, all combinations counted.
pub const VALUES_MAX: usize = 1024;
/// Most statements that the glued names of a load may make.
pub const STATEMENTS_MAX: usize = 1 << 16;

/// What a statement with glued names becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glued {
    /// The variables, each once.
    pub names: Vec<GluedName>,
    /// The statement for each combination of values; that of the last variable changes fastest.
    pub variants: Vec<Statement>,
}

/// A variable that is a part of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GluedName {
    /// The variable.
    pub variable: VariableId,
    /// Least value.
    pub least: i64,
    /// How many values it can have, from the least on.
    pub n_values: usize,
}

/// Where a statement has glued names: each range begins with the colon.
pub(crate) fn references(sql: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut follows_name = false;
    for (token, range) in sqlscan::tokens(sql) {
        let is_variable = token == SqlToken::Variable;
        if is_variable && follows_name {
            found.push(range);
        } else {
            follows_name = token == SqlToken::Word;
        }
    }
    found
}

/// What is known of a variable: its least and its greatest value, or why it cannot be glued.
pub(crate) type GlueRange<'a> = dyn Fn(&str) -> Result<(i64, i64), String> + 'a;

/// Compiles a statement for each combination of values of its glued variables; `None` if it has none.
///
/// # Errors
/// Why a variable cannot be glued.
pub(crate) fn compile(
    sql: &str,
    line: usize,
    variables: &mut VariableTable,
    range_of: &GlueRange<'_>,
) -> Result<Option<Glued>, String> {
    let places = references(sql);
    if places.is_empty() {
        return Ok(None);
    }
    let mut names: Vec<GluedName> = Vec::new();
    let mut n_variants = 1usize;
    for place in &places {
        let name = &sql[place.start + 1..place.end];
        let variable = variables.intern(name);
        if names.iter().any(|known| known.variable == variable) {
            continue;
        }
        let (least, greatest) = range_of(name)?;
        let n_values = greatest.abs_diff(least).saturating_add(1);
        let n_values = usize::try_from(n_values).unwrap_or(usize::MAX);
        n_variants = n_variants.saturating_mul(n_values);
        if n_variants > VALUES_MAX {
            return Err(format!(
                "`:{name}` is a part of a name, and the statement would be compiled {n_variants} times; at most \
                 {VALUES_MAX} are possible"
            ));
        }
        if least < 0 {
            return Err(format!("`:{name}` is a part of a name, and may be {least}"));
        }
        names.push(GluedName { variable, least, n_values });
    }
    let place_of = |place: &Range<usize>| {
        let id = variables.find(&sql[place.start + 1..place.end]);
        names.iter().position(|name| Some(name.variable) == id).expect("each name was listed above")
    };
    let which: Vec<usize> = places.iter().map(place_of).collect();
    let mut variants = Vec::with_capacity(n_variants);
    for number in 0..n_variants {
        let values = values(&names, number);
        let mut text = String::with_capacity(sql.len());
        let mut end = 0;
        for (place, name) in places.iter().zip(&which) {
            text.push_str(&sql[end..place.start]);
            text.push_str(&values[*name].to_string());
            end = place.end;
        }
        text.push_str(&sql[end..]);
        variants.push(Statement::new(&text, line, variables));
    }
    Ok(Some(Glued { names, variants }))
}

/// The values of the names in the variant with this number.
fn values(names: &[GluedName], mut number: usize) -> Vec<i64> {
    let mut values: Vec<i64> = names
        .iter()
        .rev()
        .map(|name| {
            let value = name.least + (number % name.n_values) as i64;
            number /= name.n_values;
            value
        })
        .collect();
    values.reverse();
    values
}

impl Glued {
    /// The variant for these values of the variables.
    ///
    /// # Errors
    /// A variable whose value is outside of its range.
    #[inline]
    pub(crate) fn variant(&self, value_of: impl Fn(VariableId) -> Option<i64>) -> Result<usize, VariableId> {
        self.names.iter().try_fold(0, |number, name| {
            let offset = value_of(name.variable).and_then(|value| value.checked_sub(name.least));
            match offset.and_then(|offset| usize::try_from(offset).ok()) {
                Some(offset) if offset < name.n_values => Ok(number * name.n_values + offset),
                _ => Err(name.variable),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_glued_to_names_outside_of_quotes_and_comments() {
        for (sql, expected) in [
            ("select 1 from sbtest:t", &[":t"][..]),
            ("select a:x, b:y.c from s:z.t:u", &[":x", ":y", ":z", ":u"]),
            ("select a:x:y", &[":x", ":y"]),
            ("select :x, a = :y, (:z)", &[]),
            ("select a::int, x::t, 1:y", &[]),
            ("select 'a:x', \"a:x\", $$a:x$$, e'a:x'", &[]),
            ("select 1 -- a:x\n, 2 /* a:x */", &[]),
            ("select t:x -- a:x", &[":x"]),
            ("select :x:y", &[]),
        ] {
            let found: Vec<&str> = references(sql).into_iter().map(|range| &sql[range]).collect();
            assert_eq!(found, expected, "{sql}");
        }
    }

    #[test]
    fn each_combination_of_values_is_a_statement() {
        let mut variables = VariableTable::default();
        let range = |name: &str| Ok(if name == "t" { (1, 3) } else { (0, 1) });
        let sql = "select f:f, :k from t:t where f:f = :v;";
        let glued = compile(sql, 7, &mut variables, &range).unwrap().unwrap();
        let texts: Vec<&str> = glued.variants.iter().map(|one| one.text.as_str()).collect();
        assert_eq!(texts.len(), 6);
        assert_eq!(texts[0], "select f0, $1 from t1 where f0 = $2;");
        assert_eq!(texts[2], "select f0, $1 from t3 where f0 = $2;");
        assert_eq!(texts[3], "select f1, $1 from t1 where f1 = $2;");
        let id = |name: &str| variables.find(name).unwrap();
        let at = |f: i64, t: i64| {
            glued.variant(|variable| if variable == id("f") { Some(f) } else { Some(t) }).ok()
        };
        assert_eq!([at(0, 1), at(0, 3), at(1, 1), at(1, 3)], [Some(0), Some(2), Some(3), Some(5)]);
        assert_eq!([at(0, 0), at(0, 4), at(2, 1), at(-1, 1), at(i64::MIN, i64::MAX)], [None; 5]);
        let params: Vec<&str> =
            glued.variants[0].parameters.iter().map(|variable| variables.name(*variable)).collect();
        assert_eq!(params, ["k", "v"]);
    }

    #[test]
    fn too_many_values_are_refused() {
        let mut variables = VariableTable::default();
        let mut check = |sql: &str, range: (i64, i64), expected: &str| {
            let error = compile(sql, 1, &mut variables, &|_| Ok(range)).err().unwrap_or_default();
            assert!(error.contains(expected) && error.is_empty() == expected.is_empty(), "{error}");
        };
        check("select a:x", (1, 1024), "");
        check("select a:x", (1, 1025), "compiled 1025 times");
        check("select a:x, b:y", (1, 32), "");
        check("select a:x, b:y", (0, 32), "compiled 1089 times");
        check("select a:x", (i64::MIN, i64::MAX), "at most 1024");
        check("select a:x", (-1, 1), "may be -1");
    }
}
