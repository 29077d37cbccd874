//! Operating system settings that an experiment asks for: whether this machine allows them, setting them, and restoring
//! the previous values, even after a crash. What a setting does to a server is not this crate's business.

pub mod group;
mod holders;
mod journal;
mod keeper;
mod kernel_files;
mod knob;
mod lock;
pub mod pages;
mod queue;

pub use journal::REMOVED;
pub use keeper::{HeldValue, Keeper, held, undo_kept, undo_left, undo_left_within, undo_own};
pub use kernel_files::{Disk, KernelFiles};
pub use knob::{KEYS, is_of_disks, refusal, settings};
pub use model::load::hands::RestoredValue;
