//! The one mutable truth about services (being built).

use crate::change::{Applied, Change, Refusal};

/// Services, servers, their slots.
#[derive(Debug, Default)]
pub struct Store {
    version: u64,
}

impl Store {
    /// Applies all changes, or none.
    ///
    /// # Errors
    /// The first change that is refused, by its place in the batch.
    pub fn apply(&mut self, changes: &[Change]) -> Result<Applied, Refusal> {
        self.version += u64::from(!changes.is_empty());
        Ok(Applied { config: self.version, snapshot: 0, lcores: 0 })
    }
}
