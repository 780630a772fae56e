//! Any text as the journal of what is loaded, of this boot where it says `$boot`: read, or refused in one line; never a panic.
#![no_main]

use std::fs;
use std::sync::OnceLock;

use knee_bpf::host::Host;
use knee_fuzz::{check_message, empty_dir};

/// This host, with a directory of the fuzzer's as its own.
fn host() -> &'static Host {
    static HOST: OnceLock<Host> = OnceLock::new();
    HOST.get_or_init(|| {
        // SAFETY: no other thread of the fuzzer reads the environment.
        unsafe { std::env::set_var("KNEE_RUN_DIR", empty_dir()) };
        Host::here()
    })
}

knee_fuzz::target!(|text: &str| {
    let host = host();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let text = text.replace("$boot", boot.trim());
    fs::write(empty_dir().join("journal.json"), text).expect("a directory of our own");
    if let Err(error) = host.entries() {
        check_message(&error.to_string());
    }
});
