//! Checks that the jobs in `deploy/ci` fit their script and pgdyno: arguments, options, variables, results and exit codes.

#[cfg(test)]
mod at_work;

use std::path::Path;

use clap::Parser;
use yaml_rust2::{Yaml, YamlLoader};

use super::documents::words;
use crate::Exit;
use crate::front::cli::{Cli, Command};

const SCRIPT: &str = include_str!("../../../../deploy/ci/compare.sh");
const GITHUB: &str = include_str!("../../../../deploy/ci/github-action.yml");
const GITLAB: &str = include_str!("../../../../deploy/ci/gitlab-ci.yml");
const PAGE: &str = include_str!("../../../../docs/compare-in-ci.md");

/// Name of a copy of the script, in a repository that uses it.
const COPY: &str = "pgdyno-compare.sh ";

fn parsed(text: &str) -> Yaml {
    YamlLoader::load_from_str(text).unwrap().swap_remove(0)
}

/// The jobs of a workflow of GitHub.
fn github_jobs(workflow: &Yaml) -> Vec<&Yaml> {
    workflow["jobs"].as_hash().unwrap().values().collect()
}

fn names(table: &Yaml) -> Vec<String> {
    let keys = table.as_hash().into_iter().flat_map(|map| map.keys());
    keys.map(|key| key.as_str().unwrap().to_string()).collect()
}

/// The kind of comparison in a line of a job, whose options pgdyno must know.
#[track_caller]
fn kind_of(line: &str) -> String {
    let (_, call) = line.split_once(COPY).unwrap_or_else(|| panic!("no call of the script: {line}"));
    let words = words(call);
    let [kind, _, _, dashes, options @ ..] = words.as_slice() else { panic!("{line}") };
    assert_eq!(dashes, "--", "{line}");
    let sides = ["pgdyno", "compare", "--a", "server.version=17", "--b", "server.version=18"];
    let args = sides.into_iter().chain(["--fail-on", "slower", "-o", "x"]).map(str::to_string);
    let cli = Cli::try_parse_from(args.chain(options.iter().cloned()));
    assert!(matches!(cli.unwrap_or_else(|error| panic!("{line}: {error}")).command, Command::Compare(_)));
    kind.clone()
}

/// Variables that neither the script's head nor pgdyno's documents explain.
fn unknown_variables(names: &[String]) -> Vec<&String> {
    let head = SCRIPT.split_once("\nset -euo").unwrap().0;
    let of_job = names.iter().filter(|name| name.starts_with("PGDYNO_"));
    of_job.filter(|name| !head.contains(&format!("#     {name} ")) && *name != "PGDYNO_CACHE").collect()
}

#[test]
fn the_jobs_for_github_fit_the_script() {
    let workflow = parsed(GITHUB);
    assert_eq!(unknown_variables(&names(&workflow["env"])), Vec::<&String>::new());
    let results = workflow["env"]["PGDYNO_RESULTS"].as_str().unwrap();
    let mut kinds = Vec::new();
    for job in github_jobs(&workflow) {
        assert_eq!(unknown_variables(&names(&job["env"])), Vec::<&String>::new());
        let steps = job["steps"].as_vec().unwrap();
        let calls = steps.iter().filter_map(|step| step["run"].as_str()).filter(|run| run.contains(COPY));
        kinds.extend(calls.map(kind_of));
        let upload = steps.last().unwrap();
        assert!(upload["uses"].as_str().unwrap().starts_with("actions/upload-artifact@"));
        assert_eq!(
            (upload["if"].as_str(), upload["with"]["path"].as_str()),
            (Some("always()"), Some(results))
        );
    }
    assert_eq!(kinds, ["schemas", "builds"]);
    assert_eq!(workflow["permissions"]["contents"].as_str(), Some("read"));
}

#[test]
fn the_jobs_for_gitlab_fit_the_script() {
    let file = parsed(GITLAB);
    let template = &file[".pgdyno"];
    let mut kinds = Vec::new();
    for (name, job) in file.as_hash().unwrap() {
        assert_eq!(unknown_variables(&names(&job["variables"])), Vec::<&String>::new());
        if name.as_str() == Some(".pgdyno") {
            continue;
        }
        assert_eq!(job["extends"].as_str(), Some(".pgdyno"));
        let lines = job["script"].as_vec().unwrap().iter().filter_map(Yaml::as_str);
        kinds.extend(lines.filter(|line| line.contains(COPY)).map(kind_of));
    }
    assert_eq!(kinds, ["schemas", "builds"]);
    let results = template["variables"]["PGDYNO_RESULTS"].as_str().unwrap();
    assert_eq!(template["artifacts"]["paths"][0].as_str(), Some(format!("{results}/").as_str()));
    assert_eq!(template["allow_failure"]["exit_codes"].as_i64(), Some(Exit::Partial as i64));
}

#[test]
fn the_script_says_which_exit_codes_pgdyno_has() {
    for (exit, words) in [(Exit::Done, "pass"), (Exit::Different, "slower"), (Exit::Partial, "no verdict")] {
        assert!(SCRIPT.contains(&format!("{} {words}", exit as u8)), "{exit:?}");
        assert!(PAGE.contains(&format!("| {} | ", exit as u8)), "{exit:?}");
    }
    let call = PAGE.split("deploy/ci/compare.sh schemas ").nth(1).unwrap();
    let call = call.split("\n```").next().unwrap().replace("\\\n", " ");
    assert_eq!(kind_of(&format!("{COPY}schemas {call}")), "schemas");
}

#[test]
fn jobs_that_do_not_fit_are_found() {
    let variables = ["PGDYNO_AGAIN", "PGDYNO_AGIAN", "BASE"].map(str::to_string);
    assert_eq!(unknown_variables(&variables), ["PGDYNO_AGIAN"]);
    let wrong = |line: &'static str| std::panic::catch_unwind(|| kind_of(line)).is_err();
    assert!(wrong("./pgdyno-compare.sh schemas a b -- --no-such-option"));
    assert!(wrong("./pgdyno-compare.sh schemas a b --duet"));
    assert!(!wrong("./pgdyno-compare.sh schemas a b -- --duet"));
    assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/ci/compare.sh").is_file());
}
