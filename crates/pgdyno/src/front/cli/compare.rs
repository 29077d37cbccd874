//! Options of `compare`.

pub(crate) mod failing;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use model::experiment::driver::DriverSpec;
use model::experiment::driver::inventory::DriverSection;
use model::load::duet::Slicing;
use model::text::share::Share;

use crate::front::announce::AgreedSteps;
use crate::front::ask::AllowedCommands;
use crate::front::cli::agents::{AgentsWanted, NatsArgs};
use crate::front::cli::changes::{ChangeArgs, RiskArgs};
use crate::front::cli::compare::failing::FailTerms;
use crate::front::cli::keys::{self, OptionsOfBoth};
use crate::front::cli::live::LiveArgs;
use crate::front::cli::numbers::{pairs, some_time};
use crate::front::cli::{ResultLabels, ServerArgs};

/// Options that a comparison which goes on takes from its beginning.
fn asked() -> Vec<&'static str> {
    const OTHERS: [&str; 24] = [
        "results",
        "a",
        "b",
        "aa",
        "duet",
        "rounds",
        "slice",
        "guard",
        "experiment",
        "name",
        "title",
        "note",
        "server",
        "versions",
        "bin_dir",
        "scripts",
        "drivers",
        "agents",
        "upload",
        "host",
        "defines",
        "pairs",
        "plan",
        "output",
    ];
    OTHERS.into_iter().chain(keys::names_of_both()).collect()
}

