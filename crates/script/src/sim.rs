//! The simulator's end point as a stack: virtual time, exact.

use crate::settings::Settings;
use crate::stack::{Call, Given, Info, Refusal, SocketOption, Stack};
use knee_algo::Algorithm;
use knee_queue::time::{Duration, Time};
use knee_run::spec::{Cc, HostConfig, LinuxVersion, sysctl_since};
use knee_sim::endpoint::EndPoint;
use knee_wire::Segment;
use std::path::Path;

/// Events of one run: far beyond what a script needs, and some seconds of work.
const MAX_EVENTS: u64 = 20_000_000;

/// Version of Linux that the simulator models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    pub linux: LinuxVersion,
    /// Ticks of its coarse clock per second.
    pub hz: u32,
}

/// An end point of the simulator.
pub struct SimStack {
    endpoint: EndPoint,
    linux: LinuxVersion,
    diag: Vec<String>,
}

/// What a TUN device, through which scripts reach a kernel, charges a packet beside its payload.
pub(crate) const TUN_OVERHEAD_BYTES: u32 = 1216;
/// Its packets are not in pages, and do not join.
pub(crate) const TUN_SKB_FRAGS: u32 = 1;

fn refuse<T>(text: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal(text.into()))
}

impl SimStack {
    /// An end point as a script wants it.
    ///
    /// # Errors
    /// What the simulator does not have.
    pub fn new(settings: &Settings, profile: Profile) -> Result<SimStack, Refusal> {
        let mut cc = cc_named(&settings.algorithm)?;
        for (name, value) in &settings.params {
            cc.algorithm
                .set_param(&mut cc.params, name, value)
                .map_err(|why| Refusal(why.to_string()))?;
        }
        let diag = diag_names(&cc);
        let mut config = HostConfig {
            hz: profile.hz,
            jiffies_at_start: Some(0),
            ipv6: settings.ipv6,
            mtu_bytes: settings.mtu_bytes(),
            gso_max_segs: settings.gso_max_segs,
            base_rtt: settings.base_rtt,
            fq: settings.fq,
            sndbuf_max_bytes: Some(4 << 20),
            skb_overhead_bytes: TUN_OVERHEAD_BYTES,
            max_skb_frags: TUN_SKB_FRAGS,
            ..HostConfig::new(profile.linux)
        };
        for (name, value) in &settings.sysctls {
            set_sysctl(&mut config, name, value)?;
        }
        let mut endpoint = EndPoint::new(config, &cc, 1).map_err(|why| Refusal(why.to_string()))?;
        if let Some(bytes) = settings.merged_mss {
            endpoint.set_merged_mss(bytes);
        }
        Ok(SimStack { endpoint, linux: profile.linux, diag })
    }

    fn set_option(&mut self, option: &SocketOption) -> Result<(), Refusal> {
        let endpoint = &mut self.endpoint;
        match option {
            SocketOption::Congestion(name) => {
                let cc = cc_named(name)?;
                endpoint.set_congestion_control(&cc).map_err(|why| Refusal(why.to_string()))?;
                self.diag = diag_names(&cc);
            }
            SocketOption::NoDelay(on) => endpoint.set_no_delay(*on),
            SocketOption::Cork(on) => endpoint.set_cork(*on),
            SocketOption::QuickAck(on) => endpoint.set_quick_ack(*on),
            SocketOption::ReceiveLowWater(bytes) => endpoint.set_receive_low_water(*bytes),
            SocketOption::ReceiveBuffer(bytes) => endpoint.set_receive_buffer(*bytes),
            SocketOption::SendBuffer(bytes) => endpoint.set_send_buffer(*bytes),
            SocketOption::MaxPacingRate(rate) => endpoint.set_max_pacing_rate(*rate),
        }
        Ok(())
    }
}

/// An algorithm of knee's, or of a file at this path.
fn cc_named(name: &str) -> Result<Cc, Refusal> {
    Algorithm::named(name, Path::new("")).map(Cc::new).map_err(|why| Refusal(why.to_string()))
}

/// Names of the algorithm's diagnostic values in scripts.
fn diag_names(cc: &Cc) -> Vec<String> {
    cc.algorithm.diag().iter().map(|info| format!("cc.{}", info.name)).collect()
}

