//! The one macro of the crate: a closed set of named things, declared in one place.
//!
//! ```
//! engine::registry! {
//!     /// What a traffic light shows.
//!     pub enum Light {
//!         /// Wait.
//!         Red = "red",
//!         /// Go.
//!         Green = "green",
//!     }
//! }
//! assert_eq!(Light::ALL.len(), 2);
//! assert_eq!(Light::Green.name(), "green");
//! assert_eq!("red".parse::<Light>(), Ok(Light::Red));
//! assert!("blue".parse::<Light>().unwrap_err().contains("allowed: red, green"));
//! ```
//!
//! Each line is a variant, its documentation (also its help text) and its name; names, help,
//! parsing, counters and contract tests come from it.

/// Declares an enum whose variants have a name and a help text. See the module's example.
#[macro_export]
macro_rules! registry {
    ($(#[$meta:meta])* $vis:vis enum $kind:ident {
        $(#[doc = $about:literal] $(#[doc = $more:literal])* $variant:ident = $name:literal,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        $vis enum $kind { $(#[doc = $about] $(#[doc = $more])* $variant,)* }

        impl $kind {
            /// All of them, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name in config, commands and metrics.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// One sentence for help texts.
            #[must_use]
            pub fn about(self) -> &'static str {
                match self { $(Self::$variant => $about.trim_ascii(),)* }
            }
        }

        impl ::std::fmt::Display for $kind {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl ::std::str::FromStr for $kind {
            type Err = ::std::string::String;
            fn from_str(s: &str) -> ::std::result::Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|k| k.name() == s).ok_or_else(|| {
                    let names: ::std::vec::Vec<_> = Self::ALL.iter().map(|k| k.name()).collect();
                    ::std::format!("{s:?} is unknown; allowed: {}", names.join(", "))
                })
            }
        }
    };
}
