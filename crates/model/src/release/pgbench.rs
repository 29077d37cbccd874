//! How pgbench's releases differ, as far as `pgdyno pgbench` imitates them.

use super::{Feature, since};

/// `-d` is the database, and debugging has only a long option; `--exit-on-abort` exists (17).
pub const DBNAME_OPTION: Feature = since(170_000);
/// Scripts may use `\syncpipeline` (17).
pub const SYNCPIPELINE: Feature = since(170_000);
/// Branches and tellers are also loaded by COPY, and progress names the table (17).
pub const COPIES_ALL_TABLES: Feature = since(170_000);
/// The setting's name in a message is quoted (17).
pub const QUOTES_SEARCH_PATH: Feature = since(170_000);
/// The soft limit of open files is raised as far as needed (18).
pub const RAISES_FILE_LIMIT: Feature = since(180_000);
/// The server is asked for each table whether it allows COPY FREEZE (18). Earlier releases derive it from the options,
/// so 17 tries in vain on a partitioned table if the options do not mention partitions.
pub const ASKS_RELKIND: Feature = since(180_000);
/// With partitions, `--unlogged-tables` applies to the partitions only (18).
pub const KEEPS_PARENTS_LOGGED: Feature = since(180_000);
/// Per script, the number of all transactions comes before that of processed ones (18).
pub const COUNTS_ALL_PER_SCRIPT: Feature = since(180_000);
