//! The outage of a case: when it may begin, what follows it, and whether the case can have it.

use model::experiment::case::{Case, OnLostConnection, WorkloadSpec};
use model::experiment::keys;
use model::experiment::topology::n_standbys;
use model::experiment::topology::outage::{
    Fault, Moment, OutageLevel, OutageSection, OutageSpec, PRIMARY, Then,
};
use model::experiment::topology::pooler::{PoolerKind, PoolerSpec};
use model::load::Window;
use model::load::execution::TRANSACTIONS_MAX;

use crate::plan::problems::Problems;

/// Time that a manager takes to notice that a server is gone, if the experiment does not say, seconds. Our convention.
const NOTICED_AFTER_S: f64 = 1.0;
/// Time that the load must go on after the last moment at which an outage may begin, seconds: without it, no end of the outage is
/// seen.
const REST_MIN_S: f64 = 5.0;

/// The outage that a level names, for a load with this window.
pub(super) fn spec(level: OutageLevel, window: Window, n_standbys: u32) -> OutageSpec {
    let OutageLevel { name, table, fault } = level;
    let (ramp_up_s, measure_s) = (f64::from(window.ramp_up_s), f64::from(window.measure_s));
    let third_s = measure_s / 3.0;
    // A short measurement leaves less than a third.
    let then = table.then.clone().unwrap_or_else(|| usually(fault, n_standbys));
    let lasts_s = table.lasts.map(|span| span.ms as f64 / 1000.0);
    let latest_s = (2.0 * third_s).min(measure_s - needs_s(fault, after_s(&then), lasts_s)).max(third_s);
    let middle = Moment { from_s: ramp_up_s + third_s, to_s: ramp_up_s + latest_s };
    let Moment { from_s, to_s } = table.at.unwrap_or(middle);
    OutageSpec {
        name,
        fault: fault.clone(),
        from_s,
        to_s,
        then,
        lasts_s,
        run: table.run.clone(),
        undo: table.undo.clone(),
        check: table.check.clone(),
        script: fault.script().and_then(|file| table.scripts.get(file).cloned()),
    }
}

/// Seconds of measurement without which the end of an outage is not seen, whatever the ramp-up.
pub(crate) fn least_measure_s(outage: &OutageSection) -> u32 {
    let after_s = outage.then.as_ref().map_or(NOTICED_AFTER_S, after_s);
    let lasts_s = outage.lasts.map(|span| span.ms as f64 / 1000.0);
    let rests = outage.faults.0.iter().map(|fault| needs_s(fault, after_s, lasts_s));
    let rest_s = rests.fold(0.0, f64::max);
    // By itself, it begins after a third of the measurement at the earliest.
    let least_s = outage.at.map_or(1.5 * rest_s, |at| at.to_s + rest_s);
    least_s.ceil() as u32
}

/// How much of a load an outage needs from its begin on, seconds: until the step that follows or the end of the pause of a pooler, and the
/// time without which its end is not seen; and all that it lasts.
fn needs_s(fault: &Fault, after_s: f64, lasts_s: Option<f64>) -> f64 {
    let lasts_s = lasts_s.unwrap_or(0.0);
    let paused_s = if *fault == Fault::Switchover { lasts_s } else { 0.0 };
    (after_s + paused_s + REST_MIN_S).max(lasts_s)
}

/// Time until the step that follows, seconds.
fn after_s(then: &Then) -> f64 {
    match then {
        Then::Nothing => 0.0,
        Then::Promote { after_s, .. } | Then::Restart { after_s } => *after_s,
    }
}

/// What a manager does about a fault: it promotes a standby if there is one, else it starts the server again.
fn usually(fault: &Fault, n_standbys: u32) -> Then {
    let after_s = NOTICED_AFTER_S;
    match fault {
        fault if fault.ends_primary() && *fault != Fault::Switchover && n_standbys > 0 => {
            Then::Promote { node: "s1".to_string(), after_s }
        }
        fault if fault.ends_primary() && *fault != Fault::Switchover => Then::Restart { after_s },
        _ => Then::Nothing,
    }
}

/// Gives the load of a case with an outage what it needs to see it.
pub(super) fn prepare(workload: &mut WorkloadSpec) {
    workload.on_disconnect = OnLostConnection::Reconnect;
}

/// Says why `case` cannot have its outage.
pub(super) fn check(case: &Case, problems: &mut Problems) {
    let Some(outage) = &case.outage else { return };
    let all = [
        of_load(case, outage),
        of_nodes(case, outage),
        of_rate(case, outage),
        of_steps(case, outage),
        of_commands(case, outage),
    ];
    for problem in all.into_iter().flatten() {
        problems.say(format!("{} \"{}\": {problem}", keys::OUTAGE, outage.name));
    }
}

