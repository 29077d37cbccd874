//! Names of script variables and their slots.
//!
//! All scripts of a run share one table, because in pgbench a client's variables outlive a transaction and are
//! seen by each of its scripts. Names are resolved when scripts are compiled; running uses slot numbers only.

use std::collections::HashMap;

/// The variable that has the number of the client's transaction, from 1, the same for all of its tries.
pub const NUMBER: &str = "pgdyno_number";

/// A slot of a client's variables, valid for the [`VariableTable`] that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariableId(pub u32);

impl VariableId {
    /// The slot's index.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// All names that any script of a run mentions, each with its slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VariableTable {
    names: Vec<String>,
    slots: HashMap<String, VariableId>,
}

impl VariableTable {
    /// The slot of `name`, made now if it is new.
    pub fn intern(&mut self, name: &str) -> VariableId {
        if let Some(id) = self.slots.get(name) {
            return *id;
        }
        let id = VariableId(u32::try_from(self.names.len()).expect("scripts are far smaller than 4 GiB"));
        self.names.push(name.to_owned());
        self.slots.insert(name.to_owned(), id);
        id
    }

    /// The slot of `name`, if some script mentions it.
    pub fn find(&self, name: &str) -> Option<VariableId> {
        self.slots.get(name).copied()
    }

    /// The name of a slot.
    pub fn name(&self, id: VariableId) -> &str {
        &self.names[id.index()]
    }

    /// All names, in the order of their slots.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// How many slots there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether no script mentions a variable.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// Whether `name` may be a variable: letters, `_` and anything beyond ASCII, and digits except in front.
pub fn is_valid_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(is_name_start) && bytes.all(is_name_byte)
}

/// Whether a variable name may start with this byte.
pub(crate) fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

/// Whether a variable name may continue with this byte.
pub(crate) fn is_name_byte(byte: u8) -> bool {
    is_name_start(byte) || byte.is_ascii_digit()
}
