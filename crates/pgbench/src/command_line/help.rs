//! The text of `--help`.

use model::release::{Release, pgbench};

use crate::compat::Compat;

/// Help for all options, ours separate from pgbench's.
pub(crate) fn usage(progname: &str, compat: Compat) -> String {
    let (debug, dbname, exit_on_abort) = if compat.has(pgbench::DBNAME_OPTION) {
        (
            "      --debug                 print debugging output\n",
            "  -d, --dbname=DBNAME         database to connect to\n",
            "      --exit-on-abort         stop all clients as soon as one aborts\n",
        )
    } else {
        ("  -d, --debug                 print debugging output\n", "", "")
    };
    let mut text = what_to_run(progname, compat);
    text.push_str(&how_to_run(exit_on_abort));
    text.push_str(&common(dbname, debug));
    text.push_str(&beyond_pgbench());
    text
}

fn what_to_run(progname: &str, compat: Compat) -> String {
    format!(
        "{progname} is a benchmarking tool for PostgreSQL (pgdyno acting as pgbench {release}).

Usage:
  {progname} [OPTION]... [DBNAME]

Initialization options:
  -i, --initialize            create and fill the tables
  -I, --init-steps=STEPS      steps, in order (default \"dtgvp\"): d drop, t create tables, g fill from
                              the client, G fill on the server, v vacuum, p primary keys, f foreign keys
  -F, --fillfactor=NUM        fill factor of the tables, percent
  -n, --no-vacuum             do not vacuum
  -q, --quiet                 print progress every 5 seconds only
  -s, --scale=NUM             size: NUM times 100 000 accounts
      --foreign-keys          create foreign keys
      --index-tablespace=TS   tablespace of primary keys
      --partition-method=range|hash
                              how accounts are partitioned (default: range)
      --partitions=NUM        number of partitions of accounts (default: 0, none)
      --tablespace=TS         tablespace of tables
      --unlogged-tables       create unlogged tables

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
  -C, --connect               new connection for each transaction
  -D, --define=VAR=VALUE      define a variable for scripts
  -j, --jobs=NUM              threads (default: 1)
  -l, --log                   write each transaction to a file
  -L, --latency-limit=MS      count slower transactions as late, and skip those already late
  -M, --protocol=simple|extended|prepared
                              how statements are sent (default: simple)
  -n, --no-vacuum             do not vacuum before the load
  -P, --progress=SEC          print progress every SEC seconds
  -r, --report-per-command    times, failures and retries of each command
  -R, --rate=NUM              target rate in transactions per second, at random times
  -s, --scale=NUM             scale to report
  -t, --transactions=NUM      transactions of each client (default: 10)
  -T, --time=SEC              length of the load
  -v, --vacuum-all            vacuum accounts too before the load
      --aggregate-interval=SEC  log sums of SEC seconds
{exit_on_abort}      --failures-detailed     failures by type
      --log-prefix=PREFIX     prefix of log files' names (default: \"pgbench_log\")
      --max-tries=NUM         tries of a transaction (default: 1)
      --progress-timestamp    progress with Unix time
      --random-seed=SEED      \"time\", \"rand\" or a number
      --sampling-rate=NUM     share of transactions to log
      --show-script=NAME      show a built-in script and exit
      --verbose-errors        print every error

"
    )
}

fn common(dbname: &str, debug: &str) -> String {
    format!(
        "Common options:
{dbname}{debug}  -h, --host=HOST             server, or directory of its socket
  -p, --port=PORT             server port
  -U, --username=USER         role
  -V, --version               show the version and exit
  -?, --help                  show this help and exit

"
    )
}

fn beyond_pgbench() -> String {
    format!(
        "Options that pgbench does not have:
      --compat=15|17|18       release to be like (default: {variable}, or {newest})
      --percentiles           percentiles of latency, by script and by statement
      --json=FILE             results as JSON; \"-\" is standard output, instead of the text
      --ramp-up=SEC           load before the measurement, which does not count (with -T)
      --grace=SEC             cancel running statements SEC seconds after the end
      --on-disconnect=abort|reconnect
                              what a client does when it loses its connection (default: abort)
      --continue-on-error     count a transaction with an SQL error as failed and go on with the next,
                              instead of aborting its client (as pgbench 19)
      --copy                  scripts may COPY; rows for COPY FROM STDIN follow it between
                              the lines \\copydata and \\.
      --poller=auto|io_uring|epoll
                              how the driver waits for its connections (default: auto)
      --busy-poll=USEC        poll for USEC microseconds before going to sleep, and wake up that long
                              before a transaction is due: truer latencies at the cost of a processor
      --progress-last         also print the last, incomplete interval (with -P)
      --stall-warning=SEC     warn if no transaction ends for SEC seconds
      --streams=NUM           sessions that fill and index partitions in parallel (with -i; default: 1)

Ctrl-C, SIGTERM and SIGHUP end the load and cancel running statements (with --grace after SEC
seconds); the results so far are printed on standard error, and the program then dies of the signal,
as pgbench does.

Bugs of this program are pgdyno's: do not report them to <https://www.postgresql.org/>.
",
        variable = Compat::ENVIRONMENT,
        newest = Release::NEWEST.series(),
    )
}
