//! Finds variables that a script uses but nothing sets. As parameters they would be NULL, without an error: a mistyped
//! name would be measured at full speed.

use std::collections::BTreeSet;

use workload::{Bundle, Command, Fetch, Piece, Program, Statement};

/// Variables that every client has anyway.
const AUTOMATIC: [&str; 4] = ["client_id", "default_seed", "random_seed", "scale"];

/// Reports where a statement uses a variable that no script and no entry of `defines` sets.
///
/// # Errors
/// The first one, with script, line and column.
pub(super) fn check<'a>(
    bundle: &'a Bundle,
    sources: &[&str],
    defines: impl Iterator<Item = &'a str>,
) -> Result<(), String> {
    let set = Set::of(bundle, defines);
    for (program, source) in bundle.programs.iter().zip(sources) {
        for statement in &program.statements {
            let ids = statement.parameters.iter();
            let mut names = ids.map(|id| program.variables.name(*id));
            if let Some(name) = names.find(|name| !set.has(name)) {
                return Err(message(program, statement, source, name, &set));
            }
        }
    }
    Ok(())
}

/// Names that get a value at some time. The scripts of a client share variables.
struct Set<'a> {
    names: BTreeSet<&'a str>,
    /// Prefixes of `\gset` and `\aset`, whose columns only the server knows.
    prefixes: Vec<&'a str>,
}

impl<'a> Set<'a> {
    fn of(bundle: &'a Bundle, defines: impl Iterator<Item = &'a str>) -> Set<'a> {
        let mut set = Set { names: defines.chain(AUTOMATIC).collect(), prefixes: Vec::new() };
        for program in &bundle.programs {
            for step in &program.commands {
                if let Command::Set { variable, .. } | Command::SetShell { variable, .. } = &step.command {
                    set.names.insert(program.variables.name(*variable));
                }
            }
            set.prefixes.extend(program.statements.iter().filter_map(|statement| match &statement.fetch {
                Fetch::Gset { prefix } | Fetch::Aset { prefix } => Some(prefix.as_str()),
                _ => None,
            }));
        }
        set
    }

    fn has(&self, name: &str) -> bool {
        self.names.contains(name) || self.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }
}

fn message(program: &Program, statement: &Statement, source: &str, name: &str, set: &Set) -> String {
    let (line, column) = place(statement, program, source, name);
    let known: Vec<&str> = set.names.iter().copied().collect();
    format!(
        "script `{0}`: {0}:{line}:{column}: nothing sets the variable `{name}`, so that NULL would be sent; set are {1} \
         (if you mean NULL, write it; `-M simple` leaves the text as it is)",
        program.name,
        known.join(", ")
    )
}

/// Line and column of the variable, from 1: the statement's pieces are its text as in the script.
fn place(statement: &Statement, program: &Program, source: &str, name: &str) -> (usize, usize) {
    let is_it = |piece: &Piece| matches!(piece, Piece::Variable(id) if program.variables.name(*id) == name);
    let n_before = statement.pieces.iter().take_while(|piece| !is_it(piece)).count();
    let before = Piece::original(&statement.pieces[..n_before], &program.variables);
    let line = statement.line + before.matches('\n').count();
    // Blanks before a statement's first line are not part of it.
    let text = source.lines().nth(line - 1).unwrap_or_default();
    let wanted = format!(":{name}");
    let at = text.find(before.rsplit('\n').next().unwrap_or_default()).unwrap_or(0);
    let start = text[at..].find(&wanted).map_or(0, |offset| at + offset);
    (line, 1 + text[..start].chars().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(scripts: &[&str]) -> Result<(), String> {
        let names: Vec<String> = (1..=scripts.len()).map(|n| format!("{n}.sql")).collect();
        let list: Vec<(&str, &str, u32)> =
            names.iter().zip(scripts).map(|(name, source)| (name.as_str(), *source, 1)).collect();
        let bundle = Bundle::compile(&list, &Default::default()).unwrap();
        check(&bundle, scripts, ["given"].into_iter())
    }

    #[test]
    fn variables_with_a_value_may_be_sent() {
        for scripts in [
            &["\\set a 1\nselect :a, :given, :scale, :client_id;"][..],
            &["select :a;", "\\set a 1\nselect 1;"],
            &["\\setshell a echo 1\nselect :a;"],
            &["select 1 as x \\gset p_\nselect :p_x;"],
            &["select 1 as x \\aset\nselect :x;"],
            &["select 1::int, '10:30';"],
        ] {
            assert_eq!(checked(scripts), Ok(()), "{scripts:?}");
        }
    }

    #[test]
    fn a_mistyped_name_is_reported_with_its_position() {
        let error = checked(&["\\set aid 1\n\n  select 1,\n    :aid, :adi;"]).unwrap_err();
        assert!(error.starts_with("script `1.sql`: 1.sql:4:11: nothing sets the variable `adi`"), "{error}");
        assert!(error.contains("set are aid, client_id, default_seed, given,"), "{error}");
        let error = checked(&["select 1 as x \\gset p_\nselect :q_x;"]).unwrap_err();
        assert!(error.contains("1.sql:2:8:"), "{error}");
    }
}
