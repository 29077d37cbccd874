//! Which builds of a source are kept, and what is missing here to build one, before anything is begun.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use super::maker::Maker;
use super::origin::is_hash;
use super::{BuildPlace, Recipe, SourceTree, TREE, compiler, configure_options, label_of};
use crate::binaries::fetch::Cache;
use crate::binaries::is_program;
use crate::process::spawn::output_of;

/// Programs that every build calls.
const TOOLS: [&str; 2] = ["cc", "make"];
/// Programs for a repository in addition, which has no generated files.
const REPOSITORY_TOOLS: [&str; 4] = [GIT, "bison", "flex", "perl"];
const GIT: &str = "git";

/// Why the source cannot be built here, and what to do; `None` if nothing is known to be missing, or if a build of it is kept.
pub fn lacks(cache: &Cache, source: &SourceTree) -> Option<String> {
    let builds = cache.dir.join("builds");
    if settled(&builds, source).is_some() {
        return None;
    }
    let tools = match source.revision {
        None => TOOLS.to_vec(),
        // The repository says what the revision is now.
        Some(_) if is_kept(cache, source) => vec![GIT],
        Some(_) => [&TOOLS[..], &REPOSITORY_TOOLS[..]].concat(),
    };
    let missing: Vec<&str> = tools.into_iter().filter(|tool| !is_program(tool)).collect();
    let is_here = Path::new(source.tree).exists() || has_mirror(&builds, source.tree);
    let is_asked = !is_here && source.revision.is_some() && !missing.contains(&GIT);
    let asked = is_asked.then(|| ask(source.tree, source.revision.unwrap_or(HEAD)));
    // First: nobody is to install programs for a revision that does not exist. ls-remote does not know commits.
    if let (Some(Ok(output)), Some(revision)) = (&asked, source.revision)
        && output.status.success()
        && output.stdout.is_empty()
        && !may_be_commit(revision)
    {
        return Some(format!(
            "the repository `{}` has no tag or branch {revision}; name a release or a revision that exists",
            source.tree
        ));
    }
    if !missing.is_empty() {
        let words = super::words(source);
        return Some(format!(
            "building {words} needs {}, not installed here; install it",
            missing.join(", ")
        ));
    }
    let why = match asked? {
        Ok(output) if output.status.success() => return None,
        Ok(output) => {
            String::from_utf8_lossy(&output.stderr).lines().next_back().unwrap_or_default().to_string()
        }
        Err(error) => format!("{error:#}"),
    };
    Some(format!(
        "the repository `{}` cannot be read from here ({why}); give server.source a copy of it that this machine can read",
        source.tree
    ))
}

/// The revision that every repository has.
const HEAD: &str = "HEAD";

