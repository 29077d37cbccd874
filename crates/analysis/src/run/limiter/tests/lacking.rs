//! Measurements of which nothing can be said.

use super::*;

/// A log that is a pipe whose reader is slow: the observer's own statements are logged as well, so that it gets few answers.
#[test]
fn a_measurement_with_too_few_samples_says_how_few_and_what_was_seen_in_them() {
    let of = |samples: f64, length_s: f64, processes: &[(&str, f64)]| {
        let processes =
            processes.iter().map(|(what, n)| (format!("waits.processes[client/{what}]"), n * samples));
        let rest = [("waits.samples".to_string(), samples), ("waits.time".to_string(), 2.0 * samples)];
        let values = processes.chain(rest).collect();
        let tick = Tick { source: TickSource::Server, end_unix_ns: 1, length_ns: 1_000_000_000, values };
        let placed = vec![Placed { from_s: 0.0, to_s: length_s, tick: &tick }];
        let usage = Usage::new(placed, Parties { server: true, driver: true, pgdyno: true });
        unjudged::why(&usage, (0.0, length_s), &record(&[]))
    };
    let found = of(6.0, 12.0, &[("Kernel:LogWrite", 7.0), ("idle", 9.0)]).unwrap();
    assert_eq!((found.name, found.confidence), (Bottleneck::Unknown, Confidence::Low));
    let expected = "only 6 samples of the server's sessions could be taken in 12 s, and a judgement needs 15: each took 2.0 s; in them, 7.0 \
                    sessions wrote to the server's log, a pipe whose reader is slower, for which PostgreSQL has no wait event";
    assert_eq!(found.evidence, expected);
    assert!(
        of(6.0, 12.0, &[("CPU", 3.0)])
            .unwrap()
            .evidence
            .ends_with("in them, 3.0 sessions ran or waited to run")
    );
    assert_eq!(of(6.0, 4.0, &[]), None, "short runs are not meant to be judged");
}

#[test]
fn what_could_not_be_sampled_at_all_is_said_with_its_reason() {
    let usage = Usage::new(Vec::new(), Parties { server: true, driver: true, pgdyno: true });
    let found = unjudged::why(&usage, (0.0, 30.0), &record(&[("waits", "permission denied")])).unwrap();
    assert_eq!(found.evidence, "its sessions could not be sampled: permission denied");
    assert_eq!(unjudged::why(&usage, (0.0, 30.0), &record(&[])), None, "nothing was to be sampled");
}

#[test]
fn sessions_that_write_to_a_slow_log_are_named_as_what_they_are() {
    let logging = facts(&[("Kernel:LogWrite", 7.0), ("idle", 1.0)], &[], &[], 0.2);
    let found = judge(&logging);
    assert_eq!(found.name, Bottleneck::Unknown);
    let expected = "7.0 of 8 sessions neither ran nor waited for what PostgreSQL has a name for: they wrote to the server's log, a pipe whose \
                    reader is slower; ";
    assert!(found.evidence.starts_with(expected), "{}", found.evidence);
}

/// A run of which these could not be read.
pub(super) fn record(unavailable: &[(&str, &str)]) -> RunRecord {
    use model::experiment::case::{Case, ServerSource, ServerSpec, WorkloadKind, WorkloadSpec};
    use model::experiment::plan::RunSpec;
    use model::load::Window;

    let server = ServerSpec::new(ServerSource::Version("18".parse().unwrap()));
    let window = Window { ramp_up_s: 0, measure_s: 1, grace_s: 1 };
    let case = Case::new(server, WorkloadSpec::new(WorkloadKind::Tpcb, 1), window);
    let mut record = RunRecord::new(RunSpec { run: 1, block: 1, case: 1, seed: 1 }, case, "0");
    let owned = unavailable.iter().map(|(what, reason)| (what.to_string(), reason.to_string()));
    record.telemetry_unavailable = owned.collect();
    record
}
