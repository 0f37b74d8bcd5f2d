//! Control plane (being built).
