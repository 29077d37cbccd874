//! A comparison as text: the verdict with its interval, the figures, and other differences.

pub(crate) mod repeated;
#[cfg(test)]
mod tests;

use analysis::comparison::{
    CaseComparison, ComparedFigure, ComparisonPurpose, ComparisonVerdict, DisturbedSides, FigureComparison,
    Pairing, Provisional, Ratio,
};
use model::text::columns;
use model::text::visible::visible;

use crate::ComparisonInput;
pub(crate) use crate::prose::format::signed;
use crate::prose::headline::outages;
pub(crate) use crate::prose::ratio::percent;
use crate::prose::ratio::stands;
use crate::prose::scripts::{compared as scripts, queries};
use crate::prose::statements::{applied, compared as statements};
use crate::prose::variation::costs;
use crate::prose::{format, phrases};
use crate::terminal;

/// The smallest difference that an A/A comparison on this host could detect.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct NoiseFloor {
    /// When it was measured, nanoseconds since the Unix epoch.
    pub t_unix_ns: u64,
    /// Name of the machine.
    pub hostname: String,
    /// Workload that was measured.
    pub workload: String,
    /// Number of clients.
    pub n_clients: u32,
    /// Number of pairs.
    pub n_pairs: usize,
    /// The deciding figure: throughput, or a percentile of latency if the rate was given. Earlier versions did not record it.
    #[serde(default)]
    pub figure: ComparedFigure,
    /// Half width of the interval of that figure's ratio, as a share.
    pub half_width: f64,
    /// The smallest difference that it would have detected, as a share.
    pub detectable: Option<f64>,
}

/// One comparison as text, ending with a newline. `screen`: its width, and whether it has colours.
pub(crate) fn text(case: &CaseComparison, floor: Option<&NoiseFloor>, screen: (usize, bool)) -> String {
    // Of a repetition, the statements on all cases stand before this.
    let answer = match case.purpose {
        ComparisonPurpose::Change => std::iter::once(verdict(case)).chain(sentences(case)).collect(),
        ComparisonPurpose::Repeat => Vec::new(),
    };
    with_answer(case, answer, floor, screen)
}

/// The same with the reason for which there is no answer.
pub(crate) fn refused(case: &CaseComparison, why: &str, screen: (usize, bool)) -> String {
    let has_both = |figure: &FigureComparison| figure.a_median.is_some() && figure.b_median.is_some();
    if !case.leading_figure().is_some_and(has_both) {
        // Nothing can be compared by force.
        return text(case, None, screen);
    }
    with_answer(case, vec![format!("no verdict: {why}; --force compares them anyway")], None, screen)
}

fn with_answer(
    case: &CaseComparison,
    answer: Vec<String>,
    floor: Option<&NoiseFloor>,
    screen: (usize, bool),
) -> String {
    let [name_a, name_b] = case.purpose.names();
    let mut head = vec![
        format!("{name_a}: {}", phrases::one_line(&case.a)),
        format!("{name_b}: {}", phrases::one_line(&case.b)),
        String::new(),
    ];
    if !answer.is_empty() {
        head.extend(answer);
        head.push(String::new());
    }
    let [median_a, median_b] = medians(case.purpose);
    let mut table = vec![format!("{:<12}{median_a:>14}{median_b:>14}   {name_b} to {name_a}", "")];
    table.extend(case.figures.iter().map(|figure| row(figure, case)));
    table.extend(outages::table_of(case).into_iter().map(five));
    let cost_rows = cost_rows(case);
    let cost_heading = match cost_rows.as_slice() {
        [] => Vec::new(),
        _ => vec![String::new(), format!("{}:", costs::BLIND_COMPARED)],
    };
    let wrapped = |lines: &[String]| -> Vec<String> {
        lines.iter().flat_map(|line| terminal::wrap(line, screen.0)).collect()
    };
    let costs = [wrapped(&cost_heading), cost_rows].concat();
    let below = [script_rows(case, screen.0), statement_rows(case, screen.0)].concat();
    let lines = [wrapped(&head), table, costs, below, wrapped(&remarks(case, floor))].concat();
    let mut text = visible(&(lines.join("\n") + "\n")).into_owned();
    text.push_str(&terminal::of_comparison(&case.findings, screen.0, screen.1));
    text
}

