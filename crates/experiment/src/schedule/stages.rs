//! The stages of a sequence of runs, of which at most one has a running server.

use anyhow::Result;
use model::experiment::case::Case;
use model::experiment::plan::Plan;

use crate::site::Site;
use crate::site::keys::StageKey;
use crate::site::progress::Watch;
use crate::stage::{ResolvedServer, Stage};

/// Stages set up so far; each is kept, so that its data is loaded once, unless only one may be on disk.
pub(crate) struct Stages {
    is_one_at_a_time: bool,
    open: Vec<Stage>,
    /// Index of the stage for each key.
    asked: Vec<(StageKey, usize)>,
}

impl Stages {
    pub(crate) fn new(plan: &Plan) -> Stages {
        Stages { is_one_at_a_time: plan.servers_at_a_time.is_some(), open: Vec::new(), asked: Vec::new() }
    }

    pub(crate) fn for_case(&mut self, case: &Case, site: &Site, watch: &mut Watch) -> Result<&mut Stage> {
        let key = StageKey::new(case);
        let index = match self.asked.iter().find(|(known, _)| *known == key) {
            Some((_, index)) => *index,
            None => {
                let found = ResolvedServer::resolve(case, &site.environment, watch)?;
                let index = match self.open.iter().position(|stage| stage.is_of(&found)) {
                    Some(index) => index,
                    None => {
                        if self.is_one_at_a_time {
                            self.retire()?;
                        }
                        let stage = Stage::set_up_next_to(&self.open, found, case, site, watch)?;
                        self.open.push(stage);
                        self.open.len() - 1
                    }
                };
                self.asked.push((key, index));
                index
            }
        };
        Ok(&mut self.open[index])
    }

    /// Frees the space for the next stage.
    fn retire(&mut self) -> Result<()> {
        self.asked.clear();
        self.open.drain(..).try_for_each(Stage::retire)
    }

    /// Stops the server that runs, if one does.
    pub(crate) fn stand_down(&mut self) -> Result<()> {
        self.open.iter_mut().try_for_each(Stage::stand_down)
    }

    /// Stops it at once.
    pub(crate) fn abandon(&mut self) -> Result<()> {
        self.open.iter_mut().try_for_each(Stage::abandon)
    }
}
