//! Real servers: fetched (18, over the network) and installed (15). They fail, not skip, when there is no network.

mod copies;
mod life;
mod support;
mod tending;