/// What is said below the verdict: of costs, of scripts and statements that differ, and of what was applied.
pub(crate) fn sentences(case: &CaseComparison) -> impl Iterator<Item = String> {
    let of_costs = costs::sentence(case).into_iter();
    let of_outages = outages::compared_sentence(case).into_iter();
    of_outages
        .chain(of_costs)
        .chain(scripts::sentence(case))
        .chain(statements::sentence(case))
        .chain(applied::lines(case))
}

/// Headings of the medians: `A, median`.
pub(crate) fn medians(purpose: ComparisonPurpose) -> [String; 2] {
    purpose.names().map(|name| format!("{name}, median"))
}

/// What the ratios of B to A are: `B against A`, `here against theirs`.
pub(crate) fn against(purpose: ComparisonPurpose) -> String {
    let [a, b] = purpose.names();
    format!("{b} against {a}")
}

/// Heading of these ratios with their intervals.
pub(crate) fn ratio_head(purpose: ComparisonPurpose) -> String {
    format!("{} (95 % interval)", against(purpose))
}

/// Below what differences are missed. Of large ones, a factor says the same about both directions.
pub(crate) fn smallest(detectable: f64) -> String {
    match detectable {
        0.5.. => format!("differences below a factor of {:.1}", 1.0 + detectable),
        share => format!("differences below {}", percent(share)),
    }
}

/// What is said below the figures, a paragraph each.
fn remarks(case: &CaseComparison, floor: Option<&NoiseFloor>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    lines.extend(case.is_analytical.then(|| queries::WHAT.to_string()));
    let has_latency = case.figures.iter().any(|figure| figure.figure == ComparedFigure::P50);
    lines.extend((has_latency && !case.is_analytical).then(|| MEDIANS.to_string()));
    lines.extend(why_otherwise(case));
    if let Some(detectable) = case.leading().and_then(|ratio| ratio.detectable) {
        let seen = smallest(detectable);
        lines.push(format!("{seen} would probably be missed (80 % power)"));
    }
    if let Some(floor) = floor {
        lines.push(noise_floor(floor));
    }
    lines.extend(supplement(case).into_iter().map(|(what, value)| format!("{what}: {value}")));
    if let Some(ratio) = &case.carry_over {
        lines.push(format!(
            "second slice of a pair against the first: {} ({}); near 0 unless a slice affects the next",
            signed(ratio.ratio - 1.0),
            interval(ratio)
        ));
    }
    for difference in &case.declared {
        let sides = [&difference.a, &difference.b].map(|side| phrases::one_line(side));
        lines.push(format!("declared: {}: {} and {}", difference.what, sides[0], sides[1]));
    }
    if !case.defaults.is_empty() {
        lines.push(format!("{}: {}", DEFAULTS, phrases::one_line(&defaults(case, DEFAULTS_MAX))));
    }
    lines
}

/// What the figures of a side are.
const MEDIANS: &str =
    "each figure is the median of its runs; a report has percentiles of all runs of a case together";
/// Before the defaults in which the compared servers differ.
pub(crate) const DEFAULTS: &str = "defaults of the servers, which are part of the comparison";
/// Defaults that a terminal names; pages name all.
const DEFAULTS_MAX: usize = 4;

/// At most so many differing defaults, as one line.
pub(crate) fn defaults(case: &CaseComparison, n_max: usize) -> String {
    let of = |d: &analysis::comparison::Difference| {
        let [a, b] = [&d.a, &d.b].map(|value| if value.is_empty() { "''" } else { value });
        format!("{} {a} and {b}", d.what.trim_start_matches("setting "))
    };
    let mut parts: Vec<String> = case.defaults.iter().take(n_max).map(of).collect();
    let n_more = case.defaults.len() - parts.len();
    if n_more > 0 {
        parts.push(format!("{n_more} more"));
    }
    parts.join(", ")
}

