//! Texts of values: what kind of text one is, and instants.

pub mod logged;
pub mod text_class;
pub mod times;
