//! What each back end does with each field of a run: one table ([docs/support.md](../../../docs/support.md)).
//!
//! Each function below takes one part of a run apart, without `..`: a field that is in no row does not compile. Back ends check runs
//! by it, name differences by it, and the lists of keys get their "Only on" from it. What depends on one kernel or one machine, as a
//! sysctl that it lacks, is said where that kernel is asked.

use std::collections::HashSet;
use std::sync::Arc;

use knee_queue::time::Duration;
use knee_queue::{
    CeThresholdFor, ClassService, CodelParams, Limit, MarkWhen, PieConfig, QueueConfig, Threshold,
};

use crate::Error;
use crate::spec::{
    Adaptive, Cable, Cc, Changes, Flow, HostConfig, Link, Network, Ping, Run, Sampling, Schedule,
    Serialisation, Sysctls, Traffic,
};

mod page;

pub use page::{find, only_on, page};

/// A back end, as `--on` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    Sim,
    Vkernel,
    Lab,
    Hosts,
}

use On::{Hosts, Lab, Sim, Vkernel};

impl On {
    /// All back ends, in the order of their columns.
    pub const ALL: [On; 4] = [Sim, Vkernel, Lab, Hosts];

    /// Name in `--on`.
    pub fn name(self) -> &'static str {
        ["sim", "vkernel", "lab", "hosts"][self as usize]
    }
}

/// Back ends on the running kernel.
const REAL: &[On] = &[Lab, Hosts];
/// Back ends with a kernel.
const KERNELS: &[On] = &[Vkernel, Lab, Hosts];

/// What a back end does with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It acts.
    Yes,
    /// It acts, but not as in the simulator.
    Otherwise(&'static str),
    /// It has no effect.
    Inert(&'static str),
    /// A run that asks for it is refused.
    Refused(&'static str),
    /// It belongs to a part of the run that the back end does not have.
    NotApplicable,
}

use Support::{Inert, NotApplicable, Otherwise, Refused, Yes};

/// A field, or some values of it, and what each back end does with it.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its key, with the table of docs/keys.md.
    pub key: &'static str,
    /// The values that this row is about; empty: all but the default.
    pub when: &'static str,
    /// Whether the run has such a value.
    is_asked: bool,
    answers: [Support; 4],
}

/// A row of a field that all back ends take unless it says more.
fn row(key: &'static str, is_asked: bool) -> Row {
    Row { key, when: "", is_asked, answers: [Yes; 4] }
}

impl Row {
    fn when(self, when: &'static str) -> Row {
        Row { when, ..self }
    }

    fn on(mut self, back_ends: &[On], answer: Support) -> Row {
        back_ends.iter().for_each(|on| self.answers[*on as usize] = answer);
        self
    }

    /// What a back end does with it.
    pub fn answer(&self, on: On) -> Support {
        self.answers[on as usize]
    }

    /// The key with the values.
    fn subject(&self) -> String {
        match self.when {
            "" => self.key.to_owned(),
            when => format!("{} {when}", self.key),
        }
    }

    /// Why a back end refuses it, with the way out.
    fn refusal(&self, why: &str, place: &str) -> Error {
        let others = [Sim, Lab, Vkernel].into_iter();
        let takes = |on: &On| matches!(self.answer(*on), Yes | Otherwise(_));
        let ways: Vec<String> =
            others.filter(takes).map(|on| format!("--on {}", on.name())).collect();
        let change = if self.when.is_empty() { "leave it out" } else { "change it" };
        // A place says what the table is.
        let subject = self.subject();
        let subject = match subject.split_once('.') {
            Some((_, short)) if !place.is_empty() => short,
            _ => &subject,
        };
        Error::Refused(format!("{place}{subject}: {why}; {change}, or use {}", ways.join(" or ")))
    }
}

/// What decides some answers beside the run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// Ticks per second of the running kernel, if they are known.
    pub hz: Option<u32>,
    /// Whether the lab uses offloads.
    pub offloads: bool,
}

