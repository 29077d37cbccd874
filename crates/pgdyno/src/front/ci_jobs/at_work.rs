//! Runs the lines of the jobs in `deploy/ci` in a repository whose base branch has moved on, and installs packages as their script does.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use yaml_rust2::Yaml;

use super::{GITHUB, GITLAB, SCRIPT, parsed};

/// Stands for the script: says which files the two sides do not share.
const DIFFERENCE: &str = "#!/bin/sh\n\
    case $1 in\n\
    builds) git diff --no-renames --name-only \"$2\" \"$3\" ;;\n\
    schemas) diff -r \"$2\" \"$3\" | sed -n 's,^Only in .*: ,schema/,p' ;;\n\
    esac\n";

/// A clone in which `landed.sql` came to the base branch after `change` had left it, and a merge of both is checked out.
struct Repository {
    place: TempDir,
    first: String,
    tip: String,
    change: String,
    merged: String,
}

impl Repository {
    fn make() -> Repository {
        let place = tempfile::tempdir().unwrap();
        let clone = place.path().join("head");
        for script in [".github/pgdyno-compare.sh", ".gitlab/pgdyno-compare.sh"] {
            write_program(&clone.join(script), DIFFERENCE);
        }
        git(&clone, "init -q -b main");
        let commit = |name: &str| {
            fs::create_dir_all(clone.join("schema")).unwrap();
            fs::write(clone.join("schema").join(name), "").unwrap();
            git(&clone, "add .");
            git(&clone, "commit -q -m x");
            git(&clone, "rev-parse HEAD")
        };
        let first = commit("first.sql");
        git(&clone, "checkout -q -b change");
        let change = commit("change.sql");
        git(&clone, "checkout -q main");
        let tip = commit("landed.sql");
        git(&clone, "checkout -q --detach");
        git(&clone, "merge -q --no-ff -m x change");
        let merged = git(&clone, "rev-parse HEAD");
        Repository { place, first, tip, change, merged }
    }

    /// What these lines of a job print, in `directory` of the place.
    #[track_caller]
    fn run(&self, directory: &str, lines: &[&str], variables: &[(&str, &str)]) -> String {
        let there = lines.iter().filter(|line| !line.contains("apt-get")).copied().collect::<Vec<_>>();
        let mut shell = Command::new("bash");
        shell.args(["-euc", &there.join("\n")]).current_dir(self.place.path().join(directory));
        shell.env("GITHUB_ENV", self.place.path().join("environment")).envs(variables.iter().copied());
        said(&shell.output().unwrap())
    }
}

/// What git answers, without the settings of whoever runs the test.
#[track_caller]
fn git(directory: &Path, args: &str) -> String {
    let mut git = Command::new("git");
    git.args(args.split(' ')).current_dir(directory).env("GIT_CONFIG_GLOBAL", "/dev/null");
    for (role, name) in [("AUTHOR", "a"), ("COMMITTER", "b")] {
        git.env(format!("GIT_{role}_NAME"), name).env(format!("GIT_{role}_EMAIL"), name);
    }
    said(&git.output().unwrap())
}

#[track_caller]
fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

fn write_program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn lines<'a>(list: &'a Yaml, line: impl Fn(&'a Yaml) -> Option<&'a str>) -> Vec<&'a str> {
    list.as_vec().into_iter().flatten().filter_map(line).collect()
}

#[test]
fn a_pull_request_answers_for_its_own_commits_only() {
    let repository = Repository::make();
    let workflow = parsed(GITHUB);
    for (job, directory) in [("schema", ""), ("build", "head")] {
        let mut lines = lines(&workflow["jobs"][job]["steps"], |step| step["run"].as_str());
        // What a step writes to this file is in the environment of the next ones.
        lines.insert(lines.len() - 1, "touch \"$GITHUB_ENV\"; . \"$GITHUB_ENV\"");
        let commits = [("TIP", repository.tip.as_str()), ("HEAD", &repository.change)];
        assert_eq!(repository.run(directory, &lines, &commits), "schema/change.sql", "{job}");
    }
}

