//! Whether a case can archive WAL as it asks for.

use model::experiment::case::{Case, setting};
use model::experiment::keys;
use model::experiment::topology::{ARCHIVE_SETTINGS, ArchiveKind};

use crate::plan::problems::Problems;

const KIND: &str = keys::topology::archive::KIND.name;
const COMMAND: &str = keys::topology::archive::COMMAND.name;

/// Says why `case` cannot archive.
pub(super) fn check(case: &Case, problems: &mut Problems) {
    let kind = ArchiveKind::from_case(case);
    if kind == ArchiveKind::None {
        return;
    }
    if !case.server.source.is_embedded() {
        return problems.say(format!(
            "{KIND} = \"{kind}\": pgdyno archives only the WAL of a server that it runs itself, since archive_mode needs a restart; \
             configure a server by URL where it is, and leave {KIND} out: what waits to be archived is seen all the same"
        ));
    }
    let all = [of_command(case, kind), of_restore(case), of_settings(case)];
    all.into_iter().flatten().for_each(|problem| problems.say(problem));
}

fn of_command(case: &Case, kind: ArchiveKind) -> Option<String> {
    let command = case.get(keys::topology::archive::COMMAND).unwrap_or_default();
    let is_missing = kind == ArchiveKind::Command && command.trim().is_empty();
    is_missing.then(|| {
        format!("{KIND} = \"{kind}\": there is no command; say with {COMMAND} what archives a segment, such as \"cp %p /archive/%f\"")
    })
}

/// Each run begins with nothing to archive.
fn of_restore(case: &Case) -> Option<String> {
    (!case.prepare.restore).then(|| {
        format!(
            "{KIND}: each run begins with nothing to archive, but {} is off, so that segments of the run before may wait; leave it on",
            keys::prepare::RESTORE
        )
    })
}

fn of_settings(case: &Case) -> Option<String> {
    let settings = &case.server.settings;
    let is_decided = |name: &str| ARCHIVE_SETTINGS.iter().any(|known| known.eq_ignore_ascii_case(name));
    if let Some(name) = settings.keys().find(|name| is_decided(name)) {
        return Some(format!("server.settings.{name}: {KIND} sets it; leave one of the two out"));
    }
    let of_level = setting::find(settings, "wal_level");
    let (name, value) = of_level.filter(|(_, value)| value.eq_ignore_ascii_case("minimal"))?;
    Some(format!("server.settings.{name} = {value}: it writes too little WAL for an archive; leave it out"))
}
