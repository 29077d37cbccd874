//! Have a PostgreSQL: fetch, initialize, start, set, snapshot, restore, tend and stop one; or adopt a running one.
//!
//! Nothing here knows workloads or measures anything.

pub mod alter_system;
pub mod binaries;
pub mod cluster;
pub mod database;
pub mod pooler;
pub mod process;
pub mod process_id;
pub mod running;
pub mod settings;
pub mod swept;
pub mod temporary;
pub mod user;

pub use binaries::fetch::{Cache, FetchError, FetchProgress, fetch};
pub use binaries::{Binaries, BinariesOrigin};
pub use cluster::copy::{CopyMethod, CopyReport};
pub use cluster::snapshot::SnapshotFacts;
pub use cluster::workspace::{Claim, ClusterKey, Workspace};
pub use cluster::{Cluster, InitOptions};
pub use database::facts::{LocalFacts, record};
pub use database::target::Target;
pub use pooler::{OwnPooler, PoolerOptions, PoolerStart};
pub use process::start_error::{StartError, StartFault};
pub use running::launch::{OwnServer, StartOptions, StopMode, StopReport};
pub use running::listen::ListenAddress;
pub use temporary::Temporary;
pub use user::account::Account;