/// The verdict in one line.
pub(crate) fn verdict(case: &CaseComparison) -> String {
    let noun = case.pairing.noun();
    let n = match case.pairing {
        Pairing::Slices => format!("{} of slices", phrases::plural(case.n_pairs, noun)),
        Pairing::Blocks | Pairing::Rounds => phrases::plural(case.n_pairs, noun),
        Pairing::None | Pairing::RoundsApart => match n_runs(case) {
            [a, b] if a == b => format!("{} each", phrases::plural(a, noun)),
            [a, b] => format!("{a} and {}", phrases::plural(b, noun)),
        },
    };
    let of = if case.lead == ComparedFigure::Throughput {
        String::new()
    } else {
        format!(" by {}", case.lead.as_str())
    };
    let Some(ratio) = case.leading() else { return without_verdict(case, &n) };
    let interval = interval(ratio);
    let change = percent((ratio.ratio - 1.0).abs());
    let level = (100.0 * ratio.level).round();
    let b = sides_stand(case, ratio.ratio);
    match case.verdict().unwrap_or(ratio.verdict) {
        differs @ (ComparisonVerdict::Faster | ComparisonVerdict::Slower) => {
            let word = word(case.lead, differs, case.margin);
            let (what, place) = match (case.purpose, case.lead) {
                (ComparisonPurpose::Change, _) => ("B", ""),
                (ComparisonPurpose::Repeat, ComparedFigure::Ratio) => ("the ratio", " here"),
                (ComparisonPurpose::Repeat, _) => ("it", " here"),
            };
            let of = if case.lead == ComparedFigure::Ratio { "" } else { of.as_str() };
            format!("{what} is {change} {word}{place}{of} ({level:.0} % interval {interval}, {n})")
        }
        ComparisonVerdict::Same => {
            let margin = percent(case.margin);
            format!("no difference larger than {margin}{of} ({level:.0} % interval {interval}, {n})")
        }
        ComparisonVerdict::Unsure if ratio.verdict != ComparisonVerdict::Unsure => {
            format!(
                "undecided: {b}, {interval} ({n}); it would differ if it were the only case, but among this many it may be chance"
            )
        }
        ComparisonVerdict::Unsure => match ratio.more_pairs {
            Some(more) => format!(
                "undecided: {b}, {interval}; about {} would settle it",
                phrases::plural(more, &format!("more {noun}"))
            ),
            None => format!("undecided: {b}, {interval} ({n})"),
        },
    }
}

/// Runs, or rounds, of A and of B that have the deciding figure, where they are not paired.
pub(crate) fn n_runs(case: &CaseComparison) -> [usize; 2] {
    case.leading_figure().map_or([0, 0], |figure| [figure.sample.a.len(), figure.sample.b.len()])
}

/// How B stands to A: `B is 5 % slower than A`.
fn sides_stand(case: &CaseComparison, ratio: f64) -> String {
    let b = match case.purpose {
        ComparisonPurpose::Change => "B",
        ComparisonPurpose::Repeat => "the result here",
    };
    format!("{b} {}", stands(case.lead, ratio, case.purpose.names()[0]))
}

/// What fewer pairs or runs than a verdict needs show: the ratio, which way it points, and what is missing.
fn without_verdict(case: &CaseComparison, n: &str) -> String {
    let Some(found) = case.leading_figure().and_then(|figure| figure.provisional) else {
        return format!("no verdict: {n}");
    };
    if case.pairing.is_paired() { of_few_pairs(case, &found) } else { of_few_runs(case, &found, n) }
}

fn of_few_pairs(case: &CaseComparison, found: &Provisional) -> String {
    let [n, _] = found.n;
    let pairs = phrases::plural(n, case.pairing.noun());
    let range = [found.lowest, found.highest].map(times);
    let missing = missing(case, found.n_missing);
    let b = sides_stand(case, found.ratio);
    if !found.is_one_way() {
        let [low, high] = range;
        return format!("no verdict yet: {b} on average, and between {low} and {high} in {pairs}; {missing}");
    }
    let (range, none) = match n {
        1 => (String::new(), format!("one {} gives no verdict", case.pairing.noun())),
        _ => (format!(" ({} to {})", range[0], range[1]), format!("{pairs} give no verdict")),
    };
    format!("provisional: {b} in {n} of {pairs}{range}; {none}: {missing}")
}

