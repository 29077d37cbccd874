//! Tests of the front without a server: command lines to requests, counts to text.

mod command_lines;
mod texts;
