//! Have a PostgreSQL: fetch, initialize, start, set, snapshot, restore, tend and stop one; or adopt a running one.
//!
//! Nothing here knows workloads or measures anything.

pub mod account;
mod beneath;
pub mod binaries;
pub mod budget;
pub mod build;
pub mod cluster;
mod command;
pub mod control;
pub mod copy;
mod damaged;
pub mod defaults;
mod environment;
pub mod facts;
pub mod fetch;
pub mod fingerprint;
mod given;
pub mod huge_pages;
pub mod launch;
mod names;
pub mod numa;
pub mod pins;
pub mod planted;
pub mod prewarm;
pub mod process;
pub mod process_id;
mod relations;
mod rights;
mod segments;
pub mod settings;
pub mod snapshot;
pub mod socket;
pub mod space;
mod spawn;
pub mod start_error;
pub mod target;
pub mod template;
pub mod tend;
mod tree;
mod unpack;
pub mod verify;
pub mod workspace;

pub use account::Account;
pub use binaries::{Binaries, Origin};
pub use cluster::{Cluster, InitOptions};
pub use copy::{CopyMethod, CopyReport};
pub use facts::{LocalFacts, record};
pub use fetch::{Cache, FetchError, FetchProgress, fetch};
pub use launch::{Server, StartOptions, StopMode, StopReport};
pub use snapshot::SnapshotFacts;
pub use start_error::{StartError, StartFault};
pub use target::Target;
pub use workspace::{Claim, ClusterKey, Workspace};
