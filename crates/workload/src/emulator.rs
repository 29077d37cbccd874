//! What one client does, whatever it runs: a script, a TPC-C terminal or a TPROC-C user.

pub(crate) mod builtins;
pub mod bundle;
pub(crate) mod exchange;
pub mod machine;