fn set_sysctl(config: &mut HostConfig, name: &str, value: &str) -> Result<(), Refusal> {
    let linux = config.linux;
    if let Some(since) = sysctl_since(name).filter(|since| linux < *since) {
        return refuse(format!("sysctl {name}: Linux {linux} has none, Linux {since} has"));
    }
    let not_taken =
        || Refusal(format!("the simulator does not support the sysctl `{name} = {value}`"));
    let sysctls = &mut config.sysctls;
    // The only one that may be negative.
    if name == "tcp_adv_win_scale" {
        let scale = value.parse().ok().filter(|scale| (-31..=31).contains(scale));
        sysctls.adv_win_scale = scale.ok_or_else(not_taken)?;
        return Ok(());
    }
    let numbers: Result<Vec<u32>, _> = value.split(' ').map(str::parse).collect();
    let numbers = numbers.map_err(|_| not_taken())?;
    match (name, numbers.as_slice()) {
        ("tcp_app_win", [shift]) => sysctls.app_win = (*shift).min(31) as u8,
        ("tcp_autocorking", [on]) => sysctls.autocorking = *on != 0,
        ("tcp_comp_sack_delay_ns", [ns]) => {
            sysctls.comp_sack_delay = Duration::from_ns(u64::from(*ns));
        }
        ("tcp_comp_sack_nr", [count]) => sysctls.comp_sack_nr = (*count).min(255),
        ("tcp_comp_sack_slack_ns", [ns]) => {
            sysctls.comp_sack_slack = Duration::from_ns(u64::from(*ns));
        }
        ("tcp_dsack", [on]) => sysctls.dsack = *on != 0,
        ("tcp_early_retrans", [mode @ 0..=4]) => sysctls.early_retrans = *mode as u8,
        ("tcp_ecn", [mode @ 0..=2]) => config.tcp_ecn = *mode as u8,
        ("tcp_ecn_fallback", [on]) => config.tcp_ecn_fallback = *on != 0,
        ("tcp_frto", [mode @ 0..=2]) => sysctls.frto = *mode as u8,
        ("tcp_invalid_ratelimit", [ms]) => {
            sysctls.invalid_ratelimit = Duration::from_ms(u64::from(*ms));
        }
        ("tcp_limit_output_bytes", [bytes]) => config.limit_output_bytes = *bytes,
        ("tcp_max_reordering", [pkts]) => sysctls.max_reordering = *pkts,
        ("tcp_min_rtt_wlen", [secs @ 0..=86_400]) => {
            sysctls.min_rtt_wlen = Duration::from_ms(u64::from(*secs) * 1000);
        }
        ("tcp_min_tso_segs", [segs]) => sysctls.min_tso_segs = *segs,
        ("tcp_moderate_rcvbuf", [on]) => sysctls.moderate_rcvbuf = *on != 0,
        ("tcp_notsent_lowat", [bytes]) => sysctls.notsent_lowat = *bytes,
        ("tcp_pacing_ca_ratio", [percent @ 0..=1000]) => sysctls.pacing_ca_ratio = *percent,
        ("tcp_pacing_ss_ratio", [percent @ 0..=1000]) => sysctls.pacing_ss_ratio = *percent,
        ("tcp_recovery", [bits @ 0..=7]) => sysctls.recovery = *bits as u8,
        ("tcp_reordering", [pkts]) => sysctls.reordering = *pkts,
        ("tcp_rmem", [_, initial, max]) => {
            config.rcvbuf_initial_bytes = *initial;
            config.rcvbuf_max_bytes = *max;
        }
        ("tcp_rto_min_us", [us]) => config.rto_min = Duration::from_us(u64::from((*us).max(1))),
        ("tcp_sack", [on]) => config.sack = *on != 0,
        ("tcp_slow_start_after_idle", [on]) => config.slow_start_after_idle = *on != 0,
        ("tcp_syn_linear_timeouts", [count]) => {
            sysctls.syn_linear_timeouts = Some((*count).min(127) as u8);
        }
        ("tcp_thin_linear_timeouts", [on]) => sysctls.thin_linear_timeouts = *on != 0,
        ("tcp_timestamps", [mode]) => sysctls.timestamps = *mode != 0,
        ("tcp_tso_rtt_log", [log @ 0..=31]) => sysctls.tso_rtt_log = *log as u8,
        ("tcp_tso_win_divisor", [divisor]) => sysctls.tso_win_divisor = *divisor,
        ("tcp_wmem", [_, initial, max]) => {
            config.sndbuf_initial_bytes = *initial;
            config.sndbuf_max_bytes = Some(*max);
        }
        _ => return Err(not_taken()),
    }
    Ok(())
}