/// An outage is judged by the transactions that were due.
fn of_load(case: &Case, outage: &OutageSpec) -> Option<String> {
    let pace = case.workload.pace;
    if !pace.is_open() || pace.target().is_some() {
        return Some(format!(
            "it is judged by the transactions that were due, and with {} = \"{pace}\" none is due while none is served; give a rate, \
             such as --pace 500/s",
            keys::workload::PACE
        ));
    }
    let load_s = f64::from(case.window.load_s());
    if outage.to_s + REST_MIN_S > load_s {
        return Some(format!(
            "it may begin {:.0} s after the load, which lasts {load_s:.0} s; leave at least {REST_MIN_S:.0} s to see its end: raise {}, or \
             lower at",
            outage.to_s,
            keys::run::MEASURE
        ));
    }
    if outage.to_s + after_s(&outage.then) + REST_MIN_S > load_s {
        return Some(format!(
            "\"{}\" leaves less than {REST_MIN_S:.0} s of a load of {load_s:.0} s to see what follows; raise {}, or lower the time",
            outage.then,
            keys::run::MEASURE
        ));
    }
    if let Some(lasts_s) = outage.lasts_s
        && outage.to_s + needs_s(&outage.fault, 0.0, outage.lasts_s) > load_s
    {
        let rest = match outage.fault {
            Fault::Switchover => format!(", of which {REST_MIN_S:.0} s must be left to see the end"),
            _ => String::new(),
        };
        return Some(format!(
            "for = {lasts_s} s, which may begin {:.0} s after the load, outlasts the load of {load_s:.0} s{rest}; lower for or at, or raise {}",
            outage.to_s,
            keys::run::MEASURE
        ));
    }
    let n = pace.rate_per_s().unwrap_or(0.0) * load_s;
    (n > TRANSACTIONS_MAX as f64).then(|| {
        format!(
            "each transaction is recorded, and {n:.0} are more than {TRANSACTIONS_MAX}; lower the rate or {}",
            keys::run::MEASURE
        )
    })
}

fn of_nodes(case: &Case, outage: &OutageSpec) -> Option<String> {
    let n = n_standbys(case);
    if outage.fault != Fault::Hook && !case.server.source.is_embedded() {
        return Some(format!(
            "pgdyno harms only servers that it runs itself; give do = \"hook\" with commands of yours, or leave {} out",
            keys::server::URL
        ));
    }
    let has = |node: &str| node == PRIMARY || (1..=n).any(|number| node == format!("s{number}"));
    let promoted = match &outage.then {
        Then::Promote { node, .. } => Some(node.as_str()),
        _ => None,
    };
    let needed = (outage.fault == Fault::Switchover).then_some("s1");
    let named = outage.fault.node().into_iter().chain(promoted).chain(needed);
    if let Some(node) = named.into_iter().find(|node| !has(node)) {
        return Some(format!("the case has no node `{node}`; raise {}", keys::topology::STANDBYS));
    }
    let takes_over = promoted.or(needed).is_some();
    if takes_over && let Some(problem) = of_way(case, outage) {
        return Some(problem);
    }
    if promoted == Some(PRIMARY) {
        return Some("the primary cannot be promoted; name a standby, or say restart".to_string());
    }
    let fault = &outage.fault;
    let of_standby = fault.is_of_way() || matches!(fault, Fault::KillStandby(_));
    let is_of_standby = of_standby && fault.node() == Some(PRIMARY);
    is_of_standby.then(|| "it is for a standby: s1, s2, …".to_string())
}

/// Why a lower rate changes nothing.
fn of_rate(case: &Case, outage: &OutageSpec) -> Option<String> {
    let Fault::Throttle { rate, .. } = &outage.fault else { return None };
    let of_way = case.get(keys::topology::RATE).filter(|of_way| of_way <= rate)?;
    let key = keys::topology::RATE;
    Some(format!(
        "{key} = \"{of_way}\" lets no more pass anyway, so that it limits nothing; give a lower rate, or raise {key}"
    ))
}

/// Why clients are not led to a standby that takes over.
fn of_way(case: &Case, outage: &OutageSpec) -> Option<String> {
    if case.server.listen.is_some() {
        return Some(format!(
            "{} leads to the former primary, and never to the standby that takes over; leave it out",
            keys::server::LISTEN
        ));
    }
    let pooler = PoolerSpec::from_case(case)?;
    if pooler.kind == PoolerKind::Command {
        return Some(
            "the pooler leads to the former primary, and pgdyno leads only pgbouncer to the standby that takes over; leave it out"
                .to_string(),
        );
    }
    if !pooler.is_asked {
        return Some(format!(
            "{} = \"none\": pgbouncer is led to the standby that takes over by its console; leave the key out",
            keys::pooler::ADMIN
        ));
    }
    let waits = outage.fault == Fault::Switchover && !pooler.shares_sessions();
    waits.then(|| {
        format!(
            "{} = \"session\": the pooler is paused for a switchover, and waits for clients to leave, which they do not; use transaction",
            keys::pooler::MODE
        )
    })
}

