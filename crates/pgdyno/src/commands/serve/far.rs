//! A directory on another machine: `pgdyno pages` there answers what the server here is asked.

use std::io::BufReader;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use driver::far::{Begin, Outbox, ParentInput, WallClock, begin};
use model::experiment::driver::DriverSpec;
use model::load::drive::DriverLine;
use model::load::pages::{AnswerPart, PageRequest, PagesCommand, PagesLine, PagesOrder};
use serve::{Answering, Elsewhere, ServeOptions, Serving};

use super::{drawn, expect_dir, options};
use crate::front::cli::serve::ServeArgs;
use crate::job::own_program;
use crate::{Exit, pipe, say, signals};

#[derive(Debug)]
struct Far(fleet::Pages);

impl Elsewhere for Far {
    fn ask(&self, asked: PageRequest, sink: Box<dyn FnMut(AnswerPart) -> bool + Send>) -> u64 {
        self.0.ask(asked, sink)
    }

    fn took(&self, id: u64) {
        self.0.took(id);
    }

    fn leave(&self, id: u64) {
        self.0.leave(id);
    }
}

/// Serves the directory of another machine.
pub(super) fn start(args: &ServeArgs, via: &DriverSpec) -> Result<Serving> {
    let spec = DriverSpec { upload: args.upload, ..via.clone() };
    let order = PagesOrder {
        format: model::FORMAT,
        dir: args.dir.clone(),
        machine: spec.name.clone(),
        may_control: args.control,
    };
    let pages = fleet::Pages::open(&spec, order, own_program()?, Box::new(say), signals::stop_flag())?;
    serve::start_relay(&options(args), Box::new(Far(pages)))
}

/// `pgdyno pages`: answers for a directory of this machine as a server elsewhere asks, until its pipe ends.
pub(crate) fn pages() -> Exit {
    let input = BufReader::new(std::io::stdin());
    pipe::answer(|outbox| answer(input, outbox).map_err(|error| format!("{error:#}")))
}

fn answer(input: BufReader<std::io::Stdin>, outbox: &Outbox) -> Result<()> {
    let Begin { order, is_far, commands } =
        begin::<PagesOrder, PagesCommand>(input, WallClock::read(), outbox)
            .map_err(|error| anyhow!(error))?;
    anyhow::ensure!(is_far, "`pgdyno pages` is started by a pgdyno on another machine (serve --via)");
    pipe::expect_format(order.format).map_err(|error| anyhow!(error))?;
    expect_dir(&order.dir)?;
    let said = outbox.clone();
    // A parent that has gone ends this process elsewhere.
    let say = Arc::new(move |line| said.say(&DriverLine::Pages(line)).unwrap_or_default());
    let answering = Answering::start(of_order(order), drawn::MAKERS, say)?;
    outbox.say(&DriverLine::Pages(PagesLine::Open))?;
    while let Some(ParentInput::Command(command)) = commands.recv() {
        answering.carry_out(command);
    }
    Ok(())
}

fn of_order(order: PagesOrder) -> ServeOptions {
    ServeOptions {
        root: order.dir,
        // Nobody listens here.
        listen: ([127, 0, 0, 1], 0).into(),
        wants_token: false,
        names: Vec::new(),
        companion: None,
        may_move: false,
        may_control: order.may_control,
        machine: order.machine,
        tool_version: env!("CARGO_PKG_VERSION"),
        patience: serve::ConnectionBounds::default(),
    }
}
