//! Which server answers: a restart, a replacement or a failover makes it another one.

use wire::Session;

use crate::server::statistics;

/// Identity of a server. An unreadable part is `None` and proves nothing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ObservedIdentity {
    start: Option<String>,
    system_identifier: Option<String>,
    timeline: Option<String>,
    in_recovery: Option<String>,
}

impl ObservedIdentity {
    /// The server of a session that said when its postmaster started and whether it is in recovery.
    pub(crate) fn ask(
        session: &mut Session,
        start: Option<String>,
        in_recovery: Option<String>,
    ) -> ObservedIdentity {
        let timeline =
            statistics::timeline(session.server_version_num(), in_recovery.as_deref() == Some("true"));
        ObservedIdentity {
            start,
            system_identifier: scalar(session, statistics::SYSTEM_IDENTIFIER),
            timeline: scalar(session, &timeline),
            in_recovery,
        }
    }

    /// Differences in words; empty if none are known.
    pub(crate) fn differences(&self, before: &ObservedIdentity) -> Vec<String> {
        let fields = [
            ("postmaster start", &before.start, &self.start),
            ("system identifier", &before.system_identifier, &self.system_identifier),
            ("timeline", &before.timeline, &self.timeline),
            ("in recovery", &before.in_recovery, &self.in_recovery),
        ];
        let differing = fields.into_iter().filter_map(|(name, before, now)| match (before, now) {
            (Some(before), Some(now)) if before != now => Some(format!("{name} {before} became {now}")),
            _ => None,
        });
        differing.collect()
    }
}

fn scalar(session: &mut Session, sql: &str) -> Option<String> {
    session.query(sql).ok()?.scalar().map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_the_same_unless_something_known_differs() {
        let text = |text: &str| Some(text.to_string());
        let before = ObservedIdentity {
            start: text("1.5"),
            system_identifier: None,
            timeline: text("00000001"),
            in_recovery: text("false"),
        };
        assert_eq!(before.differences(&before), [""; 0]);
        let unknown = ObservedIdentity { timeline: None, system_identifier: text("7"), ..before.clone() };
        assert_eq!(unknown.differences(&before), [""; 0]);
        let restarted = ObservedIdentity { start: text("2.5"), timeline: text("00000002"), ..before.clone() };
        let expected = ["postmaster start 1.5 became 2.5", "timeline 00000001 became 00000002"];
        assert_eq!(restarted.differences(&before), expected);
    }
}
