//! One run from beginning to end.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use knee_linux::applications;
use knee_run::support::{self, Facts, On};
use knee_run::{BackEnd, Capabilities, Run, RunOptions, RunResult, validate};
use serde_json::{Map, Value, json};

use super::Machines;
use super::fleet::{Fleet, Stop};
use super::merge::{ClockOver, merge};
use super::roles::Roles;
use super::validity::{FleetMeasurements, OfMachine, judge};
use crate::Error;
use crate::traffic::agent::{AgentCommand, Answer};
use crate::traffic::{TrafficReport, clock};

/// Time from the start command to time 0: longer than a command takes to any machine.
const BEFORE_ZERO: Duration = Duration::from_millis(300);
/// Time after the end of the run when machines that still run get [`AgentCommand::Stop`].
const END_WITHIN: Duration = Duration::from_secs(5);

/// Real machines as a back end. Runs follow each other; the first starts the agents, which stay for the next.
#[derive(Debug)]
pub struct OnMachines {
    machines: Machines,
    fleet: Mutex<State>,
    /// Set by [`BackEnd::leave`]: no run begins any more, and the current one stops.
    is_left: AtomicBool,
    /// The machines as their agents report them; empty before the first run.
    about: Mutex<Vec<Value>>,
}

#[derive(Debug)]
enum State {
    Idle,
    Connected(Fleet),
    /// A run has failed, and with it all that would follow.
    Failed(Error),
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").field("hellos", &self.hellos).finish_non_exhaustive()
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OnMachines {
    /// On these machines. Nothing is started before the first run.
    pub fn new(machines: Machines) -> OnMachines {
        OnMachines {
            machines,
            fleet: Mutex::new(State::Idle),
            is_left: AtomicBool::new(false),
            about: Mutex::new(Vec::new()),
        }
    }

    /// A fleet that does not come back leaves its machines.
    fn run_with(
        &self,
        fleet: Option<Fleet>,
        run: &Run,
        stop: Stop<'_>,
    ) -> Result<(RunResult, Fleet), Error> {
        validate(run)?;
        let roles = Roles::new(run, &self.machines)?;
        let mut fleet = match fleet {
            Some(fleet) => fleet,
            None => self.connect(stop)?,
        };
        let ran = carry_out(run, &self.machines, &roles, &mut fleet, stop)?;
        Ok((ran, fleet))
    }

    fn connect(&self, stop: Stop<'_>) -> Result<Fleet, Error> {
        let fleet = Fleet::connect(&self.machines, stop)?;
        let machines = self.machines.machines.iter().zip(&fleet.hellos);
        let about = machines.map(|(machine, hello)| {
            let device = hello.devices.iter().find(|device| device.name == machine.device);
            json!({
                "name": machine.name,
                "roles": machine.roles,
                "address": machine.address,
                "host": hello.host,
                "knee": hello.version,
                "kernel": hello.kernel,
                "cores": hello.cores,
                "device": device,
                "sysctls": hello.sysctls,
            })
        });
        *lock(&self.about) = about.collect();
        Ok(fleet)
    }
}

impl BackEnd for OnMachines {
    fn name(&self) -> &'static str {
        On::Hosts.name()
    }

    fn capabilities(&self) -> Capabilities {
        // There is one of each machine.
        Capabilities { threads: Some(1), has_host: true, ..Capabilities::default() }
    }

    /// Asks no machine.
    fn check(&self, run: &Run) -> Result<(), Error> {
        Roles::new(run, &self.machines).map(drop)
    }

    fn differences(&self, run: &Run) -> Vec<String> {
        support::differences(run, On::Hosts, Facts::default())
    }

    /// When one fails all machines are left, and no other takes place.
    fn run(&self, run: &Run, ask: &RunOptions<'_>) -> Result<RunResult, Error> {
        ask.check(self)?;
        let mut state = lock(&self.fleet);
        let stop = || ask.stop.load(Ordering::Relaxed) || self.is_left.load(Ordering::Relaxed);
        let fleet = match std::mem::replace(&mut *state, State::Idle) {
            State::Failed(why) => Err(why),
            State::Connected(fleet) => Ok(Some(fleet)),
            State::Idle => Ok(None),
        };
        let ran = fleet.and_then(|fleet| self.run_with(fleet, run, &stop));
        match ran {
            Ok((ran, fleet)) => {
                *state = State::Connected(fleet);
                Ok(ran)
            }
            Err(why) => {
                *state = State::Failed(why.clone());
                Err(why)
            }
        }
    }

