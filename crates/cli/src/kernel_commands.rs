//! The commands that work on the running kernel. A knee without its kernel side has them, too, to say what it lacks.

/// Gives a macro the list: what each does, its name, and its module below `kernel`.
macro_rules! kernel_commands {
    ($of_list:ident) => {
        $of_list! {
            /// Register an algorithm with the running kernel.
            Load(load),
            /// Make an algorithm on trial permanent.
            Confirm(confirm),
            /// Undo a load and restore the host.
            Unload(unload),
            /// Choose algorithm and ECN per connection, by rules.
            Policy(policy),
            /// Change IPv6 flow labels for algorithms that change paths (PLB).
            Plb(plb),
            /// Show what knee has loaded into this kernel, and its users.
            Status(status),
            /// Watch live connections and the internal values of their algorithms.
            Top(top),
            /// Give live connections or listeners another algorithm.
            Migrate(migrate),
            /// Record every call of a registered algorithm, with its inputs and effects.
            Trace(trace),
        }
    };
}
pub(crate) use kernel_commands;
