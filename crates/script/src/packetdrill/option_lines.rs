//! Option lines before the events: `--tolerance_usecs=10000`.

use super::scan::Trouble;
use super::{MTU_BYTES, Reader};
use knee_queue::time::Duration;

/// Longest tolerance, us: a minute.
const MOST_US: u64 = 60_000_000;

impl Reader<'_> {
    pub(super) fn option_line(&mut self) -> Result<(), Trouble> {
        let text = self.scan.take_while(|c| !c.is_whitespace());
        let (name, value) = text
            .trim_start_matches('-')
            .split_once('=')
            .unwrap_or((text.trim_start_matches('-'), ""));
        if self.is_begun() {
            return Err(self.scan.mistake(format!("--{name} belongs before the first event")));
        }
        let number = || value.parse::<u64>().ok();
        match name {
            "tolerance_usecs" => match number().filter(|us| *us <= MOST_US) {
                Some(us) => self.script.rules.tolerance = Duration::from_us(us),
                None => return Err(self.outside(name, value, "0 to 60000000 us")),
            },
            "tcp_ts_tick_usecs" => match number().filter(|us| *us <= 1_000_000) {
                Some(us) => {
                    self.script.rules.ts_tick = (us > 0).then(|| Duration::from_us(us));
                }
                None => return Err(self.outside(name, value, "0 to 1000000 us")),
            },
            // Inbound packets that are longer come merged by the device.
            "mss" => match number().filter(|bytes| (48..=65_535).contains(bytes)) {
                Some(bytes) => self.script.settings.merged_mss = Some(bytes as u16),
                None => return Err(self.outside(name, value, "48 to 65535 bytes")),
            },
            "mtu" => match number().filter(|bytes| (140..=9000).contains(bytes)) {
                Some(bytes) => self.mtu_bytes = Some(bytes as u32),
                None => return Err(self.outside(name, value, "140 to 9000 bytes")),
            },
            "ip_version" => match value {
                "ipv4" | "ipv4-mapped-ipv6" => self.script.settings.ipv6 = false,
                "ipv6" => self.script.settings.ipv6 = true,
                _ => return Err(self.outside(name, value, "ipv4, ipv4-mapped-ipv6 or ipv6")),
            },
            // About packetdrill itself, or what a script does not look at.
            "send_omit_free" | "verbose" | "non_fatal" | "local_ip" | "remote_ip"
            | "gateway_ip" | "netmask_ip" | "bind_port" | "connect_port" => {}
            _ => return Err(self.scan.lacks(format!("the option --{name}"))),
        }
        // The kernel's tests give an IPv6 device 20 bytes more, so that segments are as long.
        let usual = if self.script.settings.ipv6 { MTU_BYTES + 20 } else { MTU_BYTES };
        self.script.settings.set_mtu_bytes(self.mtu_bytes.unwrap_or(usual));
        Ok(())
    }

    fn outside(&self, name: &str, value: &str, range: &str) -> Trouble {
        self.scan.mistake(format!("--{name}={value}: the range is {range}"))
    }
}
