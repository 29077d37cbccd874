//! The command line: the options. Nothing here is serialized; `setup.rs` applies the options.

pub(crate) mod agents;
pub(crate) mod ceilings;
pub(crate) mod changes;
pub(crate) mod compare;
pub(crate) mod data;
pub(crate) mod doctor;
mod kept;
pub(crate) mod keys;
pub(crate) mod live;
mod numbers;
pub(crate) mod packed;
pub(crate) mod serve;
pub(crate) mod stored;
pub(crate) mod trust;
pub(crate) mod why;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use model::experiment::driver::DriverSpec;
use model::experiment::driver::inventory::DriverSection;

use self::keys::KeyOptions;
use crate::front::ask::AllowedCommands;
use crate::front::cli::agents::{AgentArgs, AgentsWanted, DialArgs, FarArgs, ListAgentsArgs, NatsArgs};
use crate::front::cli::ceilings::CalibrateArgs;
use crate::front::cli::changes::{ChangeArgs, LeaveArgs};
pub(crate) use crate::front::cli::compare::{CompareArgs, FailOn, share};
use crate::front::cli::data::capture::CaptureCommand;
use crate::front::cli::data::workloads::WorkloadCommand;
use crate::front::cli::data::{CheckArgs, InitArgs};
use crate::front::cli::doctor::DoctorArgs;
pub(crate) use crate::front::cli::kept::{CleanArgs, ServerCommand};
use crate::front::cli::live::LiveArgs;
use crate::front::cli::packed::{PackArgs, RepeatArgs, UnpackArgs};
use crate::front::cli::serve::ServeArgs;
use crate::front::cli::stored::{
    ExportArgs, FormArgs, HistoryArgs, ListArgs, MergeArgs, PushArgs, ReportArgs,
};
use crate::front::cli::trust::TrustArgs;
use crate::front::cli::why::WhyArgs;
use crate::front::moved::Moved;
use crate::front::template::QuestionTemplate;

