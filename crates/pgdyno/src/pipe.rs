//! What `pgdyno watch`, `pgdyno host` and `pgdyno pages` have in common: a pgdyno on another machine starts them, and reads their lines.

use driver::far::{Outbox, with_outbox};
use model::load::drive::DriverLine;

use crate::Exit;

/// Does what the caller orders over the pipe. The reason of a failure is the last line.
pub(crate) fn answer(serve: impl FnOnce(&Outbox) -> Result<(), String>) -> Exit {
    let outcome = with_outbox(&mut std::io::stdout(), |outbox| match serve(outbox) {
        Ok(()) => Ok(true),
        Err(message) => outbox.say_last(&DriverLine::Failed { message }).map(|()| false),
    });
    match outcome {
        Ok(Ok(true)) => Exit::Done,
        Ok(Ok(false) | Err(_)) | Err(_) => Exit::Failed,
    }
}

/// Refuses an order of a newer pgdyno.
pub(crate) fn expect_format(format: u32) -> Result<(), String> {
    if format <= model::FORMAT {
        Ok(())
    } else {
        Err(format!("the order has format {format}, this pgdyno knows {}", model::FORMAT))
    }
}