/// Whether git may take it for a commit, of which it is the hash or a beginning of it.
fn may_be_commit(revision: &str) -> bool {
    const SHORTEST: usize = 4;
    revision.len() >= SHORTEST && revision.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What git says about a revision of a repository on another machine, asked as whoever would fetch it: with root's keys and credential
/// helpers, root would talk to a machine that only the server's user is to fetch from, and find what that user cannot read.
fn ask(address: &str, revision: &str) -> Result<Output> {
    let maker = Maker::of_what_is_fetched()?;
    let home = maker.passing_home()?;
    let home = home.as_ref().map(|scratch| scratch.given.as_path());
    let mut command = Command::new(GIT);
    command.args(["ls-remote", "--quiet", "--", address, revision]);
    maker.prepare(&mut command, home);
    if let Some(home) = home {
        command.current_dir(home);
    }
    output_of(command).context("cannot run `git`")
}

/// Whether a build of the source is kept, as it would be made now. Whether a branch or a directory has changed since then shows only
/// when it is to be built.
pub fn is_kept(cache: &Cache, source: &SourceTree) -> bool {
    // A commit is the same in any repository.
    let is_of_it = |recipe: &Recipe| source.revision.is_some() || recipe.tree == source.tree;
    kept(&cache.dir.join("builds"), source, is_of_it).is_some()
}

/// The build that is kept of a repository on another machine, if what was asked for cannot move: a commit in full, or a release's tag
/// in the same repository. It is used without that repository.
pub(super) fn settled(builds: &Path, source: &SourceTree) -> Option<BuildPlace> {
    let revision = source.revision?;
    if Path::new(source.tree).exists() || !(is_hash(revision) || is_release_tag(revision)) {
        return None;
    }
    let maker_uid = Maker::of_what_is_fetched().ok()?.uid();
    let is_of_it = |recipe: &Recipe| {
        let is_same = if is_hash(revision) { recipe.content == revision } else { recipe.tree == source.tree };
        is_same && recipe.maker_uid == maker_uid
    };
    kept(builds, source, is_of_it)
}

/// A tag of one of PostgreSQL's releases, such as `REL_12_1` or `REL9_5_21`, and no branch (`REL_12_STABLE`).
fn is_release_tag(revision: &str) -> bool {
    let is_numbers = |text: &str| text.contains('_') && text.chars().all(|c| c == '_' || c.is_ascii_digit());
    revision.strip_prefix("REL").is_some_and(is_numbers)
}

/// The build of a revision or directory of this name that would be made in the same way now.
fn kept(builds: &Path, source: &SourceTree, is_of_it: impl Fn(&Recipe) -> bool) -> Option<BuildPlace> {
    let is_meant = |recipe: &Recipe| {
        !recipe.made.is_empty()
            && recipe.revision.as_deref() == source.revision
            && recipe.configure == configure_options()
            && is_of_it(recipe)
            && compiler().is_ok_and(|compiler| recipe.compiler == compiler)
    };
    let start = format!("{}-", label_of(source.revision.unwrap_or(TREE)));
    let mut places = entries(builds, &start).map(|dir| BuildPlace { dir });
    places.find(|place| place.recipe().ok().flatten().is_some_and(|recipe| is_meant(&recipe)))
}

fn has_mirror(builds: &Path, address: &str) -> bool {
    let hash = format!("{:x}", Sha256::digest(address));
    entries(&builds.join("repositories"), &hash[..16]).any(|path| path.is_dir())
}

/// Paths of the entries whose names begin with `start`.
fn entries(dir: &Path, start: &str) -> impl Iterator<Item = PathBuf> {
    let all = fs::read_dir(dir).into_iter().flatten().flatten();
    let named = all.filter(move |entry| entry.file_name().to_string_lossy().starts_with(start));
    named.map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;
    use crate::binaries::build::FACTS_FILE;
    use crate::binaries::tree::TreeListing;

    /// Keeps a build in the cache as this process would have made it, but for a change.
    fn keep(cache: &Path, name: &str, change: &dyn Fn(&mut Recipe)) {
        let built = cache.join("builds").join(name);
        fs::create_dir_all(built.join("bin")).unwrap();
        let mut recipe = Recipe {
            tree: "/pg".to_string(),
            revision: None,
            content: String::new(),
            compiler: compiler().unwrap(),
            configure: configure_options(),
            maker_uid: Maker::of_what_is_fetched().unwrap().uid(),
            made: TreeListing::read(&built, FACTS_FILE).unwrap(),
        };
        change(&mut recipe);
        fs::write(built.join(FACTS_FILE), serde_json::to_vec(&recipe).unwrap()).unwrap();
    }

    #[test]
    fn a_repository_that_cannot_be_read_is_reported_before_anything_is_built() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path());
        let lacks_of = |tree: &str, revision| lacks(&cache, &SourceTree { tree, revision });
        let gone = format!("file://{}/none.git", dir.path().display());
        let why = lacks_of(&gone, Some("REL_12_1")).unwrap();
        assert!(why.contains("cannot be read from here") || why.contains("not installed here"), "{why}");
        keep(dir.path(), "REL_12_1-01", &|recipe| recipe.revision = Some("REL_12_1".to_string()));
        assert!(
            lacks_of(&gone, Some("REL_12_1")).is_some(),
            "of another repository, where the tag may be another commit"
        );
        keep(dir.path(), "REL_12_1-02", &|recipe| {
            (recipe.tree, recipe.revision) = (gone.clone(), Some("REL_12_1".to_string()));
        });
        assert_eq!(lacks_of(&gone, Some("REL_12_1")), None);
        assert!(lacks_of(&gone, Some("REL_12_2")).is_some());
    }

    const TEST: &str = "binaries::build::lacks::tests::root_asks_another_machine_as_the_servers_user";
    const AGAIN: &str = "PGDYNO_TEST_AGAIN";

    /// In a process of its own, which finds our `git`.
    #[test]
    fn root_asks_another_machine_as_the_servers_user() {
        let source = SourceTree { tree: "https://other.example/pg.git", revision: Some("master") };
        if env::var_os(AGAIN).is_some() {
            let why = lacks(&Cache::at("/nowhere"), &source).unwrap();
            return assert!(why.contains("cannot be read from here (no network)"), "{why}");
        }
        let place = testbed::place();
        let log = place.path().join("log");
        fs::write(&log, "").unwrap();
        fs::set_permissions(&log, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        for tool in REPOSITORY_TOOLS.iter().chain(&TOOLS) {
            let text = format!(
                "#!/bin/sh\necho \"$(id -u) $HOME $1\" >>{}\npwd\necho no network >&2\nexit 1\n",
                log.display()
            );
            crate::binaries::write_program(&place.path().join(tool), &text);
        }
        let path = format!("{}:{}", place.path().display(), env::var("PATH").unwrap());
        let home = place.path().join("home");
        let mut again = Command::new(env::current_exe().unwrap());
        again.args([TEST, "--exact"]).env(AGAIN, "").env("PATH", path).env("HOME", &home);
        let ended = again.output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
        let account = crate::user::account::Account::choose().unwrap();
        let said = fs::read_to_string(&log).unwrap();
        let asked = said.lines().find(|line| line.ends_with(" ls-remote")).expect("git was asked");
        assert!(asked.starts_with(&format!("{} ", account.uid)), "{asked}");
        assert_eq!(asked.contains(&home.display().to_string()), !account.is_switched, "{asked}");
        if account.is_switched {
            let home = asked.split(' ').nth(1).unwrap();
            assert!(!Path::new(home).exists(), "{home} is left");
        }
    }

    #[test]
    fn a_build_is_used_without_its_repository_if_its_revision_cannot_move() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, commit) = ("https://other.example/pg.git", "0123456789".repeat(4));
        let is_settled = |tree: &str, revision: &str| {
            settled(&dir.path().join("builds"), &SourceTree { tree, revision: Some(revision) }).is_some()
        };
        for (n, revision) in ["REL9_5_21", "REL_12_STABLE", "master", &commit].into_iter().enumerate() {
            keep(dir.path(), &format!("{revision}-{n}"), &|recipe| {
                (recipe.tree, recipe.revision) = (tree.to_string(), Some(revision.to_string()));
                recipe.content.clone_from(&commit);
            });
        }
        let there =
            ["REL9_5_21", "REL_12_STABLE", "master", &commit].map(|revision| is_settled(tree, revision));
        assert_eq!(there, [true, false, false, true]);
        assert!(!is_settled("https://fork.example/pg.git", "REL9_5_21"));
        assert!(is_settled("https://fork.example/pg.git", &commit));
        assert!(!is_settled(&dir.path().display().to_string(), &commit), "a repository here is asked");
        keep(dir.path(), "REL_12_2-8", &|recipe| {
            (recipe.tree, recipe.revision) = (tree.to_string(), Some("REL_12_2".to_string()));
            recipe.maker_uid = Some(12_345);
        });
        assert!(!is_settled(tree, "REL_12_2"), "users do not share what they have made");
    }

    #[test]
    fn a_build_is_kept_if_it_would_be_made_the_same_way_now() {
        let dir = tempfile::tempdir().unwrap();
        let is_kept = |tree, revision| is_kept(&Cache::at(dir.path()), &SourceTree { tree, revision });
        let keep = |name: &str, change: &dyn Fn(&mut Recipe)| keep(dir.path(), name, change);
        keep("tree-01", &|recipe| recipe.made = TreeListing::default());
        keep("tree-02", &|recipe| recipe.compiler.push('+'));
        keep("tree-03", &|recipe| recipe.configure.clear());
        keep("tree-x-04", &|recipe| recipe.revision = Some("tree-x".to_string()));
        assert!(!is_kept("/pg", None));
        keep("tree-05", &|_| {});
        keep("REL_12_1-06", &|recipe| recipe.revision = Some("REL_12_1".to_string()));
        assert!(is_kept("/pg", None) && !is_kept("/other", None));
        assert!(is_kept("/other", Some("REL_12_1")) && !is_kept("/pg", Some("REL_12_2")));
    }
}
