//! Time as the engine sees it: milliseconds since an origin that the caller chose.
//!
//! The engine never asks for the time; every call that needs it takes a [`Ticks`]. Two processes
//! that share a connection table must share the origin too.

/// A point in time, in milliseconds since the director's origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticks(pub u64);

/// A length of time, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TickSpan(pub u64);

impl Ticks {
    /// The time that has passed since `earlier`; zero when `earlier` lies ahead.
    #[must_use]
    pub const fn since(self, earlier: Self) -> TickSpan {
        TickSpan(self.0.saturating_sub(earlier.0))
    }

    /// The low 32 bits, as a connection entry keeps them. They wrap every 49.7 days, so a
    /// difference of two of them is right for any timeout up to half of that.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "wrapping is the point")]
    pub const fn low(self) -> u32 {
        self.0 as u32
    }
}

impl std::ops::Add<TickSpan> for Ticks {
    type Output = Self;
    fn add(self, span: TickSpan) -> Self {
        Self(self.0 + span.0)
    }
}

impl TickSpan {
    /// A span of whole seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1000)
    }
}
