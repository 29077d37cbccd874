//! Settings that act where data is made, asked for where data is not made for them: their levels would all measure the same data.

use std::collections::BTreeSet;

use model::experiment::case::Case;
use model::experiment::case::setting;
use model::experiment::script::CaseData;

use crate::plan::problems::Problems;
use crate::plan::scripts::reads::{self, ReadPart};

/// Says why such settings of `cases` would have no effect. A server that pgdyno runs has data of its own for each level.
pub(super) fn check(cases: &[Case], problems: &mut Problems) {
    let mut said = BTreeSet::new();
    let is_by_url = |case: &&Case| !case.server.source.is_embedded();
    for case in cases.iter().filter(is_by_url).filter(|case| uses_data_as_it_is(case)) {
        for (name, why) in setting::where_data_is_made(case) {
            if said.insert(name) {
                problems.say(format!(
                    "server.settings.{name}: {why}, but the data of this server is used as it is (prepare.restore = false, \
                     --no-restore), so the setting has no effect; let pgdyno load the data, or load it under each level \
                     and measure it without the setting"
                ));
            }
        }
    }
    let is_archive = |case: &&Case| matches!(case.workload.data, CaseData::Archive(_));
    let made: BTreeSet<String> =
        cases.iter().filter(is_by_url).filter(is_archive).map(setting::made_under_words).collect();
    if made.len() > 1 {
        problems.say(format!(
            "workload.restore_from restores an archive once into a server by URL, and then copies it, but these settings act while it is \
             restored: {}; give each level a database and an experiment of its own, or let pgdyno run the server (server.version)",
            made.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join("; ")
        ));
    }
}

/// Whether a case neither loads its data nor makes some in its transactions.
fn uses_data_as_it_is(case: &Case) -> bool {
    let is_there = !case.prepare.restore || case.workload.data == CaseData::None;
    is_there && (!case.workload.kind.is_own() || reads::part(&case.workload) == ReadPart::All)
}

#[cfg(test)]
mod tests {
    use crate::plan::sample;

    #[test]
    fn a_setting_that_acts_where_data_is_made_is_refused_where_it_is_not() {
        let check = |text: &str, url: bool, expected: Option<&str>| {
            let place = if url { "[server]\nurl = \"host=h\"\n" } else { "[server]\nversion = \"18\"\n" };
            sample::expect_refusal(&format!("{place}{text}"), expected);
        };
        let toast = "settings.default_toast_compression = [\"pglz\", \"lz4\"]\n";
        let as_it_is = "[prepare]\nrestore = false\n";
        let load = "[workload]\nscale = 1\n";
        let refused = Some("server.settings.default_toast_compression: long values are compressed by it");
        check(&format!("{toast}{load}{as_it_is}"), true, refused);
        check(&format!("{toast}{load}"), true, None);
        check(&format!("{toast}{load}{as_it_is}"), false, None);
        let one = "settings.default_table_access_method = \"columnar\"\n";
        check(&format!("{one}{load}{as_it_is}"), true, Some("default_table_access_method"));
        let target = "settings.default_statistics_target = [10, 1000]\n";
        // Each run analyzes its tables, unless that is switched off.
        check(&format!("{target}{load}{as_it_is}"), true, None);
        check(&format!("{target}{load}{as_it_is}analyze = false\n"), true, Some("keeps longer lists"));
        check(&format!("settings.work_mem = [\"1MB\", \"2MB\"]\n{load}{as_it_is}"), true, None);
        check(&format!("settings.autovacuum = [\"on\", \"off\"]\n{load}{as_it_is}"), true, None);
        // Own scripts that write make data themselves.
        let own = |builtin: &str| {
            format!(
                "[workload]\nkind = \"scripts\"\nscripts = [{{name = \"a\", builtin = \"{builtin}\"}}]\ndata = \"none\"\n"
            )
        };
        check(&format!("{toast}{}", own("select-only")), true, refused);
        check(&format!("{toast}{}", own("simple-update")), true, None);
        check(&format!("{target}{}", own("select-only")), true, Some("keeps longer lists"));
    }
}
