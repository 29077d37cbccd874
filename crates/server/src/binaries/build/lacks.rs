//! What is missing here to build a source, before anything is begun.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use sha2::{Digest, Sha256};

use super::{BuildPlace, FACTS_FILE, Source, TREE, clean_environment, label_of};
use crate::binaries::fetch::Cache;
use crate::process::spawn::output_of;

/// Programs that every build calls.
const TOOLS: [&str; 2] = ["cc", "make"];
/// Programs for a repository in addition, which has no generated files.
const REPOSITORY_TOOLS: [&str; 4] = ["git", "bison", "flex", "perl"];

/// Why the source cannot be built here, and what to do; `None` if nothing is known to be missing, or if it has been built.
pub fn lacks(cache: &Cache, source: &Source) -> Option<String> {
    let builds = cache.dir.join("builds");
    if has_build(&builds, source) {
        return None;
    }
    let of_repository = if source.revision.is_some() { &REPOSITORY_TOOLS[..] } else { &[] };
    let missing: Vec<&str> =
        TOOLS.iter().chain(of_repository).copied().filter(|tool| !is_on_path(tool)).collect();
    if !missing.is_empty() {
        let words = super::words(source);
        return Some(format!(
            "building {words} needs {}, not installed here; install it",
            missing.join(", ")
        ));
    }
    let is_here = Path::new(source.tree).exists() || has_mirror(&builds, source.tree);
    if is_here || source.revision.is_none() {
        return None;
    }
    let mut command = Command::new("git");
    clean_environment(command.args(["ls-remote", "--quiet", "--", source.tree, "HEAD"]));
    let why = match output_of(command) {
        Ok(output) if output.status.success() => return None,
        Ok(output) => {
            String::from_utf8_lossy(&output.stderr).lines().next_back().unwrap_or_default().to_string()
        }
        Err(error) => error.to_string(),
    };
    Some(format!(
        "the repository `{}` cannot be read from here ({why}); give server.source a copy of it that this machine can read",
        source.tree
    ))
}

fn is_on_path(tool: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|dir| dir.join(tool).is_file())
}

/// Whether a build of the source is kept, as it would be made now. Whether a branch or a directory has changed since then shows only
/// when it is to be built.
pub fn is_kept(cache: &Cache, source: &Source) -> bool {
    let is_of_it = |dir: &Path| {
        let recipe = BuildPlace { dir: dir.to_path_buf() }.recipe().ok().flatten();
        recipe.is_some_and(|recipe| {
            !recipe.made.is_empty()
                && recipe.revision.as_deref() == source.revision
                // A commit is the same in any repository.
                && (source.revision.is_some() || recipe.tree == source.tree)
                && recipe.configure == super::configure_options()
                && super::compiler().is_ok_and(|compiler| recipe.compiler == compiler)
        })
    };
    let start = format!("{}-", label_of(source.revision.unwrap_or(TREE)));
    has_entry(&cache.dir.join("builds"), &start, is_of_it)
}

/// Whether a build of a revision of this name is kept: of this repository, or of another one.
fn has_build(builds: &Path, source: &Source) -> bool {
    let Some(revision) = source.revision else { return false };
    let start = format!("{}-", label_of(revision));
    has_entry(builds, &start, |dir| dir.join(FACTS_FILE).is_file())
}

fn has_mirror(builds: &Path, address: &str) -> bool {
    let hash = format!("{:x}", Sha256::digest(address));
    has_entry(&builds.join("repositories"), &hash[..16], Path::is_dir)
}

fn has_entry(dir: &Path, start: &str, is_meant: impl Fn(&Path) -> bool) -> bool {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(start));
    named.any(|entry| is_meant(&entry.path()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binaries::build::Recipe;
    use crate::binaries::tree::Tree;

    #[test]
    fn a_repository_that_cannot_be_read_is_reported_before_anything_is_built() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path());
        let lacks_of = |tree: &str, revision| lacks(&cache, &Source { tree, revision });
        let gone = format!("file://{}/none.git", dir.path().display());
        let why = lacks_of(&gone, Some("REL_12_1")).unwrap();
        assert!(why.contains("cannot be read from here") || why.contains("not installed here"), "{why}");
        let built = dir.path().join("builds/REL_12_1-0123");
        fs::create_dir_all(&built).unwrap();
        assert!(lacks_of(&gone, Some("REL_12_1")).is_some(), "not complete");
        fs::write(built.join(FACTS_FILE), "{}").unwrap();
        assert_eq!(lacks_of(&gone, Some("REL_12_1")), None);
        assert!(lacks_of(&gone, Some("REL_12_2")).is_some());
    }

    #[test]
    fn a_build_is_kept_if_it_would_be_made_the_same_way_now() {
        let dir = tempfile::tempdir().unwrap();
        let is_kept = |tree, revision| is_kept(&Cache::at(dir.path()), &Source { tree, revision });
        let keep = |name: &str, change: &dyn Fn(&mut Recipe)| {
            let built = dir.path().join("builds").join(name);
            fs::create_dir_all(built.join("bin")).unwrap();
            let mut recipe = Recipe {
                tree: "/pg".to_string(),
                revision: None,
                content: String::new(),
                compiler: crate::binaries::build::compiler().unwrap(),
                configure: crate::binaries::build::configure_options(),
                maker_uid: None,
                made: Tree::of(&built, FACTS_FILE).unwrap(),
            };
            change(&mut recipe);
            fs::write(built.join(FACTS_FILE), serde_json::to_vec(&recipe).unwrap()).unwrap();
        };
        keep("tree-01", &|recipe| recipe.made = Tree::default());
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
