//! Facts about the machine and this process. None of them affects a simulation.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::param::clock_ticks_per_second;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::cgroup;

/// Version of this build, and the commit if it was built from a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// Version in `Cargo.toml`.
    pub version: &'static str,
    /// Commit. `None` means not built from a repository.
    pub commit: Option<&'static str>,
}

impl Build {
    /// Returns the build of this library, which is that of the whole program.
    pub const fn this() -> Build {
        Build { version: env!("CARGO_PKG_VERSION"), commit: option_env!("KNEE_COMMIT") }
    }
}

impl std::fmt::Display for Build {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.commit {
            Some(commit) => write!(f, "{} ({commit})", self.version),
            None => f.write_str(self.version),
        }
    }
}

/// Returns the CPU time in seconds of all threads of this process, and of its ended children, such as guests.
pub fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let of_children = std::fs::read_to_string("/proc/self/stat").ok();
    let of_children = of_children.and_then(|text| children_ticks(&text)).unwrap_or(0);
    time.tv_sec as f64
        + time.tv_nsec as f64 * 1e-9
        + of_children as f64 / clock_ticks_per_second() as f64
}

/// Returns the CPU time in seconds of the calling thread.
pub fn thread_cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Parses the user and system time of children from a line of `/proc/PID/stat`: fields 16 and 17. Field 2 is a name
/// in parentheses.
fn children_ticks(stat: &str) -> Option<u64> {
    let behind_name = stat.rsplit_once(')')?.1;
    let mut times = behind_name.split_whitespace().skip(13);
    Some(times.next()?.parse::<u64>().ok()? + times.next()?.parse::<u64>().ok()?)
}

/// Returns a value of `/proc/self/status` or `/proc/meminfo`, in kB.
fn proc_kb(file: &str, key: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the largest resident memory of this process so far, in bytes.
pub fn peak_rss_bytes() -> Option<u64> {
    Some(proc_kb("/proc/self/status", "VmHWM")? * 1024)
}

/// Returns the memory that this process can still take, in bytes: the least of what the machine has free and what the limits of
/// its control groups and its own leave.
pub fn available_memory_bytes() -> Option<u64> {
    let free = proc_kb("/proc/meminfo", "MemAvailable")? * 1024;
    let free = free.min(cgroup::memory_left_bytes().unwrap_or(u64::MAX));
    let Some(limit) = getrlimit(Resource::As).current else { return Some(free) };
    let used = proc_kb("/proc/self/status", "VmSize")? * 1024;
    Some(free.min(limit.saturating_sub(used)))
}

/// Share of free memory for runs, in per cent; the rest is for other programs.
const SHARE_PCT: u64 = 75;

/// Returns the memory that all runs together may take, in bytes.
pub fn memory_for_runs_bytes() -> u64 {
    available_memory_bytes().map_or(u64::MAX, |free| free / 100 * SHARE_PCT)
}

fn line_of(file: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Returns the host's name.
pub fn host_name() -> Option<String> {
    line_of("/proc/sys/kernel/hostname")
}

/// Returns name and release of the running kernel, as `uname -sr`.
pub fn kernel() -> Option<String> {
    Some(format!("{} {}", line_of("/proc/sys/kernel/ostype")?, kernel_release()?))
}

/// Returns the release of the running kernel, as `uname -r`.
pub fn kernel_release() -> Option<String> {
    line_of("/proc/sys/kernel/osrelease")
}

/// Returns the current time as `2026-01-31T12:00:00Z`.
pub(crate) fn utc_now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    utc(since.as_secs())
}

/// Converts seconds since 1970 to a date, with eras of 400 years that begin in March.
fn utc(secs: u64) -> String {
    let (days, second) = (secs / 86_400 + 719_468, secs % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_709_251_200), "2024-03-01T00:00:00Z");
        assert_eq!(utc(1_700_000_000), "2023-11-14T22:13:20Z");
    }

    #[test]
    fn this_process_uses_cpu_and_memory() {
        assert!(cpu_seconds() > 0.0);
        let line = "7 (a) b) S 1 7 7 0 -1 0 1 2 3 4 11 12 13 14 20 0 1 0 5";
        assert_eq!(children_ticks(line), Some(13 + 14));
        assert!(peak_rss_bytes().is_some_and(|peak| peak > 100_000));
    }
}
