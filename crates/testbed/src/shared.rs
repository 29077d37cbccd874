//! Something expensive that several tests use at the same time, as a server, and that ends with the last of them.

use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A `static` of it stands where the tests get theirs from. What is in a `static` itself is never dropped, so this holds
/// on to nothing.
#[derive(Debug)]
pub struct SharedServer<T>(Mutex<Weak<T>>);

impl<T> SharedServer<T> {
    /// Nothing is made before the first test wants it.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "a `static` needs a constant")]
    pub const fn new() -> SharedServer<T> {
        SharedServer(Mutex::new(Weak::new()))
    }

    /// The one that another test has now, or a new one.
    pub fn get(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = shared.upgrade() {
            return made;
        }
        let made = Arc::new(make());
        *shared = Arc::downgrade(&made);
        made
    }
}
