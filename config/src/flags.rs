//! The schedulers' flags, in LVS's words.

use engine::sched::SchedulerKind;
use serde::{Deserialize, Serialize};

/// The scheduler's flags, by name: `["mh-port", "mh-fallback"]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<&'static str>")]
pub struct Flags {
    /// `sh-port`: the client's port takes part in the hash.
    pub sh_port: bool,
    /// `sh-fallback`: a client whose server is not eligible goes to another.
    pub sh_fallback: bool,
    /// `mh-port`: the client's port takes part in the hash.
    pub mh_port: bool,
    /// `mh-fallback`: a client whose server is not eligible goes to another.
    pub mh_fallback: bool,
}

/// A flag's name, and its place.
type Named = (&'static str, fn(&mut Flags) -> &mut bool);

impl Flags {
    const ALL: [Named; 4] = [
        ("sh-port", |flags| &mut flags.sh_port),
        ("sh-fallback", |flags| &mut flags.sh_fallback),
        ("mh-port", |flags| &mut flags.mh_port),
        ("mh-fallback", |flags| &mut flags.mh_fallback),
    ];

    /// The names of those that are set.
    #[must_use]
    pub fn names(mut self) -> Vec<&'static str> {
        Self::ALL.into_iter().filter(|(_, of)| *of(&mut self)).map(|(name, _)| name).collect()
    }

    /// The first that is set but belongs to another scheduler, and the name of that one.
    #[must_use]
    pub fn misfit(self, scheduler: SchedulerKind) -> Option<(&'static str, &'static str)> {
        let owned =
            self.names().into_iter().filter_map(|name| Some((name, name.split_once('-')?.0)));
        { owned }.find(|(_, owner)| *owner != scheduler.name())
    }
}

impl From<Flags> for Vec<&'static str> {
    fn from(flags: Flags) -> Self {
        flags.names()
    }
}

impl TryFrom<Vec<String>> for Flags {
    type Error = String;
    fn try_from(names: Vec<String>) -> Result<Self, String> {
        let mut flags = Self::default();
        for name in names {
            let Some((_, of)) = Self::ALL.into_iter().find(|(known, _)| *known == name) else {
                let known = Self::ALL.map(|(name, _)| name).join(", ");
                return Err(format!("{name:?} is unknown; allowed: {known}"));
            };
            *of(&mut flags) = true;
        }
        Ok(flags)
    }
}
