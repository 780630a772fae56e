//! One run from beginning to end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use knee_linux::applications::{self, HostAddress};
use knee_linux::side::inits_left_out;
use knee_linux::{Algorithms, Chosen};
use knee_queue::time::Duration;
use knee_run::outcome::{Outcome, Validity};
use knee_run::spec::LinkId;
use knee_run::{Run, validate};
use serde::Serialize;

use crate::algorithms::{Running, base_rtts_us};
use crate::cpus::Cpus;
use crate::plan::Plan;
use crate::site::machine::{CpuShare, CpuTimes, CpuUse};
use crate::site::{Offloads, Site, SiteConfig};
use crate::switch::{Switch, SwitchConfig};
use crate::traffic::{InNamespaces, clock, prepare};
use crate::validity::{HostMeasurements, judge};
use crate::{Error, outcome, traffic};

/// Time from the start of the switch to time 0 of the run.
const BEFORE_ZERO_NS: u64 = 100_000_000;

/// Settings of the lab for its runs.
#[derive(Clone, Debug)]
pub struct LabOptions {
    /// Segmentation and merging offloads of the hosts' devices.
    pub offloads: Offloads,
    /// Whether a name means knee's algorithm or the kernel's own.
    pub algorithms: Algorithms,
    /// Directory for captures of the next run.
    pub captures: Option<PathBuf>,
    /// Whether the switch notes each decision of its queues.
    pub log: bool,
}

impl Default for LabOptions {
    fn default() -> LabOptions {
        LabOptions {
            offloads: Offloads::Off,
            algorithms: Algorithms::Ours,
            captures: None,
            log: false,
        }
    }
}

/// Result of one run.
#[derive(Clone, Debug)]
pub struct LabRun {
    /// Records in the simulator's shape.
    pub outcome: Outcome,
    /// Whether the host was fast enough, with the reasons if not.
    pub validity: Validity,
    /// Records of the switch.
    pub switch: crate::switch::SwitchReport,
    /// Settings of each host, as read back from the kernel.
    pub settings: Vec<HostSettings>,
}

/// Settings of a host during a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostSettings {
    /// Name in the experiment.
    pub name: String,
    /// Features of its device, and whether they are on.
    pub offloads: BTreeMap<&'static str, bool>,
    /// Sysctls that were set.
    pub sysctls: BTreeMap<String, String>,
}

/// Carries out one run on the running kernel, in real time.
///
/// # Errors
/// If the lab cannot do it, the kernel lacks or refuses something, or `stop` is set; each in one sentence.
pub fn run(run: &Run, options: &LabOptions, stop: &AtomicBool) -> Result<LabRun, Error> {
    validate(run)?;
    let plan = Plan::new(run)?;
    let cpus = Cpus::choose();
    let mut running = Running::new();
    let chosen = Chosen::new(run, options.algorithms, &mut running)?;
    let pairs = Some(pairs(run, &plan));
    let config =
        SiteConfig { pairs, receive_cpu: cpus.traffic, ..SiteConfig::new(options.offloads) };
    let site = Site::build(&plan, &config)?;
    let algorithms = traffic::Algorithms::new(running.all_loaded().collect(), base_rtts_us(run));
    let hosts = (0..plan.hosts.len()).map(|port| site.host(port)).collect();
    let environment = InNamespaces::new(hosts, algorithms);
    // Hosts have the numbers of their ports.
    let at = |node: u32| {
        let port = plan.hosts.iter().position(|host| host.node == node)?;
        Some(HostAddress { number: Some(port as u32), address: plan.hosts[port].address })
    };
    let algorithm = |flow, listens| chosen.name(flow, listens).to_owned();
    let mut program = prepare(applications::plan(run, &at, &algorithm)?, environment)?;

    let before = site.counts()?;
    let cpu_before = CpuTimes::now()?;
    let _pinned = cpus.pin_traffic();
    let zero_ns = clock::now_ns() + BEFORE_ZERO_NS;
    let switch = Switch::start(&plan, &site, switch_config(run, options, &cpus), zero_ns)?;
    if run.until_done {
        program.on_done(switch.end_of_window());
    }
    let report = program.run(zero_ns, stop);
    let switch = switch.stop()?;
    let cpu = CpuTimes::now()?.since(&cpu_before);
    let after = site.counts()?;
    drop(program);
    let calls_left_out = running.calls_left_out()?;
    if stop.load(Ordering::Relaxed) {
        return Err(Error::Stopped);
    }
    let outcome = outcome::assemble(run, &plan, &chosen, &report, &switch, (&before, &after));
    let seen = HostMeasurements {
        dropped_outside_queues: after
            .dropped_outside_queues
            .saturating_sub(before.dropped_outside_queues),
        start_late: Duration::from_ns(report.late_ns),
        traffic_cpu_share: report.cpu_s * 1e9 / report.end_ns.max(1) as f64,
        calls_left_out,
        failed: crate::validity::failed_sides(&report),
        impossible_windows: outcome::impossible_windows(&report),
        inits_left_out: inits_left_out(&report.sides),
        cpu: cpu_of_hosts(&cpu, cpus),
        switch,
    };
    let validity = judge(&run.network, &seen);
    Ok(LabRun { outcome, validity, switch: seen.switch, settings: settings(&plan, &site) })
}

fn settings(plan: &Plan, site: &Site) -> Vec<HostSettings> {
    let hosts = plan.hosts.iter().enumerate();
    let settings = hosts.map(|(port, host)| HostSettings {
        name: host.name.clone(),
        offloads: site.offloads(port).iter().copied().collect(),
        sysctls: site.sysctls(port).into_iter().collect(),
    });
    settings.collect()
}

/// Ports of hosts that talk to each other.
fn pairs(run: &Run, plan: &Plan) -> Vec<(usize, usize)> {
    let port = |node: u32| plan.hosts.iter().position(|host| host.node == node);
    let flows = run.flows.iter().map(|flow| (flow.from, flow.to));
    let pings = run.pings.iter().map(|ping| (ping.from, ping.to));
    let mut pairs: Vec<_> =
        flows.chain(pings).filter_map(|(from, to)| Some((port(from)?, port(to)?))).collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// Use of the applications' CPU; of the busiest CPU if they have none of their own.
fn cpu_of_hosts(cpu: &CpuUse, cpus: Cpus) -> CpuShare {
    let own = cpu.cpus.iter().filter(|share| cpus.traffic.is_none_or(|own| own == share.cpu));
    let busiest = own.max_by(|a, b| a.busy.total_cmp(&b.busy));
    busiest.cloned().unwrap_or_default()
}

fn switch_config(run: &Run, options: &LabOptions, cpus: &Cpus) -> SwitchConfig {
    let sampled = run.network.links.iter().zip(0..).filter(|(link, _)| link.sampled);
    SwitchConfig {
        seed: run.seed,
        sampled: sampled.map(|(_, index): (_, LinkId)| index).collect(),
        sample: run.sampling.queues,
        window: run.sampling.window.map(|window| [window.from, window.until]),
        cpu: cpus.switch,
        log: options.log,
        captures: options.captures.clone(),
        large_frames: options.offloads == Offloads::On,
    }
}