#[test]
fn a_merge_request_answers_for_its_own_commits_only_and_a_runner_may_be_used_again() {
    let repository = Repository::make();
    let Repository { first, tip, change, merged, .. } = &repository;
    let clone = repository.place.path().join("head");
    let file = parsed(GITLAB);
    let before = lines(&file[".pgdyno"]["before_script"], Yaml::as_str);
    for job in ["compare-schemas", "compare-builds"] {
        let lines = [before.clone(), lines(&file[job]["script"], Yaml::as_str)].concat();
        for (commit, of_target) in [(change, ""), (merged, tip.as_str()), (merged, tip)] {
            git(&clone, &format!("checkout -q {commit}"));
            let commits = [
                ("CI_MERGE_REQUEST_DIFF_BASE_SHA", first.as_str()),
                ("CI_MERGE_REQUEST_TARGET_BRANCH_SHA", of_target),
                ("CI_COMMIT_SHA", commit),
            ];
            assert_eq!(repository.run("head", &lines, &commits), "schema/change.sql", "{job} {of_target}");
        }
    }
    assert_eq!(git(&clone, "worktree list").lines().count(), 1, "none is left behind");
}

const PROGRAM: &str = "#!/bin/sh\necho pgdyno 9\n";
const ADDRESS: &str = "https://localhost/pgdyno-x.tar.gz?token=a/b#c";
const SCHEMAS: [&str; 3] = ["schemas", "a.sql", "a.sql"];
/// Stands for apt-get: installs the program of a package next to itself.
const APT_GET: &str =
    "#!/bin/sh\necho \"by apt-get\" >&2; tar -xzf \"$4\" -C \"${0%/*}\" --strip-components=2\n";

/// Calls the script with the package at an address, which holds this program, and with these arguments and variables.
fn install(program: &str, address: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| -> PathBuf { place.path().join(name) };
    write_program(&at("pgdyno-x/bin/pgdyno"), program);
    let tar = ["-czf", "package", "pgdyno-x"];
    said(&Command::new("tar").args(tar).current_dir(place.path()).output().unwrap());
    let sum = said(&Command::new("sha256sum").arg(at("package")).output().unwrap());
    fs::write(at("compare.sh"), SCRIPT).unwrap();
    fs::write(at("a.sql"), "").unwrap();
    write_program(&at("bin/apt-get"), APT_GET);
    write_program(&at("bin/sudo"), "#!/bin/sh\nexec \"$@\"\n");
    let mut script = Command::new("bash");
    script
        .arg("compare.sh")
        .args(arguments)
        .current_dir(place.path())
        .env_remove("GITHUB_STEP_SUMMARY")
        .envs(variables.iter().copied());
    // A function that bash takes from its environment.
    script.env("BASH_FUNC_curl%%", "() { while [ \"$1\" != -o ]; do shift; done; cp package \"$2\"; }");
    script.env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", at("bin").display()));
    script.env("PGDYNO_PACKAGE", address);
    script.env("PGDYNO_SHA256", sum.split(' ').next().unwrap()).output().unwrap()
}

#[test]
fn a_package_is_installed_by_the_path_of_its_address_and_must_run() {
    for (address, is_deb) in [
        ("https://localhost/pgdyno-x.tar.gz?token=a/b#c", false),
        ("https://localhost/pgdyno@1.tgz", false),
        ("https://localhost/x/pgdyno@1.0_amd64.deb", true),
        ("https://localhost/pgdyno.deb?X-Goog-Credential=a@b.tar.gz", true),
    ] {
        let installed = install(PROGRAM, address, &SCHEMAS, &[]);
        let text = String::from_utf8_lossy(&installed.stderr).into_owned();
        let is_used = installed.status.success() && text.contains("compare: pgdyno 9: A is ");
        assert!(is_used && text.contains("by apt-get") == is_deb, "{address}: {text}");
    }
    let broken = install("#!/bin/sh\nexit 1\n", ADDRESS, &SCHEMAS, &[]);
    let text = String::from_utf8_lossy(&broken.stderr).into_owned();
    assert!(broken.status.code() == Some(1) && text.contains("/pgdyno does not run"), "{text}");
}

#[test]
fn a_password_that_is_not_encoded_does_not_reach_git() {
    for source in [
        "https://user:s3cret#ken@localhost/x",
        "https://user:s3cret/ken@localhost/x",
        "https://user:s3cret?ken@localhost/x",
        "https://user:a@s3cret/ken@localhost/x",
        "https://s3cret#ken@localhost/x",
    ] {
        let git = ("BASH_FUNC_git%%", "() { echo \"git had $*\" >&2; }");
        let refused = install(PROGRAM, ADDRESS, &["builds", "a", "b"], &[("PGDYNO_SOURCE", source), git]);
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            refused.status.code() == Some(1) && text.contains("compare: PGDYNO_SOURCE"),
            "{source}: {text}"
        );
        assert!(
            text.contains("%3F") && !text.contains("git had") && !text.contains("s3cret"),
            "{source}: {text}"
        );
    }
}
