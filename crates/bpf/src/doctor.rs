//! Checks what this host offers of everything that the kernel side needs, and how to get the rest.
//! The checks are cheap and change nothing: they load no module, and no program but the one that
//! reads connections. They try queue disciplines in a network namespace of their own.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use knee_netns::{Namespace, system_program};

use crate::hardening::{JIT, JIT_REMEDY, LOCKDOWN_REMEDY, lockdown_mode, read};
use crate::host::{Held, Host, USUAL, is_in_private_mounts};
use crate::{Embedded, Error, KernelApi, Rights};

/// One result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The subject of the check.
    pub what: &'static str,
    /// Whether knee's need is met; `None` for information only.
    pub ok: Option<bool>,
    pub found: String,
    /// How to get what is missing, as a command where one exists; empty if nothing is missing.
    pub remedy: String,
}

impl Finding {
    fn check(what: &'static str, ok: bool, found: impl Into<String>, remedy: &str) -> Finding {
        let remedy = if ok { String::new() } else { remedy.to_owned() };
        Finding { what, ok: Some(ok), found: found.into(), remedy }
    }

    fn info(what: &'static str, found: impl Into<String>) -> Finding {
        Finding { what, ok: None, found: found.into(), remedy: String::new() }
    }
}

/// Reports whether this kernel can load the algorithms, which parts of knee work with it, and which
/// users may run them.
pub fn kernel() -> Vec<Finding> {
    let api = KernelApi::running();
    let mut all = vec![embedded()];
    let older = "a newer kernel; docs/kernels.md says what works from which version on";
    all.push(Finding::check(
        "kernel",
        api.struct_ops && api.missing_functions.is_empty(),
        format!("{}, tick {} Hz", api.release, api.hz),
        older,
    ));
    all.push(Finding::check(
        "BTF",
        api.btf,
        if api.btf {
            "/sys/kernel/btf/vmlinux"
        } else {
            "none: the kernel does not show its types"
        },
        "a kernel with CONFIG_DEBUG_INFO_BTF=y, as distributions build them",
    ));
    if api.btf {
        all.extend(offers(api));
    }
    all.push(jit(api));
    all.extend(rights());
    all.push(lockdown());
    all.push(bpf_file_system());
    all.extend(left_behind());
    let cgroup = mounted("cgroup2");
    all.push(Finding::check(
        "cgroup v2",
        cgroup.is_some(),
        cgroup.unwrap_or_else(|| "not mounted: no algorithm by cgroup or prefix".to_owned()),
        "mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified",
    ));
    all
}

/// Reports the TCP settings of this host that loaded algorithms will meet.
pub fn network() -> Vec<Finding> {
    let mut all = vec![congestion_controls()];
    all.extend(ecn());
    all.push(plb());
    all.push(queue_disciplines());
    all
}

fn embedded() -> Finding {
    let names: Vec<_> = Embedded::all().iter().map(Embedded::name).collect();
    Finding::check(
        "BPF objects",
        !names.is_empty(),
        if names.is_empty() { "none: built without clang".into() } else { names.join(", ") },
        "apt-get install clang-19 && make build (any clang from 17 on will do)",
    )
}

/// Reports the kernel features that loading alone does not need, with the consequence of each
/// missing one.
fn offers(api: &KernelApi) -> Vec<Finding> {
    let lacks = api.lacks();
    let mut has = vec![format!("cong_control with {} arguments", api.cong_control_args)];
    for (there, what) in [
        (api.links, "links and live update"),
        (api.tx_start, "TX_START by itself"),
        (api.socket_storage, "socket storage"),
        (api.tcp_iterator, "TCP iterator"),
    ] {
        if there {
            has.push(what.to_owned());
        }
    }
    if api.missing_functions.is_empty() {
        has.push("kernel functions".to_owned());
    }
    let found = if api.struct_ops { has.join(", ") } else { "not for TCP".to_owned() };
    let mut all = vec![Finding::check(
        "struct_ops",
        api.struct_ops,
        found,
        "Linux 5.6 or later with CONFIG_BPF_SYSCALL=y and CONFIG_BPF_JIT=y",
    )];
    all.extend(lacks.iter().filter(|_| api.struct_ops).map(|lack| Finding {
        what: "lacking",
        ok: Some(false),
        found: format!("{}: {}", lack.what, lack.so),
        remedy: format!("Linux {} or later", lack.since),
    }));
    all.extend((api.struct_ops && api.spares_process_1).then(not_for_process_1));
    all
}

