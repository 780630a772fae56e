//! The kernel API that a module is written against, and kernel facilities that the simulator does
//! not offer.

use crate::PRIVATE_AREA_BYTES;
use crate::tokens;

/// Kernel APIs for modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// The API of mainline kernels (kernel.org).
    Linux,
    /// The API of google/bbr, branch v3, and of L4STeam/linux.
    V3,
}

/// Names that exist only in kernels of [`Api::V3`]: operations, flags, events and fields.
const OF_V3: &[&str] = &[
    "tso_segs",
    "skb_marked_lost",
    "TCP_CONG_WANTS_CE_EVENTS",
    "CA_EVENT_TLP_RECOVERY",
    "TCP_ECN_LOW",
    "TCP_ECN_ECT_PERMANENT",
    "TCP_ECN_ECT_1",
    "tx_in_flight",
    "is_acking_tlp_retrans_seq",
    "is_ece",
    "ece_delta",
    "fast_ack_mode",
    "tlp_orig_data_app_limited",
    "srtt_pace_us",
];

impl Api {
    /// Names of the APIs on command lines and in files.
    const NAMED: [(&str, Api); 2] = [("linux", Api::Linux), ("v3", Api::V3)];

    /// Returns the API with this name.
    ///
    /// # Errors
    /// If there is none; states the allowed names.
    pub fn named(name: &str) -> Result<Api, String> {
        let named = Api::NAMED.iter().find(|(known, _)| *known == name);
        named.map(|(_, api)| *api).ok_or_else(|| {
            "must be linux, or v3 (the kernels of google/bbr v3 and of L4S)".to_owned()
        })
    }

    /// Returns the name on command lines and in files.
    pub fn name(self) -> &'static str {
        match self {
            Api::Linux => "linux",
            Api::V3 => "v3",
        }
    }

    /// Returns the API whose names a module uses.
    pub(super) fn used_by(texts: &[impl AsRef<str>]) -> Api {
        let is_v3 = texts.iter().any(|text| Api::uses_names_of_v3(text.as_ref()));
        if is_v3 { Api::V3 } else { Api::Linux }
    }

    fn uses_names_of_v3(text: &str) -> bool {
        let source = tokens::read(text);
        let defines = |name: &str| source.macros.iter().any(|defined| defined == name);
        let is_of_v3 =
            |token: &tokens::Token| OF_V3.contains(&token.text.as_str()) && !defines(&token.text);
        let members = source.tokens.windows(2).filter(|two| {
            // A module's own variables and functions may have any name. Only members, flags and
            // events count.
            matches!(two[0].text.as_str(), "." | "->")
                || two[1].text.starts_with(|c: char| c.is_ascii_uppercase())
        });
        let mut names = members.map(|two| &two[1]);
        names.any(is_of_v3)
    }

    /// Size of a connection's private area, in bytes.
    pub(super) fn private_area_bytes(self) -> u32 {
        match self {
            Api::Linux => PRIVATE_AREA_BYTES,
            Api::V3 => 216,
        }
    }
}

/// A facility that no module has here: the kernel names that use it, a description, and the way
/// out.
struct NotToBeHad {
    names: &'static [&'static str],
    what: &'static str,
    instead: &'static str,
}

