//! Refuses scripts that use a variable before anything has set it. It would never be sent, so its client would end:
//! better before the load, with its place.

use std::collections::BTreeSet;

use workload::script::assignment::{self, Columns, UnsetUse};
use workload::{Bundle, Fetch, Program, Statement, VariableId, ledger};

/// Variables that every client has anyway.
const AUTOMATIC: [&str; 5] = ["client_id", "default_seed", ledger::NUMBER, "random_seed", "scale"];
/// Most places that are reported at once.
const PLACES_MAX: usize = 10;

/// Scripts that were compiled together, and what is known of their variables.
pub(crate) struct CompiledScripts<'a> {
    bundle: &'a Bundle,
    sources: &'a [&'a str],
    /// Names that every client begins with.
    given: BTreeSet<&'a str>,
    /// The columns of each statement of each script.
    pub(crate) columns: Vec<Vec<Columns>>,
}

impl<'a> CompiledScripts<'a> {
    /// Nothing is known of the columns that `\gset` and `\aset` fetch.
    pub(crate) fn without_columns(
        bundle: &'a Bundle,
        sources: &'a [&'a str],
        defines: impl Iterator<Item = &'a str>,
    ) -> CompiledScripts<'a> {
        let unknown = |statement: &Statement| match statement.fetch {
            Fetch::Gset { .. } | Fetch::Aset { .. } => Columns::Unknown,
            Fetch::Discard | Fetch::Rows => Columns::Known(Vec::new()),
        };
        let columns = |program: &Program| program.statements.iter().map(unknown).collect();
        let columns = bundle.programs.iter().map(columns).collect();
        CompiledScripts { bundle, sources, given: defines.chain(AUTOMATIC).collect(), columns }
    }

    /// Reports where a script uses a variable that may have no value there.
    ///
    /// # Errors
    /// Each place with script, line and column, one a line.
    pub(crate) fn check(&self) -> Result<(), String> {
        let given: Vec<VariableId> =
            self.given.iter().filter_map(|name| self.bundle.variables.find(name)).collect();
        let mut places = Vec::new();
        for (n, program) in self.bundle.programs.iter().enumerate() {
            let uses = assignment::unset_uses(program, &given, &self.columns[n]);
            places.extend(uses.into_iter().map(|found| (n, found)));
        }
        if places.is_empty() {
            return Ok(());
        }

        let mut lines: Vec<String> =
            places.iter().take(PLACES_MAX).map(|(n, found)| self.message(*n, *found)).collect();
        if places.len() > PLACES_MAX {
            lines.push(format!("and {} more", places.len() - PLACES_MAX));
        }
        let names: Vec<&str> = self.given.iter().copied().collect();
        lines.push(format!(
            "  a variable that nothing has set is never sent: set it on every way to its use (\\set, \\gset), or give it a first \
             value with -D NAME=VALUE or workload.defines; every client has {}; a colon that begins no variable needs a \
             blank or the end of its string after it",
            names.join(", ")
        ));
        Err(lines.join("\n"))
    }

    fn message(&self, n: usize, found: UnsetUse) -> String {
        let program = &self.bundle.programs[n];
        let (script, name) = (&program.name, program.variables.name(found.variable));
        let (line, column) = place(program, self.sources[n], found);
        let what = self.why(n, found.variable, name);
        format!("script `{script}`: {script}:{line}:{column}: {what}")
    }

    fn why(&self, n: usize, variable: VariableId, name: &str) -> String {
        let setter = |n: usize| assignment::setter(&self.bundle.programs[n], variable, &self.columns[n]);
        let line = |n: usize, command: usize| self.bundle.programs[n].commands[command].line;
        if let Some(command) = setter(n) {
            let line = line(n, command);
            return format!(
                "the variable `{name}` is not set on every way to here: line {line} might not have run"
            );
        }
        let other = (0..self.bundle.programs.len()).find_map(|other| Some((other, setter(other)?)));
        match other {
            Some((other, command)) => format!(
                "only another script sets the variable `{name}`, which a client might not have run before this one: {}:{}",
                self.bundle.programs[other].name,
                line(other, command)
            ),
            None => format!("nothing sets the variable `{name}`"),
        }
    }
}

/// Line and column of the use, from 1: the first mention of the variable from the command's line on.
fn place(program: &Program, source: &str, found: UnsetUse) -> (usize, usize) {
    let begin = program.commands[found.command].line;
    let name = program.variables.name(found.variable);
    for (n, text) in source.lines().enumerate().skip(begin - 1) {
        if let Some(at) = mention(text, name) {
            return (n + 1, 1 + text[..at].chars().count());
        }
    }
    (begin, 1)
}

