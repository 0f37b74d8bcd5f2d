//! Settings and services to TOML (being built).

use crate::settings::Settings;

/// The text that [`crate::parse`] reads back as the same settings.
#[must_use]
pub fn save(settings: &Settings) -> String {
    settings.director.name.clone()
}
