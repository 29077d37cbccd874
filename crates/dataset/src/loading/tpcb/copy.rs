//! The jobs that load the TPC-B-like tables: one per table, and one per partition of accounts.
//!
//! Whatever the number of streams, each part has the same rows in the same order, and the result is what `pgbench -i`
//! produces: names, constraints, pages. One thing differs: pgbench cannot load partitions frozen.

use model::release::{Release, catalogs};
use model::workload::Dataset;
use workload::Schema;
use workload::tpcb::{
    self, Partition, Partitioning, TABLES, TpcbOptions, TpcbTable, partitions, primary_key_of,
};

use crate::session::LIMIT_LOCK_WAITS;
use crate::streams::marked;
use crate::streams::{Copy, JobStep, StreamJob, TransactionPart};

/// Hash partitioning requires a scan over all rows for each partition: 4 ns per row, where a server needs 300 to store
/// it. Beyond this number, one stream fills the partitioned table as a whole, as pgbench does.
const HASH_PARTITIONS_MAX: u32 = 32;

/// Which tables to load, and where.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TpcbLoad {
    pub scale: u32,
    /// How the tables were created.
    pub options: TpcbOptions,
    /// Tablespace of indexes.
    pub index_tablespace: Option<String>,
    /// Version of the server, such as 150004.
    pub version_num: u32,
}

impl TpcbLoad {
    /// Fills and vacuums every table and partition and adds its primary key, each as soon as its rows are there; then
    /// follow the jobs of [`TpcbLoad::finish`].
    pub fn whole(&self) -> Vec<StreamJob> {
        let whole = |unit: Unit| {
            let mut steps: Vec<JobStep> = self.filled(&unit, Maker::This).into_iter().collect();
            steps.push(self.vacuumed(&unit));
            steps.extend(self.keyed(&unit));
            StreamJob::new(unit.name, steps)
        };
        self.units().into_iter().map(whole).collect()
    }

    /// Only fills every table and partition.
    pub fn fill(&self) -> Vec<StreamJob> {
        let units = self.units().into_iter();
        units
            .filter_map(|unit| Some(StreamJob::new(&unit.name, vec![self.filled(&unit, Maker::Anyone)?])))
            .collect()
    }

    /// Only adds the primary key of every table and partition; a partitioned table also needs that of
    /// [`TpcbLoad::finish`].
    pub fn key(&self) -> Vec<StreamJob> {
        let units = self.units().into_iter();
        units.filter_map(|unit| Some(StreamJob::new(&unit.name, vec![self.keyed(&unit)?]))).collect()
    }

    /// The job of one session when all parts are there.
    pub fn finish(&self) -> Vec<StreamJob> {
        if self.parts().is_empty() {
            return Vec::new();
        }
        let job = TpcbTable::Accounts.name();
        let schema = &self.options.schema;
        let name = &schema.sql_name(job);
        let analyze = if self.analyzes_only() { "analyze only" } else { "analyze" };
        let key = primary_key_of(TpcbTable::Accounts, name, self.index_tablespace.as_deref());
        vec![StreamJob::new(
            job,
            vec![
                locking(marked::alter(schema, Dataset::Tpcb, job, key)),
                JobStep::Alone(format!("{analyze} {name}")),
            ],
        )]
    }

    /// Whether the server can analyze a partitioned table without its partitions.
    fn analyzes_only(&self) -> bool {
        Release::new(self.version_num).has(catalogs::ANALYZE_ONLY)
    }

    /// Partitions that are filled one by one.
    pub fn parts(&self) -> Vec<Partition> {
        match self.options.partitioning {
            None => Vec::new(),
            Some(Partitioning::Hash(n)) if n > HASH_PARTITIONS_MAX => Vec::new(),
            Some(partitioning) => partitions(self.scale, partitioning),
        }
    }

    /// Units for concurrent work. The largest come first, so that no stream is left with one at the end.
    fn units(&self) -> Vec<Unit> {
        let part = |partition: Partition| Unit {
            table: TpcbTable::Accounts,
            name: partition.name.clone(),
            partition: Some(partition),
        };
        let mut units: Vec<Unit> = self.parts().into_iter().map(part).collect();
        let are_parts = !units.is_empty();
        let tables = [TpcbTable::Accounts, TpcbTable::Tellers, TpcbTable::Branches, TpcbTable::History];
        let whole = tables.into_iter().filter(|table| !(are_parts && *table == TpcbTable::Accounts));
        units.extend(whole.map(|table| Unit { table, name: table.name().to_string(), partition: None }));
        units
    }