/// Options of `compare`.
#[derive(Debug, Args)]
#[command(after_help = COMPARE_HELP, mut_args = keys::in_order(keys::OF_COMPARE))]
pub(crate) struct CompareArgs {
    /// Results: two directories, two cases (DIR:1 DIR:2), or one directory with two cases. Without any, measure now.
    #[arg(value_name = "DIR[:CASE]", num_args = 0..=2)]
    pub(crate) results: Vec<String>,
    /// Take these results from a PostgreSQL database that `pgdyno push` filled, into `results`.
    // clap ignores `requires` if the required argument conflicts with another one that is given.
    #[arg(long, value_name = "TARGET", requires = "results", conflicts_with_all = ["a", "b", "aa", "duet"])]
    pub(crate) store: Option<String>,
    /// Go on with a comparison in this directory that ended before it had the pairs of a verdict.
    #[arg(long, value_name = "DIR", conflicts_with_all = asked())]
    pub(crate) resume: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) labels: ResultLabels,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Serve what is measured to Prometheus, as http://ADDRESS/metrics (127.0.0.1:9187).
    #[arg(long, value_name = "ADDRESS", conflicts_with = "results")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Show no progress.
    #[arg(short, long, conflicts_with = "results")]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) live: LiveArgs,
    /// What A changes in the experiment: server.version=15, server.settings.work_mem=64MB, server.url=… Repeatable.
    #[arg(long = "a", value_name = "KEY=VALUE", value_parser = keys::assignments(), hide_possible_values = true, conflicts_with_all = ["results", "aa"])]
    pub(crate) a: Vec<String>,
    /// What B changes in the experiment. Repeatable.
    #[arg(long = "b", value_name = "KEY=VALUE", value_parser = keys::assignments(), hide_possible_values = true, conflicts_with_all = ["results", "aa"])]
    pub(crate) b: Vec<String>,
    /// Measure A against itself, for the smallest difference this host can show; later comparisons use it.
    #[arg(long, conflicts_with = "results")]
    pub(crate) aa: bool,
    /// Print what would be measured, as `pgdyno plan` does.
    #[arg(long, conflicts_with = "results")]
    pub(crate) plan: bool,
    /// Run both servers at once, their loads taking turns in short slices, which cancels longer disturbances.
    #[arg(long, conflicts_with_all = ["results", "pairs", "precision", "time"])]
    pub(crate) duet: bool,
    /// Rounds of a duet; both servers are restarted for each. From 6 on, rounds are the unit of the statistics.
    #[arg(long, value_name = "N", default_value_t = 8, requires = "duet", value_parser = clap::value_parser!(u32).range(1..=1000), allow_hyphen_values = true)]
    pub(crate) rounds: u32,
    /// Length of a duet's slices, milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 500, requires = "duet")]
    pub(crate) slice: u32,
    /// Beginning of each slice that does not count, milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 50, requires = "duet")]
    pub(crate) guard: u32,
    /// The experiment that both sides change: a file, or a built-in one [default: quick].
    #[arg(long, value_name = "EXPERIMENT", conflicts_with = "results")]
    pub(crate) experiment: Option<String>,
    /// Execute what the file of results brings with it, as for `run`.
    #[arg(long, value_name = "NUMBER", num_args = 0..=1, require_equals = true, default_missing_value = "", conflicts_with = "results")]
    pub(crate) allow_commands: Option<AllowedCommands>,
    /// A pgbench script of your own and its weight (a.sql@3), or a built-in one (builtin:select-only). Repeatable.
    #[arg(
        short = 'f',
        long = "script",
        visible_alias = "file",
        value_name = "FILE[@WEIGHT]",
        conflicts_with = "results"
    )]
    pub(crate) scripts: Vec<String>,
    /// A driver on another machine: ssh:[USER@]HOST[:PORT], with =PATH of pgdyno there; all hosts of a file (@FILE); or pods
    /// (kubectl:NAMESPACE/LABEL=VALUE). Repeatable.
    #[arg(long = "driver", value_name = "ssh:HOST", conflicts_with = "results")]
    pub(crate) drivers: Vec<DriverSection>,
    /// Put a copy of this program on machines of drivers and observed servers where it is missing or another build.
    #[arg(long, conflicts_with = "results")]
    pub(crate) upload: bool,
    /// Agents at a NATS server that drive: COUNT of those with these labels (`all`: any), in order of name.
    #[arg(long, value_name = "KEY=VALUE,...[*COUNT]", conflicts_with = "results")]
    pub(crate) agents: Option<AgentsWanted>,
    #[command(flatten)]
    pub(crate) nats: NatsArgs,
    /// The host of the servers by URL, observed there: ssh:[USER@]HOST[:PORT], with =PATH of pgdyno there.
    #[arg(long, value_name = "ssh:HOST", conflicts_with = "results")]
    pub(crate) host: Option<DriverSpec>,
    /// A variable of the scripts. Repeatable.
    #[arg(short = 'D', long = "define", value_name = "NAME=VALUE", conflicts_with = "results")]
    pub(crate) defines: Vec<String>,
    /// Any key of the experiment file, for both sides. Repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = keys::assignments(), hide_possible_values = true, conflicts_with = "results")]
    pub(crate) set: Vec<String>,
    /// Exactly this many pairs, 6 to 500 [default: as many as --precision needs within --time].
    #[arg(long, value_name = "N", value_parser = pairs, conflicts_with = "results", allow_hyphen_values = true)]
    pub(crate) pairs: Option<u32>,
    /// Stop when the interval of the throughput ratio is this narrow, plus or minus: 1%, 1, or 0.01.
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = share, allow_hyphen_values = true)]
    pub(crate) precision: f64,
    /// Begin no pair that would end after this time, counted from the first run; the pairs that a verdict needs may take half as long
    /// again.
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = some_time, allow_hyphen_values = true)]
    pub(crate) time: model::text::units::Span,
    /// The largest difference that does not matter: 5%, 5, or 0.05. B is slower, or faster, if the interval of the ratio excludes no
    /// difference and does not fit into the margin: with 5 %, also at -8 to -1 %.
    #[arg(long, value_name = "PERCENT", default_value = "2%", value_parser = share, allow_hyphen_values = true)]
    pub(crate) margin: f64,
    /// Exit with 4 if B is slower, if it differs either way, if a statement is slower or fails, or if transactions cost more: slower,
    /// different, statement-slower=5%, cost:wal=1%,cpu=2%, or several with commas. A share is the largest difference that does not matter.
    #[arg(long, value_name = "WHAT")]
    pub(crate) fail_on: Option<FailTerms>,
    /// Compare even if A and B differ in more than was asked for.
    #[arg(long)]
    pub(crate) force: bool,
    /// Directory of the results, new or empty [default: results/DATE-compare-XXXX].
    #[arg(short, long, value_name = "DIR", conflicts_with = "results")]
    pub(crate) output: Option<PathBuf>,
    /// Where to write the page of a comparison of stored results: a directory (report.html, report.md and compared.csv), or a .html, .md or
    /// .csv file. One measured now has it with its results.
    // clap ignores `requires` if the required argument conflicts with another one that is given.
    #[arg(long, value_name = "DIR|FILE", requires = "results", conflicts_with_all = ["a", "b", "aa", "duet"])]
    pub(crate) report: Option<PathBuf>,
    /// Drop tables and routines of the same names in that schema that pgdyno did not create, and data of another scale.
    #[arg(long, conflicts_with = "results")]
    pub(crate) replace: bool,
    /// Replace this database of a server by URL by a copy of itself before each run, though pgdyno did not create it. Repeatable.
    #[arg(long = "replace-database", value_name = "NAME", conflicts_with = "results")]
    pub(crate) replace_databases: Vec<String>,
    #[command(flatten)]
    pub(crate) risks: RiskArgs,
    #[command(flatten)]
    pub(crate) changes: ChangeArgs,
    /// Ask nothing.
    #[arg(short, long, conflicts_with = "results")]
    pub(crate) yes: bool,
    /// Print as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) keys: OptionsOfBoth,
}

