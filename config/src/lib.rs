//! Operator words (being built).
