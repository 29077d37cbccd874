//! From the command line to a request, with pgbench's checks in pgbench's order: the first error is the one reported.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use model::load::{OnDisconnect, Protocol};
use workload::tpcb::{Partitioning, TpcbScript};

use super::getopt::{self, CommandPiece};
use super::options::{Added, BenchPlan, ConnectionOptions, InitPlan, Length, LogPlan, Opt, Request, specs};
use crate::cnum::{self, BadInt};
use crate::compat::Compat;
use crate::messages::{Complaint, MessageKind, MessageLog, try_help};
use crate::scripts::{self, GivenScript};

/// Default steps of `-i`.
const INIT_STEPS_DEFAULT: &str = "dtgvp";
/// All steps of `-i`.
const INIT_STEPS_ALL: &str = "dtgGvpf";
/// Transactions of each client without `-t` and `-T`.
const TRANSACTIONS_DEFAULT: u32 = 10;
/// Default prefix of log files.
const LOG_PREFIX_DEFAULT: &str = "pgbench_log";

/// Context for reading a command line.
pub(crate) struct Reader<'a> {
    /// The release whose options are accepted.
    pub(crate) compat: Compat,
    /// The name the program was called by, for the messages of `getopt_long`.
    pub(crate) called: &'a str,
    /// Environment variables of libpq and of pgbench.
    pub(crate) environment: &'a BTreeMap<String, String>,
    /// Name of the operating system user.
    pub(crate) os_user: Option<&'a str>,
    /// Where messages go.
    pub(crate) log: &'a mut MessageLog,
}

type Result<T> = std::result::Result<T, Complaint>;

/// The release to imitate: by option, otherwise by environment.
pub(crate) fn find_compat(args: &[String], environment: Option<&str>) -> Result<Compat> {
    let release = |text: &str| text.parse().map_err(Complaint::new);
    let default = environment.filter(|text| !text.is_empty()).map_or(Ok(Compat::default()), release);
    let given = |compat: Compat| {
        getopt::split(&specs(compat), "", args).into_iter().rev().find_map(|item| match item {
            CommandPiece::Option(Opt::Compat, text) => Some(text),
            _ => None,
        })
    };
    // Releases differ in their options and in which of these take a value, so that one may overlook what another reads.
    let first = default.as_ref().copied().unwrap_or_default();
    let found = [first, Compat::default(), Compat::V15].into_iter().find_map(given);
    found.map_or(default, |text| release(&text))
}

/// The arguments that say where to connect.
pub(crate) fn targets(compat: Compat, args: &[String]) -> Vec<String> {
    let items = getopt::split(&specs(compat), "", args);
    let target = |item| match item {
        CommandPiece::Option(Opt::Dbname, text) | CommandPiece::Argument(text) => Some(text),
        _ => None,
    };
    items.into_iter().filter_map(target).collect()
}

