//! The operator's words: what the file and the socket say, before the engine's types.
//!
//! [`spec`] is shared by file and socket: a service and its servers as an operator names them.
//! [`settings`] belongs to the file alone: ports, lcores, limits, the things that need a restart.
//! [`load()`] turns TOML into checked settings; every refusal names file, line, key and value.
//! [`save()`] writes settings and running services back in the file's own shape.

pub mod check;
mod flags;
pub mod load;
pub mod persistence;
mod reader;
mod report;
pub mod save;
pub mod settings;
pub mod slow_start;
pub mod spec;
pub mod text;

pub use load::{LoadError, load, parse};
pub use save::save;
pub use settings::Settings;
pub use spec::{Endpoint, ServerRef, ServerSpec, ServiceRef, ServiceSpec};
