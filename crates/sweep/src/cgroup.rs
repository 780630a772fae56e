//! The memory that control groups leave to this process: a pod has less than its machine.

use std::fs;
use std::path::{Path, PathBuf};

/// Files of one version of control groups.
#[derive(Clone, Copy, Debug)]
struct Files {
    /// Each may hold a limit in bytes.
    limits: &'static [&'static str],
    used: &'static str,
    /// Of `memory.stat`: what the kernel gives back before a limit is met.
    reclaimable: &'static str,
}

const V2: Files = Files {
    limits: &["memory.max", "memory.high"],
    used: "memory.current",
    reclaimable: "inactive_file",
};
const V1: Files = Files {
    limits: &["memory.limit_in_bytes"],
    used: "memory.usage_in_bytes",
    reclaimable: "total_inactive_file",
};

/// Returns the bytes that the control groups of this process leave to it. `None` without a limit.
pub(crate) fn memory_left_bytes() -> Option<u64> {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    left(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"))
}

/// `cgroup` and `mountinfo` are the texts of these files of `/proc/self`.
fn left(cgroup: &str, mountinfo: &str) -> Option<u64> {
    let groups = cgroup.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        match controllers.split(',').any(|name| name == "memory") {
            true => Some((V1, path)),
            false => controllers.is_empty().then_some((V2, path)),
        }
    });
    let of_group = |(files, path)| {
        let (root, mounted) = mount(mountinfo, files)?;
        // The root of a container's mount is its own group. What lies outside of it has a path that does not begin so.
        let inside = Path::new(path).strip_prefix(&root).unwrap_or(Path::new(""));
        let group = mounted.join(inside);
        let all = group.ancestors().take_while(|group| group.starts_with(&mounted));
        all.filter_map(|group| left_in(group, files)).min()
    };
    groups.filter_map(of_group).min()
}

/// Where groups of memory are mounted: the group at the root, and the directory.
fn mount(mountinfo: &str, files: Files) -> Option<(PathBuf, PathBuf)> {
    mountinfo.lines().find_map(|line| {
        let (before, behind) = line.split_once(" - ")?;
        let mut behind = behind.split(' ');
        let is_v2 = files.used == V2.used;
        let is_it = match behind.next()? {
            "cgroup2" => is_v2,
            "cgroup" => !is_v2 && behind.nth(1)?.split(',').any(|option| option == "memory"),
            _ => false,
        };
        let mut before = before.split(' ').skip(3).map(PathBuf::from);
        is_it.then(|| Some((before.next()?, before.next()?)))?
    })
}

/// Returns the bytes that one group leaves. `None` without a limit.
fn left_in(group: &Path, files: Files) -> Option<u64> {
    let read = |file: &str| fs::read_to_string(group.join(file)).ok();
    let number = |file: &&str| read(file)?.trim().parse::<u64>().ok();
    // The first version says with its largest number that there is none.
    let limits = files.limits.iter().filter_map(number).filter(|limit| *limit < 1 << 60);
    let limit = limits.min()?;
    let used = number(&files.used)?;
    let stat = read("memory.stat").unwrap_or_default();
    let of_stat = |line: &str| line.strip_prefix(files.reclaimable)?.trim().parse::<u64>().ok();
    let reclaimable = stat.lines().find_map(of_stat).unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(reclaimable)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes files below a directory.
    fn group(dir: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(dir).unwrap();
        for (name, text) in files {
            fs::write(dir.join(name), text).unwrap();
        }
    }

    #[test]
    fn the_tightest_group_of_a_process_counts_less_what_can_be_given_back() {
        let mounted = tempfile::tempdir().unwrap();
        let at = mounted.path().display();
        group(&mounted.path().join("pods/a"), &[("memory.max", "max\n")]);
        group(
            &mounted.path().join("pods"),
            &[
                ("memory.max", "4000000000\n"),
                ("memory.high", "max\n"),
                ("memory.current", "1500000000\n"),
                ("memory.stat", "anon 1\ninactive_file 500000000\nactive_file 7\n"),
            ],
        );
        let v2 = format!("30 24 0:26 / {at} rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
        assert_eq!(left("0::/pods/a\n", &v2), Some(3_000_000_000));
        // In a container the mount's root is the group itself, or one that it cannot name.
        let inside = v2.replace(" / ", " /pods/a ").replace(&at.to_string(), &format!("{at}/pods"));
        assert_eq!(left("0::/pods/a\n", &inside), Some(3_000_000_000));
        assert_eq!(left("0::/../b\n", &inside), Some(3_000_000_000));
        assert_eq!(left("0::/none\n", &v2), None);
        assert_eq!(left("", ""), None);
        let v1 = format!("36 24 0:31 / {at} rw - cgroup cgroup rw,memory\n");
        group(mounted.path(), &[("memory.limit_in_bytes", "9223372036854771712\n")]);
        group(
            &mounted.path().join("b"),
            &[
                ("memory.limit_in_bytes", "1000\n"),
                ("memory.usage_in_bytes", "2000\n"),
                ("memory.stat", "total_inactive_file 500\n"),
            ],
        );
        assert_eq!(left("4:cpu,memory:/b\n0::/\n", &v1), Some(0));
        assert_eq!(left("4:memory:/\n", &v1), None);
    }
}