fn not_for_process_1() -> Finding {
    Finding::check(
        "calls left out",
        false,
        "all while the current process is process 1, also for connections of others",
        "a kernel that does not do so; docs/kernels.md says what it means",
    )
}

fn jit(api: &KernelApi) -> Finding {
    match read(JIT).as_deref() {
        Some("0") => Finding::check("JIT", false, "off", JIT_REMEDY),
        Some(_) => Finding::check("JIT", true, "on", ""),
        // Only the first namespace shows it. In kernels with struct_ops it was built in.
        None if api.struct_ops => {
            Finding::info("JIT", "not to be seen from this network namespace")
        }
        None => Finding::check("JIT", false, "none", "a kernel with CONFIG_BPF_JIT=y"),
    }
}

fn rights() -> Vec<Finding> {
    let rights = Rights::now();
    let remedy = remedy_of_rights(rights, rustix::process::geteuid().is_root());
    let words =
        |ok, capabilities: &str| format!("{} ({capabilities})", if ok { "yes" } else { "no" });
    [
        ("right to load", rights.load(), "CAP_BPF and CAP_PERFMON"),
        ("right to attach", rights.attach(), "CAP_BPF and CAP_NET_ADMIN: cgroups, default"),
        ("right to see all", rights.see(), "CAP_SYS_ADMIN: status, unload, other namespaces"),
    ]
    .map(|(what, ok, needs)| Finding::check(what, ok, words(ok, needs), remedy))
    .into()
}

/// How to get rights that this process lacks. Root is not told to become root.
fn remedy_of_rights(rights: Rights, is_root: bool) -> &'static str {
    match (rights.in_user_namespace(), is_root) {
        (true, _) => {
            "run outside of the container, or of the user namespace: its root has no rights here"
        }
        (false, true) => {
            "run outside of the container, or give it these capabilities: its root has them not"
        }
        (false, false) => "run it with sudo",
    }
}

fn lockdown() -> Finding {
    let mode = lockdown_mode().unwrap_or_else(|| "none".to_owned());
    let ok = mode != "confidentiality";
    let so = if ok {
        ""
    } else {
        ": BPF cannot read the kernel's memory, so no status, top and migrate"
    };
    Finding::check("lockdown", ok, mode + so, LOCKDOWN_REMEDY)
}

/// Reports the BPF file system, in which permanent loads are pinned. It is optional: knee mounts
/// its own.
fn bpf_file_system() -> Finding {
    const WHAT: &str = "BPF file system";
    match Host::here().pins() {
        Ok(pins) => {
            Finding::check(WHAT, true, pins.parent().unwrap_or(&pins).to_string_lossy(), "")
        }
        Err(Error::NoBpffs) if is_in_private_mounts() => Finding::check(
            WHAT,
            false,
            "none is mounted, and this mount namespace is not the host's, so one that knee mounts would \
             end with it",
            &format!("there: mount -t bpf -o mode=0700 bpf {USUAL}"),
        ),
        Err(Error::NoBpffs) => Finding::info(WHAT, "not mounted: knee mounts one for itself"),
        Err(error) => Finding::check(
            WHAT,
            false,
            error.to_string(),
            &format!("mount -t bpf -o mode=0700 bpf {USUAL}"),
        ),
    }
}

/// Reports algorithms of knee's that are no longer registered, and that new connections still get or
/// that something keeps which cannot be found. Without rights it finds nothing.
fn left_behind() -> Option<Finding> {
    let status = Host::here().status().ok()?;
    let words = |one: &Held| {
        let Held { name, defaults, listeners, elsewhere, .. } = one;
        let mut words = Vec::new();
        if !defaults.is_empty() {
            words.push(format!("default of {}", defaults.join(", ")));
        }
        if *listeners > 0 {
            words.push(format!("listeners: {listeners}"));
        }
        if let Some(more) = elsewhere.filter(|more| *more > 0) {
            words.push(format!(
                "references by closed sockets, namespaces without a process or refused defaults: {more}"
            ));
        }
        (!words.is_empty()).then(|| format!("{name} ({})", words.join("; ")))
    };
    let all: Vec<String> = status.held.iter().filter_map(words).collect();
    (!all.is_empty()).then(|| {
        Finding::check(
            "left behind",
            false,
            format!("no longer registered, but still there: {}", all.join(", ")),
            "knee unload NAME; where a namespace without a process keeps it, a reboot",
        )
    })
}

