//! Whether machines, and not algorithms and the network, decided a result: clocks, lateness, CPUs, and settings that differ
//! from the experiment's. knee changes no setting of a machine.

use std::collections::BTreeMap;

use knee_linux::side::inits_left_out;
use knee_run::Run;
use knee_run::outcome::Validity;
use knee_run::spec::{HostConfig, LinuxVersion, PROFILES};

use super::Machines;
use super::merge::ClockOver;
use super::roles::Roles;
use crate::outcome::impossible_windows;
use crate::site::settings;
use crate::traffic::TrafficReport;
use crate::traffic::agent::Hello;
use crate::validity::{failed_sides, impossible_in_words, without_init_in_words};

/// Tolerated uncertainty between two clocks: completion times span two machines.
const CLOCK_ERROR_MAX_US: f64 = 1000.0;
/// Tolerated lateness of an application's actions.
const START_LATE_MAX_US: f64 = 1000.0;
/// Share of its one CPU that an agent may take before it is called saturated.
const BUSY_SHARE_MAX: f64 = 0.95;
/// The initial window that the kernel has without being told.
const STOCK_INITCWND_PKTS: u32 = 10;
/// Sysctl that only the other back ends set; without effect on Linux 5.6 and later, which saves no ssthresh.
const NOT_ASKED_FOR: &str = "ipv4/tcp_no_metrics_save";
const BUFFERS: [&str; 2] = ["ipv4/tcp_rmem", "ipv4/tcp_wmem"];
const ECN: &str = "ipv4/tcp_ecn";

/// Measurements of the machines during a run, in the order of the file.
pub(super) struct FleetMeasurements<'a> {
    pub(super) hellos: &'a [Hello],
    pub(super) clocks: &'a [ClockOver],
    /// Figures of each machine itself.
    pub(super) own: &'a [OfMachine],
    /// The merged report.
    pub(super) report: &'a TrafficReport,
}

/// Lateness and CPU share of a machine.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OfMachine {
    late_us: f64,
    cpu_share: f64,
}

impl OfMachine {
    pub(super) fn new(report: &TrafficReport) -> OfMachine {
        OfMachine {
            late_us: report.late_ns as f64 / 1e3,
            cpu_share: report.cpu_s * 1e9 / report.end_ns.max(1) as f64,
        }
    }
}

/// The verdict, with everything that led to it.
pub(super) fn judge(
    run: &Run,
    machines: &Machines,
    roles: &Roles<'_>,
    seen: &FleetMeasurements<'_>,
) -> Validity {
    let mut limits = Vec::new();
    let mut clock_errors_us: Vec<f64> =
        seen.clocks.iter().map(|clock| clock.within_ns() as f64 / 1e3).collect();
    clock_errors_us.sort_by(|a, b| b.total_cmp(a));
    // The worst that two machines can be apart.
    let clock_error_us: f64 = clock_errors_us.iter().take(2).sum();
    if clock_error_us > CLOCK_ERROR_MAX_US {
        limits.push(format!(
            "clocks of two machines differ by an unknown {clock_error_us:.0} us (allowed {CLOCK_ERROR_MAX_US:.0} us)"
        ));
    }
    for (machine, own) in machines.machines.iter().zip(seen.own) {
        let name = &machine.name;
        if own.late_us > START_LATE_MAX_US {
            limits.push(format!(
                "{name} acted {:.0} us late (allowed {START_LATE_MAX_US:.0} us)",
                own.late_us
            ));
        }
        if own.cpu_share > BUSY_SHARE_MAX {
            limits.push(format!(
                "the applications of {name} were busy for {:.0} % of the time (allowed {:.0} %)",
                own.cpu_share * 100.0,
                BUSY_SHARE_MAX * 100.0
            ));
        }
    }
    let failed = seen.report.sides.iter().filter(|side| side.error.is_some()).count();
    limits.extend(failed_sides(seen.report));
    let impossible = impossible_windows(seen.report);
    if impossible > 0 {
        limits.push(impossible_in_words(impossible));
    }
    let inits_left_out = inits_left_out(&seen.report.sides);
    limits.extend(inits_left_out.filter(|count| *count > 0).map(without_init_in_words));
    let differences = differences(run, machines, roles, seen.hellos);
    let count = differences.len();
    limits.extend(differences);
    let most = |of: fn(&OfMachine) -> f64| seen.own.iter().map(of).fold(0.0, f64::max);
    let drifts = seen.clocks.iter().map(|clock| clock.drift_ppm().abs());
    let mut measures = vec![
        ("clock_error_us", clock_error_us),
        ("clock_drift_ppm", drifts.fold(0.0, f64::max)),
        ("start_late_us", most(|own| own.late_us)),
        ("traffic_cpu_share", most(|own| own.cpu_share)),
        ("failed_sides", failed as f64),
        ("impossible_windows", impossible as f64),
        ("settings_differ", count as f64),
    ];
    measures.extend(inits_left_out.map(|count| ("inits_left_out", count as f64)));
    Validity { limits, measures }
}

