//! Time limits for the phases of a case: as requested, or else by the size of its data.

use std::time::Duration;

use anyhow::Result;
use model::experiment::case::Case;
use wire::session::Session;

use dataset::kind::data_bytes;
use dataset::session::limit::{QUESTIONS, database_bytes, for_bytes};

/// Limit for a phase of a case: as requested, or else by the size of its data.
pub fn for_case(case: &Case) -> Duration {
    match case.phase_timeout_s {
        Some(seconds) => Duration::from_secs(seconds.into()),
        None => for_bytes(data_bytes(&case.workload)),
    }
}

/// Limit for the queries before the runs of a case.
pub(crate) fn of_questions(case: &Case) -> Duration {
    for_case(case).min(QUESTIONS)
}

/// Limit for a phase of a case in the database of `session`, which may contain more data than the case says.
///
/// # Errors
/// When the server fails.
pub fn in_database(case: &Case, session: &mut Session) -> Result<Duration> {
    match case.phase_timeout_s {
        Some(_) => Ok(for_case(case)),
        None => Ok(for_case(case).max(for_bytes(database_bytes(session)?))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::sample::case;

    #[test]
    fn the_limit_of_a_phase_is_the_given_one_or_follows_the_size_of_the_data() {
        let check = |text: &str, seconds: u64| {
            assert_eq!(for_case(&case(text)), Duration::from_secs(seconds), "{text}");
        };
        check("", 3600);
        check("[run]\nphase_timeout = \"90s\"", 90);
        check("[run]\nphase_timeout = \"2h\"", 7200);
        // 15 MB for each scale unit: about 100 GiB.
        let large = for_case(&case("[workload]\nscale = 7000"));
        assert!((90..120).contains(&((large.as_secs() - 3600) / 60)), "{large:?}");
        assert!(for_bytes(u64::MAX) > for_bytes(1 << 40));
    }
}