/// Facilities for which a module is refused if it uses one of the names.
const NOT_TO_BE_HAD: &[NotToBeHad] = &[
    NotToBeHad {
        names: &[
            "netlink_kernel_create",
            "nlmsg_put",
            "nlmsg_new",
            "nlmsg_unicast",
            "genl_register_family",
            "genlmsg_put",
            "nlmsg_multicast",
        ],
        what: "netlink",
        instead: "nobody is in user space here: make what it is told a module_param",
    },
    NotToBeHad {
        names: &["nf_register_sockopt", "nf_unregister_sockopt", "sock_common_setsockopt"],
        what: "socket options of its own",
        instead: "no application asks for them: make them a module_param",
    },
    NotToBeHad {
        names: &[
            "tcp_write_queue_head",
            "tcp_write_queue_tail",
            "tcp_send_head",
            "tcp_rtx_queue_head",
            "tcp_rtx_queue_tail",
            "tcp_rtx_queue",
            "sk_write_queue",
            "tcp_for_write_queue",
            "tcp_for_write_queue_from",
            "skb_rbtree_walk",
            "skb_rbtree_walk_from",
            "skb_rb_next",
            "skb_rb_first",
            "skb_queue_walk",
            "tcp_queue_next",
            "sk_receive_queue",
        ],
        what: "the queue of segments",
        instead: "the simulator's is none of the kernel's: rate_sample, ack_sample and the counters of tcp_sock say what was \
                  delivered and lost",
    },
    NotToBeHad {
        names: &[
            "timer_setup",
            "setup_timer",
            "init_timer",
            "add_timer",
            "mod_timer",
            "del_timer",
            "del_timer_sync",
            "timer_delete_sync",
            "hrtimer_init",
            "hrtimer_setup",
            "hrtimer_start",
            "hrtimer_cancel",
            "tasklet_init",
            "tasklet_hrtimer_init",
            "sk_reset_timer",
            "inet_csk_reset_xmit_timer",
            "INIT_WORK",
            "INIT_DELAYED_WORK",
            "schedule_work",
            "schedule_delayed_work",
            "queue_work",
            "queue_delayed_work",
            "kthread_run",
            "kthread_create",
        ],
        what: "timers and threads of its own",
        instead: "compare tcp_jiffies32 or tp->tcp_mstamp with a time that was noted, in the operations, which every ACK calls",
    },
    NotToBeHad {
        names: &[
            "__inet_lookup_established",
            "inet_lookup",
            "__inet_lookup",
            "sk_for_each",
            "sk_nulls_for_each",
            "tcp_hashinfo",
            "sock_from_file",
            "sockfd_lookup",
            "inet_ehashfn",
        ],
        what: "other sockets",
        instead: "a connection sees itself alone; variables of the file belong to all connections of a host",
    },
    NotToBeHad {
        names: &[
            "proc_create",
            "proc_create_data",
            "create_proc_entry",
            "debugfs_create_file",
            "debugfs_create_dir",
            "sysfs_create_group",
            "kobject_create_and_add",
            "register_net_sysctl",
            "register_sysctl",
            "misc_register",
            "register_chrdev",
            "seq_printf",
            "relay_open",
        ],
        what: "files in /proc, /sys and /dev",
        instead: "nobody reads or writes them: make what is set a module_param, and show values by get_info",
    },
    NotToBeHad {
        names: &[
            "filp_open",
            "kernel_read",
            "kernel_write",
            "vfs_read",
            "vfs_write",
            "kernel_sendmsg",
            "kernel_recvmsg",
            "sock_create_kern",
            "call_usermodehelper",
            "request_firmware",
        ],
        what: "files, sockets and programs outside",
        instead: "results must follow from the experiment alone: make the values module_param, or a table in the file",
    },
    NotToBeHad {
        names: &[
            "nf_register_net_hook",
            "nf_register_hook",
            "register_kprobe",
            "register_kretprobe",
            "register_jprobe",
            "register_ftrace_function",
            "kallsyms_lookup_name",
            "register_netdevice_notifier",
            "dev_add_pack",
            "tracepoint_probe_register",
        ],
        what: "hooks elsewhere in the kernel",
        instead: "there is no kernel around it: only the operations of tcp_congestion_ops are called",
    },
];

/// Names that modules may use within a limit, with the sentence about it.
const WITHIN_LIMITS: &[(&[&str], &str)] = &[
    (
        &["tcp_prot", "tcpv6_prot", "sk_prot"],
        "replaces the socket's calls (tcp_prot): nobody calls them here, so what a socket option would set stays as \
         module_param and init leave it",
    ),
    (
        &["tcp_plb_update_state", "tcp_plb_check_rehash"],
        "uses PLB: it does nothing, as with net.ipv4.tcp_plb_enabled = 0",
    ),
];

