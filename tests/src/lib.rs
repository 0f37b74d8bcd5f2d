//! Lab and daemon helpers (being built).
