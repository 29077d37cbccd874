//! Whether a case can have the standbys that it asks for.

use std::collections::BTreeMap;

use model::experiment::case::{Case, setting};
use model::experiment::keys;
use model::experiment::topology::outage::PRIMARY;
use model::experiment::topology::pooler::PoolerSpec;
use model::experiment::topology::{REPLAYED_S_MAX, Reads};
use model::experiment::topology::{RoundTrip, SYNCHRONOUS_NAMES, Synchronous, direct_standbys, has_relay};
use model::experiment::topology::{n_standbys, standby_name, synchronous};
use model::text::prose::plural;
use model::text::units::Span;

use crate::plan::problems::Problems;
use crate::plan::scripts::reads::{self, ReadPart};
use crate::plan::scripts::sessions;

const STANDBYS: &str = keys::topology::STANDBYS.name;

/// Settings that pgdyno gives each standby itself.
const DECIDED: [&str; 4] = ["hot_standby", "primary_conninfo", "primary_slot_name", SYNCHRONOUS_NAMES];

/// Gives all cases that have standbys a relay if one of them has one: it costs a copy and two wake-ups.
pub(crate) fn give_relays(cases: &mut [Case]) {
    if !cases.iter().any(has_relay) {
        return;
    }
    for case in cases.iter_mut().filter(|case| n_standbys(case) > 0) {
        let round_trip = case.get(keys::topology::DELAY).unwrap_or(RoundTrip::ZERO);
        case.set(keys::topology::DELAY, Some(round_trip));
    }
}