/// Settings of machines that differ from the experiment's, each in words.
fn differences(run: &Run, machines: &Machines, roles: &Roles<'_>, hellos: &[Hello]) -> Vec<String> {
    let of_flow = |flow: &knee_run::spec::Flow| {
        let peer = flow.peer_cc.as_ref().unwrap_or(&flow.cc);
        flow.cc.algorithm.needs_ecn() && peer.algorithm.needs_ecn()
    };
    let all_need_ecn = !run.flows.is_empty() && run.flows.iter().all(of_flow);
    let mut all: Vec<String> = Vec::new();
    for (number, (machine, hello)) in machines.machines.iter().zip(hellos).enumerate() {
        for config in roles.configs(number) {
            let device = hello.devices.iter().find(|device| device.name == machine.device);
            let mtu = device.and_then(|device| device.settings.get("mtu").copied());
            let of_host = of_sysctls(config, &hello.sysctls, all_need_ecn)
                .into_iter()
                .chain(of_mtu(config, mtu))
                .chain(of_initial_window(config));
            for what in of_host {
                let text = format!("{}: {what}", machine.name);
                if !all.contains(&text) {
                    all.push(text);
                }
            }
        }
    }
    all
}

fn of_mtu(config: &HostConfig, mtu_bytes: Option<u64>) -> Option<String> {
    let (has, wanted) = (mtu_bytes?, u64::from(config.mtu_bytes));
    (has != wanted).then(|| format!("its device has an MTU of {has}, the experiment {wanted}"))
}

fn of_initial_window(config: &HostConfig) -> Option<String> {
    let wanted = config.initial_cwnd_pkts;
    (wanted != STOCK_INITCWND_PKTS).then(|| {
        format!(
            "the experiment has an initial window of {wanted} packets, a property of routes (initcwnd) that knee does not check"
        )
    })
}

/// Sysctls that differ. A default of another Linux version does not count, unless the experiment sets the value.
fn of_sysctls(
    config: &HostConfig,
    has: &BTreeMap<String, String>,
    all_need_ecn: bool,
) -> Vec<String> {
    let stocks: Vec<_> = PROFILES
        .iter()
        .map(|(_, version)| (*version, settings::wanted(&HostConfig::new(*version))))
        .collect();
    let is_stock = |key: &str, value: &str, of: Option<LinuxVersion>| {
        let mut those = stocks.iter().filter(|(version, _)| of.is_none_or(|of| of == *version));
        those.any(|(_, stock)| stock.iter().any(|(name, is)| *name == key && is == value))
    };
    let mut differ = Vec::new();
    for (key, wanted) in settings::wanted(config) {
        let endless = key == "ipv4/tcp_wmem" && config.sndbuf_max_bytes.is_none();
        if key == NOT_ASKED_FOR || endless {
            continue;
        }
        let name = settings::name(key);
        let is_asked_for = !is_stock(key, &wanted, Some(config.linux));
        match has.get(&name) {
            Some(is) if is_enough(key, is, &wanted, all_need_ecn) => {}
            Some(is) if is_asked_for || !is_stock(key, is, None) => {
                differ.push(format!("{name} is \"{is}\", the experiment has \"{wanted}\""));
            }
            None if is_asked_for => {
                differ.push(format!("it has no {name}, the experiment has \"{wanted}\""));
            }
            _ => {}
        }
    }
    differ
}

