//! What a workload directory says: its manifest, its typed expressions, rows and parameters.
//!
//! A [`Directory`] is the texts of its files. [`Manifest`] is its `workload.toml`, an [`Instance`] all of it in a variant, at a
//! scale, with values of its options: names are resolved, expressions compiled, and rows can be made. Files, servers and scripts'
//! own language are not known here.

mod directory;
mod draws;
pub mod expression;
mod instance;
mod manifest;
mod native;
mod problem;
mod proof;
pub mod random;
mod value;

pub use directory::{Directory, FILES_MAX};
pub use draws::{
    DrawsContents, PACKED_BYTES_MAX, UnpackFault, is_draws_file, reference as draws_reference,
    referenced_sha256, sha256 as draws_sha256, unpacked as draws_unpacked,
};
pub use expression::{CellFault, Clock, Type, escape_copy};
pub use instance::parameters::ClientParameters;
pub use instance::table::{Table, TableColumn, TableRows};
pub use instance::{
    CheckSql, Choice, DirectoryTransaction, EachParameters, Instance, Parameter, SessionClass, SqlPart,
    sql_variables, variable_name,
};
pub use manifest::captured::{CapturedSource, DeclaredData, is_inside};
pub use manifest::sessions::{CountOrOption, Order, SessionSpec, Variant, Weights};
pub use manifest::tables::{DeclaredTable, NamedText, PlacedText, TableSize};
pub use manifest::transactions::{DeclaredTransaction, DrawsSpec, EachSpec, LimitOfLatency, Think};
pub use manifest::{Check, Defaults, Manifest, Measure, Needs, OptionSpec, OptionValue};
pub use native::NativeData;
pub use problem::Problem;
pub use proof::ServerColumn;
