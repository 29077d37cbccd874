//! The text of `pgdyno explain FINDING`: what each rule looks at, and why it matters.

use std::fmt::Write;

use super::Rule;

/// What a rule looks at, and why its finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Identifier of the rule.
    pub id: &'static str,
    /// The records and statistics behind the evidence.
    pub evidence: &'static str,
    /// What is wrong with a number if the finding is ignored.
    pub why: &'static str,
}

/// The page of a rule.
pub fn page(id: &str) -> Option<&'static Page> {
    PAGES.iter().find(|page| page.id == id)
}

/// The whole text about a rule, ending with a newline.
pub fn text(rule: &Rule) -> String {
    let mut text = format!("{}: {}\n", rule.id, rule.title);
    let page = page(rule.id);
    let sections = [
        ("when", rule.severity),
        ("evidence", page.map(|page| page.evidence).unwrap_or_default()),
        ("why", page.map(|page| page.why).unwrap_or_default()),
        ("advice", rule.advice),
        ("source", rule.source),
    ];
    for (name, content) in sections {
        writeln!(text, "\n{name}\n    {content}").expect("a string takes any text");
    }
    text
}

const fn page_of(id: &'static str, evidence: &'static str, why: &'static str) -> Page {
    Page { id, evidence, why }
}

/// One page per rule of the catalogue, in its order.
pub const PAGES: &[Page] = &[
    page_of(
        "run-incomplete",
        "The state of the run in run.json, its last second and the recorded reason.",
        "A run that ended early measured a different period; its mean is not comparable with the others.",
    ),
    page_of(
        "counts-broken",
        "The identity of counts over the driver's totals, and the sum of intervals.jsonl against them.",
        "If transactions do not add up, some were counted twice or lost, and no figure of the run can be right.",
    ),
    page_of(
        "records-damaged",
        "Lines and histograms that could not be read, seconds of the window without an interval, and the number of times in each histogram against its second.",
        "What is missing may be the worst second; throughput and percentiles are then those of the rest.",
    ),
    page_of(
        "history-differs",
        "Rows of the history table before and after the run, against committed transactions give or take unknown ones.",
        "A server that acknowledges commits and loses them is faster than one that keeps them; its throughput means nothing.",
    ),
    page_of(
        "consistency-broken",
        "TPC-C conditions that read no large table, checked in one snapshot before the load and after the drain.",
        "Balances that do not match mean that transactions were lost or mixed, by the server or by the driver.",
    ),
    page_of(
        "too-few-transactions",
        "Committed transactions within the measurement, in total and per client.",
        "The 99th percentile of a hundred values is one value; a rate over a few transactions is mostly chance.",
    ),
    page_of(
        "transactions-failed",
        "Failed transactions over those that ended in the measurement, with the commonest SQLSTATE.",
        "A failing transaction often costs less than one that commits, so the measured load is not the requested one; without one of its scripts it is a different load.",
    ),
    page_of(
        "outcomes-unknown",
        "Transactions whose connection ended while the client waited for the answer to COMMIT.",
        "It is unknown whether they took place, so neither throughput nor the rows in the tables are exact.",
    ),
    page_of(
        "cut-off-at-end",
        "Transactions in flight that had to be cancelled when the grace time ended.",
        "The longest transactions are cut off, so the tail of the latency distribution is too short.",
    ),
    page_of(
        "offered-load-not-achieved",
        "Transactions that ended per second over the rate of the schedule, three standard deviations for chance.",
        "Beyond capacity the queue grows for as long as the run lasts, and latency measures the length of the run.",
    ),
    page_of(
        "stall",
        "One-second throughput against a tenth of the median second.",
        "A closed loop sends nothing while it waits: a stall of a tenth of the run is invisible up to the 99.99th percentile.",
    ),
    page_of(
        "not-steady",
        "One-second throughput: halves of the measurement, Mann-Kendall on 12 batch means, t test on 10 batch means.",
        "The mean of a run that still warms up or slows down depends on how long it was, and not only on the server.",
    ),
    page_of(
        "ramp-up-not-steady",
        "Why and after how many seconds the ramp-up ended, from run.json; its values are the intervals before the measurement.",
        "The measurement then includes part of the warm-up, or of a change that never ends.",
    ),
    page_of(
        "measure-extended",
        "Seconds of the measurement as planned and as they became, from run.json.",
        "A run measured for longer than its neighbours saw more of the machine's variation; its mean is better known than theirs.",
    ),
    page_of(
        "too-short-to-judge",
        "The number of measured seconds.",
        "A few seconds may show a steady level, or the way to it.",
    ),
    page_of(
        "few-effective-seconds",
        "Autocorrelation of one-second throughput, summed up to an effective sample size.",
        "Seconds that resemble their neighbours make an interval computed from them two or three times too narrow.",
    ),
    page_of(
        "unfair-clients",
        "Jain's index over the transactions that each client committed in the measurement.",
        "Percentiles give most weight to the clients that were served most, and hide the waits of the others.",
    ),
    page_of(
        "took-turns",
        "The slices in run.json, and which of them belonged to this load.",
        "Half of its seconds are idle, so its throughput is about half of what its server can do.",
    ),
    page_of(
        "target-unreachable",
        "The probes of a search for the highest rate: share of transactions later than the target's limit at each rate.",
        "There is no number: any load at all has more late transactions than the target allows.",
    ),
    page_of(
        "target-not-limiting",
        "The rate that was found, and the throughput of the closed loop before the first probe.",
        "The number is the highest throughput of these clients; a lower latency limit would be met as well.",
    ),
    page_of(
        "capacity-unsure",
        "The interval of the rate that was found, and the verdict of the confirming probe.",
        "Another run would find another rate; differences smaller than the interval mean nothing.",
    ),
    page_of(
        "connection-lost",
        "Clients that ended before the load, because of their connection or their script: the driver's events and totals.",
        "What remains is the throughput of fewer clients under the name of all of them.",
    ),
    page_of(
        "protocol-broken",
        "Replies without a request, replies that lack a result, and invalid messages, as each client saw them.",
        "Where replies and statements do not match one to one, a count of replies is no count of commits.",
    ),
    page_of(
        "server-restarted",
        "The postmaster's start time and what telemetry recorded of it, during the load.",
        "A crash and a recovery within the measurement disappear in the mean.",
    ),
    page_of(
        "server-trouble",
        "Lines of severity PANIC or FATAL, and of crashed processes, in the server's log during the load.",
        "A server that loses processes, space or files does different work from what is being measured.",
    ),
    page_of(
        "checkpoint-in-window",
        "Checkpoints from the server's log and its counters, placed on the time line of the run.",
        "One checkpoint in a short measurement takes 0 or 30 % depending on luck, and no statistic on throughput sees it.",
    ),
    page_of(
        "autovacuum-in-window",
        "Autovacuum workers seen in pg_stat_activity and in the log during the measurement.",
        "It reads and writes during the load, in some runs and not in others.",
    ),
    page_of(
        "not-durable",
        "fsync, full_page_writes, synchronous_commit, and the file systems of data and WAL.",
        "Such a server skips the most expensive part of a commit; it is faster because it promises less.",
    ),
    page_of(
        "assertions-on",
        "The server's setting debug_assertions.",
        "Assertions add checks that a release build does not have, and slow some code paths down much more than others.",
    ),
    page_of(
        "build-not-optimized",
        "The optimization level in the server's CFLAGS, from the view pg_config.",
        "Code optimized for size or debugging differs in speed from the packages that servers run from, in each code path by \
         a different amount.",
    ),
    page_of(
        "disk-nearly-full",
        "Free space of the file systems of data, WAL and results.",
        "File systems slow down when nearly full, and a full WAL disk ends the server.",
    ),
    page_of(
        "wal-policy",
        "The rate of WAL in the ramp-up and the checkpoints of the measurement, against what run.wal asks for.",
        "A run that should have had no checkpoint, or two complete ones, but had another number answers another question.",
    ),
    page_of(
        "database-changed",
        "The contents of the catalogs of a database by URL, and properties of the database itself, against those when the \
         data was loaded.",
        "Replacing the database by a copy would have dropped what somebody else created there; tables that are loaded again have \
         a different layout on disk from a copy.",
    ),
    page_of(
        "foreign-cpu",
        "User and system time of all processors minus that of the server, the driver and pgdyno, each second.",
        "It explained most of the differences between identical runs on shared machines, while steal was almost zero.",
    ),
    page_of(
        "steal",
        "Steal time in /proc/stat, in the worst five seconds and on average.",
        "The hypervisor ran other machines while the server was ready to run: the number is that of a smaller machine.",
    ),
    page_of(
        "driver-saturated",
        "Processor time of the busiest driver thread; in an open loop also lag and latency.",
        "A driver at its limit measures itself.",
    ),
    page_of(
        "driver-waits-for-cpu",
        "The run delay of the driver's threads (schedstat).",
        "The time in which the driver was ready and did not run is part of each latency.",
    ),
    page_of(
        "driver-paused",
        "Gaps in the driver's own clock.",
        "A driver that did not run measures nothing, and in a closed loop this goes unnoticed.",
    ),
    page_of(
        "memory-pressure",
        "Pressure stall information of memory, mean over the measurement.",
        "Tasks that wait for pages to be freed or read back make latency depend on what else occupies memory.",
    ),
    page_of(
        "slow-clocksource",
        "The kernel's current clock source.",
        "Each timestamp then costs a system call or an exit to the hypervisor, in the driver and in the server.",
    ),
    page_of(
        "cpu-frequency-varies",
        "The frequency governor of the first processor.",
        "The same work takes longer if the processor was idle before: low loads look slower than they are.",
    ),
    page_of(
        "telemetry-missing",
        "Sources of telemetry that were refused, were lost, or cover less than 80 % of the measurement.",
        "Rules that need them are silent, and silence is then no proof.",
    ),
    page_of(
        "tpcc-inputs",
        "Shares of inputs as the driver counted them, against the specification's within four standard deviations.",
        "Another mix is another benchmark: a few more remote lines or rollbacks change the throughput.",
    ),
    page_of(
        "tpcc-response",
        "The 90th percentile of each transaction's response times against its limit.",
        "Beyond the limits the specification does not allow a throughput to be reported.",
    ),
    page_of(
        "nothing-counts",
        "The runs of the case that completed and are not void.",
        "Without one there is no number.",
    ),
    page_of(
        "runs-excluded",
        "Runs of the case that do not count, with the findings that void them.",
        "The number is that of the others; if these did not fail by accident, it is too good.",
    ),
    page_of(
        "runs-repeated",
        "Runs whose record says that they repeat another, with the findings about a disturbance and how far it exceeded their thresholds.",
        "Choosing among several numbers would favour the best one; here the disturbance decides, and all are shown.",
    ),
    page_of(
        "spread",
        "The coefficient of variation of the runs' throughput; of two runs, how far they are apart against their mean.",
        "Differences between cases that are smaller than the spread within one mean nothing.",
    ),
    page_of(
        "spread-origin",
        "The variance of the runs' means against that of batch means within the runs.",
        "More seconds do not reduce differences from run to run, and more runs are wasted if there are none.",
    ),
    page_of(
        "outlier-run",
        "Each run's distance from the median in units of the median absolute deviation.",
        "A single disturbed run dominates a mean; silently leaving it out would bias it too.",
    ),
    page_of(
        "spread-unknown",
        "The number of runs that count.",
        "With one or two runs a difference cannot be distinguished from chance.",
    ),
    page_of(
        "cache-fit",
        "The size of the database against shared_buffers and the machine's memory.",
        "In memory you measure the processor, beyond it the disk: two benchmarks under one name.",
    ),
    page_of(
        "no-checkpoint",
        "Checkpoints within the measurements of all counting runs.",
        "Between checkpoints a server defers work; its throughput sustained over hours is lower.",
    ),
    page_of(
        "row-contention",
        "Clients against branches, as each TPC-B-like transaction updates one branch.",
        "Clients that queue for one row measure the lock manager.",
    ),
    page_of(
        "searches-disagree",
        "How each run's search for the highest rate ended.",
        "There is no number: the median of such runs is a rate below the lowest that a search offers.",
    ),
    page_of(
        "tpcc-like",
        "The conditions of the specification that pgdyno knows and that this case does not meet.",
        "tpmC is the name of an audited result; comparing with one would be wrong in both directions.",
    ),
    page_of(
        "incomplete",
        "Planned runs without a completed record, and the last reason in state.jsonl.",
        "Cases of a block should share disturbances; a missing block separates them.",
    ),
    page_of(
        "resumed",
        "Runs that start twice in state.jsonl, and starts of the experiment after the first.",
        "The machine may have changed between the runs of one block, and a gap of days does not show in a table.",
    ),
    page_of(
        "machine-changed",
        "Processors, memory, kernel, machine and version of pgdyno of each completed run against the first, and the SHA-256 of the server that pgdyno ran against the first run of its case.",
        "A difference between machines would look like a difference between cases.",
    ),
    page_of(
        "sequential-order",
        "The order in plan.json and the number of cases.",
        "All runs of a case share their hour: drift, heat and neighbours become its result.",
    ),
    page_of(
        "servers-in-turn",
        "run.servers_at_a_time and the order in plan.json.",
        "All runs of a server share their hours: drift, heat and neighbours become a difference between servers.",
    ),
    page_of(
        "closed-loop",
        "The pace of each case.",
        "A client that waits sends nothing, so waiting is under-counted: users would see worse.",
    ),
    page_of(
        "undeclared-difference",
        "Load, settings, builds, data, durability, checksums and machine of A and B, from plan.json and run.json.",
        "If two things differ, a difference in speed belongs to neither of them.",
    ),
    page_of(
        "not-interleaved",
        "Whether the runs of A and of B are of one experiment; if not, the time between their first runs.",
        "Machines change from hour to hour by more than most differences: blocks of identical runs differ most of the time.",
    ),
    page_of(
        "too-few-pairs",
        "Pairs of which both runs count.",
        "With five pairs even five wins are chance in one case of sixteen.",
    ),
    page_of(
        "too-few-rounds",
        "Rounds of a duet, each with servers restarted and clients connected again.",
        "How processes and memory are placed is decided at the start and favours one side until the next start: slices do not show it.",
    ),
    page_of(
        "pairs-excluded",
        "Runs of A and B that do not count or lack a figure, and with them their pairs, or rounds of a duet.",
        "If one side fails more often than the other, that is a result too.",
    ),
    page_of(
        "turns-weigh",
        "The second slices of all pairs against the first ones, by the signed rank test.",
        "What one side leaves behind (dirty pages, WAL, busy processors) is paid for in the slice of the other.",
    ),
    page_of(
        "data-differs",
        "Rows, sizes, index definitions and checksums of each run before vacuum and analyze, against the first run that began from the same data.",
        "A run on a bloated or half-loaded table measures the table, and repeating it does not show that.",
    ),
    page_of(
        "builds-differ",
        "Compiler, its flags and assertions of each server, from version() and pg_config.",
        "A package optimized for size, or another compiler, changes the processor time of the same release by up to 18 %.",
    ),
];