/// A dynamometer for PostgreSQL: benchmark numbers that can be trusted.
#[derive(Debug, Parser)]
#[command(name = "pgdyno", version, arg_required_else_help = true, max_term_width = 100, after_help = exit_codes())]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands of pgdyno.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure an experiment and write a report.
    #[command(disable_version_flag = true)]
    Run(RunArgs),
    /// Show what `run` would do with the same options, and do nothing. Options for what is shown while measuring and
    /// afterwards have no effect.
    #[command(disable_version_flag = true)]
    Plan(RunArgs),
    /// Print a commented experiment file to start from: pgdyno new versions > exp.toml.
    New {
        /// Question that the new experiment asks.
        #[arg(value_enum, value_name = "QUESTION", default_value_t)]
        template: QuestionTemplate,
    },
    /// Write report.html, report.md, runs.csv and cases.csv again from stored results.
    Report(ReportArgs),
    /// Merge results of one experiment from several places into one study with one report.
    Merge(MergeArgs),
    /// Compare two measured cases, or measure two now in pairs: ratio, interval, verdict.
    #[command(disable_version_flag = true)]
    Compare(Box<CompareArgs>),
    /// Prove what limited a case: short what-ifs, each changing one thing, in randomized blocks.
    Why(WhyArgs),
    /// Explain a finding, why it matters and what to do; without a name, list all.
    Explain {
        /// Identifier of the finding (checkpoint-in-window) or its title.
        #[arg(value_name = "FINDING")]
        finding: Option<String>,
    },
    /// Show stored runs of the same case over time, and where their level changed.
    History(HistoryArgs),
    /// List the results in a directory, newest first, with their answers.
    List(ListArgs),
    /// Show results in a browser: list, reports, comparisons, histories, and what is measured now.
    Serve(ServeArgs),
    /// Write records of stored runs as CSV, JSON or Parquet: seconds, intervals, readings.
    Export(ExportArgs),
    /// Pack results into one compressed file to attach to an issue, and show the commands that it contains.
    Pack(PackArgs),
    /// Store results in a PostgreSQL schema for SQL, dashboards and change points; --store of other commands reads them.
    Push(PushArgs),
    /// Unpack such a file, also one of a stranger.
    Unpack(UnpackArgs),
    /// Measure again here what somebody else measured, with the same seeds, and say whether it agrees within noise.
    #[command(disable_version_flag = true)]
    Repeat(Box<RepeatArgs>),
    /// Say whether this machine and a server are fit to measure and sensibly set, and what pgdyno cannot see there.
    Doctor(Box<DoctorArgs>),
    /// Measure what devices, processors, memory and the way to a server give at most; later runs are judged by it.
    Calibrate(CalibrateArgs),
    /// Load a workload's tables into a database.
    #[command(disable_version_flag = true)]
    Init(InitArgs),
    /// Verify a workload's invariants in a database.
    #[command(disable_version_flag = true)]
    Check(CheckArgs),
    /// List, show, write and check workloads, built-in ones and directories.
    #[command(subcommand)]
    Workload(WorkloadCommand),
    /// Make a workload of your application from its server's log and counters, and say how faithful its replay is.
    #[command(subcommand)]
    Capture(CaptureCommand),
    /// Act as pgbench: same options, scripts, output and exit codes (also when called as `pgbench`).
    #[command(disable_version_flag = true, disable_help_flag = true)]
    Pgbench {
        /// pgbench's arguments; --help lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Put back and remove what a killed pgdyno left: values of the operating system, settings of servers by URL, sockets, incomplete
    /// clusters; and copies of pgdyno by `--upload` on this machine (~/.cache/pgdyno/drivers).
    Clean(CleanArgs),
    /// List or remove the clusters of embedded servers that are kept for the next run.
    #[command(subcommand)]
    Server(ServerCommand),
    /// Print the JSON Schema of the experiment file, for editors.
    Schema,
    /// Print the completions for a shell: pgdyno completions bash > /etc/bash_completion.d/pgdyno.
    Completions {
        /// bash, zsh, fish.
        #[arg(value_enum, value_name = "SHELL")]
        shell: clap_complete::Shell,
    },
    /// Write the man pages of all commands into a directory.
    Man {
        /// The directory, which is created if necessary.
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
    /// Print the version.
    #[command(hide = true)]
    Version,
    /// Wait at a NATS server to drive loads for a pgdyno elsewhere, on a machine that can only dial out.
    Agent(AgentArgs),
    /// List the agents that answer at a NATS server.
    Agents(ListAgentsArgs),
    /// Connect standard input and output with an agent's process.
    #[command(hide = true)]
    Dial(DialArgs),
    /// Run the load driver, which reads its order from standard input.
    #[command(hide = true)]
    Drive(FarArgs),
    /// Wait for a signal that ends this process: the first one of a container without a shell.
    #[command(hide = true)]
    Wait,
    /// Observe this machine for a pgdyno elsewhere, whose order is read from standard input.
    #[command(hide = true)]
    Watch(FarArgs),
    /// Set values of this machine's operating system for a pgdyno elsewhere, whose order is read from standard input.
    #[command(hide = true)]
    Host,
    /// Make pages of results for a pgdyno elsewhere, whose order is read from standard input.
    #[command(hide = true)]
    Pages,
    /// Draw one page of results for `pgdyno serve`, whose order is read from standard input.
    #[command(hide = true)]
    Draw,
    /// Restore the values that a pgdyno has set, if it is killed; it has the other end of standard input.
    #[command(hide = true)]
    Undo,
    /// Let processes that an outage has stopped go on, if the pgdyno that stopped them is killed.
    #[command(hide = true)]
    Thaw(crate::watchdog::thaw::ThawArgs),
    /// Run an instant PostgreSQL look-alike on a unix socket, to measure the driver itself.
    #[command(hide = true)]
    Null(NullArgs),
}

/// Name, title and note of the results.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ResultLabels {
    /// Name of the experiment, for the results directory and `history` [default: made from what varies].
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Title of the report.
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// What else a reader of the report should know: "after the new disks".
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
}

