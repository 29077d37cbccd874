//! One thread of a load: its event loop, its schedule, its log.

pub(crate) mod connect;
pub(crate) mod controls;
pub(crate) mod frame;
pub(crate) mod log;
pub(crate) mod messages;
pub(crate) mod order;
pub(crate) mod rate;
pub(crate) mod rehearsal;
pub(crate) mod report;
pub(crate) mod schedule;
pub(crate) mod shell;
pub(crate) mod stop;
pub(crate) mod turns;
pub(crate) mod worker;
