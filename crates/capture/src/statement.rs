//! The text of one statement: its tokens, its identity, what kind it is, and the values within it.

pub mod form;
pub mod identity;
pub mod kind;
pub mod lexer;
mod lists;
pub mod literal;
pub mod places;

pub use form::{Form, FormPiece, FormSlot, Origin, SlotValue, Taken};
pub use identity::identity;
pub use kind::{Kind, StatementRole};
