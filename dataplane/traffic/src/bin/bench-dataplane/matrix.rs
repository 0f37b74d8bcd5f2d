//! The list of cases.

use anyhow::{Result, bail};
use engine::conn::table::ConnTable;
use engine::forward::ForwarderKind;

use crate::bar;
use crate::group::{FLOORS, REPLAY, TESTPMD};
use crate::setup::{Load, Setting};

/// The group of cases without a director.
pub(crate) const FLOOR_GROUP: &str = "floors";
/// The case that measures no packets but a table.
pub(crate) const TABLE: &str = "table-16M";

/// Short names of loads, and whether a run without `--only` has them.
const LOADS: [(&str, Load, bool); 15] = [
    ("hit-1", Load::Hit(0), false),
    ("hit-1k", Load::Hit(10), true),
    ("hit-64k", Load::Hit(16), true),
    ("hit-1M", Load::Hit(20), true),
    ("hit-16M", Load::Hit(24), true),
    ("new", Load::New(20), true),
    ("new-1k", Load::New(10), false),
    ("new-64k", Load::New(16), false),
    ("new-1M", Load::New(20), false),
    ("new-16M", Load::New(24), false),
    ("expire-1", Load::Expire(0), false),
    ("expire-1k", Load::Expire(10), false),
    ("expire-64k", Load::Expire(16), false),
    ("expire-1M", Load::Expire(20), true),
    ("expire-16M", Load::Expire(24), false),
];
/// Servers; eight are not named.
const SERVERS: [(&str, u16); 4] =
    [("", 8), ("-3servers", 3), ("-100servers", 100), ("-1000servers", 1000)];
/// Services; one is not named.
const SERVICES: [(&str, u16); 2] = [("", 1), ("-10kservices", 10_000)];
/// What a run without `--only` has besides.
const BESIDES: [&str; 3] =
    ["dr-v4-new-1000servers", "dr-v4-hit-1k-1000servers", "dr-v4-hit-1k-10kservices"];

/// A case with a director.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) setting: Setting,
    /// Whether a run without `--only` has it.
    usual: bool,
}

impl Case {
    /// Bytes of the tables that it and the case beside it need.
    pub(crate) fn bytes(&self) -> usize {
        let beside = bar::beside(&self.name).and_then(find).map_or(0, |c| c.table());
        self.table() + beside
    }

    fn table(&self) -> usize {
        ConnTable::bytes(self.setting.capacity())
    }
}

/// The whole matrix, small tables first.
fn all() -> Vec<Case> {
    let mut all = Vec::new();
    for &forwarder in ForwarderKind::ALL {
        for (load_name, load, usual) in LOADS {
            for (servers_name, servers) in SERVERS {
                for (services_name, services) in SERVICES {
                    // Each service has a pool of its own: ten million places say nothing new.
                    if u32::from(servers) * u32::from(services) > 1_000_000 {
                        continue;
                    }
                    let name =
                        format!("{}-v4-{load_name}{servers_name}{services_name}", forwarder.name());
                    let plain = servers == 8 && services == 1;
                    let dr_only = load == Load::Hit(24) && forwarder != ForwarderKind::Dr;
                    let usual = usual && plain && !dr_only || BESIDES.contains(&name.as_str());
                    let setting = Setting { forwarder, load, servers, services };
                    all.push(Case { name, setting, usual });
                }
            }
        }
    }
    all.sort_by_key(|case| case.setting.capacity());
    all
}

/// The case of this name.
pub(crate) fn find(name: &str) -> Option<Case> {
    all().into_iter().find(|case| case.name == name)
}

/// Names of the groups that are wanted, each measured by itself, and the bytes that each needs.
pub(crate) fn groups(only: &[String]) -> Result<Vec<(String, usize)>> {
    let all = all();
    // A case's whole name means that case alone, though it begins those of others.
    let whole = |word: &str| all.iter().any(|case| case.name == word);
    let asked = |name: &str, word: &String| {
        if whole(word) { name == word } else { name.contains(word.as_str()) }
    };
    let wanted = |name: &str, usual: bool| {
        if only.is_empty() { usual } else { only.iter().any(|word| asked(name, word)) }
    };
    let others = TESTPMD.iter().map(|f| f.0).chain([REPLAY]);
    let floors: Vec<_> = FLOORS.iter().map(|f| f.0).chain(others).collect();
    let mut groups = Vec::new();
    if floors.iter().any(|name| wanted(name, true)) {
        groups.push((FLOOR_GROUP.to_owned(), 0));
    }
    let cases = all.iter().filter(|case| wanted(&case.name, case.usual));
    groups.extend(cases.map(|case| (case.name.clone(), case.bytes())));
    if wanted(TABLE, true) {
        groups.push((TABLE.to_owned(), ConnTable::bytes(crate::readiness::PLACES)));
    }
    let names = || all.iter().map(|case| &case.name[..]).chain(floors.iter().copied());
    if let Some(word) = only.iter().find(|w| !names().chain([TABLE]).any(|name| asked(name, w))) {
        bail!("no case has {word:?} in its name");
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(only: &[&str]) -> Vec<String> {
        let only: Vec<_> = only.iter().map(|word| (*word).to_owned()).collect();
        groups(&only).expect("known words").into_iter().map(|group| group.0).collect()
    }

    #[test]
    fn words_choose_cases() {
        assert_eq!(names(&["dr-v4-hit-1k"]), ["dr-v4-hit-1k"]);
        assert_eq!(names(&["5tswap"]), [FLOOR_GROUP]);
        assert_eq!(names(&["dr-v4-expire-1M", "table"]), ["dr-v4-expire-1M", TABLE]);
        assert_eq!(names(&["ipip-v4-hit-1M"]), ["ipip-v4-hit-1M"]);
        assert!(names(&["1000servers"]).len() >= 2 * LOADS.len());
        assert!(groups(&["gre".to_owned()]).is_err());
    }

    #[test]
    fn every_forwarder_meets_every_load() {
        for forwarder in ["dr", "ipip"] {
            for load in ["hit", "new", "expire"] {
                for flows in ["1k", "64k", "1M", "16M"] {
                    for more in ["", "-3servers", "-100servers", "-1000servers", "-10kservices"] {
                        let name = format!("{forwarder}-v4-{load}-{flows}{more}");
                        assert!(find(&name).is_some(), "{name}");
                    }
                }
            }
        }
    }

    #[test]
    fn cases_that_bars_compare_exist() {
        let compared = all().into_iter().filter_map(|c| bar::beside(&c.name).map(|b| (c.name, b)));
        let compared: Vec<_> = compared.collect();
        assert!(compared.len() >= 7, "{compared:?}");
        for (name, beside) in compared {
            assert!(find(beside).is_some(), "{name} is compared with {beside}");
        }
    }
}
