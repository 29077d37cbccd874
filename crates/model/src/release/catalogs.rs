//! Objects and statements: what can be created, and which columns of catalogs describe it.

use super::{Feature, since};

/// REPLICA IDENTITY (9.4).
pub const REPLICA_IDENTITY: Feature = since(90_400);
/// Row security and its policies (9.5).
pub const ROW_SECURITY: Feature = since(90_500);
/// Partitioned tables, and with the same release publications, subscriptions and extended statistics (10).
pub const PARTITIONS: Feature = since(100_000);
/// Publications, and what subscribes to them (10).
pub const SUBSCRIPTIONS: Feature = since(100_000);
/// Identity columns (10).
pub const IDENTITY_COLUMNS: Feature = since(100_000);
/// Primary keys of partitioned tables (11).
pub const PARTITION_KEYS: Feature = since(110_000);
/// `pg_constraint.conparentid`, which copies of a partitioned table's constraints have (11).
pub const CONSTRAINT_PARENTS: Feature = since(110_000);
/// Procedures (11).
pub const PROCEDURES: Feature = since(110_000);
/// Access methods of tables (12).
pub const TABLE_ACCESS_METHODS: Feature = since(120_000);
/// CREATE DATABASE has strategies; before 15 there is one, which is called `file_copy` since (15).
pub const DATABASE_STRATEGIES: Feature = since(150_000);
/// COPY FREEZE sets pages all-visible, which makes it worth using (14).
pub const FREEZE_SETS_VISIBLE: Feature = since(140_000);
/// Publications of all tables of a schema (15).
pub const PUBLISHED_SCHEMAS: Feature = since(150_000);
/// ANALYZE ONLY, which skips the partitions of a partitioned table (18).
pub const ANALYZE_ONLY: Feature = since(180_000);
