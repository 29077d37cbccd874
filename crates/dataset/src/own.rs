//! Data of the user's own: files of SQL, and archives of `pg_dump`.

pub mod archive;
pub mod sql_files;
