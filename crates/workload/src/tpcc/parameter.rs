//! The values that statements of the transactions take, by name.

use crate::script::variables::{VariableId, VariableTable};

macro_rules! parameters {
    ($($variant:ident $name:literal,)*) => {
        /// A value that a terminal gives to a statement.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum TerminalParameter { $(#[doc = $name] $variant,)* }

        const NAMES: &[(&str, TerminalParameter)] = &[$(($name, TerminalParameter::$variant),)*];
    };
}

parameters! {
    WId "w_id",
    DId "d_id",
    CId "c_id",
    CWId "c_w_id",
    CDId "c_d_id",
    CLast "c_last",
    OId "o_id",
    OlCnt "o_ol_cnt",
    AllLocal "o_all_local",
    Item "ol_i_id",
    Supply "ol_supply_w_id",
    Quantity "ol_quantity",
    IsRemote "is_remote",
    Amount "ol_amount",
    HAmount "h_amount",
    HData "h_data",
    Carrier "o_carrier_id",
    Threshold "threshold",
    Numbers "ol_numbers",
    Items "ol_i_ids",
    Supplies "ol_supply_w_ids",
    Quantities "ol_quantities",
    Amounts "ol_amounts",
    DistInfos "ol_dist_infos",
}

impl TerminalParameter {
    /// The parameter of a variable of the table that [`table`] makes.
    #[inline]
    pub(crate) fn from_variable(variable: VariableId) -> TerminalParameter {
        NAMES[variable.index()].1
    }
}

/// All parameters as variables, each at its place.
pub(crate) fn table() -> VariableTable {
    let mut table = VariableTable::default();
    for (name, _) in NAMES {
        table.intern(name);
    }
    table
}

/// Number of parameters.
pub(crate) fn count() -> usize {
    NAMES.len()
}
