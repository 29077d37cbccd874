//! The trace of a captured workload: its transactions one by one, each with the session, the instant and the values that it had at the
//! source. A text of lines, each JSON: the head, the statements without values, and the transactions in the order of time.

use std::fmt::Display;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The file of a workload directory.
pub const TRACE_FILE: &str = "trace.zst";
/// Version of its format.
pub const TRACE_FORMAT: u32 = 1;
/// Bytes of the text.
pub const TRACE_BYTES_MAX: usize = 256 << 20;
/// Bytes of the file with the captured rows of its directory: all of them are sent to drivers.
pub const TRACE_PACKED_BYTES_MAX: u64 = 64 << 20;
/// Most statements without values: a driver counts the times of each in every second, with about 135 kB of memory.
pub const TRACE_FORMS_MAX: usize = 1_000;
/// Bytes of their texts: plans and results have them.
pub const TRACE_FORM_BYTES_MAX: usize = 1 << 20;
/// Most transactions.
pub const TRACE_TRANSACTIONS_MAX: usize = 1_000_000;
/// Most executions of statements.
pub const TRACE_STATEMENTS_MAX: usize = 4_000_000;
/// Most clients: each has a connection.
pub const TRACE_CLIENTS_MAX: u32 = 5_000;
/// Most earlier transactions that a statement waits for.
pub const TRACE_GATES_MAX: usize = 255;
/// Longest line, bytes: a transaction with all of its values.
const LINE_BYTES_MAX: usize = 16 << 20;
/// Most values of a statement.
const VALUES_MAX: usize = 255;
/// Longest trace, seconds.
const LENGTH_S_MAX: u64 = 7 * 24 * 3600;

/// The first line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceHead {
    /// Version of the format.
    pub format: u32,
    /// Clients: sessions of the source that follow each other share one.
    pub n_clients: u32,
    /// Sessions of the source.
    pub n_sessions: u32,
    /// Lines of statements.
    pub n_forms: u32,
    /// Lines of transactions.
    pub n_transactions: u32,
    /// Executions of statements.
    pub n_statements: u64,
    /// Time from the first transaction's beginning to the last one's end, microseconds.
    pub length_us: u64,
    /// Most transactions of a client.
    pub n_each_max: u32,
}

/// A statement without its values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceForm {
    /// The text, with `:v1` and the following ones for its values, as scripts have them.
    pub text: String,
    /// A letter for each value: `n` for a number in the text, `q` for anything else.
    pub values: String,
    /// Whether it is sent as a simple query, with its values in its text: it had no parameters at the source.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_text: bool,
}

/// A transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceTransaction {
    /// Number of its client, from 0.
    #[serde(rename = "c")]
    pub client: u32,
    /// When it began, microseconds after the first one.
    #[serde(rename = "t")]
    pub at_us: u64,
    /// Statements, in order.
    #[serde(rename = "s")]
    pub statements: Box<[TraceStatement]>,
}

/// An execution of a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceStatement {
    /// Number of its form, from 0.
    #[serde(rename = "f")]
    pub form: u32,
    /// When it began, microseconds after its transaction.
    #[serde(rename = "a", default, skip_serializing_if = "is_none")]
    pub after_us: u64,
    /// Pause of the client before it, microseconds.
    #[serde(rename = "p", default, skip_serializing_if = "is_none")]
    pub pause_us: u64,
    /// Values; `None` is NULL.
    #[serde(rename = "v", default, skip_serializing_if = "is_empty")]
    pub values: Box<[Option<Box<str>>]>,
    /// SQLSTATE if it failed.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<str>>,
    /// Transactions that had ended before it took effect, by their numbers from 0: they wrote what it writes.
    #[serde(rename = "g", default, skip_serializing_if = "is_empty")]
    pub gates: Box<[u32]>,
}

fn is_none(n: &u64) -> bool {
    *n == 0
}

fn is_false(is: &bool) -> bool {
    !is
}

fn is_empty<T>(all: &[T]) -> bool {
    all.is_empty()
}

/// A trace that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The head.
    pub head: TraceHead,
    /// Statements without values.
    pub forms: Vec<TraceForm>,
    /// Transactions in the order of their beginnings.
    pub transactions: Vec<TraceTransaction>,
}

