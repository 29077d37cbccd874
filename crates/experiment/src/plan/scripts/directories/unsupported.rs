//! What a `workload.toml` may ask of a study that this pgdyno does not do yet: it is refused by name, and never left out in silence.
//! What it may ask of a load, crate `workload` knows.

use generator::{Instance, Problem};

/// Keys that the directory has and that nothing does yet.
pub(super) fn problems(instance: &Instance) -> Vec<Problem> {
    let manifest = instance.manifest();
    let mut found: Vec<String> = Vec::new();
    if manifest.defaults.is_analytical {
        found.push("[defaults]: `kind = \"analytical\"` is not supported yet; leave it out".to_string());
    }
    if manifest.defaults.explain {
        found.push("[defaults]: `explain` is not supported yet; leave it out".to_string());
    }
    let with_answer = instance.transactions().iter().filter(|one| one.check_answer.is_some());
    found.extend(
        with_answer.map(|one| {
            format!("transaction `{}`: `check_answer` is not supported yet; leave it out", one.name)
        }),
    );
    found.into_iter().map(|message| Problem::whole(super::files::MANIFEST, message)).collect()
}
