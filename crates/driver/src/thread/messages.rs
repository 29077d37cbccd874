//! Messages about errors in pgbench's words, so that the front end that behaves as pgbench need only print them.

/// A client's position in its script.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommandRef {
    pub(crate) client: usize,
    pub(crate) script: usize,
    pub(crate) command: usize,
}

/// How many tries a transaction has had.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TryCount {
    pub(crate) n: u32,
    /// 0 is without limit.
    pub(crate) max: u32,
    /// Share of the latency limit that was used, if there is one.
    pub(crate) time_share: Option<f64>,
}

/// An error of the server ended the client.
pub(crate) fn aborted_by_server(place: CommandRef, query: u32, message: &str) -> String {
    let CommandRef { client, script, command } = place;
    format!("client {client} script {script} aborted in command {command} query {query}: {message}")
}

/// A command could not be carried out.
pub(crate) fn command_failed(place: CommandRef, command_name: &str, message: &str) -> String {
    let CommandRef { client, script, command } = place;
    format!("client {client} aborted in command {command} ({command_name}) of script {script}; {message}")
}

/// `\gset` did not get exactly one row.
pub(crate) fn row_count(place: CommandRef, query: usize, n_rows: u64) -> String {
    let CommandRef { client, script, command } = place;
    format!("client {client} script {script} command {command} query {query}: expected one row, got {n_rows}")
}

/// A column's name is not a valid name of a variable.
pub(crate) fn bad_column(place: CommandRef, query: usize, name: &str) -> String {
    let CommandRef { client, script, command } = place;
    format!(
        "client {client} script {script} command {command} query {query}: error storing into variable {name}"
    )
}

/// An error that does not end the client.
pub(crate) fn got_error(place: CommandRef, message: &str) -> String {
    let CommandRef { client, script, command } = place;
    format!("client {client} got an error in command {command} (SQL) of script {script}; {message}")
}

/// Whether the transaction is tried again after an error.
pub(crate) fn after_error(client: usize, is_retry: bool, tries: TryCount) -> String {
    let what =
        if is_retry { "repeats the transaction after the error" } else { "ends the failed transaction" };
    let max = if tries.max > 0 { format!("/{}", tries.max) } else { String::new() };
    let share = tries.time_share.map_or(String::new(), |share| {
        format!(", {:.3}% of the maximum time of tries was used", 100.0 * share)
    });
    format!("client {client} {what} (try {}{max}{share})", tries.n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_are_reported_in_pgbench_s_words() {
        let check = |is_retry, tries, wanted: &str| assert_eq!(after_error(3, is_retry, tries), wanted);
        check(
            true,
            TryCount { n: 1, max: 3, time_share: None },
            "client 3 repeats the transaction after the error (try 1/3)",
        );
        check(
            false,
            TryCount { n: 2, max: 0, time_share: Some(0.12345) },
            "client 3 ends the failed transaction (try 2, 12.345% of the maximum time of tries was used)",
        );
    }
}
