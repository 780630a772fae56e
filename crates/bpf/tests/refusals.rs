//! What the kernel refuses is said in one sentence, with the way out.

#![allow(
    clippy::unwrap_used,
    reason = "all of this is test code, also outside of the functions marked so"
)]

use std::fs;
use std::thread;

use knee_algo::Algorithm;
use knee_bpf::{Embedded, Loaded, registered};
use knee_testbed::own_name;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

/// What is answered to an attempt to load it; nothing if that succeeds.
fn refusal() -> Option<String> {
    let dctcp = Algorithm::by_name("dctcp").unwrap();
    let embedded = Embedded::by_name("dctcp").unwrap();
    let loaded =
        Loaded::register_for_any_user(embedded, own_name("refused"), &dctcp.default_params());
    loaded.err().map(|error| error.to_string())
}

#[test]
fn without_rights_nothing_is_loaded_or_seen() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let answers = thread::spawn(|| {
        let none = CapabilitySet::empty();
        let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
        // Of this thread alone.
        set_capabilities(None, none).unwrap();
        (refusal().unwrap(), registered().unwrap_err().to_string())
    });
    let (load, see) = answers.join().unwrap();
    assert_eq!(
        load,
        "loading an algorithm takes CAP_BPF and CAP_PERFMON: run it as root of the host, with sudo"
    );
    assert_eq!(
        see,
        "seeing what is loaded takes CAP_SYS_ADMIN: run it as root of the host, with sudo"
    );
}

/// It changes the kernel, and not back: for one that was booted for tests (scripts/test-kernels).
#[test]
fn a_kernel_that_is_closed_says_what_opens_it() {
    if std::env::var_os("KNEE_OWN_KERNEL").is_none_or(|value| value != "1") {
        return;
    }
    let jit = "/proc/sys/net/core/bpf_jit_enable";
    fs::write(jit, "0").unwrap();
    let without_jit = refusal();
    fs::write(jit, "1").unwrap();
    assert_eq!(
        without_jit.unwrap(),
        "the kernel does not take dctcp, as the kernel's BPF compiler is off: sysctl -w \
         net.core.bpf_jit_enable=1"
    );
    fs::write("/sys/kernel/security/lockdown", "confidentiality").unwrap();
    // Nothing of what a locked kernel refuses is in the programs, recording included.
    assert_eq!(refusal(), None);
}
