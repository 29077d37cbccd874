//! Scripts as a driver sends them: compiled, with the bytes that never change prepared.

pub(super) mod control;

use model::directory::{TraceReplay, WorkloadDirectory};
use model::load::{LoadSpec, Protocol};
use wire::message;
use workload::directories;
use workload::directories::classes::{Classes, Pause};
use workload::script::declared::{Declared, TRIES_MAX};
use workload::{
    BoundParameter, Builtins, Bundle, Dialect, Emulator, Fetch, Prng, Program, Schema, ScriptCommand,
    Statement, Unsendable, ledger,
};

use crate::client::Client;
use crate::client::parsed::PreparedStatements;
use crate::client::script::control::BlockControl;
use crate::client::session::Destination;
use crate::client::transaction::ClientRole;
use crate::tally::{SqlState, sqlstate};

/// The scripts of a load.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) bundle: Bundle,
    pub(crate) protocol: Protocol,
    /// Some statement's rows become variables.
    pub(crate) fetches: bool,
    is_lazy: bool,
    prepared: Vec<Vec<Prepared>>,
    classes: Option<Classes>,
    /// Pauses after transactions, by script.
    think: Vec<Option<Pause>>,
    /// Errors with which transactions may end, by script, and those after which they are tried again.
    expected: Vec<Vec<SqlState>>,
    retry: Vec<Vec<SqlState>>,
    /// Whether a statement sends the number of the transaction as its token, by script.
    has_token: Vec<bool>,
    /// Where transactions go, by script.
    destinations: Vec<Destination>,
}

/// Statements of a load beyond which they are parsed when they first run: glued names can make very many of them, of which a
/// client needs few.
const PARSED_BEFORE_MAX: usize = 1000;

/// What is prepared of a statement before the load begins.
#[derive(Debug)]
struct Prepared {
    /// How it is sent: as the load says, but for statements of a trace that had no parameters.
    protocol: Protocol,
    /// Number of the client in the whole load.
    number: usize,
    /// Name of the prepared statement; empty when it is not kept.
    name: String,
    /// The whole message, when the statement has no parameters.
    fixed: Option<Closed>,
    /// The bytes before and after its parameters, for the protocols that bind them.
    head: Vec<u8>,
    tail: Closed,
    control: BlockControl,
    /// Those that are sent in place of a statement with glued names.
    variants: Vec<Prepared>,
}

/// The end of a message, with the Sync that follows outside of pipelines if the protocol needs one.
#[derive(Debug)]
struct Closed {
    bytes: Vec<u8>,
    /// Where the Sync begins.
    sync_at: usize,
}

impl Closed {
    fn new(mut bytes: Vec<u8>, protocol: Protocol) -> Closed {
        let sync_at = bytes.len();
        if protocol != Protocol::Simple {
            message::sync(&mut bytes);
        }
        Closed { bytes, sync_at }
    }

    #[inline]
    fn get(&self, with_sync: bool) -> &[u8] {
        if with_sync { &self.bytes } else { &self.bytes[..self.sync_at] }
    }
}

/// `read_only_sql_transaction`.
const READ_ONLY: &[u8] = b"25006";