/// Steps that could not be taken, or would be without effect.
fn of_steps(case: &Case, outage: &OutageSpec) -> Option<String> {
    let (fault, then) = (&outage.fault, &outage.then);
    let ends = fault.ends_primary() || matches!(fault, Fault::KillStandby(_));
    if *then != Then::Nothing && !case.server.source.is_embedded() {
        return Some(format!(
            "\"{then}\": pgdyno promotes and starts only servers that it runs itself; your commands do it"
        ));
    }
    if *then != Then::Nothing && *fault == Fault::Switchover {
        return Some(format!("\"{then}\": a switchover promotes s1 itself; leave then out"));
    }
    if matches!(then, Then::Restart { .. }) && !ends && *fault != Fault::Hook {
        return Some(format!(
            "\"{then}\": the server goes on by itself; leave then out, and say with for how long the fault lasts"
        ));
    }
    if matches!(then, Then::Promote { node, .. } if fault.node() == Some(node.as_str()) && !fault.ends_primary())
    {
        return Some(format!("\"{then}\": it is the node that the fault hits; name another one"));
    }
    let is_paused = *fault == Fault::Switchover && PoolerSpec::from_case(case).is_some();
    (outage.lasts_s.is_some() && ends && !is_paused).then(|| {
        "for is the time after which a fault is undone, and this one is not undone; leave it out".to_string()
    })
}

fn of_commands(case: &Case, outage: &OutageSpec) -> Option<String> {
    let is_hook = outage.fault == Fault::Hook;
    let has_commands = !(outage.run.is_empty() && outage.undo.is_empty() && outage.check.is_empty());
    if !is_hook && has_commands {
        return Some("run, undo and check are commands of yours, which are for do = \"hook\"".to_string());
    }
    if !is_hook {
        return None;
    }
    if outage.run.is_empty() {
        return Some("run is missing: the command that does it".to_string());
    }
    let is_by_url = !case.server.source.is_embedded();
    (is_by_url && (outage.undo.is_empty() || outage.check.is_empty())).then(|| {
        "for a server by URL it needs undo, the command that undoes it, and check, the one that shows that it happened".to_string()
    })
}

#[cfg(test)]
mod tests {
    use crate::plan::{expand, file};

    /// Why an outage of a load of 60 s is refused, or else when it begins at the latest.
    fn planned(outage: &str) -> Result<f64, String> {
        let text = format!(
            "[experiment]\nname = \"x\"\n[workload]\nclients = 1\npace = \"10/s\"\n[run]\nramp_up = \"0s\"\nmeasure = \"60s\"\n\
             [topology]\nstandbys = 1\n[pooler]\nkind = \"pgbouncer\"\n[[outage]]\n{outage}\n"
        );
        let experiment = file::parse("x.toml", &text, &[]).unwrap();
        let plan = expand::plan_unseen(&experiment)?;
        Ok(plan.cases[0].outage.as_ref().unwrap().to_s)
    }

    #[test]
    fn what_lasts_longer_than_the_load_is_refused_with_the_lengths() {
        for (outage, words) in [
            ("do = \"switchover\"\nat = \"20s\"\nfor = \"35s\"", None),
            (
                "do = \"switchover\"\nat = \"20s\"\nfor = \"36s\"",
                Some(
                    "for = 36 s, which may begin 20 s after the load, outlasts the load of 60 s, of which 5 s must be left",
                ),
            ),
            ("do = \"freeze s1\"\nat = \"20s\"\nfor = \"40s\"", None),
            (
                "do = \"freeze s1\"\nat = \"uniform(10s, 20s)\"\nfor = \"41s\"",
                Some("for = 41 s, which may begin 20 s after the load, outlasts the load of 60 s; lower"),
            ),
        ] {
            let refused = planned(outage).err();
            let is_as_expected = match (&refused, words) {
                (None, None) => true,
                (Some(refused), Some(words)) => refused.contains(words),
                _ => false,
            };
            assert!(is_as_expected, "{outage}: {refused:?}");
        }
    }

    #[test]
    fn an_outage_begins_early_enough_for_what_it_lasts() {
        for (outage, to_s) in [
            ("do = \"switchover\"", 40.0),
            ("do = \"switchover\"\nfor = \"30s\"", 25.0),
            ("do = \"freeze s1\"\nfor = \"30s\"", 30.0),
            ("do = \"freeze s1\"\nfor = \"10s\"", 40.0),
        ] {
            assert_eq!(planned(outage), Ok(to_s), "{outage}");
        }
        assert!(planned("do = \"freeze s1\"\nfor = \"50s\"").unwrap_err().contains("outlasts the load"));
    }
}