/// Whether the two values have the same effect.
fn is_enough(key: &str, is: &str, wanted: &str, all_need_ecn: bool) -> bool {
    if is == wanted {
        return true;
    }
    if key == ECN {
        // Algorithms that need ECN request it whatever the sysctl; without a request, granting it makes no difference.
        return all_need_ecn || (is != "1" && wanted != "1");
    }
    if !BUFFERS.contains(&key) {
        return false;
    }
    // Least, first, largest: at least as large, but for the least.
    let sizes = |text: &str| -> Vec<u64> {
        text.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect()
    };
    let (is, wanted) = (sizes(is), sizes(wanted));
    is.len() == wanted.len() && is.iter().zip(&wanted).all(|(is, wanted)| is >= wanted)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use knee_queue::time::Time;
    use knee_queue::{DropTailConfig, Limit, QueueConfig};

    use knee_run::topology::{Cable, Star};
    use knee_traffic::SideReport;

    use super::*;

    #[test]
    fn a_side_that_began_without_init_makes_a_run_host_limited() {
        let cable =
            Cable::new(None, QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(1) }));
        let host = |name: &str| (name.to_owned(), HostConfig::new(LinuxVersion(6, 18)));
        let hosts = vec![host("a"), host("b")];
        let run = Run {
            seed: 1,
            end: Time::from_ms(1),
            until_done: false,
            network: Star { hosts, up: cable.clone(), down: cable }.build(),
            flows: Vec::new(),
            pings: Vec::new(),
            sampling: Default::default(),
            schedule: Default::default(),
        };
        let machine = |name: &str, number: u8| {
            format!(
                "[[host]]\nname = \"{name}\"\nssh = \"{name}\"\naddress = \"192.0.2.{number}\"\n\
                 device = \"eth1\"\nroles = \"{name}\"\n"
            )
        };
        let file = machine("a", 1) + &machine("b", 2);
        let machines = Machines::parse(Path::new("hosts.toml"), &file).unwrap();
        let roles = Roles::new(&run, &machines).unwrap();
        let verdict = |known: [Option<bool>; 2]| {
            let side = |init_called| SideReport { init_called, ..SideReport::default() };
            let sides = known.map(side).to_vec();
            let report = TrafficReport { sides, ..TrafficReport::default() };
            let seen = FleetMeasurements { hellos: &[], clocks: &[], own: &[], report: &report };
            let Validity { limits, measures } = judge(&run, &machines, &roles, &seen);
            let count = measures.into_iter().find(|(name, _)| *name == "inits_left_out");
            (limits, count.map(|(_, count)| count))
        };
        assert_eq!(verdict([None, None]), (Vec::new(), None));
        assert_eq!(verdict([Some(true), None]), (Vec::new(), Some(0.0)));
        let (limits, count) = verdict([Some(false), Some(false)]);
        assert_eq!((limits, count), (vec![without_init_in_words(2)], Some(2.0)));
    }

    fn differing(change: impl FnOnce(&mut HostConfig), has: &[(&str, &str)]) -> Vec<String> {
        let mut config = HostConfig::new(LinuxVersion(6, 18));
        change(&mut config);
        let stock = HostConfig::new(LinuxVersion(6, 1));
        let settings = settings::wanted(&stock).into_iter();
        let mut machine: BTreeMap<_, _> =
            settings.map(|(key, value)| (settings::name(key), value)).collect();
        machine.extend(
            has.iter().map(|(key, value)| (format!("net.ipv4.{key}"), (*value).to_owned())),
        );
        of_sysctls(&config, &machine, false)
    }

    #[test]
    fn what_was_asked_for_or_changed_is_told_and_versions_are_not() {
        // A stock 6.1 under an experiment that asks for nothing.
        assert_eq!(differing(|_| {}, &[]), [""; 0]);
        assert_eq!(
            differing(|config| config.slow_start_after_idle = false, &[]),
            ["net.ipv4.tcp_slow_start_after_idle is \"1\", the experiment has \"0\""]
        );
        assert_eq!(
            differing(|_| {}, &[("tcp_sack", "0")]),
            ["net.ipv4.tcp_sack is \"0\", the experiment has \"1\""]
        );
    }

    #[test]
    fn larger_buffers_and_ecn_that_nobody_asks_for_are_none() {
        let large = |config: &mut HostConfig| config.rcvbuf_max_bytes = 64 << 20;
        assert_eq!(
            differing(large, &[]),
            [
                "net.ipv4.tcp_rmem is \"4096 131072 6291456\", the experiment has \"4096 131072 67108864\""
            ]
        );
        assert_eq!(differing(large, &[("tcp_rmem", "4096 262144 100000000")]), [""; 0]);
        assert_eq!(differing(|config| config.tcp_ecn = 0, &[("tcp_ecn", "2")]), [""; 0]);
        assert_eq!(differing(|config| config.tcp_ecn = 1, &[("tcp_ecn", "2")]).len(), 1);
        assert_eq!(differing(|config| config.tcp_ecn = 0, &[("tcp_ecn", "1")]).len(), 1);
    }
}
