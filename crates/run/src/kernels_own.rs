//! The congestion controls that Linux has of its own.

use std::sync::OnceLock;

use knee_algo::{Algorithm, Description};

use crate::spec::Cc;

/// Their names: `net/ipv4/tcp_NAME.c` of Linux, and Reno, which is a part of its TCP.
pub const OF_LINUX: [&str; 17] = [
    "reno",
    "bbr",
    "bic",
    "cdg",
    "cubic",
    "dctcp",
    "highspeed",
    "htcp",
    "hybla",
    "illinois",
    "lp",
    "nv",
    "scalable",
    "vegas",
    "veno",
    "westwood",
    "yeah",
];

impl Cc {
    /// The kernel's own of this name. The simulator has the file of that name in its place where knee has one, and none else.
    pub fn kernels_own(name: &str) -> Option<Cc> {
        let algorithm = Algorithm::by_name(name).ok().or_else(|| without_file(name))?;
        Some(Cc { is_kernels_own: true, ..Cc::new(algorithm) })
    }
}

/// One that knee has no file of. All that is known of it is its name: that it needs ECN, as DCTCP does, is so of none of them.
fn without_file(name: &str) -> Option<&'static Algorithm> {
    static ALL: OnceLock<Vec<Algorithm>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let alone = OF_LINUX.into_iter().filter(|name| Algorithm::by_name(name).is_err());
        let described =
            |name: &str| Description { name: name.to_owned(), ..Description::default() };
        alone.map(|name| Algorithm::elsewhere(described(name))).collect()
    });
    all.iter().find(|algorithm| algorithm.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_knee_has_a_file_of_are_that_file_and_others_a_name() {
        let cubic = Cc::kernels_own("cubic").unwrap();
        assert!(std::ptr::eq(cubic.algorithm, Algorithm::by_name("cubic").unwrap()));
        let hybla = Cc::kernels_own("hybla").unwrap();
        assert_eq!((hybla.name().as_str(), hybla.algorithm.is_elsewhere()), ("kernel:hybla", true));
        assert!(std::ptr::eq(hybla.algorithm, Cc::kernels_own("hybla").unwrap().algorithm));
        assert!(Cc::kernels_own("hybra").is_none());
    }
}
