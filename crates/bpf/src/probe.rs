//! The features that the running kernel offers to congestion controls in BPF. They come from its
//! type information (BTF) where possible, otherwise from its version.

use std::fs;
use std::sync::OnceLock;

use knee_units::LinuxVersion;
use libbpf_rs::btf::types::{Func, FuncProto, MemberAttr, Ptr, Struct};
use libbpf_rs::btf::{Btf, ReferencesType as _};
use rustix::time::{ClockId, clock_getres};

/// The kernel functions that algorithms may call (bpf.h), since Linux 5.13.
const KERNEL_FUNCTIONS: [&str; 5] = [
    "tcp_slow_start",
    "tcp_cong_avoid_ai",
    "tcp_reno_ssthresh",
    "tcp_reno_undo_cwnd",
    "tcp_reno_cong_avoid",
];
const KERNEL_FUNCTIONS_SINCE: LinuxVersion = LinuxVersion(5, 13);

/// Fields that algorithms may write only on newer kernels: struct, field, and first version.
const WRITABLE_SINCE: [(&str, &str, LinuxVersion); 4] = [
    ("sock", "sk_pacing_rate", LinuxVersion(6, 0)),
    ("sock", "sk_pacing_status", LinuxVersion(6, 0)),
    ("tcp_sock", "app_limited", LinuxVersion(6, 4)),
    ("tcp_sock", "snd_cwnd_stamp", LinuxVersion(6, 10)),
];

/// The features that a kernel offers to congestion controls in BPF.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelApi {
    /// The kernel's release, as `uname -r` prints it.
    pub release: String,
    /// The release's first two numbers; 0.0 if it has none.
    pub version: LinuxVersion,
    /// Ticks per second of the kernel's coarse clock (`CONFIG_HZ`).
    pub hz: u32,
    /// Whether the kernel has BTF of its own types, without which none of knee's objects loads.
    pub btf: bool,
    /// Whether the kernel accepts congestion controls in BPF.
    pub struct_ops: bool,
    /// Whether a registration can be a link, which can be updated and pinned by itself. Without
    /// links the map of operations is the registration, and there is no live update.
    pub links: bool,
    /// The number of arguments of `cong_control`: 4, or 2 where `ack` and `flag` are missing.
    pub cong_control_args: usize,
    /// Whether the event TX_START is an operation of its own.
    pub tx_start: bool,
    /// Kernel functions that algorithms call but this kernel does not allow.
    pub missing_functions: Vec<&'static str>,
    /// Whether a program can iterate over the TCP sockets.
    pub tcp_iterator: bool,
    /// Whether programs at a device are links (TCX), which end with their owner and coexist with
    /// others.
    pub tcx: bool,
    /// Whether a program can store state with a socket.
    pub socket_storage: bool,
    /// Whether the kernel skips every BPF program within process 1, even for packets that arrive
    /// while it interrupts that process. A kernel built for sandboxes does so; no kernel of
    /// kernel.org is known to.
    pub spares_process_1: bool,
    /// Fields (struct, name) that algorithms may write only on newer kernels, as far as BTF has
    /// them. Each comes with its offset in bytes and the first version that allows it.
    not_writable: Vec<(&'static str, usize, LinuxVersion)>,
}

/// A feature that this kernel lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The feature, as a noun.
    pub what: &'static str,
    /// The consequence for knee.
    pub so: &'static str,
    /// The first version that has it.
    pub since: LinuxVersion,
}

