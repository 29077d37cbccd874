//! From `[agents]` to the drivers of an experiment: those agents that answer now.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use experiment::plan::file::Override;
use model::experiment::Experiment;
use model::experiment::agents::AgentsSection;
use model::experiment::driver::inventory::DriverSection;
use relay::Found;
use toml::{Table, Value};

use crate::front::cli::agents::{AgentsWanted, NatsArgs};

/// `--agents` and its server as changes to the experiment file.
pub(crate) fn overrides(wanted: Option<&AgentsWanted>, nats: &NatsArgs) -> Vec<Override> {
    let Some(wanted) = wanted else { return Vec::new() };
    let labels = wanted.labels.iter().map(|(key, value)| (key.clone(), Value::String(value.clone())));
    let mut table = Table::from_iter([("labels".to_string(), Value::Table(labels.collect()))]);
    table.extend(wanted.count.map(|count| ("count".to_string(), Value::Integer(count.into()))));
    let path = |file: &Option<PathBuf>| file.as_ref().map(|file| file.display().to_string());
    let server = [("nats", nats.nats.clone()), ("creds", path(&nats.creds)), ("ca", path(&nats.ca))];
    let given = server.into_iter().filter_map(|(key, value)| Some((key.to_string(), Value::String(value?))));
    table.extend(given);
    vec![Override {
        key: "agents".into(),
        value: Value::Table(table),
        origin: format!("--agents {}", wanted.text),
    }]
}

/// Replaces `[agents]` by the drivers that they are.
///
/// # Errors
/// If the NATS server cannot be reached, or too few agents answer.
pub(crate) fn choose(experiment: &mut Experiment) -> Result<()> {
    let Some(wanted) = experiment.agents.take() else { return Ok(()) };
    let server =
        relay::Server { url: wanted.nats.clone(), creds: wanted.creds.clone(), ca: wanted.ca.clone() };
    server.check()?;
    let found = relay::find(&server)?;
    let chosen = fitting(&wanted, &found)?;
    experiment.driver.extend(chosen.iter().map(|agent| DriverSection::of(wanted.driver(&agent.name))));
    Ok(())
}

/// The agents that have the labels, the first `count` of them.
fn fitting<'a>(wanted: &AgentsSection, found: &'a [Found]) -> Result<Vec<&'a Found>> {
    let has_all =
        |agent: &&Found| wanted.labels.iter().all(|(key, value)| agent.labels.get(key) == Some(value));
    let mut fitting: Vec<&Found> = found.iter().filter(has_all).collect();
    if let Some(twin) = fitting.iter().find(|agent| agent.n > 1) {
        bail!("{} agents have the name `{}`; start each with a name of its own", twin.n, twin.name);
    }
    let busy = fitting.iter().filter(|agent| agent.is_busy).count();
    fitting.retain(|agent| !agent.is_busy);
    let n = wanted.count.map_or(1, |count| count as usize);
    let labels: Vec<String> = wanted.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let with = if labels.is_empty() { String::new() } else { format!(" with {}", labels.join(", ")) };
    ensure!(
        fitting.len() >= n,
        "{} of {} agents that answer at {} are free{with}, {n} are needed, and {busy} are busy; `pgdyno agents` lists them",
        fitting.len(),
        found.len(),
        wanted.nats
    );
    fitting.truncate(wanted.count.map_or(usize::MAX, |count| count as usize));
    Ok(fitting)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str, az: &str) -> Found {
        let labels = [("az".to_string(), az.to_string())].into();
        Found { name: name.into(), labels, build: String::new(), is_busy: false, n: 1 }
    }

    fn names(az: &str, count: Option<u32>, found: &[Found]) -> Result<String, String> {
        let labels = [("az".to_string(), az.to_string())].into();
        let wanted = AgentsSection { labels, count, nats: "nats://n".into(), ..AgentsSection::default() };
        let chosen = fitting(&wanted, found).map_err(|error| error.to_string())?;
        Ok(chosen.iter().map(|agent| agent.name.as_str()).collect::<Vec<_>>().join(" "))
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
