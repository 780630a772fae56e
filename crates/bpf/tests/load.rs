//! Every algorithm is accepted by the running kernel's verifier and registered.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of this is test code, also outside of the functions marked so"
)]

use knee_algo::Algorithm;
use knee_bpf::{Embedded, Error, Loaded};
use knee_testbed::{outside, own_name, wait_until_free};

fn available() -> String {
    std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap()
}

fn names() -> Vec<String> {
    available().split_whitespace().map(str::to_owned).collect()
}

#[test]
fn the_kernel_takes_every_algorithm_and_forgets_it_when_dropped() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    for (algorithm, embedded) in outside::with_all() {
        let name = own_name(algorithm.name()).to_owned();
        let params = algorithm.default_params();
        let loaded = Loaded::register_for_any_user(embedded, &name, &params)
            .unwrap_or_else(|error| panic!("{error}"));
        assert!(names().contains(&name), "{}", available());
        let registered = knee_bpf::registered().unwrap();
        let ours = registered.iter().find(|one| one.name == name).expect("it is registered");
        // The kernel keeps eight letters.
        assert_eq!(ours.algorithm, algorithm.name().chars().take(8).collect::<String>());
        assert!(ours.programs.iter().any(|(member, _)| member == "ssthresh"), "{ours:?}");
        println!("{name}: instructions the verifier walked");
        for (program, instructions) in loaded.verified_instructions().unwrap() {
            println!("  {instructions:7} {program}");
        }
        let again = Loaded::register_for_any_user(embedded, &name, &params).err().unwrap();
        assert_eq!(
            again.to_string(),
            format!("an algorithm named \"{name}\" is registered already")
        );
        drop(loaded);
        wait_until_free(&name);
        // In the lab a program that notes init stands in its place.
        let noting = Loaded::register_noting_init(embedded, &name, &params);
        drop(noting.unwrap_or_else(|error| panic!("{error}")));
        wait_until_free(&name);
    }
}

/// What `knee new algorithm` writes is this file under another name.
#[test]
fn the_kernel_takes_the_template_of_new_algorithms() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let template = Algorithm::for_tests("newcc");
    let embedded = Embedded::for_tests("newcc").unwrap();
    let loaded =
        Loaded::register_for_any_user(embedded, own_name("newcc"), &template.default_params());
    let loaded = loaded.unwrap_or_else(|error| panic!("{error}"));
    assert!(names().contains(&own_name("newcc").to_owned()), "{}", available());
    drop(loaded);
    wait_until_free(own_name("newcc"));
}

#[test]
fn what_an_algorithm_needs_is_looked_up_without_loading_it() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    for embedded in Embedded::all() {
        knee_bpf::check_fits(embedded).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn a_name_the_kernel_could_not_hold_is_refused_before_the_load() {
    let dctcp = Algorithm::by_name("dctcp").unwrap();
    let Ok(embedded) = Embedded::by_name("dctcp") else { return };
    for name in ["", "sixteen_letters_", "two words"] {
        let refused = Loaded::register_for_any_user(embedded, name, &dctcp.default_params());
        assert!(matches!(refused.err().unwrap(), Error::BadName { .. }), "{name}");
    }
}

#[test]
fn parameters_of_another_algorithm_are_refused_before_the_load() {
    let reno = Algorithm::by_name("reno").unwrap();
    let dctcp = Algorithm::by_name("dctcp").unwrap();
    let Ok(embedded) = Embedded::by_name("dctcp") else { return };
    let refused =
        Loaded::register_for_any_user(embedded, "knee_x", &reno.default_params()).err().unwrap();
    let expected = format!("dctcp has {} parameters, 0 were given", dctcp.params().len());
    assert_eq!(refused.to_string(), expected);
}