    /// Leaves all machines; a run that is under way is given up.
    fn leave(&self) {
        self.is_left.store(true, Ordering::Relaxed);
        *lock(&self.fleet) = State::Idle;
    }

    fn about(&self) -> Map<String, Value> {
        Map::from_iter([("machines".to_owned(), json!(*lock(&self.about)))])
    }
}

fn carry_out(
    run: &Run,
    machines: &Machines,
    roles: &Roles<'_>,
    fleet: &mut Fleet,
    stop: Stop<'_>,
) -> Result<RunResult, Error> {
    let count = machines.machines.len();
    let preparations = (0..count).map(|machine| roles.preparation(machine));
    fleet.prepare(preparations.collect::<Result<_, _>>()?, stop)?;
    let before = fleet.clocks(stop)?;
    let mut clocks: Vec<ClockOver> =
        before.into_iter().map(|before| ClockOver { before, after: before }).collect();
    let zero_ns = clock::now_ns() + BEFORE_ZERO.as_nanos() as u64;
    for (machine, clock) in clocks.iter().enumerate() {
        fleet.send(machine, AgentCommand::Start { zero_ns: clock.zero_there_ns(zero_ns) });
    }
    let reports = reports(run, roles, fleet, zero_ns, stop)?;
    for (clock, after) in clocks.iter_mut().zip(fleet.clocks(stop)?) {
        clock.after = after;
    }
    let own: Vec<OfMachine> = reports.iter().map(OfMachine::new).collect();
    let planned: HashSet<u32> =
        run.schedule.pools.iter().flat_map(|pool| &pool.flows).copied().collect();
    let planned = |flow: u32| planned.contains(&flow);
    let mut report = merge(zero_ns, &planned, reports.into_iter().zip(clocks.iter().copied()));
    report.end_ns = end_ns(run, &report);
    let seen =
        FleetMeasurements { hellos: &fleet.hellos, clocks: &clocks, own: &own, report: &report };
    let validity = judge(run, machines, roles, &seen);
    let outcome = applications::outcome(run, &|name| roles.own_name(name), &report, None);
    Ok(RunResult { outcome, validity: Some(validity) })
}

/// Waits for the reports, and stops all machines when all transfers have completed.
fn reports(
    run: &Run,
    roles: &Roles<'_>,
    fleet: &mut Fleet,
    zero_ns: u64,
    stop: Stop<'_>,
) -> Result<Vec<TrafficReport>, Error> {
    let count = fleet.hellos.len();
    let mut works: Vec<bool> = (0..count).map(|machine| roles.says_done(machine)).collect();
    let ends_when_done = run.until_done && works.contains(&true);
    let mut reports: Vec<Option<TrafficReport>> = vec![None; count];
    let last_ns = zero_ns.saturating_add(run.end.ns()) + END_WITHIN.as_nanos() as u64;
    let mut is_told = false;
    while reports.contains(&None) {
        match fleet.next_alive(stop)? {
            Some((machine, Answer::Done {}, _)) => works[machine] = false,
            Some((machine, Answer::Report(report), _)) => reports[machine] = Some(*report),
            Some((machine, other, _)) => return Err(fleet.unexpected(machine, &other)),
            None => {}
        }
        let is_done = ends_when_done && !works.contains(&true);
        if !is_told && (is_done || clock::now_ns() > last_ns) {
            is_told = true;
            fleet.send_all(&AgentCommand::Stop {});
        }
    }
    Ok(reports.into_iter().flatten().collect())
}

/// End of the run: the last completion, if the run ends with it.
fn end_ns(run: &Run, report: &TrafficReport) -> u64 {
    if !run.until_done {
        return report.end_ns;
    }
    let ends = run.flows.iter().zip(0..).filter(|(flow, _)| flow.traffic.ends());
    let mut done = vec![None; run.flows.len()];
    for side in &report.sides {
        if let Some(of_flow) = done.get_mut(side.flow as usize) {
            *of_flow = side.done_ns.or(*of_flow);
        }
    }
    let last: Option<Vec<u64>> = ends.map(|(_, flow): (_, usize)| done[flow]).collect();
    last.and_then(|all| all.into_iter().max()).unwrap_or(report.end_ns).min(report.end_ns)
}
