//! Findings about the settings that the data of cases was made under.

use std::collections::BTreeMap;

use model::experiment::case::setting;
use model::run::RunRecord;
use model::run::phase::Phase;

use crate::finding::{Finding, Severity};
use crate::findings::format::list;
use crate::findings::{Rule, RuleCheck, StudyContext};

pub(in crate::findings) const DATA_OF_ITS_OWN: Rule = Rule {
    id: "own-data",
    title: "Cases have data of their own",
    severity: "Note when cases differ in settings that act where data is made, and each has data made under \
               its own; Doubt when such a setting has no other effect, and no record says that the data was \
               made under it",
    source: "PostgreSQL documentation, Server Configuration (`bench/settings.py`)",
    advice: "Read the difference between these cases also as one of their data; where no record has the \
             data's settings, measure again.",
    evidence: "The settings of each case, and the fact `made_under` of the restore phase of its runs.",
    why: "Such a setting has no effect on existing data: \"no difference\" is then no answer.",
    tested: "Compression of long values and the size of statistics as factors of a server that pgdyno runs, and of one by URL.",
    check: RuleCheck::Study(own_data),
};

/// The settings that the data of a run was made under, if the record names any.
pub(super) fn made_under(record: &RunRecord) -> Option<&str> {
    record.phase(Phase::Restore)?.detail.get("made_under").map(String::as_str)
}

fn own_data(context: &StudyContext) -> Option<Finding> {
    let records: Vec<&RunRecord> = context.data.runs.iter().map(|run| &run.record).collect();
    let mut wanted: BTreeMap<u32, String> = BTreeMap::new();
    for record in &records {
        wanted.insert(record.case.id, setting::made_under_words(&record.case));
    }
    let first = wanted.values().next()?;
    if wanted.values().all(|words| words == first) {
        return None;
    }
    // A run that failed may have got no data.
    let is_shared = |record: &&&RunRecord| {
        record.phase(Phase::Restore).is_some()
            && made_under(record).is_none()
            && !setting::without_effect(&record.case).is_empty()
    };
    if let Some(record) = records.iter().find(is_shared) {
        let how = format!(
            "nothing records that the data of case {} was made under its `{}`: all cases may have had data that was made under one \
             of the levels",
            record.case.id, wanted[&record.case.id]
        );
        return Some(DATA_OF_ITS_OWN.finds(Severity::Doubt, how));
    }
    let mut made: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for record in &records {
        let cases = made.entry(made_under(record).unwrap_or("none of these settings")).or_default();
        if !cases.contains(&record.case.id) {
            cases.push(record.case.id);
        }
    }
    if made.len() < 2 {
        return None;
    }
    let text = |(words, mut cases): (&str, Vec<u32>)| {
        cases.sort_unstable();
        let cases: Vec<String> = cases.iter().map(u32::to_string).collect();
        format!("{words} (case {})", list(&cases, 8))
    };
    let texts: Vec<String> = made.into_iter().map(text).collect();
    Some(DATA_OF_ITS_OWN.finds(Severity::Note, format!("data made under {}", list(&texts, 6))))
}