impl Reader<'_> {
    /// Reads the arguments after the program's name.
    pub(crate) fn read(mut self, args: &[String]) -> Result<Request> {
        let progname = self.log.progname.clone();
        let usage = |complaint: Complaint| complaint.hint(try_help(&progname));
        let items = getopt::split(&specs(self.compat), self.called, args);
        let mut given = Given { seed: self.first_seed()?, ..Given::default() };
        let mut arguments = Vec::new();
        for item in items {
            match item {
                CommandPiece::Option(opt, value) => {
                    if given.take(opt, &value, self.compat, self.log)? {
                        return Ok(Request::Nothing);
                    }
                }
                CommandPiece::Argument(text) => arguments.push(text),
                CommandPiece::Bad(message) => return Err(usage(Complaint::raw(message))),
            }
        }
        if given.scripts.is_empty() && !given.is_init {
            given.add_builtin(TpcbScript::Tpcb, 1)?;
        }
        given.check_scripts()?;
        let mut arguments = arguments.into_iter();
        let dbname = match given.dbname.take() {
            Some(name) => name,
            None => match arguments.next() {
                Some(name) => name,
                None => self.default_dbname()?,
            },
        };
        if let Some(extra) = arguments.next() {
            let message = format!("too many command-line arguments (first is \"{extra}\")");
            return Err(usage(Complaint::new(message)));
        }
        let target = ConnectionOptions {
            host: given.host.take(),
            port: given.port.take(),
            user: given.user.take(),
            dbname,
        };
        if given.is_init {
            given.init_plan().map(|plan| Request::Init(target, plan))
        } else {
            given.bench_plan().map(|plan| Request::Bench(target, Box::new(plan)))
        }
    }

    fn first_seed(&mut self) -> Result<u64> {
        let Some(text) = self.environment.get("PGBENCH_RANDOM_SEED") else { return Ok(time_seed()) };
        let seed = seed(text).map_err(|complaint| {
            let message = "error while setting random seed from PGBENCH_RANDOM_SEED environment variable";
            complaint.and(MessageKind::Error, message)
        })?;
        self.log.say(MessageKind::Info, &format!("setting random seed to {seed}"));
        Ok(seed)
    }

    fn default_dbname(&self) -> Result<String> {
        let variable = |name| self.environment.get(name).filter(|value: &&String| !value.is_empty());
        let found =
            variable("PGDATABASE").or_else(|| variable("PGUSER")).map(String::as_str).or(self.os_user);
        found.map(str::to_string).ok_or_else(|| Complaint::new("could not look up the effective user"))
    }
}

fn time_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_micros() as u64
}

/// The seed for this text.
fn seed(text: &str) -> Result<u64> {
    match text {
        "time" => Ok(time_seed()),
        // Hash keys come from the system's random numbers.
        "rand" => Ok(std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0u8)),
        _ => cnum::whole_unsigned(text).ok_or_else(|| {
            Complaint::new(format!("unrecognized random seed option \"{text}\""))
                .and(MessageKind::Detail, "Expecting an unsigned integer, \"time\" or \"rand\".")
        }),
    }
}

fn int(text: &str, option: &str, min: i32, max: i32) -> Result<u32> {
    match cnum::option_int(text, min, max) {
        Ok(value) => Ok(value.unsigned_abs()),
        Err(BadInt::Syntax) => Err(Complaint::new(format!("invalid value \"{text}\" for option {option}"))),
        Err(BadInt::Range) => Err(Complaint::new(format!("{option} must be in range {min}..{max}"))),
    }
}

/// A number above zero and up to `max`; `what` names it in the message. pgbench also accepts infinity and NaN, which
/// nobody means as a rate or limit.
fn positive(text: &str, what: &str, max: f64) -> Result<f64> {
    let value = cnum::leading_float(text);
    if value > 0.0 && value <= max {
        Ok(value)
    } else {
        Err(Complaint::new(format!("invalid {what}: \"{text}\"")))
    }
}

/// How to partition accounts.
#[derive(Debug, Clone, Copy)]
enum Method {
    Range,
    Hash,
}

/// The options given so far.
#[derive(Debug, Default)]
struct Given {
    is_init: bool,
    has_bench_option: bool,
    has_init_option: bool,
    no_vacuum: bool,
    host: Option<String>,
    port: Option<String>,
    user: Option<String>,
    dbname: Option<String>,
    scale: Option<u32>,
    seed: u64,
    init_steps: Option<String>,
    foreign_keys: bool,
    fillfactor: Option<u32>,
    is_quiet: bool,
    unlogged: bool,
    tablespace: Option<String>,
    index_tablespace: Option<String>,
    partitions: u32,
    n_streams: Option<u32>,
    method: Option<Method>,
    scripts: Vec<GivenScript>,
    uses_builtin: bool,
    defines: Vec<(String, String)>,
    protocol: Option<Protocol>,
    n_clients: Option<u32>,
    n_threads: Option<u32>,
    transactions: Option<u32>,
    seconds: Option<u32>,
    connect_each: bool,
    rate_per_s: Option<f64>,
    latency_limit_us: Option<u64>,
    max_tries: Option<u32>,
    vacuums_accounts: bool,
    progress_s: u32,
    progress_timestamp: bool,
    per_command: bool,
    failures_detailed: bool,
    verbose_errors: bool,
    exit_on_abort: bool,
    logs: bool,
    log_prefix: Option<String>,
    sampling_rate: Option<f64>,
    aggregate_interval_s: u32,
    added: Added,
}