impl Scripts {
    /// Compiles the scripts of a load. The error names script, line and column.
    pub(crate) fn compile(load: &LoadSpec) -> Result<Scripts, String> {
        let bundle = bundle(load)?;
        let mut numbers = 0..;
        let mut prepared = Vec::with_capacity(bundle.programs.len());
        for program in &bundle.programs {
            if load.protocol != Protocol::Simple {
                program.check_parameter_counts().map_err(|e| e.to_string())?;
            }
            prepared.push(prepare_all(&mut numbers, &bundle, program, load.protocol));
        }
        let fetches = bundle.programs.iter().flat_map(|p| &p.statements).any(|s| s.fetch != Fetch::Discard);
        let states = |program: &Program, of: fn(&Declared) -> &[String]| -> Vec<SqlState> {
            let texts = program.declared.as_deref().map_or(&[][..], of);
            texts.iter().map(|text| sqlstate(text.as_bytes())).collect()
        };
        let programs = || bundle.programs.iter();
        let mut expected: Vec<_> = programs().map(|program| states(program, |of| &of.expected)).collect();
        if load.only_reads {
            expected.iter_mut().for_each(|states| states.push(sqlstate(READ_ONLY)));
        }
        let retry = programs().map(|program| states(program, |of| &of.retry)).collect();
        let names: Vec<(&str, u32)> = load.scripts.iter().map(|of| (of.name.as_str(), of.weight)).collect();
        let (classes, think) = match bundle.instance() {
            None => (classes_of_trace(load)?, vec![None; bundle.programs.len()]),
            Some(instance) => {
                let pause = |(name, _): &(&str, u32)| {
                    let mut transactions = instance.transactions().iter();
                    transactions.find(|of| of.name == *name)?.think.map(Pause::new)
                };
                let classes = Classes::of_directory(instance, &names, load.n_clients)?;
                (classes, names.iter().map(pause).collect())
            }
        };
        let n_statements: usize = prepared.iter().flatten().map(Prepared::n_statements).sum();
        let is_lazy = load.lazy_parse || (n_statements > PARSED_BEFORE_MAX && bundle.instance().is_some());
        let protocol = load.protocol;
        let has_token = programs().map(|program| load.ledger && ledger::has_token(program)).collect();
        let reads = |name: &str| load.reads.as_ref().is_some_and(|reads| reads.scripts.contains(name));
        let destination =
            |program: &Program| if reads(&program.name) { Destination::Reads } else { Destination::Target };
        let destinations = programs().map(destination).collect();
        Ok(Scripts {
            bundle,
            protocol,
            fetches,
            is_lazy,
            prepared,
            classes,
            think,
            expected,
            retry,
            has_token,
            destinations,
        })
    }

    /// The class of a client.
    pub(crate) fn class(&self, client: usize) -> usize {
        self.classes.as_ref().map_or(0, |classes| classes.class_of(client))
    }

    /// The settings of a class's sessions, as options of their connections.
    pub(crate) fn session_options(&self, class: usize) -> Option<String> {
        let settings = &self.classes.as_ref()?.all[class].settings;
        let escaped = |text: &str| text.replace('\\', "\\\\").replace(' ', "\\ ");
        let option = |(name, value): &(String, String)| format!("-c {name}={}", escaped(value));
        (!settings.is_empty()).then(|| settings.iter().map(option).collect::<Vec<_>>().join(" "))
    }

    /// Number of classes.
    pub(crate) fn n_classes(&self) -> usize {
        self.classes.as_ref().map_or(1, |classes| classes.all.len())
    }

    /// What a client of the load does.
    pub(crate) fn role(&self, client: usize, seed: u64) -> ClientRole {
        let class = self.class(client);
        let order = self.classes.as_ref().and_then(|classes| classes.all[class].order.as_ref());
        ClientRole::new(class, order.map_or(Vec::new(), |order| order.of_client(seed, client)))
    }

    /// The script that a client of a class runs next, by weight.
    #[inline]
    pub(crate) fn choose(&self, class: usize, prng: &mut Prng) -> usize {
        match &self.classes {
            None => self.bundle.choose(prng),
            Some(classes) => classes.all[class].choose(prng),
        }
    }

    /// The pause after a transaction: its own, or that of its class.
    #[inline]
    pub(crate) fn pause_after(&self, script: usize, class: usize) -> Option<Pause> {
        self.think[script].or_else(|| self.classes.as_ref()?.all[class].think)
    }

    /// Whether a script writes the token of its transaction.
    pub(crate) fn has_token(&self, script: usize) -> bool {
        self.has_token[script]
    }

    /// Where a script's transactions go.
    #[inline]
    pub(crate) fn destination(&self, script: usize) -> Destination {
        self.destinations[script]
    }

    /// Whether a script's transactions may end with this error.
    pub(crate) fn expects(&self, script: usize, state: SqlState) -> bool {
        self.expected[script].contains(&state)
    }

    /// Whether a script names this error as one after which its transactions are tried again.
    pub(crate) fn retries(&self, script: usize, state: SqlState) -> bool {
        self.retry[script].contains(&state)
    }

    /// Most tries of a script's transactions, if those of all scripts have so many; 0: no limit.
    pub(crate) fn tries_max(&self, script: usize, of_load: u32) -> u32 {
        let has_own = of_load == 1 && !self.retry[script].is_empty();
        if has_own { TRIES_MAX } else { of_load }
    }

    /// The statements of a fresh connection, none of which is parsed.
    pub(crate) fn nothing_parsed(&self) -> Option<PreparedStatements> {
        let n = || self.prepared.iter().flatten().map(Prepared::n_statements).sum();
        (self.protocol == Protocol::Prepared).then(|| PreparedStatements::none(n()))
    }

    /// Whether statements are parsed when a client first runs them.
    pub(crate) fn parses_late(&self) -> bool {
        self.is_lazy
    }

