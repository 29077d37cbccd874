//! Checks that the targets of an experiment agree.

pub(crate) mod labels;
pub mod lanes;

use model::experiment::Experiment;
use model::experiment::keys;
use model::experiment::target::{HOURS_PER_MONTH, TargetSection};

/// The error for the host of a server that pgdyno runs.
const OWN_SERVER_IS_HERE: &str = "a host is for a server by URL (server.url); one that pgdyno runs is on this machine, which is observed anyway";

/// Whether pgdyno runs the servers itself.
///
/// # Errors
/// When targets contradict each other or `[server]`.
pub(crate) fn check(experiment: &Experiment) -> Result<bool, String> {
    let (targets, server) = (&experiment.target, &experiment.server);
    if let Some(host) = &server.host {
        host.clone().named().check().map_err(|error| format!("server.host: {error}"))?;
    }
    check_restart(keys::server::RESTART.name, &server.restart, server.url.is_some() || !targets.is_empty())?;
    if targets.is_empty() {
        return match (&server.host, &server.url) {
            (Some(_), None) => Err(OWN_SERVER_IS_HERE.to_string()),
            _ => Ok(true),
        };
    }
    if server.host.is_some() {
        return Err("server.host and [[target]] both name hosts; give each target its host".to_string());
    }
    if server.url.is_some() {
        return Err("server.url and [[target]] both name servers; give each server as a target".to_string());
    }
    if !server.restart.is_empty() {
        return Err("server.restart and [[target]]: give each target its own command (restart)".to_string());
    }
    let n_by_url = targets.iter().filter(|target| target.url.is_some()).count();
    for target in targets {
        let name = &target.name;
        if name.is_empty() {
            return Err("target: a target needs a name".to_string());
        }
        if target.url.is_some() && target.directory.is_some() {
            return Err(format!(
                "target `{name}`: give url or directory: pgdyno does not run a server given by URL"
            ));
        }
        if let Some(host) = &target.host {
            host.clone().named().check().map_err(|error| format!("target `{name}`: host: {error}"))?;
            if target.url.is_none() {
                return Err(format!("target `{name}`: {OWN_SERVER_IS_HERE}"));
            }
        }
        check_restart(&format!("target `{name}`: restart"), &target.restart, target.url.is_some())?;
        if let Some(address) = &target.telemetry {
            if address.contains('?') {
                // Without the text: a query may contain a token.
                return Err(format!(
                    "target `{name}`: telemetry: the address has a query, which would be recorded; leave it out"
                ));
            }
            observe::http::Address::parse(address)
                .map_err(|error| format!("target `{name}`: telemetry: {error:#}"))?;
        } else if !target.exporter.is_default() {
            return Err(format!("target `{name}`: exporter: give its address as telemetry"));
        }
        observe::Mapping::new(&target.exporter.metrics)
            .map_err(|error| format!("target `{name}`: exporter.metrics: {error}"))?;
        check_prices(target)?;
    }
    if n_by_url > 0 && n_by_url < targets.len() {
        return Err(
            "target: servers by URL and servers that pgdyno runs do not compare; give all or none a url"
                .to_string(),
        );
    }
    Ok(n_by_url == 0)
}

fn check_prices(target: &TargetSection) -> Result<(), String> {
    let name = &target.name;
    let prices = [("price_per_hour", target.price_per_hour), ("price_per_month", target.price_per_month)];
    let of_spot =
        [("spot_price_per_hour", target.spot_price_per_hour), ("bid_per_hour", target.bid_per_hour)];
    for (key, price) in prices.into_iter().chain(of_spot) {
        if price.is_some_and(|price| !(price > 0.0 && price.is_finite())) {
            return Err(format!("target `{name}`: {key} must be above 0"));
        }
    }
    match prices {
        [(_, Some(_)), (_, Some(_))] => Err(format!(
            "target `{name}`: give price_per_hour or price_per_month, not both: a month has {HOURS_PER_MONTH} hours"
        )),
        _ => Ok(()),
    }
}