impl Trace {
    /// The text of the file before it is packed.
    ///
    /// # Errors
    /// What is beyond the bounds of a trace, in words.
    pub fn text(&self) -> Result<String, String> {
        let mut out = String::new();
        push(&mut out, &self.head)?;
        self.forms.iter().try_for_each(|form| push(&mut out, form))?;
        for transaction in &self.transactions {
            push(&mut out, transaction)?;
            if out.len() > TRACE_BYTES_MAX {
                return Err(format!("it has more than {TRACE_BYTES_MAX} bytes; take a shorter window"));
            }
        }
        Ok(out)
    }

    /// The trace of a text, which anybody may have written.
    ///
    /// # Errors
    /// What is wrong, with the line, and what to do.
    pub fn read(text: &str) -> Result<Trace, String> {
        Trace::parsed(text).map_err(again)
    }

    /// As [`Trace::read`], for whoever has just made the text.
    ///
    /// # Errors
    /// As there, without what to do.
    pub fn parsed(text: &str) -> Result<Trace, String> {
        let (mut trace, mut lines) = Trace::begun(text)?;
        let mut n_statements = 0;
        let mut n_each = vec![0; trace.head.n_clients as usize];
        for _ in 0..trace.head.n_transactions {
            let next = lines.next();
            let transaction: TraceTransaction = line(next, "a transaction")?;
            n_statements += transaction.statements.len() as u64;
            trace.check(&transaction, n_statements).map_err(|why| at(next.map_or(0, |(n, _)| n), why))?;
            n_each[transaction.client as usize] += 1;
            trace.transactions.push(transaction);
        }
        if let Some((n, _)) = lines.next() {
            return Err(at(n, "follows the last transaction that the head counts"));
        }
        check_counts(&trace.head, n_statements, &n_each).map_err(|why| at(1, why))?;
        Ok(trace)
    }

    /// The head and the statements, and the lines that follow.
    fn begun(text: &str) -> Result<(Trace, impl Iterator<Item = (usize, &str)>), String> {
        let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
        let head: TraceHead = line(lines.next(), "the head")?;
        check_head(&head).map_err(|why| at(1, why))?;
        let mut trace = Trace { head, ..Trace::default() };
        let mut form_bytes = 0;
        for _ in 0..trace.head.n_forms {
            let next = lines.next();
            let form: TraceForm = line(next, "a statement")?;
            form_bytes += form.text.len();
            check_form(&form, form_bytes).map_err(|why| at(next.map_or(0, |(n, _)| n), why))?;
            trace.forms.push(form);
        }
        Ok((trace, lines))
    }

    fn check(&self, transaction: &TraceTransaction, n_statements: u64) -> Result<(), String> {
        let head = &self.head;
        let before_us = self.transactions.last().map_or(0, |last| last.at_us);
        if transaction.client >= head.n_clients {
            return Err(format!("client {} is not below {}", transaction.client, head.n_clients));
        }
        if transaction.at_us < before_us || transaction.at_us > head.length_us {
            return Err("its time is before that of the line before, or after the end".to_string());
        }
        if transaction.statements.is_empty() || n_statements > head.n_statements {
            return Err("it has no statement, or the head counts fewer".to_string());
        }
        transaction.statements.iter().try_for_each(|statement| self.check_statement(statement))
    }

    fn check_statement(&self, statement: &TraceStatement) -> Result<(), String> {
        let number = statement.form as usize;
        let form = self.forms.get(number).ok_or_else(|| format!("there is no statement {number}"))?;
        if statement.values.len() != form.values.len() {
            let (n, wanted) = (statement.values.len(), form.values.len());
            return Err(format!("statement {number} has {n} values instead of {wanted}"));
        }
        if statement.after_us > self.head.length_us || statement.pause_us > self.head.length_us {
            return Err("a time is longer than the trace".to_string());
        }
        let is_number = |text: &str| text.parse::<f64>().is_ok_and(f64::is_finite);
        for (value, kind) in statement.values.iter().zip(form.values.bytes()) {
            match value.as_deref() {
                Some(text) if text.contains('\0') => return Err("a value has a zero byte".to_string()),
                Some(text) if kind == b'n' && !is_number(text) => {
                    return Err("a value that stands bare in its statement is no number".to_string());
                }
                _ => {}
            }
        }
        let is_state = |text: &str| text.len() == 5 && text.bytes().all(|b| b.is_ascii_alphanumeric());
        if statement.error.as_deref().is_some_and(|state| !is_state(state)) {
            return Err("an error is no SQLSTATE".to_string());
        }
        self.check_gates(&statement.gates)
    }

