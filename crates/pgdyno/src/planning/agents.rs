//! From `[agents]` to the drivers of an experiment: those agents that answer now.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use model::experiment::Experiment;
use model::experiment::agents::AgentsSection;
use model::experiment::driver::inventory::DriverSection;
use model::text::prose::plural;
use relay::AnsweringAgent;

use crate::say;

/// How long agents that are busy are asked again: one whose caller was killed notices within 5 s, and ends its process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(8);

/// Replaces `[agents]` by the drivers that they are.
///
/// # Errors
/// If the NATS server cannot be reached, or too few agents answer.
pub(crate) fn choose(experiment: &mut Experiment) -> Result<()> {
    let Some(wanted) = experiment.agents.take() else { return Ok(()) };
    let server =
        relay::NatsServer { url: wanted.nats.clone(), creds: wanted.creds.clone(), ca: wanted.ca.clone() };
    server.check()?;
    let Fitting { free, n_busy } = look(&wanted, &mut || relay::find(&server), BUSY_TIMEOUT)?;
    if wanted.count.is_none() && n_busy > 0 {
        say(&format!("note: {} left out: busy with another load", plural(n_busy, "agent")));
    }
    experiment.driver.extend(free.iter().map(|agent| DriverSection::new(wanted.driver(&agent.name))));
    Ok(())
}

/// Agents that have the labels.
#[derive(Debug)]
struct Fitting {
    /// Those that may drive, the first `count` of them.
    free: Vec<AnsweringAgent>,
    n_busy: usize,
}

/// Looks for agents by `find`, and again for so long while some of those that are wanted are busy.
fn look(
    wanted: &AgentsSection,
    find: &mut dyn FnMut() -> Result<Vec<AnsweringAgent>>,
    timeout: Duration,
) -> Result<Fitting> {
    let begun = Instant::now();
    loop {
        let found = find()?;
        let fitting = fitting(wanted, &found)?;
        let is_enough = wanted.count.is_some_and(|count| fitting.free.len() >= count as usize);
        if is_enough || fitting.n_busy == 0 || begun.elapsed() >= timeout {
            return expect_enough(wanted, found.len(), fitting);
        }
    }
}

/// Sorts the agents that have the labels.
fn fitting(wanted: &AgentsSection, found: &[AnsweringAgent]) -> Result<Fitting> {
    let has_all = |agent: &&AnsweringAgent| {
        wanted.labels.iter().all(|(key, value)| agent.labels.get(key) == Some(value))
    };
    let fitting: Vec<&AnsweringAgent> = found.iter().filter(has_all).collect();
    if let Some(twin) = fitting.iter().find(|agent| agent.n > 1) {
        bail!("{} agents have the name `{}`; start each with a name of its own", twin.n, twin.name);
    }
    let (busy, free): (Vec<&AnsweringAgent>, Vec<&AnsweringAgent>) =
        fitting.into_iter().partition(|agent| agent.is_busy);
    let n_max = wanted.count.map_or(usize::MAX, |count| count as usize);
    Ok(Fitting { free: free.into_iter().take(n_max).cloned().collect(), n_busy: busy.len() })
}

/// Requires as many free agents, of all that answered, as are wanted.
fn expect_enough(wanted: &AgentsSection, n_found: usize, fitting: Fitting) -> Result<Fitting> {
    let n = wanted.count.map_or(1, |count| count as usize);
    let labels: Vec<String> = wanted.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let with = if labels.is_empty() { String::new() } else { format!(" with {}", labels.join(", ")) };
    ensure!(
        fitting.free.len() >= n,
        "{} of {n_found} agents that answer at {} are free{with}, {n} are needed, and {} are busy; `pgdyno agents` lists them",
        fitting.free.len(),
        wanted.nats,
        fitting.n_busy
    );
    Ok(fitting)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str, az: &str) -> AnsweringAgent {
        let labels = [("az".to_string(), az.to_string())].into();
        AnsweringAgent { name: name.into(), labels, build: String::new(), is_busy: false, n: 1 }
    }

    fn names(az: &str, count: Option<u32>, found: &[AnsweringAgent]) -> Result<String, String> {
        let labels = [("az".to_string(), az.to_string())].into();
        let wanted = AgentsSection { labels, count, nats: "nats://n".into(), ..AgentsSection::default() };
        let chosen = look(&wanted, &mut || Ok(found.to_vec()), Duration::ZERO);
        Ok(words(&chosen.map_err(|error| error.to_string())?))
    }

    fn words(chosen: &Fitting) -> String {
        chosen.free.iter().map(|agent| agent.name.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn agents_that_are_busy_for_a_moment_are_asked_again() {
        let (a, b) = (agent("a", "x"), agent("b", "x"));
        let busy = vec![a.clone(), AnsweringAgent { is_busy: true, ..b.clone() }];
        let look = |count, timeout_s| {
            let wanted = AgentsSection { count, nats: "nats://n".into(), ..AgentsSection::default() };
            let mut n_asked = 0;
            let mut find = || {
                n_asked += 1;
                Ok(if n_asked < 3 { busy.clone() } else { vec![a.clone(), b.clone()] })
            };
            let chosen = look(&wanted, &mut find, Duration::from_secs(timeout_s)).unwrap();
            (words(&chosen), chosen.n_busy, n_asked)
        };
        assert_eq!(look(None, 60), ("a b".to_string(), 0, 3));
        assert_eq!(look(Some(2), 60), ("a b".to_string(), 0, 3));
        assert_eq!(look(Some(1), 60), ("a".to_string(), 1, 1), "enough are free");
        assert_eq!(look(None, 0), ("a".to_string(), 1, 1));
    }

    #[test]
    fn the_first_free_ones_with_the_labels_drive() {
        let mut found = vec![agent("a", "x"), agent("b", "y"), agent("c", "x"), agent("d", "x")];
        assert_eq!(names("x", None, &found).unwrap(), "a c d");
        assert_eq!(names("x", Some(2), &found).unwrap(), "a c");
        found[0].is_busy = true;
        assert_eq!(names("x", Some(2), &found).unwrap(), "c d");
        let few = names("x", Some(3), &found).unwrap_err();
        assert!(
            few.starts_with(
                "2 of 4 agents that answer at nats://n are free with az=x, 3 are needed, and 1 are busy"
            ),
            "{few}"
        );
        found[2].n = 2;
        assert!(names("x", Some(1), &found).unwrap_err().starts_with("2 agents have the name `c`"));
    }
}
