//! `pgdyno explain`: the page of a finding or of a limiter, or the list of all findings.

use analysis::budget::bounded_by;
use analysis::findings::{CATALOGUE, Rule, rule};
use analysis::summary::limiter::Bottleneck;
use anyhow::{Result, bail};
use model::text::columns;
use model::text::nearest::nearest;

use crate::commands::report::for_terminal;
use crate::{Exit, print};

/// Prints the page of the finding or the limiter of this name, in any spelling that reports use; without one, the list.
pub(crate) fn explain(finding: Option<&str>) -> Result<Exit> {
    let text = match finding {
        None => list(),
        Some(name) => match limiter(name) {
            Some(limiter) => page_of(limiter),
            None => page_of_finding(find(name)?),
        },
    };
    print(&for_terminal(&text))?;
    Ok(Exit::Done)
}

fn page_of_finding(rule: &Rule) -> String {
    let bounded = bounded_by(rule).map_or(String::new(), |words| format!("\nuncertainty\n    {words}\n"));
    rule.page() + &bounded
}

fn list() -> String {
    let width = CATALOGUE.iter().map(|rule| rule.id.len()).max().unwrap_or(0);
    CATALOGUE.iter().map(|rule| format!("{}  {}\n", columns::left(rule.id, width), rule.title)).collect()
}

/// The limiter of this name, if no finding has it: that says more.
fn limiter(name: &str) -> Option<Bottleneck> {
    let id = id(name);
    Bottleneck::ALL.into_iter().find(|limiter| limiter.as_str() == id && rule(&id).is_none())
}

fn page_of(limiter: Bottleneck) -> String {
    format!(
        "{}: what limited a run was {}\n\nadvice\n    {}\n\nsource\n    METHODOLOGY, \"What limited a run\"; pgdyno why DIR tries what \
         would lift it\n",
        limiter.as_str(),
        limiter.words(),
        limiter.advice()
    )
}

/// Reports write `foreign CPU` for `foreign-cpu`.
fn id(name: &str) -> String {
    name.trim().to_lowercase().replace([' ', '_', '/'], "-").replace("i-o", "io")
}

fn find(name: &str) -> Result<&'static Rule> {
    let id = id(name);
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
        assert!(limiter("row-lock").is_some() && limiter("foreign-cpu").is_none() && limiter("x").is_none());
        assert!(Bottleneck::ALL.iter().all(|one| page_of(*one).contains(one.advice())));
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
