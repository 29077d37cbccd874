//! `--metrics ADDRESS`: the running experiment as OpenMetrics over HTTP, for Prometheus and what reads its format.
//!
//! Whoever asked for an address gets a listener there and nowhere else. Scrapes take processor time from what is measured: one
//! small text, made when it is asked for.

mod answer;
mod state;
mod text;

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result};
use experiment::site::progress::ProgressEvent;
use model::experiment::plan::Plan;

use self::state::State;
use crate::say;

/// The state of the experiment that scrapes read.
pub(crate) struct Metrics {
    state: Arc<Mutex<State>>,
}

impl Metrics {
    /// Listens at `address` as long as this process lives. Called before a results directory is created, because an address in use
    /// shall leave none.
    ///
    /// # Errors
    /// When the address cannot be used.
    pub(crate) fn listen(address: SocketAddr) -> Result<Metrics> {
        let within = || format!("--metrics {address}");
        let listener = TcpListener::bind(address).with_context(within)?;
        let at = listener.local_addr().with_context(within)?;
        let state = Arc::new(Mutex::new(State::default()));
        let of_thread = Arc::clone(&state);
        thread::Builder::new()
            .name("metrics".to_string())
            .spawn(move || answer::each(&listener, || text::page(&lock(&of_thread))))
            .with_context(within)?;
        say(&format!("metrics: http://{at}/metrics"));
        Ok(Metrics { state })
    }

    /// Says what will be measured.
    pub(crate) fn begin(&self, plan: &Plan) {
        lock(&self.state).begin(plan);
    }

    /// Takes in a step of progress.
    pub(crate) fn see(&self, progress: &ProgressEvent) {
        lock(&self.state).see(progress);
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
