//! Clusters of standbys, which have no data of their own.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;

use crate::cluster::home::ClusterDir;
use crate::cluster::{Cluster, ClusterFacts, make_root};
use crate::user::account::Account;
use crate::user::given;

impl Cluster {
    /// Creates a cluster in `root` for a standby of `primary`, without files until it is [seeded](Cluster::seed). Its record never says
    /// that it is complete: it is worth nothing without its primary, so that what a kill leaves of it is swept. On an error, what was
    /// created is removed.
    ///
    /// # Errors
    /// When its directories cannot be made.
    pub fn create_standby(primary: &Cluster, root: &Path) -> Result<Cluster> {
        let account = Account::choose()?;
        let root = make_root(root, &account)?;
        let facts = ClusterFacts {
            version: primary.facts.version.clone(),
            version_num: primary.facts.version_num,
            created_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
            home: ClusterDir::open(&root).ok(),
            has_prewarm: primary.facts.has_prewarm,
            ..ClusterFacts::unknown(None)
        };
        let mut cluster = Cluster { root, binaries: primary.binaries.clone(), account, facts };
        let made = cluster.make_empty();
        if made.is_err() {
            // The first error is the one to report.
            cluster.remove_files().ok();
        }
        made.map(|()| cluster)
    }

    /// A data directory without files, which nothing may start until it is seeded.
    fn make_empty(&mut self) -> Result<()> {
        self.facts.write(&self.root)?;
        given::make(&self.data_dir(), &self.account)?;
        self.set_restoring(Some("of the primary".to_string()))
    }
}