/// Finds the mount point of a file system of this type. The usual place comes first.
fn mounted(kind: &str) -> Option<String> {
    let mounts = read("/proc/self/mounts").unwrap_or_default();
    let of_kind = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (dir, found) = (words.next()?, words.next()?);
        (found == kind).then(|| dir.to_owned())
    });
    of_kind.min_by_key(|dir| !dir.starts_with("/sys/fs/"))
}

fn congestion_controls() -> Finding {
    let value = |name: &str| tcp_sysctl(name).unwrap_or_else(|| "unknown".to_owned());
    Finding::info(
        "algorithms",
        format!(
            "default {}; available {}; allowed to users {}",
            value("tcp_congestion_control"),
            value("tcp_available_congestion_control"),
            value("tcp_allowed_congestion_control")
        ),
    )
}

/// Reports the effect of the ECN settings on an algorithm that needs ECN, such as DCTCP. The
/// algorithm asks for ECN by itself, but an ordinary listener refuses it under any setting.
fn ecn() -> Vec<Finding> {
    let Some(mode) = tcp_sysctl("tcp_ecn") else { return Vec::new() };
    let meaning = match mode.as_str() {
        "0" => "off: only between algorithms that ask for ECN by themselves, as dctcp does",
        "1" => "ordinary connections ask for it and grant it",
        "2" => "ordinary connections grant it and do not ask",
        _ => "accurate ECN is asked for or granted as well",
    };
    let fallback = match tcp_sysctl("tcp_ecn_fallback").as_deref() {
        Some("0") => "no fallback: a SYN with ECN that gets lost is repeated with it",
        Some(_) => {
            "a SYN with ECN that gets lost is repeated without, and the algorithm falls back"
        }
        None => "unknown",
    };
    vec![
        Finding::info("tcp_ecn", format!("{mode}: {meaning}")),
        Finding::info("tcp_ecn_fallback", fallback),
    ]
}

fn plb() -> Finding {
    Finding::info(
        "tcp_plb_enabled",
        match tcp_sysctl("tcp_plb_enabled").as_deref() {
            None => "not in this kernel (Linux 6.2 or later): no repathing by the kernel's dctcp",
            Some("0") => "off",
            Some(_) => "on: the kernel's own dctcp moves congested IPv6 flows to other paths",
        },
    )
}

/// Queue disciplines: name, kernel option, and the arguments with which `tc` makes one.
const DISCIPLINES: [(&str, &str, &str); 7] = [
    ("fq", "CONFIG_NET_SCH_FQ", "root fq"),
    ("fq_codel", "CONFIG_NET_SCH_FQ_CODEL", "root fq_codel"),
    (
        "red",
        "CONFIG_NET_SCH_RED",
        "root red limit 60000 min 15000 max 45000 avpkt 1000 burst 20 bandwidth 10Mbit",
    ),
    ("tbf", "CONFIG_NET_SCH_TBF", "root tbf rate 1mbit burst 10kb latency 10ms"),
    ("htb", "CONFIG_NET_SCH_HTB", "root htb"),
    ("netem", "CONFIG_NET_SCH_NETEM", "root netem limit 10"),
    ("clsact", "CONFIG_NET_SCH_INGRESS", "clsact"),
];

