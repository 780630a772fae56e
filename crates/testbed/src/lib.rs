//! Shared parts of the tests against the running kernel.
#![cfg(feature = "kernel")]
#![allow(clippy::unwrap_used, reason = "all of this is test code, though in a library")]

pub mod capture;
pub mod cgroup;
pub mod median;
pub mod net;
pub mod outside;
pub mod sandbox;
pub mod trace;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use knee_bpf::Embedded;

/// Returns whether kernel tests can run here. If not, it prints the reason, and it panics if
/// `KNEE_REQUIRE_KERNEL` is 1.
pub fn kernel_is_ready() -> bool {
    let Some(missing) = missing() else { return true };
    // The test harness hides the output of `eprintln!` when a test passes.
    let mut stderr = std::io::stderr();
    writeln!(stderr, "SKIPPED: {missing}").unwrap();
    assert!(
        std::env::var_os("KNEE_REQUIRE_KERNEL").is_none_or(|value| value != "1"),
        "KNEE_REQUIRE_KERNEL=1, but {missing}"
    );
    false
}

/// Returns an algorithm name that no other process uses, ending with up to 8 characters of `word`.
/// The kernel's list of algorithms is global, so a second run of the same tests shares it.
pub fn own_name(word: &str) -> &'static str {
    static NAMES: Mutex<BTreeMap<String, &'static str>> = Mutex::new(BTreeMap::new());
    let name = |word: &str| {
        let mut name = format!("k{}_{word}", own_digits());
        name.truncate(15);
        &*name.leak()
    };
    NAMES.lock().unwrap().entry(word.to_owned()).or_insert_with(|| name(word))
}

/// Returns five digits that no other process has. A process number is not enough: processes in
/// different PID namespaces can have the same one, and they share the list of algorithms.
pub(crate) fn own_digits() -> &'static str {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    static OWN: OnceLock<String> = OnceLock::new();
    OWN.get_or_init(|| {
        let mut random = [0; 8];
        File::open("/dev/urandom").unwrap().read_exact(&mut random).unwrap();
        let random = u64::from_ne_bytes(random);
        let digit = |power| DIGITS[(random / 36_u64.pow(power) % 36) as usize];
        (0..5).map(|power| char::from(digit(power))).collect()
    })
}

/// Waits until no algorithm has this name. Any process of the host that iterates over BPF links
/// keeps a dropped link alive a little longer.
///
/// # Panics
/// Like [`wait_until`].
pub fn wait_until_free(name: &str) {
    wait_until("the name is gone", || !sandbox::available().iter().any(|other| other == name));
}

fn missing() -> Option<&'static str> {
    // SAFETY: the call takes no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return Some("this needs root");
    }
    if Embedded::all().is_empty() {
        return Some("knee was built without clang, so there are no eBPF programs");
    }
    match std::fs::read("/sys/kernel/btf/vmlinux") {
        Err(_) => Some("the kernel has no BTF (CONFIG_DEBUG_INFO_BTF)"),
        Ok(btf) if !contains(&btf, b"bpf_struct_ops_tcp_congestion_ops\0") => {
            Some("the kernel takes no congestion control by BPF (CONFIG_BPF_JIT, 5.6 or later)")
        }
        Ok(_) if !cgroup::is_mounted() => Some("the kernel has no cgroup2 (CONFIG_CGROUPS)"),
        Ok(_) => net::missing(),
    }
}

fn contains(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|window| window == word)
}

/// Waits up to ten seconds for the condition `is`.
///
/// # Panics
/// If the condition is still false after ten seconds.
pub fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is() {
        assert!(started.elapsed() < Duration::from_secs(10), "waited in vain until {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_and_are_not_those_of_the_processs_number() {
        let name = own_name("a_long_word");
        assert_eq!((name.len(), name), (15, own_name("a_long_word")));
        assert_eq!(&name[1..6], own_digits());
        assert!(name.ends_with("_a_long_w"), "{name}");
    }
}