fn of_few_runs(case: &CaseComparison, found: &Provisional, n: &str) -> String {
    let (noun, [of_a, of_b]) = (case.pairing.noun(), case.purpose.owners());
    let apart = match case.lead {
        _ if !found.is_one_way() => format!("but their {noun}s overlap"),
        ComparedFigure::Throughput if found.ratio > 1.0 => {
            format!("and no {noun} {of_a} is as fast as one {of_b}")
        }
        ComparedFigure::Throughput => format!("and no {noun} {of_b} is as fast as one {of_a}"),
        _ if found.ratio > 1.0 => format!("and each {noun} {of_b} is above each {of_a}"),
        _ => format!("and each {noun} {of_b} is below each {of_a}"),
    };
    let verb = if found.n == [1, 1] { "gives" } else { "give" };
    format!(
        "no verdict: {} by the medians, {apart}; {n} {verb} none: {}",
        sides_stand(case, found.ratio),
        needed(case, found.n, [of_a, of_b])
    )
}

/// What a verdict takes. A comparison is continued; results that are compared are measured again.
fn needed(case: &CaseComparison, n: [usize; 2], owners: [&str; 2]) -> String {
    let n_whole = stats::UNPAIRED_MIN;
    let lacking = n.map(|n| n_whole.saturating_sub(n));
    if case.pairing != Pairing::None {
        return format!("{} needed ({})", missing_of_sides(lacking, owners), how(case, n_whole));
    }
    let again = match (case.purpose, lacking) {
        (ComparisonPurpose::Repeat, _) => how(case, n_whole),
        (_, [_, 0]) => format!("measure A again with {}", how(case, n_whole)),
        (_, [0, _]) => format!("measure B again with {}", how(case, n_whole)),
        _ => format!("measure both again with {}", how(case, n_whole)),
    };
    format!("it takes {n_whole} of each ({again})")
}

/// `1 more of each is`, `1 more of A and 3 more of B are`.
fn missing_of_sides(lacking: [usize; 2], owners: [&str; 2]) -> String {
    match lacking {
        [a, b] if a == b => format!("{a} more of each {}", are(a)),
        [a, 0] => format!("{a} more {} {}", owners[0], are(a)),
        [0, b] => format!("{b} more {} {}", owners[1], are(b)),
        [a, b] => format!("{a} more {} and {b} more {} are", owners[0], owners[1]),
    }
}

/// `4 more are needed (--pairs 6)`.
fn missing(case: &CaseComparison, n: usize) -> String {
    format!("{n} more {} needed ({})", are(n), how(case, stats::PAIRS_MIN))
}

fn are(n: usize) -> &'static str {
    if n == 1 { "is" } else { "are" }
}

/// How to get as many runs or pairs as a verdict needs.
fn how(case: &CaseComparison, n_whole: usize) -> String {
    match case.purpose {
        ComparisonPurpose::Change => format!("{} {n_whole}", case.more_with),
        ComparisonPurpose::Repeat => {
            format!("measure the original with {} {n_whole}, and repeat that", case.more_with)
        }
    }
}

/// A ratio: `2.2x`, `0.987x`.
fn times(ratio: f64) -> String {
    if ratio >= 1.5 { format!("{ratio:.1}x") } else { format!("{ratio:.3}x") }
}

fn row(figure: &FigureComparison, case: &CaseComparison) -> String {
    let change = match change(figure, case) {
        [change, word] if change == "-" => word,
        [change, word] => format!("{change}  {word}"),
    };
    let name = figure.figure.as_str();
    let [a, b] = [figure.a_median, figure.b_median].map(|median| value(case, figure.figure, median));
    format!("{name:<12}{a:>14}{b:>14}   {change}")
}

/// What a transaction costs, a line each.
fn cost_rows(case: &CaseComparison) -> Vec<String> {
    costs::table_of(case).into_iter().map(five).collect()
}

/// A row of a table below the figures.
fn five([title, a, b, change, word]: [String; 5]) -> String {
    format!("{title:<18}{a:>11}{b:>11}   {change}  {word}")
}

/// How long the transactions of each script take: at most a screen.
fn script_rows(case: &CaseComparison, width: usize) -> Vec<String> {
    let rows = scripts::table_of(case, scripts::ROWS_MAX);
    named_rows(&rows, scripts::what(case), scripts::left_out(case, scripts::ROWS_MAX), width)
}