/// Where a line mentions a variable.
fn mention(text: &str, name: &str) -> Option<usize> {
    let is_name = |c: char| c == '_' || c.is_ascii_alphanumeric() || !c.is_ascii();
    let mentions = text.match_indices(':').map(|(at, _)| at);
    let is_it = |at: &usize| {
        let after = text[at + 1..].strip_prefix(name);
        after.is_some_and(|after| !after.starts_with(is_name)) && !text[..*at].ends_with(':')
    };
    mentions.into_iter().find(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(scripts: &[&str]) -> Result<(), String> {
        let names: Vec<String> = (1..=scripts.len()).map(|n| format!("{n}.sql")).collect();
        let list: Vec<(&str, &str, u32)> =
            names.iter().zip(scripts).map(|(name, source)| (name.as_str(), *source, 1)).collect();
        let bundle = Bundle::compile(&list, &Default::default()).unwrap();
        CompiledScripts::without_columns(&bundle, scripts, ["given"].into_iter()).check()
    }

    #[test]
    fn variables_with_a_value_may_be_sent() {
        for scripts in [
            &["\\set a 1\nselect :a, :given, :scale, :client_id;"][..],
            &["\\set a 1\nselect :a;", "\\set a 1\nselect 1;"],
            &["\\setshell a echo 1\nselect :a;"],
            &["select 1 as x \\gset p_\nselect :p_x;"],
            &["select 1 as x \\aset\nselect :x;"],
            &["select 1::int, '10:30';"],
        ] {
            assert_eq!(checked(scripts), Ok(()), "{scripts:?}");
        }
    }

    #[test]
    fn each_use_without_a_value_is_reported_with_its_position_and_reason() {
        for (scripts, expected) in [
            (
                &["\\set aid 1\n\n  select 1,\n    :aid, ::adi, :adi2, ü :adi;"][..],
                &[
                    "script `1.sql`: 1.sql:4:18: nothing sets the variable `adi2`",
                    "script `1.sql`: 1.sql:4:27: nothing sets the variable `adi`",
                ][..],
            ),
            (&["select 1 as x \\gset p_\nselect :q_x;"], &["1.sql:2:8: nothing sets"]),
            (&["\\set x 1\n\\set y 2 * \\\n :x + :z"], &["1.sql:3:7: nothing sets the variable `z`"]),
            (&["  \\if :y > 1\n\\endif\n"], &["1.sql:1:7: nothing sets the variable `y`"]),
            (&["\\sleep :y us"], &["1.sql:1:8: "]),
            (&["\\shell echo :y"], &["1.sql:1:13: "]),
            (&["\\setshell x echo :y"], &["1.sql:1:18: "]),
            (&["select 1 \\; select :y;"], &["1.sql:1:20: "]),
            (
                &["\\if :given\n\\set y 1\n\\endif\nselect :y;"],
                &["1.sql:4:8: the variable `y` is not set on every way to here: line 2 might not have run"],
            ),
            (
                &["select :a;", "\\set a 1\nselect 1;"],
                &[
                    "1.sql:1:8: only another script sets the variable `a`, which a client might not have run before this one: 2.sql:1",
                ],
            ),
            (
                &["select :q;\nselect 1 as q \\gset"],
                &["1.sql:1:8: the variable `q` is not set on every way to here: line 2 might not have run"],
            ),
            (&["copy t from stdin;\n\\copydata\n1\t:x\n\\.\n"], &["1.sql:3:3: nothing sets"]),
        ] {
            let error = checked(scripts).unwrap_err();
            let lines: Vec<&str> = error.lines().collect();
            assert_eq!(lines.len(), expected.len() + 1, "{error}");
            for (line, expected) in lines.iter().zip(expected) {
                assert!(line.contains(expected), "{error}\nexpected: {expected}");
            }
        }
        let many: String = (0..30).map(|n| format!("select :v{n};\n")).collect();
        let error = checked(&[&many]).unwrap_err();
        assert!(error.contains("\nand 20 more\n") && error.lines().count() == 12, "{error}");
        assert!(
            error.contains(
                "every client has client_id, default_seed, given, pgdyno_number, random_seed, scale;"
            ),
            "{error}"
        );
    }
}