/// Which experiment, and what to change in it.
#[derive(Debug, Default, Args)]
pub(crate) struct ExperimentArgs {
    /// An experiment file, or the name of a built-in experiment [default: quick].
    #[arg(value_name = "EXPERIMENT")]
    pub(crate) experiment: Option<String>,
    /// Execute what results that this pgdyno did not make bring with them, if they are resumed or EXPERIMENT is their file. Without it,
    /// that is listed with a number, and nothing is done; the number allows exactly what was listed.
    #[arg(long, value_name = "NUMBER", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(crate) allow_commands: Option<AllowedCommands>,
    #[command(flatten)]
    pub(crate) labels: ResultLabels,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// A driver on another machine: ssh:[USER@]HOST[:PORT], with =PATH of pgdyno there; all hosts of a file (@FILE); or pods
    /// (kubectl:NAMESPACE/LABEL=VALUE). Repeatable.
    #[arg(long = "driver", value_name = "ssh:HOST")]
    pub(crate) drivers: Vec<DriverSection>,
    /// Agents at a NATS server that drive: COUNT of those with these labels (`all`: any), in order of name.
    #[arg(long, value_name = "KEY=VALUE,...[*COUNT]")]
    pub(crate) agents: Option<AgentsWanted>,
    #[command(flatten)]
    pub(crate) nats: NatsArgs,
    /// Put a copy of this program on machines of drivers and observed servers where it is missing or another build.
    #[arg(long)]
    pub(crate) upload: bool,
    /// The host of the server by URL, observed there: ssh:[USER@]HOST[:PORT], with =PATH of pgdyno there.
    #[arg(long, value_name = "ssh:HOST")]
    pub(crate) host: Option<DriverSpec>,
    /// A pgbench script of your own and its weight (a.sql@3), or a built-in one (builtin:select-only). Repeatable.
    #[arg(short = 'f', long = "script", visible_alias = "file", value_name = "FILE[@WEIGHT]")]
    pub(crate) scripts: Vec<String>,
    /// A variable of the scripts. Repeatable.
    #[arg(short = 'D', long = "define", value_name = "NAME=VALUE")]
    pub(crate) defines: Vec<String>,
    /// Any key of the experiment file; a list makes it a factor. Repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = keys::assignments(), hide_possible_values = true)]
    pub(crate) set: Vec<String>,
    /// What one side of a comparison changes.
    #[arg(skip)]
    pub(crate) side: SideChanges,
    /// Scale the experiment to this machine and to a time (--fit=30min; default: 15 min), and report what changed.
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "15min")]
    pub(crate) fit: Option<String>,
    #[command(flatten)]
    pub(crate) keys: KeyOptions,
}

/// What one side of a comparison changes: keys and values, and the option that gives them.
#[derive(Debug, Clone, Default)]
pub(crate) struct SideChanges {
    pub(crate) option: &'static str,
    pub(crate) changes: Vec<String>,
}

/// Options that choose the server.
#[derive(Debug, Clone, Default, Args)]
#[group(multiple = false)]
pub(crate) struct ServerArgs {
    /// A running server: URL, key=value, database name, or "" for the PG* environment.
    #[arg(long, value_name = "TARGET")]
    pub(crate) server: Option<String>,
    /// PostgreSQL versions to run, installed or fetched: 18, 9.6, 12.22.
    #[arg(long = "version", value_name = "V,...", value_delimiter = ',')]
    pub(crate) versions: Vec<String>,
    /// Directory of your own PostgreSQL binaries to run.
    #[arg(long, value_name = "DIR")]
    pub(crate) bin_dir: Vec<PathBuf>,
}

/// Options that a resumed experiment must not change, because it goes on as it was asked for. The remaining ones may
/// hold values that were hidden in its results, or come from the environment.
fn what_is_asked() -> Vec<&'static str> {
    const OTHERS: [&str; 11] = [
        "name", "title", "note", "drivers", "agents", "upload", "host", "server", "versions", "bin_dir",
        "fit",
    ];
    OTHERS.into_iter().chain(keys::names()).collect()
}

/// Options of `run`, and of `plan`, which shows what it would do.
#[derive(Debug, Args)]
#[command(mut_args = keys::in_order(keys::OF_RUN))]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
    /// Directory of the results, new or empty [default: results/DATE-NAME-XXXX].
    #[arg(short, long, value_name = "DIR", conflicts_with = "resume")]
    pub(crate) output: Option<PathBuf>,
    /// Continue an experiment that was stopped, killed or interrupted: completed runs are kept. Passwords that its results lack come from
    /// EXPERIMENT, -f, -D and --set, given as the first time.
    #[arg(long, value_name = "DIR", conflicts_with_all = what_is_asked())]
    pub(crate) resume: Option<PathBuf>,
    /// The address that a target of the resumed experiment has now. Repeatable.
    #[arg(long = "target", value_name = "NAME=URL", requires = "resume")]
    pub(crate) moved: Vec<Moved>,
    /// Poll an address (http://HOST/PATH) for the notice that this machine, the observed host or a driver's machine (each its own) will be
    /// taken away, and stop in time.
    #[arg(long, value_name = "URL")]
    pub(crate) spot_notice: Option<String>,
    /// Ask nothing, and accept plans of more than 100 runs or longer than a day.
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) leave: LeaveArgs,
    #[command(flatten)]
    pub(crate) changes: ChangeArgs,
    #[command(flatten)]
    pub(crate) form: FormArgs,
    /// Serve what is measured to Prometheus, as http://ADDRESS/metrics (127.0.0.1:9187).
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Show no progress.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) live: LiveArgs,
    /// Then prove what limited the case with the highest throughput, as `pgdyno why`.
    #[arg(long)]
    pub(crate) why: bool,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
    /// List the built-in experiments.
    #[arg(long)]
    pub(crate) list: bool,
}

