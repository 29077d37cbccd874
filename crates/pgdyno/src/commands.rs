//! What each command of pgdyno does.

pub(crate) mod agents;
pub(crate) mod calibrate;
pub(crate) mod clean;
pub(crate) mod compare;
pub(crate) mod data;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod plan;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod server;
pub(crate) mod stored;
pub(crate) mod texts;
pub(crate) mod why;
