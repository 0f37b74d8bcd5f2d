//! What is measured: each candidate under each load.

use crate::candidate::Candidate;

/// What wrk asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Load {
    /// As in a case's name.
    pub(crate) name: &'static str,
    /// The page.
    pub(crate) path: &'static str,
    /// A new connection for each request.
    pub(crate) close: bool,
    /// Replies leave the servers in super-frames.
    pub(crate) tso: bool,
}

/// All loads.
pub(crate) const LOADS: [Load; 4] = [
    Load { name: "100B", path: "/100b", close: false, tso: false },
    Load { name: "100B-new", path: "/100b", close: true, tso: false },
    Load { name: "100KB", path: "/100k", close: false, tso: false },
    Load { name: "100KB-tso", path: "/100k", close: false, tso: true },
];

/// A candidate under a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) candidate: Candidate,
    pub(crate) load: &'static Load,
}

impl Case {
    /// `CANDIDATE/LOAD`.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.candidate.name(), self.load.name)
    }
}

/// The cases that have one of the words as their name, or that contain one which is no case's name;
/// those of a candidate stand together. An extra candidate must be named in full.
pub(crate) fn chosen(only: &[String]) -> Vec<Case> {
    let of = |candidate| LOADS.iter().map(move |load| Case { candidate, load });
    let all: Vec<Case> = Candidate::ALL.into_iter().flat_map(of).collect();
    let means = |word: &String, case: &Case| match all.iter().find(|c| c.name() == *word) {
        Some(named) => named == case,
        None if case.candidate.is_extra() => word.starts_with(case.candidate.name()),
        None => case.name().contains(word.as_str()),
    };
    let asked = |case: &&Case| match only {
        [] => !case.candidate.is_extra(),
        words => words.iter().any(|word| means(word, case)),
    };
    all.iter().filter(asked).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(only: &[&str]) -> Vec<String> {
        let only: Vec<_> = only.iter().map(|w| (*w).to_owned()).collect();
        chosen(&only).iter().map(Case::name).collect()
    }

    #[test]
    fn words_choose_cases() {
        assert_eq!(names(&[]).len(), 16);
        assert_eq!(names(&["sluice-dr/100B"]), ["sluice-dr/100B"]);
        assert_eq!(names(&["dr/100B"]), ["sluice-dr/100B", "sluice-dr/100B-new"]);
        assert_eq!(names(&["haproxy/100KB-tso", "ipip/100B-"]).len(), 2);
        assert_eq!(names(&["sluice-dr-yield"]).len(), 4);
        assert_eq!(names(&["nobody"]), [""; 0]);
    }
}
