//! Statements prepared for their types. A parameter that gets none from the server (`$1 + $2`) is tried with types that its values fit.

use std::collections::BTreeMap;

use anyhow::Result;
use wire::ServerError;
use wire::session::{Session, SessionError};

use super::texts::{SqlToken, near, tokens};
use super::{StatementRefusal, TYPES_TRIED};
use crate::session::undone_if_failed;

/// Most attempts for one statement.
const ATTEMPTS_MAX: usize = 40;
/// Most parameters: those of the protocol.
pub(super) const PARAMETERS_MAX: usize = 65_535;
/// What a type of a parameter can mend: ambiguous and undefined functions and operators, parameters without a type or with two.
const MENDED_BY_TYPES: [&str; 4] = ["42725", "42883", "42P18", "42P08"];

/// Whether the values of a parameter, counted from 1, fit a type.
pub(super) type Fits<'a> = &'a mut dyn FnMut(usize, &str) -> bool;

/// Prepares a statement under this name. Returns the parameters whose types were given to the server, by number; the server's refusal
/// if no types help.
pub(super) fn prepare(
    session: &mut Session,
    name: &str,
    sql: &str,
    fits: Fits<'_>,
) -> Result<std::result::Result<Vec<usize>, StatementRefusal>> {
    let all = tokens(sql);
    let n_parameters = all.iter().filter_map(SqlToken::parameter).max().unwrap_or(0);
    if n_parameters > PARAMETERS_MAX {
        return Ok(Err(StatementRefusal {
            sqlstate: "54000".into(),
            message: format!("more than {PARAMETERS_MAX} parameters"),
        }));
    }
    let mut given: BTreeMap<usize, usize> = BTreeMap::new();
    let mut first_refusal = None;
    for _ in 0..ATTEMPTS_MAX {
        let text =
            if given.is_empty() { sql.to_string() } else { with_types(name, sql, n_parameters, &given) };
        let attempt = undone_if_failed(session, |session| try_once(session, name, &text, given.is_empty()))?;
        let error = match attempt {
            Ok(()) => return Ok(Ok(given.into_keys().collect())),
            Err(error) => error,
        };
        let suspects = suspects(&error, &text);
        let is_mendable = MENDED_BY_TYPES.contains(&error.sqlstate.as_str()) && n_parameters > 0;
        first_refusal.get_or_insert(StatementRefusal { sqlstate: error.sqlstate, message: error.message });
        if !is_mendable || !give_a_type(&suspects, &mut given, fits) {
            break;
        }
    }
    Ok(Err(first_refusal.unwrap_or_else(|| StatementRefusal {
        sqlstate: String::new(),
        message: "no attempt was made".into(),
    })))
}

/// PREPARE as text needs the extended protocol, which takes one statement: none may follow that would be executed.
fn try_once(
    session: &mut Session,
    name: &str,
    text: &str,
    is_plain: bool,
) -> std::result::Result<(), SessionError> {
    if is_plain { session.prepare(name, text) } else { session.query_params(text, &[]).map(drop) }
}

/// The text of PREPARE; `unknown` leaves a type to the server.
fn with_types(name: &str, sql: &str, n_parameters: usize, given: &BTreeMap<usize, usize>) -> String {
    let types: Vec<&str> =
        (1..=n_parameters).map(|number| given.get(&number).map_or("unknown", |n| TYPES_TRIED[*n])).collect();
    format!("prepare {name} ({}) as {sql}", types.join(", "))
}

/// The parameters that an error is about: those that it names, or those around its place.
fn suspects(error: &ServerError, text: &str) -> Vec<usize> {
    let named: Vec<usize> = tokens(&error.message).iter().filter_map(SqlToken::parameter).collect();
    if !named.is_empty() {
        return named;
    }
    near(&tokens(text), error.character())
}

/// Gives one of the suspects, if possible one that has none yet, the next type that its values fit.
fn give_a_type(suspects: &[usize], given: &mut BTreeMap<usize, usize>, fits: Fits<'_>) -> bool {
    let (with, without): (Vec<usize>, Vec<usize>) =
        suspects.iter().partition(|number| given.contains_key(number));
    for number in without.into_iter().chain(with) {
        let from = given.get(&number).map_or(0, |n| n + 1);
        if let Some(next) = (from..TYPES_TRIED.len()).find(|n| fits(number, TYPES_TRIED[*n])) {
            given.insert(number, next);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_given_one_by_one_and_only_those_that_values_fit() {
        let mut given = BTreeMap::new();
        let mut fits = |number: usize, name: &str| number == 1 || name != "int8";
        assert!(give_a_type(&[2, 1], &mut given, &mut fits));
        assert!(give_a_type(&[2, 1], &mut given, &mut fits));
        assert_eq!(given, BTreeMap::from([(1, 0), (2, 1)]));
        assert_eq!(
            with_types("x", "select $1", 3, &given),
            "prepare x (int8, numeric, unknown) as select $1"
        );
        for _ in 0..5 {
            assert!(give_a_type(&[2, 1], &mut given, &mut fits));
        }
        assert!(!give_a_type(&[2, 1], &mut given, &mut fits), "all types were tried");
    }
}
