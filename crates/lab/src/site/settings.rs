//! Sysctls of a host's namespace, as its configuration asks for them.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use knee_linux::sysctls::RTO_MIN;
pub(crate) use knee_linux::sysctls::{Setting, name, wanted};
use knee_queue::time::Duration;
use knee_run::spec::{HostConfig, LinuxVersion};

use crate::Error;

/// `tcp_min_rtt_wlen` is in these.
const SECOND: Duration = Duration::from_ms(1000);

/// Refuses values that the kernel's files cannot express.
pub(super) fn check(config: &HostConfig) -> Result<(), Error> {
    let window = config.sysctls.min_rtt_wlen;
    if window.ps() % SECOND.ps() != 0 {
        return Err(Error::Refused(format!(
            "min_rtt_wlen of {} ms: Linux accepts whole seconds only; change it, or use --on sim",
            window.us() as f64 / 1000.0
        )));
    }
    Ok(())
}

/// Settings in force.
pub(super) struct AppliedSettings {
    /// The sysctls as the kernel has them now.
    pub(super) read_back: Vec<Setting>,
    /// The least retransmission timeout in ms, if it must be said by the route.
    pub(super) rto_min_ms: Option<u32>,
}

/// Sets the namespace of the calling thread.
///
/// # Errors
/// A sysctl that the kernel lacks or does not take.
pub(super) fn set(config: &HostConfig) -> Result<AppliedSettings, Error> {
    let stock = wanted(&HostConfig::new(config.linux));
    let mut done = AppliedSettings { read_back: Vec::new(), rto_min_ms: None };
    for setting in wanted(config) {
        match write(setting.0, &setting.1) {
            Ok(value) => done.read_back.push((setting.0, value)),
            Err(why) if why.kind() != io::ErrorKind::NotFound => {
                return Err(Error::Failed(format!(
                    "sysctl {} = \"{}\": the kernel does not take it: {why}",
                    name(setting.0),
                    setting.1
                )));
            }
            // What it does without the sysctl is the default.
            Err(_) if stock.contains(&setting) => {}
            Err(_) if setting.0 == RTO_MIN => done.rto_min_ms = Some(in_ms(config.rto_min)?),
            Err(_) => {
                return Err(Error::Refused(format!(
                    "sysctl {} = \"{}\": the running kernel has no such sysctl; leave it out, or use --on sim",
                    name(setting.0),
                    setting.1
                )));
            }
        }
    }
    Ok(done)
}

fn in_ms(rto_min: Duration) -> Result<u32, Error> {
    let us = rto_min.us();
    if us % 1000 != 0 {
        return Err(Error::Refused(format!(
            "rto_min of {us} us: before tcp_rto_min_us (6.11) Linux accepts whole ms only; change it, or use --on sim"
        )));
    }
    u32::try_from(us / 1000).map_err(|_| {
        Error::Refused(format!(
            "rto_min of {us} us is more than a route can hold; lower it, or use --on sim"
        ))
    })
}

/// Sets it in the namespace of the calling thread and looks whether the kernel has left it so.
fn write(key: &str, value: &str) -> io::Result<String> {
    fs::write(format!("/proc/sys/net/{key}"), value)?;
    let is = read(key)?;
    if is == value {
        Ok(is)
    } else {
        Err(io::Error::other(format!("the kernel changed it to {is}")))
    }
}

fn read(key: &str) -> io::Result<String> {
    let text = fs::read_to_string(format!("/proc/sys/net/{key}"))?;
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// All that experiments can ask for, as the namespace of the calling thread has it, by the names of [`name`]; those that the
/// kernel lacks are left out.
pub(crate) fn all() -> BTreeMap<String, String> {
    let settings = wanted(&HostConfig::new(LinuxVersion(6, 18)));
    let has = |(key, _): Setting| Some((name(key), read(key).ok()?));
    settings.into_iter().filter_map(has).collect()
}

/// Defaults for new devices of the calling thread's namespace: no router solicitation and no neighbour advertisement.
pub(super) fn keep_quiet(ipv6: bool) {
    // A kernel without IPv6 has no such files.
    let keys: &[(&str, &str)] = if ipv6 {
        &[
            // No link-local address.
            ("addr_gen_mode", "1"),
            ("accept_dad", "0"),
            ("dad_transmits", "0"),
            ("accept_ra", "0"),
            ("autoconf", "0"),
            ("router_solicitations", "0"),
        ]
    } else {
        &[("disable_ipv6", "1")]
    };
    for (key, value) in keys {
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/default/{key}"), value);
    }
}

/// Has the namespace of the calling thread do the receiving work of its later devices on one CPU.
///
/// # Errors
/// If the kernel has no such sysctl or no such CPU.
pub(super) fn receive_on(cpu: usize) -> Result<(), Error> {
    // Words of 32 CPUs, the last first.
    let mask = format!("{:x}{}", 1_u32 << (cpu % 32), ",00000000".repeat(cpu / 32));
    fs::write("/proc/sys/net/core/rps_default_mask", &mask).map_err(|why| {
        Error::Failed(format!(
            "the kernel does not receive on CPU {cpu} (net.core.rps_default_mask): {why}"
        ))
    })
}