impl KernelApi {
    /// The features of the running kernel. They are read once.
    pub fn running() -> &'static KernelApi {
        static RUNNING: OnceLock<KernelApi> = OnceLock::new();
        RUNNING.get_or_init(|| {
            let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
            KernelApi::of(release.trim(), tick_hz(), Btf::from_vmlinux().ok().as_ref())
        })
    }

    /// The features of a kernel with this release, tick and BTF.
    fn of(release: &str, hz: u32, btf: Option<&Btf<'_>>) -> KernelApi {
        let version = LinuxVersion::of_release(release).unwrap_or_default();
        let mut api =
            KernelApi { release: release.to_owned(), version, hz, ..KernelApi::default() };
        let Some(btf) = btf else { return api };
        let has_struct = |name: &str| btf.type_by_name::<Struct<'_>>(name).is_some();
        let has_function = |name: &str| btf.type_by_name::<Func<'_>>(name).is_some();
        let ops = btf.type_by_name::<Struct<'_>>("tcp_congestion_ops");
        let member = |name: &str| {
            ops.as_ref()?.iter().find(|member| member.name.is_some_and(|found| found == name))
        };
        api.btf = true;
        api.struct_ops = has_struct("bpf_struct_ops_tcp_congestion_ops");
        api.links = has_struct("bpf_struct_ops_link");
        api.cong_control_args = member("cong_control")
            .and_then(|member| btf.type_by_id::<Ptr<'_>>(member.ty))
            .and_then(|pointer| FuncProto::try_from(pointer.referenced_type()).ok())
            .map_or(0, |function| function.iter().len());
        api.tx_start = member("cwnd_event_tx_start").is_some();
        api.missing_functions = KERNEL_FUNCTIONS
            .into_iter()
            .filter(|name| version < KERNEL_FUNCTIONS_SINCE || !has_function(name))
            .collect();
        api.tcp_iterator = has_function("bpf_iter_tcp");
        api.tcx = has_struct("tcx_link");
        api.socket_storage = has_function("bpf_sk_storage_get");
        api.spares_process_1 = offset(btf, "bpf_prog_aux", "init_owned").is_some();
        api.not_writable = WRITABLE_SINCE
            .into_iter()
            .filter(|(_, _, since)| version < *since)
            .filter_map(|(of, field, since)| Some((field, offset(btf, of, field)?, since)))
            .collect();
        api
    }

    /// The missing features, most important first; empty if everything that knee can use is there.
    pub fn lacks(&self) -> Vec<Lack> {
        let mut lacks = Vec::new();
        let mut unless = |has: bool, what, so, since| {
            if !has {
                lacks.push(Lack { what, so, since });
            }
        };
        unless(
            self.btf,
            "type information (CONFIG_DEBUG_INFO_BTF)",
            "nothing can be loaded",
            LinuxVersion(5, 4),
        );
        unless(
            self.struct_ops,
            "congestion control in BPF (CONFIG_BPF_JIT, CONFIG_BPF_SYSCALL)",
            "nothing can be loaded",
            LinuxVersion(5, 6),
        );
        unless(
            self.missing_functions.is_empty(),
            "kernel functions for BPF",
            "algorithms that build on Reno's cannot be loaded",
            KERNEL_FUNCTIONS_SINCE,
        );
        unless(
            self.version >= LinuxVersion(6, 0),
            "pacing by BPF",
            "algorithms that pace cannot be loaded",
            LinuxVersion(6, 0),
        );
        unless(
            self.links,
            "struct_ops links",
            "no trials (--confirm-within), and no live update under the same name",
            LinuxVersion(6, 4),
        );
        unless(
            self.tcx,
            "links of programs at devices",
            "no other paths by IPv6 labels (knee plb)",
            LinuxVersion(6, 6),
        );
        unless(
            self.cong_control_args >= 4,
            "the flag of cong_control",
            "algorithms that look at it cannot be loaded",
            LinuxVersion(6, 10),
        );
        unless(
            self.tcp_iterator,
            "iterators over TCP sockets",
            "nothing can look inside of connections or move them",
            LinuxVersion(5, 9),
        );
        lacks
    }

    /// The feature that the verifier or libbpf found missing, and its first version, if the
    /// messages `log` name one.
    pub(crate) fn lack_in(&self, log: &str) -> Option<(String, LinuxVersion)> {
        if let Some(offset) = number_after(log, "no write support to tcp_sock at off ") {
            let field = self.not_writable.iter().find(|(_, known, _)| *known == offset)?;
            return Some((format!("to write {}", field.0), field.2));
        }
        if MAY_GOTO.iter().any(|words| log.contains(words)) {
            return Some((
                "a loop whose end the verifier does not see".to_owned(),
                LinuxVersion(6, 9),
            ));
        }
        let (_, rest) = log.split_once("extern (func ksym) '")?;
        let (name, rest) = rest.split_once('\'')?;
        let known = rest.starts_with(": not found") && KERNEL_FUNCTIONS.contains(&name);
        known.then(|| (format!("the kernel function {name}"), KERNEL_FUNCTIONS_SINCE))
    }
}

/// Messages of verifiers that do not know the instruction may_goto (module_bpf.h).
const MAY_GOTO: [&str; 2] = ["unknown opcode e5", "invalid BPF_JMP/JMP32 opcode e0"];

/// Measures `CONFIG_HZ` by the tick of the coarse clock. The configuration is not always readable:
/// Debian's kernels do not show it, and a container does not have the host's /boot.
pub(crate) fn tick_hz() -> u32 {
    let tick = clock_getres(ClockId::MonotonicCoarse);
    let tick_ns = u64::try_from(tick.tv_nsec).unwrap_or(0).max(1);
    let hz = (1_000_000_000 + tick_ns / 2) / tick_ns;
    u32::try_from(hz).unwrap_or(u32::MAX)
}

/// The offset of a field, in bytes.
fn offset(btf: &Btf<'_>, of: &str, field: &str) -> Option<usize> {
    let found = btf.type_by_name::<Struct<'_>>(of)?;
    let member = found.iter().find(|member| member.name.is_some_and(|name| name == field))?;
    match member.attr {
        MemberAttr::Normal { offset } => Some(offset as usize / 8),
        MemberAttr::BitField { .. } => None,
    }
}

fn number_after(text: &str, words: &str) -> Option<usize> {
    let (_, rest) = text.split_once(words)?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_btf_lacks_everything_and_is_no_error() {
        let api = KernelApi::of("5.3.0", 250, None);
        assert_eq!(api.lacks().first().map(|lack| lack.since), Some(LinuxVersion(5, 4)));
        assert_eq!(api.cong_control_args, 0);
    }

    #[test]
    fn what_the_verifier_refuses_has_a_name_and_a_version() {
        let api = KernelApi {
            not_writable: vec![("snd_cwnd_stamp", 1444, LinuxVersion(6, 10))],
            ..KernelApi::of("6.1.0", 250, None)
        };
        let words = |log| api.lack_in(log);
        assert_eq!(
            words("13: (63)\nno write support to tcp_sock at off 1444\nprocessed 5 insns"),
            Some(("to write snd_cwnd_stamp".to_owned(), LinuxVersion(6, 10)))
        );
        // No kernel version allows writing that field.
        assert_eq!(words("no write support to tcp_sock at off 8\n"), None);
        let missing =
            "libbpf: extern (func ksym) 'tcp_slow_start': not found in kernel or module BTFs\n";
        assert_eq!(
            words(missing),
            Some(("the kernel function tcp_slow_start".to_owned(), LinuxVersion(5, 13)))
        );
        assert_eq!(words("R1 invalid mem access 'scalar'\n"), None);
    }

    #[test]
    fn this_machine_ticks_a_whole_number_of_times_per_second() {
        assert!([100, 250, 300, 1000].contains(&tick_hz()), "{}", tick_hz());
    }
}
