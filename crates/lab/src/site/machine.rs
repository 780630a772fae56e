//! Facts on this machine for the manifest, and the use of its CPUs.

use std::fs;
use std::time::Instant;

use knee_bpf::KernelApi;
use serde::Serialize;

use crate::Error;
use crate::error::failed;

/// The machine and its kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Model name of the CPU; empty: unknown.
    pub cpu_model: String,
    pub cpus: usize,
    /// Release of the kernel, as `uname -r`.
    pub kernel_release: String,
    /// Ticks of its coarse clock per second.
    pub hz: u32,
    /// Clock source of the kernel; `None`: unknown.
    pub clocksource: Option<String>,
    /// Frequency governor of the first CPU; `None`: none, as in most virtual machines.
    pub governor: Option<String>,
}

impl Machine {
    /// Describes this machine.
    ///
    /// # Errors
    /// If /proc cannot be read.
    pub fn this() -> Result<Machine, Error> {
        let line = |path: &str| Some(fs::read_to_string(path).ok()?.trim().to_owned());
        let kernel = KernelApi::running();
        let system = "/sys/devices/system";
        Ok(Machine {
            cpu_model: cpu_model(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            cpus: CpuTimes::now()?.cpus.len(),
            kernel_release: kernel.release.clone(),
            hz: kernel.hz,
            clocksource: line(&format!("{system}/clocksource/clocksource0/current_clocksource")),
            governor: line(&format!("{system}/cpu/cpu0/cpufreq/scaling_governor")),
        })
    }
}

fn cpu_model(cpuinfo: &str) -> String {
    let named = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    named("model name").or_else(|| named("Model")).unwrap_or_default()
}

/// Use of a CPU: as a reading, ticks since boot; between two readings, shares of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CpuShare {
    /// Number of the CPU.
    pub cpu: usize,
    /// Not idle and not waiting for a disk.
    pub busy: f64,
    /// Share in soft interrupts, which do the receiving; part of `busy`.
    pub softirq: f64,
    /// Steal time, taken by the hypervisor; part of `busy`.
    pub steal: f64,
}

/// A reading of all CPUs.
#[derive(Clone, Debug)]
pub struct CpuTimes {
    at: Instant,
    cpus: Vec<Ticks>,
}

/// Ticks of `/proc/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    cpu: usize,
    all: u64,
    busy: u64,
    softirq: u64,
    steal: u64,
}

/// Use of the CPUs between two readings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CpuUse {
    /// Length of the period, s.
    pub wall_s: f64,
    /// Use per CPU, without CPUs that went on- or offline meanwhile.
    pub cpus: Vec<CpuShare>,
}

impl CpuTimes {
    /// Reads the current counters.
    ///
    /// # Errors
    /// If /proc cannot be read.
    pub fn now() -> Result<CpuTimes, Error> {
        let text = fs::read_to_string("/proc/stat").map_err(failed("/proc/stat"))?;
        Ok(CpuTimes { at: Instant::now(), cpus: text.lines().filter_map(Ticks::of).collect() })
    }

    /// Use of the CPUs since an earlier reading.
    pub fn since(&self, earlier: &CpuTimes) -> CpuUse {
        let share = |now: &Ticks| {
            let before = earlier.cpus.iter().find(|before| before.cpu == now.cpu)?;
            Some(now.share_since(before))
        };
        CpuUse {
            wall_s: self.at.duration_since(earlier.at).as_secs_f64(),
            cpus: self.cpus.iter().filter_map(share).collect(),
        }
    }
}

impl Ticks {
    /// `cpu1 user nice system idle iowait irq softirq steal guest guest_nice`; guests' are in those of users.
    fn of(line: &str) -> Option<Ticks> {
        let mut words = line.strip_prefix("cpu")?.split(' ');
        let cpu = words.next()?.parse().ok()?;
        let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        let &[user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks.as_slice() else {
            return None;
        };
        let busy = user + nice + system + irq + softirq + steal;
        Some(Ticks { cpu, all: busy + idle + iowait, busy, softirq, steal })
    }

    fn share_since(&self, before: &Ticks) -> CpuShare {
        let all = self.all.saturating_sub(before.all);
        // Idle time is known to run back by a tick.
        let share = |now: u64, before: u64| match all {
            0 => 0.0,
            all => now.saturating_sub(before) as f64 / all as f64,
        };
        CpuShare {
            cpu: self.cpu,
            busy: share(self.busy, before.busy).min(1.0),
            softirq: share(self.softirq, before.softirq).min(1.0),
            steal: share(self.steal, before.steal).min(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_time_between() {
        let before = Ticks::of("cpu1 100 0 50 1000 10 0 20 5 0 0").unwrap();
        let now = Ticks::of("cpu1 130 0 60 1040 10 0 30 15 0 0").unwrap();
        let share = now.share_since(&before);
        assert_eq!((share.cpu, share.busy, share.softirq, share.steal), (1, 0.6, 0.1, 0.1));
        assert_eq!(now.share_since(&now).busy, 0.0);
        assert_eq!(Ticks::of("cpu  1 2 3 4 5 6 7 8 0 0"), None);
        assert_eq!(Ticks::of("intr 1 2 3"), None);
    }

    #[test]
    fn a_busy_thread_is_seen() {
        let before = CpuTimes::now().unwrap();
        let begun = Instant::now();
        while begun.elapsed().as_millis() < 300 {
            std::hint::spin_loop();
        }
        let used = CpuTimes::now().unwrap().since(&before);
        let busy_s: f64 = used.cpus.iter().map(|cpu| cpu.busy * used.wall_s).sum();
        // Other work of the machine is in it, too; ticks are coarse.
        assert!(busy_s > 0.2, "{used:?}");
    }

    #[test]
    fn this_machine_says_what_it_is() {
        let machine = Machine::this().unwrap();
        assert!(machine.cpus >= 1 && machine.hz >= 100, "{machine:?}");
        assert!(machine.kernel_release.contains('.'), "{machine:?}");
        assert_eq!(
            cpu_model("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n"),
            "Some CPU @ 2 GHz"
        );
    }
}
