//! Labels and order of the namespaces, on a machine in the machine: processes, mounts and a network of
//! its own, where this program is the first process and the outer network is just an open file.

#![allow(
    clippy::unwrap_used,
    reason = "all of this is test code, also outside of marked functions"
)]

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{self, Command};

use knee_netns::{Namespace, all, current, of_process};

const DIR_VARIABLE: &str = "KNEE_TEST_DIR";

#[test]
fn the_inner_tests_pass() {
    // It takes root.
    if Namespace::new().is_err() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let inner = Command::new("unshare")
        .args(["--net", "--pid", "--fork", "--mount-proc"])
        .arg(std::env::current_exe().unwrap())
        .args(["found::", "--ignored"])
        .env(DIR_VARIABLE, dir.path())
        .stdin(File::open("/proc/thread-self/ns/net").unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&inner.stdout);
    assert!(inner.status.success() && said.contains("2 passed"), "{said}");
}

#[test]
#[ignore = "an inner test"]
fn the_hosts_namespace_comes_first_and_is_called_host() {
    let outer = of_process(process::id()).unwrap();
    let found = all().unwrap();
    assert!(found.len() > 1);
    assert_eq!(found[0].id(), outer.id());
    let labels: Vec<String> = found.iter().map(|one| one.label()).collect();
    assert_eq!(labels.iter().position(|label| label == "host"), Some(0), "{labels:?}");
    assert_eq!(outer.label(), "host");
    assert_eq!(current().unwrap().label(), "host");
}

#[test]
#[ignore = "an inner test"]
fn a_namespace_with_a_name_is_called_by_it_however_it_is_found() {
    let one = Namespace::new().unwrap();
    let process = u32::try_from(one.tid()).unwrap();
    assert!(of_process(process).unwrap().label().starts_with("pid "));
    // As ip netns does.
    let name = PathBuf::from(std::env::var_os(DIR_VARIABLE).unwrap()).join("blue");
    File::create(&name).unwrap();
    let file = format!("/proc/{process}/ns/net");
    assert!(Command::new("mount").args(["--bind", &file]).arg(&name).status().unwrap().success());
    assert_eq!(of_process(process).unwrap().label(), "blue");
    assert_eq!(one.run(|| current().unwrap().label()), "blue");
    assert!(all().unwrap().iter().any(|found| found.label() == "blue"));
}

/// The first process is not everybody's to look at, not even root's on each kernel.
#[test]
fn the_namespace_of_the_kernels_threads_is_the_hosts() {
    // It takes root: others may read that thread's name and not its namespace.
    if Namespace::new().is_err() {
        return;
    }
    if fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        assert_eq!(of_process(2).unwrap().label(), "host");
        assert_eq!(all().unwrap()[0].label(), "host");
    }
}
