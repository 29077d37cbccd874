//! Integration tests against real servers.
