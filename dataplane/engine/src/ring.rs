//! Bounded rings with one producer and one consumer.
//!
//! They are `rtrb`'s. In model checks (`--cfg loom`) a queue behind loom's lock stands in for them:
//! what is checked there is the use of a ring, not the ring.

#[cfg(not(loom))]
pub use rtrb::{Consumer, PopError, Producer, PushError, RingBuffer};
#[cfg(loom)]
pub use stand_in::{Consumer, PopError, Producer, PushError, RingBuffer};

#[cfg(loom)]
mod stand_in {
    use std::collections::VecDeque;

    use loom::sync::{Arc, Mutex};

    type Shared<T> = Arc<Mutex<VecDeque<T>>>;

    /// Makes rings.
    #[derive(Debug)]
    pub struct RingBuffer;

    /// The end that fills a ring.
    #[derive(Debug)]
    pub struct Producer<T>(Shared<T>, usize);

    /// The end that empties a ring.
    #[derive(Debug)]
    pub struct Consumer<T>(Shared<T>);

    /// Why nothing was pushed.
    #[derive(Debug)]
    pub enum PushError<T> {
        /// The ring is full; here is what did not fit.
        Full(T),
    }

    /// Why nothing was popped.
    #[derive(Debug)]
    pub enum PopError {
        /// There is nothing.
        Empty,
    }

    impl RingBuffer {
        /// A ring of `capacity` places.
        #[allow(clippy::new_ret_no_self, reason = "as in rtrb")]
        #[must_use]
        pub fn new<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
            let shared = Arc::new(Mutex::new(VecDeque::with_capacity(capacity)));
            (Producer(Arc::clone(&shared), capacity), Consumer(shared))
        }
    }

    impl<T> Producer<T> {
        /// Puts an item at the end.
        ///
        /// # Errors
        /// The item comes back when the ring is full.
        pub fn push(&mut self, item: T) -> Result<(), PushError<T>> {
            let mut queue = self.0.lock().expect("no thread panicked");
            if queue.len() == self.1 {
                return Err(PushError::Full(item));
            }
            queue.push_back(item);
            Ok(())
        }

        /// How many items fit at least.
        #[must_use]
        pub fn slots(&self) -> usize {
            self.1 - self.0.lock().expect("no thread panicked").len()
        }
    }

    impl<T> Consumer<T> {
        /// Takes the first item.
        ///
        /// # Errors
        /// When there is none.
        pub fn pop(&mut self) -> Result<T, PopError> {
            self.0.lock().expect("no thread panicked").pop_front().ok_or(PopError::Empty)
        }

        /// How many items can be taken at least.
        #[must_use]
        pub fn slots(&self) -> usize {
            self.0.lock().expect("no thread panicked").len()
        }
    }
}