/// How long each statement takes, and what they add up to: at most a screen.
fn statement_rows(case: &CaseComparison, width: usize) -> Vec<String> {
    let rows = statements::table_of(case, statements::ROWS_MAX);
    let more = statements::left_out(case, statements::ROWS_MAX);
    let mut lines = named_rows(&rows, statements::WHAT, more, width);
    let whole = if rows.is_empty() { None } else { statements::whole(case) };
    let Some(whole) = whole else { return lines };
    lines.push(String::new());
    lines.extend(terminal::wrap(&format!("{whole}; {}:", statements::SUM), width));
    for step in statements::steps(case) {
        let figures = columns::left(&statements::with_interval(&step.part), PART_CHARS);
        let name_chars = width.saturating_sub(PART_CHARS).max(20);
        let name: String = step.name.chars().take(name_chars).collect();
        lines.push(format!("{figures}{name}"));
    }
    lines
}

/// Columns of a part of a sum with its interval.
const PART_CHARS: usize = 36;

/// Rows of which the first cell is a name, two lines each where one would be too long.
fn named_rows(rows: &[[String; 7]], what: &str, more: Option<String>, width: usize) -> Vec<String> {
    let Some(longest) = rows.iter().map(|[name, ..]| name.chars().count()).max() else { return Vec::new() };
    let figures = |[_, a, b, change, word, ..]: &[String; 7]| format!("{a:>11}{b:>11}   {change}  {word}");
    let widest = rows.iter().map(|row| figures(row).chars().count()).max().unwrap_or(0);
    let is_one_line = longest + widest <= width;
    let mut lines = vec![String::new()];
    lines.extend(terminal::wrap(&format!("{what}:"), width));
    for row in rows {
        if is_one_line {
            lines.push(format!("{}{}", columns::left(&row[0], longest), figures(row)));
        } else {
            lines.extend([row[0].clone(), figures(row)]);
        }
    }
    lines.extend(more);
    lines
}

/// Medians whose ratio is further from the estimated one than this share leave a reader without an explanation. Our convention.
const OTHERWISE: f64 = 0.1;

/// An explanation if the change points the other way than the medians shown with it, or is another by more than a tenth.
pub(crate) fn why_otherwise(case: &CaseComparison) -> Option<String> {
    let is_otherwise = |figure: &&FigureComparison| {
        let (Some(a), Some(b), Some(ratio)) = (figure.a_median, figure.b_median, figure.result) else {
            return false;
        };
        (b - a) * (ratio.ratio - 1.0) < 0.0 || (b / a / ratio.ratio).ln().abs() > OTHERWISE.ln_1p()
    };
    let figure = case.figures.iter().find(is_otherwise)?;
    let [of_a, of_b] = case.purpose.owners();
    let noun = case.pairing.noun();
    let of = match case.pairing {
        Pairing::Blocks => "pair by pair".to_string(),
        Pairing::Slices => "by pairs of slices".to_string(),
        Pairing::Rounds => "round by round".to_string(),
        Pairing::None | Pairing::RoundsApart => format!("from each {noun} {of_b} and each {noun} {of_a}"),
    };
    Some(format!(
        "the ratio is estimated {of} (Hodges-Lehmann), so it can disagree with the two medians, as it does for {}",
        figure.figure.as_str()
    ))
}

/// A figure with its unit.
pub(crate) fn value(case: &CaseComparison, figure: ComparedFigure, value: Option<f64>) -> String {
    match (figure, value) {
        (_, None) => "-".to_string(),
        (ComparedFigure::Throughput, Some(rate)) if case.is_analytical => {
            format!("{}/s", format::tps(rate))
        }
        (ComparedFigure::Throughput, Some(tps)) => format!("{} tps", format::tps(tps)),
        (ComparedFigure::Ratio, Some(ratio)) => times(ratio),
        (_, Some(ns)) => format!("{} ms", format::ms(ns)),
    }
}