/// Refuses what a back end does not take.
///
/// # Errors
/// [`Error::Refused`], with the key, why, and the way out.
pub fn check(run: &Run, on: On) -> Result<(), Error> {
    let mut found = Ok(());
    rows(run, Facts::default(), &mut |row, place| refuse(row, on, place, &mut found));
    found
}

/// Refuses what the links and switches of a back end do not do, whatever the hosts are.
///
/// # Errors
/// [`Error::Refused`], with the key, why, and the way out.
pub fn check_switches(network: &Network, on: On) -> Result<(), Error> {
    let mut found = Ok(());
    features(network).iter().for_each(|row| refuse(row, on, &|| String::new(), &mut found));
    for link in network.links.iter().filter(|link| link.rate.is_some()) {
        let place = || format!("link {}: ", network.link_name(link));
        queues(&link.queue, &mut |row| refuse(row, on, &place, &mut found));
    }
    found
}

fn refuse(row: &Row, on: On, place: Place<'_>, found: &mut Result<(), Error>) {
    if let (Refused(why), true, true) = (row.answer(on), row.is_asked, found.is_ok()) {
        *found = Err(row.refusal(why, &place()));
    }
}

/// In what a run on a back end is not what it is in the simulator, each in a sentence.
pub fn differences(run: &Run, on: On, facts: Facts) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    rows(run, facts, &mut |row, _| {
        let words = match (row.is_asked, row.answer(on)) {
            (true, Otherwise(how)) => format!("{}: {how}", row.subject()),
            (true, Inert(why)) => format!("{} has no effect: {why}", row.subject()),
            _ => return,
        };
        if !all.contains(&words) {
            all.push(words);
        }
    });
    all
}

/// Says where a row is asked for, as messages begin.
type Place<'a> = &'a dyn Fn() -> String;

