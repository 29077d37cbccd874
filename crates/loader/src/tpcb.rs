//! Which work the TPC-B-like tables are: a job for each table, and for each partition of accounts.
//!
//! Whatever the number of streams, each part has the same rows in the same order, and what is left behind is what
//! `pgbench -i` leaves: names, constraints, pages. One thing differs: pgbench cannot load partitions frozen.

use workload::tpcb::{self, Partition, Partitioning, TABLES, Table, TpcbOptions, partitions, primary_key_of};

use crate::streams::{Copy, Job, Part, Step};

/// Since this version a partitioned table can have a primary key.
pub const PARTITIONS_VERSION_NUM: u32 = 110_000;
/// Since this version a partitioned table can be analyzed without its partitions.
const ANALYZE_ONLY_VERSION_NUM: u32 = 180_000;
/// By hash, the rows of all partitions are looked through for each: 4 ns a row, where a server needs 300 to take it.
/// Beyond this number one stream fills the partitioned table as a whole, as pgbench does.
const HASH_PARTITIONS_MAX: u32 = 32;

/// For the rest of the transaction: a lock that others do not give up is waited for at most half a minute, or as
/// long as the user set.
pub const LIMIT_LOCK_WAITS: &str = "select pg_catalog.set_config('lock_timeout', '30s', true) \
     where pg_catalog.current_setting('lock_timeout') = '0'";

/// Which tables are loaded, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TpcbLoad {
    /// Scale units.
    pub scale: u32,
    /// How the tables were made.
    pub options: TpcbOptions,
    /// Where indexes go.
    pub index_tablespace: Option<String>,
    /// Of the server, such as 150004.
    pub version_num: u32,
}

impl TpcbLoad {
    /// Fills, vacuums and keys every table and partition; they must exist. Largest first, so that no stream is left
    /// with one at the end. Then come the jobs of [`TpcbLoad::finish`].
    pub fn fill(&self) -> Vec<Job> {
        let part = |partition: &Partition| {
            let copy = copy_partition(self.scale, partition);
            let mut steps = self.filled(&partition.name, copy);
            let vacuum =
                if self.version_num >= ANALYZE_ONLY_VERSION_NUM { "vacuum analyze" } else { "vacuum" };
            steps.push(Step::Alone(format!("{vacuum} {}", partition.name)));
            steps.push(self.keyed(Table::Accounts, &partition.name));
            Job::of(&partition.name, steps)
        };
        let mut jobs: Vec<Job> = self.parts().iter().map(part).collect();
        for table in [Table::Accounts, Table::Tellers, Table::Branches, Table::History] {
            let is_filled_by_parts = table == Table::Accounts && !jobs.is_empty();
            if is_filled_by_parts {
                continue;
            }
            let freeze = table != Table::Accounts || self.options.partitioning.is_none();
            let mut steps = Vec::new();
            if table != Table::History {
                steps = self.filled(table.name(), copy(table, self.scale, freeze));
            }
            steps.push(Step::Alone(format!("vacuum analyze {}", table.name())));
            if table != Table::History {
                steps.push(self.keyed(table, table.name()));
            }
            jobs.push(Job::of(table.name(), steps));
        }
        jobs
    }

    /// What one session does when all parts are there.
    pub fn finish(&self) -> Vec<Job> {
        if self.parts().is_empty() {
            return Vec::new();
        }
        let name = Table::Accounts.name();
        let analyze = if self.version_num >= ANALYZE_ONLY_VERSION_NUM { "analyze only" } else { "analyze" };
        vec![Job::of(name, vec![self.keyed(Table::Accounts, name), Step::Alone(format!("{analyze} {name}"))])]
    }

    /// The partitions that are filled one by one.
    pub fn parts(&self) -> Vec<Partition> {
        match self.options.partitioning {
            None => Vec::new(),
            Some(Partitioning::Hash(n)) if n > HASH_PARTITIONS_MAX => Vec::new(),
            Some(partitioning) => partitions(self.scale, partitioning),
        }
    }

    fn filled(&self, name: &str, copy: Copy) -> Vec<Step> {
        // Only a table that the same transaction emptied takes frozen rows.
        vec![Step::Transaction(vec![
            Part::Execute(LIMIT_LOCK_WAITS.to_string()),
            Part::Execute(format!("truncate table {name}")),
            Part::Copy(copy),
        ])]
    }

    fn keyed(&self, table: Table, name: &str) -> Step {
        let key = primary_key_of(table, name, self.index_tablespace.as_deref());
        Step::Transaction(vec![Part::Execute(LIMIT_LOCK_WAITS.to_string()), Part::Execute(key)])
    }
}

/// The rows of a whole table. Frozen ones need an ordinary table.
pub fn copy(table: Table, scale: u32, freeze: bool) -> Copy {
    let mut rows = tpcb::Rows::new(table, scale, 0..tpcb::row_count(table, scale));
    Copy {
        table: table.name().to_string(),
        sql: tpcb::copy_statement(table.name(), freeze),
        rows: Box::new(move |out, max_bytes| rows.fill(out, max_bytes)),
    }
}

/// The rows of a partition of accounts, frozen.
pub fn copy_partition(scale: u32, partition: &Partition) -> Copy {
    let mut rows = tpcb::Rows::of_partition(scale, partition);
    Copy {
        table: partition.name.clone(),
        sql: tpcb::copy_statement(&partition.name, true),
        rows: Box::new(move |out, max_bytes| rows.fill(out, max_bytes)),
    }
}

/// Rows of all tables.
pub fn rows_total(scale: u32) -> u64 {
    TABLES.iter().map(|&table| tpcb::row_count(table, scale)).sum()
}

/// How many streams are of use: one for each part that can be filled, and one for each processor.
pub fn default_streams(partitioning: Option<Partitioning>, n_cpus: usize) -> usize {
    let n_parts = partitioning.map_or(1, |partitioning| partitioning.n_partitions() as usize);
    n_parts.min(n_cpus).max(1)
}
