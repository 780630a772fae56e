//! What becomes of a panic in a run that has called the code of a file, and in one that has not.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use std::panic::catch_unwind;
use std::path::Path;

use knee_algo::{Host, TcpSock, module};

#[test]
fn a_panic_behind_a_call_of_a_file_is_a_sentence_about_that_call() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/modules/tcp_reno.c");
    let reno = module::load(&path).unwrap();
    let run = || {
        let mut instance = reno.instance(reno.default_params());
        instance.set_socket(6);
        let mut sock = TcpSock { tcp_clock_cache: 18_423_000, snd_cwnd: 10, ..TcpSock::default() };
        instance.ssthresh(&mut sock, &mut Host::new(1000, 1));
        panic!("cannot go on with {}", sock.snd_cwnd);
    };
    let fault = module::carry_out::<()>(run).unwrap_err().to_string();
    let expected = "tcp_reno.c: ssthresh was the last call before the simulator could not go on, by values that the file left or by a bug of \
                    knee's: cannot go on with 10 (crates/algo/tests/blame.rs:";
    assert!(fault.contains(expected), "{fault}");
    assert!(fault.ends_with("; flow 3, at 0.018423 s of simulated time"), "{fault}");
    // Without such a call it is nobody's but ours, also on a thread that made one before.
    assert!(catch_unwind(|| module::carry_out(|| panic!("ours"))).is_err());
    assert_eq!(module::carry_out(|| 3).ok(), Some(3));
}