/// Checks a command that restarts a server.
fn check_restart(key: &str, words: &[String], is_by_url: bool) -> Result<(), String> {
    match words.first() {
        None => Ok(()),
        Some(_) if !is_by_url => {
            Err(format!("{key} is for a server by URL; one that pgdyno runs is restarted by pgdyno"))
        }
        Some(program) if program.is_empty() => Err(format!("{key}: not a command")),
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::plan::expand::{self, PlanResources};

    fn parsed(text: &str) -> Experiment {
        let text = format!("[experiment]\nname = \"x\"\n{text}");
        crate::plan::file::parse("x.toml", &text, &[]).unwrap()
    }

    #[test]
    fn targets_are_a_factor_with_a_memory_of_their_own() {
        let file = "[[target]]\nname = \"a\"\nurl = \"x\"\nprice_per_hour = 2\n[[target]]\nname = \"b\"\nurl = \"y\"\n\
                    [workload]\nscale = \"3x RAM\"\n";
        let of = |bytes| PlanResources {
            memory_bytes: Some(bytes),
            url_keywords: Some(BTreeMap::new()),
            ..PlanResources::default()
        };
        let targets = [("a", 1 << 30), ("b", 2 << 30)].map(|(name, bytes)| (name.to_string(), of(bytes)));
        let plan = expand::plan(
            &parsed(file),
            &PlanResources { targets: targets.into(), ..PlanResources::default() },
        )
        .unwrap();
        assert_eq!(plan.factors, ["target"]);
        let scales: Vec<u32> = plan.cases.iter().map(|case| case.workload.scale).collect();
        assert!(scales[1].abs_diff(2 * scales[0]) <= 1, "{scales:?}: twice the memory");
        assert_eq!(plan.cases[0].server.target.as_ref().unwrap().price_per_hour, Some(2.0));
        let refused = |text: &str, expected: &str| {
            let message = expand::plan(&parsed(text), &PlanResources::default()).unwrap_err();
            assert!(message.contains(expected), "{message}");
        };
        refused(
            "[[target]]\nname = \"a\"\n[[target]]\nname = \"b\"\nurl = \"y\"\n",
            "give all or none a url",
        );
        let by_url = |text: &str| format!("[[target]]\nname = \"a\"\nurl = \"y\"\n{text}");
        refused(&by_url("[server]\ntls = \"on\"\n"), "keeps its own");
        refused(&by_url("[server]\nsettings.port = 1\n"), "clients reach the server by it");
        refused(
            &by_url("[server]\nversion = [\"16\", \"18\"]\n"),
            "server.version varies, but targets with a url",
        );
        refused(&by_url("[server]\nsettings.work_mem = \"5%\"\n"), "write the value itself");
        refused(&by_url("[server]\nrestart = [\"a\"]\n"), "give each target its own command");
        refused("[server]\nrestart = [\"a\"]\n", "server.restart is for a server by URL");
        refused(&by_url("restart = [\"\"]\n"), "target `a`: restart: not a command");
        let exporter = "[[target]]\nname = \"a\"\nurl = \"y\"\ntelemetry = \"http://u:p@h:9100/metrics\"\n";
        refused(exporter, "target `a`: telemetry: the address has a user or a password");
        let lone = "[[target]]\nname = \"a\"\nurl = \"y\"\n[target.exporter]\nuser = \"x\"\n";
        refused(lone, "target `a`: exporter: give its address as telemetry");
        let with_host = |text: &str| format!("[[target]]\nname = \"a\"\n{text}");
        let host = "host = {via = [\"ssh\", \"db1\"]}\n";
        let spot = "[[target]]\nname = \"a\"\nurl = \"y\"\nprice_per_hour = 2\nspot_price_per_hour = 0.05\nbid_per_hour = 0.1\n\
                    currency = \"USD\"\n";
        let spec = parsed(spot).target[0].spec();
        assert_eq!(
            (spec.price_per_hour, spec.labels["spot_price"].as_str()),
            (Some(0.05), "0.05 USD an hour")
        );
        assert_eq!(spec.labels["bid"], "0.1 USD an hour");
        refused(&by_url("spot_price_per_hour = -1\n"), "target `a`: spot_price_per_hour must be above 0");
        refused(&by_url("price_per_month = 0\n"), "target `a`: price_per_month must be above 0");
        let both = "price_per_hour = 1\nprice_per_month = 730\n";
        refused(&by_url(both), "target `a`: give price_per_hour or price_per_month, not both");
        refused(&with_host(host), "target `a`: a host is for a server by URL");
        refused(&format!("[server]\n{host}"), "a host is for a server by URL");
        let unnamed = "url = \"y\"\nhost = {via = []}\n";
        refused(&with_host(unnamed), "target `a`: host: `via` is missing");
        refused(&with_host(&format!("url = \"y\"\n[server]\n{host}")), "give each target its host");
        refused("[[target]]\nname = \"a\"\n[server]\nurl = \"y\"\n", "give each server as a target");
    }
}