impl Stack for SimStack {
    fn name(&self) -> &'static str {
        "the simulator"
    }

    fn linux(&self) -> LinuxVersion {
        self.linux
    }

    fn now(&self) -> Time {
        self.endpoint.now()
    }

    fn call(&mut self, call: &Call) -> Result<Given, Refusal> {
        match call {
            Call::Connect => self.endpoint.connect(),
            Call::Listen => self.endpoint.listen(),
            Call::Write(bytes) => self.endpoint.write(*bytes),
            Call::WriteBeforeMore(bytes) => self.endpoint.write_before_more(*bytes),
            Call::ShutDown => self.endpoint.shut_down_writing(),
            Call::Read(most) => {
                let bytes = self.endpoint.read_at_most(most.unwrap_or(u64::MAX)).into();
                return Ok(Given { bytes, at_end: self.endpoint.has_read_all() });
            }
            Call::Close => self.endpoint.close(),
            Call::Set(option) => self.set_option(option)?,
        }
        Ok(Given::default())
    }

    fn receive(&mut self, segment: &Segment) -> Result<(), Refusal> {
        self.endpoint.receive(segment);
        Ok(())
    }

    fn next_segment(&mut self, until: Time) -> Result<Option<(Time, Segment)>, Refusal> {
        let segment = self.endpoint.next_segment(until);
        if self.endpoint.events() > MAX_EVENTS {
            return refuse(
                "the script needs more than 20 million events of the simulator: make it shorter",
            );
        }
        Ok(segment.map(|segment| (self.endpoint.now(), segment)))
    }

    fn info(&mut self) -> Result<Info, Refusal> {
        let sample = self.endpoint.sample();
        let more = self.endpoint.info();
        let us = |us: u32| i128::from(us) * 1000;
        let mut values: Vec<(String, i128)> = [
            ("cwnd", i128::from(sample.cwnd)),
            ("ssthresh", i128::from(sample.ssthresh)),
            ("ca_state", i128::from(sample.ca_state)),
            ("retransmits", i128::from(more.retransmits)),
            ("backoff", i128::from(more.backoff)),
            ("probes", i128::from(more.probes)),
            ("rto", us(sample.rto_us)),
            ("ato", us(more.ato_us)),
            ("rtt", us(sample.srtt_us)),
            ("rttvar", us(sample.rttvar_us)),
            ("min_rtt", us(sample.min_rtt_us)),
            ("unacked", i128::from(sample.unacked)),
            ("sacked", i128::from(sample.sacked)),
            ("lost", i128::from(sample.lost)),
            ("retrans", i128::from(sample.retrans_out)),
            ("total_retrans", i128::from(sample.total_retrans)),
            ("reordering", i128::from(more.reordering)),
            ("delivered", i128::from(sample.delivered)),
            ("delivered_ce", i128::from(sample.delivered_ce)),
            ("bytes_acked", i128::from(sample.bytes_acked)),
            ("bytes_received", i128::from(more.bytes_received)),
            ("notsent_bytes", i128::from(more.notsent_bytes)),
            ("pacing_rate", i128::from(sample.pacing_rate_bytes_per_sec)),
            ("snd_mss", i128::from(more.snd_mss)),
            ("rcv_mss", i128::from(more.rcv_mss)),
            ("rcv_ssthresh", i128::from(more.rcv_ssthresh)),
            ("rcv_space", i128::from(more.rcv_space)),
            ("ecn", i128::from(more.ecn)),
            ("last_data_recv", i128::from(more.last_data_recv_us) * 1000),
            ("unread", i128::from(more.unread_bytes)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let own = self.diag.iter().zip(&sample.diag);
        values.extend(own.map(|(name, value)| (name.clone(), i128::from(*value))));
        Ok(Info { values, algorithm: self.endpoint.algorithm().to_owned() })
    }

    fn slack(&self) -> Duration {
        Duration::ZERO
    }

    fn lateness(&self) -> Duration {
        Duration::ZERO
    }
}
