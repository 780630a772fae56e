//! The simulator's end point as a stack: virtual time, exact.

use crate::settings::Settings;
use crate::stack::{Call, Info, Linux, Refusal, SocketOption, Stack};
use knee_queue::time::{Duration, Time};
use knee_sim::endpoint::{EndPoint, Segment};
use knee_sim::spec::{Cc, HostConfig, LinuxVersion};

/// Events of one run: far beyond what a script needs, and some seconds of work.
const MAX_EVENTS: u64 = 20_000_000;

/// Which Linux the simulator behaves like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Version.
    pub linux: LinuxVersion,
    /// Ticks of its coarse clock per second.
    pub hz: u32,
}

/// An end point of the simulator.
pub struct SimStack {
    endpoint: EndPoint,
    linux: Linux,
    diag: Vec<String>,
}

fn refuse<T>(text: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal(text.into()))
}

impl SimStack {
    /// An end point as a script wants it.
    ///
    /// # Errors
    /// What the simulator does not have.
    pub fn new(settings: &Settings, profile: Profile) -> Result<SimStack, Refusal> {
        let mut cc = Cc::by_name(&settings.algorithm).map_err(|why| Refusal(why.to_string()))?;
        for (name, value) in &settings.params {
            cc.algorithm
                .set_param(&mut cc.params, name, value)
                .map_err(|why| Refusal(why.to_string()))?;
        }
        let diag = cc.algorithm.diag().iter().map(|info| format!("cc.{}", info.name)).collect();
        let headers = if settings.ipv6 { 72 } else { 52 };
        let mut config = HostConfig {
            hz: profile.hz,
            jiffies_at_start: Some(0),
            ipv6: settings.ipv6,
            mtu_bytes: settings.mss_bytes + headers,
            gso_max_segs: settings.gso_max_segs,
            base_rtt: settings.base_rtt,
            sndbuf_max_bytes: Some(4 << 20),
            ..HostConfig::new(profile.linux)
        };
        for (name, value) in &settings.sysctls {
            set_sysctl(&mut config, name, value)?;
        }
        let linux = match profile.linux {
            LinuxVersion::V6_1 => Linux(6, 1),
            LinuxVersion::V6_12 => Linux(6, 12),
            LinuxVersion::V6_18 => Linux(6, 18),
        };
        let endpoint = EndPoint::new(config, &cc, 1).map_err(|why| Refusal(why.to_string()))?;
        Ok(SimStack { endpoint, linux, diag })
    }
}

fn set_sysctl(config: &mut HostConfig, name: &str, value: &str) -> Result<(), Refusal> {
    let numbers: Vec<u32> = value.split(' ').filter_map(|part| part.parse().ok()).collect();
    match (name, numbers.as_slice()) {
        ("tcp_ecn", [mode @ 0..=2]) => config.tcp_ecn = *mode as u8,
        ("tcp_ecn_fallback", [on]) => config.tcp_ecn_fallback = *on != 0,
        ("tcp_sack", [on]) => config.sack = *on != 0,
        ("tcp_slow_start_after_idle", [on]) => config.slow_start_after_idle = *on != 0,
        ("tcp_limit_output_bytes", [bytes]) => config.limit_output_bytes = *bytes,
        ("tcp_rto_min_us", [us]) => config.rto_min = Duration::from_us(u64::from(*us)),
        ("tcp_rmem", [_, initial, max]) => {
            config.rcvbuf_initial_bytes = *initial;
            config.rcvbuf_max_bytes = *max;
        }
        ("tcp_wmem", [_, initial, max]) => {
            config.sndbuf_initial_bytes = *initial;
            config.sndbuf_max_bytes = Some(*max);
        }
        _ => return refuse(format!("the simulator has no sysctl `{name} = {value}`")),
    }
    Ok(())
}

impl Stack for SimStack {
    fn name(&self) -> &'static str {
        "the simulator"
    }

    fn linux(&self) -> Linux {
        self.linux
    }

    fn now(&self) -> Time {
        self.endpoint.now()
    }

    fn call(&mut self, call: &Call) -> Result<(), Refusal> {
        match call {
            Call::Connect => self.endpoint.connect(),
            Call::Listen => self.endpoint.listen(),
            Call::Write(bytes) => self.endpoint.write(*bytes),
            Call::Read(None) => {
                self.endpoint.read();
            }
            Call::Read(Some(_)) => return refuse("the simulator reads all there is"),
            Call::Close => return refuse("the simulator does not model the end of a connection"),
            Call::Set(option) => return set_option(option),
        }
        Ok(())
    }

    fn receive(&mut self, segment: &Segment) -> Result<(), Refusal> {
        self.endpoint.receive(segment);
        Ok(())
    }

    fn next_segment(&mut self, until: Time) -> Result<Option<(Time, Segment)>, Refusal> {
        let segment = self.endpoint.next_segment(until);
        if self.endpoint.events() > MAX_EVENTS {
            return refuse(
                "the simulator has worked off 20 million events: the script is too long",
            );
        }
        Ok(segment.map(|segment| (self.endpoint.now(), segment)))
    }

    fn info(&mut self) -> Result<Info, Refusal> {
        let sample = self.endpoint.sample();
        let us = |us: u32| i128::from(us) * 1000;
        let mut values: Vec<(String, i128)> = [
            ("cwnd", i128::from(sample.cwnd)),
            ("ssthresh", i128::from(sample.ssthresh)),
            ("ca_state", i128::from(sample.ca_state)),
            ("rto", us(sample.rto_us)),
            ("rtt", us(sample.srtt_us)),
            ("rttvar", us(sample.rttvar_us)),
            ("min_rtt", us(sample.min_rtt_us)),
            ("unacked", i128::from(sample.unacked)),
            ("lost", i128::from(sample.lost)),
            ("retrans", i128::from(sample.retrans_out)),
            ("total_retrans", i128::from(sample.total_retrans)),
            ("delivered", i128::from(sample.delivered)),
            ("delivered_ce", i128::from(sample.delivered_ce)),
            ("bytes_acked", i128::from(sample.bytes_acked)),
            ("pacing_rate", i128::from(sample.pacing_rate_bytes_per_sec)),
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

fn set_option(option: &SocketOption) -> Result<(), Refusal> {
    refuse(format!("the simulator has no option {option:?}"))
}
