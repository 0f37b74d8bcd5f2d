//! Rules that hold for file and socket alike (being built).