/// Returns why a module is refused, with every unsupported facility that it uses. `None` if it uses
/// none.
pub(super) fn refusal(text: &str) -> Option<String> {
    let source = tokens::read(text);
    let used = |names: &[&str]| {
        let all = source.tokens.iter().chain(&source.bodies);
        let own = |name: &str| source.macros.iter().any(|defined| defined == name);
        let mut found =
            all.filter(|token| names.contains(&token.text.as_str()) && !own(&token.text));
        found.next().map(|token| (token.text.clone(), token.line))
    };
    let lines: Vec<String> = NOT_TO_BE_HAD
        .iter()
        .filter_map(|not| {
            let (name, line) = used(not.names)?;
            Some(format!(
                "uses {name} (line {line}): {} are not to be had: {}",
                not.what, not.instead
            ))
        })
        .map(|line| {
            line.replace("netlink are", "netlink is").replace("segments are", "segments is")
        })
        .collect();
    let (first, more) = lines.split_first()?;
    let more: String = more.iter().map(|line| format!("\nknee: it {line}")).collect();
    Some(format!("{first} (docs/modules.md#not-to-be-had){more}"))
}

/// Returns one sentence for each limit that applies to a module.
pub(super) fn limits(texts: &[impl AsRef<str>], api: Api) -> Vec<String> {
    let sources: Vec<_> = texts.iter().map(|text| tokens::read(text.as_ref())).collect();
    let uses = |names: &[&str]| {
        let mut all = sources.iter().flat_map(|source| &source.tokens);
        all.any(|token| names.contains(&token.text.as_str()))
    };
    let mut all: Vec<String> = Vec::new();
    if api == Api::V3 {
        all.push("is compiled against the API of google/bbr v3 and L4S (api = v3)".to_owned());
    }
    let limited = WITHIN_LIMITS.iter().filter(|(names, _)| uses(names));
    all.extend(limited.map(|(_, limit)| (*limit).to_owned()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_is_that_of_the_names_that_a_module_uses() {
        for (text, api) in [
            ("static struct tcp_congestion_ops x = { .tso_segs = f };", Api::V3),
            ("if (rs->tx_in_flight > 3) y();", Api::V3),
            (".flags = TCP_CONG_WANTS_CE_EVENTS,", Api::V3),
            (".min_tso_segs = f, /* not .tso_segs */", Api::Linux),
            ("u32 tso_segs = 3;", Api::Linux),
            ("#define TCP_ECN_LOW 16\nif (x & TCP_ECN_LOW) y();", Api::Linux),
        ] {
            assert_eq!(Api::used_by(&[text]), api, "{text}");
        }
        assert_eq!(Api::used_by(&["int x;", "y = rs->is_ece;"]), Api::V3, "of several files");
    }

    #[test]
    fn what_is_not_to_be_had_is_named_with_its_line() {
        let text =
            "/* timer_setup */\nvoid f(void)\n{\n\tmod_timer(&t, 3);\n\tnlmsg_new(1, 2);\n}\n";
        let why = refusal(text).unwrap();
        assert!(why.starts_with("uses nlmsg_new (line 5): netlink is not to be had"), "{why}");
        assert!(
            why.contains("\nknee: it uses mod_timer (line 4): timers and threads of its own are"),
            "{why}"
        );
        assert_eq!(refusal("/* nlmsg_new */ int mod_timers;"), None);
    }

    #[test]
    fn limits_are_said() {
        assert_eq!(limits(&["int x;"], Api::Linux), Vec::<String>::new());
        let brutal = limits(&["sk->sk_prot = &mine;"], Api::Linux);
        assert!(brutal[0].starts_with("replaces the socket's calls (tcp_prot)"), "{brutal:?}");
    }
}
