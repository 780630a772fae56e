//! Algorithms whose code is not in this process but in a BPF object that a kernel runs.

use crate::{Algorithm, Field, Has, OPERATIONS, Origin, ParamInfo};

/// Description of such an algorithm.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// Name of the algorithm.
    pub name: String,
    /// Parameters, in the order of their values.
    pub params: Vec<ParamInfo>,
    /// Flags of the table of operations.
    pub flags: u32,
    /// Names of the operations present.
    pub operations: Vec<String>,
    /// Numeric fields of the private state.
    pub fields: Vec<Field>,
}

impl Algorithm {
    /// Creates an algorithm from this description. Its name and parameters can be read and set, but
    /// it has no [`Algorithm::instance`].
    pub fn elsewhere(description: Description) -> Algorithm {
        let has = |name: &str| description.operations.iter().any(|operation| operation == name);
        Algorithm {
            text: "",
            state_bytes: crate::PRIVATE_AREA_BYTES,
            origin: Origin::Elsewhere,
            diag: Vec::new(),
            fields: description.fields,
            flags: description.flags,
            has: Has {
                operations: OPERATIONS.into_iter().filter(|name| has(name)).collect(),
                cong_control: has("cong_control"),
                set_state: has("set_state"),
                cwnd_event: has("cwnd_event"),
                in_ack_event: has("in_ack_event"),
                pkts_acked: has("pkts_acked"),
                min_tso_segs: has("min_tso_segs"),
                sndbuf_expand: has("sndbuf_expand"),
                init: has("init"),
                release: has("release"),
                is_patched: false,
                tso_segs: false,
                skb_marked_lost: false,
            },
            name: description.name.leak(),
            params: description.params,
        }
    }

    /// Returns whether the code is elsewhere, so that this process cannot run it.
    pub fn is_elsewhere(&self) -> bool {
        matches!(self.origin, Origin::Elsewhere)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_one_that_is_elsewhere_can_be_set() {
        let gain = ParamInfo {
            name: "gain",
            default: 4,
            min: 1,
            max: 8,
            is_signed: false,
            choices: Vec::new(),
            meaning: "",
        };
        let algorithm = Algorithm::elsewhere(Description {
            name: "far".to_owned(),
            params: vec![gain],
            flags: crate::NEEDS_ECN,
            operations: vec!["init".to_owned(), "ssthresh".to_owned()],
            fields: Vec::new(),
        });
        let mut params = algorithm.default_params();
        algorithm.set_param(&mut params, "gain", "8").unwrap();
        assert_eq!(params.values(), [8]);
        assert!(algorithm.set_param(&mut params, "gain", "9").is_err());
        assert!(algorithm.needs_ecn() && algorithm.module().is_none() && algorithm.is_elsewhere());
        assert_eq!(algorithm.operations(), ["ssthresh", "init"]);
    }
}
