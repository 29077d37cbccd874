//! Summaries and findings of synthetic records.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod analytical;
mod capacity;
mod captured;
mod catalogue;
mod chance;
mod comparison;
mod conditions;
mod costs;
mod counters;
mod declared;
mod disturbances;
mod experiments;
mod eyes;
mod failures;
mod findings;
mod hidden;
mod history;
mod numbers;
mod one_side;
mod outages;
mod possible;
mod quiet;
mod quotas;
mod records;
mod repeats;
mod saturation;
mod scalability;
mod scripts;
mod spread;
mod stalls;
mod standby;
mod state;
mod statements;
mod tpcc;
mod two_drivers;
mod uncertainty;
mod unpaired;
mod variation;
mod what_if;
mod what_if_valid;
mod whole;