    /// Whether a statement's rows become variables.
    #[inline]
    pub(crate) fn fetches(&self, script: usize, statement: usize) -> bool {
        self.fetches && self.bundle.programs[script].statements[statement].fetch != Fetch::Discard
    }

    /// Number of commands, by script.
    pub(crate) fn n_commands(&self) -> Vec<usize> {
        self.bundle.programs.iter().map(|program| program.commands.len()).collect()
    }

    /// Numbers of statements, by script.
    pub(crate) fn n_statements(&self) -> Vec<usize> {
        self.bundle.programs.iter().map(|program| program.statements.len()).collect()
    }

    /// Counts other than transactions, by script.
    pub(crate) fn facts(&self) -> Vec<Vec<String>> {
        self.bundle.programs.iter().map(|program| program.facts.clone()).collect()
    }

    /// Labels of the statements, by script.
    pub(crate) fn labels(&self) -> Vec<Vec<String>> {
        let labels = |program: &Program| program.statements.iter().map(|s| s.label.clone()).collect();
        self.bundle.programs.iter().map(labels).collect()
    }

    /// Whether a statement commits, so that without its answer the outcome is unknown; `in_block` says whether it was sent
    /// inside a transaction block.
    pub(crate) fn decides(&self, script: usize, statement: usize, in_block: bool) -> bool {
        let BlockControl { commits, begins } = self.control(script, statement);
        commits || !(in_block || begins)
    }

    /// What a statement does to the transaction block.
    pub(crate) fn control(&self, script: usize, statement: usize) -> BlockControl {
        self.prepared[script][statement].control
    }

    /// The messages that make the server parse every statement of every script, each followed by no
    /// Sync, so that errors stop at the first, of those that go there. Empty for the simple protocol, and if each is parsed when it first
    /// runs.
    pub(crate) fn parse_messages(&self, destination: Destination, out: &mut Vec<u8>) -> Vec<(usize, usize)> {
        let mut order = Vec::new();
        if self.protocol == Protocol::Simple || self.is_lazy {
            return order;
        }
        let programs = self.bundle.programs.iter().enumerate();
        for (script, program) in programs.filter(|(script, _)| self.destinations[*script] == destination) {
            for (index, statement) in program.statements.iter().enumerate() {
                let sendable = self.prepared[script][index].sendable(statement).into_iter();
                for (prepared, statement) in sendable.filter(|(one, _)| one.protocol != Protocol::Simple) {
                    message::parse(out, &prepared.name, &statement.text);
                    order.push((script, index));
                }
            }
        }
        message::sync(out);
        order
    }

    /// Appends the messages of one statement with the values of the client's emulator, a Sync included unless it is part of
    /// a pipeline. A Parse that its connection still needs goes in front, with a Sync of its own as pgbench sends it.
    ///
    /// # Errors
    /// A variable that cannot be sent. No message that has not left yet is left of the client, which cannot go on.
    #[inline]
    pub(crate) fn encode(
        &self,
        script: usize,
        statement: usize,
        client: &mut Client,
    ) -> Result<(), Unsendable> {
        let (prepared, statement) =
            self.sent(script, statement, &client.emulator).inspect_err(|_| client.drop_message())?;
        let (_, parsed, out) = client.parts();
        if let Some(parsed) = parsed
            && prepared.protocol == Protocol::Prepared
            && parsed.ask(prepared.number)
        {
            message::parse(out, &prepared.name, &statement.text);
            if !client.exchange.pipeline.is_on {
                message::sync(client.buffer());
                client.exchange.awaits_parse = true;
            }
        }
        let with_sync = !client.exchange.pipeline.is_on;
        let (emulator, _, out) = client.parts();
        let encoded = match &prepared.fixed {
            Some(fixed) => {
                out.extend_from_slice(fixed.get(with_sync));
                Ok(())
            }
            None => {
                let program = &self.bundle.programs[script];
                prepared.encode(program, statement, Some(emulator), with_sync, out)
            }
        };
        encoded.inspect_err(|_| client.drop_message())
    }

    /// What is sent for a statement: the statement, or what it is with the values of its glued variables.
    #[inline]
    fn sent(
        &self,
        script: usize,
        statement: usize,
        emulator: &Emulator,
    ) -> Result<(&Prepared, &Statement), Unsendable> {
        let prepared = &self.prepared[script][statement];
        let statement = &self.bundle.programs[script].statements[statement];
        match &statement.glued {
            None => Ok((prepared, statement)),
            Some(glued) => {
                let variant = emulator.variant(glued)?;
                Ok((&prepared.variants[variant], &glued.variants[variant]))
            }
        }
    }