impl Given {
    /// Applies one option. Returns whether it prints something and ends the program.
    fn take(&mut self, opt: Opt, value: &str, compat: Compat, log: &mut MessageLog) -> Result<bool> {
        let text = || Some(value.to_string());
        match opt {
            Opt::Initialize => self.is_init = true,
            Opt::Host => self.host = text(),
            Opt::Port => self.port = text(),
            Opt::Username => self.user = text(),
            Opt::Dbname => self.dbname = text(),
            Opt::Debug => log.debug = true,
            Opt::NoVacuum => self.no_vacuum = true,
            Opt::Scale => self.scale = Some(int(value, "-s/--scale", 1, i32::MAX)?),
            // Handled before all others.
            Opt::Compat => {}
            Opt::Builtin if value == "list" => {
                log.write(&scripts::list_builtins());
                return Ok(true);
            }
            Opt::ShowScript => {
                log.write(&scripts::show_builtin(scripts::find_builtin(value)?));
                return Ok(true);
            }
            Opt::RandomSeed => {
                self.has_bench_option = true;
                self.seed = seed(value).map_err(|complaint| {
                    complaint
                        .and(MessageKind::Error, "error while setting random seed from --random-seed option")
                })?;
                log.say(MessageKind::Info, &format!("setting random seed to {}", self.seed));
            }
            _ => {
                let taken = self.take_init(opt, value)?
                    || self.take_script(opt, value, compat)?
                    || self.take_load(opt, value, compat)?
                    || self.take_output(opt, value)?
                    || self.take_added(opt, value)?;
                debug_assert!(taken, "{opt:?}");
            }
        }
        Ok(false)
    }

    fn take_init(&mut self, opt: Opt, value: &str) -> Result<bool> {
        let text = || Some(value.to_string());
        match opt {
            Opt::InitSteps => {
                check_steps(value)?;
                self.init_steps = text();
            }
            Opt::Fillfactor => self.fillfactor = Some(int(value, "-F/--fillfactor", 10, 100)?),
            Opt::Quiet => self.is_quiet = true,
            Opt::UnloggedTables => self.unlogged = true,
            Opt::Tablespace => self.tablespace = text(),
            Opt::IndexTablespace => self.index_tablespace = text(),
            Opt::ForeignKeys => self.foreign_keys = true,
            Opt::Partitions => self.partitions = int(value, "--partitions", 0, i32::MAX)?,
            Opt::Streams => self.n_streams = Some(int(value, "--streams", 1, 256)?),
            Opt::PartitionMethod if value.eq_ignore_ascii_case("range") => self.method = Some(Method::Range),
            Opt::PartitionMethod if value.eq_ignore_ascii_case("hash") => self.method = Some(Method::Hash),
            Opt::PartitionMethod => {
                let message = "invalid partition method, expecting \"range\" or \"hash\", got";
                return Err(Complaint::new(format!("{message}: \"{value}\"")));
            }
            _ => return Ok(false),
        }
        self.has_init_option = true;
        Ok(true)
    }

