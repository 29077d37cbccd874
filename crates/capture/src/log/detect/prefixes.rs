//! Which `log_line_prefix` lines have.

use anyhow::{Result, bail};

use super::{LINES_LOOKED_AT, refuse_strangers, shown};
use crate::log::format::prefix::{LinePrefix, PrefixedLine};
use crate::log::known::PREFIXES;

/// How the text of a line about an executed statement begins.
const EXECUTED: [&[u8]; 3] = [b"LOG:  duration: ", b"LOG:  statement: ", b"LOG:  execute "];
/// So many lines about executed statements decide alone.
const EXECUTED_MIN: usize = 3;

/// Lines that should begin with a prefix.
pub(super) struct Sample<'a> {
    pub(super) name: &'a str,
    pub(super) lines: Vec<&'a [u8]>,
}

/// A prefix with what it explains: lines, and bytes that no other field could be.
#[derive(Debug)]
struct Candidate {
    prefix: LinePrefix,
    n_lines: usize,
    n_strict: usize,
}

impl Candidate {
    fn score(&self) -> (usize, usize) {
        (self.n_lines, self.n_strict)
    }
}

impl Sample<'_> {
    /// The prefix that the user gives, if any line has it.
    pub(super) fn check(&self, given: &LinePrefix) -> Result<LinePrefix> {
        if self.lines.iter().any(|line| given.read(line).is_some()) {
            return Ok(given.clone());
        }
        let first = self.lines.first().copied().unwrap_or_default();
        let better = match self.choose(None) {
            Ok(found) => format!("its lines fit `{}`", found.text()),
            Err(_) => "compare it with SHOW log_line_prefix".to_string(),
        };
        bail!(
            "no line of `{}` begins with the prefix `{}`: line 1 is `{}`; {better}",
            self.name,
            given.text(),
            shown(first)
        );
    }

    /// The known prefix that explains most lines.
    pub(super) fn choose(&self, previous: Option<&LinePrefix>) -> Result<LinePrefix> {
        refuse_strangers(self.name, &self.lines)?;
        let executed = self.executed();
        let lines = if executed.len() < EXECUTED_MIN { &self.lines } else { &executed };
        let mut best = best(&lines[..lines.len().min(LINES_LOOKED_AT)]);
        if best.len() > 1 {
            best = self::best(lines);
        }
        let Some(first) = best.first() else { return self.unknown() };
        if let Some(previous) = previous.filter(|previous| best.iter().any(|one| one.prefix == **previous)) {
            return Ok(previous.clone());
        }
        if let Some(line) = difference(lines, &best) {
            return self.ambiguous(&best, line);
        }
        // They differ in what the sample does not have: the one with more fields reads more of the rest.
        let longest = best.iter().max_by_key(|one| one.prefix.text().len()).unwrap_or(first);
        Ok(longest.prefix.clone())
    }

    /// Lines about statements that were executed. Whoever switches logging on may change the prefix with it, so that the lines before have
    /// another one.
    fn executed(&self) -> Vec<&[u8]> {
        let is_executed =
            |line: &&&[u8]| EXECUTED.iter().any(|begin| memchr::memmem::find(line, begin).is_some());
        let mut lines: Vec<&[u8]> = self.lines.iter().filter(is_executed).copied().collect();
        // The last ones: those of the old prefix come first.
        let n_before = lines.len().saturating_sub(LINES_LOOKED_AT);
        lines.drain(..n_before);
        lines
    }

    fn ambiguous(&self, best: &[Candidate], line: &[u8]) -> Result<LinePrefix> {
        let mut readings = String::new();
        for one in best {
            let Some(read) = one.prefix.read(line) else { continue };
            let name = |name: &str, value: &[u8]| {
                let value = String::from_utf8_lossy(value);
                if value.is_empty() { String::new() } else { format!(" {name}={value}") }
            };
            readings.push_str(&format!(
                "\n  {:<28}{}{}{}{}",
                format!("`{}`", one.prefix.text()),
                read.fields.session().pid().map_or(String::new(), |pid| format!(" process={pid}")),
                name("user", read.fields.user),
                name("database", read.fields.database),
                name("application", read.fields.application),
            ));
        }
        bail!(
            "`{}` can be read in several ways; give --prefix as SHOW log_line_prefix prints it. The line `{}` would be:{readings}",
            self.name,
            shown(line)
        );
    }

    fn unknown(&self) -> Result<LinePrefix> {
        let first = self.lines.first().copied().unwrap_or_default();
        bail!(
            "cannot find out the format of `{}`: it is no csvlog, JSON or syslog, and no known log_line_prefix fits line 1, `{}`; \
             give --prefix as SHOW log_line_prefix prints it",
            self.name,
            shown(first)
        );
    }
}

/// A line that the best candidates read differently.
fn difference<'a>(lines: &[&'a [u8]], best: &[Candidate]) -> Option<&'a [u8]> {
    let is_different = |line: &&&[u8]| {
        let mut readings = best.iter().map(|one| one.prefix.read(line).map(|read| fields(&read)));
        let first = readings.next();
        readings.any(|reading| Some(reading) != first)
    };
    lines.iter().find(is_different).copied()
}

/// The fields of a reading that matter.
fn fields<'a>(read: &PrefixedLine<'a>) -> impl PartialEq + use<'a> {
    let fields = read.fields;
    (
        fields.user,
        fields.database,
        fields.application,
        fields.session(),
        fields.time,
        fields.transaction,
        fields.query_id,
    )
}

/// The candidates with the highest score.
fn best(lines: &[&[u8]]) -> Vec<Candidate> {
    let known = PREFIXES.iter().filter_map(|text| LinePrefix::new(text).ok());
    let mut candidates: Vec<Candidate> = known
        .map(|prefix| {
            let readings: Vec<usize> =
                lines.iter().filter_map(|line| prefix.read(line)).map(|read| read.n_strict).collect();
            Candidate { prefix, n_lines: readings.len(), n_strict: readings.iter().sum() }
        })
        .filter(|candidate| candidate.n_lines > 0)
        .collect();
    let highest = candidates.iter().map(Candidate::score).max();
    candidates.retain(|candidate| Some(candidate.score()) == highest);
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::ways;

    #[test]
    fn the_prefixes_that_are_advised_are_recognized() {
        for (prefix, id) in [(ways::PREFIX, ""), (ways::PREFIX_WITH_ID, "-2957187240681066757 ")] {
            let of = |transaction: &str| {
                format!(
                    "2026-11-29 19:34:40.613 UTC [10550] 6b0e0240.7894 4/12 {transaction} {id}bench@shop LOG:  duration: 0.1 ms"
                )
            };
            let texts = [of("0"), of("735"), of("0")];
            let sample = Sample { name: "log", lines: texts.iter().map(String::as_bytes).collect() };
            assert_eq!(sample.choose(None).unwrap().text(), prefix);
        }
    }
}
