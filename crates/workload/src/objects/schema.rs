//! How statements name the schema of a workload's tables and routines.
//!
//! In the SQL of this crate `@.` stands in front of each table and routine of a workload. [`Schema::fill`] puts the schema
//! there, or nothing: pgbench leaves it to the search path. The caller decides which schema it is.

use std::collections::BTreeMap;

/// The placeholder for the schema in SQL.
const PLACE: &str = "@.";
/// The schema among the definitions of a load.
const KEY: &str = "schema";

/// The schema that a workload's tables and routines are in.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Schema {
    /// Empty where the search path decides.
    name: String,
    /// The name in SQL and a dot, or nothing.
    prefix: String,
}

impl Schema {
    /// No schema is named: the search path decides, as with pgbench.
    pub fn searched() -> Schema {
        Schema::default()
    }

    /// The schema of that name.
    pub fn named(name: &str) -> Schema {
        Schema { name: name.to_owned(), prefix: format!("{}.", quoted(name)) }
    }

    /// The schema in the definitions of a load; without one the search path decides.
    pub fn from_defines(defines: &BTreeMap<String, String>) -> Schema {
        defines.get(KEY).map_or_else(Schema::searched, |name| Schema::named(name))
    }

    /// Adds the schema to the definitions of a load.
    pub fn define(&self, defines: &mut BTreeMap<String, String>) {
        if !self.name.is_empty() {
            defines.insert(KEY.to_owned(), self.name.clone());
        }
    }

    /// The name as stored in the catalogs; empty where the search path decides.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A table or routine of a workload in SQL.
    pub fn sql_name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// A table or routine of a workload for people, and for those who quote it themselves: `schema.name`.
    pub fn plain_name(&self, name: &str) -> String {
        if self.name.is_empty() { name.to_owned() } else { format!("{}.{name}", self.name) }
    }

    /// SQL with the schema in place of each `@.`.
    pub fn fill(&self, sql: &str) -> String {
        sql.replace(PLACE, &self.prefix)
    }
}

/// The name as an identifier. Characters with a special meaning where the statement is used are written as escapes:
/// `:name` is a variable in a script whether it is quoted or not, `$body$` ends a routine, a backslash at the start of a
/// line is a command.
fn quoted(name: &str) -> String {
    let is_special = |c: char| matches!(c, ':' | '$' | '\\' | '\'' | ';') || c.is_control();
    if !name.contains(is_special) {
        return format!("\"{}\"", name.replace('"', "\"\""));
    }
    let written = name.chars().map(|c| match c {
        '"' => "\"\"".to_owned(),
        c if is_special(c) => format!("\\{:04X}", u32::from(c)),
        c => c.to_string(),
    });
    format!("U&\"{}\"", written.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_whatever_they_hold() {
        let check = |name: &str, expected: &str| {
            assert_eq!(
                Schema::named(name).fill("select 1 from @.t, @.u"),
                format!("select 1 from {expected}.t, {expected}.u")
            );
        };
        check("app", "\"app\"");
        check("a\"b C", "\"a\"\"b C\"");
        check("a.b@.c", "\"a.b@.c\"");
        check("a:scale", "U&\"a\\003Ascale\"");
        check("$body$\\;'\n\"", "U&\"\\0024body\\0024\\005C\\003B\\0027\\000A\"\"\"");
        assert_eq!(Schema::searched().fill("select 1 from @.t"), "select 1 from t");
        assert_eq!(Schema::named("a.b").plain_name("t"), "a.b.t");
    }

    #[test]
    fn a_load_carries_the_schema() {
        let mut defines = BTreeMap::new();
        Schema::searched().define(&mut defines);
        assert!(defines.is_empty());
        Schema::named("a\"b C").define(&mut defines);
        assert_eq!(Schema::from_defines(&defines), Schema::named("a\"b C"));
        assert_eq!(Schema::from_defines(&BTreeMap::new()), Schema::searched());
    }
}
