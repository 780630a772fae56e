//! The traffic program on this machine's kernel.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use knee_traffic::Fault;
use rustix::net;

use super::environment::Environment;
use super::sockets::{Sockets, raise_file_limit};
use super::{TrafficPlan, TrafficReport, clock};
use crate::Error;

/// A traffic program that is ready: its sockets are open, and it listens. Whatever it still holds is aborted when it is dropped.
pub struct Program<S: Environment>(knee_traffic::Program<Sockets<S>>);

/// Opens, binds and listens: after this nothing is left to do but to wait for time 0.
///
/// # Errors
/// If the plan is contradictory or the kernel refuses a socket.
pub fn prepare<S: Environment>(plan: TrafficPlan, environment: S) -> Result<Program<S>, Error> {
    raise_file_limit(plan.flows.len() as u64 * 3 + plan.pings.len() as u64 + 64);
    let sockets = Sockets::new(environment)?;
    let program = knee_traffic::prepare(plan, sockets);
    let mut program = program.map_err(|why| match why {
        Fault::Plan(why) => Error::Failed(why),
        Fault::Os(why) => why,
        Fault::Flow(flow, why) => {
            let why = std::io::Error::from_raw_os_error(why.0);
            Error::Failed(format!("flow {flow}: {why}"))
        }
    })?;
    program.os().warm_up();
    Ok(Program(program))
}

impl<S: Environment> Program<S> {
    /// Listening ports, by flow.
    pub fn ports(&self) -> Vec<(u32, u16)> {
        let ports = self.0.listeners().filter_map(|(flow, listener)| {
            let at = SocketAddr::try_from(net::getsockname(listener).ok()?).ok()?;
            Some((flow, at.port()))
        });
        ports.collect()
    }

    /// Sets a callback for the moment when every finite transfer whose end it sees has completed; it may never be called.
    pub fn on_done(&mut self, tell: impl FnOnce() + Send + 'static) {
        self.0.os().on_done = Some(Box::new(tell));
    }

    /// Runs it: its time 0 is `zero_ns` of CLOCK_MONOTONIC, which may be a while from now. It ends as planned, or soon after
    /// `stop` is set; connections stay as they are until it is dropped.
    pub fn run(&mut self, zero_ns: u64, stop: &AtomicBool) -> TrafficReport {
        let cpu_ns = clock::cpu_ns();
        self.0.os().zero_ns = zero_ns;
        let mut report = self.0.run(|| stop.load(Ordering::Relaxed));
        report.cpu_s = (clock::cpu_ns() - cpu_ns) as f64 / 1e9;
        report
    }
}