/// Figures printed next to the verdict: name, and change with interval.
pub(crate) fn supplement(case: &CaseComparison) -> Vec<(String, String)> {
    let mut figures = Vec::new();
    if let Some(adjusted) = &case.supplement.without_foreign_cpu {
        let low = signed(adjusted.low - 1.0);
        let change = format!(
            "{} ({} to {}); not the verdict; foreign CPU explains {} of the variation between pairs",
            signed(adjusted.ratio - 1.0),
            low.trim_end_matches(" %"),
            signed(adjusted.high - 1.0),
            format::percent(adjusted.explained)
        );
        figures.push(("throughput, adjusted for foreign CPU (control variate)".to_string(), change));
    }
    figures.extend(disturbances(case).map(|value| ("what disturbed its runs".to_string(), value)));
    figures
}

/// `foreign-cpu in 2 of 8 runs of A and 1 of 8 of B; steal in …`, and how to read on. `None` if nothing did.
fn disturbances(case: &CaseComparison) -> Option<String> {
    let [owner_a, owner_b] = case.purpose.owners();
    let of = |one: &DisturbedSides| {
        let ([n_a, n_b], [of_a, of_b]) = (one.n, one.of);
        let word = if of_a == 1 { "run" } else { "runs" };
        format!("{} in {n_a} of {of_a} {word} {owner_a} and {n_b} of {of_b} {owner_b}", one.id)
    };
    let said: Vec<String> = case.disturbed.iter().map(of).collect();
    (!said.is_empty())
        .then(|| format!("{}; pgdyno report DIR --verbose says when and how much", said.join(", ")))
}

/// The change with its interval, and a short verdict.
pub(crate) fn change(figure: &FigureComparison, case: &CaseComparison) -> [String; 2] {
    match &figure.result {
        None => {
            let ratio = figure.provisional.map(|found| signed(found.ratio - 1.0));
            [ratio.unwrap_or_else(|| "-".to_string()), "no verdict".to_string()]
        }
        Some(ratio) => {
            // Of several cases, the deciding figure's verdict must also pass the correction.
            let verdict = case.verdict().filter(|_| figure.figure == case.lead).unwrap_or(ratio.verdict);
            let word = word(figure.figure, verdict, case.margin);
            [format!("{} ({})", signed(ratio.ratio - 1.0), interval(ratio)), word]
        }
    }
}

fn word(figure: ComparedFigure, verdict: ComparisonVerdict, margin: f64) -> String {
    match (verdict, figure) {
        (ComparisonVerdict::Same, _) => format!("no difference larger than {}", percent(margin)),
        (ComparisonVerdict::Unsure, _) => "undecided".to_string(),
        (ComparisonVerdict::Faster, ComparedFigure::Ratio) => "higher".to_string(),
        (ComparisonVerdict::Faster, _) => "faster".to_string(),
        (ComparisonVerdict::Slower, ComparedFigure::Ratio) => "lower".to_string(),
        (ComparisonVerdict::Slower, _) => "slower".to_string(),
    }
}

/// Title of a comparison: `B against A`.
pub(crate) fn title(input: &ComparisonInput) -> String {
    let title = match (input.experiments, input.cases) {
        ([one], [case]) if one.study.plan.title.is_empty() || !one.study.plan.is_comparison => {
            format!("{} against {}", case.b, case.a)
        }
        ([one], _) => one.study.plan.title.clone(),
        ([a, b, ..], _) => format!("{} against {}", b.name, a.name),
        ([], _) => against(input.purpose()),
    };
    phrases::one_line(&title)
}

pub(crate) fn noise_floor(floor: &NoiseFloor) -> String {
    let figure = match floor.figure {
        ComparedFigure::Throughput => String::new(),
        other => format!(" for {}", other.as_str()),
    };
    format!(
        "noise floor of {}{figure}, measured {}: ±{} over {} ({}, {} clients)",
        phrases::one_line(&floor.hostname),
        format::utc(floor.t_unix_ns),
        percent(floor.half_width),
        phrases::plural(floor.n_pairs, "A/A pair"),
        phrases::one_line(&floor.workload),
        floor.n_clients
    )
}

/// `+2.9 to +5.3 %`.
pub(crate) fn interval(ratio: &Ratio) -> String {
    let low = signed(ratio.low - 1.0);
    format!("{} to {}", low.trim_end_matches(" %"), signed(ratio.high - 1.0))
}
