//! What hiding secrets needs from outside: the key of the marks, and the values again when an experiment is resumed.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use experiment::plan::scripts::directories;
use model::experiment::Experiment;
use model::experiment::plan::Plan;
use model::secret::{self, Revealed};
use nix::unistd::geteuid;
use server::Cache;

use crate::front::cli::ExperimentArgs;
use crate::front::setup;

/// The key is in the cache, not in the results: results are shared, and whoever has the key can try guesses against the
/// marks.
const KEY: &str = "hiding-key";

/// The key of the marks, created on first use. If it cannot be stored it lives as long as this process; then marks of
/// different processes differ.
pub(crate) fn key() -> Option<[u8; 32]> {
    let kept = Cache::default_location().ok().and_then(|cache| kept(&cache.dir).ok());
    kept.or_else(|| random().ok())
}

fn kept(dir: &Path) -> Result<[u8; 32]> {
    let path = dir.join(KEY);
    if !fs::exists(&path)? {
        // Whoever can write to the cache could redirect the key or know it.
        files::trust::make_directory(dir)?;
        let new = dir.join(format!("{KEY}.{}", std::process::id()));
        files::replace(&new, files::PRIVATE, &random()?)?;
        // Of several processes that create it at once, the first wins.
        let linked = fs::hard_link(&new, &path);
        fs::remove_file(&new)?;
        if !fs::exists(&path)? {
            linked?;
        }
    }
    let file = files::open(&path)?;
    let facts = file.metadata()?;
    ensure!(facts.uid() == geteuid().as_raw() && facts.mode() & 0o077 == 0, "others can read the key");
    bytes_of(file)
}

fn random() -> Result<[u8; 32]> {
    bytes_of(File::open("/dev/urandom")?)
}

fn bytes_of(mut file: File) -> Result<[u8; 32]> {
    let mut bytes = [0; 32];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Rejects an experiment file taken from results with a hidden value: the mark would be used as the value.
///
/// # Errors
/// Says which mark, and what to do.
pub(crate) fn expect_all_given(name: &str, experiment: &Experiment) -> Result<()> {
    let text = serde_json::to_string(experiment)?;
    match first_mark(&text) {
        Some(mark) => bail!(
            "{name}: a secret was hidden as `{mark}` when these results were written; replace the mark by the value"
        ),
        None => Ok(()),
    }
}

/// Refuses a plan with hidden values: without them it cannot be repeated.
///
/// # Errors
/// Says which mark.
pub(crate) fn expect_none(plan: &Plan) -> Result<()> {
    let text = serde_json::to_string(plan)?;
    match first_mark(&text) {
        Some(mark) => bail!(
            "a value of the plan was hidden as `{mark}` when the results were written, so the same cannot be measured without it; \
             put the value into the experiment file and use pgdyno run"
        ),
        None => Ok(()),
    }
}

/// The stored plan with its hidden values put back, from the experiment that the user gives again, and with the captured rows that its
/// workload directories draw from.
///
/// # Errors
/// When a value is missing, or differs from the one that the experiment began with.
pub(crate) fn put_back(path: &Path, stored: &Plan, given: &ExperimentArgs) -> Result<Plan> {
    let mut plan = with_values(path, stored, given)?;
    directories::find_draws(&mut plan, path);
    Ok(plan)
}

fn with_values(path: &Path, stored: &Plan, given: &ExperimentArgs) -> Result<Plan> {
    let text = serde_json::to_string(stored)?;
    let is_given = given.experiment.is_some()
        || [&given.scripts, &given.defines, &given.set].iter().any(|values| !values.is_empty());
    let Some(mark) = first_mark(&text) else {
        ensure!(
            !is_given,
            "`{}` has its own plan without hidden values: use --resume without an experiment",
            path.display()
        );
        return Ok(stored.clone());
    };
    let how = format!(
        "give the same experiment again: pgdyno run --resume {} EXPERIMENT, with the same -f, -D and --set",
        path.display()
    );
    ensure!(
        is_given,
        "a value of the plan was hidden (`{mark}`) when `{}` was written; {how}",
        path.display()
    );
    let revealed: Revealed = setup::secrets_of(given)?;
    let whole = revealed.put_back(&text);
    if let Some(mark) = first_mark(&whole) {
        bail!(
            "what was hidden as `{mark}` in `{}` is not in the experiment given, or has another value; {how}",
            path.display()
        );
    }
    serde_json::from_str(&whole).context("cannot put hidden values back into the plan")
}

fn first_mark(text: &str) -> Option<&str> {
    secret::is_marked(text).then(|| {
        let from = text.find("(hidden").unwrap_or_default();
        &text[from..text[from..].find(')').map_or(text.len(), |end| from + end + 1)]
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_key_is_made_once_for_its_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("cache");
        let key = kept(&cache).unwrap();
        assert_eq!(kept(&cache).unwrap(), key);
        let path = cache.join(KEY);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&cache).unwrap().count(), 1);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(kept(&cache).is_err(), "its group knows it");
        fs::remove_file(&path).unwrap();
        fs::set_permissions(&cache, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(kept(&cache).is_err() && !path.exists(), "everybody could have put it there");
    }
}
