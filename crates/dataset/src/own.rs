//! Data of the user's own: files of SQL, and archives of `pg_dump`, which may have a workload's tables.

pub mod adopt;
pub mod apply;
pub mod archive;
pub mod contents;
pub mod roles;
pub mod sql_files;