    /// Only an ordinary table that the same transaction truncated accepts frozen rows.
    fn filled(&self, unit: &Unit, maker: Maker) -> Option<JobStep> {
        if unit.table == TpcbTable::History {
            return None;
        }
        let Unit { table, name: plain_name, partition } = unit;
        let name = &self.options.schema.sql_name(plain_name);
        let is_ordinary =
            partition.is_some() || *table != TpcbTable::Accounts || self.options.partitioning.is_none();
        let rows = unit.rows(self.scale);
        let emptied =
            if is_ordinary { marked::RowsToRemove::Own } else { marked::RowsToRemove::OfPartitions };
        let mut parts = match maker {
            Maker::This => marked::truncate(&self.options.schema, Dataset::Tpcb, plain_name, emptied),
            Maker::Anyone => marked::truncate(&Schema::searched(), Dataset::Tpcb, plain_name, emptied),
        };
        match (table, maker) {
            (TpcbTable::Accounts, Maker::This) if is_ordinary => parts.extend([
                TransactionPart::Execute(tpcb::set_defaults(name)),
                TransactionPart::Copy(copy_of(plain_name, tpcb::copy_short_statement(name), rows.short())),
                TransactionPart::Execute(tpcb::drop_defaults(name)),
            ]),
            _ => parts.push(TransactionPart::Copy(copy_of(
                plain_name,
                tpcb::copy_statement(name, is_ordinary),
                rows,
            ))),
        }
        Some(locking(parts))
    }

    fn vacuumed(&self, unit: &Unit) -> JobStep {
        // Before 18, ANALYZE on the partitioned table includes its partitions.
        let is_analyzed_later = unit.partition.is_some() && !self.analyzes_only();
        let vacuum = if is_analyzed_later { "vacuum" } else { "vacuum analyze" };
        JobStep::Alone(format!("{vacuum} {}", self.options.schema.sql_name(&unit.name)))
    }

    fn keyed(&self, unit: &Unit) -> Option<JobStep> {
        let schema = &self.options.schema;
        let key = primary_key_of(unit.table, &schema.sql_name(&unit.name), self.index_tablespace.as_deref());
        (unit.table != TpcbTable::History)
            .then(|| locking(marked::alter(schema, Dataset::Tpcb, &unit.name, key)))
    }
}

/// A table, or a partition of accounts.
struct Unit {
    table: TpcbTable,
    name: String,
    partition: Option<Partition>,
}

impl Unit {
    fn rows(&self, scale: u32) -> tpcb::TpcbRows {
        match &self.partition {
            Some(partition) => tpcb::TpcbRows::of_partition(scale, partition),
            None => whole_table(self.table, scale),
        }
    }
}

/// Who created the tables.
#[derive(Clone, Copy)]
enum Maker {
    /// This load, just now: nobody else has altered them, and we may.
    This,
    /// Anyone, at any time.
    Anyone,
}

/// A transaction that locks tables.
pub(crate) fn locking(mut parts: Vec<TransactionPart>) -> JobStep {
    parts.insert(0, TransactionPart::Execute(LIMIT_LOCK_WAITS.to_string()));
    JobStep::Transaction(parts)
}

/// The rows of a whole table, as pgbench sends them. Frozen ones need an ordinary table.
pub fn copy(table: TpcbTable, scale: u32, freeze: bool) -> Copy {
    copy_of(table.name(), tpcb::copy_statement(table.name(), freeze), whole_table(table, scale))
}

fn copy_of(name: &str, sql: String, mut rows: tpcb::TpcbRows) -> Copy {
    Copy { table: name.to_string(), sql, rows: Box::new(move |out, max_bytes| rows.fill(out, max_bytes)) }
}

fn whole_table(table: TpcbTable, scale: u32) -> tpcb::TpcbRows {
    tpcb::TpcbRows::new(table, scale, 0..tpcb::row_count(table, scale))
}

/// Number of rows in all tables.
pub fn rows_total(scale: u32) -> u64 {
    TABLES.iter().map(|&table| tpcb::row_count(table, scale)).sum()
}

/// Useful number of streams: one per part that can be filled separately, at most one per processor.
pub fn default_streams(partitioning: Option<Partitioning>, n_cpus: usize) -> usize {
    let n_parts = partitioning.map_or(1, |partitioning| partitioning.n_partitions() as usize);
    n_parts.min(n_cpus).max(1)
}
