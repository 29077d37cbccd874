//! Values of the operating system that an experiment asks for: what this machine allows, setting them, and putting back
//! what was there, also after a crash. What a value means for a server is not known here.

mod journal;
mod keeper;
mod knob;
mod machine;
pub mod pages;

pub use journal::Undone;
pub use keeper::{Keeper, undo_left, undo_own};
pub use knob::{Disk, refusal, settings};
pub use machine::Machine;
