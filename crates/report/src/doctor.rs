//! An examination of a host and a server for a terminal: the worst first, what is as it should be in one line.

use analysis::doctor::sight::Sighted;
use analysis::doctor::{COSTLY, Diagnosis, DoctorOutcome, DoctorVerdict};
use model::text::prose::plural;

use crate::terminal::{MIN_WIDTH, Paint, TerminalStyle, push_wrapped};

/// The words above the rows of each verdict that weighs.
const HEADS: [(DoctorVerdict, &str, TerminalStyle); 3] = [
    (DoctorVerdict::Void, "void: nothing that is measured like this would count", TerminalStyle::Red),
    (DoctorVerdict::Doubt, "doubt: what is measured like this is doubtful", TerminalStyle::Amber),
    (DoctorVerdict::Advice, "advice: could be better; numbers stand", TerminalStyle::Bold),
];

/// The whole text, ending with a newline. `about` says what was examined: lines with their labels.
pub(crate) fn text(
    diagnosis: &Diagnosis,
    about: &[(&str, String)],
    width: usize,
    colour: bool,
    is_verbose: bool,
) -> String {
    let mut page = Page { text: String::new(), width: width.max(MIN_WIDTH), paint: Paint { colour } };
    page.labelled("summary", &summary(diagnosis));
    about.iter().for_each(|(label, words)| page.labelled(label, words));
    let of = |verdict| diagnosis.of(verdict);
    for (verdict, head, style) in HEADS {
        if of(verdict).next().is_some() {
            page.head(head, style);
            of(verdict).for_each(|row| page.row(row));
        }
    }
    page.unseen(of(DoctorVerdict::Unseen));
    page.sights(&diagnosis.sights);
    page.of_psql(diagnosis);
    let fine: Vec<&DoctorOutcome> = of(DoctorVerdict::Fine).collect();
    if is_verbose && !fine.is_empty() {
        page.head("as it should be", TerminalStyle::Bold);
        fine.iter()
            .for_each(|row| page.line(&format!("{}: {}", row.id, row.found), "  ", TerminalStyle::Plain));
    } else if !fine.is_empty() {
        let are = if fine.len() == 1 { "is" } else { "are" };
        page.text.push('\n');
        let words = format!("{} {are} as they should be; --verbose shows them", plural(fine.len(), "row"));
        page.line(&words, "", TerminalStyle::Plain);
    }
    page.text
}

/// What weighs, in a sentence: of the advice, what costs most loads something.
fn summary(diagnosis: &Diagnosis) -> String {
    let ids = |verdict| diagnosis.of(verdict).map(|row| row.id).collect::<Vec<&str>>();
    let counted = |verdict, [of_one, of_all]: [&str; 2]| {
        let ids = ids(verdict);
        let what = if ids.len() == 1 { of_one } else { of_all };
        (!ids.is_empty()).then(|| format!("{} {what}: {}", plural(ids.len(), "row"), ids.join(", ")))
    };
    let advice = ids(DoctorVerdict::Advice);
    let dear: Vec<&str> = advice.iter().copied().filter(|id| COSTLY.contains(id)).collect();
    let changes = plural(advice.len(), "advised change");
    let advised = match (advice.len(), dear.len()) {
        (0, _) => None,
        (_, 0) => Some(format!("{changes}, none of which costs most loads anything")),
        (_, n) => {
            let matter = if n == 1 { "matters" } else { "matter" };
            Some(format!("{n} of {changes} {matter} for throughput or latency: {}", dear.join(", ")))
        }
    };
    let parts = [
        counted(DoctorVerdict::Void, ["voids every number", "void every number"]),
        counted(DoctorVerdict::Doubt, ["makes numbers doubtful", "make numbers doubtful"]),
        advised,
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "nothing is to be changed".to_string() } else { parts.join("; ") }
}

struct Page {
    text: String,
    width: usize,
    paint: Paint,
}