    fn take_script(&mut self, opt: Opt, value: &str, compat: Compat) -> Result<bool> {
        match opt {
            Opt::Builtin => {
                let (name, weight) = scripts::split_weight(value)?;
                self.add_builtin(scripts::find_builtin(name)?, weight)?;
            }
            Opt::SelectOnly => self.add_builtin(TpcbScript::TpcbSelect, 1)?,
            Opt::SkipSomeUpdates => self.add_builtin(TpcbScript::TpcbSimple, 1)?,
            Opt::File => {
                let (name, weight) = scripts::split_weight(value)?;
                scripts::add(&mut self.scripts, name, &scripts::read_file(name)?, weight, compat)?;
            }
            Opt::Define => match value.split_once('=') {
                Some((name, text)) if !name.is_empty() && !text.is_empty() => {
                    if !workload::script::variables::is_valid_name(name) {
                        let message = format!("option: invalid variable name: \"{name}\"");
                        return Err(Complaint::new(message));
                    }
                    self.defines.push((name.to_string(), text.to_string()));
                }
                _ => return Err(Complaint::new(format!("invalid variable definition: \"{value}\""))),
            },
            _ => return Ok(false),
        }
        self.has_bench_option = true;
        Ok(true)
    }

    fn add_builtin(&mut self, builtin: TpcbScript, weight: u32) -> Result<()> {
        self.uses_builtin = true;
        scripts::add(&mut self.scripts, builtin.description(), builtin.source(), weight, Compat::V15)
    }

    fn take_load(&mut self, opt: Opt, value: &str, compat: Compat) -> Result<bool> {
        match opt {
            Opt::Client => {
                let n = int(value, "-c/--clients", 1, i32::MAX)?;
                super::limits::check_open_files(n, compat)?;
                self.n_clients = Some(n);
            }
            Opt::Jobs => self.n_threads = Some(int(value, "-j/--jobs", 1, i32::MAX)?),
            Opt::Connect => self.connect_each = true,
            Opt::Transactions => self.transactions = Some(int(value, "-t/--transactions", 1, i32::MAX)?),
            Opt::Time => self.seconds = Some(int(value, "-T/--time", 1, i32::MAX)?),
            Opt::Protocol => {
                let parsed = value.parse();
                let invalid = |_| Complaint::new(format!("invalid query mode (-M): \"{value}\""));
                self.protocol = Some(parsed.map_err(invalid)?);
            }
            Opt::Rate => self.rate_per_s = Some(positive(value, "rate limit", f64::MAX)?),
            Opt::LatencyLimit => {
                let limit_ms = positive(value, "latency limit", f64::MAX)?;
                // To pgbench, less than a microsecond is no limit.
                self.latency_limit_us = Some((limit_ms * 1000.0) as u64).filter(|&us| us > 0);
            }
            Opt::MaxTries => {
                let invalid = || Complaint::new(format!("invalid number of maximum tries: \"{value}\""));
                self.max_tries = Some(u32::try_from(cnum::leading_int(value)).map_err(|_| invalid())?);
            }
            Opt::VacuumAll => self.vacuums_accounts = true,
            Opt::ExitOnAbort => self.exit_on_abort = true,
            _ => return Ok(false),
        }
        self.has_bench_option = true;
        Ok(true)
    }

    fn take_output(&mut self, opt: Opt, value: &str) -> Result<bool> {
        match opt {
            Opt::Progress => self.progress_s = int(value, "-P/--progress", 1, i32::MAX)?,
            Opt::ProgressTimestamp => self.progress_timestamp = true,
            Opt::ReportPerCommand => self.per_command = true,
            Opt::FailuresDetailed => self.failures_detailed = true,
            Opt::VerboseErrors => self.verbose_errors = true,
            Opt::Log => self.logs = true,
            Opt::LogPrefix => self.log_prefix = Some(value.to_string()),
            Opt::SamplingRate => self.sampling_rate = Some(positive(value, "sampling rate", 1.0)?),
            Opt::AggregateInterval => {
                self.aggregate_interval_s = int(value, "--aggregate-interval", 1, i32::MAX)?;
            }
            _ => return Ok(false),
        }
        self.has_bench_option = true;
        Ok(true)
    }