/// Reports the queue disciplines that the kernel has. A discipline in a module file is not tried,
/// because that would load the module.
fn queue_disciplines() -> Finding {
    let what = "queue disciplines";
    let modules = module_names();
    let module = |name: &str| {
        let name = if name == "clsact" { "ingress" } else { name };
        modules.contains(&format!("sch_{name}"))
    };
    let untried: Vec<_> = DISCIPLINES.into_iter().filter(|(name, ..)| !module(name)).collect();
    let refused = match refused(&untried) {
        Ok(refused) => refused,
        Err(Untried { why, remedy }) => {
            let found = format!("could not be tried: {why}");
            return Finding { remedy: remedy.to_owned(), ..Finding::info(what, found) };
        }
    };
    let missing = |name: &str| refused.contains(&name);
    let names = |wanted: &dyn Fn(&str) -> bool| {
        let names = DISCIPLINES.iter().map(|(name, ..)| *name).filter(|name| wanted(name));
        names.collect::<Vec<_>>().join(", ")
    };
    let options =
        DISCIPLINES.iter().filter(|(name, ..)| missing(name)).map(|(_, option, _)| *option);
    let options = options.collect::<Vec<_>>().join(", ");
    let found = [
        (names(&|name| !missing(name) && !module(name)), ""),
        (names(&module), " as modules"),
        (names(&missing), " missing (knee's own queues need none of them)"),
    ];
    let found = found.iter().filter(|(names, _)| !names.is_empty());
    let found = found.map(|(names, how)| format!("{names}{how}")).collect::<Vec<_>>().join("; ");
    Finding {
        remedy: if options.is_empty() { options } else { format!("a kernel with {options}") },
        ..Finding::info(what, found)
    }
}

/// Why queue disciplines could not be tried, and what would help.
struct Untried {
    why: String,
    remedy: &'static str,
}

/// The disciplines that the kernel refuses to make.
fn refused(
    disciplines: &[(&'static str, &'static str, &'static str)],
) -> Result<Vec<&'static str>, Untried> {
    let tc = system_program("tc").ok_or_else(|| Untried {
        why: "there is no program tc".to_owned(),
        remedy: "apt-get install iproute2",
    })?;
    let namespace = Namespace::new().map_err(|why| Untried {
        why: format!("no network namespace can be made ({why})"),
        remedy: remedy_of_rights(Rights::now(), rustix::process::geteuid().is_root()),
    })?;
    let batch: String = disciplines
        .iter()
        .map(|(_, _, arguments)| {
            let verb = if arguments.starts_with("root") { "replace" } else { "add" };
            format!("qdisc {verb} dev lo {arguments}\n")
        })
        .collect();
    let output = namespace.run(move || -> io::Result<_> {
        let mut tc = Command::new(tc)
            .args(["-force", "-batch", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let batch = tc.stdin.take().map(|mut stdin| stdin.write_all(batch.as_bytes()));
        batch.transpose()?;
        tc.wait_with_output()
    });
    let output = output.map_err(|why| Untried {
        why: format!("tc does not run ({why})"),
        remedy: "apt-get install --reinstall iproute2",
    })?;
    // `tc` prints this line after the kernel's message: "Command failed -:3".
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines = errors.lines().filter_map(|line| line.strip_prefix("Command failed -:"));
    let failed = lines.filter_map(|number| number.trim().parse::<usize>().ok());
    Ok(failed.filter_map(|number| Some(disciplines.get(number - 1)?.0)).collect())
}

/// The modules of the running kernel that are files and not loaded. The names have underscores.
fn module_names() -> Vec<String> {
    let release = &KernelApi::running().release;
    let list = read(&format!("/lib/modules/{release}/modules.dep")).unwrap_or_default();
    let files = list.lines().filter_map(|line| Path::new(line.split(':').next()?).file_name());
    let names =
        files.map(|file| file.to_string_lossy().split('.').next().map(|n| n.replace('-', "_")));
    let loaded = read("/proc/modules").unwrap_or_default();
    let is_loaded = |name: &str| loaded.lines().any(|line| line.split(' ').next() == Some(name));
    names.flatten().filter(|name| name.starts_with("sch_") && !is_loaded(name)).collect()
}

fn tcp_sysctl(name: &str) -> Option<String> {
    read(&format!("/proc/sys/net/ipv4/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_not_told_to_become_root() {
        let rights = Rights::now();
        let root = remedy_of_rights(rights, true);
        assert!(!root.contains("sudo") && !root.contains("as root"), "{root}");
        if !rights.in_user_namespace() {
            assert_eq!(remedy_of_rights(rights, false), "run it with sudo");
        }
        // What could not be tried has a reason of its own, whoever asks.
        let found = queue_disciplines();
        assert!(!found.remedy.contains("as root"), "{found:?}");
    }
}
