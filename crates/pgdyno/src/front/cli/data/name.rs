//! The name of a workload as people type it in an option.

use std::path::Path;

use model::workload::WorkloadName;

/// Workload that an option names.
///
/// # Errors
/// In words; the path where only its `/` is missing.
pub(crate) fn workload_name(text: &str) -> Result<WorkloadName, String> {
    text.parse().map_err(|refused| as_path(text).unwrap_or(refused))
}

/// That a text is no workload, but would be one as a path, if so.
pub(crate) fn as_path(text: &str) -> Option<String> {
    let place = text.split(':').next().unwrap_or_default();
    let is_directory =
        !place.is_empty() && !place.contains('/') && Path::new(place).join("workload.toml").is_file();
    if !is_directory || text.parse::<WorkloadName>().is_ok() {
        return None;
    }
    Some(format!(
        "`{place}` is no workload that pgdyno has; did you mean the directory `./{text}`? A path has a `/`"
    ))
}