    fn take_added(&mut self, opt: Opt, value: &str) -> Result<bool> {
        match opt {
            Opt::Copy => self.added.copy = true,
            Opt::Poller => {
                self.added.poller = value.parse().map_err(|_| {
                    let message = "invalid --poller, expecting \"auto\", \"io_uring\" or \"epoll\", got";
                    Complaint::new(format!("{message}: \"{value}\""))
                })?;
            }
            Opt::Percentiles => self.added.percentiles = true,
            Opt::ContinueOnError => self.added.continue_on_error = true,
            Opt::Json => self.added.json = Some(value.to_string()),
            Opt::OnDisconnect => {
                self.added.on_disconnect = match value {
                    "reconnect" => OnDisconnect::Reconnect,
                    "abort" => OnDisconnect::EndClient,
                    _ => {
                        let message = "invalid --on-disconnect, expecting \"reconnect\" or \"abort\", got";
                        return Err(Complaint::new(format!("{message}: \"{value}\"")));
                    }
                }
            }
            Opt::BusyPoll => self.added.busy_poll_us = int(value, "--busy-poll", 0, 1_000_000)?,
            Opt::RampUp => self.added.ramp_up_s = int(value, "--ramp-up", 0, i32::MAX)?,
            Opt::Grace => self.added.grace_s = Some(int(value, "--grace", 0, i32::MAX)?),
            Opt::ProgressLast => self.added.progress_last = true,
            Opt::StallWarning => {
                self.added.stall_warning_s = Some(int(value, "--stall-warning", 1, i32::MAX)?)
            }
            _ => return Ok(false),
        }
        self.has_bench_option = true;
        Ok(true)
    }

    /// pgbench's checks after all options are known, since the protocol may come last.
    fn check_scripts(&self) -> Result<()> {
        if self.protocol.unwrap_or(Protocol::Simple) != Protocol::Simple {
            for script in &self.scripts {
                script.program.check_parameter_counts().map_err(scripts::complaint)?;
            }
        }
        if !self.is_init && self.scripts.iter().all(|script| script.weight == 0) {
            return Err(Complaint::new("total script weight must not be zero"));
        }
        Ok(())
    }

    fn init_plan(self) -> Result<InitPlan> {
        if self.has_bench_option {
            let message = "some of the specified options cannot be used in initialization (-i) mode";
            return Err(Complaint::new(message));
        }
        if self.partitions == 0 && self.method.is_some() {
            return Err(Complaint::new("--partition-method requires greater than zero --partitions"));
        }
        let mut steps = self.init_steps.unwrap_or_else(|| INIT_STEPS_DEFAULT.to_string());
        if self.no_vacuum {
            steps = steps.replace('v', " ");
        }
        if self.foreign_keys && !steps.contains('f') {
            steps.push('f');
        }
        let partitioning = (self.partitions > 0).then_some(match self.method {
            Some(Method::Hash) => Partitioning::Hash(self.partitions),
            Some(Method::Range) | None => Partitioning::Range(self.partitions),
        });
        Ok(InitPlan {
            steps,
            scale: self.scale.unwrap_or(1),
            fillfactor: self.fillfactor.map_or(100, |percent| percent as u8),
            is_quiet: self.is_quiet,
            unlogged: self.unlogged,
            tablespace: self.tablespace,
            index_tablespace: self.index_tablespace,
            partitioning,
            n_streams: self.n_streams.unwrap_or(1),
        })
    }

    fn bench_plan(self) -> Result<BenchPlan> {
        if self.has_init_option {
            return Err(Complaint::new("some of the specified options cannot be used in benchmarking mode"));
        }
        let length = self.length()?;
        let log = self.log_plan(length)?;
        self.check_bench(length)?;
        let n_clients = self.n_clients.unwrap_or(1);
        Ok(BenchPlan {
            scripts: self.scripts,
            uses_builtin: self.uses_builtin,
            scale: self.scale,
            defines: self.defines,
            protocol: self.protocol.unwrap_or(Protocol::Simple),
            n_clients,
            n_threads: self.n_threads.unwrap_or(1).min(n_clients),
            length,
            connect_each: self.connect_each,
            rate_per_s: self.rate_per_s,
            latency_limit_us: self.latency_limit_us,
            max_tries: self.max_tries.unwrap_or(1),
            vacuums: !self.no_vacuum,
            vacuums_accounts: self.vacuums_accounts,
            progress_s: self.progress_s,
            progress_timestamp: self.progress_timestamp,
            per_command: self.per_command,
            failures_detailed: self.failures_detailed,
            verbose_errors: self.verbose_errors,
            exit_on_abort: self.exit_on_abort,
            log,
            seed: self.seed,
            added: self.added,
        })
    }

