//! Differences that follow from what a comparison asked for.

use analysis::comparison::Difference;
use model::experiment::case::ServerSource;
use model::experiment::keys;
use model::run::ExperimentData;

use crate::comparison::{compare_cases, each_b, pairs, setting};

#[test]
fn values_that_the_server_computes_from_a_requested_setting_are_declared() {
    let mut data = pairs(6, 1.0);
    data.runs.iter_mut().for_each(|run| setting(run, "wal_buffers", "4MB"));
    each_b(&mut data, |run| {
        setting(run, "wal_buffers", "16MB");
        setting(run, "io_max_concurrency", "64");
        run.record.server.as_mut().unwrap().data_checksums = true;
    });
    let whats = |list: &[Difference]| list.iter().map(|d| d.what.clone()).collect::<Vec<String>>();
    let result = compare_cases(&data);
    assert_eq!(whats(&result.undeclared), ["data checksums", "setting wal_buffers"]);
    let server = &mut data.plan.cases[1].server;
    server.settings.insert("shared_buffers".to_string(), "1GB".to_string());
    server.data_checksums = Some(true);
    let result = compare_cases(&data);
    assert_eq!(whats(&result.undeclared), [""; 0]);
    assert_eq!(whats(&result.declared), ["data checksums", "setting shared_buffers"]);
    assert_eq!((&*result.declared[0].a, &*result.declared[0].b), ("the server's default", "on"));
}

#[test]
fn what_follows_from_standbys_that_were_asked_for_is_declared() {
    let mut data = pairs(6, 1.0);
    data.runs.iter_mut().for_each(|run| setting(run, "synchronous_standby_names", ""));
    each_b(&mut data, |run| {
        setting(run, "synchronous_standby_names", "s1");
        run.record.server.as_mut().unwrap().receivers = vec!["sync".to_string()];
    });
    let n_undeclared = |data: &ExperimentData| compare_cases(data).undeclared.len();
    assert_eq!(n_undeclared(&data), 2);
    data.plan.cases[1].set(keys::topology::STANDBYS, 1);
    assert_eq!(n_undeclared(&data), 0);
}

#[test]
fn two_ways_to_connect_to_one_server_are_compared() {
    let voids = |ways: [&[(&str, &str)]; 2]| {
        let mut data = pairs(6, 1.0);
        for (case, way) in data.plan.cases.iter_mut().zip(ways) {
            let keywords = [("host", "one"), ("dbname", "d")].iter().chain(way);
            let keywords = keywords.map(|(name, value)| (name.to_string(), value.to_string()));
            case.server.source = ServerSource::Url(keywords.collect());
        }
        data.runs
            .iter_mut()
            .for_each(|run| run.record.server.as_mut().unwrap().postmaster_start = "today".to_string());
        compare_cases(&data).findings.iter().any(|finding| finding.id == "same-server")
    };
    assert!(!voids([&[("sslmode", "disable")], &[("sslmode", "require")]]));
    assert!(voids([&[("port", "5432")], &[("port", "5433")]]), "two names of one server");
}
