//! The text of `--help`.

use crate::pgbench::compat::Compat;

/// All options, those that pgbench does not have apart.
pub(crate) fn usage(progname: &str, compat: Compat) -> String {
    let (debug, dbname, exit_on_abort) = if compat.has_dbname_option() {
        (
            "      --debug                 tell what is being done\n",
            "  -d, --dbname=DBNAME         database to connect to\n",
            "      --exit-on-abort         end as soon as a client ends by an error\n",
        )
    } else {
        ("  -d, --debug                 tell what is being done\n", "", "")
    };
    let mut text = what_to_run(progname, compat);
    text.push_str(&how_to_run(exit_on_abort));
    text.push_str(&common(dbname, debug));
    text.push_str(&beyond_pgbench());
    text
}

fn what_to_run(progname: &str, compat: Compat) -> String {
    format!(
        "{progname} is a benchmarking tool for PostgreSQL (pgdyno in the place of pgbench {release}).

Usage:
  {progname} [OPTION]... [DBNAME]

Initialization options:
  -i, --initialize            make and fill the tables
  -I, --init-steps=STEPS      what to do, in order (default \"dtgvp\"): d drop, t create tables, g fill from
                              here, G fill on the server, v vacuum, p primary keys, f foreign keys
  -F, --fillfactor=NUM        percent of each page that is filled
  -n, --no-vacuum             leave out vacuum
  -q, --quiet                 tell progress every 5 seconds only
  -s, --scale=NUM             size: NUM times 100 000 accounts
      --foreign-keys          make foreign keys
      --index-tablespace=TS   where primary keys go
      --partition-method=range|hash
                              how accounts are cut (default: range)
      --partitions=NUM        into how many partitions (default: 0, not at all)
      --tablespace=TS         where tables go
      --unlogged-tables       tables without WAL

Options for what to run:
  -b, --builtin=NAME[@W]      a built-in script with weight W; \"-b list\" lists them
  -f, --file=FILE[@W]         the script in FILE with weight W
  -N, --skip-some-updates     the same as -b simple-update
  -S, --select-only           the same as -b select-only

",
        release = compat.version(),
    )
}

fn how_to_run(exit_on_abort: &str) -> String {
    format!(
        "Benchmarking options:
  -c, --client=NUM            clients (default: 1)
  -C, --connect               connect anew for each transaction
  -D, --define=VAR=VALUE      define a variable for scripts
  -j, --jobs=NUM              threads (default: 1)
  -l, --log                   write each transaction to a file
  -L, --latency-limit=MS      count what takes longer as late, and skip what begins later
  -M, --protocol=simple|extended|prepared
                              how statements are sent (default: simple)
  -n, --no-vacuum             no vacuum before the load
  -P, --progress=SEC          tell progress every SEC seconds
  -r, --report-per-command    times, failures and retries of each command
  -R, --rate=NUM              so many transactions per second are due, at random times
  -s, --scale=NUM             scale to be reported
  -t, --transactions=NUM      transactions of each client (default: 10)
  -T, --time=SEC              length of the load
  -v, --vacuum-all            vacuum accounts too before the load
      --aggregate-interval=SEC  log sums of SEC seconds
{exit_on_abort}      --failures-detailed     failures by what they failed with
      --log-prefix=PREFIX     beginning of log files' names (default: \"pgbench_log\")
      --max-tries=NUM         tries of a transaction (default: 1)
      --progress-timestamp    progress with Unix time
      --random-seed=SEED      \"time\", \"rand\" or a number
      --sampling-rate=NUM     share of transactions that is logged
      --show-script=NAME      show a built-in script and end
      --verbose-errors        tell every error

"
    )
}

fn common(dbname: &str, debug: &str) -> String {
    format!(
        "Common options:
{dbname}{debug}  -h, --host=HOST             server, or directory of its socket
  -p, --port=PORT             its port
  -U, --username=USER         role
  -V, --version               show the version and end
  -?, --help                  show this and end

"
    )
}

fn beyond_pgbench() -> String {
    format!(
        "Options that pgbench does not have:
      --compat=15|17|18       release to be like (default: {variable}, or 18)
      --percentiles           percentiles of latency, by script and by statement
      --json=FILE             results as JSON; \"-\" is standard output, instead of the text
      --ramp-up=SEC           load before the measure, which does not count (with -T)
      --grace=SEC             cancel what is in flight SEC seconds after the end
      --on-disconnect=abort|reconnect
                              what a client does that lost its connection (default: abort)
      --copy                  scripts may COPY; rows for COPY FROM STDIN follow it between
                              the lines \\copydata and \\.
      --poller=auto|io_uring|epoll
                              how the driver waits for its connections (default: auto)
      --busy-poll=USEC        look for news for USEC microseconds before going to sleep, and be awake
                              so long before a transaction is due: truer latencies, for a processor
      --progress-last         tell the last, incomplete interval too (with -P)
      --stall-warning=SEC     warn when no transaction ends for SEC seconds
      --streams=NUM           sessions that fill and key partitions side by side (with -i; default: 1)

Ctrl-C ends the load, prints the results so far and exits with code 130, SIGTERM with 143.

Report bugs to <https://www.postgresql.org/> of pgbench only; what is wrong here is pgdyno's.
",
        variable = Compat::ENVIRONMENT,
    )
}
