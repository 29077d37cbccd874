//! What talks to the NATS server.

mod agent;
mod connect;
mod dial;
mod find;
mod frame;
mod pump;
mod subject;

pub use agent::serve;
pub use dial::dial;
pub use find::find;
