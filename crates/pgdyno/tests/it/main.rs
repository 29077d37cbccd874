//! The program as people run it, against real servers: embedded ones that it fetches (over the network once, then
//! from a cache in the build directory), and Debian's, started here. They fail, not skip, when these are not available.

// Clippy knows test functions, not the helpers of tests.
#![allow(clippy::unwrap_used)]
#![allow(clippy::print_stderr, reason = "a test that is skipped says why")]

mod acid;
mod adopted;
mod agents;
mod announce;
mod archives;
mod bad_input;
mod belongings;
mod checkpoints;
mod ci;
mod clusters;
mod compare;
mod consent;
mod counters;
mod course;
mod doctor;
mod drivers;
mod embedded;
mod exporter;
mod eyes;
mod faults;
mod formats;
mod hands;
mod harm;
mod hooks;
mod imports;
mod judge;
mod lanes;
mod leftovers;
mod lies;
mod limiter;
mod limits;
mod loading;
mod matrix;
mod metrics;
mod named_files;
mod neighbours;
mod notebooks;
mod noticed;
mod os;
mod pace;
mod packed;
mod pages;
mod phases;
mod preflight;
mod pushed;
mod repeats;
mod restore;
mod results;
mod resume;
mod roles;
mod schemas;
mod scripts;
mod search_path;
mod secrets;
mod serve;
mod settings;
mod sides;
mod signals;
mod space;
mod spot;
mod stops;
mod studies;
mod targets;
mod tool;
mod tour;
mod tpcc;
mod traps;
mod truth;
mod variables;
mod ways;
mod why;
