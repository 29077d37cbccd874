//! Replaces files of hosts and selections of pods by the drivers that they list, before a plan is made.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use model::experiment::Experiment;
use model::experiment::driver::DriverSpec;
use model::experiment::driver::inventory::{DriverSection, DriverSource, hosts};
use model::text::mark::without_mark;

/// Limit for a file of hosts: some ten thousand lines.
const HOSTS_BYTES_MAX: u64 = 1 << 20;

/// Looks up the drivers of the experiment and of its targets, so that its plan has them all by name; file names are
/// relative to `dir`.
///
/// # Errors
/// In words, with file and line: an unreadable file, a line that is no host, pods that do not run.
pub fn look_up(experiment: &mut Experiment, dir: &Path, stop: &AtomicBool) -> Result<(), String> {
    look_up_all(&mut experiment.driver, dir, stop).map_err(|message| format!("driver: {message}"))?;
    for target in &mut experiment.target {
        look_up_all(&mut target.driver, dir, stop)
            .map_err(|message| format!("target `{}`: driver: {message}", target.name))?;
    }
    Ok(())
}

fn look_up_all(entries: &mut Vec<DriverSection>, dir: &Path, stop: &AtomicBool) -> Result<(), String> {
    let mut all = Vec::new();
    for entry in entries.iter() {
        let found = match entry.listed()? {
            DriverSource::One(_) => {
                all.push(entry.clone());
                continue;
            }
            DriverSource::Hosts(file) => read_hosts(&dir.join(file), stop)?,
            DriverSource::Pods(pods) => fleet::pods(pods, stop).map_err(|error| format!("{error:#}"))?,
        };
        all.extend(found.into_iter().map(|spec| {
            let named = DriverSection::new(spec);
            let program = named.program.clone().or_else(|| entry.program.clone());
            DriverSection { program, upload: entry.upload, ..named }
        }));
    }
    *entries = all;
    Ok(())
}

fn read_hosts(path: &Path, stop: &AtomicBool) -> Result<Vec<DriverSpec>, String> {
    let name = path.display();
    let text = files::read_named(path, HOSTS_BYTES_MAX, stop).map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!("no file `{name}`; it has one host a line"),
        _ => format!("cannot read `{name}`: {error}"),
    })?;
    let text = String::from_utf8(text).map_err(|_| format!("`{name}` is not UTF-8 text; convert it"))?;
    hosts(without_mark(&text)).map_err(|message| format!("{name}:{message}"))
}

/// The drivers of entries that were looked up, each under a name of its own.
///
/// # Errors
/// When an entry is not a driver, or two have the same name.
pub(super) fn drivers_of(entries: &[DriverSection]) -> Result<Vec<DriverSpec>, String> {
    let mut all: Vec<DriverSpec> = Vec::new();
    for entry in entries {
        let DriverSource::One(spec) = entry.listed()? else {
            return Err("the drivers of a list were not looked up".to_string());
        };
        spec.check()?;
        if all.iter().any(|before| before.name == spec.name) {
            return Err(format!("two drivers have the name `{}`; give each a `name`", spec.name));
        }
        all.push(spec);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::plan::expand::{self, PlanResources};

    fn parsed(text: &str) -> Experiment {
        crate::plan::file::parse("x.toml", &format!("[experiment]\nname = \"x\"\n{text}"), &[]).unwrap()
    }

    fn looked_up(text: &str, dir: &Path) -> Result<Experiment, String> {
        let mut experiment = parsed(text);
        look_up(&mut experiment, dir, &AtomicBool::new(false)).map(|()| experiment)
    }

    #[test]
    fn targets_are_driven_by_their_own_drivers_and_others_by_the_experiments() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("hosts.txt"), "eu1\neu2=/opt/pgdyno\n").unwrap();
        let file = "[[driver]]\nvia = [\"ssh\", \"here\"]\n\
                    [[target]]\nname = \"eu\"\nurl = \"x\"\n\
                    driver = [{hosts = \"hosts.txt\", program = \"/usr/bin/pgdyno\", upload = true}]\n\
                    [[target]]\nname = \"us\"\nurl = \"y\"\n[[target.driver]]\nvia = [\"ssh\", \"us1\"]\n\
                    [[target]]\nname = \"lab\"\nurl = \"z\"\n[workload]\nclients = 2\n";
        let experiment = looked_up(file, place.path()).unwrap();
        let by_url = PlanResources { url_keywords: Some(BTreeMap::new()), ..PlanResources::default() };
        let targets = ["eu", "us", "lab"].map(|name| (name.to_string(), by_url.clone()));
        let site = PlanResources { targets: targets.into(), ..PlanResources::default() };
        let plan = expand::plan(&experiment, &site).unwrap();
        let drivers = |n: usize| {
            let drivers = plan.cases[n].workload.drivers.iter();
            drivers.map(|d| format!("{} {} {}", d.name, d.program, d.upload)).collect::<Vec<_>>()
        };
        assert_eq!(drivers(0), ["eu1 /usr/bin/pgdyno true", "eu2 /opt/pgdyno true"]);
        assert_eq!(drivers(1), ["us1 pgdyno false"]);
        assert_eq!(drivers(2), ["here pgdyno false"]);
        let stored = toml::to_string(&experiment).unwrap();
        assert!(stored.contains("[[target.driver]]") && !stored.contains("hosts.txt"), "{stored}");
        assert_eq!(toml::from_str::<Experiment>(&stored).unwrap(), experiment, "it can be resumed");
        let too_many = looked_up(&file.replace("clients = 2", "clients = 2\ndrivers = 2"), place.path());
        let error = expand::plan(&too_many.unwrap(), &site).unwrap_err();
        assert_eq!(
            error, "workload.drivers: 2 is not in 1..1, the number of drivers",
            "of the second target"
        );
    }

    #[test]
    fn what_is_wrong_with_a_list_is_said_with_its_place() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("bad.txt"), "a\n\nb c\n").unwrap();
        for (text, expected) in [
            ("[[driver]]\nhosts = \"bad.txt\"\n", "bad.txt:3: `b c` is no host"),
            ("[[driver]]\nhosts = \"none.txt\"\n", "driver: no file `"),
            ("[[driver]]\nname = \"x\"\n", "driver: `via` is missing"),
            ("[[target]]\nname = \"eu\"\ndriver = [{hosts = \"bad.txt\"}]\n", "target `eu`: driver: "),
        ] {
            let error = looked_up(text, place.path()).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