    /// Checks what a statement of the next transaction waits for.
    fn check_gates(&self, gates: &[u32]) -> Result<(), String> {
        if gates.len() > TRACE_GATES_MAX {
            return Err(format!(
                "a statement waits for {} transactions, and at most for {TRACE_GATES_MAX}",
                gates.len()
            ));
        }
        let own = self.transactions.len();
        match gates.iter().find(|gate| **gate >= self.head.n_transactions || **gate as usize == own) {
            Some(gate) if *gate as usize == own => Err("it waits for its own end".to_string()),
            Some(gate) => Err(format!("there is no transaction {gate} to wait for")),
            None => Ok(()),
        }
    }
}

fn push(out: &mut String, value: &impl Serialize) -> Result<(), String> {
    out.push_str(&serde_json::to_string(value).map_err(|error| error.to_string())?);
    out.push('\n');
    Ok(())
}

fn at(line: usize, why: impl Display) -> String {
    format!("line {line}: {why}")
}

fn again(why: String) -> String {
    format!("{why}; capture it again with `pgdyno capture log --trace`")
}

fn line<T: DeserializeOwned>(line: Option<(usize, &str)>, what: &str) -> Result<T, String> {
    let Some((number, text)) = line else {
        return Err(format!("it ends before {what} that it should have"));
    };
    if text.len() > LINE_BYTES_MAX {
        return Err(at(number, format!("has {} bytes, and a line has at most {LINE_BYTES_MAX}", text.len())));
    }
    // The words of a parser may have a value in them.
    serde_json::from_str(text)
        .map_err(|error| at(number, format!("is not {what} (column {})", error.column())))
}

fn check_head(head: &TraceHead) -> Result<(), String> {
    if head.format != TRACE_FORMAT {
        return Err(format!("has format {}, and this pgdyno reads {TRACE_FORMAT}", head.format));
    }
    let bounds = [
        ("clients", u64::from(head.n_clients), 1, u64::from(TRACE_CLIENTS_MAX)),
        ("statements without values", head.n_forms.into(), 1, TRACE_FORMS_MAX as u64),
        ("transactions", head.n_transactions.into(), 1, TRACE_TRANSACTIONS_MAX as u64),
        ("statements", head.n_statements, 1, TRACE_STATEMENTS_MAX as u64),
        ("transactions of a client", head.n_each_max.into(), 1, head.n_transactions.into()),
        ("microseconds", head.length_us, 0, LENGTH_S_MAX * 1_000_000),
    ];
    match bounds.iter().find(|(_, n, least, most)| n < least || n > most) {
        Some((what, n, least, most)) => Err(format!("has {n} {what}; a trace has {least} to {most}")),
        None => Ok(()),
    }
}

/// Whether the head counts what there is: statements, and the transactions of each client.
fn check_counts(head: &TraceHead, n_statements: u64, n_each: &[u32]) -> Result<(), String> {
    if n_statements != head.n_statements {
        return Err(format!("counts {} statements, and there are {n_statements}", head.n_statements));
    }
    if let Some(client) = n_each.iter().position(|n| *n == 0) {
        return Err(format!("counts {} clients, and client {client} has no transaction", head.n_clients));
    }
    let most = n_each.iter().copied().max().unwrap_or(0);
    if most != head.n_each_max {
        return Err(format!(
            "counts {} transactions of the client that has most, and it has {most}",
            head.n_each_max
        ));
    }
    Ok(())
}

