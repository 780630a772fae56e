//! What the approximation cannot carry out, in one sentence each.

use knee_queue::time::Duration;
use knee_run::spec::{Run, Traffic};
use knee_run::{BackEnd, Error};

/// Refuses a run that links one by one do not make up.
///
/// # Errors
/// [`Error::Refused`], with the way out.
pub(crate) fn check(run: &Run) -> Result<(), Error> {
    let refuse = |what: &str| {
        Err(Error::Refused(format!("{what}: leave --approximate out, or change the file")))
    };
    let network = &run.network;
    if !run.pings.is_empty() {
        return refuse(
            "--approximate links knows no pings, whose packets share queues of all links",
        );
    }
    if !run.schedule.series.is_empty() || !run.schedule.together.is_empty() {
        return refuse(
            "--approximate links knows no flows that wait for others, whose start is not known before",
        );
    }
    for flow in &run.flows {
        match flow.traffic {
            Traffic::Rpc { .. } => {
                return refuse(
                    "--approximate links knows no requests and answers, each of which waits for \
                     the one before",
                );
            }
            Traffic::Bulk { bytes: None } => {
                return refuse("--approximate links knows no transfers without end");
            }
            Traffic::Bulk { .. } => {}
        }
        if flow.first_write.is_some() || flow.stop.is_some() {
            return refuse(
                "--approximate links knows no flow whose application waits or stops in between",
            );
        }
    }
    if !network.buffers.is_empty() {
        return refuse(
            "--approximate links knows no shared buffer, which joins the links of a switch",
        );
    }
    if !network.balance.is_empty() {
        return refuse(
            "--approximate links knows no network.balance, with which the links of a flow are not known before",
        );
    }
    if network.flow_control.is_some() {
        return refuse(
            "--approximate links knows no flow control, which stops one link for another",
        );
    }
    if !network.ports.is_empty() {
        return refuse(
            "--approximate links knows no software routers, whose ports coalesce interrupts",
        );
    }
    let hosts = || network.nodes.iter().filter_map(|node| node.host.as_ref());
    if hosts().any(|host| host.coalesce.is_some() || host.cpu.is_some()) {
        return refuse(
            "--approximate links knows no coalescing and no CPU account, which join all flows of a host",
        );
    }
    if hosts().any(|host| host.ipv6) {
        return refuse(
            "--approximate links knows no IPv6, whose flows change their path at a timeout",
        );
    }
    if network.links.iter().any(|link| link.loss > 0.0) {
        return refuse(
            "--approximate links knows no random loss, which each of a flow's simulations would repeat",
        );
    }
    if network.links.iter().any(|link| link.jitter > Duration::ZERO) {
        return refuse("--approximate links knows no jitter, which reorders packets across links");
    }
    if run.sampling.window.is_some() {
        return refuse(
            "--approximate links knows no measured window: leave measure_from and measure_until out",
        );
    }
    knee_sim::Simulator.check(run)
}
