//! `pgdyno pack` and `pgdyno unpack`: results as one file, for somebody else.

mod commands;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use model::experiment::case::{Case, ServerSource};
use model::experiment::plan::Plan;
use model::run::RunRecord;
use model::telemetry::import::Import;
use model::text::prose::{bytes, plural};
use store::PackExtent;

use crate::front::cli::packed::{PackArgs, UnpackArgs};
use crate::front::cli::stored::RESULTS;
use crate::front::shell;
use crate::{Exit, print, say};

/// End of a packed file's name.
const END: &str = ".tar.gz";

/// Packs a results directory.
pub(crate) fn pack(args: &PackArgs) -> Result<Exit> {
    let to = match &args.output {
        Some(file) => file.clone(),
        None => PathBuf::from(store::name_of(&args.dir) + END),
    };
    let extent = if args.all { PackExtent::All } else { PackExtent::Report };
    let packed = store::pack(&args.dir, &to, extent, env!("CARGO_PKG_VERSION"))?;
    for path in &packed.hidden {
        say(&format!(
            "note: `{path}` held a secret, which an earlier version had written; it is hidden in the archive"
        ));
    }
    let size = std::fs::metadata(&to).map_or(0, |facts| facts.len());
    say(&format!(
        "`{}` holds {}, {} in {}; it names these servers, machines and files, which not everybody may need to know: {}",
        to.display(),
        plural(packed.files.len(), "file"),
        bytes(packed.bytes() as f64),
        bytes(size as f64),
        names(&args.dir)
    ));
    let plan = store::read_plan(&args.dir)?;
    say_commands(&commands::commands(&plan, &store::read_experiment(&args.dir)?), n_scripts(&plan));
    print(&format!("{}\n", to.display()))?;
    Ok(Exit::Done)
}

/// How many scripts of the user's own a plan has.
fn n_scripts(plan: &Plan) -> usize {
    let of_users = plan.cases.iter().filter(|case| case.workload.kind.is_own());
    of_users.flat_map(|case| &case.workload.scripts).map(|script| &script.name).collect::<BTreeSet<_>>().len()
}

/// Shows what nobody but the user can judge.
fn say_commands(commands: &BTreeSet<String>, n_scripts: usize) {
    let hidden = "passwords and tokens that pgdyno recognizes are hidden in it";
    if commands.is_empty() {
        let scripts = match n_scripts {
            0 => String::new(),
            n => format!(", but {}, which whoever repeats it is asked to allow", plural(n, "script")),
        };
        return say(&format!("{hidden}; it contains no commands{scripts}"));
    }
    say(&format!("{hidden}; look at the commands that it contains before you share it:"));
    for line in commands.iter().flat_map(|command| command.lines()) {
        say(&format!("  {line}"));
    }
}

/// Machines and servers that the results name: no secrets, but not for everybody either.
fn names(dir: &Path) -> String {
    let mut names = BTreeSet::new();
    if let Ok(plan) = store::read_plan(dir) {
        plan.cases.iter().for_each(|case| names.extend(asked(case)));
        names.extend(plan.origins.into_iter().map(|origin| origin.name));
        names.extend(
            plan.lanes.into_iter().flat_map(|lane| lane.addresses).map(|address| address.to_string()),
        );
    }
    for record in store::read_records(dir).unwrap_or_default() {
        names.extend(asked(&record.case));
        names.extend(met(&record));
    }
    names.remove("");
    if names.is_empty() { "no machine".to_string() } else { Vec::from_iter(names).join(", ") }
}

/// Names of machines and files in a case.
fn asked(case: &Case) -> Vec<String> {
    let server = &case.server;
    let mut names = vec![server.source.to_string()];
    if let ServerSource::Url(keywords) = &server.source {
        names.extend(["host", "hostaddr"].iter().filter_map(|key| keywords.get(*key).cloned()));
    }
    names.extend(server.listen.clone());
    names.extend(
        server
            .target
            .iter()
            .flat_map(|target| [target.name.clone(), target.telemetry.clone().unwrap_or_default()]),
    );
    for machine in case.workload.drivers.iter().chain(&server.host) {
        let address = machine.address.map(|address| address.to_string());
        names.extend([machine.name.clone(), shell::command(&machine.via)].into_iter().chain(address));
    }
    names.extend((!server.restart.is_empty()).then(|| shell::command(&server.restart)));
    names.extend(case.imports.iter().map(Import::source));
    names
}

