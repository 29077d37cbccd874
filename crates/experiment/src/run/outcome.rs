//! Derives the outcome of a run, in words, from the driver's report.

use model::experiment::case::Case;
use model::experiment::plan::RunState;
use model::load::drive::{Done, LoadEnding};

use dataset::session::STOPPED;

/// State of a run whose driver reported everything, and the reason if it is not complete.
pub(crate) fn state_and_reason(done: &Done, case: &Case) -> (RunState, String) {
    let replay = case.workload.directory.as_ref().and_then(|directory| directory.replay.as_ref());
    let of_clients = || case.workload.transactions.map(|n| n * u64::from(case.workload.n_clients));
    let asked = replay.map(|replay| replay.n_transactions).or_else(of_clients);
    match done.ending {
        LoadEnding::ConnectionsLost => {
            let how = if done.may_have_lost_connections() { "lost its connection" } else { "was aborted" };
            (RunState::Partial, format!("every client {how}{}", cause(done)))
        }
        LoadEnding::Stopped => (RunState::Partial, STOPPED.to_string()),
        LoadEnding::Completed if done.unanswered > 0 => (RunState::Partial, no_reply(done)),
        LoadEnding::Completed if asked.is_some_and(|asked| done.counts.started < asked) => {
            let (asked, made) = (asked.unwrap_or_default(), done.counts.started);
            let measure_s = case.window.measure_s;
            let reason =
                format!("{made} of {asked} transactions were begun within {measure_s} s; raise run.measure");
            (RunState::Partial, reason)
        }
        LoadEnding::Completed if is_cut_off(done, case) => {
            let (n, measure_s) = (done.counts.aborted, case.window.measure_s);
            let reason = format!("{n} queries had not ended within {measure_s} s; raise run.measure");
            (RunState::Partial, reason)
        }
        LoadEnding::Completed => (RunState::Completed, String::new()),
    }
}

/// Whether queries of an analytical run were cancelled: its figures need all of them.
fn is_cut_off(done: &Done, case: &Case) -> bool {
    done.counts.aborted > 0 && case.workload.analytical().is_some()
}

fn no_reply(done: &Done) -> String {
    let clients =
        if done.unanswered == 1 { "1 client".to_string() } else { format!("{} clients", done.unanswered) };
    let waited_s = done.unanswered_ns as f64 / 1e9;
    format!("the server gave {clients} no reply for up to {waited_s:.1} s, nor to the cancel that followed")
}

/// The most frequent error with its example, which shows what happened to the server. A lost connection without a
/// message counts only if there is nothing better.
fn cause(done: &Done) -> String {
    let frequent = done.errors.iter().max_by_key(|(state, n)| (state.as_str() != "lost", **n));
    let state = frequent.map(|(state, _)| state.as_str());
    let message =
        state.or_else(|| done.messages.keys().next().map(String::as_str)).and_then(|s| done.messages.get(s));
    message.map(|message| format!(": {message}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use model::directory::{AnalyticalSpec, WorkloadDirectory};

    use super::*;

    #[test]
    fn an_incomplete_run_says_why() {
        let mut case = crate::plan::sample::case("");
        let check_of = |case: &Case, change: &dyn Fn(&mut Done), expected: (RunState, &str)| {
            let mut done = Done { end_unix_ns: 1, measured_by_client: vec![0; 3], ..Done::default() };
            change(&mut done);
            let (state, reason) = state_and_reason(&done, case);
            assert_eq!((state, reason.as_str()), expected);
        };
        let check =
            |change: &dyn Fn(&mut Done), expected: (RunState, &str)| check_of(&case, change, expected);
        let lost = |errors: &[(&str, u64, &str)]| {
            let errors: Vec<(String, u64, String)> =
                errors.iter().map(|(s, n, m)| (s.to_string(), *n, m.to_string())).collect();
            move |done: &mut Done| {
                done.ending = LoadEnding::ConnectionsLost;
                for (state, n, message) in &errors {
                    if *n > 0 {
                        done.errors.insert(state.clone(), *n);
                    }
                    done.messages.insert(state.clone(), message.clone());
                }
            }
        };
        check(&|_| {}, (RunState::Completed, ""));
        check(&|done| done.ending = LoadEnding::Stopped, (RunState::Partial, "stopped on request"));
        check(&lost(&[]), (RunState::Partial, "every client lost its connection"));
        check(
            &lost(&[("57P01", 1, "terminating"), ("lost", 5, "closed")]),
            (RunState::Partial, "every client lost its connection: terminating"),
        );
        check(
            &lost(&[("lost", 0, "closed")]),
            (RunState::Partial, "every client lost its connection: closed"),
        );
        check(
            &lost(&[("silent", 2, "no reply")]),
            (RunState::Partial, "every client lost its connection: no reply"),
        );
        check(
            &lost(&[("script", 3, "client 0 aborted: end of script")]),
            (RunState::Partial, "every client was aborted: client 0 aborted: end of script"),
        );
        check(
            &|done| {
                done.unanswered = 3;
                done.unanswered_ns = 8_040_000_000;
            },
            (
                RunState::Partial,
                "the server gave 3 clients no reply for up to 8.0 s, nor to the cancel that followed",
            ),
        );
        case.workload.transactions = Some(100);
        case.workload.n_clients = 3;
        let enough = |n: u64| move |done: &mut Done| done.counts.started = n;
        check_of(&case, &enough(300), (RunState::Completed, ""));
        let reason = "299 of 300 transactions were begun within 60 s; raise run.measure";
        check_of(&case, &enough(299), (RunState::Partial, reason));
        // Of an analytical run, each query counts.
        let cut_off = |done: &mut Done| (done.counts.started, done.counts.aborted) = (300, 2);
        check_of(&case, &cut_off, (RunState::Completed, ""));
        let analytical = Some(AnalyticalSpec::default());
        let directory = WorkloadDirectory { analytical, ..WorkloadDirectory::default() };
        case.workload.directory = Some(Box::new(directory));
        let reason = "2 queries had not ended within 60 s; raise run.measure";
        check_of(&case, &cut_off, (RunState::Partial, reason));
    }
}