fn exit_codes() -> String {
    let lines = crate::EXITS.map(|(exit, meaning)| format!("\n  {}  {meaning}", exit as u8));
    format!("Exit codes:{}", lines.concat())
}

/// Options of `null`.
#[derive(Debug, Args)]
pub(crate) struct NullArgs {
    /// Directory of the socket.
    #[arg(long, value_name = "DIR", default_value = "/tmp")]
    pub(crate) socket_dir: PathBuf,
    /// Port in the socket's name.
    #[arg(short, long, default_value_t = 5431)]
    pub(crate) port: u16,
    /// How long a statement takes: 0, 200us, uniform over the logarithm of 50us..50ms, exponential exp:2ms, or one of
    /// two 1ms,20ms@5%.
    #[arg(long, value_name = "TIME", default_value = "0")]
    pub(crate) service: null::ServiceTime,
    /// Answer nothing from 2s..4s after the first statement, and what came meanwhile at the end of that time.
    #[arg(long, value_name = "TIME")]
    pub(crate) silence: Option<null::Silence>,
    /// Record each statement in a new file, as four 8-byte numbers: connection, and when it had arrived, its answer was
    /// about to be sent and had been sent, nanoseconds.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Never sleep: one processor is busy, and recorded times include no wake-up of this server.
    #[arg(long)]
    pub(crate) spin: bool,
    /// Seed of the service times.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;

    #[test]
    fn options_of_run_that_concern_both_sides_are_options_of_compare() {
        // Those that make several cases, ask for another form of report, or go on with an experiment.
        const OF_RUN_ALONE: [&str; 13] = [
            "resume",
            "target",
            "repeats",
            "fit",
            "spot-notice",
            "why",
            "strict",
            "max-uncertainty",
            "list",
            "verbose",
            "csv",
            "markdown",
            "version",
        ];
        let command = <Cli as clap::CommandFactory>::command();
        let options = |name: &str| -> Vec<String> {
            let command = command.find_subcommand(name).expect("it is a command");
            command.get_arguments().filter_map(|one| one.get_long()).map(str::to_string).collect()
        };
        let of_compare = options("compare");
        let missing: Vec<String> = options("run")
            .into_iter()
            .filter(|option| !of_compare.contains(option) && !OF_RUN_ALONE.contains(&option.as_str()))
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn every_option_of_run_is_one_of_plan() {
        let command = <Cli as clap::CommandFactory>::command();
        let options = |name: &str| -> Vec<(Option<char>, String)> {
            let command = command.find_subcommand(name).expect("it is a command");
            let named = |one: &clap::Arg| Some((one.get_short(), one.get_long()?.to_string()));
            command.get_arguments().filter_map(named).collect()
        };
        assert_eq!(options("plan"), options("run"));
        assert!(options("plan").len() > 50);
        for given in [
            "-q -y -v -o out --csv",
            "--live --open --metrics 127.0.0.1:9187 --json",
            "--why --strict --list --spot-notice http://h/p",
            "--replace --allow-changes --allow-setting log_statement",
            "--resume out --target a=postgres://h",
        ] {
            let words = "pgdyno plan".split(' ').chain(given.split(' '));
            assert!(Cli::try_parse_from(words).is_ok(), "{given}");
        }
    }

    #[test]
    fn a_resumed_experiment_refuses_what_it_would_ignore() {
        const REMAINING: [&str; 8] =
            ["experiment", "allow_commands", "scripts", "defines", "set", "nats", "creds", "ca"];
        let asked = what_is_asked();
        let options = ExperimentArgs::augment_args(clap::Command::new("run"));
        for id in options.get_arguments().map(|option| option.get_id().as_str()) {
            assert!(asked.contains(&id) != REMAINING.contains(&id), "{id}");
        }
        let parsed = |options: &str| {
            let words = "pgdyno run --resume out".split(' ').chain(options.split_whitespace());
            Cli::try_parse_from(words).map(drop).map_err(|error| error.kind())
        };
        for options in ["--no-restore", "--host ssh:a", "--perf", "--agents all", "--upload", "-c 4"] {
            assert_eq!(parsed(options), Err(ErrorKind::ArgumentConflict), "{options}");
        }
        assert_eq!(parsed("again.toml -f a.sql -D a=1 --set workload.scale=1 --yes"), Ok(()));
    }
}