fn check_form(form: &TraceForm, bytes: usize) -> Result<(), String> {
    if bytes > TRACE_FORM_BYTES_MAX {
        return Err(format!("the texts of statements have more than {TRACE_FORM_BYTES_MAX} bytes"));
    }
    if form.text.contains('\0') || form.text.trim().is_empty() {
        return Err("a statement is empty, or has a zero byte".to_string());
    }
    if form.values.len() > VALUES_MAX || form.values.bytes().any(|kind| !matches!(kind, b'n' | b'q')) {
        return Err(format!("kinds of values are up to {VALUES_MAX} letters n or q"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = concat!(
        r#"{"format":1,"n_clients":2,"n_sessions":2,"n_forms":2,"n_transactions":2,"n_statements":3,"length_us":900,"n_each_max":1}"#,
        "\n",
        r#"{"text":"update t set a = :v1 where k = :v2","values":"qn"}"#,
        "\n",
        r#"{"text":"select 1","values":""}"#,
        "\n",
        r#"{"c":0,"t":0,"s":[{"f":0,"v":[null,"7"],"e":"23505"}]}"#,
        "\n",
        r#"{"c":1,"t":500,"s":[{"f":0,"v":["it's","-7"],"g":[0]},{"f":1,"a":300,"p":100}]}"#,
        "\n",
    );

    #[test]
    fn a_trace_is_read_as_it_was_written() {
        let trace = Trace::read(TEXT).unwrap();
        assert_eq!(trace.transactions[1].statements[0].gates[..], [0]);
        assert_eq!(trace.transactions[0].statements[0].values[0], None);
        assert_eq!(trace.text().unwrap(), TEXT);
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_line() {
        let check = |from: &str, to: &str, expected: &str| {
            let text = TEXT.replacen(from, to, 1);
            assert_ne!(text, TEXT);
            let message = Trace::read(&text).unwrap_err();
            assert!(message.contains(expected) && message.contains("capture it again"), "{message}");
        };
        check("\"format\":1", "\"format\":2", "line 1: has format 2");
        check("\"n_clients\":2", "\"n_clients\":60000", "line 1: has 60000 clients");
        check("\"n_statements\":3", "\"n_statements\":99", "line 1: counts 99 statements, and there are 3");
        check("\"n_statements\":3", "\"n_statements\":2", "line 5: it has no statement, or the head counts");
        check("\"n_transactions\":2", "\"n_transactions\":1", "line 5: follows the last");
        check("\"n_transactions\":2", "\"n_transactions\":3", "ends before a transaction");
        check("\"values\":\"qn\"", "\"values\":\"q\"", "line 4: statement 0 has 2 values instead of 1");
        check("\"c\":1", "\"c\":2", "line 5: client 2 is not below 2");
        check("\"t\":500", "\"t\":5000", "line 5: its time");
        check("\"f\":1", "\"f\":9", "line 5: there is no statement 9");
        check("\"-7\"", "\"1; drop table t\"", "line 5: a value that stands bare");
        check("\"-7\"", "\"NaN\"", "line 5: a value that stands bare");
        check("it's", "\\u0000", "line 5: a value has a zero byte");
        check("23505", "2350", "line 4: an error is no SQLSTATE");
        check("\"g\":[0]", "\"g\":[2]", "line 5: there is no transaction 2");
        check("\"g\":[0]", "\"g\":[1]", "line 5: it waits for its own end");
        let gates = vec!["0"; TRACE_GATES_MAX + 1].join(",");
        check("[0]", &format!("[{gates}]"), "line 5: a statement waits for 256 transactions, and at most");
        check("\"c\":1", "\"c\":0", "line 1: counts 2 clients, and client 1 has no transaction");
        check("\"n_clients\":2", "\"n_clients\":3", "line 1: counts 3 clients, and client 2 has no");
        check("\"n_each_max\":1", "\"n_each_max\":2", "line 1: counts 2 transactions of the client that");
        check("\"a\":300", "\"a\":300,\"x\":1", "line 5: is not a transaction (column");
        check("select 1", " ", "line 3: a statement is empty");
        assert!(Trace::read("").unwrap_err().contains("ends before the head"));
    }

    #[test]
    fn as_many_gates_as_there_may_be_are_read_and_a_line_that_is_too_long_is_not_parsed() {
        let gates = vec!["0"; TRACE_GATES_MAX].join(",");
        assert!(Trace::read(&TEXT.replacen("[0]", &format!("[{gates}]"), 1)).is_ok());
        // Whatever it has: its column is not named.
        let long =
            TEXT.replacen("select 1", &"x".repeat(LINE_BYTES_MAX), 1).replacen("\"values\":\"\"", "", 1);
        let message = Trace::read(&long).unwrap_err();
        assert!(
            message.starts_with("line 3: has 167772") && message.contains("at most 16777216"),
            "{message}"
        );
    }
}
