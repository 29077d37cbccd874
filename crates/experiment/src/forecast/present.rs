//! Data that a plan needs and that is here already, in clusters that earlier experiments have left. What servers by URL have, is not
//! known here.

use std::cell::RefCell;

use model::experiment::case::setting;
use model::experiment::case::{Case, ServerSource};
use server::cluster::ClusterFacts;
use server::{Binaries, Cache};

use crate::site::keys::{cluster_key, clusters_dir};
use crate::stage::disk::binaries_here;
use crate::stage::embedded::IS_LOADED;
use crate::stage::{LOADED, MADE_UNDER};

/// Clusters that earlier experiments have left on this machine.
#[derive(Debug, Clone, Default)]
pub struct Present {
    cache: Option<Cache>,
    /// Looked up once: some have to be asked for their version.
    binaries: RefCell<Vec<(ServerSource, Option<Binaries>)>>,
}

impl Present {
    /// The data of clusters in the cache, and in the directories of targets.
    pub fn with(cache: &Cache) -> Present {
        Present { cache: Some(cache.clone()), ..Present::default() }
    }

    /// Whether a case begins with data that is here, and nothing is loaded for it. Where servers take turns on disk, data is not used as
    /// an earlier experiment left it.
    pub(crate) fn has(&self, case: &Case, takes_turns: bool) -> bool {
        let Some(cache) = &self.cache else { return false };
        let key = self.binaries(case, cache).and_then(|binaries| cluster_key(&binaries, case).ok());
        let Some(key) = key else { return false };
        let root = clusters_dir(case, cache).join(key.directory_name());
        let Ok(facts) = ClusterFacts::read(&root) else { return false };
        if !facts.is_complete || facts.labels.get(MADE_UNDER) != Some(&setting::made_under_words(case)) {
            return false;
        }
        // Without a snapshot, runs may have changed it.
        let is_as_it_is = !case.prepare.restore && !takes_turns;
        facts.has_snapshot(&root, LOADED) || is_as_it_is && facts.labels.contains_key(IS_LOADED)
    }

    fn binaries(&self, case: &Case, cache: &Cache) -> Option<Binaries> {
        let source = &case.server.source;
        let mut looked_up = self.binaries.borrow_mut();
        if let Some((_, known)) = looked_up.iter().find(|(known, _)| known == source) {
            return known.clone();
        }
        let found = binaries_here(case, cache);
        looked_up.push((source.clone(), found.clone()));
        found
    }
}