    /// How a statement is sent.
    pub(crate) fn protocol_of(&self, script: usize, statement: usize) -> Protocol {
        self.prepared[script][statement].protocol
    }

    /// The text of a client's statement as its Parse has it.
    pub(crate) fn parsed_text(&self, script: usize, statement: usize, emulator: &Emulator) -> String {
        let of_script = || &self.bundle.programs[script].statements[statement];
        self.sent(script, statement, emulator).map_or_else(|_| of_script(), |(_, sent)| sent).text.clone()
    }

    /// The statement that a client sends, with the values of its parameters as literals.
    pub(crate) fn literal_text(&self, script: usize, statement: usize, client: &Client) -> String {
        let mut text = Vec::new();
        let program = &self.bundle.programs[script];
        // It has been sent, so that nothing is missing.
        let _ = self
            .sent(script, statement, &client.emulator)
            .and_then(|(_, sent)| client.emulator.render_pieces(program, &sent.pieces, &mut text));
        String::from_utf8_lossy(&text).into_owned()
    }

    /// The statement that a client sends, as pgbench's debug output shows it.
    pub(crate) fn sent_text(&self, script: usize, statement: usize, client: &Client) -> String {
        match self.protocol_of(script, statement) {
            Protocol::Simple => self.literal_text(script, statement, client),
            Protocol::Extended => self.parsed_text(script, statement, &client.emulator),
            Protocol::Prepared => {
                let sent = self.sent(script, statement, &client.emulator);
                sent.map_or(String::new(), |(prepared, _)| prepared.name.clone())
            }
        }
    }

    /// Appends the Parse of every statement between a `\startpipeline` and its end that the connection does not know,
    /// each with a Sync of its own, as pgbench sends them. (A Parse inside the pipeline would take a snapshot too early
    /// for `BEGIN ISOLATION LEVEL`.)
    pub(crate) fn parse_pipeline(&self, script: usize, start: usize, client: &mut Client) {
        let program = &self.bundle.programs[script];
        for step in &program.commands[start + 1..] {
            let statement = match step.command {
                ScriptCommand::EndPipeline => break,
                ScriptCommand::Sql { statement } => statement,
                _ => continue,
            };
            // What cannot be sent is found when it is to be.
            let Ok((prepared, sent)) = self.sent(script, statement, &client.emulator) else { continue };
            let (_, Some(parsed), out) = client.parts() else { return };
            if parsed.ask_once(prepared.number) {
                message::parse(out, &prepared.name, &sent.text);
                message::sync(out);
                client.exchange.pipeline.push_sync_of_parse(statement);
            }
        }
    }
}

/// The directory whose trace the load replays, if it does.
fn traced(load: &LoadSpec) -> Option<(&WorkloadDirectory, &TraceReplay)> {
    let directory = load.directory.as_deref()?;
    Some((directory, directory.replay.as_ref()?))
}

fn classes_of_trace(load: &LoadSpec) -> Result<Option<Classes>, String> {
    match traced(load) {
        None => Ok(None),
        Some((directory, _)) => {
            let instance = directories::instance(directory, &load.defines)?;
            Classes::of_trace(&instance, load.n_clients)
        }
    }
}

/// The programs of a load: its scripts, or the transactions of a built-in workload.
fn bundle(load: &LoadSpec) -> Result<Bundle, String> {
    match load.profiles {
        Some(profiles) => {
            let builtins = Builtins::from_defines(profiles, &load.defines);
            let schema = Schema::from_defines(&load.defines);
            let bundle = Bundle::builtin(builtins.map_err(|e| e.to_string())?, &schema);
            let names = || bundle.programs.iter().map(|program| program.name.as_str());
            if !names().eq(load.scripts.iter().map(|script| script.name.as_str())) {
                return Err(format!(
                    "the built-in transactions are {}",
                    names().collect::<Vec<_>>().join(", ")
                ));
            }
            Ok(bundle)
        }
        None => {
            let sources: Vec<(&str, &str, u32)> =
                load.scripts.iter().map(|s| (s.name.as_str(), s.source.as_str(), s.weight)).collect();
            if let Some((directory, replay)) = traced(load) {
                return Bundle::replaying(&sources, directory, replay);
            }
            let dialect = if load.values_as_pgbench { Dialect::Pgbench } else { Dialect::Exact };
            let bundle = Bundle::from_scripts(&sources, &load.defines, load.directory.as_deref())?;
            Ok(bundle.speaking(dialect))
        }
    }
}