/// Names and addresses of machines in the record of a run.
fn met(record: &RunRecord) -> Vec<String> {
    let hosts = [&record.host, &record.driver_host].into_iter().flatten();
    let mut names: Vec<String> = hosts.map(|host| host.hostname.clone()).collect();
    let drivers = record.drivers.iter().map(|driver| (&driver.name, &driver.hello));
    for (name, hello) in drivers.chain(record.eyes.iter().map(|eyes| (&eyes.name, &eyes.hello))) {
        let address = hello.address.map(|address| address.to_string());
        names.extend([name.clone(), hello.host.clone()].into_iter().chain(address));
    }
    let routes = record.server.iter().filter_map(|server| server.route.as_ref());
    let ends = routes.flat_map(|route| [route.reached.clone(), route.answered.clone()]);
    names.extend(ends.filter(|end| !end.starts_with("socket:")));
    names.extend(record.connections.iter().map(|connection| connection.client_address.clone()));
    names
}

/// Unpacks results.
pub(crate) fn unpack(args: &UnpackArgs) -> Result<Exit> {
    let to = match &args.output {
        Some(to) => to.clone(),
        None => Path::new(RESULTS).join(stem(&args.file)?),
    };
    let unpacked = store::unpack(&args.file, &to, args.limit.of(&args.file))?;
    let to = to.display();
    say(&format!(
        "unpacked {} of pgdyno {} into `{to}`; pgdyno report {to}",
        plural(unpacked.n_files, "file"),
        unpacked.tool_version
    ));
    Ok(Exit::Done)
}

/// Name of a packed file without its end, which names a directory.
fn stem(file: &Path) -> Result<String> {
    let name = file.file_name().map_or("results".into(), |name| name.to_string_lossy());
    let stem = name.strip_suffix(END).unwrap_or(&name);
    ensure!(
        !["", ".", ".."].contains(&stem),
        "the name of `{}` gives no directory a name; say one with -o DIR",
        file.display()
    );
    Ok(stem.to_string())
}

#[cfg(test)]
mod tests {
    use model::experiment::case::{ServerSpec, WorkloadKind, WorkloadSpec};
    use model::experiment::driver::DriverSpec;
    use model::experiment::plan::RunSpec;
    use model::load::Window;
    use model::load::hello::Hello;
    use model::run::driver::DriverRecord;
    use model::run::eyes::HostObserverRecord;
    use model::run::server::LoadConnections;

    use super::*;

    #[test]
    fn machines_of_drivers_and_eyes_are_named() {
        let keywords = [("user", "me"), ("host", "db.example"), ("port", "5432"), ("dbname", "x")];
        let source =
            ServerSource::Url(keywords.map(|(key, value)| (key.to_string(), value.to_string())).into());
        let mut case = Case::new(
            ServerSpec::new(source),
            WorkloadSpec::new(WorkloadKind::Tpcb, 1),
            Window { ramp_up_s: 1, measure_s: 2, grace_s: 1 },
        );
        let way = |text: &str| DriverSpec { address: "10.0.0.1".parse().ok(), ..text.parse().unwrap() };
        case.workload.drivers = vec![way("ssh:me@load.example:2222")];
        case.server.host = Some(way("ssh:eye.example"));
        let spec = RunSpec { run: 1, block: 1, case: 1, seed: 1 };
        let mut record = RunRecord::new(spec, case, "0");
        let hello =
            |host: &str| Hello { host: host.into(), address: "10.0.0.2".parse().ok(), ..Hello::default() };
        record.drivers =
            vec![DriverRecord { name: "left".into(), hello: hello("load-7"), ..DriverRecord::default() }];
        record.eyes = Some(HostObserverRecord {
            name: "eye".into(),
            hello: hello("db-7"),
            ..HostObserverRecord::default()
        });
        record.connections =
            vec![LoadConnections { client_address: "10.0.0.3".into(), ..LoadConnections::default() }];
        let found: BTreeSet<String> = asked(&record.case).into_iter().chain(met(&record)).collect();
        for name in [
            "me@db.example:5432/x",
            "db.example",
            "me@load.example:2222",
            "ssh -p2222 -- me@load.example",
            "eye.example",
            "10.0.0.1",
            "left",
            "load-7",
            "10.0.0.2",
            "eye",
            "db-7",
            "10.0.0.3",
        ] {
            assert!(found.contains(name), "{name}: {found:?}");
        }
    }
}