/// Shows `with` every row of a run, with its place.
fn rows(run: &Run, facts: Facts, with: &mut dyn FnMut(&Row, Place<'_>)) {
    of_run(run).iter().for_each(|row| with(row, &|| String::new()));
    let network = &run.network;
    features(network).iter().for_each(|row| with(row, &|| String::new()));
    // A large network has few kinds of hosts and of cables.
    let mut seen = HashSet::new();
    for node in &network.nodes {
        let Some(host) = &node.host else { continue };
        if seen.insert(Arc::as_ptr(host)) {
            let place = || format!("{}: ", node.name);
            of_host(host, facts).iter().for_each(|row| with(row, &place));
        }
    }
    let mut seen = HashSet::new();
    for link in &network.links {
        let host = network.nodes.get(link.from as usize).and_then(|node| node.host.as_ref());
        if seen.insert((Arc::as_ptr(&link.cable), host.map(Arc::as_ptr), link.sampled)) {
            let place = || format!("link {}: ", network.link_name(link));
            of_link(link, host.map(|host| &**host)).iter().for_each(|row| with(row, &place));
            if link.rate.is_some() {
                queues(&link.queue, &mut |row| with(row, &place));
            }
        }
    }
    for flow in &run.flows {
        of_flow(flow, run).iter().for_each(|row| with(row, &|| String::new()));
    }
}

fn of_run(run: &Run) -> Vec<Row> {
    let Run { seed: _, end: _, until_done: _, network, flows, pings, sampling, schedule } = run;
    let Sampling { flows: _, queues, goodput: _, links, window } = sampling;
    let Schedule { series, together, tasks, pools } = schedule;
    let is_cbr = |ping: &Ping| {
        let Ping {
            from: _,
            to: _,
            start: _,
            interval: _,
            wire_bytes: _,
            ecn: _,
            dscp: _,
            one_way_until,
        } = ping;
        one_way_until.is_some()
    };
    let hosts = network.nodes.iter().filter(|node| node.host.is_some()).count();
    let is_short = window.is_some_and(|window| window.period < Duration::from_ms(1));
    let room = "this back end has room for so many";
    vec![
        row("network", true).on(
            &[Hosts],
            Otherwise(
                "the machines' own; rates, delays, losses and queues of the file have no effect",
            ),
        ),
        row("network", hosts > 1000).when("of more than 1000 hosts").on(&[Lab], Refused(room)),
        row("network", network.nodes.len() > 2000)
            .when("of more than 2000 hosts and switches")
            .on(&[Vkernel], Refused(room)),
        row("traffic", flows.len() > 25_000)
            .when("of more than 25000 connections")
            .on(&[Vkernel], Refused("each needs a port")),
        row("traffic", flows.len() > 30_000)
            .when("of more than 30000 connections")
            .on(REAL, Refused("each needs a port")),
        row("traffic", !tasks.is_empty())
            .when("of messages that wait for each other (collective, chakra, trace with after or kept connections)")
            .on(KERNELS, Refused("applications of a kernel wait for connections only")),
        row("traffic", !series.is_empty() || !together.is_empty())
            .when("of transfers that wait for others (shuffle, query, incast without every)")
            .on(&[Hosts], Refused("machines do not signal each other")),
        row("traffic", !pools.is_empty())
            .when("of requests at times of their own (rpc with load, rate or arrivals_per_sec)"),
        row("traffic", pings.iter().any(is_cbr))
            .when("of kind cbr")
            .on(KERNELS, Refused("applications of a kernel send no datagrams but pings")),
        row("sample.links", links.is_some()).on(KERNELS, Refused("only simulated links are counted")),
        row("sample.queues", queues.is_some()).on(&[Hosts], Inert("queues are not seen")),
        row("run.measure_from and measure_until", is_short)
            .when("not at whole milliseconds")
            .on(KERNELS, Refused("hosts look at what has arrived at whole milliseconds")),
    ]
}

fn features(network: &Network) -> Vec<Row> {
    let Network { nodes: _, links: _, buffers, flow_control, ports, changes, balance } = network;
    let Changes { links: changes, routes: _ } = changes;
    let real = Refused("real links and switches are as they are");
    vec![
        row("network.buffer", !buffers.is_empty())
            .on(&[Lab], Refused("ports of the lab's switch do not share memory"))
            .on(&[Hosts], real),
        row("network.buffer", buffers.iter().any(|buffer| buffer.law.size_bytes >> 32 > 0))
            .when("of 4 GiB and more")
            .on(&[Vkernel], Refused("memories of a guest's switches are smaller")),
        row("network.flow_control", flow_control.is_some())
            .on(&[Vkernel, Lab], Refused("devices of the kernel take no pause frames"))
            .on(&[Hosts], real),
        row("network.coalesce", !ports.is_empty())
            .on(&[Vkernel], Refused("a guest's switches forward each packet as it comes"))
            .on(&[Hosts], real),
        row("network.change", !changes.is_empty())
            .on(&[Vkernel, Lab], Refused("links do not change during a run"))
            .on(&[Hosts], real),
        row("network.balance", !balance.is_empty())
            .on(&[Vkernel, Lab], Refused("switches give each flow one path"))
            .on(&[Hosts], real),
    ]
}

fn of_host(host: &HostConfig, facts: Facts) -> Vec<Row> {
    let stock = HostConfig::new(host.linux);
    let mut with_offloads = host.clone();
    with_offloads.set_offloads(true);
    let all_offloads = *host == with_offloads;
    #[rustfmt::skip]
    let HostConfig {
        linux: _, hz, jiffies_at_start, tcp_ecn: _, syn_ect, ecn_low, tcp_ecn_fallback: _, ipv6, mtu_bytes,
        initial_cwnd_pkts: _, rto_min: _, slow_start_after_idle: _, sack: _, gso_max_segs, gro_window, coalesce,
        receive_queues, gro, cpu, limit_output_bytes: _, skb_overhead_bytes, max_skb_frags, max_tcp_header_bytes, base_rtt: _,
        fq, fq_counts_headers, rcvbuf_initial_bytes: _, rcvbuf_max_bytes: _, sndbuf_initial_bytes: _, sndbuf_max_bytes: _,
        defects, sysctls: Sysctls { min_rtt_wlen, .. },
    } = host;
    let real = "it models a device and a CPU, but these hosts have real ones";
    let offloads = |row: Row| match facts.offloads {
        true => row,
        false => row.on(&[Lab], Inert("it needs --offloads on")),
    };
    let own = "offloads are as the machines' devices have them";
    let of_device = |key, is_asked| row(key, is_asked).on(REAL, Refused(real));
    let is_adaptive = coalesce.is_some_and(|it| matches!(it.adaptive, Some(Adaptive::Rate(_))));
    let is_scaled_dim = coalesce.is_some_and(
        |it| matches!(it.adaptive, Some(Adaptive::Dim(dim)) if dim.us != Duration::from_us(1)),
    );
    vec![
        row("hosts.linux", true)
            .on(REAL, Otherwise("it chooses defaults only, and the TCP is the running kernel's")),
        row("hosts.hz", facts.hz != Some(*hz)).on(REAL, Inert("the running kernel has its own")),
        row("hosts.jiffies_at_start", jiffies_at_start.is_some())
            .on(&[Vkernel], Refused("the guest's kernel begins to count when it starts"))
            .on(REAL, Refused("the running kernel has counted since it started")),
        row("hosts.ipv6", *ipv6).on(&[Vkernel], Refused("guests speak IPv4 alone")),
        row("hosts.ecn_low", *ecn_low)
            .on(KERNELS, Refused("routes of the kernel lack this feature")),
        row("hosts.syn_ect", !syn_ect)
            .on(KERNELS, Refused("the kernel sends SYNs of algorithms that need ECN with ECT")),
        row("hosts.mtu", *mtu_bytes > 9000)
            .when("above 9000 B")
            .on(&[Lab], Refused("the lab's switch takes no longer packets")),
        of_device("hosts.offloads", all_offloads).when("\"on\""),
        offloads(row("hosts.gso_max_segs", *gso_max_segs > 1))
            .on(
                &[Vkernel],
                Otherwise("a host's queue holds large segments, which are cut as they leave it"),
            )
            .on(&[Hosts], Inert(own)),
        offloads(row("hosts.gro_window", *gro_window > Duration::ZERO))
            .on(&[Vkernel], Refused("a guest's device merges per interrupt: use coalesce and gro"))
            .on(&[Hosts], Inert(own)),
        row("hosts.skb_overhead", *skb_overhead_bytes != stock.skb_overhead_bytes)
            .on(KERNELS, Inert("the kernel has its own")),
        row("hosts.max_skb_frags", *max_skb_frags != stock.max_skb_frags)
            .on(KERNELS, Inert("the kernel has its own")),
        row("hosts.max_tcp_header", *max_tcp_header_bytes != stock.max_tcp_header_bytes)
            .on(KERNELS, Inert("the kernel has its own")),
        row("hosts.fq", *fq)
            .on(&[Hosts], Inert("queue disciplines are as the machines' devices have them")),
        row("hosts.fq_counts_headers", *fq_counts_headers)
            .on(KERNELS, Refused("fq of the kernel uses departure times, which ignore headers")),
        row("hosts.defects", *defects != Default::default())
            .on(KERNELS, Refused("the kernel has none of these defects of older versions")),
        of_device("hosts.coalesce", coalesce.is_some()),
        of_device("hosts.coalesce", is_scaled_dim)
            .when("with dim and --scale")
            .on(&[Vkernel], Refused("Linux's DIM counts in us")),
        of_device("hosts.coalesce", is_adaptive)
            .when("with adaptive = true")
            .on(&[Vkernel], Refused("a guest's device does not adapt its interrupts to the rate")),
        of_device("hosts.receive_queues", *receive_queues > 1)
            .on(&[Vkernel], Otherwise("a hash of addresses and ports picks the queue")),
        of_device("hosts.gro", *gro),
        of_device("hosts.cpu", cpu.is_some())
            .on(&[Vkernel], Refused("a guest has no CPU that takes time")),
        row("min_rtt_wlen", min_rtt_wlen.ps() % Duration::from_ms(1000).ps() != 0)
            .when("not in whole seconds")
            .on(&[Vkernel, Lab], Refused("Linux has it in whole seconds")),
    ]
}

/// `host`: where the link comes from, if that is one.
fn of_link(link: &Link, host: Option<&HostConfig>) -> Vec<Row> {
    let Link { from: _, to: _, parallel: _, sampled, cable } = link;
    #[rustfmt::skip]
    let Cable {
        rate, serialisation, overhead_bytes, delay, jitter, loss, loses_bursts, duplicate, thins_acks, queue,
        sampled: _,
    } = &**cable;
    let tail_limit = match queue {
        QueueConfig::DropTail(tail) => Some(tail.limit),
        _ => None,
    };
    let has_queue = rate.is_some();
    let (is_host, paces) = (host.is_some(), host.is_some_and(|host| host.fq));
    let loses_bursts = *loses_bursts && *loss > 0.0;
    let own = |key, is_asked| row(key, is_asked).on(&[Hosts], NotApplicable);
    vec![
        own("cable.rate", has_queue),
        own("cable.burst", matches!(serialisation, Serialisation::TokenBucket { .. }))
            .on(&[Vkernel], Otherwise("it is the kernel's tbf, whose tokens are times of 64 ns")),
        row("cable.overhead", *overhead_bytes > 0)
            .on(&[Hosts], Refused("real links are as they are")),
        own("cable.delay", *delay > Duration::ZERO),
        own("cable.jitter", *jitter > Duration::ZERO),
        own("cable.loss", *loss > 0.0),
        own("cable.loss_per", loses_bursts)
            .when("= \"burst\"")
            .on(&[Lab], Refused("the lab's switch loses packets, not bursts"))
            .on(&[Vkernel], Otherwise("a burst is what TCP has sent as one large segment")),
        own("cable.loss_per", loses_bursts && !is_host)
            .when("= \"burst\" behind a switch")
            .on(&[Vkernel], Refused("nobody knows which packets were sent together")),
        own("cable.duplicate", *duplicate > 0.0)
            .on(&[Vkernel], Refused("devices of a guest duplicate nothing"))
            .on(&[Lab], Refused("the lab's switch sends each frame once")),
        own("cable.thin_acks", *thins_acks).on(
            &[Vkernel, Lab],
            Refused("queues of the kernel and of the lab's switch keep each ACK"),
        ),
        own("cable.queue", has_queue),
        own("cable.queue", is_host && has_queue && tail_limit.is_none())
            .when("of a host other than droptail")
            .on(&[Lab], Refused("a host's own queue is a tbf, which does not mark")),
        own("cable.queue", paces && has_queue && tail_limit.is_none())
            .when("of a host with fq other than droptail")
            .on(&[Vkernel], Refused("fq has no place for another queue")),
        own("cable.queue", paces && has_queue && matches!(tail_limit, Some(Limit::Bytes(_))))
            .when("of a host with fq, with a limit in bytes")
            .on(&[Vkernel], Otherwise("the limit is as many packets of full length")),
        own("cable.record", *sampled),
        own("cable.record", is_host && has_queue && *sampled)
            .when("of a host")
            .on(&[Lab], Refused("a host's own queue is in the kernel")),
    ]
}

/// Shows `with` the rows of a queue and of those that it consists of.
fn queues(queue: &QueueConfig, with: &mut dyn FnMut(&Row)) {
    // Queues of real machines are their own.
    let rows = of_queue(queue).into_iter().map(|row| row.on(&[Hosts], NotApplicable));
    rows.for_each(|row| with(&row));
    match queue {
        QueueConfig::Classes(config) => {
            config.classes.iter().for_each(|class| queues(&class.queue, with));
        }
        QueueConfig::TwoBuffers(config) => queues(&config.queue, with),
        _ => {}
    }
}

/// Rows of one discipline: what Linux has in its place.
fn of_queue(queue: &QueueConfig) -> Vec<Row> {
    let kind = |when, answer| vec![row("queue.kind", true).when(when).on(&[Vkernel], answer)];
    let lacks = |key, is_asked, why| row(key, is_asked).on(&[Vkernel], Refused(why));
    let in_us = |key, times: &[Duration]| {
        let is_asked = times.iter().any(|time| *time != Duration::from_us(time.us()));
        lacks(key, is_asked, "Linux has it in whole us").when("not in whole us")
    };
    let red = || {
        let how = "a packet that is marked and then finds the buffer full counts as marked, and as dropped";
        kind("= \"step\" or \"red\"", Otherwise(how))
    };
    match queue {
        QueueConfig::DropTail(_) => Vec::new(),
        QueueConfig::Step(step) => {
            let mut all = red();
            all.push(
                row("queue.k", matches!(step.threshold, Threshold::Pkts(_)))
                    .when("in packets")
                    .on(&[Vkernel], Otherwise("it is as many packets of full length in bytes")),
            );
            let is_time = matches!(step.threshold, Threshold::Sojourn(_));
            all.push(
                lacks("queue.k", is_time, "no fifo of Linux marks by the time that a packet waits")
                    .when("as a time"),
            );
            let at_dequeue = step.when == MarkWhen::Dequeue && !is_time;
            let why = "no fifo of Linux marks at dequeue by its length";
            all.push(lacks("queue.mark_when", at_dequeue, why));
            all
        }
        QueueConfig::Red(config) => {
            let mut all = red();
            all.push(lacks("queue.gentle", config.gentle, "Linux's RED is not gentle"));
            let interval = config.adapt_interval;
            let is_other = interval.is_some_and(|interval| interval != Duration::from_ms(500));
            all.push(
                lacks("queue.adaptive", is_other, "Linux's RED adapts each 500 ms")
                    .when("with --scale"),
            );
            all
        }
        QueueConfig::Pie(pie) => {
            let stock = PieConfig::default();
            let why = "Linux's PIE has 150 ms";
            vec![
                lacks("queue.burst_allowance", pie.burst_allowance != stock.burst_allowance, why),
                lacks(
                    "queue.derandomise",
                    pie.derandomise != stock.derandomise,
                    "Linux's PIE always does",
                ),
                in_us("queue.target, update_interval", &[pie.target, pie.update_interval]),
            ]
        }
        QueueConfig::Codel(config) => vec![
            lacks(
                "queue.ce_threshold_for",
                config.codel.ce_threshold.is_some()
                    && config.codel.ce_threshold_for == CeThresholdFor::Ect1,
                "Linux's codel marks all that is ECT; its fq-codel can choose",
            )
            .when("of codel"),
            in_us("queue.target, interval, ce_threshold", &times(&config.codel)),
        ],
        QueueConfig::FqCodel(config) => {
            vec![in_us("queue.target, interval, ce_threshold", &times(&config.codel))]
        }
        QueueConfig::Classes(config) => {
            let quantum = |service| match service {
                ClassService::Weighted(weight) => config.quantum_bytes.checked_mul(weight),
                ClassService::Strict => Some(0),
            };
            let has_large = config.classes.iter().any(|class| quantum(class.service).is_none());
            let is_within = config.classes.iter().any(|class| !class.queue.part_names().is_empty());
            vec![
                lacks("queue.class", config.classes.len() > 16, "Linux's ets has 16 at most")
                    .when("more than 16 times"),
                lacks("class.weight", has_large, "a turn of a class is below 4 GiB")
                    .when("of 4 GiB per turn"),
                lacks("class.queue", is_within, "ets has no classes within classes")
                    .when("= \"classes\""),
            ]
        }
        QueueConfig::Share(_) => {
            kind("= \"share\"", Refused("no discipline of Linux marks a share of packets"))
        }
        QueueConfig::DualPi2(_) => {
            kind("= \"dualpi2\"", Refused("Linux has it since 6.17, and guests are older"))
        }
        QueueConfig::TwoBuffers(_) => kind(
            "= \"two-buffers\"",
            Refused("no discipline of Linux has two buffers by where a packet came from"),
        ),
        QueueConfig::Policer(_) => kind(
            "= \"policer\"",
            Refused("Linux polices by an action of filters, and no discipline does"),
        ),
        QueueConfig::Trim(_) => {
            let why = "no discipline of Linux trims packets";
            vec![
                row("queue.kind", true)
                    .when("= \"trim\"")
                    .on(&[Vkernel], Refused(why))
                    .on(&[Lab], Refused("the lab's switch does not trim packets")),
            ]
        }
    }
}

/// Times of CoDel that Linux has in whole us.
fn times(codel: &CodelParams) -> [Duration; 3] {
    [codel.target, codel.interval, codel.ce_threshold.unwrap_or(Duration::ZERO)]
}

fn of_flow(flow: &Flow, run: &Run) -> [Row; 4] {
    #[rustfmt::skip]
    let Flow {
        group: _, from: _, to: _, cc: Cc { algorithm: _, params: _, is_kernels_own }, peer_cc, start: _, first_write, stop,
        traffic, read_at_bytes: _, sampled: _, base_rtt: _, dscp: _, peer_dscp: _, max_pacing_rate: _,
    } = flow;
    let is_attempt = first_write.is_some_and(|at| at > run.end);
    let is_own = *is_kernels_own || peer_cc.as_ref().is_some_and(|cc| cc.is_kernels_own);
    [
        row("traffic.kind", is_attempt)
            .when("= \"attempts\"")
            .on(REAL, Refused("it is not measured when connections are established")),
        row("traffic", matches!(traffic, Traffic::Bulk { .. }))
            .when("of transfers")
            .on(&[Vkernel], Otherwise("the last segment of one is acknowledged at once")),
        row("traffic.stop", stop.is_some()).on(
            &[Vkernel],
            Otherwise("the connection is reset, and the listening side has what had come by then"),
        ),
        row("traffic.cc", is_own)
            .when("= \"kernel:NAME\"")
            .on(&[Hosts], Refused("machines get knee's algorithms")),
    ]
}

#[cfg(test)]
mod tests {
    use knee_queue::PortProperties;
    use knee_queue::time::Rate;

    use super::*;

    #[test]
    fn refusals_of_queues_name_keys_and_kinds_that_there_are() {
        let rate = Rate::from_bps(1_000_000_000).unwrap();
        let at = PortProperties { frame_bytes: 1514, rate, has_burst: false };
        let mut refused = Vec::new();
        for mut config in QueueConfig::each(at) {
            match &mut config {
                QueueConfig::Step(step) => step.when = MarkWhen::Dequeue,
                QueueConfig::Pie(pie) => pie.derandomise = false,
                QueueConfig::Red(red) => red.adapt_interval = Some(Duration::from_ms(5000)),
                QueueConfig::Codel(codel) => {
                    codel.codel.ce_threshold = Some(Duration::from_us(50));
                    codel.codel.ce_threshold_for = CeThresholdFor::Ect1;
                }
                _ => {}
            }
            let rows = of_queue(&config);
            for row in rows.iter().filter(|row| row.key.starts_with("queue.")) {
                for key in row.key["queue.".len()..].split(", ") {
                    let is_known = ["kind", "class"].contains(&key) || config.keys().contains(&key);
                    assert!(is_known, "{} has no {key}", config.kind());
                }
            }
            let is_refused = |row: &Row| row.is_asked && matches!(row.answer(Vkernel), Refused(_));
            refused.extend(rows.iter().any(is_refused).then(|| config.kind()));
        }
        assert_eq!(
            refused,
            ["step", "pie", "share", "red", "codel", "dualpi2", "two-buffers", "trim", "policer"]
        );
    }
}
