//! Scripts as a driver sends them: compiled, with the bytes that never change made ready.

use model::load::{LoadSpec, Protocol};
use wire::message;
use workload::{Bundle, Machine, Program};

/// The scripts of a load.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) bundle: Bundle,
    pub(crate) protocol: Protocol,
    prepared: Vec<Vec<Prepared>>,
}

/// What is known of a statement before the load begins.
#[derive(Debug)]
struct Prepared {
    /// Name of the prepared statement; empty when it is not kept.
    name: String,
    /// The whole message, when the statement has no parameters.
    fixed: Option<Vec<u8>>,
    /// Whether it ends a transaction block with a commit.
    commits: bool,
    /// Whether it opens a transaction block.
    begins: bool,
}

impl Scripts {
    /// Compiles the scripts of a load; the message names script, line and column.
    pub(crate) fn compile(load: &LoadSpec) -> Result<Scripts, String> {
        let sources: Vec<(&str, &str, u32)> =
            load.scripts.iter().map(|s| (s.name.as_str(), s.source.as_str(), s.weight)).collect();
        let bundle = Bundle::compile(&sources, &load.defines).map_err(|e| e.to_string())?;
        for program in &bundle.programs {
            refuse_special(program, load.protocol)?;
        }
        let prepared = bundle
            .programs
            .iter()
            .enumerate()
            .map(|(script, program)| prepare_all(script, program, load.protocol))
            .collect();
        Ok(Scripts { bundle, protocol: load.protocol, prepared })
    }

    /// Numbers of statements, by script.
    pub(crate) fn n_statements(&self) -> Vec<usize> {
        self.bundle.programs.iter().map(|program| program.statements.len()).collect()
    }

    /// Labels of the statements, by script.
    pub(crate) fn labels(&self) -> Vec<Vec<String>> {
        let labels = |program: &Program| program.statements.iter().map(|s| s.label.clone()).collect();
        self.bundle.programs.iter().map(labels).collect()
    }

    /// Whether a statement's answer tells if something was committed, given whether it was sent inside
    /// a transaction block.
    pub(crate) fn decides(&self, script: usize, statement: usize, in_block: bool) -> bool {
        let statement = &self.prepared[script][statement];
        statement.commits || !(in_block || statement.begins)
    }

    /// The messages that make the server parse every statement of every script, each followed by no
    /// Sync, so that errors stop at the first. Empty for the simple protocol.
    pub(crate) fn parse_messages(&self, out: &mut Vec<u8>) -> Vec<(usize, usize)> {
        let mut order = Vec::new();
        if self.protocol == Protocol::Simple {
            return order;
        }
        for (script, program) in self.bundle.programs.iter().enumerate() {
            for (index, statement) in program.statements.iter().enumerate() {
                message::parse(out, &self.prepared[script][index].name, &statement.text);
                order.push((script, index));
            }
        }
        message::sync(out);
        order
    }

    /// Appends the messages of one statement with the values of `machine`.
    #[inline]
    pub(crate) fn encode(&self, script: usize, statement: usize, machine: &Machine, out: &mut Vec<u8>) {
        let prepared = &self.prepared[script][statement];
        if let Some(fixed) = &prepared.fixed {
            out.extend_from_slice(fixed);
            return;
        }
        let program = &self.bundle.programs[script];
        encode_statement(self.protocol, program, statement, &prepared.name, Some(machine), out);
    }
}

/// A script must not fail in the middle of a run for something that is known before it.
fn refuse_special(program: &Program, protocol: Protocol) -> Result<(), String> {
    if let Some((step, what)) = program.first_special() {
        return Err(format!(
            "{}:{}: `{what}` is not supported yet; remove it from the script",
            program.name, step.line
        ));
    }
    if protocol != Protocol::Simple {
        program.check_parameter_counts().map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn prepare_all(script: usize, program: &Program, protocol: Protocol) -> Vec<Prepared> {
    let prepare = |(index, statement): (usize, &workload::Statement)| {
        let name = match protocol {
            Protocol::Prepared => format!("P_{script}_{index}"),
            Protocol::Simple | Protocol::Extended => String::new(),
        };
        let fixed = statement.parameters.is_empty().then(|| {
            let mut bytes = Vec::new();
            encode_statement(protocol, program, index, &name, None, &mut bytes);
            bytes
        });
        let first_word = first_word(&statement.text);
        Prepared {
            name,
            fixed,
            commits: matches!(first_word.as_str(), "end" | "commit"),
            begins: matches!(first_word.as_str(), "begin" | "start"),
        }
    };
    program.statements.iter().enumerate().map(prepare).collect()
}

/// `machine` may be `None` for a statement without parameters.
#[inline]
fn encode_statement(
    protocol: Protocol,
    program: &Program,
    index: usize,
    name: &str,
    machine: Option<&Machine>,
    out: &mut Vec<u8>,
) {
    let statement = &program.statements[index];
    match protocol {
        Protocol::Simple => {
            match machine {
                Some(machine) => message::query_with(out, |text| machine.render(program, index, text)),
                None => message::query(out, &statement.text),
            }
            return;
        }
        Protocol::Extended => message::parse(out, name, &statement.text),
        Protocol::Prepared => {}
    }
    let mut bind = message::BindBuilder::begin(out, name);
    if let Some(machine) = machine {
        for &variable in &statement.parameters {
            bind.value_with(|text| machine.parameter(program, variable, text));
        }
    }
    bind.finish();
    message::execute(out, "", 0);
    message::sync(out);
}

fn first_word(sql: &str) -> String {
    sql.trim_start().chars().take_while(char::is_ascii_alphabetic).collect::<String>().to_ascii_lowercase()
}
