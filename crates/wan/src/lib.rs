//! A relay between two servers of this machine, over unix sockets: a delay line, a rate and a switch. It stands for the network
//! between two hosts; it knows nothing of the protocol that it carries, and loses, repeats and reorders nothing unless it is cut.

mod connection;
mod direction;
mod line;
mod relay;
mod switch;

pub use line::OneWay;
pub use relay::Relay;
pub use switch::Passed;
