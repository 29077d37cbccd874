//! What a captured workload asks of a plan: its rate, as many clients as serve it, and data that is there.

use std::path::Path;

use generator::Instance;
use model::directory::CapturedFrom;
use model::experiment::WorkloadSection;
use model::experiment::case::directory::WorkloadDirectory;
use model::experiment::script::CaseData;
use model::experiment::script::archive::RestoreFrom;
use model::load::Pace;
use model::workload::WorkloadName;

use crate::plan::archive;

/// Fewest and most clients of a captured workload if nobody says how many, and how many more than there were sessions at the source:
/// a client is waited for where all are busy, which the source never had.
const N_CLIENTS_LEAST: u32 = 16;
const N_CLIENTS_MOST: u32 = 1000;
const TIMES_SESSIONS: u32 = 2;

/// Where a directory comes from, if it was captured.
pub(super) fn from(instance: &Instance) -> Option<CapturedFrom> {
    let captured = instance.manifest().captured.clone()?;
    Some(CapturedFrom {
        server: captured.server,
        system_identifier: captured.system_identifier,
        rate_per_s: captured.rate_per_s,
        n_clients: captured.n_clients,
    })
}

/// Whether the rate of a directory is known.
pub(super) fn has_rate(source: Option<&CapturedFrom>) -> bool {
    source.is_some_and(|source| source.rate_per_s.is_some())
}

fn rate_per_s(directory: &WorkloadDirectory) -> Option<f64> {
    directory.captured.as_ref()?.rate_per_s
}

/// The clients of a captured workload, if nobody says how many.
pub(super) fn n_clients(source: Option<&CapturedFrom>) -> Option<u32> {
    let captured = source?;
    let of_source = captured.n_clients.unwrap_or(0).saturating_mul(TIMES_SESSIONS);
    captured.rate_per_s.map(|_| of_source.clamp(N_CLIENTS_LEAST, N_CLIENTS_MOST))
}

/// The pace of a case: a multiple of the rate of the capture becomes a rate.
///
/// # Errors
/// When no such rate is known.
pub(crate) fn resolved(pace: Pace, directory: Option<&WorkloadDirectory>) -> Result<Pace, String> {
    let Pace::TimesCaptured { times } = pace else { return Ok(pace) };
    let rate = directory.and_then(rate_per_s).ok_or_else(|| {
        format!("workload.pace: `{pace}` is a multiple of the rate that a workload directory was captured at, and there is none; give a rate, as 500/s")
    })?;
    Ok(Pace::Poisson { rate_per_s: rate * times })
}

/// The data of a case with a directory.
///
/// # Errors
/// When the directory makes no data, and nothing says where it is.
pub(crate) fn data_of(
    section: &WorkloadSection,
    name: &str,
    is_there: bool,
    is_by_url: bool,
) -> Result<CaseData, String> {
    match (archive::data_of(section, None), is_there) {
        (Some(archive), true) => Ok(archive),
        (Some(_), false) => {
            Err(format!("workload.restore_from: workload directory `{name}` makes its own data"))
        }
        (None, true) if is_by_url => Ok(CaseData::None),
        (None, true) => Err(format!(
            "workload directory `{name}` is for data that is there (`data = \"existing\"`): name the server that has it (--server URL), or \
             an archive of it (workload.restore_from)"
        )),
        (None, false) => Ok(CaseData::Directory),
    }
}

/// Whether a directory makes no data.
pub fn is_for_existing_data(instance: &Instance) -> bool {
    instance.manifest().data.is_there()
}

/// The archive that a directory names, relative to `dir`, unless the experiment names one.
///
/// # Errors
/// When it is behind a link: whoever wrote the directory does not say what else is read here.
pub(super) fn name_archive(section: &mut WorkloadSection, dir: &Path) -> Result<(), String> {
    if section.restore_from.is_some() {
        return Ok(());
    }
    let places: Vec<String> = section
        .kind
        .all()
        .iter()
        .filter_map(WorkloadName::directory)
        .map(|name| name.place.clone())
        .collect();
    let [place] = &places[..] else { return Ok(()) };
    let text = section.directories.get(place).and_then(|files| files.get(super::files::MANIFEST));
    let Some(file) = text.and_then(|text| archive_in(text)) else { return Ok(()) };
    super::files::expect_no_link(&dir.join(place), &file)
        .map_err(|why| format!("workload directory `{place}`: {why}"))?;
    section.restore_from = Some(RestoreFrom::Named(Path::new(place).join(file)));
    Ok(())
}

/// The archive that a `workload.toml` names, relative to it. One that is elsewhere is none: it is a mistake of the file.
pub(super) fn archive_in(manifest: &str) -> Option<String> {
    let manifest = manifest.parse::<toml::Table>().ok()?;
    let file = manifest.get("data")?.as_table()?.get("restore_from")?.as_str()?;
    generator::is_inside(file).then(|| file.to_string())
}
