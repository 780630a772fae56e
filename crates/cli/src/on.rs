//! What runs experiments: `--on`, and the flags that say how.

#[derive(clap::Args)]
pub(crate) struct On {
    /// Slower and longer: every rate times S, every time divided by S, above 0 and at most 1, for machines that
    /// the experiment is too fast for.
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    pub(crate) scale: f64,
    /// The Linux that hosts behave like, as 6.12, in place of hosts.linux; running: the running kernel's version
    /// and HZ, or the nearest before it [default with --on lab: running; with --on vkernel: the kernel that runs]
    #[arg(long, value_name = "VERSION")]
    pub(crate) profile: Option<String>,
    /// Whether hosts of the lab hand large segments to their devices, which the switch cuts up [default: off]
    #[arg(long, value_name = "on|off")]
    pub(crate) offloads: Option<Offloads>,
    /// What names of algorithms mean in the lab and in the kernel in virtual time: knee's, or the kernel's own [default: knee]
    #[arg(long, value_name = "knee|kernel")]
    pub(crate) algorithms: Option<Which>,
    /// What runs it: sim, the simulator; vkernel, a Linux kernel in virtual time (knee vkernel build), vkernel=6.12 of that version;
    /// lab, the running kernel's TCP in namespaces; hosts=FILE, the real machines that FILE names, over ssh.
    #[arg(long = "on", value_name = "BACK END", default_value = "sim")]
    pub(crate) back_end: String,
}

/// Whether offloads are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Offloads {
    /// TSO, GSO and GRO.
    On,
    /// Each packet for itself.
    Off,
}

/// Whose algorithms are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Which {
    /// The files of knee.
    Knee,
    /// The kernel's own of the same name.
    Kernel,
}
