//! Kinds of what modules use: several files, macros and folders, kernels of other times, parameters with callbacks, counters, what is printed.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use knee_algo::module::{LinuxApi, Options as ModuleOptions};
use knee_scenario::{Error, Experiment, Overrides};
use knee_sim::Simulator;
use knee_sweep::results::Results;
use knee_sweep::runner::sweep;
use knee_sweep::runs::Options;
use serde_json::Value as Json;

const NETWORK: &str = r#"question = "Which kinds?"

[network]
topology = "many-to-one"
senders = 2
access = { rate = "1 Gbps" }
return = { delay = "1 ms" }
bottleneck = { rate = "100 Mbps", queue = { kind = "droptail", limit = "40 pkts" } }

[[traffic]]
name = "bulk"
kind = "bulk"
from = "s1..s2"
to = "r"

[run]
duration = "200 ms"
"#;

/// Reno, with more before its operations and in its `init`.
fn module(before: &str, in_init: &str, table: &str) -> String {
    format!(
        "#include <linux/module.h>\n#include <net/tcp.h>\n{before}\n\
         static void foo_init(struct sock *sk)\n{{\n{in_init}\n}}\n\
         static struct tcp_congestion_ops foo = {{\n\t.init = foo_init,\n\t.ssthresh = tcp_reno_ssthresh,\n\
         \t.cong_avoid = tcp_reno_cong_avoid,\n\t.undo_cwnd = tcp_reno_undo_cwnd,\n{table}\n\t.name = \"foo\",\n}};\n\
         static int __init foo_register(void)\n{{\n\treturn tcp_register_congestion_control(&foo);\n}}\n\
         module_init(foo_register);\nMODULE_LICENSE(\"GPL\");\n"
    )
}

struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Scratch {
        Scratch(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Runs the network with this file, and reads files of the results.
    fn run(
        &self,
        extra: &str,
        overrides: &Overrides,
    ) -> Result<impl Fn(&str) -> String + use<>, Error> {
        let path = self.0.path().join("x.toml");
        let experiment =
            Arc::new(Experiment::parse(&path, &format!("{extra}{NETWORK}"), overrides)?);
        let dir = self.0.path().join("results");
        let _ = fs::remove_dir_all(&dir);
        let mut results = Results::at(&dir).unwrap();
        let options = Options { threads: 1, ..Options::new(Arc::new(Simulator)) };
        let swept = sweep(&experiment, &options, &mut results, &mut |_| {})?;
        results.finish(&experiment, &swept, &[]).unwrap();
        Ok(move |name: &str| fs::read_to_string(dir.join(name)).unwrap_or_default())
    }
}

fn cc(name: &str) -> Overrides {
    Overrides { cc: vec![name.to_owned()], ..Overrides::default() }
}

fn refused(scratch: &Scratch, overrides: &Overrides) -> String {
    match scratch.run("", overrides) {
        Ok(_) => panic!("it runs"),
        Err(why) => why.to_string(),
    }
}

#[test]
fn a_module_of_two_files_uses_functions_of_the_second_and_runs_the_first() {
    let scratch = Scratch::new();
    scratch.write("b.h", "u32 b_ssthresh(struct sock *sk);\n");
    scratch.write(
        "tcp_b.c",
        "#include <linux/module.h>\n#include <net/tcp.h>\n#include \"b.h\"\n\
         u32 b_ssthresh(struct sock *sk) { return max(tcp_snd_cwnd(tcp_sk(sk)) / 4, 2U); }\n\
         EXPORT_SYMBOL_GPL(b_ssthresh);\n\
         static struct tcp_congestion_ops b = { .ssthresh = b_ssthresh, .cong_avoid = tcp_reno_cong_avoid,\n\
         .undo_cwnd = tcp_reno_undo_cwnd, .name = \"b\" };\n\
         static int __init b_register(void) { return tcp_register_congestion_control(&b); }\nmodule_init(b_register);\n",
    );
    let text =
        module("#include \"b.h\"", "\tpr_info(\"%s\\n\", inet_csk(sk)->icsk_ca_ops->name);", "")
            .replace("tcp_reno_ssthresh", "b_ssthresh");
    let first = scratch.write("tcp_a.c", &text);
    let results = scratch.run("", &cc(&format!("{first}+tcp_b.c"))).unwrap();
    let log = results("module-log.csv");
    assert!(log.lines().skip(1).count() >= 2, "{log}");
    assert!(log.lines().skip(1).all(|line| line.ends_with(",foo")), "{log}");
    let manifest: Json = serde_json::from_str(&results("manifest.json")).unwrap();
    let others = manifest["modules"][0]["others"].as_array().unwrap();
    let named =
        |name: &str| others.iter().any(|file| file["path"].as_str().unwrap().ends_with(name));
    assert!(named("/tcp_b.c") && named("/b.h") && others.len() == 2, "{others:?}");
    // Alone it lacks the other.
    let alone = refused(&scratch, &cc(&first));
    assert!(alone.contains("b_ssthresh"), "{alone}");
}

#[test]
fn macros_folders_and_the_kernels_release_come_from_the_command_and_the_experiment() {
    let scratch = Scratch::new();
    scratch.write("common/gain.h", "#define SCALE 100\n");
    let text = module(
        "#include \"gain.h\"\n#if LINUX_VERSION_CODE >= KERNEL_VERSION(4, 7, 0)\n#error new\n#endif\n\
         static void foo_acked(struct sock *sk, u32 num_acked, s32 rtt_us)\n{\n\
         \tif (num_acked > 0 && rtt_us > 0)\n\t\tNET_ADD_STATS(sock_net(sk), LINUX_MIB_TCPHYSTARTDELAYCWND, num_acked);\n}\n",
        "\tpr_info(\"%d\\n\", GAIN * SCALE);",
        "\t.pkts_acked = foo_acked,",
    );
    let file = scratch.write("tcp_old.c", &text);
    let lacks = refused(&scratch, &cc(&file));
    assert!(lacks.contains("gain.h"), "{lacks}");
    let modules = ModuleOptions {
        define: vec!["GAIN=3".into()],
        include: vec![scratch.0.path().join("common")],
        linux: Some(LinuxApi::named("4.4").unwrap()),
        ..ModuleOptions::default()
    };
    let by_command = scratch.run("", &Overrides { modules, ..cc(&file) }).unwrap();
    assert!(by_command("module-log.csv").contains(",300\n"));
    let counted = by_command("module-counters.csv");
    assert!(counted.contains(",s1,TcpExtTCPHystartDelayCwnd,"), "{counted}");
    let manifest: Json = serde_json::from_str(&by_command("manifest.json")).unwrap();
    assert_eq!(manifest["modules"][0]["define"][0], "GAIN=3");
    assert_eq!(manifest["modules"][0]["linux"], "4.4");
    // The same from the file, where the folder is seen from it.
    let extra = "cc = [\"tcp_old.c\"]\nmodule = { define = [\"GAIN=5\"], include = [\"common\"], linux = \"4.4\" }\n";
    let by_file = scratch.run(extra, &Overrides::default()).unwrap();
    assert!(by_file("module-log.csv").contains(",500\n"));
    for (wrong, what) in [
        ("module = { define = [\"A B\"] }\n", "the name of a macro"),
        ("module = { linux = \"3.10\" }\n", "4.19"),
    ] {
        let why = Experiment::parse(Path::new("x.toml"), &format!("{wrong}{NETWORK}"), &cc("reno"));
        assert!(why.unwrap_err().to_string().contains(what), "{wrong}");
    }
}

#[test]
fn a_parameter_with_callbacks_is_set_by_them() {
    let scratch = Scratch::new();
    let text = module(
        "static unsigned int shift = 4;\nstatic int shift_set(const char *val, const struct kernel_param *kp)\n{\n\
         \treturn param_set_uint_minmax(val, kp, 0, 10);\n}\n\
         static const struct kernel_param_ops shift_ops = { .set = shift_set, .get = param_get_uint };\n\
         module_param_cb(shift, &shift_ops, &shift, 0644);\nMODULE_PARM_DESC(shift, \"how far\");\n",
        "\tpr_info(\"shift %u\\n\", shift);",
        "",
    );
    let file = scratch.write("tcp_cb.c", &text);
    let with = |value: u32| Overrides { set: vec![format!("params.shift={value}")], ..cc(&file) };
    let log = scratch.run("", &with(7)).unwrap()("module-log.csv");
    assert!(log.contains(",shift 7\n"), "{log}");
    let default = scratch.run("", &cc(&file)).unwrap()("module-log.csv");
    assert!(default.contains(",shift 4\n"), "{default}");
    let why = refused(&scratch, &with(11));
    assert!(why.contains("shift does not take 11") && why.contains("EINVAL"), "{why}");
}

#[test]
fn what_is_printed_has_its_time_flow_and_level() {
    let scratch = Scratch::new();
    let text = module(
        "static void foo_state(struct sock *sk, u8 state)\n{\n\tWARN_ON(state == TCP_CA_Recovery);\n\
         \tWARN_ON_ONCE(state == TCP_CA_Recovery);\n\tpr_debug(\"no\");\n}\n",
        "\tpr_err(\"cwnd %u, \", tcp_snd_cwnd(tcp_sk(sk)));\n\tpr_cont(\"\\\"quoted\\\"\\n\");",
        "\t.set_state = foo_state,",
    )
    .replace("static int __init foo_register(void)\n{", "static int __init foo_register(void)\n{\n\tprintk(\"here\\n\");");
    let file = scratch.write("tcp_says.c", &text);
    let log = scratch.run("", &cc(&file)).unwrap()("module-log.csv");
    let lines: Vec<Vec<&str>> =
        log.lines().skip(1).map(|line| line.splitn(9, ',').collect()).collect();
    let of =
        |level: &str| lines.iter().filter(|line| line[6] == level).cloned().collect::<Vec<_>>();
    let errors = of("err");
    assert_eq!(errors.len(), 4, "{log}");
    assert!(
        errors
            .iter()
            .all(|line| line[7] == "tcp_says.c" && line[8].contains("\"cwnd 10, \"\"quoted\"\"\""))
    );
    assert!(errors.iter().any(|line| line[5] == "1" && line[3] != "0"), "{log}");
    // One in module_init of each host, and then a flow's.
    let warnings = of("warning");
    assert!(warnings.iter().any(|line| line[5].is_empty() && line[8] == "here"), "{log}");
    let states = warnings.iter().filter(|line| line[8].contains("WARN_ON(state"));
    let once = warnings.iter().filter(|line| line[8].contains("WARN_ON_ONCE(state")).count();
    assert!(states.count() > once && (1..=2).contains(&once), "{log}");
    assert!(!log.contains("no"), "{log}");
}

#[test]
fn entering_cwr_reduces_the_window_as_a_mark_does() {
    let scratch = Scratch::new();
    let text = module(
        "static void foo_cong_avoid(struct sock *sk, u32 ack, u32 acked)\n{\n\
         \tif (tcp_snd_cwnd(tcp_sk(sk)) > 20)\n\t\ttcp_enter_cwr(sk);\n\telse\n\t\ttcp_reno_cong_avoid(sk, ack, acked);\n}\n",
        "",
        "",
    )
    .replace(".cong_avoid = tcp_reno_cong_avoid", ".cong_avoid = foo_cong_avoid");
    let file = scratch.write("tcp_cwr.c", &text);
    let flows = scratch.run("", &cc(&file)).unwrap()("flows.csv");
    let mut lines = flows.lines();
    let mut names = lines.next().unwrap().split(',');
    let column = names.position(|name| name == "cwr_reductions").unwrap();
    for line in lines {
        let reductions: u32 = line.split(',').nth(column).unwrap().parse().unwrap();
        assert!(reductions >= 2, "{flows}");
    }
}