    fn length(&self) -> Result<Length> {
        match (self.transactions, self.seconds) {
            (Some(_), Some(_)) => {
                let message = "specify either a number of transactions (-t) or a duration (-T), not both";
                Err(Complaint::new(message))
            }
            (None, Some(seconds)) => Ok(Length::Seconds(seconds)),
            (transactions, None) => Ok(Length::Transactions(transactions.unwrap_or(TRANSACTIONS_DEFAULT))),
        }
    }

    fn log_plan(&self, length: Length) -> Result<Option<LogPlan>> {
        let interval_s = self.aggregate_interval_s;
        let (has_sampling, has_interval) = (self.sampling_rate.is_some(), interval_s > 0);
        let refusals = [
            (
                has_sampling && !self.logs,
                "log sampling (--sampling-rate) is allowed only when logging transactions (-l)",
            ),
            (
                has_sampling && has_interval,
                "log sampling (--sampling-rate) and aggregation (--aggregate-interval) cannot be used at the same time",
            ),
            (
                has_interval && !self.logs,
                "log aggregation is allowed only when actually logging transactions",
            ),
            (
                self.log_prefix.is_some() && !self.logs,
                "log file prefix (--log-prefix) is allowed only when logging transactions (-l)",
            ),
        ];
        if let Some((_, message)) = refusals.iter().find(|(refused, _)| *refused) {
            return Err(Complaint::new(*message));
        }
        if let Length::Seconds(seconds) = length {
            if interval_s > seconds {
                let message = "number of seconds for aggregation";
                return Err(Complaint::new(format!(
                    "{message} ({interval_s}) must not be higher than test duration ({seconds})"
                )));
            }
            if has_interval && seconds % interval_s != 0 {
                let message =
                    format!("duration ({seconds}) must be a multiple of aggregation interval ({interval_s})");
                return Err(Complaint::new(message));
            }
        }
        Ok(self.logs.then(|| LogPlan {
            prefix: self.log_prefix.clone().unwrap_or_else(|| LOG_PREFIX_DEFAULT.to_string()),
            sampling_rate: self.sampling_rate.unwrap_or(1.0),
            aggregate_interval_s: interval_s,
        }))
    }

    fn check_bench(&self, length: Length) -> Result<()> {
        let is_counted = matches!(length, Length::Transactions(_));
        let refusals = [
            (
                self.progress_timestamp && self.progress_s == 0,
                "--progress-timestamp is allowed only under --progress",
            ),
            (
                self.max_tries == Some(0) && self.latency_limit_us.is_none() && is_counted,
                "an unlimited number of transaction tries can only be used with --latency-limit or a duration (-T)",
            ),
            (self.added.ramp_up_s > 0 && is_counted, "--ramp-up is allowed only with a duration (-T)"),
            (
                self.added.progress_last && self.progress_s == 0,
                "--progress-last is allowed only under --progress",
            ),
        ];
        match refusals.iter().find(|(refused, _)| *refused) {
            Some((_, message)) => Err(Complaint::new(*message)),
            None => Ok(()),
        }
    }
}

fn check_steps(steps: &str) -> Result<()> {
    if steps.is_empty() {
        return Err(Complaint::new("no initialization steps specified"));
    }
    match steps.chars().find(|&step| step != ' ' && !INIT_STEPS_ALL.contains(step)) {
        None => Ok(()),
        Some(step) => Err(Complaint::new(format!("unrecognized initialization step \"{step}\""))
            .and(MessageKind::Detail, format!("Allowed step characters are: \"{INIT_STEPS_ALL}\"."))),
    }
}
