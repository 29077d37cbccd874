//! Functions of transactions with captured rows.

use super::{Call, Made};
use crate::expression::captured;

/// An int that was not captured.
pub(super) fn near(call: &mut Call<'_, '_>) -> Made {
    let bounds = [call.constant_int(1)?, call.constant_int(2)?];
    captured::near(call.compiler, call.part, call.arguments, bounds)
}

/// The clock.
pub(super) fn now(call: &mut Call<'_, '_>) -> Made {
    captured::current_time(call.compiler, call.part)
}