/// Says which key is about standbys that no case has.
pub(super) fn check_use(cases: &[Case], problems: &mut Problems) {
    if cases.iter().any(|case| n_standbys(case) > 0) {
        return;
    }
    let is_given = |case: &Case| {
        let (delay, rate) = (keys::topology::DELAY, keys::topology::RATE);
        let (from, settings) = (keys::topology::FROM, keys::topology::STANDBY_SETTINGS);
        let (synchronous, slots) = (keys::topology::SYNCHRONOUS, keys::topology::SLOTS);
        let waits = case.get(synchronous).is_some_and(|of| of != Synchronous::None);
        let names = [
            (waits, synchronous.name),
            (!case.get(slots), slots.name),
            (case.get(delay).is_some(), delay.name),
            (case.get(rate).is_some(), rate.name),
            (!case.get(from).is_empty(), from.name),
            (!case.get(settings).is_empty(), settings.name),
        ];
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

    let all = [
        of_data(case),
        of_settings(case),
        of_senders(case),
        of_delayed_replay(case),
        of_upstreams(case),
        of_names(case),
    ];
    all.into_iter().flatten().for_each(|problem| problems.say(problem));
}

/// Whether the load of a case comes to the primary by a way that does not lead to its standbys.
fn is_led_elsewhere(case: &Case) -> bool {
    PoolerSpec::from_case(case).is_some() || case.server.listen.is_some()
}

/// A standby takes no writes.
fn of_reads(case: &Case) -> Option<String> {
    let (place, key) = (case.get(keys::workload::READS), keys::workload::READS);
    if place == Reads::Primary {
        return None;
    }
    if n_standbys(case) == 0 {
        return Some(format!("{key} = \"{place}\": the case has no standby; raise {STANDBYS}"));
    }
    if case.outage.is_some() {
        return Some(format!("{key} = \"{place}\" and {} go apart: leave one of the two out", keys::OUTAGE));
    }
    if is_led_elsewhere(case) {
        return Some(format!(
            "{key} = \"{place}\": a pooler and server.listen lead to the primary alone; leave them out"
        ));
    }
    if is_serializable(case) {
        return Some(format!(
            "{key} = \"{place}\": {ISOLATION} is serializable, which no standby can be; choose repeatable read, or leave one of the two out"
        ));
    }
    (reads::part(&case.workload) == ReadPart::Nothing).then(|| {
        format!(
            "{key} = \"{place}\": `{}` has no transaction that only reads, as far as its text tells; give a workload that has one, such as \
             tpcb-select, or, if a function that a script calls writes nothing, that script `to = \"reads\"`",
            case.workload.name()
        )
    })
}

/// The setting of which a standby refuses a value.
const ISOLATION: &str = "default_transaction_isolation";

/// Whether sessions of a case's load begin with transactions that are serializable.
fn is_serializable(case: &Case) -> bool {
    let of_sessions = sessions::session_settings(&case.workload);
    let given =
        [&of_sessions, &case.server.settings].into_iter().find_map(|all| setting::find(all, ISOLATION));
    given.is_some_and(|(_, value)| value.eq_ignore_ascii_case("serializable"))
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
    if let Some((name, _)) = setting::find(settings, SYNCHRONOUS_NAMES) {
        return Some(format!(
            "server.settings.{name}: pgdyno names the standbys itself (s1, s2, …); say with {} which of them a commit waits for",
            keys::topology::SYNCHRONOUS
        ));
    }
    if let Some((name, value)) =
        setting::find(settings, "wal_level").filter(|(_, value)| value.eq_ignore_ascii_case("minimal"))
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

/// Each standby that streams from the primary has a sender of it, and a slot unless slots are off.
fn of_senders(case: &Case) -> Option<String> {
    let n = direct_standbys(case).len() as u64;
    let needed = [("max_wal_senders", true), ("max_replication_slots", case.get(keys::topology::SLOTS))];
    needed.into_iter().filter(|(_, is_needed)| *is_needed).find_map(|(name, _)| {
        let (name, value) = setting::find(&case.server.settings, name)?;
        let given: u64 = value.trim().parse().ok()?;
        (given < n).then(|| {
            format!(
                "server.settings.{name} = {value}: the primary needs {n}, for the standbys that stream from it; give at least as many, or \
                 leave it out"
            )
        })
    })
}

/// Before each load, all WAL of the primary is replayed on each standby.
fn of_delayed_replay(case: &Case) -> Option<String> {
    const DELAY: &str = "recovery_min_apply_delay";
    let given = |settings: BTreeMap<String, String>, prefix: &str| {
        let found = settings.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(DELAY));
        found.map(|(name, value)| (format!("{prefix}.{name}"), value))
    };
    let of_standbys =
        given(case.get(keys::topology::STANDBY_SETTINGS), keys::topology::STANDBY_SETTINGS.name);
    let (key, value) = of_standbys.or_else(|| given(case.server.settings.clone(), "server.settings"))?;
    // A number alone is milliseconds. What the server would not take, it refuses itself.
    let ms = value.trim().parse::<u64>().ok().or_else(|| Some(value.parse::<Span>().ok()?.ms))?;
    (ms >= REPLAYED_S_MAX * 1000).then(|| {
        format!(
            "{key} = {value}: before each load, pgdyno waits for each standby to replay what its primary has written, for {REPLAYED_S_MAX} s at \
             most; give less than {REPLAYED_S_MAX}s"
        )
    })
}

/// Standbys of standbys: each after the one that it streams from.
fn of_upstreams(case: &Case) -> Option<String> {
    let (key, n) = (keys::topology::FROM, n_standbys(case));
    let given = case.get(key);
    let all: Vec<String> = (1..=n).map(standby_name).collect();
    if let Some(name) = given.keys().find(|name| !all.contains(*name)) {
        return Some(format!("{key}.{name}: the case has no standby `{name}`; raise {STANDBYS}"));
    }
    let before = |name: &str| all.iter().take_while(|of| *of != name).cloned().collect::<Vec<String>>();
    let wrong = given.iter().find(|(name, from)| *from != PRIMARY && !before(name).contains(from))?;
    let choices = [vec![PRIMARY.to_string()], before(wrong.0)].concat();
    Some(format!(
        "{key}.{} = \"{}\": a standby streams from the primary or from a standby of a lower number; here from {}",
        wrong.0,
        wrong.1,
        choices.join(", ")
    ))
}

fn of_names(case: &Case) -> Option<String> {
    let n = direct_standbys(case).len() as u32;
    let needed = synchronous(case).n_needed(n);
    (needed > n).then(|| {
        format!(
            "{} = \"{}\": commits would wait for {}, and the case has {n} of the primary; raise {STANDBYS}",
            keys::topology::SYNCHRONOUS,
            synchronous(case),
            plural(needed, "standby"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::sample;

    /// The round trip of each case's relay.
    fn round_trips(text: &str) -> Vec<Option<String>> {
        let cases = sample::plan(text).cases;
        let round_trip =
            |case: &Case| case.get(keys::topology::DELAY).map(|round_trip| round_trip.to_string());
        cases.iter().map(|case| round_trip(case).filter(|_| has_relay(case))).collect()
    }

    /// Why an experiment with this section `topology`, and what follows it, is refused; empty if it is not.
    fn refusal(topology: &str) -> String {
        let text = format!("[experiment]\nname = \"x\"\n[workload]\nclients = 1\n[topology]\n{topology}\n");
        let experiment = crate::plan::file::parse("x.toml", &text, &[]).unwrap();
        crate::plan::expand::plan_unseen(&experiment).err().unwrap_or_default()
    }

    #[test]
    fn what_no_case_has_a_standby_for_is_refused_but_not_on_one_side_of_a_comparison() {
        let text = "[experiment]\nname = \"x\"\n[workload]\nclients = 1\n[topology]\nstandbys = 0\nsynchronous = \"all\"\n";
        let experiment = crate::plan::file::parse("x.toml", text, &[]).unwrap();
        assert!(crate::plan::expand::check(&experiment).unwrap_err().contains("no case has a standby"));
        crate::plan::expand::check_side(&experiment).unwrap();
    }

    #[test]
    fn reads_of_a_standby_are_not_serializable() {
        for (level, is_refused) in [("serializable", true), ("repeatable read", false)] {
            let text = format!(
                "[experiment]\nname = \"x\"\n[server]\nsettings.default_transaction_isolation = \"{level}\"\n\
                 [workload]\nkind = \"tpcb-select\"\nclients = 1\nreads = \"standbys\"\n[topology]\nstandbys = 1\n"
            );
            let experiment = crate::plan::file::parse("x.toml", &text, &[]).unwrap();
            let refused = crate::plan::expand::check(&experiment).err().unwrap_or_default();
            assert_eq!(refused.contains("which no standby can be"), is_refused, "{level}: {refused}");
        }
    }

    #[test]
    fn a_standby_streams_from_one_that_is_there_before_it() {
        for (from, expected) in [
            ("from.s2 = \"s1\"", ""),
            ("from.s2 = [\"primary\", \"s1\"]", ""),
            ("from.s3 = \"s1\"", "the case has no standby `s3`"),
            ("from.s1 = \"s2\"", "here from primary"),
            ("from.s2 = \"s2\"", "here from primary, s1"),
            ("from.s2 = \"s1\"\nsynchronous = \"any 2\"", "the case has 1 of the primary"),
        ] {
            let found = refusal(&format!("standbys = 2\n{from}"));
            assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{from}: {found}");
        }
    }

    #[test]
    fn keys_about_standbys_that_no_case_has_are_refused() {
        let setting = "standby_settings.hot_standby_feedback = \"on\"";
        for (key, text) in [
            ("topology.synchronous", "synchronous = \"all\""),
            ("topology.slots", "slots = false"),
            ("topology.delay", "delay = \"5ms\""),
            ("topology.rate", "rate = \"1MB/s\""),
            ("topology.from", "from.s2 = \"s1\""),
            ("topology.standby_settings", setting),
        ] {
            let found = refusal(text);
            assert!(found.contains(&format!("{key}: no case has a standby")), "{text}: {found}");
        }
        for about_none in ["synchronous = \"none\"", "slots = true"] {
            assert_eq!(refusal(about_none), "", "{about_none}");
        }
        assert_eq!(refusal(&format!("standbys = [0, 1]\n{setting}")), "", "one case has one");
    }

    #[test]
    fn a_primary_with_too_few_senders_or_slots_is_refused() {
        for (standbys, setting, is_refused) in [
            ("standbys = 1", "max_wal_senders = 0", true),
            ("standbys = 2", "max_wal_senders = 2", false),
            ("standbys = 2", "max_replication_slots = 1", true),
            ("standbys = 2\nfrom.s2 = \"s1\"", "max_replication_slots = 1", false),
            ("standbys = 2\nslots = false", "max_replication_slots = 0", false),
        ] {
            let found = refusal(&format!("{standbys}\n[server]\nsettings.{setting}"));
            assert_eq!(found.contains("the primary needs"), is_refused, "{standbys}, {setting}: {found}");
        }
    }

    #[test]
    fn all_cases_with_standbys_have_a_relay_if_one_has() {
        let one = "[workload]\nclients = 1\n[topology]\nstandbys = 1\n";
        let outages = "[[outage]]\ndo = [\"kill-primary\", \"cut s1\"]\n[workload]\npace = \"100/s\"\nclients = 4\n\
                       [run]\nmeasure = \"60s\"\n[topology]\nstandbys = 1\n";
        let factor = "[workload]\nclients = 1\n[topology]\nstandbys = [0, 1]\ndelay = \"5ms\"\n";
        for (text, expected) in [
            (one.to_string(), vec![None]),
            (factor.to_string(), vec![None, Some("5ms")]),
            (format!("{one}rate = \"1MB/s\"\n"), vec![Some("0ms")]),
            (outages.to_string(), vec![Some("0ms"), Some("0ms")]),
        ] {
            let expected: Vec<Option<String>> =
                expected.into_iter().map(|ms| ms.map(str::to_string)).collect();
            assert_eq!(round_trips(&text), expected, "{text}");
        }
    }

    #[test]
    fn replay_that_is_delayed_for_longer_than_it_is_waited_for_is_refused() {
        for (setting, is_refused) in [
            ("standby_settings.recovery_min_apply_delay = \"59s\"", false),
            ("standby_settings.recovery_min_apply_delay = \"2min\"", true),
            ("standby_settings.recovery_min_apply_delay = 60000", true),
            ("[server]\nsettings.recovery_min_apply_delay = \"1h\"", true),
        ] {
            let found = refusal(&format!("standbys = 1\n{setting}"));
            assert_eq!(found.contains("give less than 60s"), is_refused, "{setting}: {found}");
        }
    }
}
