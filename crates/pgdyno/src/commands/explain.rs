//! `pgdyno explain`: the page of a finding, or the list of all findings.

use analysis::findings::{CATALOGUE, Rule, rule};
use anyhow::{Result, bail};
use model::text::columns;
use model::text::nearest::nearest;

use crate::commands::report::for_terminal;
use crate::{Exit, print};

/// Prints the page of the finding with this identifier, in any spelling that reports use; without one, the list.
pub(crate) fn explain(finding: Option<&str>) -> Result<Exit> {
    let text = match finding {
        None => list(),
        Some(name) => find(name)?.page(),
    };
    print(&for_terminal(&text))?;
    Ok(Exit::Done)
}

fn list() -> String {
    let width = CATALOGUE.iter().map(|rule| rule.id.len()).max().unwrap_or(0);
    CATALOGUE.iter().map(|rule| format!("{}  {}\n", columns::left(rule.id, width), rule.title)).collect()
}

/// Reports write `foreign CPU` for `foreign-cpu`.
fn find(name: &str) -> Result<&'static Rule> {
    let id = name.trim().to_lowercase().replace([' ', '_', '/'], "-").replace("i-o", "io");
    let has_title = |rule: &&Rule| rule.title.eq_ignore_ascii_case(name.trim());
    if let Some(rule) = rule(id.trim_matches(['[', ']'])).or_else(|| CATALOGUE.iter().find(has_title)) {
        return Ok(rule);
    }
    let is_like = |rule: &&Rule| {
        id.split('-').any(|word| word.len() > 2 && rule.id.split('-').any(|part| part == word))
    };
    let mut like: Vec<&str> = CATALOGUE.iter().filter(is_like).map(|rule| rule.id).collect();
    let near = || nearest(&id, CATALOGUE.iter().map(|rule| rule.id));
    // The nearest name first.
    if let Some(near) = near() {
        like.sort_by_key(|id| *id != near);
    }
    match like.as_slice() {
        [] if let Some(near) = near() => bail!("no finding `{name}`; did you mean {near}?"),
        [] => bail!("no finding `{name}`; `pgdyno explain` lists all"),
        like => bail!("no finding `{name}`; did you mean {}?", like.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_found_as_reports_write_them() {
        let title = rule("foreign-cpu").unwrap().title;
        for name in
            ["foreign-cpu", "foreign CPU", "Foreign_CPU", "[foreign-cpu]", title, &title.to_uppercase()]
        {
            assert_eq!(find(name).unwrap().id, "foreign-cpu");
        }
        assert!(find("cpu").unwrap_err().to_string().contains("did you mean foreign-cpu"));
        assert!(
            find("foreign-cup")
                .unwrap_err()
                .to_string()
                .contains("did you mean foreign-cpu, foreign-sessions?")
        );
        assert!(find("spraed").unwrap_err().to_string().contains("did you mean spread?"));
        assert!(find("x").unwrap_err().to_string().contains("lists all"));
        assert!(CATALOGUE.iter().all(|rule| list().contains(rule.id)));
    }
}
