//! The rights that the kernel gives this process.

use std::fs;

/// Bits of the effective capabilities in `/proc/thread-self/status`.
const CAP_NET_ADMIN: u64 = 1 << 12;
const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_PERFMON: u64 = 1 << 38;
const CAP_BPF: u64 = 1 << 39;
/// The content of `/proc/self/uid_map` in the first user namespace: all users, unchanged.
const FIRST_USER_NAMESPACE: [&str; 3] = ["0", "0", "4294967295"];

/// The rights of this process, or more exactly of this thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    effective: u64,
    in_user_namespace: bool,
}

impl Rights {
    /// Reads the present rights of this thread; none if /proc does not show them.
    pub fn now() -> Rights {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        let effective = status
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:"))
            .and_then(|value| u64::from_str_radix(value.trim(), 16).ok())
            .unwrap_or(0);
        let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let in_user_namespace = !map.split_whitespace().eq(FIRST_USER_NAMESPACE);
        Rights { effective, in_user_namespace }
    }

    /// Whether it may load algorithms: CAP_BPF, and CAP_PERFMON because they read sockets.
    pub fn load(self) -> bool {
        self.has(CAP_BPF | CAP_PERFMON)
    }

    /// Whether it may attach programs to cgroups and devices, and write sysctls: CAP_BPF and
    /// CAP_NET_ADMIN.
    pub fn attach(self) -> bool {
        self.has(CAP_BPF | CAP_NET_ADMIN)
    }

    /// Whether it may list what other users have loaded, and enter their network namespaces:
    /// CAP_SYS_ADMIN.
    pub fn see(self) -> bool {
        self.has(CAP_SYS_ADMIN)
    }

    /// Whether it is in another user namespace, such as a container's, whose root has no rights to
    /// BPF.
    pub fn in_user_namespace(self) -> bool {
        self.in_user_namespace
    }

    fn has(self, all: u64) -> bool {
        let given = self.effective & all == all || self.effective & CAP_SYS_ADMIN != 0;
        given && !self.in_user_namespace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_administrator_of_the_host_may_everything_and_that_of_a_container_nothing() {
        let rights = |effective, in_user_namespace| Rights { effective, in_user_namespace };
        let all = |rights: Rights| [rights.load(), rights.attach(), rights.see()];
        assert_eq!(all(rights(CAP_SYS_ADMIN, false)), [true; 3]);
        assert_eq!(all(rights(!0, true)), [false; 3]);
        assert_eq!(all(rights(CAP_BPF | CAP_PERFMON, false)), [true, false, false]);
        assert_eq!(all(rights(CAP_BPF | CAP_NET_ADMIN, false)), [false, true, false]);
    }
}
