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
    /// Fills, vacuums and keys every table and partition, each as soon as its rows are there; then come the jobs of
    /// [`TpcbLoad::finish`].
    pub fn whole(&self) -> Vec<Job> {
        let whole = |unit: Unit| {
            let mut steps: Vec<Step> = self.filled(&unit).into_iter().collect();
            steps.push(self.vacuumed(&unit));
            steps.extend(self.keyed(&unit));
            Job::of(unit.name, steps)
        };
        self.units().into_iter().map(whole).collect()
    }

    /// Only fills every table and partition.
    pub fn fill(&self) -> Vec<Job> {
        let units = self.units().into_iter();
        units.filter_map(|unit| Some(Job::of(&unit.name, vec![self.filled(&unit)?]))).collect()
    }

    /// Only gives every table and partition its primary key; for a partitioned table that of [`TpcbLoad::finish`] is
    /// needed too.
    pub fn key(&self) -> Vec<Job> {
        let units = self.units().into_iter();
        units.filter_map(|unit| Some(Job::of(&unit.name, vec![self.keyed(&unit)?]))).collect()
    }

    /// What one session does when all parts are there.
    pub fn finish(&self) -> Vec<Job> {
        if self.parts().is_empty() {
            return Vec::new();
        }
        let name = Table::Accounts.name();
        let analyze = if self.version_num >= ANALYZE_ONLY_VERSION_NUM { "analyze only" } else { "analyze" };
        let key = primary_key_of(Table::Accounts, name, self.index_tablespace.as_deref());
        vec![Job::of(name, vec![locking(vec![Part::Execute(key)]), Step::Alone(format!("{analyze} {name}"))])]
    }

    /// The partitions that are filled one by one.
    pub fn parts(&self) -> Vec<Partition> {
        match self.options.partitioning {
            None => Vec::new(),
            Some(Partitioning::Hash(n)) if n > HASH_PARTITIONS_MAX => Vec::new(),
            Some(partitioning) => partitions(self.scale, partitioning),
        }
    }

    /// What can be done side by side. Largest first, so that no stream is left with one at the end.
    fn units(&self) -> Vec<Unit> {
        let part = |partition: Partition| Unit {
            table: Table::Accounts,
            name: partition.name.clone(),
            partition: Some(partition),
        };
        let mut units: Vec<Unit> = self.parts().into_iter().map(part).collect();
        let are_parts = !units.is_empty();
        let tables = [Table::Accounts, Table::Tellers, Table::Branches, Table::History];
        let whole = tables.into_iter().filter(|table| !(are_parts && *table == Table::Accounts));
        units.extend(whole.map(|table| Unit { table, name: table.name().to_string(), partition: None }));
        units
    }

    fn filled(&self, unit: &Unit) -> Option<Step> {
        let copy = match (unit.table, &unit.partition) {
            (Table::History, _) => return None,
            (_, Some(partition)) => copy_partition(self.scale, partition),
            (Table::Accounts, None) => copy(unit.table, self.scale, self.options.partitioning.is_none()),
            (table, None) => copy(table, self.scale, true),
        };
        // Only a table that the same transaction emptied takes frozen rows.
        Some(locking(vec![Part::Execute(format!("truncate table {}", unit.name)), Part::Copy(copy)]))
    }

    fn vacuumed(&self, unit: &Unit) -> Step {
        // Before 18, to analyze the partitioned table is to analyze its partitions too.
        let is_analyzed_later = unit.partition.is_some() && self.version_num < ANALYZE_ONLY_VERSION_NUM;
        let vacuum = if is_analyzed_later { "vacuum" } else { "vacuum analyze" };
        Step::Alone(format!("{vacuum} {}", unit.name))
    }

    fn keyed(&self, unit: &Unit) -> Option<Step> {
        let key = primary_key_of(unit.table, &unit.name, self.index_tablespace.as_deref());
        (unit.table != Table::History).then(|| locking(vec![Part::Execute(key)]))
    }
}

/// A table, or a partition of accounts.
struct Unit {
    table: Table,
    name: String,
    partition: Option<Partition>,
}

/// A transaction that locks tables.
fn locking(mut parts: Vec<Part>) -> Step {
    parts.insert(0, Part::Execute(LIMIT_LOCK_WAITS.to_string()));
    Step::Transaction(parts)
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
