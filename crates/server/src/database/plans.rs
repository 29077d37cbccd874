//! Generic plans of statements: what the server would do, without doing it.

use anyhow::{Result, ensure};
use model::release::Release;
use model::release::settings::GENERIC_PLANS;
use model::run::server::plans::StatementPlan;
use wire::session::{Session, SessionError};

/// Statements of which a plan is asked.
const STATEMENTS_MAX: usize = 300;
/// Longest plan that is kept, bytes.
const PLAN_BYTES_MAX: usize = 256 << 10;

/// A statement that has a plan.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "the names say it")]
pub struct PlannedStatement<'a> {
    pub script: u32,
    pub statement: u32,
    /// With `$1` and so on in place of parameters.
    pub text: &'a str,
    pub n_parameters: usize,
}

/// The plans of these statements. Those that the server does not plan now, such as one on a table that only the load makes, are left out.
///
/// # Errors
/// When the connection fails, or the server cannot be made to use generic plans (before 12).
pub fn generic(session: &mut Session, statements: &[PlannedStatement]) -> Result<Vec<StatementPlan>> {
    let release = Release::new(session.server_version_num());
    ensure!(
        release.has(GENERIC_PLANS),
        "the server shows generic plans only since PostgreSQL {}",
        GENERIC_PLANS.first()
    );
    let mut plans = Vec::new();
    for PlannedStatement { script, statement, text, n_parameters } in statements.iter().take(STATEMENTS_MAX) {
        match explain(session, text, *n_parameters) {
            Ok(explained) => {
                let known = explained.filter(|text| text.len() <= PLAN_BYTES_MAX);
                let plan = |explained| StatementPlan { script: *script, statement: *statement, explained };
                plans.extend(known.map(plan));
            }
            Err(SessionError::Server(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(plans)
}

/// In one transaction, so that a pooler keeps the prepared statement, and no setting stays in the session, which a pooler gives to others.
fn explain(session: &mut Session, text: &str, n_parameters: usize) -> Result<Option<String>, SessionError> {
    session.execute("begin read only")?;
    session.execute("set local plan_cache_mode = force_generic_plan")?;
    let nulls = vec!["null"; n_parameters].join(", ");
    let arguments = if nulls.is_empty() { nulls } else { format!("({nulls})") };
    let text = text.trim().trim_end_matches(';');
    let explained = session.execute(&format!("prepare pgdyno_plan as {text}")).and_then(|()| {
        session.query(&format!("explain (settings, format json) execute pgdyno_plan{arguments}"))
    });
    if explained.is_ok() {
        session.execute("deallocate pgdyno_plan")?;
        session.execute("rollback")?;
    } else {
        session.execute("rollback")?;
        // It may have been prepared before the error.
        match session.execute("deallocate pgdyno_plan") {
            Ok(()) | Err(SessionError::Server(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(explained?.scalar().map(str::to_string))
}