fn prepare_all(
    numbers: &mut impl Iterator<Item = usize>,
    bundle: &Bundle,
    program: &Program,
    of_load: Protocol,
) -> Vec<Prepared> {
    let mut prepare = |(at, statement): (usize, &Statement)| {
        let protocol = if bundle.is_simple_query(at) { Protocol::Simple } else { of_load };
        let glued = statement.glued.as_deref();
        let variants = glued.map_or(&[][..], |glued| glued.variants.as_slice());
        let mut one =
            |of: &Statement| Prepared::new(numbers.next().unwrap_or_default(), program, of, protocol);
        match variants {
            [] => one(statement),
            // It is never sent itself, and so needs no number of its own.
            [first, ..] => {
                let stands_for_all = Prepared::new(0, program, first, protocol);
                Prepared { variants: variants.iter().map(one).collect(), ..stands_for_all }
            }
        }
    };
    program.statements.iter().enumerate().map(&mut prepare).collect()
}

/// The beginning of each Bind of a statement.
fn bind_head(name: &str) -> Vec<u8> {
    let mut head = Vec::new();
    // Only the beginning: the rest is written each time.
    let _ = message::BindBuilder::begin(&mut head, name);
    head
}

/// The end of each Bind of a statement, and the messages that follow it.
fn bind_tail(statement: &Statement) -> Vec<u8> {
    let mut tail = message::BIND_TAIL.to_vec();
    if matches!(statement.fetch, Fetch::Gset { .. } | Fetch::Aset { .. }) {
        // The names of the columns are not known otherwise.
        message::describe_portal(&mut tail, "");
    }
    message::execute(&mut tail, "", 0);
    tail
}

impl Prepared {
    fn new(number: usize, program: &Program, statement: &Statement, protocol: Protocol) -> Prepared {
        let name = match protocol {
            // As pgbench names them.
            Protocol::Prepared => format!("P_{number}"),
            Protocol::Simple | Protocol::Extended => String::new(),
        };
        let mut prepared = Prepared {
            protocol,
            number,
            head: bind_head(&name),
            tail: Closed::new(bind_tail(statement), protocol),
            name,
            fixed: None,
            control: BlockControl::from_sql(&statement.text),
            variants: Vec::new(),
        };
        prepared.fixed = statement.parameters.is_empty().then(|| {
            let mut bytes = Vec::new();
            let encoded = prepared.encode(program, statement, None, false, &mut bytes);
            encoded.expect("a statement without parameters needs no variable");
            Closed::new(bytes, protocol)
        });
        prepared
    }

    /// How many statements it is.
    fn n_statements(&self) -> usize {
        self.variants.len().max(1)
    }

    /// What is sent for a statement, each with its text.
    fn sendable<'a>(&'a self, statement: &'a Statement) -> Vec<(&'a Prepared, &'a Statement)> {
        match &statement.glued {
            None => vec![(self, statement)],
            Some(glued) => self.variants.iter().zip(&glued.variants).collect(),
        }
    }

    /// Appends the messages of the statement, or a part of them before an error. `emulator` may be `None` if it has no
    /// parameters.
    #[inline(always)]
    fn encode(
        &self,
        program: &Program,
        statement: &Statement,
        emulator: Option<&Emulator>,
        with_sync: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), Unsendable> {
        match self.protocol {
            Protocol::Simple => {
                let mut rendered = Ok(());
                match emulator {
                    Some(emulator) => {
                        message::query_with(out, |text| {
                            rendered = emulator.render_pieces(program, &statement.pieces, text);
                        });
                    }
                    None => message::query(out, &statement.text),
                }
                return rendered;
            }
            Protocol::Extended => message::parse(out, &self.name, &statement.text),
            Protocol::Prepared => {}
        }
        let mut bind = message::BindBuilder::begin_with(out, &self.head);
        let mut unset = None;
        if let Some(emulator) = emulator {
            for &variable in &statement.parameters {
                bind.value_with(|text| match emulator.parameter(variable, text) {
                    BoundParameter::Text => true,
                    BoundParameter::Null => false,
                    BoundParameter::Unset => {
                        unset = unset.or(Some(Unsendable::Unset(variable)));
                        false
                    }
                });
            }
        }
        bind.finish_with(self.tail.get(with_sync));
        unset.map_or(Ok(()), Err)
    }
}
