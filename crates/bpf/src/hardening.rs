//! Settings of a host by which its kernel refuses programs that it would take, and what to do about them.

use std::fs;

pub(crate) const JIT: &str = "/proc/sys/net/core/bpf_jit_enable";
pub(crate) const JIT_REMEDY: &str = "sysctl -w net.core.bpf_jit_enable=1";
pub(crate) const LOCKDOWN_REMEDY: &str = "boot with lockdown=integrity, or without it";

/// The setting of this host that explains why the kernel refused a program, and the remedy.
pub(crate) fn explanation() -> Option<(&'static str, &'static str)> {
    if read(JIT).as_deref() == Some("0") {
        return Some(("the kernel's BPF compiler is off", JIT_REMEDY));
    }
    (lockdown_mode().as_deref() == Some("confidentiality"))
        .then_some(("the kernel is locked down (confidentiality)", LOCKDOWN_REMEDY))
}

/// The kernel's lockdown mode, which restricts even root; `None` without lockdown.
pub(crate) fn lockdown_mode() -> Option<String> {
    let text = read("/sys/kernel/security/lockdown")?;
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// A small file of the kernel, without the white space around it; `None` if it cannot be read.
pub(crate) fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}