impl Page {
    fn head(&mut self, words: &str, style: TerminalStyle) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.line(words, "", style);
    }

    fn line(&mut self, words: &str, indent: &str, style: TerminalStyle) {
        push_wrapped(&mut self.text, &self.paint, style, words, indent, self.width);
    }

    /// Words next to a label of at most seven letters.
    fn labelled(&mut self, label: &str, words: &str) {
        let begun = self.text.len();
        self.line(words, "        ", TerminalStyle::Plain);
        self.text.replace_range(begun..begun + label.len(), label);
    }

    fn row(&mut self, row: &DoctorOutcome) {
        self.line(&format!("{}: {}; wanted: {}", row.id, row.found, row.wanted), "  ", TerminalStyle::Plain);
        self.line(&format!("{} ({})", row.why, row.source), "    ", TerminalStyle::Dim);
        self.line(&format!("fix: {}", row.fix), "    ", TerminalStyle::Plain);
    }

    /// How statements of fixes are given to psql, whose `-c` sends all of its text as one transaction (psql's manual).
    fn of_psql(&mut self, diagnosis: &Diagnosis) {
        let is_shown = |row: &&DoctorOutcome| HEADS.iter().any(|(verdict, ..)| row.verdict == *verdict);
        let mut fixes = diagnosis.rows.iter().filter(is_shown).map(|row| &row.fix);
        if fixes.any(|fix| fix.contains("alter system") && fix.contains("pg_reload_conf")) {
            self.text.push('\n');
            let words = "With psql -c, give alter system and select pg_reload_conf() a -c each: one -c is one transaction, which ALTER SYSTEM \
                         refuses.";
            self.line(words, "", TerminalStyle::Plain);
        }
    }

    /// Rows that cannot be judged, by their reasons.
    fn unseen<'a>(&mut self, rows: impl Iterator<Item = &'a DoctorOutcome>) {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for row in rows {
            match reasons.iter_mut().find(|(reason, _)| *reason == row.found) {
                Some((_, ids)) => ids.push(row.id),
                None => reasons.push((&row.found, vec![row.id])),
            }
        }
        if !reasons.is_empty() {
            self.head("not judged, because it cannot be seen from here", TerminalStyle::Bold);
        }
        for (reason, ids) in reasons {
            self.line(&format!("{}: {reason}", ids.join(", ")), "  ", TerminalStyle::Plain);
        }
    }

    fn sights(&mut self, sights: &[Sighted]) {
        let (has, lacks): (Vec<&Sighted>, Vec<&Sighted>) = sights.iter().partition(|sight| sight.has);
        if !lacks.is_empty() {
            self.head("what pgdyno cannot see or do there", TerminalStyle::Bold);
        }
        for sight in lacks {
            self.line(&format!("{}: {}", sight.id, sight.found), "  ", TerminalStyle::Plain);
            let silent = match sight.silent {
                [] => String::new(),
                silent => format!("; silent or seeing less: {}", silent.join(", ")),
            };
            self.line(&format!("lost: {}{silent}", sight.lost), "    ", TerminalStyle::Dim);
            self.line(&format!("fix: {}", sight.fix), "    ", TerminalStyle::Plain);
        }
        if !has.is_empty() {
            let ids: Vec<&str> = has.iter().map(|sight| sight.id).collect();
            self.text.push('\n');
            self.line(&format!("there: {}", ids.join(", ")), "", TerminalStyle::Plain);
        }
    }
}

#[cfg(test)]
mod tests {
    use analysis::doctor::RowScope;

    use super::*;

    fn row(id: &'static str, verdict: DoctorVerdict, found: &str) -> DoctorOutcome {
        DoctorOutcome {
            id,
            scope: RowScope::Host,
            verdict,
            found: found.to_string(),
            wanted: "less",
            why: "It costs.",
            source: "a study",
            fix: "turn it down".to_string(),
            findings: Vec::new(),
            knob: None,
        }
    }

    #[test]
    fn the_worst_comes_first_and_what_is_fine_is_one_line() {
        let rows = vec![
            row("fsync", DoctorVerdict::Doubt, "off"),
            row("thp", DoctorVerdict::Advice, "always"),
            row("atime", DoctorVerdict::Unseen, "no host"),
            row("barriers", DoctorVerdict::Unseen, "no host"),
            row("clock", DoctorVerdict::Fine, "tsc"),
            row("jit", DoctorVerdict::Fine, "off"),
        ];
        let sights = vec![Sighted {
            id: "all-stats",
            what: "sessions of others",
            has: false,
            found: "no pg_monitor".to_string(),
            lost: "what others wait for",
            silent: &["autovacuum"],
            fix: "grant pg_monitor".to_string(),
        }];
        let diagnosis = Diagnosis { rows, sights };
        let about = [("host", "a machine".to_string()), ("", "this one".to_string())];
        let expected = "summary 1 row makes numbers doubtful: fsync; 1 of 1 advised change matters for\n        throughput or latency: thp\n\
            host    a machine\n        this one\n\n\
            doubt: what is measured like this is doubtful\n\
            \x20 fsync: off; wanted: less\n\
            \x20   It costs. (a study)\n\
            \x20   fix: turn it down\n\n\
            advice: could be better; numbers stand\n\
            \x20 thp: always; wanted: less\n\
            \x20   It costs. (a study)\n\
            \x20   fix: turn it down\n\n\
            not judged, because it cannot be seen from here\n\
            \x20 atime, barriers: no host\n\n\
            what pgdyno cannot see or do there\n\
            \x20 all-stats: no pg_monitor\n\
            \x20   lost: what others wait for; silent or seeing less: autovacuum\n\
            \x20   fix: grant pg_monitor\n\n\
            2 rows are as they should be; --verbose shows them\n";
        assert_eq!(text(&diagnosis, &about, 80, false, false), expected);
        let verbose = text(&diagnosis, &about, 80, false, true);
        assert!(verbose.ends_with("as it should be\n  clock: tsc\n  jit: off\n"), "{verbose}");
    }
}
