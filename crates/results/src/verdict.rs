//! Verdicts on claims and on their checks.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Verdicts, each with its word in results; a word that is none of them, and what is left out, is read as undecided.
macro_rules! verdicts {
    ($(#[doc = $about:literal])* $name:ident { $($(#[doc = $doc:literal])* $verdict:ident $word:literal,)* }) => {
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[doc = $doc])* $verdict,)* }

        impl $name {
            /// All of them, the best first.
            pub const ALL: &[$name] = &[$($name::$verdict,)*];

            /// As in results.
            pub const fn name(self) -> &'static str {
                match self { $($name::$verdict => $word,)* }
            }
        }

        impl Default for $name {
            fn default() -> $name {
                $name::Undecided
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                let word = String::deserialize(deserializer)?;
                let known = $name::ALL.iter().find(|verdict| verdict.name() == word);
                Ok(known.copied().unwrap_or_default())
            }
        }
    };
}

verdicts! {
    /// The verdict on a check, or on one of its rows.
    CheckVerdict {
        /// The whole interval is within the bounds.
        Holds "holds",
        /// The whole interval is beyond one of them.
        Fails "fails",
        /// The interval lies on both sides of a bound, or nothing was measured.
        Undecided "undecided",
        /// The case or the varied value was not in this run.
        NotRun "not run",
    }
}

verdicts! {
    /// The verdict on a claim.
    ClaimVerdict {
        /// All checks that were run hold.
        Stands "stands",
        /// Some hold, others fail or are undecided.
        StandsInPart "stands in part",
        /// Some were decided, and none holds.
        DoesNotStand "does not stand",
        /// None was decided.
        Undecided "cannot be decided",
        /// None was run.
        NotRun "not run",
    }
}

impl CheckVerdict {
    /// Verdict of a check whose rows must all hold; rows that were not run do not count.
    pub fn all(rows: impl Iterator<Item = CheckVerdict> + Clone) -> CheckVerdict {
        let has = |verdict: &CheckVerdict| rows.clone().any(|row| row == *verdict);
        let worst = [CheckVerdict::Fails, CheckVerdict::Undecided, CheckVerdict::Holds];
        worst.into_iter().find(has).unwrap_or(CheckVerdict::NotRun)
    }
}

impl ClaimVerdict {
    /// Verdict of a claim, from those of its checks.
    pub fn of(checks: &[CheckVerdict]) -> ClaimVerdict {
        let count = |verdict| checks.iter().filter(|check| **check == verdict).count();
        let [held, failed, undecided] =
            [CheckVerdict::Holds, CheckVerdict::Fails, CheckVerdict::Undecided].map(count);
        match (held, failed, undecided) {
            (0, 0, 0) if !checks.is_empty() => ClaimVerdict::NotRun,
            (0, 0, _) => ClaimVerdict::Undecided,
            (0, _, _) => ClaimVerdict::DoesNotStand,
            (_, 0, 0) => ClaimVerdict::Stands,
            _ => ClaimVerdict::StandsInPart,
        }
    }
}
