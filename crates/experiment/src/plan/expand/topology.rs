//! Whether a case can have the standbys that it asks for.

use model::experiment::case::Case;
use model::experiment::keys;
use model::experiment::topology::Reads;
use model::text::prose::plural;

use crate::plan::problems::Problems;
use crate::stage::nodes::{SYNCHRONOUS_NAMES, n_standbys, synchronous};

const STANDBYS: &str = keys::topology::STANDBYS.name;

/// Settings that pgdyno gives each standby itself.
const DECIDED: [&str; 4] = ["hot_standby", "primary_conninfo", "primary_slot_name", SYNCHRONOUS_NAMES];

/// Says which key is about standbys that no case has.
pub(super) fn check_use(cases: &[Case], problems: &mut Problems) {
    if cases.iter().any(|case| n_standbys(case) > 0) {
        return;
    }
    let is_given = |case: &Case| {
        let (delay, rate) = (keys::topology::DELAY, keys::topology::RATE);
        let names = [(case.get(delay).is_some(), delay.name), (case.get(rate).is_some(), rate.name)];
        names.into_iter().find(|(is_given, _)| *is_given).map(|(_, name)| name)
    };
    if let Some(name) = cases.iter().find_map(is_given) {
        problems.say(format!("{name}: no case has a standby; raise {STANDBYS}"));
    }
}

/// Says why `case` cannot have its standbys.
pub(super) fn check(case: &Case, problems: &mut Problems) {
    if let Some(problem) = of_reads(case) {
        problems.say(problem);
    }
    if n_standbys(case) == 0 {
        return;
    }
    if !case.server.source.is_embedded() {
        return problems.say(format!(
            "{STANDBYS}: pgdyno starts standbys only of a server that it runs itself; start those of a server by URL where it is, and \
             leave {STANDBYS} out: what commits wait for is seen all the same"
        ));
    }

    let all = [of_data(case), of_settings(case), of_names(case)];
    all.into_iter().flatten().for_each(|problem| problems.say(problem));
}

/// A standby takes no writes, and a client has one connection.
fn of_reads(case: &Case) -> Option<String> {
    let (reads, key) = (case.get(keys::workload::READS), keys::workload::READS);
    if reads == Reads::Primary {
        return None;
    }
    if n_standbys(case) == 0 {
        return Some(format!("{key} = \"{reads}\": the case has no standby; raise {STANDBYS}"));
    }
    if case.outage.is_some() {
        return Some(format!("{key} = \"{reads}\" and {} go apart: leave one of the two out", keys::OUTAGE));
    }
    let workload = &case.workload;
    let reads_only = |rights: &&[&str]| rights.iter().all(|right| right.eq_ignore_ascii_case("select"));
    let access = workload.kind.row().access;
    let writes = !workload.only_reads && !access.iter().all(|(_, rights)| reads_only(&rights));
    writes.then(|| {
        format!(
            "{key} = \"{reads}\": `{}` writes, which a standby refuses, and each client has one connection; give a workload that only \
             reads, such as tpcb-select",
            workload.name()
        )
    })
}

/// All nodes start from one snapshot, and share no directory.
fn of_data(case: &Case) -> Option<String> {
    let same_bytes = "all nodes start from one snapshot of the data before each run";
    if !case.prepare.restore {
        return Some(format!("{STANDBYS}: {same_bytes}, but {} is off; leave it on", keys::prepare::RESTORE));
    }
    if !case.space.snapshot {
        return Some(format!(
            "{STANDBYS}: {same_bytes}, but {} is off; leave it on",
            keys::prepare::SNAPSHOT
        ));
    }
    let outside = |key: &str| {
        format!(
            "{STANDBYS}: {key} is outside of the data directory, and two servers cannot share it; leave one of the two out"
        )
    };
    if case.server.wal_directory.is_some() {
        return Some(outside(keys::server::WAL_DIRECTORY.name));
    }
    case.workload.tablespace.as_ref().map(|_| outside(keys::workload::TABLESPACE.name))
}

fn of_settings(case: &Case) -> Option<String> {
    let settings = &case.server.settings;
    let of_primary = |wanted: &str| settings.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
    if let Some((name, _)) = of_primary(SYNCHRONOUS_NAMES) {
        return Some(format!(
            "server.settings.{name}: pgdyno names the standbys itself (s1, s2, …); say with {} which of them a commit waits for",
            keys::topology::SYNCHRONOUS
        ));
    }
    if let Some((name, value)) =
        of_primary("wal_level").filter(|(_, value)| value.eq_ignore_ascii_case("minimal"))
    {
        return Some(format!(
            "server.settings.{name} = {value}: it writes too little WAL for standbys; leave it out"
        ));
    }
    let of_standbys = case.get(keys::topology::STANDBY_SETTINGS);
    let decided =
        of_standbys.keys().find(|name| DECIDED.iter().any(|known| known.eq_ignore_ascii_case(name)))?;
    Some(format!(
        "{}.{decided}: pgdyno gives each standby its own; leave it out",
        keys::topology::STANDBY_SETTINGS
    ))
}

fn of_names(case: &Case) -> Option<String> {
    let (n, needed) = (n_standbys(case), synchronous(case).n_needed(n_standbys(case)));
    (needed > n).then(|| {
        format!(
            "{} = \"{}\": commits would wait for {}, and the case has {n}; raise {STANDBYS}",
            keys::topology::SYNCHRONOUS,
            synchronous(case),
            plural(needed, "standby"),
        )
    })
}