impl CompareArgs {
    /// How a duet is cut.
    pub(crate) fn slicing(&self) -> Slicing {
        Slicing { slice_ms: self.slice, guard_ms: self.guard }
    }

    /// All that the user allows on servers by URL.
    pub(crate) fn consent(&self) -> AgreedSteps<'_> {
        AgreedSteps {
            yes: self.yes,
            replace: self.replace,
            replace_databases: &self.replace_databases,
            risks: self.risks.risks(),
            allowed: self.changes.allowed(),
            outages: &self.changes.allow_outages,
        }
    }
}

const COMPARE_HELP: &str = "\
Examples:
  pgdyno compare results/monday results/tuesday --report monday-tuesday.html
  pgdyno compare results/versions:1 results/versions:3
  pgdyno compare --a server.version=15 --b server.version=18 --time 20min
  pgdyno compare --b server.settings.wal_compression=on --fail-on slower,cost:wal=1%,cpu=3%
  pgdyno compare --server postgres://… --allow-changes --b server.settings.work_mem=64MB
  pgdyno compare --aa
  pgdyno compare --duet --b server.settings.synchronous_commit=off --rounds 12";

/// When a comparison fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FailOn {
    Slower,
    Different,
}

/// A share below 100 %: `2%`, `0.5 %`, `2` or `0.02`. Nobody means 100 % and more by a number of 1 and more.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    share_of_figure(text).map(Share::value)
}

/// [`share`] as keys have it.
pub(crate) fn share_of_figure(text: &str) -> Result<Share, String> {
    let is_percent = text.trim().parse::<f64>().is_ok_and(|number| number >= 1.0);
    let text = if is_percent { format!("{}%", text.trim()) } else { text.to_string() };
    match text.parse::<Share>()? {
        share if share.value() < 1.0 => Ok(share),
        _ => Err(format!("`{text}` is not below 100 % (example: 2%)")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_one_or_more_is_a_percentage_and_a_smaller_one_a_share() {
        for (text, value) in [
            ("5", 0.05),
            ("1", 0.01),
            ("1.5", 0.015),
            ("5%", 0.05),
            ("0.5 %", 0.005),
            ("0.05", 0.05),
            ("99", 0.99),
        ] {
            assert!((share(text).unwrap() - value).abs() < 1e-12, "{text}");
        }
        for text in ["0", "-1", "100", "100%", "150", "five", "NaN", "inf"] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
